// What a user does with the control plane's console, in a real browser, with a real
// dyno-control. scripts/browser.sh builds the program.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { accessible, english, exactly, launch, watched } from "./chromium.mjs";
import { dataPlane, freePort } from "./dataplane.mjs";

const hostile = `<img src=x onerror="window.hit=1"></script><script>window.hit=2</script>`;
const secret = "correct-horse-battery";
const tokens = { admin: "token-of-admin-0123456789", reader: "token-of-reader-0123456789" };
const patience = { timeout: 180_000 }; // no expectation of speed

let browser, dir, control, endDataPlanes;

/** Starts a control plane in a folder, at a port if one is given. */
async function start(folder, port = 0, ...flags) {
  mkdirSync(join(dir, folder), { recursive: true });
  const process = spawn(globalThis.process.env.CONTROL, ["--listen", `127.0.0.1:${port}`, "--data", join(dir, folder), "--no-sync", "--drain-timeout", "1s", ...flags], { stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise((done) => process.on("exit", (code) => done(code)));
  let text = "";
  const address = await new Promise((found, none) => {
    process.stderr.on("data", (part) => {
      text += part;
      const m = /"msg":"listening"[^\n]*"address":"([^"]+)"/.exec(text);
      if (m) found(m[1]);
    });
    void ended.then(() => none(new Error(`dyno-control ended: ${text}`)));
  });
  return { url: `http://${address}`, port: Number(address.split(":").at(-1)), process, ended };
}

/** Asks the API, and wants it to be done. */
async function api(method, path, body, headers = {}) {
  const response = await fetch(control.url + path, { method, headers: { "Content-Type": "application/json", ...headers }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${response.ok ? "" : await response.text()}`);
  return response;
}

/** A client that watches configurations, until end is called. */
async function client(name) {
  const end = new AbortController();
  const response = await fetch(`${control.url}/v1/watch?kind=config&client=${encodeURIComponent(name)}`, { headers: { Accept: "text/event-stream" }, signal: end.signal });
  const reader = response.body.getReader();
  await reader.read();
  void (async () => { while (!(await reader.read()).done); })().catch(() => {});
  return () => end.abort();
}

const ack = (name, config, version, state, reason) => api("POST", "/v1/acks", { client: name, acks: [{ kind: "config", name: config, version, state, reason }] });

before(async () => {
  dir = mkdtempSync(join(tmpdir(), "dyno-console-"));
  const grpc = await freePort();
  control = await start("open", 0, "--grpc", `127.0.0.1:${grpc}`);
  browser = await launch();
  await api("PUT", "/v1/configs/limits", { content: "rate: 100\nburst: 20\n", content_type: "text/x-yaml", labels: { team: hostile } });
  await api("PUT", "/v1/configs/limits", { content: `rate: 200\nburst: 20\n# ${hostile}\n` });
  await api("PUT", "/v1/configs/password", { content: secret, secret: true });
  await api("PUT", "/v1/configs/password/release", { content: `${secret}-next`, percent: 50 });
  await api("PUT", "/v1/policies/deny-all", { rules: [{ action: "deny", match: { path_prefix: `/${hostile}` } }] });
  await api("PUT", "/v1/services/shop/instances/1", { address: "10.0.0.1", port: 80, ttl_seconds: 3600, zone: "north", weight: 50, metadata: { note: hostile } });
  await api("PUT", "/v1/services/shop/instances/2", { address: "fd00::2", port: 80, ttl_seconds: 3600, zone: "south", status: "draining" });
  await api("PUT", "/v1/services/checked/instances/good", { address: "127.0.0.1", port: control.port, checks: [{ type: "http", path: "/console/", interval_seconds: 1 }] });
  await api("PUT", "/v1/services/checked/instances/bad", { address: "127.0.0.1", port: control.port, deregister_after_seconds: 7200, checks: [{ type: "http", path: "/nothing", interval_seconds: 1, failures: 1 }, { name: "port", type: "tcp", interval_seconds: 1 }] });
  await api("PUT", "/v1/policies/canary", { rules: [{ action: "route", match: { services: ["shop"] }, route: [{ service: "shop", weight: 90 }, { service: "cart", weight: 10 }] }, { action: "timeout", timeout_seconds: 2 }] });
  const ends = await Promise.all([dataPlane(grpc, "web", [["shop", 120, 3], ["cart", 40, 0]]), dataPlane(grpc, "shop", [["cart", 12, 0], ["shop", 1, 0]]), dataPlane(grpc, hostile.slice(0, 60), [["shop", 1, 0]])]);
  endDataPlanes = () => ends.forEach((end) => end());
  await lock("leader", await begin(hostile), `10.0.0.1:8080 ${hostile}`);
  await api("PUT", "/v1/counters/builds", { value: 42 });
  await api("PUT", "/v1/services/cart/instances/1?namespace=other", { address: "10.0.0.9", port: 80, ttl_seconds: 3600 });
});

after(async () => {
  await browser?.close();
  endDataPlanes?.();
  control?.process.kill("SIGTERM");
  assert.equal(await control?.ended, 0);
  rmSync(dir, { recursive: true, force: true });
});

/** Begins a session, and returns its ID. */
const begin = async (name, namespace = "default") => (await (await api("POST", `/v1/sessions?namespace=${namespace}`, { name, ttl_seconds: 3600 })).json()).id;

const lock = (name, session, value, namespace = "default") => api("PUT", `/v1/locks/${name}?namespace=${namespace}`, { session, value });

async function open(hash = "", options = {}, url = control.url, state = "drawn") {
  const opened = await watched(browser, options);
  await opened.page.goto(`${url}/console/${hash}`);
  await opened.page.waitForSelector(`#ui[data-state="${state}"]`);
  await opened.page.locator('[aria-busy="true"]').first().waitFor({ state: "detached" });
  return { ...opened, url };
}

async function show(page, hash, title) {
  await page.evaluate((h) => {
    if (location.hash !== h) document.querySelector("h1")?.setAttribute("data-left", ""); // the next page may have the same title
    location.hash = h;
  }, hash);
  await page.locator("h1:not([data-left])", { hasText: title }).waitFor();
  await page.waitForSelector('#ui[data-state="drawn"]');
  await page.locator('[aria-busy="true"]').waitFor({ state: "detached" });
}

/** Nothing was asked of anybody else, nothing was logged, nothing ran. */
async function quiet({ page, seen, context, url }, logged = []) {
  assert.deepEqual(seen.requests.filter((u) => !u.startsWith(`${url}/`) && !u.startsWith("data:")), []);
  for (const token of Object.values(tokens)) assert.deepEqual(seen.requests.filter((u) => u.includes(token)), []);
  assert.deepEqual([seen.console.filter((line) => !logged.some((l) => line.includes(l))), seen.errors, seen.dialogs], [[], [], []]);
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(await page.locator("#ui img, #ui script, #ui iframe, #ui object").count(), 0);
  await context.close();
}

test("services, and their instances as they change", patience, async () => {
  const opened = await open();
  const { page } = opened;
  assert.equal(await page.locator("h1").innerText(), "Services");
  await page.getByText("live", { exact: true }).waitFor();
  await page.getByRole("link", { name: "shop" }).click();
  await page.locator("h1", { hasText: "shop" }).waitFor(); // until then, the rows are services
  const rows = page.locator("tbody tr");
  await rows.nth(1).waitFor();
  assert.match(await rows.nth(0).innerText(), /^1\s+10\.0\.0\.1:80\s+up\s+north\s+50\s/);
  assert.match(await rows.nth(1).innerText(), /^2\s+\[fd00::2\]:80\s+draining\s+south\s+100\s/);
  await api("PUT", "/v1/services/shop/instances/3", { address: "10.0.0.3", port: 8080, ttl_seconds: 3600 });
  await page.getByText("10.0.0.3:8080").waitFor();
  await page.getByRole("searchbox").fill("SOUTH");
  await page.getByText("10.0.0.3:8080").waitFor({ state: "detached" });
  await exactly(rows, 1);
  await page.getByRole("searchbox").fill("");
  await page.getByLabel("status").selectOption("draining");
  await page.getByText("10.0.0.1:80").waitFor({ state: "detached" });
  await exactly(rows, 1);
  await show(page, "#/services", "Services");
  await page.getByLabel("Namespace").fill("other");
  await page.keyboard.press("Tab");
  await page.getByRole("link", { name: "cart" }).waitFor();
  await quiet(opened);
});

test("many instances are shown by pages, and searched", patience, async () => {
  const rest = Array.from({ length: 2000 }, (_, i) => i);
  await Promise.all(Array.from({ length: 32 }, async () => {
    for (let i = rest.pop(); i !== undefined; i = rest.pop()) await api("PUT", `/v1/services/many/instances/i${String(i).padStart(5, "0")}?namespace=many`, { address: "10.1.0.1", port: 1 + i, ttl_seconds: 3600 });
  }));
  const opened = await open("#/service/many?ns=many");
  const { page } = opened;
  await exactly(page.locator("tbody tr"), 100);
  await page.getByRole("link", { name: "Next page" }).click();
  await page.getByText("i00199").waitFor();
  assert.equal(await page.getByText("i00099").count(), 0);
  await page.getByRole("link", { name: "First page" }).click();
  await page.getByText("i00099").waitFor();
  await page.getByRole("searchbox").fill("i01999");
  await page.getByText("i00099").waitFor({ state: "detached" });
  await exactly(page.locator("tbody tr"), 1);
  await quiet(opened);
});

test("a configuration is changed, compared and rolled back", patience, async () => {
  const opened = await open("#/configs");
  const { page } = opened;
  await page.getByRole("searchbox").fill("lim");
  await page.getByRole("link", { name: "password" }).waitFor({ state: "detached" });
  await page.getByRole("link", { name: "limits" }).click();
  await page.locator("pre", { hasText: hostile }).waitFor();
  assert.match(await page.locator(".diff").innerText(), /- rate: 100\n\+ rate: 200/);

  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("content").fill("rate: 300\n");
  assert.equal(await dialog.getByRole("button", { name: "Make the change" }).isDisabled(), true);
  await dialog.getByRole("button", { name: "Check" }).click();
  await dialog.locator(".diff").waitFor();
  assert.match(await dialog.locator(".diff").innerText(), /- rate: 200[^]*\+ rate: 300/);
  assert.equal((await (await api("GET", "/v1/configs/limits")).json()).version, 2);
  await dialog.getByRole("button", { name: "Make the change" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.locator("pre", { hasText: "rate: 300" }).waitFor();

  await page.getByLabel("compare from version 1").check();
  await page.getByLabel("compare to version 2").check();
  await page.locator("h3", { hasText: "From version 1 to 2" }).waitFor();
  assert.match(await page.locator(".diff").innerText(), /- rate: 100\n\+ rate: 200\n {2}burst: 20/);

  await page.getByRole("button", { name: "Roll back to version 1" }).click();
  await dialog.locator(".diff").waitFor();
  assert.match(await dialog.innerText(), /It would become version 4/);
  assert.equal((await (await api("GET", "/v1/configs/limits")).json()).version, 3);
  await dialog.getByRole("button", { name: "Make the change" }).click();
  await page.locator("pre", { hasText: "rate: 100" }).waitFor();
  assert.match(await page.locator("dl").first().innerText(), /4/);
  await quiet(opened);
});

test("who was slower is shown what the other has changed", patience, async () => {
  await api("PUT", "/v1/configs/shared", { content: "a\nb\nc\n" });
  const opened = await open("#/config/shared");
  const { page } = opened;
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("content").fill("a\nmine\nc\n");
  await dialog.getByRole("button", { name: "Check" }).click();
  await dialog.locator(".diff").waitFor();
  await api("PUT", "/v1/configs/shared", { content: "a\nb\ntheirs\n" });
  await dialog.getByRole("button", { name: "Make the change" }).click();
  await dialog.getByText("Changed by somebody else: anonymous made version 2").waitFor();
  await dialog.locator(".diff").nth(1).waitFor();
  const diffs = await dialog.locator(".diff").allInnerTexts();
  assert.match(diffs[0], /- c\n\+ theirs/);
  assert.match(diffs[1], /- b[^]*- theirs[^]*\+ mine/);
  assert.equal((await (await api("GET", "/v1/configs/shared")).json()).content, "a\nb\ntheirs\n");
  await dialog.getByRole("button", { name: "Make the change" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual((({ content, version }) => ({ content, version }))(await (await api("GET", "/v1/configs/shared")).json()), { content: "a\nmine\nc\n", version: 3 });
  await quiet(opened, ["412 (Precondition Failed)"]);
});

test("a policy is made as JSON, with its faults named", patience, async () => {
  const opened = await open("#/policies");
  const { page } = opened;
  await page.getByRole("button", { name: "New policy" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("name").first().fill("fresh");
  await dialog.getByRole("radio", { name: "JSON" }).check();
  const rules = dialog.getByLabel("Labels and rules, in JSON");
  await rules.fill("{");
  await dialog.getByRole("button", { name: "Check" }).click();
  await dialog.getByText("This is not JSON.").waitFor();
  await rules.fill(`{"rules":[{"action":"route"},{"action":"${hostile.replaceAll('"', "'")}"}]}`);
  await dialog.getByRole("button", { name: "Check" }).click();
  await dialog.locator("li", { hasText: "#/rules/0/route must be given" }).waitFor();
  await dialog.locator("li", { hasText: "<img" }).waitFor();
  await rules.fill(`{"rules":[{"action":"deny"}]}`);
  await dialog.getByRole("button", { name: "Check" }).click();
  await dialog.locator(".diff").waitFor();
  await accessible(page, "a dialog");
  await dialog.getByRole("button", { name: "Make the change" }).click();
  await page.locator("h1", { hasText: "fresh" }).waitFor();
  await show(page, "#/policy/deny-all", "deny-all");
  await page.locator("pre", { hasText: "onerror" }).waitFor();
  await quiet(opened, ["422 (Unprocessable"]);
});

const field = (scope, name) => scope.locator("label.field", { has: scope.page().locator("code", { hasText: new RegExp(`^${name}( \\*)?$`) }) }).locator("input, select");

test("a policy's rules are edited by a form", patience, async () => {
  await api("PUT", "/v1/policies/formed", { labels: { team: hostile }, rules: [{ action: "timeout", timeout_seconds: 2, match: { services: ["shop"] } }] });
  const rules = async () => (await (await api("GET", "/v1/policies/formed")).json()).rules;
  const opened = await open("#/policy/formed");
  const { page } = opened;
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  const dialog = page.getByRole("dialog");
  const check = () => dialog.getByRole("button", { name: "Check" }).click();
  const make = dialog.getByRole("button", { name: "Make the change" });
  assert.equal(await field(dialog, "timeout_seconds").inputValue(), "2");
  assert.equal(await dialog.getByLabel("services 1", { exact: true }).inputValue(), "shop");

  // A fault is next to its field, and the way back is checked again.
  await field(dialog, "timeout_seconds").fill("-1");
  await check();
  await dialog.locator("label.field", { hasText: "timeout_seconds" }).locator(".note", { hasText: "must be more than 0" }).waitFor();
  await field(dialog, "timeout_seconds").fill("3");
  await check();
  await dialog.locator(".diff ins", { hasText: `"timeout_seconds": 3` }).waitFor();
  await exactly(dialog.locator(".note"), 0);
  assert.equal(await make.isDisabled(), false);

  // A new rule, by the keyboard: its action has the focus, and brings the action's fields.
  await dialog.getByRole("button", { name: "Add to rules" }).focus();
  await page.keyboard.press("Enter");
  assert.equal(await make.isDisabled(), true);
  assert.equal(await page.evaluate(() => document.activeElement.dataset.at), "/rules/1/action");
  const second = dialog.locator("details").nth(1);
  assert.equal(await field(second, "requests_per_second").count(), 0);
  await field(second, "action").selectOption("retry");
  await field(second, "attempts").fill("2");
  await second.getByLabel("5xx").check();
  await second.getByLabel("GET", { exact: true }).check();
  await check();
  await second.locator("fieldset", { hasText: /^on/ }).locator(".note", { hasText: "after codes only" }).waitFor();
  await dialog.getByRole("heading", { name: "What connected data planes cannot do" }).waitFor();
  await field(second, "action").selectOption("limit");
  assert.equal(await field(second, "attempts").count(), 0);
  await field(second, "requests_per_second").fill("100");
  await field(second, "shared").check();
  await second.getByRole("button", { name: "Add to headers" }).click();
  await second.getByLabel("name in headers").fill("x-tier");
  await second.locator(".entry", { has: page.getByLabel("name in headers") }).locator("input").nth(1).fill("gold");
  await check();
  await second.locator("fieldset", { hasText: /^limit/ }).locator(".note", { hasText: "limit nothing" }).waitFor();
  await accessible(page, "the form of a policy");

  // The order of a list is part of the document.
  await second.getByRole("button", { name: "Add to services" }).click();
  await second.getByLabel("services 1", { exact: true }).fill("b");
  await second.getByRole("button", { name: "Add to services" }).click();
  await second.getByLabel("services 2", { exact: true }).fill("a");
  await second.getByRole("button", { name: "Move services 2 up" }).click();
  assert.equal(await second.getByLabel("services 1", { exact: true }).inputValue(), "a");
  await second.getByRole("button", { name: "Remove services 2" }).click();

  // Up; the other view shows the same.
  await dialog.getByRole("button", { name: "Move rules 2 up" }).click();
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Move rules 1 down");
  const want = [{ action: "limit", limit: { requests_per_second: 100, shared: true }, match: { services: ["a"], methods: ["GET"], headers: { "x-tier": "gold" } } }, { action: "timeout", timeout_seconds: 3, match: { services: ["shop"] } }];
  await dialog.getByRole("radio", { name: "JSON" }).check();
  const text = dialog.getByLabel("Labels and rules, in JSON");
  assert.deepEqual(JSON.parse(await text.inputValue()), { labels: { team: hostile }, rules: want });
  await text.fill("{");
  await dialog.getByRole("radio", { name: "Form" }).click();
  await dialog.getByText("This is not JSON.").waitFor();
  want[1].timeout_seconds = 4;
  await text.fill(JSON.stringify({ labels: { team: hostile }, rules: [...want, { action: "deny" }] }));
  await dialog.getByRole("radio", { name: "Form" }).check();
  await exactly(dialog.locator("details"), 3);
  await dialog.getByRole("button", { name: "Remove rules 3" }).click();
  await check();
  await dialog.locator(".diff").waitFor();
  await make.click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual(await rules(), want);
  await quiet(opened, ["422 (Unprocessable"]);
});

test("a gray release of a policy is begun, given to everybody and withdrawn", patience, async () => {
  await api("PUT", "/v1/policies/ramp", { rules: [{ action: "timeout", timeout_seconds: 2 }] });
  const now = async () => (await api("GET", "/v1/policies/ramp")).json();
  const opened = await open("#/policy/ramp");
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  const make = async () => {
    await dialog.getByRole("button", { name: "Make the change" }).click();
    await dialog.waitFor({ state: "detached" });
  };
  const begin = async () => {
    await page.getByRole("button", { name: "Begin a gray release" }).click();
    await field(dialog, "timeout_seconds").fill("5");
    await dialog.getByRole("button", { name: "Check" }).click();
    await dialog.getByText("must choose clients").first().waitFor();
    await field(dialog, "percent").fill("20");
    await dialog.getByRole("button", { name: "Add to labels" }).click();
    await dialog.getByLabel("name in labels").fill("zone");
    await dialog.locator(".entry", { has: page.getByLabel("name in labels") }).getByRole("button", { name: "Add to" }).click();
    await dialog.getByLabel("zone 1", { exact: true }).fill("north");
    await dialog.getByRole("button", { name: "Check" }).click();
    await dialog.locator(".diff ins", { hasText: `"percent": 20` }).waitFor();
    await make();
    await page.getByText("20%").waitFor();
  };
  await begin();
  assert.deepEqual((await now()).release, { rules: [{ action: "timeout", timeout_seconds: 5 }], labels: { zone: ["north"] }, percent: 20, since: 1 });
  assert.match(await page.locator("section", { hasText: "gray release" }).locator(".diff").innerText(), /- .*"timeout_seconds": 2[^]*\+ .*"timeout_seconds": 5/);
  await page.getByRole("button", { name: "Withdraw it" }).click();
  await dialog.locator(".diff del", { hasText: "release" }).waitFor();
  await make();
  await page.getByText("20%").waitFor({ state: "detached" });
  await begin();
  await page.getByRole("button", { name: "Give it to everybody" }).click();
  await dialog.locator(".diff").waitFor();
  await make();
  await page.getByText("20%").waitFor({ state: "detached" });
  assert.deepEqual((await now()).rules, [{ action: "timeout", timeout_seconds: 5 }]);
  await quiet(opened, ["422 (Unprocessable"]);
});

test("health is shown, with checks, and maintenance begun and ended", patience, async () => {
  const opened = await open("#/service/checked");
  const { page } = opened;
  const rows = page.locator("tbody tr");
  await rows.filter({ hasText: "good" }).getByText("passing").waitFor();
  assert.match(await rows.filter({ hasText: "bad" }).innerText(), /up\s+critical/);
  await page.getByLabel("health").selectOption("critical");
  await exactly(rows, 1);
  await page.getByRole("link", { name: "bad" }).click();
  await page.locator("h1", { hasText: "bad" }).waitFor();
  assert.match(await rows.filter({ hasText: "http" }).innerText(), /http\s+http\s+critical\s+404 Not Found[^]*20\d\d/);
  await rows.filter({ hasText: "port" }).getByText("passing").waitFor();
  await page.getByText("7200 s").waitFor();

  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Begin maintenance" }).click();
  await dialog.getByLabel("reason").fill(`a new disk ${hostile}`);
  await dialog.getByRole("button", { name: "Check" }).click();
  await dialog.locator(".diff ins", { hasText: "a new disk" }).waitFor();
  await accessible(page, "the dialog of a maintenance");
  await dialog.getByRole("button", { name: "Make the change" }).click();
  await page.locator("dd", { hasText: "a new disk" }).waitFor();
  await page.getByText("in maintenance", { exact: true }).waitFor();
  assert.equal((await (await api("GET", "/v1/services/checked/instances/bad")).json()).maintenance, `a new disk ${hostile}`);
  await page.getByRole("button", { name: "End maintenance" }).click();
  await dialog.locator(".diff del", { hasText: "a new disk" }).waitFor();
  await dialog.getByRole("button", { name: "Make the change" }).click();
  await page.getByRole("button", { name: "Begin maintenance" }).waitFor();
  assert.equal((await (await api("GET", "/v1/services/checked/instances/bad")).json()).maintenance, undefined);
  await quiet(opened);
});

test("who calls whom is drawn, and a table says the same", patience, async () => {
  const opened = await open("#/calls");
  const { page } = opened;
  const rows = page.locator("tbody tr");
  await exactly(rows, 5);
  assert.match(await rows.filter({ hasText: "120" }).innerText(), /web\s+shop\s+120\s+3\.00\s+1\.00\s+1/);
  await exactly(page.locator("svg g"), 4);
  await exactly(page.locator("svg path.call:not(.end)"), 5);
  await exactly(page.locator("svg path.failing:not(.end)"), 1);
  await page.locator("svg").getByText("120/s · 3.00 errors/s").waitFor();
  await page.getByRole("link", { name: "cart" }).first().click();
  await page.locator("h1", { hasText: "cart" }).waitFor();
  await quiet(opened);
});

test("a gray release is shown, and given to everybody", patience, async () => {
  await api("PUT", "/v1/configs/gray", { content: "old\n" });
  await api("PUT", "/v1/configs/gray/release", { content: "new\n", percent: 20, labels: { zone: ["north"] } });
  const opened = await open("#/config/gray");
  const { page } = opened;
  await page.getByText("20%").waitFor();
  assert.match(await page.locator(".diff").first().innerText(), /- old\n\+ new/);
  await page.getByRole("button", { name: "Give it to everybody" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.locator(".diff").waitFor();
  await dialog.getByRole("button", { name: "Make the change" }).click();
  await page.getByText("20%").waitFor({ state: "detached" });
  assert.equal((await (await api("GET", "/v1/configs/gray")).json()).content, "new\n");
  await quiet(opened);
});

test("a gray release is begun, goes forward and back, and is withdrawn", patience, async () => {
  await api("PUT", "/v1/configs/ramp", { content: "rate: 1\n" });
  const of = async () => (await (await api("GET", "/v1/configs/ramp")).json()).release;
  const opened = await open("#/config/ramp");
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  const percent = dialog.getByLabel("share of clients, in percent"), labels = dialog.getByLabel("in JSON"), content = dialog.getByLabel("Content for these clients");
  const check = () => dialog.getByRole("button", { name: "Check" }).click();
  const make = async () => {
    await dialog.getByRole("button", { name: "Make the change" }).click();
    await dialog.waitFor({ state: "detached" });
  };
  await page.getByRole("button", { name: "Begin a gray release" }).click();
  assert.equal(await content.inputValue(), "rate: 1\n");
  await content.fill("rate: 2\n");
  await check();
  await dialog.getByText("must choose clients").waitFor();
  await labels.fill("{");
  await check();
  await dialog.getByText("This is not JSON.").waitFor();
  await percent.fill("120");
  await labels.fill(`{"zone":[]}`);
  await check();
  await dialog.locator("li", { hasText: "#/percent" }).waitFor();
  await dialog.locator("li", { hasText: "#/labels/zone" }).waitFor();
  await percent.fill("10");
  await labels.fill(`{"zone":["north"]}`);
  assert.equal(await dialog.getByRole("button", { name: "Make the change" }).isDisabled(), true);
  await check();
  await dialog.locator(".diff").waitFor();
  assert.match(await dialog.locator(".diff").innerText(), /\+ .*"percent": 10[^]*\+ rate: 2/);
  await accessible(page, "the dialog of a release");
  assert.equal(await of(), undefined);
  await make();
  await page.getByText("10%").waitFor();
  const { since } = await of();

  for (const share of ["50", "5"]) {
    await page.getByRole("button", { name: "Change the gray release" }).click();
    assert.deepEqual([JSON.parse(await labels.inputValue()), await content.inputValue()], [{ zone: ["north"] }, "rate: 2\n"]);
    await percent.fill(share);
    await check();
    await dialog.locator(".diff ins", { hasText: `"percent": ${share}` }).waitFor();
    await make();
    await page.getByText(`${share}%`, { exact: true }).waitFor();
    assert.deepEqual(await of(), { content: "rate: 2\n", labels: { zone: ["north"] }, percent: Number(share), since });
  }

  await page.getByRole("button", { name: "Withdraw it" }).click();
  await dialog.locator(".diff del", { hasText: "rate: 2" }).waitFor();
  await make();
  await page.getByRole("button", { name: "Begin a gray release" }).waitFor();
  assert.equal(await of(), undefined);

  // What is not shown is not replaced by nothing.
  await show(page, "#/config/password", "password");
  await page.getByRole("button", { name: "Change the gray release" }).click();
  assert.equal(await content.inputValue(), "");
  await percent.fill("60");
  await check();
  assert.equal(await content.evaluate((e) => e.validity.valueMissing), true);
  assert.equal(await dialog.locator("h3").count(), 0);
  await quiet(opened, ["422 (Unprocessable"]);
});

test("what would be removed is shown, and its name entered before", patience, async () => {
  await api("PUT", "/v1/policies/doomed", { rules: [{ action: "deny" }] });
  const opened = await open("#/policy/doomed");
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  const remove = dialog.getByRole("button", { name: "Remove", exact: true }), name = dialog.getByLabel("To remove it, enter its name:");
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await dialog.locator(".diff del", { hasText: "deny" }).waitFor();
  assert.equal(await dialog.locator(".diff ins").count(), 0);
  await accessible(page, "the dialog of a removal");
  assert.equal(await remove.isDisabled(), true);
  await name.fill("doome");
  assert.equal(await remove.isDisabled(), true);
  await name.fill("doomed");
  await api("PUT", "/v1/policies/doomed", { rules: [{ action: "allow" }] });
  await remove.click();
  await dialog.getByText("Nothing was removed.").waitFor();
  await dialog.locator(".diff").nth(1).waitFor();
  assert.match((await dialog.locator(".diff").allInnerTexts()).join("\n"), /- .*"deny"\n\+ .*"allow"[^]*- .*"allow"/);
  await remove.click();
  await page.locator("h1", { hasText: "Policies" }).waitFor();
  assert.equal((await fetch(`${control.url}/v1/policies/doomed`)).status, 404);

  // By somebody else, meanwhile.
  await api("PUT", "/v1/configs/doomed", { content: "a\n" });
  await show(page, "#/config/doomed", "doomed");
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await dialog.locator(".diff del", { hasText: "a" }).waitFor();
  await api("DELETE", "/v1/configs/doomed");
  await name.fill("doomed");
  await remove.click();
  await dialog.getByText(/It was removed\.|It does not exist:/).waitFor();
  assert.equal(await remove.isDisabled(), true);
  await quiet(opened, ["412 (Precondition Failed)", "404 (Not Found)"]);
});

test("an instance is removed, and a service with all of its own, by the keyboard", patience, async () => {
  const ids = Array.from({ length: 20 }, (_, i) => `i${String(i).padStart(2, "0")}`);
  await Promise.all(ids.map((id, i) => api("PUT", `/v1/services/fleet/instances/${id}`, { address: "10.2.0.1", port: 1 + i, ttl_seconds: 3600, metadata: { note: hostile } })));
  const opened = await open("#/service/fleet");
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  const press = async (button, label, name) => {
    await page.getByRole("button", { name: button, exact: true }).focus();
    await page.keyboard.press("Enter");
    await dialog.getByText(label).first().waitFor();
    await dialog.getByLabel("To remove it, enter its name:").focus();
    await page.keyboard.type(name);
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Remove");
    await page.keyboard.press("Enter");
  };
  await page.getByRole("link", { name: "i07" }).click();
  await page.locator("h1", { hasText: "i07" }).waitFor();
  await page.getByText("10.2.0.1:8", { exact: true }).waitFor();
  await press("Remove", "It would be gone", "i07");
  await page.locator("h1", { hasText: "fleet" }).waitFor();
  await page.getByRole("link", { name: "i08" }).waitFor();
  assert.equal(await page.getByRole("link", { name: "i07" }).count(), 0);
  await press("Remove the service", "19 instances would be gone", "fleet");
  await page.locator("h1", { hasText: "Services" }).waitFor();
  await page.getByRole("link", { name: "shop" }).waitFor();
  assert.equal(await page.getByRole("link", { name: "fleet" }).count(), 0);
  assert.deepEqual((await (await api("GET", "/v1/services/fleet/instances")).json()).items, []);
  await quiet(opened, ["404 (Not Found)"]);
});

test("a rollout is live, says when it is not, and goes on", patience, async () => {
  const own = control;
  control = await start("rollout");
  try {
    await api("PUT", "/v1/configs/rolled", { content: "1" });
    const ends = await Promise.all(["web-1", "web-2", hostile].map(client));
    const opened = await open("#/rollouts");
    const { page } = opened;
    await page.getByRole("link", { name: "rolled" }).click();
    await page.getByText(hostile).waitFor();
    await ack("web-1", "rolled", 1, "applied");
    await ack("web-2", "rolled", 1, "refused", `no room ${hostile}`);
    await page.getByText("no room").waitFor();
    assert.match(await page.locator("tbody tr").first().innerText(), /web-2\s+refused\s+1\s+–\s+no room <img/);
    assert.match((await page.locator(".readings").innerText()).replaceAll(/\s+/g, " "), /version 1 clients 3 applied 1 refused 1 pending 1/i);
    ends.forEach((end) => end());
    await page.getByText("not connected").first().waitFor();
    assert.equal(await page.locator(".live").innerText(), "live");

    control.process.kill("SIGKILL");
    await page.getByText(/^Connection lost, as of \d\d:\d\d:\d\d; trying again\.$/).waitFor();
    await exactly(page.locator("tbody tr"), 3);
    await control.ended;
    control = await start("rollout", control.port);
    await page.locator(".live", { hasText: /^live$/ }).waitFor({ timeout: 40_000 });
    // The ledger was in memory: nobody is known until they come back.
    await page.getByText("No client watches it").waitFor();
    const end = await client("web-3");
    await ack("web-3", "rolled", 1, "applied");
    await page.getByText("web-3").waitFor();
    end();
    await quiet(opened, ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE"]);
  } finally {
    control.process.kill("SIGKILL");
    control = own;
  }
});

test("locks, sessions and counters are shown as they change, and a session is ended", patience, async () => {
  const web = await begin("web-1", "agreed"), job = await begin("job", "agreed");
  await lock("leader", web, "10.0.0.1:8080", "agreed");
  await lock("nightly", web, undefined, "agreed");
  const opened = await open("#/locks?ns=agreed");
  const { page } = opened;
  const dialog = page.getByRole("dialog"), rows = page.locator("tbody tr"), prefix = page.getByRole("searchbox");
  await exactly(rows, 2);
  const { token } = await (await api("GET", "/v1/locks/leader?namespace=agreed")).json();
  assert.match(await rows.first().innerText(), new RegExp(`^leader\\s+web-1\\s+10\\.0\\.0\\.1:8080\\s+${token}\\s.*20\\d\\d.*\\s${web}\\s+anonymous\\s`));
  await page.getByText("live", { exact: true }).waitFor();
  await lock("leaf", job, hostile, "agreed");
  await rows.filter({ hasText: "leaf" }).getByText("<img").waitFor();
  await prefix.fill("lea");
  await page.getByText("nightly").waitFor({ state: "detached" });
  await exactly(rows, 2);
  await prefix.fill("ead");
  await page.getByText("There is nothing here.").waitFor();
  await prefix.fill("lead");
  await exactly(rows, 1);
  assert.match(page.url(), /prefix=lead$/);

  // The button keeps the focus while the list changes.
  await page.getByRole("button", { name: "Release leader" }).focus();
  await lock("lead", job, "", "agreed");
  await exactly(rows, 2);
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-label")), "Release leader");

  // Both locks of the session are shown, and released.
  await page.keyboard.press("Enter");
  await dialog.getByText("locks released: 2").waitFor();
  assert.match(await dialog.locator(".diff").innerText(), new RegExp(`^- session ${web} {2}web-1\\n- lock leader {2}10\\.0\\.0\\.1:8080\\n- lock nightly$`));
  const remove = dialog.getByRole("button", { name: "Remove", exact: true }), typed = dialog.getByLabel("To remove it, enter its name:");
  await typed.fill("leader");
  assert.equal(await remove.isDisabled(), true);
  assert.equal((await (await api("GET", "/v1/locks?namespace=agreed")).json()).items.length, 4);
  await typed.fill(web);
  await remove.click();
  await dialog.waitFor({ state: "detached" });
  await exactly(rows, 1);
  assert.deepEqual((await (await api("GET", "/v1/locks?namespace=agreed")).json()).items.map((l) => l.name), ["lead", "leaf"]);

  // From a lock to its session; by somebody else, meanwhile.
  await page.getByRole("link", { name: job }).click();
  await page.locator("h1", { hasText: "Sessions" }).waitFor();
  await exactly(rows, 1);
  assert.match(await rows.innerText(), new RegExp(`^${job}\\s+job\\s+3600 s\\s.*20\\d\\d.*\\sanonymous\\s`));
  await page.getByRole("button", { name: `End ${job}` }).click();
  await dialog.getByText("locks released: 2").waitFor();
  await api("DELETE", `/v1/sessions/${job}?namespace=agreed`);
  await typed.fill(job);
  await remove.click();
  await dialog.getByText("It does not exist:").waitFor();
  assert.equal(await remove.isDisabled(), true);
  await page.keyboard.press("Escape");
  await page.getByText("There is nothing here.").waitFor();

  // A number of a browser has no place for the largest one.
  await api("PUT", "/v1/counters/builds?namespace=agreed", { value: 41 });
  await page.getByRole("radio", { name: "Counters" }).check();
  await page.locator("h1", { hasText: "Counters" }).waitFor();
  await rows.filter({ hasText: "41" }).waitFor();
  await page.getByText("live", { exact: true }).waitFor();
  await fetch(`${control.url}/v1/counters/builds?namespace=agreed`, { method: "PUT", headers: { "Content-Type": "application/json" }, body: `{"value":9223372036854775807}` });
  await page.getByText("9,223,372,036,854,775,807").waitFor();
  assert.match(await rows.innerText(), /^builds\s+9,223,372,036,854,775,807\s+2\s/);
  await quiet(opened, ["404 (Not Found)"]);
});

test("the audit says who changed what", patience, async () => {
  const opened = await open("#/audit");
  const { page } = opened;
  const found = page.locator("tbody tr:visible");
  const search = page.getByLabel("Search by name, address or act");
  await search.fill("default/LIMITS");
  await exactly(page.locator("tbody tr", { hasNotText: "default/limits" }), 0);
  assert.match(await found.last().innerText(), /anonymous\s+127\.0\.0\.1\s+changed\s+configuration default\/limits\s+–\s+1/);
  await search.fill("default/password");
  await exactly(found, 2);
  await page.getByLabel("Kind").selectOption("policy");
  await exactly(found, 0);
  await search.fill("default/deny-all");
  await exactly(found, 1);
  assert.match(page.url(), /kind=policy/);
  await page.reload();
  await exactly(found, 1);
  await page.getByLabel("Kind").selectOption("");
  await search.fill("");
  await page.getByLabel(/^by/).selectOption("anonymous");
  await page.getByRole("link", { name: "default/limits" }).first().waitFor();
  await page.getByLabel("until").fill("2001-01-01T00:00");
  await page.getByText("There is nothing here.").waitFor();
  await page.getByLabel("until").fill("");
  await page.getByRole("link", { name: "default/limits" }).first().click();
  await page.locator("h1", { hasText: "limits" }).waitFor();
  await quiet(opened);
});

test("a token is asked for, kept in the tab, and holds the reader to their role", patience, async () => {
  const sum = (token) => createHash("sha256").update(token).digest("hex");
  writeFileSync(join(dir, "principals.yaml"), `principals:
  - {name: boss, token_sha256: ${sum(tokens.admin)}, grants: [{namespace: "*", role: admin}]}
  - {name: guest, token_sha256: ${sum(tokens.reader)}, grants: [{namespace: default, role: reader}]}
`);
  const guarded = await start("guarded", 0, "--principals", join(dir, "principals.yaml"));
  const own = control;
  control = guarded;
  const admin = { Authorization: `Bearer ${tokens.admin}` };
  await api("PUT", "/v1/configs/password", { content: secret, secret: true }, admin);
  await api("PUT", "/v1/configs/password", { content: `${secret}-2`, secret: true }, admin);
  await api("PUT", "/v1/services/shop/instances/1", { address: "10.0.0.1", port: 80, ttl_seconds: 3600 }, admin);
  const { id: session } = await (await api("POST", "/v1/sessions", { ttl_seconds: 3600 }, admin)).json();
  const opened = await open("#/configs", {}, guarded.url, "locked");
  const { page, context } = opened;
  const enter = async (token) => {
    await page.getByLabel("Token").fill(token);
    await page.getByRole("button", { name: "Use it" }).click();
  };
  assert.equal(await page.locator("h1").innerText(), "A token is needed");
  assert.equal(await page.locator("table").count(), 0);
  await enter("wrong");
  await page.waitForTimeout(300);
  await page.waitForSelector('#ui[data-state="locked"]');
  await enter(tokens.reader);
  await page.getByRole("link", { name: "password" }).click();
  await page.getByText("This page never shows it").waitFor();
  await page.getByRole("button", { name: "Roll back to version 1" }).click();
  await page.getByRole("dialog").getByText("You may not do this:").waitFor();
  assert.equal(await page.getByRole("button", { name: "Make the change" }).isDisabled(), true);
  await page.keyboard.press("Escape");
  for (const [hash, title, button, name = title] of [["#/config/password", "password", "Remove"], ["#/service/shop", "shop", "Remove the service"], ["#/instance/shop/1", "1", "Remove"], ["#/locks?kind=session", "Sessions", `End ${session}`, session]]) {
    await show(page, hash, title);
    await page.getByRole("button", { name: button, exact: true }).click();
    await page.getByRole("dialog").getByText("You may not do this:").waitFor();
    await page.getByRole("dialog").getByLabel("To remove it, enter its name:").fill(name);
    assert.equal(await page.getByRole("dialog").getByRole("button", { name: "Remove", exact: true }).isDisabled(), true);
    await page.keyboard.press("Escape");
  }
  await show(page, "#/audit", "Audit");
  await page.getByText("You may not do this:").waitFor();
  await page.reload();
  await page.getByText("You may not do this:").waitFor();
  assert.deepEqual(await page.evaluate(() => [Object.keys(sessionStorage).length, document.cookie, JSON.stringify(localStorage).includes("token-of")]), [1, "", false]);

  // Not even a reader of secrets is shown them.
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await page.waitForSelector('#ui[data-state="locked"]');
  await enter(tokens.admin);
  await page.waitForSelector('#ui[data-state="drawn"]');
  for (const [hash, title] of [["#/configs", "Configurations"], ["#/config/password", "password"], ["#/audit", "Audit"]]) {
    await show(page, hash, title);
    assert.doesNotMatch(await page.content(), /correct-horse/);
  }
  await show(page, "#/config/password", "password");
  await page.getByRole("button", { name: "Edit", exact: true }).click();
  assert.equal(await page.getByRole("dialog").getByLabel("content").inputValue(), "");
  await page.getByRole("dialog").getByRole("button", { name: "Check" }).click();
  await page.getByRole("dialog").getByText("It would become version 3").waitFor();
  assert.doesNotMatch(await page.content(), /correct-horse/);
  await page.keyboard.press("Escape");
  const other = await context.newPage();
  await other.goto(`${guarded.url}/console/`);
  await other.waitForSelector('#ui[data-state="locked"]');
  await quiet(opened, ["401 (Unauthorized)", "403 (Forbidden)"]);
  control = own;
  guarded.process.kill("SIGTERM");
  assert.equal(await guarded.ended, 0);
});

for (const [locale, colorScheme, width] of [["en-US", "light", 1300], ["zh-CN", "dark", 1300], ["zh-CN", "light", 390]]) {
  test(`axe-core finds nothing serious: ${locale}, ${colorScheme}, ${width} wide`, patience, async () => {
    const opened = await open("", { locale, colorScheme, viewport: { width, height: 900 } });
    for (const [hash, title] of [
      ["#/services", /Services|服务/], ["#/service/shop", "shop"], ["#/instance/shop/1", "1"], ["#/instance/checked/bad", "bad"], ["#/calls", /Calls|调用关系/], ["#/rollout/instance/shop", "shop"], ["#/configs", /Configurations|配置/], ["#/config/limits", "limits"], ["#/config/password", "password"], ["#/policies", /Policies|策略/],
      ["#/policy/deny-all", "deny-all"], ["#/rollouts", /Rollouts|下发进度/], ["#/rollout/config/limits", "limits"], ["#/locks", /Locks|锁/], ["#/locks?kind=session", /Sessions|会话/], ["#/locks?kind=counter", /Counters|计数器/], ["#/audit", /Audit|审计/], ["#/config/none", "none"], ["#/nowhere", /no such page|没有这个页面/],
    ]) {
      await show(opened.page, hash, title);
      await accessible(opened.page, hash);
      if (locale === "zh-CN") assert.deepEqual(await english(opened.page, "ui"), [], hash);
      assert.ok(await opened.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} scrolls sideways`);
      assert.doesNotMatch(await opened.page.content(), new RegExp(secret));
    }
    for (const [hash, title, button, ready] of [
      ["#/instance/shop/1", "1", /^(Remove|删除)$/, ".diff"], ["#/service/shop", "shop", /^(Remove the service|删除该服务)$/, ".diff"], ["#/config/limits", "limits", /^(Begin a gray release|开始灰度发布)$/, "textarea"],
      ["#/policy/canary", "canary", /^(Edit|编辑)$/, "details"], ["#/policy/canary", "canary", /^(Begin a gray release|开始灰度发布)$/, "details"], ["#/instance/checked/bad", "bad", /^(Begin maintenance|开始维护)$/, "input"],
      ["#/locks", /Locks|锁/, /^(Release|释放) leader$/, ".diff"],
    ]) {
      await show(opened.page, hash, title);
      await opened.page.getByRole("button", { name: button }).click();
      await opened.page.getByRole("dialog").locator(ready).first().waitFor();
      await accessible(opened.page, `the dialog of ${hash}`);
      if (locale === "zh-CN") assert.deepEqual(await english(opened.page, "ui"), [], hash);
      await opened.page.keyboard.press("Escape");
    }
    await quiet(opened, ["404 (Not Found)"]);
  });
}

test("language and colours can be switched, and are kept", async () => {
  const opened = await open();
  const { page } = opened;
  await page.getByLabel("Language").selectOption("zh");
  await page.locator("h1", { hasText: "服务" }).waitFor();
  await page.getByLabel("配色").selectOption("dark");
  await page.reload();
  await page.locator("h1", { hasText: "服务" }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  await quiet(opened);
});

test("the keyboard gets everywhere, and live lists do not take its place", async () => {
  const opened = await open();
  const { page } = opened;
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.getByText("live", { exact: true }).waitFor();
  await page.getByRole("link", { name: "shop" }).focus();
  await api("PUT", "/v1/services/zz-last/instances/1", { address: "10.0.0.1", port: 80, ttl_seconds: 3600 });
  await page.getByRole("link", { name: "zz-last" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "shop");
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: "shop" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  await api("PUT", "/v1/configs/focused", { content: "before\n" });
  await show(page, "#/config/focused", "focused");
  await page.getByText("live", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Edit", exact: true }).focus();
  await api("PUT", "/v1/configs/focused", { content: "after\n" });
  await page.locator("pre", { hasText: "after" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Edit");
  await quiet(opened);
});

test("the policy refuses what somebody might put in", async () => {
  const { page, context, seen } = await open();
  assert.equal(await page.evaluate(() => { try { document.body.innerHTML = "<b>"; return "taken"; } catch (e) { return e.name; } }), "TypeError");
  assert.equal(await page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => "answered", () => "refused")), "refused");
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.deepEqual(seen.requests.filter((u) => !u.startsWith(control.url)), []);
  await context.close();
});

test("another site's page gets nothing, changes nothing and frames nothing", async () => {
  const site = createServer((_, response) => { response.setHeader("Content-Type", "text/html"); response.end("<title>evil</title>"); });
  await new Promise((listening) => site.listen(0, "127.0.0.1", listening));
  const context = await browser.newContext();
  context.setDefaultTimeout(120_000); // no expectation of speed
  const page = await context.newPage();
  await page.goto(`http://127.0.0.1:${site.address().port}/`);
  const before = (await (await api("GET", "/v1/configs/limits")).json()).version;
  assert.equal(await page.evaluate((u) => fetch(`${u}/v1/configs`).then((r) => r.type, () => "refused"), control.url), "refused");
  await page.evaluate((u) => fetch(`${u}/v1/configs/limits/rollback`, { method: "POST", mode: "no-cors", body: `{"version":1}` }).catch(() => {}), control.url);
  await page.evaluate((u) => { const f = document.createElement("iframe"); f.src = `${u}/console/`; document.body.append(f); return new Promise((done) => { f.onload = done; }); }, control.url);
  assert.equal(await page.frames()[1].locator("#ui").count(), 0);
  assert.equal((await (await api("GET", "/v1/configs/limits")).json()).version, before);
  await context.close();
  site.close();
});
