// A picture of a terminal: standard input is what a program printed, colours included.
//
//	node web/browser/terminal.mjs PICTURE <TEXT

import { text } from "node:stream/consumers";
import { launch } from "./chromium.mjs";

const colours = { 31: "#ff7b72", 32: "#7ee787", 33: "#e3b341" };
const escaped = (await text(process.stdin)).replaceAll("\r", "").trimEnd()
  .replace(/[&<>]/g, (c) => `&#${c.charCodeAt(0)};`);
const coloured = escaped
  .replace(/\x1b\[(3[123])m/g, (_, code) => `<span style="color:${colours[code]}">`)
  .replaceAll("\x1b[0m", "</span>");

const browser = await launch();
const page = await browser.newPage({ deviceScaleFactor: 2, viewport: { width: 1000, height: 500 } });
await page.setContent(`<pre style="display:inline-block;margin:0;padding:16px 20px;background:#0d1117;color:#e6edf3;
  font:14px/1.45 'DejaVu Sans Mono',monospace">${coloured}</pre>`);
await page.locator("pre").screenshot({ path: process.argv[2] });
await browser.close();
