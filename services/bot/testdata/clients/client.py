"""Asks a gateway by the package openai, as its documentation shows, and prints what it
has got as a line of JSON."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
messages = [{"role": "user", "content": "hello"}]
tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
got = {"models": [m.id for m in client.models.list()]}

whole = client.chat.completions.create(model="dyno-1", messages=messages)
got["whole"], got["tokens"] = whole.choices[0].message.content, whole.usage.completion_tokens

text, used = "", None
for chunk in client.chat.completions.create(model="dyno-1", messages=messages, stream=True, stream_options={"include_usage": True}):
    text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
    used = chunk.usage or used
got["streamed"], got["streamed_tokens"] = text, used.completion_tokens

called = client.chat.completions.create(model="dyno-1", messages=messages, tools=tools).choices[0].message.tool_calls[0]
got["tool"] = [called.function.name, sorted(json.loads(called.function.arguments))]
arguments = ""
for chunk in client.chat.completions.create(model="dyno-1", messages=messages, tools=tools, stream=True):
    for call in chunk.choices[0].delta.tool_calls or []:
        arguments += call.function.arguments or ""
got["tool_streamed"] = arguments == called.function.arguments

got["response"] = client.responses.create(model="dyno-1", input="hello").output_text
text, completed = "", ""
for event in client.responses.create(model="dyno-1", input="hello", stream=True):
    if event.type == "response.output_text.delta":
        text += event.delta
    elif event.type == "response.completed":
        completed = event.response.output_text
got["response_streamed"], got["response_completed"] = text, completed

got["errors"] = []
for ask in [
    lambda: client.chat.completions.create(model="other", messages=messages),
    lambda: openai.OpenAI(base_url=sys.argv[1], api_key="wrong", max_retries=0).models.list(),
]:
    try:
        ask()
    except openai.APIStatusError as e:
        got["errors"].append([type(e).__name__, e.status_code])
print(json.dumps(got))
