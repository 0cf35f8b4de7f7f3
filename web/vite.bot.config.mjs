import { mergeConfig } from "vitest/config";
import report from "./vite.config.mjs";

// The bot gateway's pages, which package page serves, made as the report is. uPlot is no
// part of them.
export default mergeConfig(report, {
  build: {
    outDir: "../services/bot/page/assets",
    rollupOptions: {
      input: "src/bot/main.ts",
      output: { entryFileNames: "page.js", assetFileNames: "page[extname]", postBanner: "" },
    },
  },
});
