// Before the d3 packages are bundled, this script cuts out the functions that the view never calls: esbuild drops what is not imported,
// but keeps methods, and every function whose prototype is assigned.

import { readFileSync } from "node:fs";

// Of a selection's forty methods d3-zoom calls these, of a zoom's twenty camera.ts does.
const SELECTION = ["constructor", "on", "property", "filter", "each", "call", "datum", "node", "interrupt"];
const ZOOM = ["transform", "scaleBy", "scaleTo", "translateBy", "filter", "scaleExtent", "extent", "on"];

/** A cut takes out every match of a pattern, but for those whose first group is named in `kept`. */
const cut = (pattern, kept = []) => ({ pattern, kept });

const CUTS = {
  "d3-selection": [
    cut(/^  (\w+): selection_\w+,\n/gm, SELECTION),
    cut(/^(?:EnterNode|ClassList|Local)\.prototype = [^]*?^\};\n/gm),
    cut(/^  \[Symbol\.iterator\]: selection_iterator\n/gm),
    cut(/^    if \(on\) for \(.*, o; .*\n[^]*?^    return;\n/gm), // what on() answers where it is only asked
  ],
  "d3-drag": [
    cut(/^DragEvent\.prototype\.on = [^]*?^\};\n/gm),
    cut(/ else \{\n    root\.[^]*?^  \}(?=\n)/gm), // browsers that know no selectstart, and nothing newer either
  ],
  "d3-dispatch": [
    cut(/^  copy: [^]*?^  \},\n/gm),
    cut(/^  apply: [^]*?^  \}\n/gm),
    cut(/^    if \(arguments\.length < 2\) \{[^]*?^    \}\n/gm),
    cut(/^ +if \(.*\) throw new Error\("(?:unknown|invalid) .*\n/gm),
  ],
  "d3-zoom": [
    cut(/^  zoom\.(\w+) = [^]*?^  \};\n/gm, ZOOM),
    cut(/^  (?:(?:rescale|invert)[XY]|apply[XY]?): [^]*?^  \},\n/gm),
    // The limits of a drawing: this view has none.
    cut(/^  var dx0 = [^]*?;\n(?=  return)/gm),
    cut(/\.translate\(\n    dx1 > [^]*?\n  \)(?=;\n)/gm),
    // Zooms that take time, and the double click that starts one: a double click folds a module.
    cut(/^  function (?:schedule|dblclicked)\([^]*?^  \}\n/gm),
    cut(/^ +\.on\("dblclick\.zoom", dblclicked\)\n/gm),
    // So two taps are two taps: otherwise they would become a double click, which has no listener here.
    cut(/^      if \(g\.taps === 2\) \{[^]*?^      \}\n/gm),
    cut(/^ +if \((?:touchstarting|g\.taps < 2)\).*\n/gm),
    cut(/, g\.taps = [^;]+(?=;)|^    this\.taps = 0;\n|^      touch(?:starting|first),\n|,\n      tapDistance = 10(?=;)/gm),
    cut(/^ +schedule\(collection, transform, point, event\);\n/gm),
    cut(/^import .* from 'd3-interpolate';\n/gm),
    cut(/\n +\.style\("-webkit-tap-highlight-color", .*\)(?=;\n)/gm), // graph.css says so
    cut(/^ +(?:duration|interpolate) = .*,\n/gm),
  ],
};

export const slim = {
  name: "slim",
  setup(builder) {
    builder.onLoad({ filter: /node_modules\/d3-\w+\/dist\/d3-\w+\.mjs$/ }, ({ path }) => {
      const cuts = CUTS[path.split("/").at(-1).replace(".mjs", "")] ?? [];
      const contents = cuts.reduce((source, { pattern, kept }) => {
        const less = source.replace(pattern, (match, name) => (kept.includes(name) ? match : ""));
        if (less === source) throw new Error(`${path} is written differently now: see slim.mjs`);
        return less;
      }, readFileSync(path, "utf8"));
      return { contents, loader: "js" };
    });
  },
};
