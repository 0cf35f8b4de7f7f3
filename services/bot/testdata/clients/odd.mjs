// Asks a gateway whose upstream answers in odd forms, by the package openai, and prints what it has got as a line of
// JSON.
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "hello" }];
const got = {};

const whole = await client.chat.completions.create({ model: "gzip", messages });
got.gzip = whole.choices[0].message.content;
got.tokens = whole.usage.completion_tokens;

const streamed = async (model) => {
  let text = "";
  for await (const chunk of await client.chat.completions.create({ model, messages, stream: true })) text += chunk.choices[0]?.delta.content ?? "";
  return text;
};
for (const form of ["gzip", "mark", "cr"]) got[`${form}_streamed`] = await streamed(form);
try {
  await streamed("done");
} catch (e) {
  if (!(e instanceof OpenAI.APIError)) throw e;
  got.done = e.error.message;
}

for (const end of ["failed", "cut"]) {
  let last;
  for await (const event of await client.responses.create({ model: end, input: "hello", stream: true })) last = event;
  got[end] = [last.type, last.sequence_number, last.response.id, last.response.status, last.response.error.code];
  got[`${end}_tokens`] = last.response.usage?.output_tokens ?? null;
}
console.log(JSON.stringify(got));
