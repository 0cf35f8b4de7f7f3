// Uses what a gateway keeps at its upstreams, by the package openai, and prints what it has got as a line of JSON.
import OpenAI, { toFile } from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const model = "dyno-1";
const got = {};
const all = async (list) => {
  const items = [];
  for await (const item of list) items.push(item);
  return items;
};

const made = await client.responses.create({ model, input: "hi", background: true });
const ended = await client.responses.retrieve(made.id);
got.background = [made.status, ended.status, ended.usage.total_tokens, ended.output_text];
got.streamed = (await all(await client.responses.retrieve(made.id, { stream: true, starting_after: 1 }))).at(-1).type;
got.items = (await all(client.responses.inputItems.list(made.id)))[0].content[0].text;
got.continued = (await client.responses.create({ model, input: "more", previous_response_id: made.id })).output_text;
got.cancelled = (await client.responses.cancel((await client.responses.create({ model, input: "hi", background: true })).id)).status;
await client.responses.delete(made.id);
try {
  await client.responses.retrieve(made.id);
} catch (e) {
  got.deleted = e.status;
}

const file = await client.files.create({ file: await toFile(Buffer.from("hello"), "a.txt"), purpose: "user_data" });
await client.files.create({ file: await toFile(Buffer.from("hi"), "b.txt"), purpose: "user_data" });
got.file = [file.status, (await client.files.retrieve(file.id)).purpose];
got.content = await (await client.files.content(file.id)).text();
got.files = (await all(client.files.list({ limit: 1 }))).length;
got.file_deleted = (await client.files.delete(file.id)).deleted;

const talk = await client.conversations.create({ items: [{ type: "message", role: "user", content: "hi" }] });
await client.conversations.items.create(talk.id, { items: [{ type: "message", role: "user", content: "more" }] });
const said = await client.responses.create({ model, input: "hi", conversation: talk.id });
await client.responses.create({ model, input: [{ type: "item_reference", id: said.output[0].id }], conversation: { id: talk.id } });
const items = await all(client.conversations.items.list(talk.id));
const again = await client.conversations.items.retrieve(items[0].id, { conversation_id: talk.id });
got.conversation = [(await client.conversations.retrieve(talk.id)).id === talk.id, items.length, again.id === items[0].id];
got.conversation_updated = (await client.conversations.update(talk.id, { metadata: { a: "b" } })).metadata.a;
got.conversation_deleted = (await client.conversations.delete(talk.id)).deleted;
const store = await client.vectorStores.create({ name: "n" });
const stored = await client.files.create({ file: await toFile(Buffer.from("c"), "c.txt"), purpose: "assistants" });
await client.vectorStores.files.create(store.id, { file_id: stored.id });
const found = await client.responses.create({ model, input: "hi", tools: [{ type: "file_search", vector_store_ids: [store.id] }] });
const stores = (await all(client.vectorStores.list())).map((s) => s.id);
got.vector_store = [store.status, stores.join() === store.id, found.output_text, (await client.vectorStores.delete(store.id)).deleted];
console.log(JSON.stringify(got));
