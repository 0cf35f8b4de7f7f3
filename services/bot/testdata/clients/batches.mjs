// Makes batches at a gateway, by the package openai, and prints what it has got as a line of JSON.
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

const line = { custom_id: "1", method: "POST", url: "/v1/chat/completions", body: { model, messages: [{ role: "user", content: "hello" }] } };
const file = await client.files.create({ file: await toFile(Buffer.from(JSON.stringify(line)), "in.jsonl"), purpose: "batch" });
got.file = (await client.files.retrieve(file.id)).purpose;
const create = () => client.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" });
let batch = await create();
got.batch = [batch.status];
for (let i = 0; i < 2; i++) {
  batch = await client.batches.retrieve(batch.id);
  got.batch.push(batch.status);
}
got.output = JSON.parse(await (await client.files.content(batch.output_file_id)).text()).custom_id;
got.cancelled = (await client.batches.cancel((await create()).id)).status;
got.lists = [(await all(client.files.list({ limit: 1 }))).length, (await all(client.batches.list({ limit: 1 }))).length];
console.log(JSON.stringify(got));
