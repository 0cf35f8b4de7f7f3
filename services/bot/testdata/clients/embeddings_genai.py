"""Asks a gateway for embeddings of models whose servers have different forms, by the package google-genai, and prints what it
has got of each as a line of JSON."""

import json
import sys

from google import genai
from google.genai import errors, types

base, key, *models = sys.argv[1:]
client = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=base))


def embed(model, contents, **config):
    return client.models.embed_content(model=model, contents=contents, config=types.EmbedContentConfig(**config))


def tries(model, contents, **config):
    try:
        embed(model, contents, **config)
    except errors.APIError as e:
        return [type(e).__name__, e.code, e.status, e.message]


got = {}
for model in models:
    several = [types.Content(parts=[types.Part(text=text)]) for text in ("a", "four")]
    made = embed(model, several, output_dimensionality=2)
    got[model] = {
        "several": [e.values for e in made.embeddings],
        "tokens": made.usage_metadata.prompt_token_count,
        "one": embed(model, "hello").embeddings[0].values,
        "refused": tries(model, "refused")[:3],
        "task": tries(model, "hello", task_type="CLUSTERING"),
        "limited": tries(model, "limited")[:3],  # the last: it stops others
    }
print(json.dumps(got))
