"""Asks a gateway for models whose servers speak other dialects, by the package litellm, in OpenAI's form and in
Anthropic's, and prints what it has got of each as a line of JSON."""

import json
import os
import sys
import warnings

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it asks nobody else
import litellm
import openai
from pydantic import BaseModel

warnings.simplefilter("ignore")  # pydantic's, of messages that are sent back
litellm.suppress_debug_info, litellm.telemetry = True, False

base, key, other, *models = sys.argv[1:]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BASES = {"openai": base + "/v1", "anthropic": base}


class Weather(BaseModel):
    city: str
    degrees: int


def said(text):
    return [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]


def whole(model, messages, **more):
    return litellm.completion(model=model, api_base=BASES[model.split("/")[0]], api_key=key, messages=messages, max_retries=0, **more)


def streamed(model, messages, **more):
    return litellm.stream_chunk_builder(list(whole(model, messages, stream=True, stream_options={"include_usage": True}, **more)), messages=messages)


def chat(model, ask):
    got = {}
    plain = ask(model, said("hello"), temperature=0.5, max_tokens=100, stop=["END"])
    u = plain.usage
    got["text"], got["finish"] = plain.choices[0].message.content, plain.choices[0].finish_reason
    got["usage"] = [u.prompt_tokens, u.prompt_tokens_details.cached_tokens if u.prompt_tokens_details else 0, u.completion_tokens]
    tools = [{"type": "function", "function": {"name": "weather", "description": "Tells the weather.", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
    messages = said("call")
    called = ask(model, messages, tools=tools).choices[0]
    got["calls"] = [called.finish_reason, called.message.content] + [[c.function.name, json.loads(c.function.arguments)] for c in called.message.tool_calls]
    messages.append(called.message)
    for n, c in enumerate(called.message.tool_calls):
        messages.append({"role": "tool", "tool_call_id": c.id, "content": f"rain {n}"})
    got["after"] = ask(model, messages, tools=tools).choices[0].message.content
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}
    got["image"] = ask(model, [{"role": "user", "content": [picture, {"type": "text", "text": "image"}]}]).choices[0].message.content
    return got


def tries(ask):
    try:
        return ask()
    except openai.APIError as e:  # litellm's are of these
        return [type(e).__name__, e.status_code, "vendor's reason" in e.message]


got = {}
for name in models:
    for form in BASES:
        model = form + "/" + name
        g = got[model] = {"whole": chat(model, whole), "streamed": chat(model, streamed)}
        g["schema"] = tries(lambda: json.loads(whole(model, said("schema"), response_format=Weather).choices[0].message.content))
        g["stops"] = [whole(model, said(text)).choices[0].finish_reason for text in ("length", "filter")]
        g["errors"] = [tries(lambda: whole(model, said(text))) for text in ("400", "401", "429")]
e = litellm.embedding(model="openai/dyno-1", api_base=other + "/v1", api_key=key, input=["a"])
got["embedding"] = [e.data[0]["embedding"][:2], e.usage.prompt_tokens]
print(json.dumps(got))
