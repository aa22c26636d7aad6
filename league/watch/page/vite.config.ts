import { defineConfig } from "vite";
import { viteSingleFile } from "vite-plugin-singlefile";

// One file with everything in it: what `gpu-envs watch` serves, and what an export copies.
export default defineConfig({
  plugins: [viteSingleFile({ removeViteModuleLoader: true })],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: { outDir: "../static", emptyOutDir: false, target: "es2022", reportCompressedSize: false },
});
