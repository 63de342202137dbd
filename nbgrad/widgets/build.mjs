// Bundle the front end into static/. The same sources give the same bytes; both files are committed.

import { readFileSync } from "node:fs";
import { build } from "esbuild";

// The d3 packages in the bundle share their licence text; it has to go with every copy.
const licence = readFileSync(new URL("node_modules/d3-zoom/LICENSE", import.meta.url), "utf8");

// Of a selection's forty methods d3-zoom calls these; what only the others need is then left out of the bundle.
const CALLED = ["constructor", "on", "property", "filter", "style", "each", "call", "datum", "node", "interrupt"];
const slimSelection = {
  name: "slim-selection",
  setup(builder) {
    builder.onLoad({ filter: /d3-selection\.mjs$/ }, ({ path }) => {
      const source = readFileSync(path, "utf8");
      const slim = source.replace(/^  (\w+): selection_\w+,\n/gm, (line, name) => (CALLED.includes(name) ? line : ""));
      if (slim === source) throw new Error("d3-selection is written differently now: see build.mjs");
      return { contents: slim, loader: "js" };
    });
  },
};

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
  plugins: [slimSelection],
  alias: { "d3-transition": "./src/still.ts", "d3-interpolate": "./src/still.ts" },
  banner: { css: `/*! The script that this sheet goes with holds d3-zoom, d3-selection, d3-drag and d3-dispatch:\n${licence}*/` },
});
