// What users and operators do with the bot gateway's pages, in a real browser, with a real
// dyno-bot in front of a real dyno serve llm. scripts/browser.sh builds the programs.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { english, exactly, launch } from "./chromium.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const hostile = `<img src=x onerror="window.hit=1"></script><script>window.hit=2</script>`;
const key = "a-key-of-the-browser-tests";
const patience = { timeout: 180_000 }; // no expectation of speed

let browser, dir, url, admin, plugins, hostiles;
const programs = [];

/** Starts a program, and returns what its log says of its addresses, by name. */
async function start(name, args, wanted) {
  const p = spawn(name, args, { cwd: dir, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((done) => p.on("exit", (code) => done(code)));
  programs.push({ p, ended });
  let text = "";
  return new Promise((found, none) => {
    p.stderr.on("data", (part) => {
      text += part;
      const all = wanted.map((w) => w.exec(text)?.[1]);
      if (all.every(Boolean)) found(all);
    });
    void ended.then((code) => none(new Error(`${name} ended with ${code}: ${text}`)));
  });
}

const listens = (s) => new Promise((done) => s.listen(0, "127.0.0.1", () => done(`http://127.0.0.1:${s.address().port}`)));

before(async () => {
  dir = mkdtempSync(join(tmpdir(), "dyno-bot-"));
  plugins = createServer((q, r) => {
    if (q.url === "/slow") return; // never answers
    r.setHeader("Content-Type", "application/json");
    r.end(JSON.stringify({ text: "sunny" }));
  });
  // A model whose every word is an attack, as are the error and the names that it gives.
  hostiles = createServer((q, r) => {
    let body = "";
    q.on("data", (part) => { body += part; });
    q.on("end", () => {
      const asked = JSON.parse(body).messages.at(-1).content;
      if (asked === "fail") {
        r.writeHead(400, { "Content-Type": "application/json" });
        return r.end(JSON.stringify({ error: { message: hostile, type: hostile } }));
      }
      r.setHeader("Content-Type", "text/event-stream");
      for (const c of hostile) r.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: c }, finish_reason: null }] })}\n\n`);
      if (asked === "cut") return setTimeout(() => r.destroy(), 200); // when all of it is on its way
      r.end(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\ndata: [DONE]\n\n`);
    });
  });
  const plugin = await listens(plugins), evil = await listens(hostiles);
  const address = /"msg":"listening"[^\n]*"address":"([^"]+)"/;
  const [llm] = await start(process.env.DYNO, ["serve", "llm", "--listen", "127.0.0.1:0", "--tokens", "60", "--inter-token", "30ms", "--drain-timeout", "0s"], [address]);
  const file = (name, text) => writeFileSync(join(dir, name), text);
  const sha = (text) => createHash("sha256").update(text).digest("hex");
  file("rules.yaml", "fallback: chat\nintents: [{name: weather, terms: [{text: weather}]}]\n");
  file("bot.yaml", `
listen: 127.0.0.1:0
admin: 127.0.0.1:0
allow_networks: [127.0.0.0/8]
rules: rules.yaml
plugin_budget: 300ms
drain_timeout: 1s
keys:
  - {id: browser, sha256: ${sha(key)}, limits: [{resource: requests, amount: 1000, window: 1h}, {resource: money, amount: 5000000000}]}
  - {id: '${hostile.replaceAll("'", "''").slice(0, 60)}', sha256: ${sha("hostile")}, limits: [{resource: requests, amount: 3}]}
upstreams: [{name: near, url: "http://${llm}/v1", models: {dyno-1: dyno-1}, price: {prompt: 500, completion: 1500}}]
plugins:
  - {name: calculator, builtin: calculator}
  - {name: forecast, url: "${plugin}/weather", intents: [weather]}
  - {name: slow, url: "${plugin}/slow", intents: [weather]}
`);
  file("evil.yaml", `
listen: 127.0.0.1:0
allow_networks: [127.0.0.0/8]
drain_timeout: 1s
upstreams: [{name: '${hostile.replaceAll("'", "''")}', url: "${evil}/v1", models: {'${hostile.replaceAll("'", "''")}': m}}]
`);
  [url, admin] = (await start(process.env.DYNO_BOT, ["--config", "bot.yaml"], [address, /"msg":"admin"[^\n]*"address":"([^"]+)"/])).map((a) => `http://${a}`);
  const [bad] = await start(process.env.DYNO_BOT, ["--config", "evil.yaml"], [address]);
  hostiles.gateway = `http://${bad}`;
  browser = await launch();
});

after(async () => {
  await browser?.close();
  for (const { p } of programs) p.kill("SIGINT");
  const codes = await Promise.all(programs.map(({ ended }) => ended));
  for (const s of [plugins, hostiles]) {
    s?.closeAllConnections();
    s?.close(); // while one listens, this process does not end
  }
  assert.deepEqual(codes, codes.map(() => 0));
  rmSync(dir, { recursive: true, force: true });
});

/** Opens a page, and notes all that it does. */
async function open(at, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: "en-US", ...options });
  context.setDefaultTimeout(120_000); // no expectation of speed
  const page = await context.newPage();
  const seen = { requests: [], console: [], errors: [], dialogs: [], from: at };
  context.on("request", (r) => seen.requests.push(r));
  context.on("console", (m) => seen.console.push(`${m.type()}: ${m.text()}`));
  context.on("weberror", (e) => seen.errors.push(String(e.error())));
  page.on("dialog", (d) => { seen.dialogs.push(d.message()); void d.dismiss(); });
  await page.goto(at);
  await page.waitForSelector("#bot[data-state]");
  return { page, context, seen };
}

async function login(page, user = "u1", secret = key) {
  await page.getByLabel("API key").fill(secret);
  await page.getByLabel("Your name").fill(user);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.waitForSelector('#bot[data-state="drawn"]');
}

async function say(page, text) {
  await page.getByRole("textbox", { name: "Message" }).fill(text);
  await page.keyboard.press("Enter");
}

const answers = (page) => page.locator(".message.bot");
const answered = (page, n, state = "done") => answers(page).nth(n - 1).and(page.locator(`[data-state="${state}"]`)).waitFor(patience);

/** Nothing was asked of anybody else, nothing was logged, nothing ran. */
async function quiet({ page, seen, context }) {
  assert.deepEqual(seen.requests.map((r) => r.url()).filter((u) => !u.startsWith(seen.from.replace(/\/keys\/$/, "/")) && !u.startsWith("data:")), []);
  assert.deepEqual([seen.console, seen.errors, seen.dialogs], [[], [], []]);
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(await page.locator("#bot img, #bot script, #bot iframe, #bot object").count(), 0);
  await context.close();
}

async function accessible(page, what) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = result.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html).join(" | ")}`), [], what);
}

const narrow = (page) => page.evaluate(() => document.documentElement.scrollWidth <= document.documentElement.clientWidth);

async function shot(page, name) {
  if (process.env.SHOTS_BOT) await page.screenshot({ path: join(process.env.SHOTS_BOT, `${name}.png`) });
}

test("a user without a good key stays outside, and reads why", async () => {
  const opened = await open(`${url}/`);
  const { page, seen } = opened;
  assert.equal(await page.locator("h1").innerText(), "Log in");
  assert.equal(await page.locator("textarea, nav").count(), 0);
  await accessible(page, "the login");
  await shot(page, "login");
  await page.getByLabel("API key").fill("wrong");
  await page.getByLabel("Your name").fill("u1");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("the API key is not known here").waitFor();
  seen.console.splice(0, seen.console.findIndex((m) => m.includes("401")) + 1); // Chromium logs every answer that is an error
  await quiet(opened);
});

test("the key goes out once, and only the token stays, in this tab", async () => {
  const opened = await open(`${url}/`);
  const { page, seen, context } = opened;
  await login(page);
  assert.equal(await page.locator("h1").innerText(), "Chat");
  const stored = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie, document.documentElement.outerHTML]));
  assert.ok(!stored.includes(key));
  assert.ok(!(await page.evaluate(() => JSON.stringify({ ...localStorage }))).includes("eyJ"));
  assert.deepEqual(seen.requests.filter((r) => (r.postData() ?? "").includes(key) || r.url().includes(key)).map((r) => r.url()), [`${url}/v1/login`]);
  await page.reload();
  await page.waitForSelector('#bot[data-state="drawn"]');
  const other = await context.newPage(); // another tab has no token
  await other.goto(`${url}/`);
  await other.waitForSelector('#bot[data-state="locked"]');
  await other.close();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.waitForSelector('#bot[data-state="locked"]');
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await quiet(opened);
});

test("it streams an answer, says how it came about, and keeps the conversation", patience, async () => {
  const opened = await open(`${url}/`);
  const { page } = opened;
  await login(page, "talker");
  await page.getByText("Say something.").waitFor();
  await say(page, "What will the weather be, and 3 + 4?");
  // Piece by piece: there is some text long before the end. It comes before the note that says "waiting".
  await answered(page, 1, "coming");
  await page.waitForFunction(() => document.querySelector(".message.bot .text").firstChild.data.length > 10);
  assert.equal(await page.locator('.message.bot[data-state="coming"]').count(), 1);
  await answered(page, 1);
  await page.getByText("How it came about").click();
  const story = await page.locator(".message.bot dl").innerText();
  for (const want of [/intent\s+weather/, /calculator answered/, /forecast answered/, /slow was late/, /waited in the gateway's queue\s+\d+ (µs|ms)/, /first text after/, /ended after/, /dyno-1 at near/, /\d+ asked, 60 answered/, /turn 1 is kept/]) assert.match(story, want);
  await accessible(page, "an answer");
  await shot(page, "chat-wide");
  // The next turn is of the same conversation, also after the page was loaded again.
  await say(page, "And tomorrow?");
  await answered(page, 2);
  await page.locator(".message.bot").nth(1).locator("summary").click();
  assert.match(await answers(page).nth(1).innerText(), /calculator had nothing to say[\s\S]*turn 2 is kept; the model was told 1 turns/);
  await page.reload();
  await answered(page, 2);
  assert.match(await page.locator(".messages").innerText(), /What will the weather be[\s\S]*And tomorrow\?/);
  await say(page, "line one");
  await answered(page, 3);
  // Another conversation, and back.
  await page.getByRole("button", { name: "New conversation" }).click();
  await exactly(answers(page), 0);
  await page.getByRole("textbox", { name: "Message" }).fill("one");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("two");
  await page.keyboard.press("Enter");
  await answered(page, 1);
  assert.equal(await page.locator(".message.you .text").innerText(), "one\ntwo");
  await page.getByRole("combobox", { name: "Conversation" }).selectOption({ index: 1 });
  await answered(page, 3);
  await quiet(opened);
});

test("it stops an answer, and another page does not", patience, async () => {
  const opened = await open(`${url}/`);
  const { page } = opened;
  await login(page, "stopper");
  await say(page, "hello");
  await page.waitForFunction(() => document.querySelector(".message.bot .text").firstChild.data.length > 5);
  assert.equal(await page.getByRole("button", { name: "Send" }).isVisible(), false);
  await page.getByRole("button", { name: "Stop" }).click();
  await answered(page, 1, "stopped");
  await page.getByText("You have stopped this answer.").first().waitFor();
  const text = await answers(page).first().locator(".text").innerText();
  assert.ok(text.length > 5 && text.length < 300, text);
  await page.getByText("How it came about").click();
  await page.getByText("turn 1 is kept").waitFor(); // with what was said until then
  await say(page, "again");
  await answered(page, 2, "coming");
  await page.getByRole("link", { name: "Usage" }).click();
  await page.locator("h1", { hasText: "Usage" }).waitFor();
  await page.getByRole("link", { name: "Chat" }).click();
  await answered(page, 2);
  await quiet(opened);
});

test("it shows what the key may use, and has used", async () => {
  const opened = await open(`${url}/`);
  const { page } = opened;
  await login(page);
  await say(page, "count this"); // what others have asked may be of the hour before
  await answered(page, 1);
  await page.getByRole("link", { name: "Usage" }).click();
  const limits = page.getByRole("region", { name: "Limits" });
  await limits.waitFor();
  assert.match(await page.locator("main").innerText(), /API key browser/);
  const [requests, money] = await limits.locator("tbody tr").allInnerTexts();
  assert.match(requests, /requests\s+1 h\s+\d+\s+1,000\s+9\d\d/);
  assert.match(money, /money\s+in all\s+0\.00\d+\s+5\s+4\.99\d/);
  await accessible(page, "usage");
  await shot(page, "usage");
  await quiet(opened);
});

test("a token that has expired asks to log in again, and nothing is lost", patience, async () => {
  const opened = await open(`${url}/`);
  const { page, seen } = opened;
  await login(page, "late");
  await say(page, "first");
  await answered(page, 1);
  await page.evaluate(() => {
    const p = JSON.parse(sessionStorage.getItem("dyno.bot.pass"));
    p.token = p.token.slice(0, -4) + "AAAA";
    sessionStorage.setItem("dyno.bot.pass", JSON.stringify(p));
  });
  await say(page, "second");
  await page.waitForSelector('#bot[data-state="locked"]');
  await page.getByText("The token has expired.").waitFor();
  seen.console.splice(0, seen.console.findIndex((m) => m.includes("401")) + 1);
  await login(page, "late");
  await answered(page, 1);
  assert.equal(await page.getByRole("textbox", { name: "Message" }).inputValue(), "second");
  await page.getByRole("button", { name: "Send" }).click();
  await answered(page, 2);
  await quiet(opened);
});

test("text from a model stays text, and errors are told", patience, async () => {
  const opened = await open(`${hostiles.gateway}/`);
  const { page, seen } = opened;
  await page.getByLabel("Your name").fill(hostile.slice(0, 60));
  await page.getByRole("button", { name: "Log in" }).click(); // without API keys, anybody
  await say(page, hostile);
  await answered(page, 1);
  assert.equal(await answers(page).first().locator(".text").innerText(), hostile);
  assert.equal(await page.locator(".message.you .text").innerText(), hostile);
  await page.getByText("How it came about").click();
  assert.ok((await page.locator(".message.bot dl").innerText()).includes(`${hostile} at ${hostile}`));
  await say(page, "cut");
  await answered(page, 2, "failed");
  assert.match(await answers(page).nth(1).innerText(), /<img src=x[\s\S]*The answer has ended with an error:[\s\S]*the stream was cut/);
  await accessible(page, "errors");
  await say(page, "fail");
  await answered(page, 3, "failed");
  seen.console.splice(0, seen.console.findIndex((m) => m.includes("400")) + 1);
  // What is said next can be written, wherever the page is scrolled to.
  const form = await page.locator("form.say").boundingBox();
  assert.ok(form.y + form.height <= 900, JSON.stringify(form));
  await shot(page, "hostile");
  await page.reload();
  await answered(page, 1);
  assert.equal(await answers(page).first().locator(".text").innerText(), hostile);
  await page.getByRole("link", { name: "Usage" }).click();
  await page.getByText("This key has no limits.").waitFor();
  await quiet(opened);
});

test("a gateway that cannot be reached, and one that ends in the middle", patience, async () => {
  const { page, context } = await open(`${url}/`);
  await login(page, "cut");
  await context.route("**/v1/bot/chat", (r) => r.abort());
  await say(page, "hello");
  await answered(page, 1, "failed");
  await page.getByText("The gateway cannot be reached.").waitFor();
  await context.unroute("**/v1/bot/chat");
  await context.route("**/v1/bot/chat", (r) => r.fulfill({ contentType: "text/event-stream", body: `event: start\ndata: {"history_id":"x"}\n\nevent: delta\ndata: {"text":"half"}\n\n` }));
  await say(page, "more");
  await answered(page, 2, "cut");
  await page.getByText("The connection was lost in the middle of this answer.").waitFor();
  await context.unroute("**/v1/bot/chat");
  await page.getByRole("button", { name: "Say it again" }).last().click();
  await answered(page, 3);
  await context.route("**/v1/bot/chat", (r) => r.fulfill({ status: 429, headers: { "Retry-After": "7" }, contentType: "application/json", body: `{"error":{"message":"limit reached","code":"rate_limit_exceeded"}}` }));
  await say(page, "too much");
  await answered(page, 4, "failed");
  await page.getByText("limit reached").waitFor();
  await context.close();
});

test("an answer whose connection was lost is read on, where the gateway numbers its events", patience, async () => {
  const { page, context } = await open(`${url}/`);
  await login(page, "resumer");
  const events = (from, ...list) => ({ contentType: "text/event-stream", body: list.map(([name, data], i) => `id: a/1-${from + i}\nevent: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join("") });
  await context.route("**/v1/bot/chat", (r) => r.fulfill(events(1, ["start", { id: "a/1", history_id: "x" }], ["delta", { text: "one " }])));
  const asked = [];
  await context.route("**/v1/bot/chat/*/events", (r) => {
    asked.push([new URL(r.request().url()).pathname, r.request().headers()["last-event-id"], /^Bearer eyJ/.test(r.request().headers().authorization)]);
    if (asked.length === 1) return r.fulfill(events(3, ["delta", { text: "two " }]));
    if (asked.length === 2) return r.abort();
    return r.fulfill(events(4, ["delta", { text: "three" }], ["done", { history: { state: "kept", turn: 1, turns_told: 0 } }]));
  });
  await say(page, "count");
  await answered(page, 1);
  assert.equal(await answers(page).first().locator(".text").innerText(), "one two three");
  assert.deepEqual(asked, [["/v1/bot/chat/a%2F1/events", "a/1-2", true], ["/v1/bot/chat/a%2F1/events", "a/1-3", true], ["/v1/bot/chat/a%2F1/events", "a/1-3", true]]);
  await context.unroute("**/v1/bot/chat/*/events");
  await context.route("**/v1/bot/chat/*/events", (r) => r.fulfill({ status: 410, body: "{}" }));
  await say(page, "count");
  await answered(page, 2, "cut");
  await context.close();
});

test("the operator sees keys, budgets, usage and upstreams", async () => {
  const opened = await open(`${admin}/keys/`);
  const { page } = opened;
  await page.getByRole("region", { name: "Keys, budgets and usage" }).waitFor();
  const text = await page.locator("main").innerText();
  for (const want of [/browser\s+all\s+\d+ of 1,000 requests \(1 h\)/, /0\.\d+ of 5 money \(in all\)/, /0 of 3 requests \(in all\)/, /<img src=x/, /1 to 2 of 2/, /near\s+dyno-1\s+ready/, /memory: \d+ records wait/]) assert.match(text, want);
  await accessible(page, "keys");
  await shot(page, "keys");
  await quiet(opened);
});

for (const theme of ["light", "dark"]) {
  test(`in Chinese, on a narrow screen, ${theme}`, patience, async () => {
    const opened = await open(`${url}/`, { viewport: { width: 390, height: 800 }, locale: "zh-CN", colorScheme: theme });
    const { page } = opened;
    assert.equal(await page.evaluate(() => document.documentElement.lang), "zh-CN");
    assert.equal(await narrow(page), true);
    await page.getByLabel("API 密钥").fill(key);
    await page.getByLabel("您的名字").fill("李雷");
    await page.getByRole("button", { name: "登录" }).click();
    await page.getByRole("textbox", { name: "消息" }).fill("weather 1+1=");
    await page.keyboard.press("Enter");
    await answered(page, 1);
    await page.locator("summary").click();
    assert.match(await page.locator(".message.bot dl").innerText(), /意图[\s\S]*calculator 已回答[\s\S]*slow 超时[\s\S]*第 1 轮已保存/);
    assert.equal(await narrow(page), true);
    await accessible(page, `chat, ${theme}`);
    await shot(page, `narrow-${theme}`);
    assert.deepEqual(await english(page, "bot"), []);
    await page.getByRole("link", { name: "用量" }).click();
    await page.getByRole("region", { name: "限额" }).waitFor();
    assert.equal(await narrow(page), true);
    await accessible(page, `usage, ${theme}`);
    await shot(page, `narrow-usage-${theme}`);
    await page.getByLabel("语言").selectOption("en");
    await page.locator("h1", { hasText: "Usage" }).waitFor();
    await quiet(opened);
  });
}
