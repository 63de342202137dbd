// Bundle the front end into static/, and the kernels of pages without a Python kernel beside their source. The same
// sources give the same bytes; all of these files are committed.

import { writeFileSync } from "node:fs";
import { runInNewContext } from "node:vm";
import { build } from "esbuild";

const room = new URL(".", import.meta.url);

/** Long names that the sources use often, as variables of src/short_names.ts: this saves a kilobyte. */
const SHORT = { Math: ["abs", "ceil", "floor", "max", "min", "round"], Object: ["entries", "values"] };
const define = Object.fromEntries([
  ...Object.entries(SHORT).flatMap(([owner, names]) => names.map((name) => [`${owner}.${name}`, `$${name}`])),
  ...["Number", "String", "Boolean", "document"].map((name) => [name, `$${name}`]),
]);

/** Fields of our own classes, which neither data nor the browser has: nearly a kilobyte. */
const OWN = "banner|boxOf|choose|chosen|drawing|enlarge|glide|highlight|inquiry|leave|legible|lights|measure|moved|moving|paint|panel|readable|refocus|reveal|scene|showTable|whatIf";

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
  define,
  mangleProps: new RegExp(`^(${OWN})$`),
  inject: ["src/short_names.ts"],
};

await build(options);

// The kernels are a script of their own: a page of a program has them without the view.
const kernels = new URL("../core/symbolic/exports/kernels", room);
const { outputFiles } = await build({
  ...{ entryPoints: [`${kernels.pathname}.ts`], bundle: true, format: "iife", globalName: "nbgradKernels" },
  ...{ target: "es2022", minify: true, charset: "utf8", write: false },
});
const [{ text }] = outputFiles;
// The first line names what is in the table, so that page.py needs no list of its own.
writeFileSync(new URL(`${kernels}.js`), `// ${runInNewContext(`${text};Object.keys(nbgradKernels.OPS)`).join(" ")}\n${text}`);
