"""Asks a gateway for models whose servers speak other dialects, by the package openai, and prints what it has got of
each as a line of JSON."""

import json
import sys
import warnings

import openai
from pydantic import BaseModel

warnings.simplefilter("ignore")  # pydantic's, of messages that are sent back

base, key, *models = sys.argv[1:]
client = openai.OpenAI(base_url=base, api_key=key, max_retries=0)
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Weather(BaseModel):
    city: str
    degrees: int


class weather(BaseModel):
    city: str


def said(text):
    return [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]


def whole(model, messages, **more):
    return client.chat.completions.create(model=model, messages=messages, **more)


def streamed(model, messages, **more):
    with client.chat.completions.stream(model=model, messages=messages, stream_options={"include_usage": True}, **more) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion()


def used(usage):
    return [usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens, usage.completion_tokens, usage.completion_tokens_details.reasoning_tokens]


def chat(model, ask):
    got = {}
    plain = ask(model, said("hello"), temperature=0.5, max_tokens=100, stop=["END"])
    got["text"], got["finish"], got["usage"] = plain.choices[0].message.content, plain.choices[0].finish_reason, used(plain.usage)
    thinking = ask(model, said("think"), reasoning_effort="low").choices[0].message
    got["thinking"] = [getattr(thinking, "reasoning_content", None) or getattr(thinking, "reasoning", None), thinking.content]
    tools = [openai.pydantic_function_tool(weather, description="Tells the weather.")]
    messages = said("call")
    called = ask(model, messages, tools=tools, parallel_tool_calls=True).choices[0]
    got["calls"] = [called.finish_reason, called.message.content] + [[c.function.name, json.loads(c.function.arguments)] for c in called.message.tool_calls]
    messages.append(called.message)
    for n, c in enumerate(called.message.tool_calls):
        messages.append({"role": "tool", "tool_call_id": c.id, "content": f"rain {n}"})
    got["after"] = ask(model, messages, tools=tools).choices[0].message.content
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}
    got["image"] = ask(model, [{"role": "user", "content": [picture, {"type": "text", "text": "image"}]}]).choices[0].message.content
    schema = {"type": "json_schema", "json_schema": {"name": "w", "strict": True, "schema": Weather.model_json_schema() | {"additionalProperties": False}}}
    got["schema"] = ask(model, said("schema"), response_format=schema).choices[0].message.content
    return got


def tries(ask):
    try:
        ask()
    except openai.APIStatusError as e:
        return [type(e).__name__, e.status_code, "vendor's reason" in e.message]
    except openai.APIError as e:
        return [type(e).__name__, "Overloaded" in e.message]
    return None


def reads(ask):
    for _ in ask:
        pass


def incomplete(response):
    return [response.status, response.incomplete_details.reason if response.incomplete_details else None, response.output_text]


def follow(model, text, **more):
    with client.responses.stream(model=model, input=text, instructions="be brief", **more) as stream:
        return [event.response for event in stream if event.type in ("response.completed", "response.incomplete")][-1]


def make(model, text, **more):
    return client.responses.create(model=model, input=text, instructions="be brief", **more)


def responses(model, ask):
    got = {}
    plain = ask(model, "hello", temperature=0.5, max_output_tokens=100)
    got["text"], got["status"] = plain.output_text, plain.status
    u = plain.usage
    got["usage"] = [u.input_tokens, u.input_tokens_details.cached_tokens, u.output_tokens, u.output_tokens_details.reasoning_tokens]
    thought = ask(model, "think", reasoning={"effort": "low", "summary": "auto"})
    got["thinking"] = [[s.text for o in thought.output if o.type == "reasoning" for s in o.summary + (o.content or [])], thought.output_text]
    tools = [{"type": "function", "name": "weather", "description": "Tells the weather.", "parameters": weather.model_json_schema() | {"additionalProperties": False}, "strict": True}]
    called = ask(model, "call", tools=tools)
    calls = [o for o in called.output if o.type == "function_call"]
    got["calls"] = [called.output_text] + [[c.name, json.loads(c.arguments)] for c in calls]
    turn = [{"role": "user", "content": "call"}, *called.output]
    got["after"] = ask(model, turn + [{"type": "function_call_output", "call_id": c.call_id, "output": f"rain {n}"} for n, c in enumerate(calls)], tools=tools).output_text
    got["image"] = ask(model, [{"role": "user", "content": [{"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64," + PIXEL}, {"type": "input_text", "text": "image"}]}]).output_text
    got["length"] = incomplete(ask(model, "length", max_output_tokens=100))
    return got


got = {}
for model in models:
    g = got[model] = {"whole": chat(model, whole), "streamed": chat(model, streamed)}
    message = client.chat.completions.parse(model=model, messages=said("schema"), response_format=Weather).choices[0].message
    g["parsed"] = message.parsed.model_dump()
    g["after_parsed"] = whole(model, [*said("schema"), message, {"role": "user", "content": "hello"}]).choices[0].message.content
    g["stops"] = [whole(model, said(text)).choices[0].finish_reason for text in ("length", "filter")]
    g["errors"] = [tries(lambda: whole(model, said(text))) for text in ("400", "401", "429", "529")]
    g["broken"] = tries(lambda: reads(whole(model, said("broken"), stream=True)))
    if model == "azure":
        continue  # whose responses pass as they are
    g["response"], g["response_streamed"] = responses(model, make), responses(model, follow)
    g["response_parsed"] = client.responses.parse(model=model, input="schema", text_format=Weather).output_parsed.model_dump()
    g["response_filtered"] = incomplete(make(model, "filter"))
    g["response_broken"] = [e.type for e in client.responses.create(model=model, input="broken", stream=True)][-1]
print(json.dumps(got))
