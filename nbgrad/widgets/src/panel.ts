// What the side panel says about a node, a reduction, or all reductions.

import type { Description, Edge, Node as GraphNode } from "./description";
import { MEANING } from "./draw";
import { button, html } from "./dom";
import { formula } from "./formula";

export interface Selection {
  node(id: string): void;
  mark(edge: string): void;
}

/** The id of the tensor that a copy ("n3.2") stands for. */
export const original = (id: string): string => id.split(".")[0] ?? id;

export function nodePanel(description: Description, node: GraphNode, select: Selection): Node[] {
  const told = node.details.length
    ? node
    : (description.nodes.find((other) => original(other.id) === original(node.id) && other.details.length) ?? node);
  const parts: Node[] = [title(node.label[0] ?? node.id)];
  const where = scopePath(description, node.scope);
  parts.push(html("p", { class: "nbg-kind" }, MEANING[node.kind] + (node.root ? "; the backward starts here" : "")));
  if (where) parts.push(html("p", { class: "nbg-kind" }, where));
  if (told.details.length) {
    const rows = html("dl");
    for (const { term, text } of told.details)
      rows.append(html("dt", {}, term), html("dd", {}, text.includes("\n") ? html("pre", {}, text) : text));
    parts.push(rows);
  }
  if (told.formulas.length) {
    parts.push(html("h4", {}, "Formulas"));
    for (const item of told.formulas) {
      const of = item.of ? `gradient of ${item.of}` : "value";
      parts.push(html("div", { class: "nbg-formula" }, html("span", {}, of), formula(item)));
    }
  }
  const same = (id: string) => original(id) === original(node.id);
  parts.push(...edgeList("Takes", description, description.edges.filter((e) => same(e.target)), "source", select));
  parts.push(...edgeList("Used by", description, description.edges.filter((e) => same(e.source)), "target", select));
  return parts;
}

export function markPanel(description: Description, edge: Edge, select: Selection): Node[] {
  const reduction = edge.reduction;
  if (!reduction) return [];
  const dims = reduction.dims.length === 1 ? `dim ${reduction.dims[0]}` : `dims ${reduction.dims.join(", ")}`;
  return [
    title("Broadcast reduction"),
    html("p", { class: "nbg-sum" }, `Σ ${reduction.text}`),
    html(
      "p", {},
      "In the forward, the smaller input was repeated to fit. In the backward, each of its numbers gets the sum of " +
        `the gradients of all its repeats: summed over ${dims}, ${reduction.terms} numbers for each one kept.`,
    ),
    ...edgeList("From", description, [edge], "source", select),
    ...edgeList("To", description, [edge], "target", select),
  ];
}

export function reductionsPanel(description: Description, select: Selection): Node[] {
  const list = html("ul", { class: "nbg-edges" });
  for (const edge of description.edges) {
    if (!edge.reduction) continue;
    const go = html("button", { type: "button" }, html("span", { class: "nbg-sum" }, `Σ ${edge.reduction.text}`));
    go.append(html("small", {}, `${name(description, edge.source)} → ${name(description, edge.target)}`));
    go.addEventListener("click", () => select.mark(edge.id));
    list.append(html("li", {}, go));
  }
  const none = "No gradient was summed down: every input had the shape of its output.";
  return [title("Broadcast reductions"), list.childElementCount ? list : html("p", {}, none)];
}

export function closeButton(close: () => void): HTMLButtonElement {
  const element = button("×", "Close (Escape)", "nbgrad-close", close);
  element.className = "nbg-close";
  return element;
}

function edgeList(
  heading: string, description: Description, edges: Edge[], end: "source" | "target", select: Selection,
): Node[] {
  if (!edges.length) return [];
  const list = html("ul", { class: "nbg-edges" });
  for (const edge of edges) {
    const go = html("button", { type: "button" });
    go.append(html("b", {}, name(description, edge[end])), html("span", {}, edge.input ? ` as ${edge.input}` : ""));
    go.append(html("small", {}, edge.label));
    go.append(html("small", {}, edge.gradient === null ? "no gradient" : `gradient: ${edge.gradient}`));
    go.addEventListener("click", () => select.node(edge[end]));
    const item = html("li", {}, go);
    if (edge.reduction) {
      const sum = html("button", { type: "button", class: "nbg-sum" }, `Σ ${edge.reduction.text}`);
      sum.addEventListener("click", () => select.mark(edge.id));
      item.append(sum);
    }
    list.append(item);
  }
  return [html("h4", {}, heading), list];
}

function name(description: Description, id: string): string {
  return description.nodes.find((node) => node.id === id)?.label[0] ?? id;
}

function scopePath(description: Description, scope: string | null): string {
  const path: string[] = [];
  const seen = new Set<string>();
  for (let id = scope; id !== null && !seen.has(id); ) {
    seen.add(id);
    const found = description.scopes.find((other) => other.id === id);
    if (!found) break;
    path.unshift(found.label);
    id = found.parent;
  }
  return path.join(" › ");
}

function title(text: string): HTMLElement {
  return html("h3", {}, text);
}
