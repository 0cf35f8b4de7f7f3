// Debian's Chromium, which is never downloaded and never reaches out by itself.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** A page of its own, and all that it asks for and says. */
export async function watched(browser, options) {
  const context = await browser.newContext({ viewport: { width: 1300, height: 1000 }, locale: "en-US", ...options });
  context.setDefaultTimeout(120_000); // no expectation of speed
  const page = await context.newPage();
  const seen = { requests: [], console: [], errors: [], dialogs: [] };
  context.on("request", (r) => seen.requests.push(r.url()));
  context.on("console", (m) => seen.console.push(`${m.type()}: ${m.text()}`));
  context.on("weberror", (e) => seen.errors.push(String(e.error())));
  page.on("dialog", (d) => { seen.dialogs.push(d.message()); void d.dismiss(); });
  return { page, context, seen };
}

/** Waits until a locator finds that number: lists are empty until they have been asked for again. */
export async function exactly(locator, n) {
  for (const end = Date.now() + 120_000; (await locator.count()) !== n && Date.now() < end; ) await new Promise((done) => setTimeout(done, 50));
  assert.equal(await locator.count(), n);
}

/** Finds nothing that keeps somebody from using a page. */
export async function accessible(page, what) {
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(axe);
  const result = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const serious = result.violations.filter((v) => v.impact === "serious" || v.impact === "critical");
  assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html).join(" | ")}`), [], what);
}

/** The English sentences below a node of a page, which are to be dyno's own: what others said is
 * marked by its language (lang), or as the experiment's author's (data-own), and so is the
 * question. Code, names that can be chosen, and paths are no sentences. */
export async function english(page, root) {
  return page.evaluate((id) => {
    const sentence = /\b[A-Za-z][a-z]+([,:]? [a-z]{2,}\b){2,}/;
    const others = "[lang=en], [data-own], code, pre, .question, select";
    const found = [];
    document.querySelectorAll("details").forEach((d) => { d.open = true; });
    const host = document.getElementById(id);
    // The language of the page itself stands above the node.
    const ours = (e) => !host.contains(e.closest(others));
    const walker = document.createTreeWalker(host, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (ours(node.parentElement) && sentence.test(node.data)) found.push(node.data);
    }
    for (const e of host.querySelectorAll("[aria-label], [title], [placeholder], [alt]")) {
      if (!ours(e)) continue;
      for (const name of ["aria-label", "title", "placeholder", "alt"]) {
        if (sentence.test(e.getAttribute(name) ?? "")) found.push(`${name}: ${e.getAttribute(name)}`);
      }
    }
    return found;
  }, root);
}

/** What is not where it should be: how far the page scrolls sideways, and which boxes of text,
 * tables and charts overlap, or are wider than their place without scrolling in it. */
export async function misplaced(page) {
  return page.evaluate(() => {
    const visible = (e) => e.checkVisibility() && e.clientWidth > 0 && e.clientHeight > 0;
    const name = (e) => `${e.tagName} ${e.className} ${e.textContent.trim().slice(0, 30)}`;
    const boxes = [...document.querySelectorAll("h1, h2, h3, h4, p, dl, pre, summary, nav ul, .scroll, .controls, .fitted, .plot")].filter(visible);
    const overlapping = [];
    for (const [i, a] of boxes.entries()) {
      for (const b of boxes.slice(0, i)) {
        if (a.contains(b) || b.contains(a)) continue;
        const p = a.getBoundingClientRect(), q = b.getBoundingClientRect();
        if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 1) overlapping.push(`${name(a)} and ${name(b)}`);
      }
    }
    const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
    const cut = [...document.querySelectorAll("h1, h2, h3, h4, p, dl, dd, summary, fieldset, table, .controls, .fitted, .plot")].filter(visible)
      .filter((e) => !e.closest(".said, .skip") && e.scrollWidth > e.clientWidth + 1 && !scrolls(e) || e.tagName === "TABLE" && e.offsetWidth > e.parentElement.clientWidth && !scrolls(e.parentElement)).map(name);
    return { sideways: Math.max(0, document.documentElement.scrollWidth - innerWidth), overlapping, cut };
  });
}

/** How many labels the axes of charts have, and which of them touch. */
export async function axes(page) {
  return page.evaluate(() => {
    let count = 0;
    const touching = [];
    for (const picture of document.querySelectorAll("svg.picture")) {
      const labels = [...picture.querySelectorAll('text[text-anchor="middle"]')].filter((e) => picture.classList.contains("axis") || e.classList.contains("tick"));
      count += labels.length;
      for (const [i, a] of labels.entries()) {
        for (const b of labels.slice(0, i)) {
          const p = a.getBoundingClientRect(), q = b.getBoundingClientRect();
          if (a.getAttribute("y") === b.getAttribute("y") && p.left < q.right && q.left < p.right) touching.push(`${a.textContent} and ${b.textContent} of ${picture.getAttribute("aria-label")}`);
        }
      }
    }
    return { labels: count, touching };
  });
}

/** What is marked as English below a node. */
export async function marked(page, root) {
  return page.evaluate((id) => [...new Set([...document.querySelectorAll(`#${id} [lang=en]`)].map((e) => e.textContent))].sort(), root);
}

/** Opens a page of the report and waits until all of it is drawn. */
export async function open(browser, file, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, ...options });
  context.setDefaultTimeout(120_000); // no expectation of speed
  const page = await context.newPage();
  const seen = { requests: [], console: [], errors: [], dialogs: [] };
  page.on("request", (r) => seen.requests.push(r.url()));
  page.on("console", (m) => seen.console.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => seen.errors.push(String(e)));
  page.on("dialog", (d) => { seen.dialogs.push(d.message()); void d.dismiss(); });
  await page.goto(`file://${file}`);
  await page.waitForSelector('#report[data-state="drawn"]');
  return { page, seen, context };
}
