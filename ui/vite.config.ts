import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  base: "/ui/",
  plugins: [svelte({ compilerOptions: { css: "external" } })],
  build: {
    outDir: "../src/omnigraphdb/surfaces/ui/dist",
    emptyOutDir: true,
    target: "es2022",
    // Inlined files would be data: addresses, which the page's policy refuses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 300,
  },
  worker: { format: "es" },
  server: { proxy: { "/graphs": "http://127.0.0.1:8471" } },
});
