"""Asks a gateway by the package anthropic, as its documentation shows, and prints what it
has got as a line of JSON."""

import json
import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
messages = [{"role": "user", "content": "hello"}]
tools = [{"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
asked = {"model": "dyno-1", "max_tokens": 64, "messages": messages}
got = {"models": [m.id for m in client.models.list()]}

whole = client.messages.create(**asked)
got["whole"], got["tokens"], got["stop"] = whole.content[0].text, whole.usage.output_tokens, whole.stop_reason

with client.messages.stream(**asked) as stream:
    got["streamed"] = "".join(stream.text_stream)
    got["streamed_tokens"] = stream.get_final_message().usage.output_tokens

called = client.messages.create(**asked, tools=tools).content[-1]
got["tool"] = [called.type, called.name, sorted(called.input)]
with client.messages.stream(**asked, tools=tools) as stream:
    got["tool_streamed"] = stream.get_final_message().content[-1].input == called.input

got["counted"] = client.messages.count_tokens(model="dyno-1", messages=messages).input_tokens > 0

got["errors"] = []
for ask in [
    lambda: client.messages.create(**{**asked, "model": "other"}),
    lambda: anthropic.Anthropic(base_url=sys.argv[1], api_key="wrong", max_retries=0).messages.create(**asked),
    lambda: client.messages.create(**{**asked, "messages": []}),
]:
    try:
        ask()
    except anthropic.APIStatusError as e:
        got["errors"].append([type(e).__name__, e.status_code, e.body["error"]["type"]])
print(json.dumps(got))
