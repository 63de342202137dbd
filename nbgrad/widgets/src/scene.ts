// One drawing of one picture: its elements, how they look for the moment, and where the keyboard goes in it.

import { Cull } from "./cull";
import type { Box, Description, Edge, Jump, Node as GraphNode, Picture } from "./description";
import { attribute, listen } from "./dom";
import { type Drawing, draw, natural } from "./draw";
import { Forms } from "./forms";
import { foldedId, nodeOf, original, within } from "./model";
import { Paint } from "./paint";
import { Titles } from "./titles";

/** The actions on a drawing, and the facts about its view that it needs. */
export interface Touched {
  node(id: string, here?: boolean): void; // clicked in the picture
  edge(id: string): void;
  mark(edge: string, here?: boolean): void;
  hop(jump: Jump): void; // to where its lines go on
  toggle(holds: string[]): void;
  readonly chosen: SVGGElement | null;
  readonly moving: boolean; // whether the reader is moving the picture now
  reveal(box: Box): void;
}

export class Scene {
  readonly description: Description;
  readonly drawing: Drawing;
  readonly paint: Paint;
  readonly cull: Cull;
  readonly forms: Forms;
  readonly titles: Titles;
  lights = true; // whether an element that gets the focus lights up
  readonly #order: [string, SVGGElement, Box][] = []; // what the keyboard walks: nodes and marks, row by row, or column by column

  constructor(readonly picture: Picture, stage: SVGSVGElement, private readonly view: Touched) {
    const { layout, description } = picture;
    this.description = description;
    this.drawing = draw(picture);
    this.paint = new Paint(stage, picture, this.drawing);
    this.cull = new Cull(this.drawing, layout);
    this.forms = new Forms(this.drawing, picture);
    this.titles = new Titles(this.drawing, picture);
    stage.replaceChildren(this.drawing.layer);
    attribute(stage, "style", `--nbg-w:${layout.width}px;--nbg-h:${layout.height}px`); // for a page of paper
    const { nodes, marks, jumps, edges, scopes } = this.drawing;
    const holds = new Map(description.nodes.map((node) => [node.id, node.holds]));
    for (const [id, element] of nodes) this.#connect(element, id, layout.nodes[id], () => view.node(id, true), holds.get(id));
    for (const [id, element] of marks) this.#connect(element, id, layout.marks[id], () => view.mark(id, true));
    for (const [one, element] of jumps) this.#connect(element, one.letters, one.box, () => view.hop(one));
    const [row, place] = picture.direction === "TB" ? (["y", "x"] as const) : (["x", "y"] as const);
    this.#order.sort(([, , a], [, , b]) => a[row] - b[row] || a[place] - b[place]);
    attribute(this.first, "tabindex", "0");
    for (const [id, element] of edges) {
      listen(element, "click", () => view.edge(id));
      this.#lights(element);
    }
    for (const [id, element] of scopes) {
      listen(element, "dblclick", () => view.toggle([id]));
      listen(element, "click", ({ target, detail }) => {
        if (detail < 2 && (target as Element).closest(".nbg-fold")) view.toggle([id]);
      });
    }
  }

  get first(): SVGGElement | undefined {
    return this.#order[0]?.[1];
  }

  get size(): [number, number] {
    return [this.picture.layout.width, this.picture.layout.height];
  }

  /** Where the node or the module of this id is drawn; the module may be open or folded. */
  box(id: string): Box | undefined {
    const { nodes, scopes } = this.picture.layout;
    return nodes[id] ?? scopes[id] ?? nodes[foldedId(id)];
  }

  /** The box of a node as large as its texts were measured for; it may be drawn smaller. */
  space(id: string): Box | undefined {
    const { nodes, shrunk } = this.picture.layout;
    return nodes[id] && natural(nodes[id], shrunk[id]);
  }

  /** Where these modules are drawn, open or folded, or these nodes. */
  around(ids: string[]): Box | undefined {
    const { nodes } = this.picture.layout;
    const scopes = new Map(this.description.scopes.map((scope) => [scope.id, scope]));
    const boxes = ids.flatMap((id) => this.box(id) ?? nodes[this.node(id)?.id ?? ""] ?? []);
    for (const { id, holds, scope } of this.description.nodes)
      if ([...holds, ...within(scopes, scope)].some((one) => ids.includes(one))) boxes.push(...(nodes[id] ? [nodes[id]] : []));
    return hull(boxes);
  }

  /** Around all of these nodes. */
  hull(ids: string[]): Box | undefined {
    return hull(ids.flatMap((id) => this.box(id) ?? []));
  }

  boxOf(element: SVGGElement): Box | undefined {
    return this.#order.find(([, other]) => other === element)?.[2];
  }

  /** The node of this id; if it is not drawn, another use of the same tensor. */
  node(id: string | undefined): GraphNode | undefined {
    const { description } = this;
    return nodeOf(description, id ?? "") ?? description.nodes.find((one) => original(description, one.id) === original(description, id ?? ""));
  }

  edge(id: string | undefined): Edge | undefined {
    return this.description.edges.find((one) => one.id === id);
  }

  /** The element with the focus after another drawing: the same node, the module into which it was folded, or a node that was unfolded from it. */
  heir(old: GraphNode): SVGGElement | undefined {
    const { nodes, scopes } = this.description;
    const known = new Map(scopes.map((scope) => [scope.id, scope]));
    const found = nodes.find(({ id, holds, scope }) =>
      id === old.id || holds.includes(old.scope ?? "") || within(known, scope).includes(old.holds[0] ?? ""));
    return this.drawing.nodes.get(found?.id ?? "") ?? this.first;
  }

  /** Focus the element that comes `by` places after this one. */
  step(element: Element, by: number): void {
    const order = this.#order.filter(([, other]) => other === element || !other.matches(".nbg-roomless"));
    const here = order.findIndex(([, other]) => other === element);
    this.go(here < 0 ? undefined : order[here + by]?.[1]);
  }

  /** Follow the first edge of an element, forwards if `on`, else backwards. If the edge has a mark, stop at the mark. */
  along(element: SVGGElement, on: number): void {
    const [from, to] = on ? (["source", "target"] as const) : (["target", "source"] as const);
    const { nodes, marks } = this.drawing;
    const { nodeId, edgeId } = element.dataset;
    const edge = edgeId === undefined ? this.description.edges.find((one) => one[from] === nodeId) : this.edge(edgeId);
    if (edge) this.go((edgeId === undefined && marks.get(edge.id)) || nodes.get(edge[to]));
  }

  /** Focus an element, which may be too far away to be drawn just now. */
  go(element: SVGGElement | undefined): void {
    if (!element) return;
    this.cull.show(element);
    element.focus({ preventScroll: true });
  }

  #connect(element: SVGGElement, id: string, box: Box | undefined, choose: () => void, holds: string[] = []): void {
    if (!box) return;
    this.#order.push([id, element, box]);
    listen(element, "click", ({ target, detail }) => {
      if (detail > 1) return; // a second click unfolds
      if ((target as Element).closest(".nbg-fold")) this.view.toggle(holds);
      else choose();
    });
    if (holds.length) listen(element, "dblclick", () => this.view.toggle(holds));
    this.#lights(element);
    listen(element, "focus", () => {
      for (const [, other] of this.#order) attribute(other, "tabindex", other === element ? "0" : "-1");
      if (element.matches(":focus-visible")) this.view.reveal(box);
      if (this.lights) this.paint.highlight(element);
    });
    listen(element, "blur", () => this.light(null));
  }

  /** Show what belongs to an element, or to the chosen one; not while the picture moves below the pointer. */
  light(element: SVGGElement | null): void {
    if (!this.view.moving) this.paint.highlight(element ?? this.view.chosen);
  }

  #lights(element: SVGGElement): void {
    listen(element, "mouseenter", () => this.light(element));
    listen(element, "mouseleave", () => this.light(null));
  }
}

function hull(boxes: Box[]): Box | undefined {
  if (!boxes.length) return undefined;
  const [x, y] = [Math.min(...boxes.map((box) => box.x)), Math.min(...boxes.map((box) => box.y))];
  return { x, y, width: Math.max(...boxes.map((box) => box.x + box.width)) - x, height: Math.max(...boxes.map((box) => box.y + box.height)) - y };
}
