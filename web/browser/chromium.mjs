// Debian's Chromium, which is never downloaded and never reaches out by itself.

import { chromium } from "playwright-core";

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
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
