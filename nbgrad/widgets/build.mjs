// Bundle the front end into static/, and the kernels of pages without a Python kernel beside their source. The same
// sources give the same bytes; all of these files are committed.

import { readFileSync, writeFileSync } from "node:fs";
import { runInNewContext } from "node:vm";
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
  entryPoints: ["src/graph.ts", "src/loader.ts", "src/page_run.ts", "src/graph.css"],
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

// The kernels are a script of their own: a page of a program has them without the view.
const kernels = new URL("../core/symbolic/exports/kernels", room);
const { outputFiles } = await build({
  ...{ entryPoints: [`${kernels.pathname}.ts`], bundle: true, format: "iife", globalName: "nbgradKernels" },
  ...{ target: "es2022", minify: true, charset: "utf8", write: false },
});
const [{ text }] = outputFiles;
// The first line names what is in the table, so that page.py needs no list of its own.
writeFileSync(new URL(`${kernels}.js`), `// ${runInNewContext(`${text};Object.keys(nbgradKernels.OPS)`).join(" ")}\n${text}`);
