"""Asks a gateway whose upstream answers in odd forms, by the package openai, and prints what it has got as a line of
JSON."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
messages = [{"role": "user", "content": "hello"}]
got = {}

whole = client.chat.completions.create(model="gzip", messages=messages)
got["gzip"], got["tokens"] = whole.choices[0].message.content, whole.usage.completion_tokens


def streamed(model):
    return "".join(c.choices[0].delta.content or "" for c in client.chat.completions.create(model=model, messages=messages, stream=True) if c.choices)


for form in ("gzip", "mark", "cr"):
    got[form + "_streamed"] = streamed(form)
try:
    streamed("done")
except openai.APIError as e:
    got["done"] = e.message

for end in ("failed", "cut"):
    last = [event for event in client.responses.create(model=end, input="hello", stream=True)][-1]
    got[end] = [last.type, last.sequence_number, last.response.id, last.response.status, last.response.error.code]
    got[end + "_tokens"] = last.response.usage.output_tokens if last.response.usage else None
print(json.dumps(got))
