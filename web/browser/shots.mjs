// Pictures of one run's report, for documents: see scripts/browser.sh.

import { join } from "node:path";
import { launch, open } from "./chromium.mjs";

const browser = await launch();
for (const [name, options] of [
  ["light-en", { locale: "en-US", colorScheme: "light" }],
  ["light-zh", { locale: "zh-CN", colorScheme: "light" }],
  ["dark-zh", { locale: "zh-CN", colorScheme: "dark" }],
  ["narrow-en", { locale: "en-US", colorScheme: "light", viewport: { width: 420, height: 900 } }],
]) {
  const { page, context } = await open(browser, join(process.env.PAGES, "run.html"), options);
  await page.screenshot({ path: join(process.env.SHOTS, `${name}.png`) });
  for (const id of await page.locator("section").evaluateAll((list) => list.map((s) => s.id))) {
    if (name !== "narrow-en") await page.locator(`#${id}`).screenshot({ path: join(process.env.SHOTS, `${name}-${id}.png`) });
  }
  await context.close();
}
await browser.close();
