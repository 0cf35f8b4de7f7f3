// What a user does with dyno ui, in a real browser, with real runs. scripts/browser.sh
// builds the program.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { accessible, english, exactly, launch, misplaced, watched } from "./chromium.mjs";

const hostile = `<img src=x onerror="window.hit=1"></script><script>window.hit=2</script>`;
const target = `target: {protocol: tcp, start: [dyno, serve, echo, --tcp, "127.0.0.1:{{port}}"]}`;
const patience = { timeout: 180_000 }; // no expectation of speed

let browser, server, dir, url, token, ended;

before(async () => {
  dir = mkdtempSync(join(tmpdir(), "dyno-ui-"));
  mkdirSync(join(dir, "experiments"));
  const file = (name, text) => writeFileSync(join(dir, "experiments", name), text);
  file("brief.yaml", `name: brief
question: 'Is it ${hostile}?'
${target}
load: {closed: {connections: 2}, warmup: 500ms, window: "{{length}}"}
compare: {base: one, variants: {one: {length: 1s}, two: {length: 1s}}}
design: {rounds: 8, control: false, remeasure: false}
short: {rounds: 2}
`);
  file("long.yaml", `name: long\n${target}\nload: {closed: {connections: 2}, warmup: 0s, window: 10m}\ndesign: {rounds: 2}\n`);
  file("faulty.yaml", `name: '${hostile}'\nlaod: 1\n${target}\n`);
  file("compose.yaml", "name: shop\nservices: {front: {image: shop}}\n");
  server = spawn(process.env.DYNO, ["ui", "--experiments", "experiments", "--listen", "127.0.0.1:0"], { cwd: dir, stdio: ["ignore", "ignore", "pipe"] });
  ended = new Promise((done) => server.on("exit", (code) => done(code)));
  let text = "";
  await new Promise((found, none) => {
    server.stderr.on("data", (part) => {
      text += part;
      const m = /open in a browser: (\S+)\/#token=(\S+)\n/.exec(text);
      if (m) { [, url, token] = m; found(); }
    });
    void ended.then(() => none(new Error(`dyno ui ended: ${text}`)));
  });
  browser = await launch();
});

after(async () => {
  await browser?.close();
  server?.kill("SIGINT");
  assert.equal(await ended, 0);
  rmSync(dir, { recursive: true, force: true });
});

/** Opens the page as the address on the terminal does, and notes all that it does. */
async function open(options = {}, withToken = true) {
  const { page, context, seen } = await watched(browser, options);
  await page.goto(withToken ? `${url}/#token=${token}` : url);
  await page.waitForSelector(`#ui[data-state="${withToken ? "drawn" : "locked"}"]`);
  return { page, context, seen };
}

/** Shows another page. */
async function show(page, hash, title) {
  await page.evaluate((h) => { location.hash = h; }, hash);
  await page.waitForSelector('#ui[data-state="drawn"]');
  await page.locator("h1", { hasText: title }).waitFor();
  await page.locator('[aria-busy="true"]').waitFor({ state: "detached" });
}

/** Nothing was asked of anybody else, nothing was logged, nothing ran. */
async function quiet({ page, seen, context }) {
  assert.deepEqual(seen.requests.filter((u) => !u.startsWith(`${url}/`) && !u.startsWith("data:")), []);
  assert.deepEqual(seen.requests.filter((u) => u.includes(token)), []);
  assert.deepEqual([seen.console, seen.errors, seen.dialogs], [[], [], []]);
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.equal(await page.locator("#ui img, #ui script, #ui iframe, #ui object").count(), 0);
  await context.close();
}

test("it opens, keeps the token out of sight, and asks nobody else", async () => {
  const opened = await open();
  const { page } = opened;
  assert.equal(await page.locator("h1").innerText(), "Runs");
  assert.equal(page.url(), `${url}/`);
  await page.reload();
  await page.waitForSelector('#ui[data-state="drawn"]');
  assert.equal(await page.locator("h1").innerText(), "Runs");
  await quiet(opened);
});

test("without the token it shows nothing, and takes it", async () => {
  const { page, context } = await open({}, false);
  assert.equal(await page.locator("h1").innerText(), "This tab has no token");
  assert.equal(await page.locator("table").count(), 0);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Use it" }).click();
  await page.waitForSelector('#ui[data-state="drawn"]');
  assert.equal(await page.locator("h1").innerText(), "Runs");
  await context.close();
});

test("it switches language and colours, and remembers", async () => {
  const opened = await open();
  const { page } = opened;
  await page.getByLabel("Language").selectOption("zh");
  await page.locator("h1", { hasText: "运行记录" }).waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.lang), "zh-CN");
  assert.equal(await page.evaluate(() => document.activeElement.value), "zh");
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.getByLabel("配色").selectOption("dark");
  await page.waitForSelector('#ui[data-state="drawn"]');
  assert.notEqual(await background(), light);
  await page.reload();
  await page.locator("h1", { hasText: "运行记录" }).waitFor();
  assert.notEqual(await background(), light);
  await quiet(opened);
  const chinese = await open({ locale: "zh-CN" });
  assert.equal(await chinese.page.locator("h1").innerText(), "运行记录");
  await quiet(chinese);
});

let first;

test("it starts a run, follows it to its end, and opens its report", patience, async () => {
  const opened = await open();
  const { page, context, seen } = opened;
  await page.getByRole("link", { name: "Experiments" }).click();
  await page.locator("h1", { hasText: "Experiments" }).waitFor();
  assert.match(await page.locator("main").innerText(), /line 2, column 1: laod unknown field/);
  assert.match(await page.locator("main").innerText(), /Is it <img src=x onerror="window\.hit=1"><\/script><script>window\.hit=2<\/script>\?/);
  await exactly(page.getByRole("button", { name: /Start / }), 2);

  // By keyboard: the dialog opens, Escape closes it, and it has its way at last.
  await page.getByRole("button", { name: "Start brief" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "hidden" });
  await page.getByRole("button", { name: "Start brief" }).click();
  await accessible(page, "the dialog");
  await page.getByLabel("length").fill("nonsense");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("dialog").getByRole("alert").getByText("not possible").or(page.getByRole("dialog").locator(".faults")).first().waitFor();
  seen.console.splice(0, seen.console.findIndex((m) => m.includes("422")) + 1); // Chromium logs every answer that is an error
  await page.getByLabel("length").fill("1200ms");
  await page.getByRole("checkbox").check();
  await page.getByRole("button", { name: "Start", exact: true }).click();

  await page.locator("h1", { hasText: "Live" }).waitFor();
  await page.locator(".status", { hasText: /Trial \d of 4/ }).waitFor(patience);
  const late = await open();
  await show(late.page, "#/live", "Live");
  await late.page.locator(".status", { hasText: "Trial" }).waitFor(patience);
  await exactly(page.locator("canvas"), 2);
  await page.locator("dd", { hasText: "k/s" }).first().waitFor(patience);
  await accessible(page, "live");
  for (const p of [page, late.page]) {
    await p.getByRole("link", { name: "See the results" }).waitFor(patience);
    assert.match(await p.locator(".status").innerText(), /^(Done|Ended with exit code 4)$/);
    await exactly(p.getByRole("region", { name: "Trials" }).locator("tbody tr"), 4);
  }
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = false; }));
  assert.equal(await page.locator("main").innerText(), await late.page.locator("main").innerText());
  await quiet(late);

  await page.getByRole("link", { name: "See the results" }).click();
  await page.locator("h1", { hasText: /^brief-/ }).waitFor();
  first = await page.locator("h1").innerText();
  await accessible(page, "a run");
  const [report] = await Promise.all([context.waitForEvent("page"), page.getByRole("link", { name: "Open the report" }).click()]);
  await report.waitForSelector('#report[data-state="drawn"]');
  assert.match(await report.locator(".question").innerText(), /Is it <img/);
  // Whatever may be in it, it reaches neither the token nor the server.
  assert.equal(await report.evaluate(() => { try { return sessionStorage.length; } catch (e) { return e.name; } }), "SecurityError");
  assert.equal(await report.evaluate(() => window.opener), null);
  assert.equal(await report.evaluate(() => window.hit), undefined);
  await quiet(opened);
});

test("it stops a run", patience, async () => {
  const opened = await open();
  const { page, seen } = opened;
  await show(page, "#/experiments", "Experiments");
  await page.getByRole("button", { name: "Start long" }).click();
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator("dd", { hasText: "k/s" }).first().waitFor(patience);
  await page.getByRole("img", { name: "a run is in progress" }).waitFor();

  await show(page, "#/experiments", "Experiments");
  assert.match(await page.locator("main").innerText(), /Another run is in progress/);
  await page.getByRole("button", { name: "Start brief" }).click();
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByText("one at a time").waitFor();
  seen.console.splice(0, seen.console.findIndex((m) => m.includes("409")) + 1);
  await page.keyboard.press("Escape");

  await show(page, "#/live", "Live");
  await page.getByRole("button", { name: "Stop the run" }).click();
  await page.locator(".status", { hasText: "Ended with exit code 130" }).waitFor(patience);
  await page.getByText("Output of dyno").click();
  assert.match(await page.locator("pre").innerText(), /interrupted by SIGINT/);
  await show(page, "#/runs", "Runs");
  assert.match(await page.locator("tbody tr").first().innerText(), /long-[\s\S]*incomplete/);
  await quiet(opened);
});

test("it shows a run of the command line live, and does not stop it", patience, async () => {
  const opened = await open();
  const { page } = opened;
  await show(page, "#/live", "Live");
  const other = spawn(process.env.DYNO, ["run", "-q", "-o", join("runs", "from the command line"), "--set", "length=4s", "--short", join("experiments", "brief.yaml")], { cwd: dir, stdio: "ignore" });
  const over = new Promise((done) => other.on("exit", done));
  await page.locator(".what", { hasText: "brief" }).waitFor(patience);
  await page.locator(".status", { hasText: /Trial \d/ }).waitFor(patience);
  await page.locator("dd", { hasText: "k/s" }).first().waitFor(patience);
  assert.match(await page.locator("main").innerText(), /Another process runs it/);
  assert.equal(await page.getByRole("button", { name: "Stop" }).count(), 0);
  await accessible(page, "a run of the command line");
  await page.getByRole("link", { name: "See the results" }).waitFor(patience);
  await over;
  await exactly(page.getByRole("region", { name: "Trials" }).locator("tbody tr"), 4);
  rmSync(join(dir, "runs", "from the command line"), { recursive: true });
  await quiet(opened);
});

test("files that are no experiments are not listed", async () => {
  const opened = await open();
  await show(opened.page, "#/experiments", "Experiments");
  assert.deepEqual(await opened.page.locator("tbody tr").evaluateAll((rows) => rows.length), 3);
  assert.doesNotMatch(await opened.page.locator("main").innerText(), /compose/);
  await quiet(opened);
});

test("it finds, compares and traces runs, and hostile texts are inert", patience, async () => {
  const from = join(dir, "runs", first);
  const made = JSON.parse(readFileSync(join(from, "run.json"), "utf8"));
  const said = { kind: "verbatim", values: { words: hostile } };
  for (let i = 1; i <= 12; i++) {
    const run = JSON.parse(JSON.stringify(made).replaceAll('"two"', JSON.stringify(hostile)));
    run.name = `nightly ${hostile}`;
    run.started_at = new Date(Date.UTC(2026, 0, i)).toISOString();
    run.valid = true;
    run.notes = [said];
    run.command_line = ["dyno", hostile, "https://outside.example/"];
    run.flags = [{ kind: hostile, detail: said, invalid: false, trial: 1, variant: hostile }];
    run.dyno_version = i > 6 ? hostile : "v1";
    for (const v of run.variants) {
      const f = (1000 + i) * (i > 6 ? 2 : 1);
      v.figures.throughput = { estimate: f, low: 0.99 * f, high: 1.01 * f, confidence: 0.95, values: [f, f * 1.01, f * 0.99] };
    }
    const name = i === 1 ? "night <b>1<!-- %2F" : `night ${i}`;
    mkdirSync(join(dir, "runs", name, "trials"), { recursive: true });
    writeFileSync(join(dir, "runs", name, "run.json"), JSON.stringify(run));
  }
  cpSync(from, join(dir, "runs", "sent", "copy"), { recursive: true });
  mkdirSync(join(dir, "runs", "broken"));
  writeFileSync(join(dir, "runs", "broken", "run.json"), `{"name": "${hostile.replaceAll('"', "'")}", "schema_version": "${hostile.replaceAll('"', "'")}"}`);

  const opened = await open();
  const { page } = opened;
  const rows = page.locator("tbody tr");
  const all = page.locator(".found", { hasText: "16 of 16 runs" });
  // What was seen of the folder a second ago may be shown once more; who comes back to the
  // page sees it again.
  for (let i = 0; i < 60 && (await all.count()) === 0; i++) {
    await page.evaluate(() => dispatchEvent(new Event("focus")));
    await page.waitForTimeout(500);
  }
  await all.waitFor();
  assert.match(await page.locator("main").innerText(), /cannot be read/);
  await page.getByRole("searchbox").fill("Nightly 12");
  await page.locator(".found", { hasText: "1 of 16" }).waitFor();
  assert.match(page.url(), /query=Nightly\+12$/);
  await page.getByRole("searchbox").fill("");
  await page.getByRole("combobox", { name: "Experiment" }).selectOption({ label: `nightly ${hostile}` });
  await page.locator(".found", { hasText: "12 of 16" }).waitFor();
  await page.getByLabel("From").fill("2026-01-11");
  await page.locator(".found", { hasText: "2 of 16" }).waitFor();
  await page.reload();
  await page.locator(".found", { hasText: "2 of 16" }).waitFor();
  await page.getByLabel("From").fill("");
  await page.getByLabel("State").selectOption("valid");
  await page.locator(".found", { hasText: "12 of 16" }).waitFor();
  for (const id of ["night 12", "night <b>1<!-- %2F"]) await page.getByLabel(`compare ${id}`, { exact: true }).check();
  await page.getByLabel("compare night 11").check();
  await page.getByRole("button", { name: "Compare the selected" }).click();
  await page.locator("h1", { hasText: "Several runs side by side" }).waitFor();
  assert.match(await page.locator("thead").first().innerText(), /night <b>1<!-- %2F[^]*night 11[^]*night 12/);
  await accessible(page, "several runs");
  await page.goBack();
  await page.locator(".found", { hasText: "12 of 16" }).waitFor();
  for (const id of ["night 12", "night <b>1<!-- %2F"]) await page.getByLabel(`compare ${id}`, { exact: true }).check();
  await page.getByRole("button", { name: "Compare the selected" }).click();
  await page.locator("h1", { hasText: "side by side" }).waitFor();
  const order = await page.locator("tbody").first().innerText();
  assert.ok(order.indexOf("night <b>1<!-- %2F") < order.indexOf("night 12"), order);
  assert.match(await page.locator("main").innerText(), /2\.02×/);
  await accessible(page, "a comparison");

  await page.getByRole("link", { name: "night <b>1<!-- %2F" }).click();
  await page.locator("h1", { hasText: "night <b>1<!-- %2F" }).waitFor();
  assert.match(await page.locator("main").innerText(), /nightly|Is it <img/);
  await page.getByLabel("Tags").fill("release v1");
  await page.getByLabel("Note").fill(hostile);
  await page.getByRole("checkbox", { name: "The baseline of its experiment" }).check();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  await accessible(page, "a run with tags");
  await page.getByRole("link", { name: "History of this experiment" }).click();
  await page.locator("h1", { hasText: "History of nightly <img" }).waitFor();
  await page.getByText(/from the baseline, night <b>1/).first().waitFor();
  await page.getByText(/From night 7 on/).first().waitFor();
  await page.locator("svg.picture .turn").nth(1).waitFor({ state: "attached" });
  assert.equal(await page.locator("svg.picture .turn").count(), 2);
  await accessible(page, "a history");
  await page.goBack();
  await page.locator("h1", { hasText: "night <b>1" }).waitFor();
  await quiet(opened);
});

for (const [locale, colorScheme, width] of [["en-US", "light", 1300], ["zh-CN", "dark", 1300], ["zh-CN", "light", 390]]) {
  test(`axe-core finds nothing serious: ${locale}, ${colorScheme}, ${width} wide`, patience, async () => {
    const opened = await open({ locale, colorScheme, viewport: { width, height: 900 } });
    for (const [hash, title] of [
      ["#/runs", /Runs|运行记录/], ["#/experiments", /Experiments|实验/], ["#/fleet", /Fleet|集群/], ["#/live", /Live|实时/], [`#/run/${first}`, first], ["#/nowhere", /no such page|没有这个页面/],
      [`#/compare/${first}/${encodeURIComponent("night 12")}`, /side by side|两次运行对比/], [`#/history/${encodeURIComponent(`nightly ${hostile}`)}`, /History|历史/], ["#/history/brief", /History|历史/],
    ]) {
      await show(opened.page, hash, title);
      await accessible(opened.page, hash);
      if (locale === "zh-CN") assert.deepEqual(await english(opened.page, "ui"), [], hash);
      assert.deepEqual(await misplaced(opened.page), { sideways: 0, overlapping: [], cut: [] }, hash);
    }
    await quiet(opened);
  });
}

test("the keyboard gets everywhere", async () => {
  const opened = await open();
  const { page } = opened;
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await page.getByRole("link", { name: "Live" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("h1", { hasText: "Live" }).waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.tagName), "H1");
  await quiet(opened);
});

test("the policy refuses what somebody might put in", async () => {
  const { page, context, seen } = await open();
  const refused = await page.evaluate(() => new Promise((done) => {
    document.addEventListener("securitypolicyviolation", (e) => done(e.effectiveDirective));
    const s = document.createElement("script");
    try {
      s.textContent = "window.hit = 3";
    } catch (e) {
      done(e.name);
    }
    document.body.append(s);
  }));
  assert.match(refused, /^(require-trusted-types-for|TypeError|script-src)/);
  assert.equal(await page.evaluate(() => { try { document.body.innerHTML = "<b>"; return "taken"; } catch (e) { return e.name; } }), "TypeError");
  assert.equal(await page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => "answered", () => "refused")), "refused");
  assert.equal(await page.evaluate(() => window.hit), undefined);
  assert.deepEqual(seen.requests.filter((u) => !u.startsWith(url)), []);
  await context.close();
});

test("another site's page gets nothing, starts nothing and frames nothing", async (t) => {
  const site = createServer((_, response) => { response.setHeader("Content-Type", "text/html"); response.end("<title>evil</title>"); });
  t.after(() => site.close());
  await new Promise((listening) => site.listen(0, "127.0.0.1", listening));
  const context = await browser.newContext();
  context.setDefaultTimeout(120_000); // no expectation of speed
  const page = await context.newPage();
  const statuses = [];
  context.on("response", (r) => { if (r.url().startsWith(url)) statuses.push(r.status()); });
  await page.goto(`http://127.0.0.1:${site.address().port}/`);
  const before = readdirSync(join(dir, "runs")).length;
  for (const [path, options] of [["/api/runs", { mode: "no-cors" }], ["/api/runs", {}], ["/", { mode: "no-cors" }], ["/api/runs", { method: "POST", mode: "no-cors", body: `{"experiment":"long.yaml"}` }]]) {
    assert.equal(await page.evaluate(([u, o]) => fetch(u, o).then((r) => r.type, () => "refused"), [url + path, options]), "refused", path);
  }
  await page.evaluate((u) => { const f = document.createElement("iframe"); f.src = u; document.body.append(f); return new Promise((done) => { f.onload = done; }); }, url);
  assert.equal(await page.frames()[1].locator("#ui").count(), 0);
  await Promise.all([page.waitForEvent("load"), page.evaluate((u) => { const f = document.createElement("form"); f.action = `${u}/api/runs`; f.method = "post"; document.body.append(f); f.submit(); }, url)]);
  assert.match(await page.locator("body").innerText(), /refused\.site/);
  assert.ok(statuses.length > 0 && statuses.every((status) => status === 403), String(statuses));
  assert.equal(readdirSync(join(dir, "runs")).length, before);
  await context.close();
});

test("when the connection is lost it says so", patience, async () => {
  const { page, context } = await open();
  await context.setOffline(true);
  await page.evaluate(() => { location.hash = "#/experiments"; });
  await page.getByRole("alert").waitFor();
  await context.setOffline(false);
  await show(page, "#/live", "Live");
  await context.close();
});

test("no run was left behind", () => {
  assert.deepEqual(readdirSync(join(dir, "runs")).filter((n) => n.startsWith(".")), []);
});
