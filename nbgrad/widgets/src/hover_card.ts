// The card beside a box on which the pointer rests: its kind, its shapes, its line; of a folded box its parts and their gradients.

import type { Description, Node as GraphNode } from "./description";
import { html, svg } from "./dom";
import { meaning } from "./draw";
import { translate } from "./language";
import { lines } from "./model";
import type { Scene } from "./scene";

const REST = 350; // milliseconds

export class HoverCard {
  readonly root = html("div", { class: "nbg-card", "aria-hidden": "true", testid: "hover-card", hidden: "" });
  #timer = 0;
  #of: Element | null = null;

  /** The pointer is over this node, or over none. */
  over(element: SVGGElement | null, scene: Scene): void {
    if (element === this.#of) return;
    this.hide();
    this.#of = element;
    const node = element && scene.node(element.dataset["nodeId"]);
    if (node) this.#timer = window.setTimeout(() => this.#show(element, node, scene.description), REST);
  }

  hide(): void {
    clearTimeout(this.#timer);
    this.#of = null;
    this.root.hidden = true;
  }

  #show(element: Element, node: GraphNode, description: Description): void {
    this.root.replaceChildren(...told(description, node));
    this.root.hidden = false;
    const [room, box] = [this.root.parentElement!.getBoundingClientRect(), element.getBoundingClientRect()];
    const { offsetWidth: width, offsetHeight: height } = this.root;
    const beside = box.right + 8 + width <= room.right ? box.right + 8 : box.left - 8 - width >= room.left ? box.left - 8 - width : null;
    const left = beside ?? Math.max(room.left + 4, Math.min(box.left, room.right - width - 4));
    const top = beside === null ? (box.bottom + 8 + height <= room.bottom ? box.bottom + 8 : box.top - 8 - height) : box.top;
    this.root.style.left = `${left - room.left}px`;
    this.root.style.top = `${Math.max(4, Math.min(top - room.top, room.height - height - 4))}px`;
  }
}

function told({ nodes, edges }: Description, node: GraphNode): Node[] {
  const parts: Node[] = [html("b", {}, lines(node)[0] ?? ""), html("small", {}, meaning(node))];
  const add = (text: string) => parts.push(html("div", {}, text));
  const shapes = (all: string[]) => [...new Set(all)].slice(0, 3).join(", ");
  const learned = new Set(nodes.flatMap(({ id, kind }) => (kind === "parameter" ? [id] : [])));
  const given = shapes(edges.flatMap(({ source, target, label }) => (target === node.id && !learned.has(source) ? [label] : [])));
  const made = shapes(edges.flatMap(({ source, label }) => (source === node.id ? [label] : []))) || (node.kind === "op" && node.label[1]);
  if (given) add(`${given} → ${made || translate("a number")}`);
  if (node.holds.length === 1) add(node.label[1] ?? "");
  for (const { role, term, text } of node.details) {
    if (role === "source") add(text);
    else if (role === "unknown") add(`${translate("gradient")} ${text}`); // why it is not known
    else if (role === "parts") add(`${term}: ${text.replaceAll("\n", ", ")}`);
  }
  if (node.rule) add(node.rule.replace("∇", translate("gradient")));
  for (const { text } of node.badges) add(text);
  if (node.bars) {
    const { heights, text } = node.bars;
    const bar = (letter: string, at: number) => (letter === "-" ? "" : `M${at} 26V${90 - letter.charCodeAt(0)}h.8V26z`);
    parts.push(svg("svg", { viewBox: `0 0 ${heights.length} 26`, preserveAspectRatio: "none", class: "nbg-minibars" }, svg("path", { d: [...heights].map(bar).join("") })), html("small", {}, text));
  }
  return parts;
}
