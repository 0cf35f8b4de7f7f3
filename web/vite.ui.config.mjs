import { mergeConfig } from "vitest/config";
import report from "./vite.config.mjs";

// The pages of dyno ui, which package ui serves, made as the report is.
export default mergeConfig(report, {
  build: {
    outDir: "../ui/assets",
    rollupOptions: {
      input: "src/ui/main.ts",
      output: { entryFileNames: "ui.js", assetFileNames: "ui[extname]" },
    },
  },
});
