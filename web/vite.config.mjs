import { readFileSync } from "node:fs";
import { defineConfig } from "vitest/config";

// uPlot is part of the bundle, and its licence asks to be so too.
const licence = `/*! uPlot\n${readFileSync("node_modules/uplot/LICENSE", "utf8").trim()}\n*/`;

// One script and one style sheet, which report/html puts into each report. A hash in
// their names would change the names and nothing else.
export default defineConfig({
  test: { include: ["test/**/*.test.ts"] },
  build: {
    outDir: "../report/assets",
    emptyOutDir: false,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    rollupOptions: {
      input: "src/report/main.ts",
      output: { format: "iife", entryFileNames: "report.js", assetFileNames: "report[extname]", postBanner: licence },
    },
  },
});
