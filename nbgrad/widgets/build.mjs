// Bundle the front end into static/. The same sources give the same bytes; all three files are committed.

import { readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import { slim } from "./slim.mjs";

const room = new URL(".", import.meta.url);

/** Long names that the sources use often, as variables of src/short_names.ts: this saves a kilobyte. */
const SHORT = { Math: ["abs", "ceil", "floor", "max", "min", "round"], Object: ["entries", "values"] };
const define = Object.fromEntries([
  ...Object.entries(SHORT).flatMap(([owner, names]) => names.map((name) => [`${owner}.${name}`, `$${name}`])),
  ...["Number", "String"].map((name) => [name, `$${name}`]),
]);

const options = {
  absWorkingDir: room.pathname,
  entryPoints: ["src/graph.ts", "src/page_run.ts", "src/graph.css"],
  outdir: "static",
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  plugins: [slim],
  define,
  inject: ["src/short_names.ts"],
  alias: { "d3-transition": "./src/no_transition.ts" },
};

/** The names of the packages of which the bundle holds code, by their licence texts. */
const licences = ({ outputs }) => {
  const held = Object.values(outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).filter(([, { bytesInOutput }]) => bytesInOutput > 0),
  );
  const packages = new Set(held.flatMap(([path]) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1] ?? []));
  const texts = new Map();
  for (const name of [...packages].sort()) {
    const text = readFileSync(new URL(`node_modules/${name}/LICENSE`, room), "utf8");
    texts.set(text, [...(texts.get(text) ?? []), name]);
  }
  return texts;
};

// The licences have to go with every copy: a page takes the sheet with the script, a package takes the text file.
const { metafile } = await build({ ...options, write: false, metafile: true });
const notice = [...licences(metafile)]
  .map(([text, names]) => `The script of the graph view holds code of ${names.join(", ")}:\n${text}`)
  .join("\n");

await build({ ...options, banner: { css: `/*! ${notice}*/` } });
writeFileSync(new URL("static/LICENSES.txt", room), notice);
