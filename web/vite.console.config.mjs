import { mergeConfig } from "vitest/config";
import report from "./vite.config.mjs";

// The control plane's page, which package console serves, made as the report is.
export default mergeConfig(report, {
  build: {
    outDir: "../services/control/console/assets",
    rollupOptions: {
      input: "src/console/main.ts",
      output: { entryFileNames: "console.js", assetFileNames: "console[extname]", postBanner: "" },
    },
  },
});
