// Asks a gateway for what it passes on, by the package openai, and prints what it has got as a line of JSON.
import OpenAI, { toFile } from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const model = "dyno-1";
const got = {};

const made = await client.embeddings.create({ model, input: "The food was delicious", encoding_format: "float" });
got.embedding = made.data[0].embedding;
got.embedding_tokens = made.usage.total_tokens;
got.flagged = (await client.moderations.create({ model, input: "hello" })).results[0].flagged;
got.completion = (await client.completions.create({ model, prompt: "Say this" })).choices[0].text;
got.streamed = "";
for await (const c of await client.completions.create({ model, prompt: "Say this", stream: true })) got.streamed += c.choices[0].text;
const drawn = await client.images.generate({ model, prompt: "an otter", n: 2 });
got.images = drawn.data.map((i) => i.b64_json);
got.image_tokens = drawn.usage.total_tokens;
got.spoken = (await (await client.audio.speech.create({ model, voice: "alloy", input: "hello" })).arrayBuffer()).byteLength;
const file = (name) => toFile(Buffer.alloc(70_000, 1), name);
got.heard = (await client.audio.transcriptions.create({ file: await file("speech.mp3"), model })).text;
got.edited = (await client.images.edit({ image: await file("otter.png"), prompt: "a hat", model })).data[0].b64_json;
try {
  await client.embeddings.create({ model: "other", input: "hello" });
} catch (e) {
  got.error = [e.constructor.name, e.status];
}
console.log(JSON.stringify(got));
