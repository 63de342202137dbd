// Picture -> SVG elements, with the same shapes as svg.py; the colours are in graph.css.

import { APART, BAR, BAR_HEIGHT, BEHIND, FOLDED, MEANING, TOGETHER, WIDE } from "./constants";
import type { Bars, Box, Description, Edge, Form, Jump, Layout, Node as GraphNode, Picture } from "./description";
import { attribute, svg } from "./dom";
import { beside, path, sides, tip } from "./geometry";
import { message, translate } from "./language";
import { lines as linesOf, name } from "./model";

/** The elements that can be selected, by the id of their node, edge or scope. */
export interface Drawing {
  layer: SVGGElement;
  nodes: Map<string, SVGGElement>;
  edges: Map<string, SVGGElement>;
  marks: Map<string, SVGGElement>;
  jumps: Map<Jump, SVGGElement>;
  scopes: Map<string, SVGGElement>;
}

/** The sign of each kind of finding, and what the legend says of it. */
export const BADGES = {
  nan: ["≠", message("NaN or infinity")],
  unreached: ["∅", message("no gradient came")],
  inplace: ["✎", message("changed in place")],
  failed: ["✕", message("an error")],
  warning: ["!", message("a finding: click the box")],
} as const;

export function draw(picture: Picture): Drawing {
  const { description, layout } = picture;
  const drawing: Drawing = { layer: svg("g"), nodes: new Map(), edges: new Map(), marks: new Map(), jumps: new Map(), scopes: new Map() };
  for (const scope of description.scopes) {
    const box = layout.scopes[scope.id];
    if (box) drawing.layer.append(rect(box, 10, "nbg-scope"));
  }
  for (const edge of description.edges) {
    const runs = layout.edges[edge.id];
    if (!runs?.length) continue;
    const classes = `${edge.gradient === null ? "nbg-none" : ""} ${edge.mismatch ? "nbg-mismatch" : ""} ${edge.spoiled ? "nbg-spoiled" : ""}`;
    const group = svg("g", { class: `nbg-edge ${classes}`, "data-edge-id": edge.id, testid: "edge", "aria-hidden": "true" });
    group.append(svg("title", {}, edgeTitle(edge)), svg("path", { class: "nbg-hit", d: path(runs) }), ...edgeLines(edge, runs, layout));
    drawing.edges.set(edge.id, group);
    drawing.layer.append(group);
  }
  for (const scope of description.scopes) {
    const box = layout.scopes[scope.id];
    if (!box) continue;
    const group = svg("g", {
      class: "nbg-scope-name", role: "button", tabindex: -1, "data-scope-id": scope.id, testid: "scope",
      label: `${translate("module")} ${scope.full || scope.label}, ${scope.folds}`, "aria-expanded": "true",
    });
    group.append(
      svg("title", {}, `${scope.full || scope.label}: ${scope.folds}. ${translate("Click the arrow, or double-click, to fold.")}`),
      svg("g", { class: "nbg-fold" }, svg("rect", { x: box.x, y: box.y, width: 20, height: 16, class: "nbg-hit" }), svg("path", { class: "nbg-arrow", d: `M${box.x + 8} ${box.y + 9}h8l-4 6z` })),
      text(scope.label, box.x + 21, box.y + 16, ""),
    );
    drawing.scopes.set(scope.id, group);
  }
  for (const edge of description.edges) {
    const [label, box] = [layout.labels[edge.id], layout.marks[edge.id]];
    if (label) drawing.edges.get(edge.id)?.append(...labels(edge, label, !!box));
    const by = layout.edges[edge.id]?.length ? 1 : layout.shrunk[edge.source]; // of a row
    if (box) drawing.marks.set(edge.id, smaller(mark(edge, natural(box, by), layout.forms[edge.id]), box, by));
  }
  for (const one of layout.jumps) drawing.jumps.set(one, jump(one, description));
  for (const node of description.nodes) {
    const box = layout.nodes[node.id];
    const by = layout.shrunk[node.id];
    if (box) drawing.nodes.set(node.id, node.row === null ? nodeGroup(node, box, by) : smaller(nodeGroup(node, natural(box, by)), box, by));
  }
  const [boxes, rows] = [false, true].map((row) => description.nodes.filter((node) => (node.row !== null) === row).flatMap((node) => drawing.nodes.get(node.id) ?? []));
  // Later elements cover earlier ones: rows and marks cover their boxes. Titles grow when the picture is small, and cover all.
  drawing.layer.append(...boxes!, ...rows!, ...drawing.marks.values(), ...drawing.jumps.values(), ...drawing.scopes.values());
  return drawing;
}

/** The box of something that is drawn smaller by a factor, as large as it would be else. */
export const natural = (box: Box, by = 1): Box => ({ ...box, width: box.width / by, height: box.height / by });

/** Everything in a group is drawn smaller by a factor. */
function smaller(group: SVGGElement, box: Box, by = 1): SVGGElement {
  if (by < 1) group.replaceChildren(svg("g", { transform: shrinking(box, by) }, ...group.childNodes));
  return group;
}

/** Makes what stands at the upper left corner of a box smaller by a factor, and moves it down. */
export const shrinking = ({ x, y }: Pick<Box, "x" | "y">, by: number, down = 0): string => `translate(${x} ${y + down}) scale(${by}) translate(${-x} ${-y})`;

export function edgeTitle(edge: Edge): string {
  const gradient = edge.gradient === null ? `; ${translate("no gradient")}` : edge.gradient && `; ${translate("gradient")} ${edge.gradient}`;
  const reduction = edge.reduction === null ? "" : `; ${translate("summed")} ${edge.reduction.text}`;
  return `${edge.input || translate("inputs")}: ${edge.label}${edge.mismatch ? `; ${edge.mismatch}` : gradient}${reduction}`;
}

function edgeLines(edge: Edge, runs: number[][][], { nodes, marks }: Layout): SVGElement[] {
  const apart = edge.gradient ? APART : 0;
  const mark = marks[edge.id];
  const ends = runs.map((run, at) => sides(run, [at ? mark : nodes[edge.source], at < runs.length - 1 ? mark : nodes[edge.target]]));
  const forward = runs.map((run, at) => beside(run, apart, ends[at]));
  const parts = [
    svg("path", { class: "nbg-value", d: path(forward) }),
    svg("polygon", { class: "nbg-tip", points: tip(forward[forward.length - 1] ?? []) }),
  ];
  if (!edge.gradient) return parts;
  const back = runs.map((run, at) => beside(run, -apart, ends[at]).reverse()).reverse();
  return [
    ...parts,
    svg("path", { class: "nbg-back", d: path(back) }),
    svg("polygon", { class: "nbg-back-tip", points: tip(back[back.length - 1] ?? []) }),
  ];
}

function labels(edge: Edge, box: Box, marked: boolean): SVGElement[] {
  const x = box.x + box.width / 2;
  const value = text(edge.label, x, box.y + 10, "nbg-label");
  if (edge.back === null || marked || (!edge.mismatch && edge.label.startsWith(edge.back))) return [value];
  return [value, text(`∇ ${edge.back}${edge.mismatch ? " ≠" : ""}`, x, box.y + 23, "nbg-label nbg-back-label")];
}

function mark(edge: Edge, box: Box, form?: Form): SVGGElement {
  const warning = edge.reduction?.warning ? `. ${translate("Warning: probably not meant")}` : "";
  const label = `${translate("broadcast reduction")} ${edge.reduction?.text ?? ""}${warning}`;
  const group = svg("g", {
    class: `nbg-mark ${warning ? "nbg-warned" : ""}`, role: "button", tabindex: -1, label,
    testid: "mark", "data-edge-id": edge.id,
  });
  group.append(
    svg("title", {}, edge.reduction?.warning ?? edgeTitle(edge)),
    rect(box, box.height / 2, "nbg-shape"),
    text(warning ? "⚠" : "Σ", box.x + box.width / 2, box.y + 15, "nbg-sum"),
    text(`${warning ? "⚠ " : ""}Σ ${form === "name" ? "" : edge.reduction?.text.split(" -> ").slice(+!!form).join(" -> ")}`, box.x + box.width / 2, box.y + 12.5, "nbg-mark-text"),
    text(form === "name" ? "→" : edge.reduction!.expansion, box.x + box.width / 2, box.y + 12.5, "nbg-expansion"),
  );
  return group;
}

/** Where the lines of a jump go on. */
export const farEnds = ({ node, edges }: Jump, description: Description): string[] =>
  [...new Set(description.edges.flatMap(({ id, source, target }) => (edges.includes(id) ? [source === node ? target : source] : [])))];

function jump(one: Jump, description: Description): SVGGElement {
  const { letters, text: said, node, box } = one;
  const [x, leaves] = [box.x + box.width / 2, description.edges.some(({ id, source }) => id === one.edges[0] && source === node)];
  const label = translate(leaves ? "{letters}: to {names}. Click to go there." : "{letters}: from {names}. Click to go there.", { letters, names: farEnds(one, description).map((id) => name(description, id)).join(", ") });
  const group = svg("g", { class: "nbg-mark nbg-jump", role: "button", tabindex: -1, label, testid: "jump" });
  group.append(
    svg("title", {}, label), rect(box, 7, "nbg-shape"), text(letters.length > 3 ? "…" : letters, x, box.y + 14, "nbg-sum"),
    svg("text", { class: "nbg-mark-text", x, y: box.y + 11.5 }, svg("tspan", { "font-weight": "bold" }, letters), said && ` ${said}`),
  );
  return group;
}

/** Whether a folded node stands for iterations of a loop. */
export const loops = ({ calls }: GraphNode): boolean => calls === "iteration";

/** The kind of a box, in words. */
export const meaning = (node: GraphNode): string => translate(loops(node) ? FOLDED.loop : MEANING[node.kind]) + (node.root ? translate(", the backward starts here") : "");

/** The text of a box for screen readers. */
export const spoken = (node: GraphNode): string =>
  `${[...linesOf(node), ...(node.rule ? [`${translate("gradient")} ${node.rule}`] : []), ...(node.bars ? [`${translate("bars")}: ${node.bars.text}`] : []), ...node.badges.map((badge) => badge.text)].join(", ")} (${meaning(node)})`;

/** The front one of the boxes of a folded node; of another node, its box. */
export function front({ kind }: GraphNode, box: Box): Box {
  const behind = kind === "folded" ? BEHIND : 0;
  return { ...box, width: box.width - behind, height: box.height - behind };
}

const SIGN = 8; // the radius of a sign at a corner

/** Where the signs at the corners of a box stand: the one that unfolds it, and those of its findings. */
function signs(node: GraphNode, whole: Box): Box[] {
  const { x, y, width } = front(node, whole);
  const places = node.badges.slice(0, 3).map((_, at) => x + width - 4 - 17 * at);
  if (node.kind === "folded") places.push(x);
  return places.map((place) => ({ x: place - SIGN, y: y - SIGN, width: 2 * SIGN, height: 2 * SIGN }));
}

/** Where a box and its signs stand; nothing of a row, which stands in a box. */
export function occupied(node: GraphNode, { nodes }: Layout): Box[] {
  const box = nodes[node.id];
  return box && node.row === null ? [box, ...signs(node, box)] : [];
}

function nodeGroup(node: GraphNode, whole: Box, by = 1): SVGGElement {
  const box = front(node, whole);
  const group = svg("g", {
    class: `nbg-node nbg-${node.kind} ${node.row === null ? "" : "nbg-row"} ${node.root ? "nbg-root" : ""} ${node.badges[0] ? `nbg-has-${node.badges[0].kind}` : ""} ${node.spoiled.map((what) => `nbg-spoiled nbg-bad-${what}`).join(" ")}`,
    role: "button", tabindex: -1, label: spoken(node), testid: "node", "data-node-id": node.id,
  });
  const folded = node.kind === "folded";
  if (folded) attribute(group, "aria-expanded", "false");
  group.append(...shape(node, box));
  const texts = card(node, natural(box, by));
  if (node.root) {
    texts.push(svg("path", { class: "nbg-sign", d: `M${box.x + 15} ${box.y + 8}l5 6h-3v5h-4v-5h-3z` }));
  }
  group.append(svg("g", { class: "nbg-texts" }, ...texts));
  signs(node, whole).forEach((place, at) => {
    const [x, y, badge] = [place.x + SIGN, box.y, node.badges.slice(0, 3)[at]];
    const circle = svg("circle", { cx: x, cy: y, r: SIGN });
    if (!badge) return group.append(svg("g", { class: "nbg-fold" }, circle, svg("path", { class: "nbg-plus", d: `M${x - 4} ${y}h8m-4 -4v8` })));
    group.append(svg("g", { class: `nbg-badge nbg-badge-${badge.kind}` }, svg("title", {}, badge.text), circle, text(BADGES[badge.kind][0], x, y + 4, "")));
  });
  return group;
}

/** The texts of a box or a row, from its left side on, as nbgrad/widgets/layout/card.py breaks them. */
function card(node: GraphNode, box: Box): SVGElement[] {
  const row = node.row !== null;
  const inset = 10 + (!row && (node.kind === "leaf" || node.kind === "input") ? 4 : 0);
  const [left, right] = [box.x + inset, box.x + box.width - inset];
  const from = row ? (node.numbers[0] ?? node.label.length) : 1; // a row has its shape behind its name
  const tail = [node.about, ...node.label.slice(1, from)].filter(Boolean).join(" ");
  let y = box.y + (row ? 12 : 18);
  const head = text(node.label[0] ?? "", left + (node.root ? 16 : 0), y, "nbg-head");
  head.append(svg("tspan", { class: "nbg-tail", dx: 6 }, tail)); // an empty one is filled where the shape stands on this line
  const parts: SVGElement[] = [head];
  const [under, single] = [node.label.length - from, node.rule !== null && broken(node.rule).length === 1];
  const last = under ? node.label[node.label.length - 1] : row ? `${node.label[0]} ${tail}` : undefined;
  const beside = single && last !== undefined && last.length + node.rule!.length <= TOGETHER;
  if (node.bars) parts.push(bars(node.bars, right, y + (under > Number(beside) ? 16 : 0)));
  y += row ? 14 : 16;
  for (let at = from; at < node.label.length; at++, y += 14) parts.push(svg("text", { class: `nbg-line ${node.numbers[0]! <= at && at < node.numbers[1]! ? "nbg-number" : ""}`, x: left, y, "data-line": at }, node.label[at] ?? ""));
  if (node.rule === null) return parts;
  if (beside) y -= 14;
  for (const line of broken(node.rule)) {
    parts.push(text(line, beside ? right : left, y, `nbg-rule ${beside ? "nbg-end" : ""}`));
    y += 14;
  }
  return parts;
}

/** A small chart that stands at `foot` and ends at `right`. */
function bars({ heights, text }: Bars, right: number, foot: number): SVGElement {
  const left = right - BAR * heights.length;
  const bar = (letter: string, at: number) => `M${left + BAR * at} ${foot}h${BAR - 1}v${-1 - ((BAR_HEIGHT - 1) * (letter.charCodeAt(0) - 65)) / 25}h${1 - BAR}z`;
  const d = [...heights].map((letter, at) => (letter === "-" ? "" : bar(letter, at))).join("");
  return svg("path", { class: "nbg-minibars", d, "aria-hidden": "true" }, svg("title", {}, text));
}

/** A list of numbers in as many lines as it takes, broken after a comma. */
export function broken(list: string): string[] {
  if (list.includes("\n")) return list.split("\n").flatMap(broken);
  const lines = [""];
  for (const part of list.split(", ")) {
    const last = lines[lines.length - 1]!;
    const longer = last ? `${last}, ${part}` : part;
    if (longer.length <= WIDE || !last) lines[lines.length - 1] = longer;
    else {
      lines[lines.length - 1] += ",";
      lines.push(part);
    }
  }
  return lines;
}

function shape(node: GraphNode, box: Box): SVGElement[] {
  const { x, y, width, height } = box;
  if (node.row !== null) return [rect(box, 4, "nbg-shape")];
  if (node.kind === "parameter" && !node.root)
    return [rect(box, 8, "nbg-shape"), rect({ x: x + 3, y: y + 3, width: width - 6, height: height - 6 }, 5, "nbg-shape nbg-inner")];
  if (node.kind === "folded")
    return [BEHIND, BEHIND / 2, 0].map((by) => rect({ ...box, x: x + by, y: y + by }, 4, "nbg-shape"));
  if (node.kind === "input") {
    const c = 9; // cut corners
    const points = [[x + c, y], [x + width - c, y], [x + width, y + c], [x + width, y + height - c], [x + width - c, y + height], [x + c, y + height], [x, y + height - c], [x, y + c]];
    return [svg("polygon", { class: "nbg-shape", points: points.join(" ") })];
  }
  const radius = node.root || node.kind === "op" ? 5 : node.kind === "leaf" ? Math.min(26, height / 2) : 8;
  return [rect(box, radius, "nbg-shape")];
}

function rect(box: Box, radius: number, role: string): SVGRectElement {
  return svg("rect", { class: role, x: box.x, y: box.y, width: box.width, height: box.height, rx: radius });
}

function text(content: string, x: number, y: number, role: string): SVGTextElement {
  return svg("text", { class: role, x, y }, content);
}
