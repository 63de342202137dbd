// Picture -> SVG elements, with the same shapes as svg.py; the colours are in graph.css.

import type { Box, Edge, Kind, Node as GraphNode, Picture } from "./description";
import { svg } from "./dom";

export const MEANING: Record<Kind, string> = {
  op: "operation",
  parameter: "parameter",
  leaf: "leaf: needs a gradient",
  constant: "constant",
  outside: "made before this graph",
  folded: "folded module",
};

/** The elements that can be selected, by the id of their node or edge. */
export interface Drawing {
  layer: SVGGElement;
  nodes: Map<string, SVGGElement>;
  edges: Map<string, SVGGElement>;
  marks: Map<string, SVGGElement>;
}

export function draw(picture: Picture): Drawing {
  const { description, layout } = picture;
  const drawing: Drawing = { layer: svg("g"), nodes: new Map(), edges: new Map(), marks: new Map() };
  for (const scope of description.scopes) {
    const box = layout.scopes[scope.id];
    if (box) drawing.layer.append(rect(box, 8, "nbg-scope"));
  }
  for (const edge of description.edges) {
    const runs = layout.edges[edge.id];
    if (!runs) continue;
    const group = svg("g", { class: `nbg-edge ${edge.gradient === null ? "nbg-none" : ""}` });
    group.append(svg("title", {}, edgeTitle(edge)), ...wire(runs));
    drawing.edges.set(edge.id, group);
    drawing.layer.append(group);
  }
  for (const scope of description.scopes) {
    const box = layout.scopes[scope.id];
    if (!box) continue;
    // Twice: the outline hides the wires that come in through the label.
    for (const role of ["nbg-scope-halo", "nbg-scope-label"])
      drawing.layer.append(text(scope.label, box.x + 10, box.y + 16, role));
  }
  for (const edge of description.edges) {
    const box = layout.marks[edge.id];
    if (box) drawing.marks.set(edge.id, mark(edge, box));
  }
  for (const node of description.nodes) {
    const box = layout.nodes[node.id];
    if (box) drawing.nodes.set(node.id, nodeGroup(node, box));
  }
  drawing.layer.append(...drawing.marks.values(), ...drawing.nodes.values());
  return drawing;
}

export function edgeTitle(edge: Edge): string {
  const gradient = edge.gradient === null ? "no gradient" : `gradient ${edge.gradient}`;
  const reduction = edge.reduction === null ? "" : `; summed ${edge.reduction.text}`;
  return `${edge.input || "inputs"}: ${edge.label}; ${gradient}${reduction}`;
}

function mark(edge: Edge, box: Box): SVGGElement {
  const label = `broadcast reduction ${edge.reduction?.text ?? ""}`;
  const group = svg("g", {
    class: "nbg-mark", role: "button", tabindex: -1, "aria-label": label,
    "data-testid": "nbgrad-mark", "data-edge-id": edge.id,
  });
  group.append(
    svg("title", {}, edgeTitle(edge)),
    rect(box, box.height / 2, "nbg-shape"),
    text(`Σ ${edge.reduction?.text ?? ""}`, box.x + box.width / 2, box.y + 14, "nbg-mark-text"),
  );
  return group;
}

function nodeGroup(node: GraphNode, box: Box): SVGGElement {
  const meaning = MEANING[node.kind] + (node.root ? ", the backward starts here" : "");
  const group = svg("g", {
    class: `nbg-node nbg-${node.kind} ${node.root ? "nbg-root" : ""}`,
    role: "button", tabindex: -1, "aria-label": `${node.label.join(", ")} (${meaning})`,
    "data-testid": "nbgrad-node", "data-node-id": node.id,
  });
  group.append(svg("title", {}, `${node.label[0] ?? node.id} (${meaning})`), ...shape(node, box));
  const middle = box.x + box.width / 2;
  if (node.root) {
    const [x, y] = [box.x + 15, box.y + 17];
    group.append(svg("polygon", { class: "nbg-sign", points: `${x - 5},${y + 4} ${x},${y - 5} ${x + 5},${y + 4}` }));
  }
  node.label.forEach((line, index) => {
    const y = box.y + (index === 0 ? 21 : 23 + 14 * index);
    group.append(text(line, node.root && index === 0 ? middle + 7 : middle, y, index === 0 ? "nbg-head" : "nbg-line"));
  });
  return group;
}

function shape(node: GraphNode, box: Box): SVGElement[] {
  if (node.kind === "parameter" && !node.root) {
    const inner = { x: box.x + 3, y: box.y + 3, width: box.width - 6, height: box.height - 6 };
    return [rect(box, 8, "nbg-shape"), rect(inner, 5, "nbg-shape nbg-inner")];
  }
  if (node.kind === "folded" && !node.root)
    return [rect({ ...box, x: box.x + 3, y: box.y + 3 }, 4, "nbg-shape"), rect(box, 4, "nbg-shape")];
  const radius = node.root || node.kind === "op" ? 4 : node.kind === "leaf" ? box.height / 2 : 8;
  return [rect(box, radius, "nbg-shape")];
}

function wire(runs: number[][][]): SVGElement[] {
  const path = runs.map(([start, ...rest]) => `M${start?.join(" ")}C${rest.map((p) => p.join(" ")).join(" ")}`);
  const last = runs[runs.length - 1] ?? [];
  const [x = 0, y = 0] = last[last.length - 1] ?? [];
  let [dx, dy] = [0, 1];
  for (const [px = 0, py = 0] of last.slice(0, -1).reverse()) {
    const length = Math.hypot(x - px, y - py);
    if (length <= 0.5) continue;
    [dx, dy] = [(x - px) / length, (y - py) / length];
    break;
  }
  const side = (s: number) => `${x - 7 * dx - 3.2 * s * dy},${y - 7 * dy + 3.2 * s * dx}`;
  return [
    svg("path", { class: "nbg-hit", d: path.join("") }),
    svg("path", { class: "nbg-wire", d: path.join("") }),
    svg("polygon", { class: "nbg-tip", points: `${x},${y} ${side(1)} ${side(-1)}` }),
  ];
}

function rect(box: Box, radius: number, role: string): SVGRectElement {
  return svg("rect", { class: role, x: box.x, y: box.y, width: box.width, height: box.height, rx: radius });
}

function text(content: string, x: number, y: number, role: string): SVGTextElement {
  return svg("text", { class: role, x, y }, content);
}
