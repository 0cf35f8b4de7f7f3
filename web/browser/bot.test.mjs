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

let browser, dir, url, admin, unmanaged, plugins, hostiles;
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
manage_keys: true
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
admin: 127.0.0.1:0
allow_networks: [127.0.0.0/8]
drain_timeout: 1s
upstreams: [{name: '${hostile.replaceAll("'", "''")}', url: "${evil}/v1", models: {'${hostile.replaceAll("'", "''")}': m}}]
`);
  const both = [address, /"msg":"admin"[^\n]*"address":"([^"]+)"/];
  [url, admin] = (await start(process.env.DYNO_BOT, ["--config", "bot.yaml"], both)).map((a) => `http://${a}`);
  [hostiles.gateway, unmanaged] = (await start(process.env.DYNO_BOT, ["--config", "evil.yaml"], both)).map((a) => `http://${a}`);
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
  await page.waitForSelector(':is(#bot, #ui):is([data-state="drawn"], [data-state="locked"])');
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
async function quiet({ page, seen, context }, logged = []) {
  assert.deepEqual(seen.requests.map((r) => r.url()).filter((u) => !u.startsWith(seen.from.replace(/\/keys\/.*$/, "/")) && !u.startsWith("data:")), []);
  assert.deepEqual([seen.console.filter((line) => !logged.some((l) => line.includes(l))), seen.errors, seen.dialogs], [[], [], []]);
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(await page.locator(":is(#bot, #ui) :is(img, script, iframe, object)").count(), 0);
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

/** Follows a link of the navigation, and waits for what that page shows. */
async function visit(page, link, title = link) {
  await page.getByRole("navigation").getByRole("link", { name: link, exact: true }).click();
  await page.locator("h1", { hasText: title }).waitFor();
  await page.locator('[aria-busy="true"]').waitFor({ state: "detached" });
}

const rowOf = (page, id) => page.locator("tbody tr").filter({ has: page.locator("th").getByText(id, { exact: true }) });

/** Asks for a short answer with a secret, until the status is what is wanted: a change is there at once. */
async function used(secret, want) {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST", headers: { Authorization: `Bearer ${secret}`, "Content-Type": "application/json" }, body: JSON.stringify({ model: "dyno-1", max_tokens: 2, messages: [{ role: "user", content: "hello" }] }),
  });
  const text = await response.text();
  assert.equal(response.status, want, text);
}

/** Takes the secret that is shown once. */
async function secretOf(page, label, close) {
  const box = page.getByRole("dialog").getByLabel(label, { exact: true });
  await box.waitFor();
  const secret = await box.inputValue();
  assert.match(secret, /^sk-\S{40,}$/);
  await page.keyboard.press("Escape"); // it is not lost by that
  assert.equal(await box.inputValue(), secret);
  await page.getByRole("button", { name: close }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.ok(!(await page.content()).includes(secret));
  return secret;
}

test("the operator of a gateway without keys at run time sees what it has, and changes nothing", async () => {
  const opened = await open(`${unmanaged}/keys/`);
  const { page } = opened;
  await page.getByText("There is nothing here.").waitFor();
  await page.locator('[aria-busy="true"]').waitFor({ state: "detached" });
  assert.equal(await page.getByRole("button").count(), 0);
  await visit(page, "Deployments");
  assert.match(await page.locator("main").innerText(), /<img src=x[^]*healthy[^]*memory: \d+ records wait/);
  await quiet(opened);
});

test("the operator sees what the file declares, and what it has used", async () => {
  const opened = await open(`${admin}/keys/`);
  const { page } = opened;
  await rowOf(page, "browser").waitFor();
  const text = await page.locator("main").innerText();
  for (const want of [/read-only here/, /browser\s+in the file\s+–\s+all\s+\d+ of 1,000 requests \(1 h\)/, /0(\.\d+)? of 5 money \(in all\)/, /0 of 3 requests \(in all\)/, /<img src=x/]) assert.match(text, want);
  assert.equal(await rowOf(page, "browser").getByRole("button").count(), 0);
  await accessible(page, "keys of the file");
  await visit(page, "Limits");
  assert.match(await rowOf(page, "browser:0").innerText(), /key browser\s+all\s+requests\s+1 h\s+\d+\s+1,000/);
  await quiet(opened);
});

test("the operator makes a key, limits it, rotates it and revokes it", patience, async () => {
  const opened = await open(`${admin}/keys/`, { permissions: ["clipboard-read", "clipboard-write"] });
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  const closed = () => dialog.waitFor({ state: "detached" });
  const make = () => dialog.getByRole("button", { name: "Make the change" }).click();
  await visit(page, "Teams");
  await page.getByText("There is nothing here.").waitFor();
  // By the keyboard alone: the button, the fields, and Enter.
  await page.getByRole("button", { name: "New team" }).focus();
  await page.keyboard.press("Enter");
  await dialog.getByLabel("ID", { exact: true }).and(page.locator(":focus")).waitFor();
  await page.keyboard.type("shop");
  await page.keyboard.press("Tab");
  await page.keyboard.type(hostile);
  await page.keyboard.press("Tab");
  await page.keyboard.type("dyno-*");
  await dialog.getByLabel("metadata").fill("note = <b>a=b</b>\nowner=o");
  await dialog.getByLabel("name", { exact: true }).press("Enter");
  await closed();
  await rowOf(page, "shop").getByText(hostile).waitFor();

  await rowOf(page, "shop").getByRole("link", { name: "Keys" }).click();
  await page.locator("h1", { hasText: "Keys" }).waitFor();
  await page.getByText("There is nothing here.").waitFor(); // of this team
  await page.getByRole("button", { name: "New key" }).click();
  assert.equal(await dialog.getByLabel("team", { exact: true }).inputValue(), "shop");
  await dialog.getByLabel("team", { exact: true }).fill("nobody");
  await dialog.getByLabel("ID", { exact: true }).fill("app");
  await make();
  await dialog.getByText('there is no "nobody"').waitFor();
  assert.equal(await dialog.getByLabel("team", { exact: true }).getAttribute("aria-invalid"), "true");
  await dialog.getByRole("alert").getByText("The gateway refuses a field.").waitFor();
  await accessible(page, "a fault at its field");
  await shot(page, "operator-fault");
  await dialog.getByLabel("team", { exact: true }).fill("shop");
  await dialog.getByLabel("models").fill("*wrong*");
  await make();
  await dialog.locator("textarea[aria-invalid]").waitFor();
  assert.equal(await dialog.getByLabel("team", { exact: true }).getAttribute("aria-invalid"), null);
  await dialog.getByLabel("models").fill("dyno-1\ndyno-2");
  await make();
  await dialog.getByText("it is not shown again").waitFor();
  await dialog.getByRole("button", { name: "Copy" }).click();
  await dialog.getByText("It is copied.").waitFor();
  await accessible(page, "a secret");
  await shot(page, "operator-secret");
  const first = await secretOf(page, "secret", "I have kept it");
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), first);
  await rowOf(page, "app").waitFor();
  await used(first, 200);
  await used("sk-another", 401);

  await rowOf(page, "app").getByRole("link", { name: "Limits" }).click();
  await page.locator("h1", { hasText: "Limits" }).waitFor();
  await page.getByText("There is nothing here.").waitFor();
  await page.getByRole("button", { name: "New limit" }).click();
  assert.equal(await dialog.getByLabel("ID", { exact: true }).last().inputValue(), "app");
  await dialog.getByLabel("ID", { exact: true }).first().fill("few");
  await make();
  await dialog.getByText("must be there, from 0").waitFor();
  await dialog.getByLabel("amount").fill("2");
  await dialog.getByLabel("number").fill("1");
  await dialog.getByLabel("unit").selectOption("day");
  await make();
  await closed();
  const few = rowOf(page, "few");
  await few.waitFor();
  await used(first, 200); // the new limit counts what was used before
  await used(first, 429);
  await page.reload();
  await few.waitFor();
  assert.match(await few.innerText(), /key app\s+all\s+requests\s+1 d\s+2\s+2/);
  await few.getByRole("button", { name: "Edit" }).click();
  // Somebody else is quicker: that is told, and both changes are made.
  const theirs = await fetch(`${admin}/api/v1/limits/few`, { method: "PATCH", body: `{"metadata":{"by":"another"}}` });
  assert.equal(theirs.status, 200);
  await dialog.getByLabel("amount").fill("50");
  await make();
  await dialog.getByText("Somebody else has changed it meanwhile.").waitFor();
  await make();
  await closed();
  await few.getByText("50", { exact: true }).waitFor();
  assert.deepEqual((({ amount, window, metadata }) => ({ amount, window, metadata }))(await (await fetch(`${admin}/api/v1/limits/few`)).json()), { amount: 50, window: "24h", metadata: { by: "another" } });
  await used(first, 200);

  await visit(page, "Keys");
  await page.getByRole("searchbox").fill("AP");
  await rowOf(page, "browser").waitFor({ state: "detached" });
  const app = rowOf(page, "app");
  assert.match(await app.innerText(), /app\s+active\s+shop\s+dyno-1, dyno-2\s+3 of 50 requests \(1 d\)[^]*3 requests/);
  await app.getByRole("button", { name: "Rotate app" }).click();
  await dialog.getByLabel("number").fill("1");
  await make();
  const second = await secretOf(page, "secret", "I have kept it");
  await app.getByText("old secret until").waitFor();
  await used(first, 200);
  await used(second, 200);
  await app.getByRole("button", { name: "Rotate app" }).click();
  await dialog.getByLabel("number").fill("");
  await make();
  const third = await secretOf(page, "secret", "I have kept it");
  await app.getByText("old secret until").waitFor({ state: "detached" });
  await used(second, 401);
  await used(third, 200);

  await app.getByRole("button", { name: "Disable app" }).click();
  await page.keyboard.press("Escape"); // nothing is done
  await closed();
  await used(third, 200);
  await app.getByRole("button", { name: "Disable app" }).click();
  await make();
  await app.getByText("disabled").waitFor();
  await used(third, 401);
  await app.getByRole("button", { name: "Enable app" }).click();
  await make();
  await app.getByText("active").waitFor();
  await used(third, 200);
  await app.getByRole("button", { name: "Edit app" }).click();
  await dialog.getByLabel("ends").fill("2030-01-02T03:04");
  await make();
  await app.getByText("until 2 Jan 2030, 03:04:00").waitFor();
  await accessible(page, "keys");
  await shot(page, "operator-keys");
  await app.getByRole("button", { name: "Remove app" }).click();
  const remove = dialog.getByRole("button", { name: "Remove", exact: true });
  assert.equal(await remove.isDisabled(), true);
  await dialog.getByRole("textbox").fill("app");
  await remove.click();
  await closed();
  await app.waitFor({ state: "detached" });
  await used(third, 401);
  await visit(page, "Limits");
  assert.equal(await few.count(), 0);

  await visit(page, "Usage");
  const sums = page.getByRole("region", { name: "Usage" }).locator("tbody tr");
  await sums.filter({ hasText: "app" }).first().waitFor();
  await page.getByLabel("model").check();
  await page.getByLabel("day").check();
  await page.getByLabel("key").uncheck();
  const day = new Date().toISOString().slice(0, 10);
  await sums.filter({ hasText: new RegExp(`^\\s*dyno-1\\s*${day}`) }).first().waitFor();
  await page.getByLabel("from").fill("2020-01-01");
  await page.getByRole("alert").waitFor(); // of more days than there may be
  await page.getByLabel("from").fill(day);
  await sums.filter({ hasText: "dyno-1" }).first().waitFor();
  assert.match(page.url(), /group=model%2Cday/);
  await accessible(page, "usage in groups");
  await shot(page, "operator-usage");

  await visit(page, "Audit");
  const audit = await page.locator("tbody tr").allInnerTexts();
  assert.match(audit.find((line) => line.includes("rotated key app")), /admin\s+rotated key app/);
  assert.match(audit.find((line) => line.includes("changed limit few") && line.includes("50")), /amount: 2\s+amount: 50/);
  assert.match(audit.find((line) => line.includes("made team shop")), /–\s[^]*name: "<img src=x/);
  assert.ok(!audit.join().includes("sk-"));
  await accessible(page, "the audit");
  await shot(page, "operator-audit");
  await quiet(opened, ["400", "412"]);
});

test("deployments, and a button that resets their health", async () => {
  const opened = await open(`${admin}/keys/`);
  const { page, context } = opened;
  let broken = true, away = true;
  await context.route("**/api/v1/deployments**", (r) => {
    if (r.request().method() === "POST" && away) {
      away = false;
      return r.fulfill({ status: 503, json: { error: { message: "the archive is away" } } });
    }
    if (r.request().method() === "POST") {
      broken = false;
      assert.match(r.request().url(), /\/deployments\/near%2F1\/reset$/);
      return r.fulfill({ status: 204 });
    }
    return r.fulfill({ json: { items: [{ id: "near/1", name: "near", provider: hostile, models: ["dyno-1"], weight: 2, state: broken ? "open" : "closed", ...(broken && { until: "2030-01-02T03:04:05Z" }), in_flight: 3, calls: 12, failures: 4, declared: true }] } });
  });
  await visit(page, "Deployments");
  assert.match(await rowOf(page, "near/1").innerText(), /not asked after failures until 2 Jan 2030[^]*in the file\s+3\s+12\s+4/);
  await accessible(page, "deployments");
  await page.getByRole("button", { name: "Reset health near/1" }).press("Enter");
  await page.getByRole("alert").getByText("the archive is away").waitFor();
  await page.getByRole("button", { name: "Reset health near/1" }).press("Enter");
  await rowOf(page, "near/1").getByText("healthy").waitFor();
  assert.equal(await page.getByRole("alert").count(), 0);
  await shot(page, "operator-deployments");
  await quiet(opened, ["503"]);
});

test("an operator who may only read has no buttons", async () => {
  const opened = await open(`${admin}/keys/`);
  const { page, context } = opened;
  await context.route("**/api/v1/me", (r) => r.fulfill({ json: { name: "oidc:someone", role: "reader" } }));
  await page.reload();
  await rowOf(page, "browser").waitFor();
  for (const name of ["Teams", "Users", "Limits", "Keys"]) {
    await visit(page, name);
    assert.equal(await page.getByRole("button").count(), 0, name);
  }
  await quiet(opened);
});

test("lists by pages", patience, async () => {
  for (let i = 0; i < 120; i++) assert.equal((await fetch(`${admin}/api/v1/users`, { method: "POST", body: JSON.stringify({ id: `u${String(i).padStart(3, "0")}`, ...(i === 7 && { name: "Seven" }) }) })).status, 201);
  const opened = await open(`${admin}/keys/#/users`);
  const { page } = opened;
  await rowOf(page, "u000").waitFor();
  await exactly(page.locator("tbody tr"), 50);
  await page.getByRole("link", { name: "Next page" }).click();
  await rowOf(page, "u050").waitFor();
  assert.equal(await rowOf(page, "u049").count(), 0);
  await page.getByRole("searchbox").fill("seven");
  await rowOf(page, "u007").waitFor();
  await exactly(page.locator("tbody tr"), 1);
  await quiet(opened);
});

for (const theme of ["light", "dark"]) {
  test(`the operator's page in Chinese, on a narrow screen, ${theme}`, patience, async () => {
    const opened = await open(`${admin}/keys/`, { viewport: { width: 390, height: 800 }, locale: "zh-CN", colorScheme: theme });
    const { page } = opened;
    const dialog = page.getByRole("dialog");
    const id = `k-${theme}`;
    await page.getByRole("button", { name: "新建密钥" }).click();
    await dialog.getByLabel("标识 ID").fill(id);
    await dialog.getByLabel("名称", { exact: true }).fill(hostile);
    await dialog.getByLabel("团队").fill("nobody");
    await dialog.getByRole("button", { name: "执行修改" }).click();
    await dialog.getByText("网关拒绝了一个字段").waitFor();
    await accessible(page, `a form, ${theme}`);
    assert.deepEqual(await english(page, "ui"), []);
    assert.equal(await narrow(page), true);
    await shot(page, `operator-narrow-form-${theme}`);
    await dialog.getByLabel("团队").fill("");
    await dialog.getByRole("button", { name: "执行修改" }).click();
    const secret = await secretOf(page, "密钥值", "我已保存");
    await used(secret, 200);
    const row = rowOf(page, id);
    await row.getByText("有效").waitFor();
    assert.equal(await narrow(page), true);
    await visit(page, "限额");
    await page.getByRole("button", { name: "新建限额" }).click();
    await dialog.getByLabel("标识 ID").last().fill(id);
    await dialog.getByLabel("资源").selectOption("parallel");
    await dialog.getByLabel("数量", { exact: true }).fill("0");
    await dialog.getByRole("button", { name: "执行修改" }).click();
    await page.locator("tbody tr", { hasText: id }).getByText("进行中的请求").waitFor();
    await used(secret, 429);
    assert.deepEqual(await english(page, "ui"), []);
    await accessible(page, `limits, ${theme}`);
    await page.locator("tbody tr", { hasText: id }).getByRole("button", { name: "删除" }).click();
    await dialog.getByRole("button", { name: "执行修改" }).click();
    await page.locator("tbody tr", { hasText: id }).waitFor({ state: "detached" });
    await used(secret, 200);
    await visit(page, "密钥");
    await row.getByRole("button", { name: `轮换 ${id}` }).click();
    await dialog.getByLabel("数值").fill("");
    await dialog.getByRole("button", { name: "执行修改" }).click();
    const next = await secretOf(page, "密钥值", "我已保存");
    await used(secret, 401);
    await used(next, 200);
    await shot(page, `operator-narrow-${theme}`);
    await row.getByRole("button", { name: `停用 ${id}` }).click();
    await dialog.getByRole("button", { name: "执行修改" }).click();
    await row.getByText("已停用").waitFor();
    await used(next, 401);
    for (const name of ["团队", "用户", "用量", "审计"]) {
      await visit(page, name);
      assert.equal(await narrow(page), true, name);
      assert.deepEqual(await english(page, "ui"), [], name);
      await accessible(page, `${name}, ${theme}`);
      await shot(page, `operator-narrow-${name}-${theme}`);
    }
    await page.getByLabel("语言").selectOption("en");
    await page.locator("h1", { hasText: "Audit" }).waitFor();
    await quiet(opened, ["400"]);
  });
}

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
