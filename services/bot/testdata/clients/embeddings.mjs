// Asks a gateway for embeddings of models whose servers have different forms, by the package openai, and prints what it has got
// of each as a line of JSON.
import OpenAI from "openai";

const [base, key, ...models] = process.argv.slice(2);
const client = new OpenAI({ baseURL: base, apiKey: key, maxRetries: 0 });
const rounded = (list) => list.map((v) => Math.round(v * 1000) / 1000);

async function tries(request) {
  try {
    await client.embeddings.create(request);
    return null;
  } catch (e) {
    return [e.constructor.name, e.status];
  }
}

const got = {};
for (const model of models) {
  const made = await client.embeddings.create({ model, input: ["a", "four"], dimensions: 2 });
  const one = await client.embeddings.create({ model, input: ["hello"], encoding_format: "float" });
  got[model] = {
    several: made.data.map((d) => rounded(d.embedding)),
    tokens: made.usage.total_tokens,
    one: rounded(one.data[0].embedding),
    refused: await tries({ model, input: ["refused"] }),
    user: await tries({ model, input: ["hello"], user: "u" }),
    limited: await tries({ model, input: ["limited"] }), // the last: it stops others
  };
}
console.log(JSON.stringify(got));
