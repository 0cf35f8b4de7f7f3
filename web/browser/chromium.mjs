// Debian's Chromium, which is never downloaded and never reaches out by itself.

import { chromium } from "playwright-core";

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/** The English sentences below a node of a page, which are to be dyno's own: what others said is
 * marked by its language (lang), or as the experiment's author's (data-own), and so is the
 * question. Code, names that can be chosen, and paths are no sentences. */
export async function english(page, root) {
  return page.evaluate((id) => {
    const sentence = /[A-Za-z][a-z]+([,:]? [a-z]{2,}){2,}/;
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

/** What is marked as English below a node. */
export async function marked(page, root) {
  return page.evaluate((id) => [...new Set([...document.querySelectorAll(`#${id} [lang=en]`)].map((e) => e.textContent))].sort(), root);
}

/** Opens a page of the report and waits until all of it is drawn. */
export async function open(browser, file, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 1000 }, ...options });
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
