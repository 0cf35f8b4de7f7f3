"""Asks a gateway for embeddings of models whose servers have different forms, by the package openai, and prints what it has got
of each as a line of JSON."""

import json
import sys

import openai

base, key, *models = sys.argv[1:]
client = openai.OpenAI(base_url=base, api_key=key, max_retries=0)


def tries(**request):
    try:
        client.embeddings.create(**request)
    except openai.APIStatusError as e:
        return [type(e).__name__, e.status_code]


got = {}
for model in models:
    made = client.embeddings.create(model=model, input=["a", "four"], dimensions=2)
    got[model] = {
        "several": [[round(v, 3) for v in d.embedding] for d in made.data],
        "tokens": made.usage.total_tokens,
        "one": [round(v, 3) for v in client.embeddings.create(model=model, input=["hello"], encoding_format="float").data[0].embedding],
        "refused": tries(model=model, input=["refused"]),
        "user": tries(model=model, input=["hello"], user="u"),
        "limited": tries(model=model, input=["limited"]),  # the last: it stops others
    }
print(json.dumps(got))
