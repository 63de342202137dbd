// Paths beside paths, arrow heads, and what becomes of a layout when scopes are folded without a kernel.

import { MEANING, TIP_LENGTH, TIP_SIDE } from "./constants";
import type { Box, Chart, Description, Edge, Hidden, HiddenNode, History, Layout, Node as GraphNode, Overlay, Picture, Scope, Step } from "./description";
import { translate } from "./language";
import { foldedId, name, original, scopePath, within } from "./model";

export type Point = number[];

/** For each end of a curve: true on a horizontal side of a box, false on a vertical one. */
type Ends = [boolean | null, boolean | null];

const FLAT = 0.2; // an end that meets its side at a flatter angle is moved across the direction of the curve, as other points are

/** The same curve, `by` pixels to the left of its direction; its ends stay on the sides where they are. */
export function beside(run: Point[], by: number, ends: Ends = [null, null]): Point[] {
  return run.map(([x = 0, y = 0], at) => {
    const other = ([px, py]: Point) => px !== x || py !== y; // points at the same place tell no direction
    const [[ax = x, ay = y], [bx = x, by0 = y]] = [run.slice(0, at).reverse().find(other) ?? [], run.slice(at).find(other) ?? []];
    const [dx, dy] = [bx - ax, by0 - ay];
    const length = Math.hypot(dx, dy) || 1;
    const level = at === 0 ? ends[0] : at === run.length - 1 ? ends[1] : null;
    if (level === true && Math.abs(dy) > FLAT * length) return [x + (by * length) / dy, y];
    if (level === false && Math.abs(dx) > FLAT * length) return [x, y - (by * length) / dx];
    return [x + (by * dy) / length, y - (by * dx) / length];
  });
}

export function sides(run: Point[], boxes: [Box | undefined, Box | undefined]): Ends {
  const level = ([x = 0, y = 0]: Point, box: Box | undefined) =>
    box ? Math.min(Math.abs(y - box.y), Math.abs(y - box.y - box.height)) <= Math.min(Math.abs(x - box.x), Math.abs(x - box.x - box.width)) : null;
  return [level(run[0] ?? [], boxes[0]), level(run[run.length - 1] ?? [], boxes[1])];
}

const n = (value: number) => Math.round(value * 10) / 10;

export function path(runs: Point[][]): string {
  return runs.map(([start = [], ...rest]) => `M${start.map(n).join(" ")}C${rest.map((p) => p.map(n).join(" ")).join(" ")}`).join("");
}

/** An arrow head at the end of a run. */
export function tip(run: Point[]): string {
  const [x = 0, y = 0] = run[run.length - 1] ?? [];
  let [dx, dy] = [0, 1];
  for (const [px = 0, py = 0] of run.slice(0, -1).reverse()) {
    const length = Math.hypot(x - px, y - py);
    if (length <= 0.5) continue;
    [dx, dy] = [(x - px) / length, (y - py) / length];
    break;
  }
  const side = (s: number) => `${n(x - TIP_LENGTH * dx - TIP_SIDE * s * dy)},${n(y - TIP_LENGTH * dy + TIP_SIDE * s * dx)}`;
  return `${n(x)},${n(y)} ${side(1)} ${side(-1)}`;
}

/** The picture with each of the `closed` scopes drawn as one node. The remaining nodes move closer together. */
export function folded(base: Picture, closed: Set<string>): Picture {
  const { description, layout } = base;
  const scopes = new Map(description.scopes.map((scope) => [scope.id, scope]));
  const home = new Map<string, string>(); // for each scope inside a closed one: the outermost closed scope
  for (const scope of description.scopes) {
    const found = within(scopes, scope.id).find((id) => closed.has(id) && layout.scopes[id]);
    if (found) home.set(scope.id, found);
  }
  if (!home.size) return base;
  const where = new Map<string, string>();
  const stands = new Map([...home.values()].map((id) => [foldedId(id), id])); // by folded node: the scope for which it stands
  const scopeOf = new Map(description.nodes.map(({ id, scope }) => [id, scope]));
  for (const node of description.nodes) {
    const found = home.get((node.row === null ? node.scope : scopeOf.get(node.row)) ?? ""); // a row belongs to its op
    if (found) where.set(node.id, foldedId(found));
  }
  const nodes: GraphNode[] = [];
  const boxes: Record<string, Box> = {};
  for (const node of description.nodes) {
    const stand = where.get(node.id);
    const box = layout.nodes[node.id];
    if (!stand && box) {
      nodes.push(node);
      boxes[node.id] = box;
    } else if (stand && !boxes[stand]) {
      const scope = scopes.get(stands.get(stand) ?? "");
      const around = scope && layout.scopes[scope.id];
      if (!scope || !around) continue;
      const inside = description.nodes.filter((other) => where.get(other.id) === stand);
      const one = standIn(stand, scope, inside, description.overlays);
      const leaving = new Set(description.edges.flatMap((edge) => (where.get(edge.source) === stand && where.get(edge.target) !== stand ? [edge.source] : [])));
      const result = leaving.size === 1 ? inside.find(({ id }) => leaving.has(id)) : undefined; // all that leaves it is one tensor
      if (result) [one.label, one.rule] = [[...one.label, ...result.label.slice(1, 2)], result.rule];
      nodes.push(one);
      const [width, height] = [Math.max(96, 7.2 * Math.max(scope.label.length, 0.85 * Math.max(scope.folds.length, `${one.label[2] ?? ""}   ${one.rule ?? ""}`.length)) + 33), 18 + 14 * one.label.length];
      const [x, y] = [around.x + (around.width - width) / 2, around.y + (around.height - height) / 2];
      boxes[stand] = { x, y, width, height };
    }
  }
  const moved: Layout = { ...layout, nodes: boxes, edges: {}, labels: {}, marks: {}, scopes: {}, jumps: [] };
  const renamed = new Map<string, string>();
  const edges = redirect(description, layout, moved, where, renamed);
  for (const [id, box] of Object.entries(layout.scopes)) if (!home.has(id)) moved.scopes[id] = box;
  const same = new Set(description.edges.flatMap((edge) => (edges.includes(edge) ? [edge.id] : [])));
  moved.jumps = layout.jumps.map((jump) => ({ ...jump, edges: jump.edges.filter((id) => same.has(id)) })).filter((jump) => jump.edges.length);
  tightened({ ...description, nodes }, moved, home);
  const steps = walk(description, where, renamed, nodes);
  const homes = new Map([...where].map(([id, stand]) => [original(description, id), stand])); // for each tensor that is no longer drawn: the folded node that it is in
  for (const { id } of nodes) homes.delete(original(description, id));
  const problems = description.problems.map((one) => ({ ...one, node: homes.get(original(description, one.node ?? "")) ?? one.node }));
  const verdicts = description.verdicts.map((one) => ({ ...one, scope: home.get(one.scope ?? "") ?? one.scope }));
  const hidden = hiddenBy(description, where, renamed);
  const history = historyOf(description, homes);
  return { ...base, description: { ...description, nodes, edges, steps, problems, verdicts, history, hidden }, layout: compact(moved) };
}

/** The history. Curves of tensors inside folded nodes lead to these nodes. */
function historyOf(description: Description, homes: Map<string, string>): History {
  const { history } = description;
  const led = (chart: Chart) => ({ ...chart, curves: chart.curves.map((curve) => ({ ...curve, node: homes.get(original(description, curve.node)) ?? curve.node })) });
  return { ...history, loss: history.loss && led(history.loss), charts: history.charts.map(led) };
}

/** The parts inside the folded nodes that texts still mention, as nbgrad/widgets/folding/folded.py finds them. */
function hiddenBy(description: Description, where: Map<string, string>, renamed: Map<string, string>): Hidden {
  const { nodes, edges, hidden } = description;
  const reductions = hidden.reductions.map((one) => ({ ...one, node: where.get(one.node) ?? one.node }));
  for (const { id, source, target, reduction } of edges)
    if (reduction && renamed.get(id) !== id)
      reductions.push({ ...reduction, node: where.get(target) ?? where.get(source) ?? "", ends: `${name(description, source)} → ${name(description, target)}`, many: 1 });
  const inside = hidden.nodes.map((one) => ({ ...one, node: where.get(one.node) ?? one.node }));
  const tensors = new Map(nodes.map((node) => [`${where.get(node.id)} ${original(description, node.id)}`, node])); // each tensor once for each box, however often it is used
  for (const node of tensors.values()) if (where.has(node.id)) inside.push({ ...told(description, node), node: where.get(node.id)! });
  return { reductions, nodes: inside };
}

/** The name and the search text of a node that may be inside a folded one. A parameter or leaf also has its norms. */
export const told = (description: Description, { id, scope, label, full, about, op, kind, norms, line }: GraphNode): HiddenNode => ({
  node: id, label: [scopePath(description, scope), full || label[0]].filter(Boolean).join(" › "), words: `${about} ${label.slice(1).join(" ")} ${op ?? ""} ${translate(MEANING[kind])} ${line ? translate("line {line}", { line }) : ""}`,
  norms: kind === "parameter" || kind === "leaf" ? norms : [], many: 1,
});

function standIn(id: string, scope: Scope, inside: GraphNode[], overlays: Overlay[]): GraphNode {
  const spoiled = inside.some((node) => node.spoiled.length);
  const levels: Record<string, number> = {};
  for (const { key, classes } of overlays) {
    const found = inside.flatMap((node) => node.levels[key] ?? []);
    if (classes.length ? new Set(found).size === 1 : found.length) levels[key] = Math.max(...found); // as in nbgrad/widgets/folding/apply.py
  }
  return {
    id, kind: "folded", root: inside.some((node) => node.root), label: [scope.label, scope.folds + (spoiled ? ", NaN or Inf inside" : "")], numbers: [], full: scope.full, cuts: [], about: "", row: null, rule: null,
    scope: scope.parent, op: null, variable: "", details: [{ term: "Folded", text: scope.folds, role: "parts" }], value: null, gradient: null,
    badges: inside.flatMap((node) => node.badges), spoiled: spoiled ? ["inside"] : [], levels, holds: [scope.id], calls: scope.kind, norms: [], past: most(inside.map((node) => node.past)), bars: null, bytes: scope.bytes, line: 0,
  };
}

/** The largest character at each position. */
const most = (all: string[]): string =>
  [...(all[0] ?? "")].map((_, at) => all.reduce((max, one) => ((one[at] ?? "") > max ? (one[at] ?? "") : max), "")).join("");

function redirect(
  description: Description, layout: Layout, moved: Layout, where: Map<string, string>, renamed: Map<string, string>,
): Edge[] {
  const edges: Edge[] = [];
  const seen = new Map<string, Edge>();
  for (const edge of description.edges) {
    const [source, target] = [where.get(edge.source) ?? edge.source, where.get(edge.target) ?? edge.target];
    const runs = layout.edges[edge.id];
    if (source === target || !runs) continue;
    if (source === edge.source && target === edge.target) {
      renamed.set(edge.id, edge.id);
      edges.push(edge);
      moved.edges[edge.id] = runs;
      for (const kind of ["labels", "marks"] as const) {
        const box = layout[kind][edge.id];
        if (box) moved[kind][edge.id] = box;
      }
      continue;
    }
    const known = seen.get(`${source} ${target}`);
    renamed.set(edge.id, (known ?? edge).id);
    if (known) {
      known.spoiled ||= edge.spoiled;
      continue;
    }
    const merged = { ...edge, source, target, input: "" };
    seen.set(`${source} ${target}`, merged);
    edges.push(merged);
    const [from, to] = [moved.nodes[source], moved.nodes[target]];
    if (!from || !to) continue;
    const straight = between(from, to);
    // If a box stands in the way, and one end of the curve has not moved, the curve goes around the box as before.
    const run = runs.length === 1 && !(where.has(edge.source) && where.has(edge.target)) ? runs[0] : undefined;
    const others = Object.values(moved.nodes).filter((box) => box !== from && box !== to);
    const free = !run || !others.some((box) => crosses(straight, box));
    const curve = free ? straight : bent(run, where.has(edge.source) ? from : to, where.has(edge.source));
    moved.edges[edge.id] = [curve];
    const label = layout.labels[edge.id];
    if (label) moved.labels[edge.id] = { ...label, ...centred(label, curve) };
  }
  return edges;
}

/** Where a label stands in the middle of a curve. */
function centred({ width, height }: Box, [[ax = 0, ay = 0] = [], [bx = 0, by = 0] = [], [cx = 0, cy = 0] = [], [dx = 0, dy = 0] = []]: Point[]): { x: number; y: number } {
  return { x: (ax + 3 * bx + 3 * cx + dx) / 8 - width / 2, y: (ay + 3 * by + 3 * cy + dy) / 8 - height / 2 };
}

const [ABOVE, BESIDE] = [26, 10]; // between a frame and its content

/** Let the frames around folded modules end where their remaining content ends. */
function tightened(description: Description, layout: Layout, home: Map<string, string>): void {
  const scopes = new Map(description.scopes.map((scope) => [scope.id, scope]));
  const around = new Set([...new Set(home.values())].flatMap((id) => within(scopes, scopes.get(id)?.parent ?? null)));
  // The frame that a node is in: a module of one op has none.
  const framed = new Map(description.nodes.map(({ id, scope }) => [id, within(scopes, scope).filter((one) => layout.scopes[one]).pop()]));
  for (const { id } of [...description.scopes].reverse()) { // the inner ones first
    const frame = layout.scopes[id];
    if (!frame || !around.has(id)) continue;
    const inside = description.nodes.flatMap((node) => (framed.get(node.id) === id && layout.nodes[node.id]) || []);
    for (const scope of description.scopes) if (scope.parent === id && layout.scopes[scope.id]) inside.push(layout.scopes[scope.id]!);
    if (!inside.length) continue;
    const [x, y] = [Math.max(frame.x, Math.min(...inside.map((box) => box.x)) - BESIDE), Math.max(frame.y, Math.min(...inside.map((box) => box.y)) - ABOVE)];
    const right = Math.min(frame.x + frame.width, Math.max(...inside.map((box) => box.x + box.width)) + BESIDE);
    const bottom = Math.min(frame.y + frame.height, Math.max(...inside.map((box) => box.y + box.height)) + BESIDE);
    layout.scopes[id] = { x, y, width: right - x, height: bottom - y };
  }
}

function crosses(run: Point[], { x, y, width, height }: Box): boolean {
  const [[ax = 0, ay = 0], [bx = 0, by = 0], [cx = 0, cy = 0], [dx = 0, dy = 0]] = run as [Point, Point, Point, Point];
  for (let t = 0; t <= 1; t += 0.05) {
    const [p, q, r, s] = [(1 - t) ** 3, 3 * (1 - t) ** 2 * t, 3 * (1 - t) * t ** 2, t ** 3];
    const [px, py] = [p * ax + q * bx + r * cx + s * dx, p * ay + q * by + r * cy + s * dy];
    if (px > x && px < x + width && py > y && py < y + height) return true;
  }
  return false;
}

/** The same curve, but one of its ends moves to the side of `box` that faces the other end. */
function bent(run: Point[], box: Box, start: boolean): Point[] {
  const points = start ? run : [...run].reverse();
  const far = points[points.length - 1]?.[1] ?? 0;
  const [x, y] = [box.x + box.width / 2, far < box.y + box.height / 2 ? box.y : box.y + box.height];
  const moved = [[x, y], [x, (y + (points[2]?.[1] ?? 0)) / 2], ...points.slice(2)];
  return start ? moved : moved.reverse();
}

/** A curve from the one box to the other, out of the sides that face each other. */
function between(from: Box, to: Box): Point[] {
  const [x0, x1] = [from.x + from.width / 2, to.x + to.width / 2];
  const down = from.y + from.height <= to.y;
  const [y0, y1] = down ? [from.y + from.height, to.y] : [from.y + from.height / 2, to.y + to.height / 2];
  if (down) return [[x0, y0], [x0, (y0 + y1) / 2], [x1, (y0 + y1) / 2], [x1, y1]];
  const side = x0 < x1 ? 1 : -1;
  const [a, b] = [x0 + (side * from.width) / 2, x1 - (side * to.width) / 2];
  return [[a, y0], [(a + b) / 2, y0], [(a + b) / 2, y1], [b, y1]];
}

function walk(
  description: Description, where: Map<string, string>, renamed: Map<string, string>, nodes: GraphNode[],
): Description["steps"] {
  const steps: Description["steps"] = [];
  const labels = new Map(nodes.map((node) => [node.id, node.label[0] ?? ""]));
  for (const step of description.steps) {
    const node = where.get(step.node);
    const given = step.given.flatMap((one) => (renamed.has(one.edge) ? [{ ...one, edge: renamed.get(one.edge) ?? "" }] : []));
    const last = steps[steps.length - 1];
    if (step.rewrite) {
      const { after } = step.rewrite;
      steps.push({ ...step, node: node ?? step.node, rewrite: { ...step.rewrite, after: where.get(after) ?? after } });
    } else if (!node) steps.push({ ...step, given });
    else if (last?.node === node) steps[steps.length - 1] = { ...last, ...together(last, step), given: [...last.given, ...given] };
    else steps.push({ ...step, node, title: translate("the rules inside {name}", { name: labels.get(node) ?? "" }), given });
  }
  return steps;
}

const together = ({ rules: [first = 0] }: Step, { rules: [, last = 0, all = 0] }: Step): { rules: number[] } => ({ rules: [first, last, all] });

const GAP = 44;

/** Take out the rows and columns in which nothing stands any more. */
function compact(layout: Layout): Layout {
  const boxes = [layout.nodes, layout.labels, layout.marks].flatMap((group) => Object.values(group)).concat(layout.jumps.map(({ box }) => box));
  for (const { x, y, width, height } of Object.values(layout.scopes))
    boxes.push({ x, y, width: 10, height: 24 }, { x: x + width - 10, y: y + height - 10, width: 10, height: 10 });
  const fx = squeeze(boxes.map((box) => [box.x, box.x + box.width]));
  const fy = squeeze(boxes.map((box) => [box.y, box.y + box.height]));
  const move = (box: Box): Box => {
    const [x, y] = [fx(box.x), fy(box.y)];
    return { x, y, width: fx(box.x + box.width) - x, height: fy(box.y + box.height) - y };
  };
  const all = (group: Record<string, Box>) => Object.fromEntries(Object.entries(group).map(([id, box]) => [id, move(box)]));
  const curves = Object.entries(layout.edges).map(([id, runs]) => [
    id, runs.map((run) => run.map(([x = 0, y = 0]) => [fx(x), fy(y)])),
  ]);
  const [width, height] = [fx(layout.width), fy(layout.height)];
  return {
    ...layout, width, height, nodes: all(layout.nodes), labels: all(layout.labels), marks: all(layout.marks),
    scopes: all(layout.scopes), edges: Object.fromEntries(curves) as Layout["edges"],
    jumps: layout.jumps.map((jump) => ({ ...jump, box: move(jump.box) })),
  };
}

/** A function that moves coordinates together so that no gap between `taken` intervals is wider than GAP. */
function squeeze(taken: [number, number][]): (at: number) => number {
  const cuts: [number, number][] = []; // pairs: the place of a cut, and how much is cut away there
  let [end, lost] = [-Infinity, 0];
  for (const [from, to] of taken.sort(([a], [b]) => a - b)) {
    const gap = from - Math.max(end, 0);
    if (gap > GAP) {
      cuts.push([Math.max(end, 0) + GAP / 2, gap - GAP]);
      lost += gap - GAP;
    }
    end = Math.max(end, to);
  }
  return (at) => cuts.reduce((sum, [start, size]) => sum - Math.min(size, Math.max(0, at - start)), at);
}
