"""Asks a gateway for models whose servers speak other dialects, by the package langchain-openai, and prints what it has
got of each as a line of JSON."""

import json
import sys
import warnings

import openai
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

warnings.simplefilter("ignore")  # pydantic's, of messages that have what was parsed

base, key, *models = sys.argv[1:]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Weather(BaseModel):
    city: str
    degrees: int


turns = iter(range(100))


@tool
def weather(city: str) -> str:
    """Tells the weather."""
    return f"rain {next(turns)}"


def of(model, **settings):
    return ChatOpenAI(base_url=base, api_key=key, model=model, max_retries=0, **settings)


def said(text):
    return [SystemMessage("be brief"), HumanMessage(text)]


def whole(llm, messages):
    return llm.invoke(messages)


def streamed(llm, messages):
    message = None
    for chunk in llm.stream(messages):
        message = chunk if message is None else message + chunk
    return message


def chat(llm, ask):
    global turns
    got = {}
    plain = ask(llm, said("hello"))
    used = plain.usage_metadata
    got["text"], got["finish"] = plain.text, plain.response_metadata.get("finish_reason")
    got["usage"] = [used["input_tokens"], used["input_token_details"]["cache_read"], used["output_tokens"], used["output_token_details"]["reasoning"]]
    bound = llm.bind_tools([weather], strict=True, parallel_tool_calls=True)
    called = ask(bound, said("call"))
    got["calls"] = [called.text] + [[c["name"], c["args"]] for c in called.tool_calls]
    turns = iter(range(100))
    got["after"] = ask(bound, [*said("call"), called, *[weather.invoke(c) for c in called.tool_calls]]).text
    picture = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    got["image"] = ask(llm, [HumanMessage([picture, {"type": "text", "text": "image"}])]).text
    return got


def tries(ask):
    try:
        ask()
    except openai.APIStatusError as e:
        return [isinstance(e, openai.BadRequestError), e.status_code, "vendor's reason" in e.message]
    except openai.APIError as e:
        return [type(e).__name__, "Overloaded" in e.message]
    return None


got = {}
for model in models:
    llm = of(model, stream_usage=True, temperature=0.5, max_tokens=100)
    g = got[model] = {"whole": chat(llm, whole), "streamed": chat(llm, streamed)}
    g["parsed"] = llm.with_structured_output(Weather).invoke("schema").model_dump()
    g["stops"] = [llm.invoke(text).response_metadata["finish_reason"] for text in ("length", "filter")]
    g["errors"] = [tries(lambda: llm.invoke(text)) for text in ("400", "401", "429", "529")]
    g["broken"] = tries(lambda: streamed(llm, said("broken")))
    if model != "azure":  # whose responses pass as they are
        llm = of(model, use_responses_api=True)
        g["response"], g["response_streamed"] = chat(llm, whole), chat(llm, streamed)
print(json.dumps(got))
