"""Makes batches at a gateway, by the package openai, and prints what it has got as a line of JSON."""

import io
import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
model = "dyno-1"
got = {}

line = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": model, "messages": [{"role": "user", "content": "hello"}]}}
text = io.BytesIO(json.dumps(line).encode())
file = client.files.create(file=("in.jsonl", text), purpose="batch")
got["file"] = client.files.retrieve(file.id).purpose
batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
got["batch"] = [batch.status] + [(batch := client.batches.retrieve(batch.id)).status for _ in range(2)]
got["output"] = json.loads(client.files.content(batch.output_file_id).text)["custom_id"]
second = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
got["cancelled"] = client.batches.cancel(second.id).status
got["lists"] = [len(list(client.files.list(limit=1))), len(list(client.batches.list(limit=1)))]
print(json.dumps(got))
