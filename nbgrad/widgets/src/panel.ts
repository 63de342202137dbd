// The texts of the side panel about a node, an edge, a reduction, or about all reductions and findings.

import type { Answers } from "./answers";
import type { Description, Edge, Node as GraphNode } from "./description";
import { button, html, listen, prose } from "./dom";
import { meaning } from "./draw";
import { formula } from "./formula";
import { translate } from "./language";
import { called, lines, name, nodeOf, original, placeOf, scopePath, twinOf, wrong } from "./model";
import type { Inquiry } from "./numbers";
import { lookOf } from "./tensor_plot";
import type { WhatIf } from "./what_if";

export interface Selection {
  node(id: string, here?: boolean): void; // clicked in the picture, or in a list
  edge(id: string): void;
  mark(edge: string, here?: boolean): void;
  focus(id: string, what: "ancestors" | "descendants" | "path"): void;
  toggle(holds: string[]): void;
  copy(text: string): void;
  readonly answers: Answers;
  readonly inquiry: Inquiry;
  readonly whatIf: WhatIf | null; // if the page or the kernel can run the graph again
}

export function nodePanel(description: Description, node: GraphNode, select: Selection): Node[] {
  const of = original(description, node.id);
  const same = (id: string) => original(description, id) === of;
  const told = node.details.length ? node : (description.nodes.find((other) => same(other.id) && other.details.length) ?? node);
  const parts: Node[] = [title(lines(node)[0] ?? node.id)];
  const where = scopePath(description, node.scope);
  parts.push(quiet(meaning(node)));
  if (where) parts.push(quiet(where));
  for (const badge of told.badges) parts.push(html("p", { class: `nbg-finding nbg-finding-${badge.kind}` }, badge.text));
  if (node.holds.length) parts.push(row(button(translate("Unfold"), translate("Unfold this module (double-click)"), "unfold", () => select.toggle(node.holds))));
  const twin = twinOf(description, node.id);
  if (twin) parts.push(row(button(`⇄ ${translate("{name} on the other side", { name: name(description, twin) })}`, translate("Go to its counterpart in the other graph"), "twin", () => select.node(twin))));
  parts.push(...select.answers.offer(node));
  const looks = html("div", { class: "nbg-looks" });
  if (told.value) looks.append(lookOf(translate("Value"), told.value, ...select.inquiry.offer(of, "value", told.value)));
  if (told.gradient) looks.append(lookOf(translate("Gradient"), told.gradient, ...select.inquiry.offer(of, "gradient", told.gradient)));
  if (looks.childElementCount) parts.push(looks);
  parts.push(...(select.whatIf?.offer(node) ?? []));
  const op = node.op === null ? undefined : description.ops[node.op];
  if (op?.what) parts.push(html("p", {}, ...prose(op.what)));
  if (op?.why) parts.push(html("p", { class: "nbg-why" }, ...prose(op.why)));
  if (op && node.kind !== "outside") parts.push(...formulas(description, node.id, op.formulas));
  const rows = html("dl");
  const code = told.details.find(({ role }) => role === "code")?.text;
  if (code) parts.push(row(button(translate("Copy {code}", { code }), translate("Its name in your code"), "copy", () => select.copy(code))));
  for (const { term, text } of told.details) {
    const [first = "", latex = ""] = text.split("\n");
    const mathml = description.formulas[latex];
    rows.append(html("dt", {}, term), html("dd", {}, ...(mathml ? [...prose(first), html("br"), formula({ of: "", latex, mathml })] : [text !== first ? html("pre", {}, text) : text])));
  }
  if (told.details.length) parts.push(rows);
  parts.push(...edgeList(translate("Takes"), description, description.edges.filter((e) => same(e.target)), "source", select));
  const uses = description.edges.filter((e) => same(e.source));
  const several = told.details.some(({ role }) => role === "results"); // it has several results, each with a gradient of its own
  const added = uses.filter((e) => e.gradient).length > 1 && !several;
  parts.push(...edgeList(translate(added ? "Used by: their gradients are added" : "Used by"), description, uses, "target", select));
  parts.push(
    html("h4", {}, translate("Show only")),
    row(
      button(translate("Ancestors"), translate("The boxes from which this was computed"), "ancestors", () => select.focus(node.id, "ancestors")),
      button(translate("Descendants"), translate("The boxes that were computed from this"), "descendants", () => select.focus(node.id, "descendants")),
      button(translate("Path to …"), translate("The paths to the box that you click next"), "path", () => select.focus(node.id, "path")),
    ),
  );
  return parts;
}

/** Formulas of an op: of its value, and of the gradient of each input, with the name that the cell gives the input. */
export function formulas(description: Description, id: string, all: { of: string; latex: string; mathml: string }[], only?: string): Node[] {
  const told = (of: string) => {
    const name = called(description, id, of);
    return name ? translate("gradient of {name}, the input “{of}”", { name, of }) : translate("gradient of {of}", { of });
  };
  const shown = all
    .filter((item) => only === undefined || item.of === only)
    .map((item) => html("div", { class: "nbg-formula" }, html("span", {}, item.of ? told(item.of) : translate("value")), formula(item)));
  return shown.length ? [...shown, ...where(description, id)] : [];
}

/** The meanings of the letters in the formulas: these are the letters of the op, and the cell may use the same for other things. */
function where(description: Description, id: string): Node[] {
  const node = nodeOf(description, id);
  const taken = new Set(description.edges.flatMap(({ input, target }) => (original(description, target) === original(description, id) ? [input] : [])));
  const all = (description.ops[node?.op ?? ""]?.symbols ?? []).filter(({ of }) => !of || taken.has(of));
  const words = all.flatMap((one, at) => [at ? ", " : `${translate("Here")} `, formula(one), ` ${translate("is")} ${one.of ? called(description, id, one.of) || one.of : translate("the gradient that comes in")}`]);
  return words.length ? [html("p", { class: "nbg-kind", testid: "where" }, ...words, ".")] : [];
}

export function edgePanel(description: Description, edge: Edge, select: Selection): Node[] {
  const parts: Node[] = [title(`${name(description, edge.source)} → ${name(description, edge.target)}`)];
  parts.push(quiet(edge.input ? translate("as {input}", { input: edge.input }) : translate("several inputs")));
  const rows = html("dl", {}, html("dt", {}, translate("value, forward")), html("dd", {}, edge.label));
  rows.append(html("dt", {}, translate("gradient, backward")), html("dd", {}, edge.gradient === "" ? translate("in boxes of its own") : (edge.gradient ?? translate("none came back"))));
  parts.push(rows);
  if (edge.mismatch) parts.push(html("p", { class: "nbg-finding nbg-finding-failed" }, edge.mismatch));
  const op = description.ops[nodeOf(description, edge.target)?.op ?? ""];
  if (op && edge.input) parts.push(...formulas(description, edge.target, op.formulas, edge.input));
  if (edge.reduction) parts.push(...sum(edge));
  return [...parts, ...ends(description, edge, select)];
}

export function markPanel(description: Description, edge: Edge, select: Selection): Node[] {
  return [title(translate("Broadcast reduction")), ...sum(edge), ...ends(description, edge, select)];
}

function sum({ reduction }: Edge): Node[] {
  if (!reduction) return [];
  const parts: Node[] = [html("p", { class: "nbg-sum" }, `Σ ${reduction.text}`)];
  if (reduction.warning) parts.push(html("p", { class: "nbg-finding nbg-finding-warning", role: "alert" }, reduction.warning));
  parts.push(html("p", {}, reduction.words));
  if (reduction.sums.length) parts.push(html("pre", { testid: "sums" }, reduction.sums.join("\n")));
  if (reduction.incoming) parts.push(lookOf(translate("Incoming, before the sum"), reduction.incoming));
  if (reduction.reduced) parts.push(lookOf(translate("Reduced, after the sum"), reduction.reduced));
  return parts;
}

const ends = (description: Description, edge: Edge, select: Selection): Node[] => [
  ...edgeList(translate("From"), description, [edge], "source", select),
  ...edgeList(translate("To"), description, [edge], "target", select),
];

export function reductionsPanel(description: Description, select: Selection): Node[] {
  const items: Node[] = [];
  const add = ({ text, warning }: { text: string; warning: string | null }, where: string, choose: () => void) => {
    const go = html("button", { type: "button" }, html("span", { class: "nbg-sum" }, `${warning ? "⚠ " : ""}Σ ${text}`));
    go.append(html("small", {}, where), html("small", {}, warning ?? ""));
    listen(go, "click", choose);
    items.push(html("li", {}, go));
  };
  const inside = (id: string) => scopePath(description, nodeOf(description, id)?.scope ?? null);
  for (const edge of description.edges)
    if (edge.reduction) add(edge.reduction, [`${name(description, edge.source)} → ${name(description, edge.target)}`, inside(edge.target)].filter(Boolean).join(` ${translate("in")} `), () => select.mark(edge.id));
  for (const one of description.hidden.reductions)
    add(one, `${one.ends}, ${translate(one.many > 1 ? "{many} times inside {name}" : "inside {name}", { many: one.many, name: name(description, one.node) })}`, () => select.node(one.node));
  const none = translate("No gradient in this picture was summed for a broadcast.");
  return [title(translate("Broadcast reductions")), ...(items[0] ? listOf(items) : [html("p", {}, none)])];
}

export function findingsPanel(description: Description, select: Selection): Node[] {
  const { problems, verdicts, checked, outcome } = description;
  const item = ({ kind, text }: { kind: string; text: string }, go: string | null): Node => {
    const said = html(go ? "button" : "div", { class: kind === "sound" ? "nbg-verdict" : `nbg-finding nbg-finding-${kind}` }, text);
    if (go) listen(said, "click", () => select.node(go));
    return html("li", {}, said);
  };
  return [
    title(translate("Findings")), ...listOf(problems.map((one) => item(one, one.node))),
    ...(wrong(description) ? [] : [html("p", {}, outcome ? `${outcome}.` : translate("There are no findings."))]),
    ...listOf(verdicts.map((one) => item(one, one.kind === "sound" ? null : placeOf(description, one.scope))), translate("Gradients by module")),
    ...listOf(checked.map((text) => item({ kind: "sound", text }, null)), translate("Checked")),
  ];
}

export function closeButton(close: () => void): HTMLButtonElement {
  const element = button("×", translate("Close (Escape)"), "close", close);
  element.className = "nbg-close";
  return element;
}

function edgeList(
  heading: string, description: Description, edges: Edge[], end: "source" | "target", select: Selection,
): Node[] {
  return listOf(edges.map((edge) => {
    const go = html("button", { type: "button" });
    go.append(html("b", {}, name(description, edge[end])), html("span", {}, edge.input ? ` ${translate("as {input}", { input: edge.input })}` : ""));
    go.append(html("small", {}, end === "source" ? edge.label : (nodeOf(description, edge.target)?.label.slice(1).join(", ") ?? "")));
    go.append(html("small", { "data-came": edge.id }, edge.gradient === null ? translate("no gradient") : edge.gradient && `∇ ${edge.gradient}`));
    listen(go, "click", () => select.node(edge[end]));
    const item = html("li", {}, go);
    if (edge.reduction) {
      const mark = html("button", { type: "button", class: "nbg-sum" }, `Σ ${edge.reduction.text}`);
      listen(mark, "click", () => select.mark(edge.id));
      item.append(mark);
    }
    return item;
  }), heading);
}

/** A list below its heading; nothing if it is empty. */
const listOf = (items: Node[], heading = ""): Node[] => items[0] ? [...(heading ? [html("h4", {}, heading)] : []), html("ul", { class: "nbg-edges" }, ...items)] : [];

const title = (text: string): HTMLElement => html("h3", {}, text);
const quiet = (text: string): HTMLElement => html("p", { class: "nbg-kind" }, text);
const row = (...buttons: HTMLElement[]): HTMLElement => html("div", { class: "nbg-row" }, ...buttons);
