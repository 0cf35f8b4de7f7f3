"""Asks a gateway for what it passes on, by the package openai, and prints what it has got as a line of JSON."""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
model = "dyno-1"
got = {}

made = client.embeddings.create(model=model, input="The food was delicious", encoding_format="float")
got["embedding"], got["embedding_tokens"] = made.data[0].embedding, made.usage.total_tokens
got["flagged"] = client.moderations.create(model=model, input="hello").results[0].flagged
got["completion"] = client.completions.create(model=model, prompt="Say this").choices[0].text
got["streamed"] = "".join(c.choices[0].text for c in client.completions.create(model=model, prompt="Say this", stream=True))
drawn = client.images.generate(model=model, prompt="an otter", n=2)
got["images"], got["image_tokens"] = [i.b64_json for i in drawn.data], drawn.usage.total_tokens
with client.audio.speech.with_streaming_response.create(model=model, voice="alloy", input="hello") as spoken:
    got["spoken"] = sum(len(piece) for piece in spoken.iter_bytes())
got["heard"] = client.audio.transcriptions.create(model=model, file=("speech.mp3", b"\x01" * 70_000)).text
got["edited"] = client.images.edit(model=model, prompt="a hat", image=("otter.png", b"\x01" * 70_000)).data[0].b64_json
try:
    client.embeddings.create(model="other", input="hello")
except openai.APIStatusError as e:
    got["error"] = [type(e).__name__, e.status_code]
print(json.dumps(got))
