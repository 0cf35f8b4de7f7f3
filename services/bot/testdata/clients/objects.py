"""Uses what a gateway keeps at its upstreams, by the package openai, and prints what it has got as a line of JSON."""

import io
import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key=sys.argv[2], max_retries=0)
model = "dyno-1"
got = {}

made = client.responses.create(model=model, input="hi", background=True)
ended = client.responses.retrieve(made.id)
got["background"] = [made.status, ended.status, ended.usage.total_tokens, ended.output_text]
got["streamed"] = [event.type for event in client.responses.retrieve(made.id, stream=True, starting_after=1)][-1]
got["items"] = next(iter(client.responses.input_items.list(made.id))).content[0].text
got["continued"] = client.responses.create(model=model, input="more", previous_response_id=made.id).output_text
got["cancelled"] = client.responses.cancel(client.responses.create(model=model, input="hi", background=True).id).status
client.responses.delete(made.id)
try:
    client.responses.retrieve(made.id)
except openai.APIStatusError as e:
    got["deleted"] = e.status_code

file = client.files.create(file=("a.txt", io.BytesIO(b"hello")), purpose="user_data")
client.files.create(file=("b.txt", io.BytesIO(b"hi")), purpose="user_data")
got["file"] = [file.status, client.files.retrieve(file.id).purpose]
got["content"] = client.files.content(file.id).text
got["files"] = len(list(client.files.list(limit=1)))
got["file_deleted"] = client.files.delete(file.id).deleted

talk = client.conversations.create(items=[{"type": "message", "role": "user", "content": "hi"}])
client.conversations.items.create(talk.id, items=[{"type": "message", "role": "user", "content": "more"}])
said = client.responses.create(model=model, input="hi", conversation=talk.id)
client.responses.create(model=model, input=[{"type": "item_reference", "id": said.output[0].id}], conversation={"id": talk.id})
items = list(client.conversations.items.list(talk.id))
got["conversation"] = [client.conversations.retrieve(talk.id).id == talk.id, len(items), client.conversations.items.retrieve(items[0].id, conversation_id=talk.id).id == items[0].id]
got["conversation_updated"] = client.conversations.update(talk.id, metadata={"a": "b"}).metadata["a"]
got["conversation_deleted"] = client.conversations.delete(talk.id).deleted
store = client.vector_stores.create(name="n")
client.vector_stores.files.create(store.id, file_id=client.files.create(file=("c.txt", io.BytesIO(b"c")), purpose="assistants").id)
found = client.responses.create(model=model, input="hi", tools=[{"type": "file_search", "vector_store_ids": [store.id]}])
got["vector_store"] = [store.status, [s.id for s in client.vector_stores.list()] == [store.id], found.output_text, client.vector_stores.delete(store.id).deleted]
print(json.dumps(got))
