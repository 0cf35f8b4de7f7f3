// Asks a gateway for models whose servers speak other dialects, by the package openai, and prints what it has got of
// each as a line of JSON.
import OpenAI from "openai";

const [baseURL, apiKey, ...models] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const object = (properties) => ({ type: "object", properties, required: Object.keys(properties), additionalProperties: false });
const city = object({ city: { type: "string" } });
const weather = object({ city: { type: "string" }, degrees: { type: "integer" } });
const said = (text) => [{ role: "system", content: "be brief" }, { role: "user", content: text }];

const whole = (model, messages, more) => client.chat.completions.create({ model, messages, ...more });
const streamed = (model, messages, more) => client.chat.completions.stream({ model, messages, stream_options: { include_usage: true }, ...more }).finalChatCompletion();

async function chat(model, ask) {
  const got = {};
  const plain = await ask(model, said("hello"), { temperature: 0.5, max_tokens: 100, stop: ["END"] });
  [got.text, got.finish] = [plain.choices[0].message.content, plain.choices[0].finish_reason];
  const used = plain.usage;
  got.usage = [used.prompt_tokens, used.prompt_tokens_details.cached_tokens, used.completion_tokens, used.completion_tokens_details.reasoning_tokens];
  const thinking = (await ask(model, said("think"), { reasoning_effort: "low" })).choices[0].message;
  got.thinking = [thinking.reasoning_content || thinking.reasoning || null, thinking.content];
  const tools = [{ type: "function", function: { name: "weather", description: "Tells the weather.", parameters: city, strict: true } }];
  const called = (await ask(model, said("call"), { tools, parallel_tool_calls: true })).choices[0];
  got.calls = [called.finish_reason, called.message.content, ...called.message.tool_calls.map((c) => [c.function.name, JSON.parse(c.function.arguments)])];
  const results = called.message.tool_calls.map((c, n) => ({ role: "tool", tool_call_id: c.id, content: `rain ${n}` }));
  got.after = (await ask(model, [...said("call"), called.message, ...results], { tools })).choices[0].message.content;
  const parts = [{ type: "image_url", image_url: { url: picture } }, { type: "text", text: "image" }];
  got.image = (await ask(model, [{ role: "user", content: parts }])).choices[0].message.content;
  const response_format = { type: "json_schema", json_schema: { name: "w", strict: true, schema: weather } };
  got.schema = (await ask(model, said("schema"), { response_format })).choices[0].message.content;
  return got;
}

async function tries(ask) {
  try {
    await ask();
  } catch (e) {
    return e.status ? [e.constructor.name, e.status, e.message.includes("vendor's reason")] : [e.constructor.name, e.message.includes("Overloaded")];
  }
  return null;
}

const make = (model, input, more) => client.responses.create({ model, input, instructions: "be brief", ...more });
const follow = (model, input, more) => client.responses.stream({ model, input, instructions: "be brief", ...more }).finalResponse();
const incomplete = (r) => [r.status, r.incomplete_details?.reason ?? null, r.output_text];

async function responses(model, ask) {
  const got = {};
  const plain = await ask(model, "hello", { temperature: 0.5, max_output_tokens: 100 });
  [got.text, got.status] = [plain.output_text, plain.status];
  const used = plain.usage;
  got.usage = [used.input_tokens, used.input_tokens_details.cached_tokens, used.output_tokens, used.output_tokens_details.reasoning_tokens];
  const thought = await ask(model, "think", { reasoning: { effort: "low", summary: "auto" } });
  const texts = thought.output.filter((o) => o.type === "reasoning").flatMap((o) => [...o.summary, ...(o.content ?? [])].map((s) => s.text));
  got.thinking = [texts, thought.output_text];
  const tools = [{ type: "function", name: "weather", description: "Tells the weather.", parameters: city, strict: true }];
  const called = await ask(model, "call", { tools });
  const calls = called.output.filter((o) => o.type === "function_call");
  got.calls = [called.output_text, ...calls.map((c) => [c.name, JSON.parse(c.arguments)])];
  const results = calls.map((c, n) => ({ type: "function_call_output", call_id: c.call_id, output: `rain ${n}` }));
  got.after = (await ask(model, [{ role: "user", content: "call" }, ...called.output, ...results], { tools })).output_text;
  const content = [{ type: "input_image", detail: "auto", image_url: picture }, { type: "input_text", text: "image" }];
  got.image = (await ask(model, [{ role: "user", content }])).output_text;
  got.length = incomplete(await ask(model, "length", { max_output_tokens: 100 }));
  return got;
}

const got = {};
for (const model of models) {
  const g = (got[model] = { whole: await chat(model, whole), streamed: await chat(model, streamed) });
  g.stops = [];
  for (const text of ["length", "filter"]) g.stops.push((await whole(model, said(text))).choices[0].finish_reason);
  g.errors = [];
  for (const text of ["400", "401", "429", "529"]) g.errors.push(await tries(() => whole(model, said(text))));
  g.broken = await tries(async () => {
    for await (const _ of await whole(model, said("broken"), { stream: true }));
  });
  if (model === "azure") continue; // whose responses pass as they are
  g.response = await responses(model, make);
  g.response_streamed = await responses(model, follow);
  g.response_filtered = incomplete(await make(model, "filter"));
  for await (const event of await client.responses.create({ model, input: "broken", stream: true })) g.response_broken = event.type;
}
console.log(JSON.stringify(got));
