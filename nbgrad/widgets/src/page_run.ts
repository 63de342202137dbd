// What if, in a page without a kernel: its program runs the graph again, with the table of kernels.ts.

import type * as Kernels from "../../core/symbolic/exports/kernels";
import type { Given, Program as Ops, Tensor } from "../../core/symbolic/exports/kernels";
import type { Description, Look, Supposed } from "./description";
import { WIDE } from "./constants";
import { speak, translate } from "./language";
import { NOTHING } from "./model";
import type { Runner, Supposition } from "./what_if";

/** As nbgrad/widgets/render/what_if_page.py writes it. */
interface Program extends Ops {
  nodes_of: string[]; // the nodes of the first tensors in `given`, in their order
  found: [kind: "value" | "gradient" | "edge", of: string, value: number][];
  roots: Record<string, number[] | null>; // the gradient with which the backward began at each root
  root: string;
  sums: Record<string, { node: string; name: string; minus: boolean }[]>; // the parts of the losses that are sums, by node
  notes: string[];
}

interface Ran {
  value: Map<string, Tensor>;
  gradient: Map<string, Tensor>;
  edge: Map<string, Tensor>;
}

const FEW = 4;
const WRITTEN_IN_BOX = 9;
const WRITTEN = 64;
const SMALL = 1024;

function pageRunner(given: unknown, description: Description, answer: (told: Supposed) => void): Runner {
  speak(description.texts);
  const program = given as Program;
  const { run, tensor } = (globalThis as unknown as { nbgradKernels: typeof Kernels }).nbgradKernels;
  const places = new Map(program.nodes_of.map((node, at) => [node, program.given[at]!]));
  const most = description.nodes.length <= 60 ? WRITTEN_IN_BOX : FEW;

  /** The numbers of a leaf with these changes. */
  const changed = (given: Given, changes: Record<string, number> = {}): Tensor => tensor({ ...given, data: given.data.map((one, at) => changes[at] ?? one) });

  const ran = (changes: Supposition["changes"]): Ran => {
    const inputs: Record<string, Tensor> = {};
    for (const node in changes) inputs[places.get(node)!.name] = changed(places.get(node)!, changes[node]);
    const { values } = run(program, inputs);
    const found: Ran = { value: new Map(), gradient: new Map(), edge: new Map() };
    for (const [kind, of, at] of program.found) found[kind].set(of, values[at] as Tensor);
    return found;
  };

  const loss = ({ value }: Ran): number => {
    let sum = 0;
    for (const id in program.roots) value.get(id)?.data.forEach((one, at) => (sum += one * (program.roots[id]?.[at] ?? 1)));
    return sum;
  };

  const nudge = (node: string, place: number, changes: Supposition["changes"], here: Ran): string => {
    const gradient = here.gradient.get(node)?.data[place];
    const own = places.get(node)!;
    if (gradient === undefined || !own.dtype.startsWith("float")) throw new Error(translate("no gradient came to this number: there is nothing to compare"));
    const x = changed(own, changes[node]).data[place]!;
    const step = (own.dtype === "float64" ? 2 ** -52 : 2 ** -23) ** (1 / 3) * Math.max(1, Math.abs(x));
    const at = (number: number): [number, number] => {
      const moved = { ...changes, [node]: { ...changes[node], [place]: number } };
      return [changed(own, moved[node]).data[place]!, loss(ran(moved))];
    };
    const [[above, high], [below, low]] = [at(x + step), at(x - step)];
    const difference = (high - low) / (above - below);
    const large = Math.max(Math.abs(difference), Math.abs(gradient));
    const apart = Math.abs(difference - gradient);
    const far = large && Number.isFinite(apart) ? ` ${translate("They differ by {apart}%.", { apart: written((100 * apart) / large, 2) })}` : "";
    return translate("Central difference with h = {step}: {difference}. The gradient: {gradient}.{far}", { step: written(step), difference: written(difference), gradient: written(gradient), far });
  };

  const answered = ({ node, place, changes, nudge: asked }: Supposition): Supposed => {
    const told: Supposed = { ...NOTHING, node, place, notes: program.notes, texts: {}, edges: {} };
    const own = places.get(node);
    try {
      if (own) {
        const [was, now] = [changed(own), changed(own, changes[node])];
        const exact = (x: number): string => (own.dtype === "float32" ? [4, 7, 9].map((digits) => written(x, digits)).find((text) => Math.fround(Number(text)) === x) ?? String(x) : String(x));
        told.place = Math.max(0, Math.min(place, now.data.length - 1));
        [told.was, told.number] = [exact(was.data[told.place]!), exact(now.data[told.place]!)];
        if (now.data.length <= WRITTEN_IN_BOX) told.grid = Array.from(now.data, exact);
        if (now.data.length) [told.shape, told.whole] = [own.shape, !own.dtype.startsWith("float")];
      }
      const here = Object.keys(changes).length || asked ? ran(changes) : null;
      if (here && Object.keys(changes).length) {
        for (const { id, numbers } of description.nodes) {
          const [value, gradient] = [here.value.get(id), here.gradient.get(id)];
          const line = value && numbers.length ? [`${translate("value")} ${inBox(value)}`, ...sumLines(program.sums[id], here.value)].join("\n") : "";
          told.texts[id] = [line, gradient ? `∇ ${gradient.data.length > 1 && gradient.data.length <= most ? inBox(gradient) : amount(gradient, 1)}` : ""];
        }
        const own = new Set(description.edges.filter(({ source, target }) => source === node || target === node).map(({ id }) => id));
        for (const [id, one] of here.edge) if (own.has(id)) told.edges[id] = `(${one.shape.join(", ")}${one.shape.length === 1 ? "," : ""}), ${amount(one, FEW)}`;
        const [value, gradient] = [here.value.get(node), here.gradient.get(node)];
        told.value = value ? look(value) : null;
        told.gradient = gradient ? look(gradient) : null;
        if (Object.keys(program.roots).length) told.result = translate("{root_name} {root}, was {loss}", { root_name: program.root, root: written(loss(here)), loss: written(loss(ran({}))) });
      }
      if (here && asked && own) told.nudge = nudge(node, told.place, changes, here);
    } catch (error) {
      told.said = `${translate("What if")}: ${(error as Error).message}.`;
    }
    return told;
  };
  return (asked) => void setTimeout(() => answer(answered(asked)));
}

/** The parts of a sum, as nbgrad/widgets/description/summed_losses.py writes them. */
function sumLines(terms: Program["sums"][string] = [], values: Map<string, Tensor>): string[] {
  const lines = terms.length ? ["="] : [];
  terms.forEach(({ node, name, minus }, at) => {
    const value = inBox(values.get(node)!).replace(/[\[\]]/g, "");
    const below = value[0] === "-";
    const sign = at ? (minus === below ? "+ " : "− ") : minus === below ? "" : "-";
    const part = ` ${sign}${value.slice(Number(below))} (${minus && below ? "−" : ""}${name})`;
    const last = lines.length - 1;
    if (lines[last]!.length + part.length > WIDE && lines[last] !== "=") lines.push(part.slice(1));
    else lines[last] += part;
  });
  return lines;
}

/** A number as Python's "z.4g" writes it. */
function written(x: number, digits = 4): string {
  if (!Number.isFinite(x)) return x !== x ? "nan" : x > 0 ? "inf" : "-inf";
  if (!x) return "0";
  const [mantissa = "", power = "0"] = x.toExponential(digits - 1).split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < digits) return String(Number(x.toPrecision(digits)));
  return `${Number(mantissa)}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}

const plain = ({ dtype }: Tensor, x: number, digits: number): string => (dtype === "bool" ? (x ? "True" : "False") : dtype.startsWith("int") ? String(x) : written(x, digits));

/** All numbers of a small tensor in their rows. */
function inBox(tensor: Tensor): string {
  const digits = tensor.data.length <= FEW ? 4 : 3;
  const rows = (shape: number[], from: number): string => {
    const [length, ...rest] = shape;
    if (length === undefined) return plain(tensor, tensor.data[from]!, digits);
    const size = rest.reduce((all, one) => all * one, 1);
    return `[${Array.from({ length }, (_, at) => rows(rest, from + at * size)).join(", ")}]`;
  };
  return rows(tensor.shape, 0);
}

const norm = ({ data }: Tensor): number => Math.sqrt(data.reduce((sum, x) => sum + x * x, 0));

function amount(tensor: Tensor, most: number): string {
  const { data } = tensor;
  if (!data.length || data.length > most) return `norm ${written(norm(tensor))}`;
  const numbers = Array.from(data, (x) => plain(tensor, x, 4)).join(", ");
  return data.length === 1 ? numbers : `[${numbers}]`;
}

/** The numbers of a tensor as they are shown, as nbgrad/widgets/description/tensor_summary.py writes them. */
function look(tensor: Tensor): Look {
  const { shape, data } = tensor;
  const sound = data.filter(Number.isFinite);
  const [low, high] = [Math.min(...sound), Math.max(...sound)];
  const found: Look = { facts: "", columns: 0, levels: "", cells: [], bars: [], low: "", high: "", sample: "" };
  if (!shape.length) return { ...found, facts: plain(tensor, data[0]!, 4) };
  const mean = sound.length ? `, mean ${written(sound.reduce((sum, x) => sum + x, 0) / sound.length)}` : "";
  const [nan, inf] = [data.filter((x) => x !== x).length, data.length - sound.length - data.filter((x) => x !== x).length];
  found.facts = [`norm ${written(norm(tensor))}${mean}`, ...(sound.length ? [`min ${written(low)}, max ${written(high)}`] : []), ...(nan ? [`${nan} NaN`] : []), ...(inf ? [`${inf} Inf`] : [])].join("\n");
  if (data.length && data.length <= SMALL) {
    const [wide = 1, high = 1, maps = 1] = [...shape].reverse(); // the maps of a convolution stand side by side
    const columns = (found.columns = wide * maps);
    const table = data.map((_, at) => {
      const [row, column] = [Math.floor(at / columns), at % columns];
      return data[((Math.floor(row / high) * maps + Math.floor(column / wide)) * high + (row % high)) * wide + (column % wide)]!;
    });
    const far = Math.sqrt(Math.max(...sound.map(Math.abs), 0)) || 1;
    found.levels = Array.from(table, (x) => (x !== x ? "n" : !Number.isFinite(x) ? "i" : String.fromCharCode(77 + Math.trunc(Math.sign(x) * Math.floor(Math.sqrt(Math.abs(x)) * (12 / far) + 0.5))))).join("");
    if (data.length <= WRITTEN) found.cells = Array.from(table, (x) => plain(tensor, x, 4));
  }
  if (data.length > 8 && sound.length) {
    const counts = new Array<number>(20).fill(0);
    for (const x of sound) counts[Math.min(19, Math.floor((x - low) * (20 / (high - low || 1))))]!++;
    const tallest = Math.max(...counts);
    found.bars = counts.map((one) => (one ? Math.max(Math.ceil((100 * one) / tallest), 4) : 0));
    [found.low, found.high] = [written(low), written(high)];
  }
  return found;
}

globalThis.nbgradRunner = pageRunner;
