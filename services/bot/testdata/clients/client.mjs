// Asks a gateway by the package openai, as its documentation shows, and prints what it
// has got as a line of JSON.
import OpenAI from "openai";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const model = "dyno-1";
const messages = [{ role: "user", content: "hello" }];
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } } }];
const got = { models: (await client.models.list()).data.map((m) => m.id) };

const whole = await client.chat.completions.create({ model, messages });
got.whole = whole.choices[0].message.content;
got.tokens = whole.usage.completion_tokens;

got.streamed = "";
for await (const chunk of await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } })) {
  got.streamed += chunk.choices[0]?.delta.content ?? "";
  got.streamed_tokens = chunk.usage?.completion_tokens ?? got.streamed_tokens;
}

const called = (await client.chat.completions.create({ model, messages, tools })).choices[0].message.tool_calls[0];
got.tool = [called.function.name, Object.keys(JSON.parse(called.function.arguments)).sort()];
let given = "";
for await (const chunk of await client.chat.completions.create({ model, messages, tools, stream: true })) {
  for (const call of chunk.choices[0].delta.tool_calls ?? []) given += call.function.arguments ?? "";
}
got.tool_streamed = given === called.function.arguments;

got.response = (await client.responses.create({ model, input: "hello" })).output_text;
got.response_streamed = "";
for await (const event of await client.responses.create({ model, input: "hello", stream: true })) {
  if (event.type === "response.output_text.delta") got.response_streamed += event.delta;
  if (event.type === "response.completed") got.response_completed = event.response.output.flatMap((o) => o.content.map((c) => c.text)).join("");
}

got.errors = [];
for (const ask of [
  () => client.chat.completions.create({ model: "other", messages }),
  () => new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 }).models.list(),
]) {
  try {
    await ask();
  } catch (e) {
    got.errors.push([e.constructor.name, e.status]);
  }
}
console.log(JSON.stringify(got));
