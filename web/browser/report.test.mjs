// What a reader does with the report, in a real browser. scripts/browser.sh makes the
// pages: one with everything in it and texts that would be HTML, one with subscribers to
// events, and one of an hour.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { accessible, axes, english, launch, marked, misplaced, open } from "./chromium.mjs";

const everything = join(process.env.PAGES, "everything.html");
const audience = join(process.env.PAGES, "audience.html");
const hour = join(process.env.PAGES, "hour.html");

let browser;
before(async () => { browser = await launch(); });
after(() => browser.close());

/** Nothing was asked for but the page itself, nothing was logged, nothing ran. */
async function quiet({ page, seen }) {
  assert.deepEqual(seen.requests.filter((u) => !u.startsWith("file://") && !u.startsWith("data:")), []);
  assert.equal(seen.requests.filter((u) => u.startsWith("file://")).length, 1);
  assert.deepEqual(seen.console, []);
  assert.deepEqual(seen.errors, []);
  assert.deepEqual(seen.dialogs, []);
  assert.equal(await page.evaluate(() => window.hit), undefined);
}

// Two at a time: most of a test is one page that is drawn, on one CPU.
describe("the report", { concurrency: 2 }, () => {
  test("hostile texts are shown as text", async () => {
    const opened = await open(browser, everything, { locale: "en-US" });
    const { page } = opened;
    assert.equal(await page.locator("#report img, #report script, #report iframe, #report object").count(), 0);
    assert.match(await page.locator(".question").innerText(), /<\/script><script>window\.hit=1<\/script><img src=x onerror="window\.hit=2"><!--/);
    assert.deepEqual(await page.locator("a[href]").evaluateAll((list) => list.map((a) => a.getAttribute("href")).filter((u) => !u.startsWith("#"))), []);
    await quiet(opened);
    await opened.context.close();
  });

  test("several runs", async () => {
    const opened = await open(browser, join(process.env.PAGES, "history.html"), { locale: "en-US" });
    const { page } = opened;
    assert.equal(await page.locator("h1").innerText(), "nightly <img src=x>");
    assert.match(await page.getByRole("region", { name: "Runs side by side" }).innerText(), /runs\/05[^]*runs\/12[^]*throughput[^]*\+20%/);
    assert.match(await page.locator("main").innerText(), /From runs\/07 on: \+21%/);
    assert.equal(await page.locator("svg.picture .point").count(), 24);
    await page.getByText("Runs as a table").first().click();
    assert.match(await page.locator("details table").first().innerText(), /baseline\s+release\s+<b>first<\/b>/);
    await accessible(page, "several runs");
    await page.getByRole("combobox", { name: "Language" }).selectOption("zh");
    assert.match(await page.locator("main").innerText(), /Δ 为估计值与基线 runs\/03 之差/);
    assert.deepEqual(await misplaced(page), { sideways: 0, overlapping: [], cut: [] });
    await quiet(opened);
    await opened.context.close();
  });

  test("the policy refuses what somebody might put in", async () => {
    const { page, context, seen } = await open(browser, everything);
    const refused = await page.evaluate(() => new Promise((done) => {
      document.addEventListener("securitypolicyviolation", (e) => done(e.effectiveDirective));
      const s = document.createElement("script");
      s.textContent = "window.hit = 3";
      document.body.append(s);
    }));
    assert.match(refused, /^script-src/);
    assert.equal(await page.evaluate(() => window.hit), undefined);
    assert.equal(await page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => "answered", () => "refused")), "refused");
    assert.deepEqual(seen.requests.filter((u) => u.startsWith("http")), []);
    await context.close();
  });

  test("the verdict comes first and largest, then the charts, then what may be trusted", async () => {
    const { page, context } = await open(browser, everything, { locale: "en-US" });
    assert.match(await page.locator("h1").innerText(), /^all steps together: one-write has 2\.43 times the throughput of baseline/);
    const sizes = await page.evaluate(() => [...document.querySelectorAll("h1, h2, h3, p, td")].map((e) => [e.tagName, Number.parseFloat(getComputedStyle(e).fontSize)]));
    const h1 = sizes.find(([tag]) => tag === "H1")[1];
    assert.ok(sizes.every(([tag, size]) => tag === "H1" || size < h1));
    const order = await page.locator("section").evaluateAll((list) => list.map((s) => s.id));
    assert.deepEqual(order, ["ladder", "sweep", "comparison", "latency", "thresholds", "claims", "trends", "time", "validity", "agents", "slowest", "figures", "dimensions", "why", "flames", "missing", "environment", "reproduce", "notes"]);
    await context.close();
  });

  test("what was left out is said", async () => {
    const { page, context } = await open(browser, everything, { locale: "en-US" });
    assert.match(await page.locator("#comparison").innerText(), /With all rounds, throughput of pooled against baseline: \+2\.0% \(/);
    assert.match(await page.locator("#validity").innerText(), /warm-up: 2\.00 s/);
    assert.match(await page.locator("#missing").innerText(), /not testable: R4\.4: this needs 256 cores[\s\S]*not observed: system calls/);
    await context.close();
  });

  test("empty sections are absent", async () => {
    const { page, context } = await open(browser, hour, { locale: "en-US" });
    assert.deepEqual(await page.locator("section").evaluateAll((list) => list.map((s) => s.id)), ["comparison", "latency", "time", "validity", "figures", "why", "flames", "environment"]);
    await context.close();
  });

  /** A table's cells by its name, the heads first. */
  const cells = (page, name) => page.getByRole("region", { name, exact: true }).locator("tr").evaluateAll((rows) => rows.map((r) => [...r.cells].map((x) => x.innerText.trim())));

  test("subscribers: times with their intervals, and what became of events", async () => {
    const { page, context } = await open(browser, audience, { locale: "en-US" });
    assert.deepEqual(await page.locator("section").evaluateAll((list) => list.map((s) => s.id)), ["latency", "time", "validity", "figures", "streams", "why", "flames", "environment", "notes"]);
    const times = await cells(page, "Times, as subscribers saw them");
    assert.deepEqual(times[0], ["variant", "delivery delay p50", "delivery delay p99", "time to first event p50", "gap between events p50", "gap between events p99", "time to open p50", "time to open p99"]);
    assert.deepEqual(times[1], ["one", "1.00 ms ±10%", "5.00 ms ±10%", "100 ms ±10%", "2.00 ms ±10%", "9.00 ms ±10%", "30.0 ms ±10%", "50.0 ms"]);
    const events = await cells(page, "Events by outcome");
    assert.deepEqual(events[0], ["variant", "delivered", "lost", "repeated", "out of order", "gap events", "not numbered"]);
    assert.deepEqual(events.slice(1), [["one", "400,000", "0", "0", "0", "0", "0"], ["one.control", "400,000", "0", "0", "0", "0", "0"], ["four", "400,000", "3", "0", "0", "17", "9"]]);
    assert.equal(await page.locator("#streams .badge.bad").count(), 2, "what should be zero and is not stands out");
    assert.deepEqual((await cells(page, "Subscriptions")).filter((_, i) => i !== 1 && i !== 2), [["variant", "requested", "at once", "accepted", "reconnections"], ["four", "1,000", "1,000", "2,000", "40"]]);
    assert.deepEqual(await cells(page, "Subscribers that read slowly"), [["variant", "accepted", "events read", "missing", "ended by the target"], ["one", "–", "–", "–", "–"], ["one.control", "–", "–", "–", "–"], ["four", "10", "1,234", "6", "2"]]);
    await page.getByLabel("Language").selectOption("zh");
    await page.waitForSelector('#report[data-state="drawn"]');
    assert.deepEqual((await cells(page, "事件的去向"))[0], ["变体", "已投递", "丢失", "重复", "乱序", "缺口事件", "无序号"]);
    await context.close();
  });

  test("figures are per event where there are subscribers, and per request elsewhere", async () => {
    for (const [file, locale, want, never] of [
      [audience, "en-US", /CPU time per event/, /per request|requests\/s/i], [audience, "zh-CN", /单事件 CPU 时间/, /每个请求|单请求|请求\/秒/],
      [everything, "en-US", /CPU time per request/, /per event/i], [everything, "zh-CN", /单请求 CPU 时间/, /每个事件|单事件/],
    ]) {
      const { page, context } = await open(browser, file, { locale });
      await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
      const text = await page.evaluate(() => document.querySelector("main").innerText + [...document.querySelectorAll("[aria-label]")].map((e) => e.getAttribute("aria-label")).join("\n"));
      assert.match(text, want);
      assert.doesNotMatch(text, never);
      await context.close();
    }
  });

  test("a control that nothing else is compared with stands with the A/A section", async () => {
    const { page, context } = await open(browser, audience, { locale: "en-US" });
    assert.equal(await page.locator("#comparison").count(), 0);
    await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
    const validity = await page.locator("#validity").innerText();
    assert.match(validity, /one against itself \(one\.control\), throughput: 1\.58× \(8\.76e−6 … 285000\), 2 rounds/);
    const rows = await cells(page, "A/A control");
    assert.equal(rows.at(-1)[4], "~ 1.58× (8.76e−6 … 285000)");
    assert.equal(rows.at(-1)[7], "> 300%");
    assert.doesNotMatch(validity, /\d{4,}%/);
    await context.close();
    const other = await open(browser, everything, { locale: "en-US" });
    assert.equal(await other.page.locator("#validity .axis").count(), 0);
    assert.match(await other.page.locator("#comparison").innerText(), /baseline\.control/);
    await other.context.close();
  });

  test("a run that has only begun is a page, too", async () => {
    const opened = await open(browser, join(process.env.PAGES, "begun.html"), { locale: "en-US" });
    assert.equal(await opened.page.locator("h1").innerText(), "INCOMPLETE: 0 trials measured\nthe run did not finish\nnothing was measured");
    await quiet(opened);
    await opened.context.close();
  });

  test("speaks the browser's language, and the other when asked", async () => {
    const opened = await open(browser, everything, { locale: "zh-CN" });
    const { page } = opened;
    assert.equal(await page.locator("#latency h2").innerText(), "延迟分位数");
    assert.equal(await page.evaluate(() => document.documentElement.lang), "zh-CN");
    await page.getByLabel("语言").selectOption("en");
    await page.waitForSelector('#report[data-state="drawn"]');
    assert.equal(await page.locator("#latency h2").innerText(), "Latency by percentile");
    assert.equal(await page.evaluate(() => document.documentElement.lang), "en");
    await page.getByLabel("Language").selectOption("zh");
    await page.waitForSelector('#report[data-state="drawn"]');
    assert.equal(await page.locator("h1").innerText().then((s) => s.split("\n")[0].trim()), "全部优化合计：one-write 的吞吐量是 baseline 的 2.43 倍（2.36 … 2.50，95%）");
    await quiet(opened);
    await opened.context.close();
  });

  test("colours can be chosen", async () => {
    const { page, context } = await open(browser, hour, { locale: "en-US", colorScheme: "light" });
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await background();
    await page.getByLabel("Colours").selectOption("dark");
    await page.waitForSelector('#report[data-state="drawn"]');
    assert.notEqual(await background(), light);
    await context.close();
  });

  test("flame graph: search, zoom by click, back by keyboard", async () => {
    const opened = await open(browser, everything, { locale: "en-US" });
    const { page } = opened;
    const flames = page.locator("#flames");
    await flames.scrollIntoViewIfNeeded();
    await flames.getByLabel("Search functions").fill("ENCODE");
    assert.match(await flames.locator(".found").innerText(), /^one box matches, [\d.]+ µs \([\d.]+%\)$/);
    await flames.getByLabel("Search functions").fill("nothing like that");
    assert.equal(await flames.locator(".found").innerText(), "nothing matches");
    await flames.getByLabel("Search functions").fill("");

    const canvas = flames.locator("canvas.flame");
    const pixels = () => canvas.evaluate((c) => c.toDataURL());
    const whole = await pixels();
    const box = await canvas.boundingBox();
    const rowHeight = 20;
    await canvas.click({ position: { x: box.width * 0.4, y: 3 * rowHeight + 8 } });
    assert.match(await flames.locator(".readout").innerText(), /^main\.encode/);
    assert.notEqual(await pixels(), whole);
    await canvas.press("Escape");
    await canvas.press("Escape");
    await canvas.press("Escape");
    assert.match(await flames.locator(".readout").innerText(), /^all/);
    await canvas.press("ArrowDown");
    assert.match(await flames.locator(".readout").innerText(), /^main\.main/);
    await canvas.press("ArrowDown");
    await canvas.press("Enter");
    assert.notEqual(await pixels(), whole);
    await flames.getByRole("button", { name: "Show all" }).click();
    assert.match(await flames.locator(".readout").innerText(), /^all/);

    await flames.getByText("Functions as a table").click();
    assert.match(await flames.locator("tbody").innerText(), /main\.encode/);
    await flames.locator(".choice label", { hasText: /^baseline$/ }).click();
    assert.match(await canvas.getAttribute("aria-label"), /^Flame graph of baseline:/);
    await quiet(opened);
    await opened.context.close();
  });

  test("time lines: zoom on one cursor, by mouse and by keyboard, with a table next to them", async () => {
    const opened = await open(browser, hour, { locale: "en-US" });
    const { page } = opened;
    const time = page.locator("#time");
    const first = time.locator(".panel .u-over").first();
    await first.scrollIntoViewIfNeeded();
    const picture = (n) => time.locator(".panel canvas").nth(n).evaluate((c) => c.toDataURL());
    const before0 = await picture(0), before5 = await picture(5);
    const box = await first.boundingBox();
    await page.mouse.move(box.x + box.width * 0.3, box.y + 40);
    assert.match(await time.locator(".panel .values").first().innerText(), /variant-1 [\d.]+k\/s/);
    assert.match(await time.locator(".panel .values").nth(1).innerText(), /variant-1 [\d.]+ ms/, "one cursor for all panels");
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 5 });
    await page.mouse.up();
    assert.notEqual(await picture(0), before0);
    assert.notEqual(await picture(5), before5, "all panels zoom");
    await time.getByRole("button", { name: "Show all" }).press("Enter");
    await page.mouse.move(0, 0);
    assert.equal(await picture(5), before5);
    await time.getByRole("button", { name: "Zoom in" }).press("Enter");
    assert.notEqual(await picture(5), before5);

    await time.getByText("Heat map as a table").click();
    assert.equal(await time.locator("details[open] tbody tr").count(), 12);
    await time.getByRole("checkbox", { name: "variant-8" }).uncheck();
    assert.doesNotMatch(await time.locator(".panel .values").first().innerText(), /variant-8/);
    await quiet(opened);
    await opened.context.close();
  });

  test("percentiles are read by keyboard", async () => {
    const { page, context } = await open(browser, hour, { locale: "en-US" });
    const chart = page.locator("#latency .interactive");
    await chart.focus();
    await chart.press("PageUp");
    assert.match(await page.locator("#latency .readout").innerText(), /p99\.9\b[\s\S]*variant-1/);
    await page.locator("#latency .choice label", { hasText: "send lag" }).click();
    assert.match(await page.locator("#latency .hint").innerText(), /^Send lag counts/);
    await context.close();
  });

  test("verdicts have a sign and a colour of their own, the same everywhere", async () => {
    const { page, context } = await open(browser, everything, { locale: "en-US" });
    const seen = await page.evaluate(() => ["better", "worse"].map((v) => {
      const of = (selector, property) => new Set([...document.querySelectorAll(selector)].map((e) => getComputedStyle(e)[property]));
      return { text: [...document.querySelectorAll(`.verdict.${v}, .value.${v}`)].every((e) => e.textContent.startsWith(v === "better" ? "▲" : "▼")), colours: [...of(`.verdict.${v}`, "color"), ...of(`text.value.${v}`, "fill"), ...of(`.dot.${v}`, "fill")] };
    }));
    for (const { text, colours } of seen) {
      assert.ok(text, "each has its sign");
      assert.equal(new Set(colours).size, 1, String(colours));
    }
    const [green, red] = seen.map((x) => x.colours[0].match(/\d+/g).map(Number));
    assert.ok(green[1] > green[0] && green[1] > green[2], `better is green: ${green}`);
    assert.ok(red[0] > red[1] && red[0] > red[2], `worse is red: ${red}`);
    await context.close();
  });

  test("capacity: latency over the rate, with the line of the SLO", async () => {
    const { page, context } = await open(browser, join(process.env.PAGES, "searched.html"), { locale: "en-US" });
    const chart = page.getByRole("img", { name: "service time p99 over the rate, on a log axis." });
    assert.equal(await chart.locator("circle").count(), 6, "rates that kept the thresholds");
    assert.equal(await chart.locator("path").count(), 8, "rates that did not");
    assert.equal(await chart.locator(".slo").textContent(), "SLO: service time p99 10.0 ms");
    const line = Number(await chart.locator(".slo-line").getAttribute("y1"));
    for (const y of await chart.locator("circle").evaluateAll((list) => list.map((e) => Number(e.getAttribute("cy"))))) assert.ok(y > line);
    await context.close();
  });

  test("variants of a comparison stand with their commands", async () => {
    const { page, context } = await open(browser, join(process.env.PAGES, "compared.html"), { locale: "en-US" });
    assert.deepEqual(await page.locator(".commands").locator("dt, dd").allInnerTexts(), ["pool", "./server --model pool", "goroutine", "./server --model goroutine"]);
    await context.close();
  });

  test("is printed light, with all that is painted at once: paper gets no further frame", async () => {
    const { page, context } = await open(browser, everything, { locale: "en-US", colorScheme: "dark" });
    await page.evaluate(() => matchMedia("print").addEventListener("change", (e) => {
      if (e.matches) window.painted = [...document.querySelectorAll("canvas")].map((c) => new Set(c.getContext("2d").getImageData(0, 0, c.width, c.height).data).size > 8);
    }));
    await page.pdf({ format: "A4" });
    const painted = await page.evaluate(() => window.painted);
    assert.ok(painted.length > 10 && painted.every(Boolean), `canvases are painted: ${painted}`);
    await page.emulateMedia({ media: "print", colorScheme: "dark" });
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
    assert.equal(await page.locator("nav").isVisible(), false);
    await context.close();
  });

  test("is there without scripts, too", async () => {
    const context = await browser.newContext({ javaScriptEnabled: false });
    context.setDefaultTimeout(120_000); // no expectation of speed
    const page = await context.newPage();
    await page.goto(`file://${everything}`);
    assert.match(await page.locator("noscript, pre").first().innerText(), /verdict/);
    await context.close();
  });

  test("an hour is painted soon", async (t) => {
    const { page, context } = await open(browser, hour, { locale: "en-US" });
    const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
    t.diagnostic(`first contentful paint after ${paint.toFixed(0)} ms`);
    assert.ok(paint > 0);
    await context.close();
  });

  // What others said on the pages: a program or the kernel, and dyno where it takes an
  // experiment's text apart. "Everything" is of a folder without sentences as data.
  const foreign = {
    audience: [], hour: [], begun: [], swept: [],
    compared: [
      "operation not permitted", "sent 9 is not ok 8 + errors 0 + timeouts 0 + unfinished 0", "socket: too many open files",
      "target goroutine: ended by itself: exit status 9", "there are two here",
    ],
    opened: [`column 1: unknown metric "respnse.p99"; did you mean response.p99?`],
  };
  // The page with everything has all four views. Others have the two that leave the most and the least room.
  const wide = 1400, narrow = 390;
  const views = [[wide, "zh-CN", "dark"], [narrow, "en-US", "light"], [wide, "en-US", "light"], [narrow, "zh-CN", "dark"]];
  for (const name of ["everything", "audience", "hour", "compared", "swept", "opened", "searched", "begun"]) {
    for (const [width, locale, colorScheme] of name === "everything" ? views : views.slice(0, 2)) {
      test(`${name}, ${width} wide, ${locale}, ${colorScheme}: all is in its place, in one language, and asks nobody`, async () => {
        const opened = await open(browser, join(process.env.PAGES, `${name}.html`), { locale, colorScheme, viewport: { width, height: 900 } });
        const { page } = opened;
        if (width === wide && name !== "begun") {
          // A chart is drawn once its width is known.
          await page.waitForFunction(() => document.querySelector("section .fitted")?.getBoundingClientRect().height > 60);
          const chart = await page.locator("section .fitted").first().boundingBox();
          assert.ok(chart.y + chart.height <= 900, `the first chart ends at ${chart.y + chart.height}`);
        }
        assert.equal(await page.locator("#validity details[open]").count(), 0, "trust is in one line each");
        assert.deepEqual(await misplaced(page), { sideways: 0, overlapping: [], cut: [] }, "details closed");
        await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
        assert.deepEqual(await misplaced(page), { sideways: 0, overlapping: [], cut: [] }, "details open");
        const { labels, touching } = await axes(page);
        assert.ok(labels > 3 || name === "begun", `${labels} labels`);
        assert.deepEqual(touching, []);
        if (locale === "zh-CN") {
          assert.deepEqual(await english(page, "report"), []);
          if (foreign[name]) assert.deepEqual(await marked(page, "report"), foreign[name]);
        } else {
          const chinese = await page.evaluate(() => document.querySelector("main").innerText.match(/[\u4e00-\u9fff]+/g));
          assert.deepEqual((chinese ?? []).filter((words) => words !== "简体中文"), []);
          assert.ok((await english(page, "report")).length > 3, "sentences are found where there are any");
        }
        await quiet(opened);
        if (width === wide) await accessible(page, name);
        await opened.context.close();
      });
    }
  }

  test("what a judged run says is on its page, in either language", async () => {
    const { page, context } = await open(browser, join(process.env.PAGES, "compared.html"), { locale: "zh-CN" });
    const unfold = () => page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
    await unfold();
    const text = await page.locator("main").innerText();
    for (const words of [
      "虚拟机管理程序占去了 30 % 的 CPU 时间", "请求数不守恒：sent 9 is not ok 8", "试验 3（变体 goroutine）失败：target goroutine: ended by itself: exit status 9", "被测程序在 10 s 的窗口中没有任何应答",
      "10 个连接中有 3 个从未应答；建立了 8 个", "goroutine 与 pool 的吞吐量：3 轮后半宽为 0.005，要求 0.0099", "goroutine 的单请求系统调用数未知：未观测，或数值太少",
      "未观测： 观测器 kernel 在此无法工作：eBPF：operation not permitted（以 root 运行，或具有 CAP_BPF 和 CAP_PERFMON；Linux 5.11 之前还需提高 ulimit -l）",
    ]) assert.ok(text.includes(words), `${words}\n${text}`);
    await page.getByLabel("语言").selectOption("en");
    await page.waitForSelector('#report[data-state="drawn"]');
    await unfold();
    const said = await page.locator("main").innerText();
    for (const words of ["the hypervisor took 30 % of the CPUs' time", "3 of 10 connections never answered; 8 were opened", "goroutine over pool, throughput: half-width 0.005 after 3 rounds, want 0.0099"]) {
      assert.ok(said.includes(words), `${words}\n${said}`);
    }
    await context.close();
  });
});
