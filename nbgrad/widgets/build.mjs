// Bundle the front end into static/. The same sources give the same bytes; both files are committed.

import { readFileSync } from "node:fs";
import { build } from "esbuild";
import { slim } from "./slim.mjs";

// The d3 packages in the bundle share their licence text; it has to go with every copy.
const licence = readFileSync(new URL("node_modules/d3-zoom/LICENSE", import.meta.url), "utf8");

await build({
  absWorkingDir: new URL(".", import.meta.url).pathname,
  entryPoints: ["src/graph.ts", "src/graph.css"],
  outdir: "static",
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  plugins: [slim],
  alias: { "d3-transition": "./src/still.ts" },
  banner: { css: `/*! The script that this sheet goes with holds d3-zoom, d3-selection, d3-drag and d3-dispatch:\n${licence}*/` },
});
