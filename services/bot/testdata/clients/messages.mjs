// Asks a gateway by the package @anthropic-ai/sdk, as its documentation shows, and prints what it
// has got as a line of JSON.
import Anthropic from "@anthropic-ai/sdk";

const [baseURL, apiKey] = process.argv.slice(2);
const client = new Anthropic({ baseURL, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "hello" }];
const tools = [{ name: "weather", input_schema: { type: "object", properties: { city: { type: "string" } } } }];
const asked = { model: "dyno-1", max_tokens: 64, messages };
const got = { models: (await client.models.list()).data.map((m) => m.id) };

const whole = await client.messages.create(asked);
[got.whole, got.tokens, got.stop] = [whole.content[0].text, whole.usage.output_tokens, whole.stop_reason];

got.streamed = "";
const final = await client.messages.stream(asked).on("text", (text) => (got.streamed += text)).finalMessage();
got.streamed_tokens = final.usage.output_tokens;

const called = (await client.messages.create({ ...asked, tools })).content.at(-1);
got.tool = [called.type, called.name, Object.keys(called.input).sort()];
const again = (await client.messages.stream({ ...asked, tools }).finalMessage()).content.at(-1);
got.tool_streamed = JSON.stringify(again.input) === JSON.stringify(called.input);

got.counted = (await client.messages.countTokens({ model: "dyno-1", messages })).input_tokens > 0;

got.errors = [];
for (const ask of [
  () => client.messages.create({ ...asked, model: "other" }),
  () => new Anthropic({ baseURL, apiKey: "wrong", maxRetries: 0 }).messages.create(asked),
  () => client.messages.create({ ...asked, messages: [] }),
]) {
  try {
    await ask();
  } catch (e) {
    got.errors.push([e.constructor.name, e.status, e.error.error.type]);
  }
}
console.log(JSON.stringify(got));
