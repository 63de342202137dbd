// The page around a program: its inputs as fields, and below them its results and steps. kernels.js stands before it.

const { fill, run, size, tensor } = nbgradKernels;

const shown = (x) => (Number.isInteger(x) ? String(x) : Math.abs(x) < 1e-4 || Math.abs(x) >= 1e6 ? x.toExponential(3) : x.toFixed(4));

/** The numbers of a tensor as text, a row to a line; the first ones of a large one. */
function text({ shape, data }, limit = 200) {
  const width = shape.at(-1) ?? 1;
  const lines = [];
  for (let at = 0; at < Math.min(data.length, limit); at += width)
    lines.push(Array.from(data.slice(at, Math.min(at + width, limit)), shown).join("  "));
  if (data.length > limit) lines.push(`... ${data.length} numbers`);
  return lines.join("\n");
}

function element(parent, name, content = "", look = "") {
  const made = parent.appendChild(document.createElement(name));
  made.textContent = content;
  if (look) made.className = look;
  return made;
}

/** Build the page of a program. */
function show(program, body) {
  element(body, "h1", program.name);
  const trouble = element(body, "p", "", "trouble");
  const fields = new Map();
  const outputs = new Map();
  const panel = (parent, name, kind) => {
    const box = element(parent, "section");
    element(box, "h3", `${name}  [${kind.shape.join(", ")}] ${kind.dtype}`);
    return box;
  };
  const update = () => {
    try {
      const inputs = {};
      for (const [name, { field, given }] of fields) {
        if (!field.dataset.changed) continue;
        const numbers = field.value.split(/[\s,]+/).filter(Boolean).map(Number);
        if (numbers.length !== size(given.shape) || numbers.some((x) => x !== x))
          throw new Error(`${name} takes ${size(given.shape)} numbers`);
        inputs[name] = fill(given, (at) => numbers[at]);
      }
      const found = run(program, inputs);
      for (const [key, place] of outputs) place.textContent = text(found[key.startsWith("result ") ? "results" : "steps"][key.split(" ")[1]]);
      trouble.textContent = "";
    } catch (error) {
      trouble.textContent = error.message;
    }
  };
  element(body, "h2", "Inputs and parameters");
  for (const given of program.given) {
    const field = element(panel(body, given.name, given), "textarea");
    field.value = text(tensor(given), Infinity);
    field.spellcheck = false;
    field.setAttribute("aria-label", given.name);
    field.addEventListener("input", () => {
      field.dataset.changed = "yes";
      update();
    });
    fields.set(given.name, { field, given });
  }
  element(body, "h2", "Results");
  for (const { name, kind } of program.results) outputs.set(`result ${name}`, element(panel(body, name, kind), "pre"));
  element(body, "h2", "Steps");
  for (const { code, line, made } of program.steps) {
    const step = element(body, "details");
    element(step, "summary", code);
    if (line) element(step, "p", line);
    for (const { name, kind } of made) outputs.set(`step ${name}`, element(panel(step, name, kind), "pre"));
  }
  update();
}

if (typeof document !== "undefined") show(JSON.parse(document.getElementById("program").textContent), document.querySelector("main"));
