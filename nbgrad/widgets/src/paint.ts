// How the parts of a drawing look for the moment: lit, in the background, coloured, reached by the backward.

import type { Box, Frame, Node as GraphNode, Picture, Step } from "./description";
import { attribute, flag, svg } from "./dom";
import { broken, type Drawing, farEnds, occupied, spoken } from "./draw";
import { translate } from "./language";
import { classColour, original, twinOf } from "./model";
import { titled } from "./titles";
import { cut, widthOf, write } from "./write";

const COVERED = 24; // square pixels of other parts that may lie under a text
const ASIDE = 4; // the room beside a text: two texts in a line do not become one
const UNKNOWN = ["∇", "?"].join(" "); // until the walk has reached it

export class Paint {
  readonly #stage: SVGSVGElement;
  readonly #picture: Picture;
  readonly #drawing: Drawing;

  constructor(stage: SVGSVGElement, picture: Picture, drawing: Drawing) {
    this.#stage = stage;
    this.#picture = picture;
    this.#drawing = drawing;
  }

  /** Show one node, edge or mark with what belongs to it, and let the rest step back. */
  highlight(element: SVGGElement | null): void {
    const { nodes, edges, marks, jumps } = this.#drawing;
    const { description } = this.#picture;
    const on = new Set<unknown>();
    const id = element?.dataset["nodeId"];
    const jump = [...jumps].find(([, sign]) => sign === element)?.[0];
    const lit = new Set(jump?.edges ?? [element?.dataset["edgeId"]]);
    for (const edge of element ? description.edges : []) {
      const own = id !== undefined && [edge.source, edge.target].some((end) => original(description, end) === original(description, id));
      if (own) lit.add(edge.id);
      if (lit.has(edge.id)) for (const part of [edges.get(edge.id), marks.get(edge.id), nodes.get(edge.source), nodes.get(edge.target)]) on.add(part);
    }
    if (element) on.add(element);
    const twin = id === undefined ? undefined : twinOf(description, id);
    if (twin) on.add(nodes.get(twin));
    flag(this.#stage, "focus", on.size > 0);
    for (const [other, part] of nodes) flag(part, "same", id !== undefined && (original(description, other) === original(description, id) || other === twin));
    for (const [{ edges }, sign] of jumps) if (edges.some((edge) => lit.has(edge))) on.add(sign);
    for (const group of [nodes, edges, marks, jumps]) for (const part of group.values()) flag(part, "on", on.has(part));
  }

  /** Dim all but these nodes and the parts between them; null shows everything. */
  only(ids: Set<string> | null): void {
    const { nodes, edges, marks, jumps } = this.#drawing;
    const { description } = this.#picture;
    const has = (id: string) => ids === null || ids.has(original(description, id));
    flag(this.#stage, "only", ids !== null);
    for (const [id, element] of nodes) flag(element, "out", !has(id));
    for (const edge of description.edges)
      for (const part of [edges.get(edge.id), marks.get(edge.id)])
        flag(part, "out", !(has(edge.source) && has(edge.target)));
    for (const [jump, sign] of jumps) flag(sign, "out", ![jump.node, ...farEnds(jump, description)].every(has));
  }

  overlay(key: string): void {
    const { nodes, overlays } = this.#picture.description;
    const overlay = overlays.find((one) => one.key === key);
    const classes = overlay?.classes.length ?? 0;
    for (const node of nodes) {
      const element = this.#drawing.nodes.get(node.id);
      const level = node.levels[key];
      flag(element, "levelled", level !== undefined && !classes);
      flag(element, "classed", level !== undefined && classes > 0);
      if (level === undefined) continue;
      element?.style.setProperty("--nbg-level", String(level));
      element?.style.setProperty("--nbg-class", classColour(overlay, level));
    }
    flag(this.#stage, "overlaid", key !== "");
  }

  /** Colour and write the nodes as one frame had them; null for the last backward. */
  frame(at: number | null): void {
    const { layout, description: { nodes, copies, history: { frames } } } = this.#picture;
    flag(this.#stage, "overlaid", at !== null);
    flag(this.#stage, "earlier", at !== null && at < frames.length - 1);
    for (const node of nodes) {
      const element = this.#drawing.nodes.get(node.id);
      const letter = at === null ? "-" : (node.past[at] ?? "-");
      flag(element, "levelled", letter !== "-");
      element?.style.setProperty("--nbg-level", String((letter.charCodeAt(0) - 65) / 25));
      const then = at === null || at === frames.length - 1 ? node : past(node, at, frames[at], node.id in copies);
      attribute(element, "aria-label", spoken(then));
      if (element) write(element, layout.nodes[node.id], then.label, then === node ? broken(then.rule ?? "") : [then.rule]);
    }
  }

  /** Draw the backward as far as one step; null for all of it again. Return where it is written what comes back. */
  step(step: Step | null, at: number): Box[] {
    flag(this.#stage, "stepping", step !== null);
    const { nodes, edges, marks, jumps } = this.#drawing;
    const { steps } = this.#picture.description;
    const given = (from: number, to: number) => new Set(steps.slice(from, to).flatMap((one) => one.given.map((it) => it.edge)));
    const [past, now] = [given(0, at), given(at - 1, at)];
    const done = new Set(steps.slice(step?.rewrite ? at : 0, at).map((one) => one.node));
    for (const edge of this.#picture.description.edges) if (past.has(edge.id)) done.add(edge.source);
    for (const [id, element] of nodes) {
      flag(element, "done", done.has(id));
      flag(element, "current", step?.node === id || step?.rewrite?.after === id);
    }
    const parts = [...edges, ...marks].map(([id, element]): [string[], Element] => [[id], element]).concat([...jumps].map(([jump, sign]) => [jump.edges, sign]));
    for (const [ids, element] of parts) {
      flag(element, "done", ids.some((id) => past.has(id)));
      flag(element, "current", step !== null && ids.some((id) => now.has(id)));
    }
    for (const node of this.#picture.description.nodes) {
      const known = step === null || done.has(node.id) || !node.rule;
      const lines = broken(node.rule ?? "");
      nodes.get(node.id)?.querySelectorAll(".nbg-rule").forEach((line, at) => (line.textContent = known ? (lines[at] ?? "") : at ? "" : UNKNOWN));
    }
    for (const old of this.#drawing.layer.querySelectorAll(".nbg-told")) old.remove();
    const taken: Box[] = [];
    for (const { edge, came } of step?.given ?? []) this.#tell(edge, came, taken);
    return taken;
  }

  /** Write at an edge what comes back along it in this step: where it covers nothing, and near the middle of the edge. If there is no such place, only the panel says it. */
  #tell(edge: string, came: string, taken: Box[]): void {
    const { layout, description } = this.#picture;
    const runs = layout.edges[edge] ?? [];
    const points = layout.marks[edge] ? runs.flat() : (runs[0] ?? []); // of a jump, at its source
    if (!points.length) return;
    const text = `∇ ${cut(came, 32)}`; // the panel has all of it
    const [width, height] = [widthOf(text, true) + 2 * ASIDE, 14];
    const shapes = [...taken, ...description.nodes.flatMap((node) => occupied(node, layout)), ...Object.values(layout.marks), ...Object.values(layout.labels), ...layout.jumps.map(({ box }) => box), ...description.scopes.flatMap(({ id, label }) => (layout.scopes[id] ? [titled(layout.scopes[id], label)] : []))];
    // Where boxes are close together, only beside them there is room.
    const { source, target } = description.edges.find(({ id }) => id === edge)!;
    const signs = layout.jumps.flatMap(({ edges, node, box }) => (edges.includes(edge) && node === source ? [box] : []));
    const ends = description.nodes.flatMap(({ id, row }) => (id === source || (id === target && !signs.length) ? (layout.nodes[row ?? id] ?? []) : [])).concat(signs);
    const [right, left] = [Math.max(...ends.map((one) => one.x + one.width)) + 6, Math.min(...ends.map((one) => one.x)) - 6 - width];
    const besides = ends.flatMap((one) => [one.y + one.height / 2, (ends[0]!.y + ends[0]!.height + ends[ends.length - 1]!.y) / 2].flatMap((y) => [one.x + one.width + 6, one.x - 6 - width, right, left].map((x) => [x, y - height / 2])).concat([one.y - height - 2, one.y + one.height + 2].map((y) => [Math.max(0, one.x + one.width - width), y])))
      .map(([x = 0, y = 0]): Box => ({ x, y, width, height }));
    const along = (a: number, b: number, c: number, d: number) => Math.max(0, Math.min(a + b, c + d) - Math.max(a, c));
    const covered = (box: Box) => shapes.reduce((sum, one) => sum + along(box.x, box.width, one.x, one.width) * along(box.y, height, one.y, one.height), 0);
    const middle = (points.length - 1) / 2;
    const places = points.slice(1).flatMap(([bx = 0, by = 0], at) => {
      const [ax = 0, ay = 0] = points[at]!;
      const [x, y] = [(ax + bx) / 2, (ay + by) / 2];
      const far = Math.abs(at + 0.5 - middle);
      return [[x + 12, y - 7], [x - 12 - width, y - 7], [x - width / 2, y - 18], [x - width / 2, y + 6]].map(([left = 0, top = 0], side): [Box, number] => [{ x: left, y: top, width, height }, far + side / 10]);
    });
    places.push(...besides.filter(({ x }) => x >= 0 && x + width <= layout.width).map((box): [Box, number] => [box, 9]));
    const [best] = places.map(([box, far]): [Box, number] => [box, 1e4 * covered(box) + far]).sort((a, b) => a[1] - b[1]);
    const { x, y } = best![0];
    if (covered(best![0]) > COVERED) return; // it could not be read, nor what is below it
    taken.push(best![0]);
    this.#drawing.layer.append(svg("text", { class: "nbg-told", "aria-hidden": "true", x: x + ASIDE, y: y + 11 }, text));
  }
}

/** A node as one frame had it. A frame remembers no values except that of the root. */
function past(node: GraphNode, at: number, frame: Frame | undefined, copy: boolean): GraphNode {
  const [first = 0, end = 0] = node.numbers;
  const then = (node.root && frame?.value) || translate("not kept"); // the room for the numbers stays
  const label = node.label.map((line, at) => (at < first || at >= end ? line : at === first ? then : ""));
  return { ...node, label, rule: node.rule && `∇ ${node.norms[at] ? `norm ${node.norms[at]}` : ""}${copy ? ` ${translate("in all")}` : ""}` };
}
