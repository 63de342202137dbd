// Write the script of the hosts' frames: node build.mjs FILE. The packages are those of nbgrad/widgets.

import { createRequire } from "node:module";

const room = new URL("../../nbgrad/widgets/", import.meta.url);
const { build } = createRequire(room)("esbuild");

await build({
  entryPoints: [new URL("manager.mjs", import.meta.url).pathname],
  outfile: process.argv[2],
  nodePaths: [new URL("node_modules", room).pathname],
  ...{ bundle: true, format: "iife", target: "es2022", minify: true, logLevel: "error" },
  define: { "process.env.NODE_ENV": '"production"', global: "globalThis" },
  loader: Object.fromEntries(["css", "svg", "woff", "woff2", "ttf", "eot"].map((kind) => [`.${kind}`, "empty"])),
});
