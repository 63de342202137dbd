// What if a number were another: the controls in the panel of a leaf or an input, and the numbers of that run in the picture.

import type { Node as GraphNode, Supposed } from "./description";
import { attribute, button, flag, html, listen } from "./dom";
import { broken, spoken } from "./draw";
import { message, translate } from "./language";
import { name, original } from "./model";
import type { Scene } from "./scene";
import { lookOf } from "./tensor_plot";
import { word } from "./toolbar";
import { write } from "./write";

/** The question: the changed numbers of one node, and those of all other changed nodes. */
export interface Supposition {
  node: string;
  place: number;
  changes: Record<string, Record<string, number>>; // by node, and by the place of a number in it
  nudge: boolean;
}

/** Who runs the graph again: a kernel, or the program in the page. */
export type Runner = (asked: Supposition) => void;

const RECORDED = message("The boxes, the edges and the panel show this run. Steps, sums, history, findings, colours and heat maps show the recorded numbers. The run takes the recorded branch of each if, and the recorded indices and detached values.");

export class WhatIf {
  readonly banner = html("div", { class: "nbg-status nbg-supposed", role: "region", label: translate("Other numbers"), testid: "what-if-banner", hidden: "" });
  readonly #said = html("span");
  readonly #slot = html("section", { class: "nbg-what-if", label: translate("What if"), testid: "what-if", hidden: "" });
  readonly #result = html("p", { "aria-live": "polite", testid: "what-if-result" });
  readonly #nudged = html("p", { "aria-live": "polite", testid: "nudge-result" });
  #changes: Supposition["changes"] = {};
  #node = "";
  #place = 0;
  #busy = false;
  #next = false; // something was changed since the last question
  #nudge = false;
  #last: Supposed | null = null;
  #fields: { slider: HTMLInputElement; number: HTMLInputElement; grid: HTMLInputElement[]; spot: HTMLInputElement | null; of: string } | null = null;

  constructor(private readonly run: Runner, private readonly scene: () => Scene, private readonly panel: HTMLElement) {
    this.banner.append(this.#said, button(translate("Reset"), translate("Show the recorded numbers again"), "what-if-reset", () => this.reset()));
  }

  /** The place for the controls in the panel of a node, which are made when it is known what can be changed. */
  offer({ id, kind }: GraphNode): HTMLElement[] {
    this.#node = original(this.scene().description, id);
    this.#place = 0;
    this.#fields = this.#recorded = null;
    this.#edges.clear();
    this.#slot.hidden = true;
    this.#result.textContent = this.#nudged.textContent = "";
    const changed = Object.keys(this.#changes).length > 0;
    if (kind === "folded" || kind === "failed" || (kind === "op" && !changed)) return [];
    this.#ask();
    return [this.#slot];
  }

  answer(told: Supposed): void {
    this.#busy = false;
    const mine = told.node === this.#node;
    if (mine && !this.#next) this.#control(told);
    if (this.#changed && !told.said) {
      this.#last = told;
      this.paint();
      this.#banner(told);
      if (mine) this.#looks(told);
    }
    if (this.#next) this.#ask();
  }

  /** Write the numbers of the run into the boxes, or the recorded ones if there is no run. Called again after each drawing. */
  paint(): void {
    const scene = this.scene();
    const { description, drawing } = scene;
    const texts = this.#last?.texts;
    for (const node of description.nodes) {
      const element = drawing.nodes.get(node.id);
      const told = texts?.[original(description, node.id)];
      if (!element || (texts && !told && node.kind !== "folded")) continue;
      const [first = 0, end = 0] = node.numbers;
      const label = [...node.label];
      if (told?.[0]) fitted(told[0], end - first).forEach((line, at) => (label[first + at] = line));
      const stale = node.kind === "folded" && texts && node.rule ? `${node.rule}, recorded` : node.rule;
      const rule = told?.[1] && node.rule ? told[1] + (node.id in description.copies ? " in all" : "") : stale;
      write(element, scene.picture.layout.nodes[node.id], label, fitted(rule ?? "", element.querySelectorAll(".nbg-rule").length));
      attribute(element, "aria-label", spoken({ ...node, label, rule }));
    }
    flag(this.banner.closest(".nbgrad"), "supposing", !!texts);
  }

  /** Whether the boxes show another run. */
  get on(): boolean {
    return !!this.#last;
  }

  /** Back to the recorded numbers. */
  reset(): void {
    if (!this.#changed) return;
    this.#changes = {};
    this.#last = null;
    this.#next = false;
    this.#open(false);
    this.paint();
    this.panel.querySelector(".nbg-looks")?.replaceWith(...(this.#recorded ? [this.#recorded] : []));
    this.#recorded = null;
    this.#result.textContent = this.#nudged.textContent = "";
    for (const [one, gradient] of this.#edges) one.textContent = gradient;
    this.#edges.clear();
    if (this.#node) this.#ask();
  }

  /** The picture shows another graph: forget all changes and answers. */
  forget(): void {
    this.#changes = {};
    this.#last = this.#recorded = null;
    this.#next = this.#busy = false;
    this.#node = "";
    this.#edges.clear();
    this.#open(false);
  }

  #open(shown: boolean): void {
    this.banner.hidden = !shown;
  }

  get #changed(): boolean {
    return Object.keys(this.#changes).length > 0;
  }

  #recorded: Element | null = null; // what the panel says of the recording
  readonly #edges = new Map<Element, string>();

  /** Ask one question at a time. If numbers change meanwhile, ask again with the newest ones when the answer has come. */
  #ask(): void {
    if (this.#busy) return void (this.#next = true);
    this.#busy = true;
    this.#next = false;
    const nudge = this.#nudge;
    this.#nudge = false;
    this.run({ node: this.#node, place: this.#place, changes: this.#changes, nudge });
  }

  #change(place: number, text: string): void {
    const value = Number(text);
    if (text.trim() === "" || Number.isNaN(value)) return;
    (this.#changes[this.#node] ??= {})[place] = value;
    this.#place = place;
    this.#nudged.textContent = "";
    this.#ask();
  }

  #control(told: Supposed): void {
    this.#slot.hidden = !told.said && told.shape === null;
    if (told.said) this.#result.textContent = told.said;
    else if (told.result && !this.#next) this.#result.textContent = told.result;
    if (told.nudge) this.#nudged.textContent = told.nudge;
    if (told.shape === null) return this.#slot.replaceChildren(html("h4", {}, translate("What if")), this.#result);
    this.#place = told.place;
    const of = `${told.node} ${told.grid.length}`;
    if (this.#fields?.of !== of) this.#build(told, of);
    const { slider, number, grid, spot } = this.#fields!;
    const called = `${name(this.scene().description, told.node)}${place(told.shape, told.place)}`;
    if (slider.dataset["at"] !== String(told.place)) {
      const [was, far] = [Number(told.was), Math.max(told.whole ? 10 : 1, 2 * Math.abs(Number(told.was)))];
      const ends = [was - far, was + far].map((end) => (told.whole ? Math.round(end) : Number(end.toPrecision(2))));
      attribute(slider, "min", ends[0]!);
      attribute(slider, "max", ends[1]!);
      slider.dataset["at"] = String(told.place);
      this.#slot.querySelectorAll(".nbg-range span").forEach((one, at) => (one.textContent = String(ends[at])));
    }
    attribute(slider, "aria-label", called);
    attribute(number, "aria-label", `${called}, ${translate("exactly")}`);
    attribute(slider, "aria-valuetext", told.number);
    // The digits that tell a number from its neighbours say nothing to a reader who has not typed them.
    const shown = (text: string, at: number) => (told.whole || this.#changes[told.node]?.[at] !== undefined ? text : String(short(Number(text))));
    for (const field of [slider, number]) set(field, shown(told.number, told.place));
    grid.forEach((field, at) => set(field, shown(told.grid[at] ?? "", at)));
    grid.forEach((field, at) => flag(field, "here", at === told.place));
    if (spot) set(spot, String(told.place));
    this.#slot.querySelector("output")!.textContent = translate("{called} was {was}", { called, was: told.whole ? told.was : short(Number(told.was)) });
  }

  #build(told: Supposed, of: string): void {
    const shape = told.shape!;
    const step = told.whole ? "1" : "any";
    const called = name(this.scene().description, told.node);
    const slider = html("input", { type: "range", step, testid: "what-if-slider" });
    const number = html("input", { type: "number", step, testid: "what-if-number" });
    for (const [field, other] of [[slider, number], [number, slider]] as const)
      listen(field, "input", () => {
        other.value = field === slider ? String(short(Number(field.value))) : field.value;
        this.#change(this.#place, number.value);
      });
    const grid = told.grid.length > 1 ? told.grid.map((_, at) => {
      const field = html("input", { type: "number", step, label: `${called}${place(shape, at)}`, testid: "what-if-cell" });
      listen(field, "input", () => this.#change(at, field.value));
      listen(field, "focus", () => this.#at(at));
      return field;
    }) : [];
    const spot = told.grid.length ? null : html("input", { type: "number", min: 0, max: shape.reduce((all, one) => all * one, 1) - 1, step: 1, testid: "what-if-place" });
    if (spot) listen(spot, "change", () => this.#at(Number(spot.value) || 0));
    this.#fields = { slider, number, grid, spot, of };
    const parts: Node[] = [html("h4", {}, translate("What if"))];
    if (grid.length) parts.push(html("div", { class: "nbg-grid", style: `--nbg-columns:${Math.min(5, shape[shape.length - 1] ?? 1)}` }, ...grid));
    if (spot) parts.push(html("label", {}, `${translate("number in row order")} `, spot));
    parts.push(slider, html("div", { class: "nbg-range", "aria-hidden": "true" }, html("span"), html("span")), html("div", { class: "nbg-row" }, number, html("output")), html("div", { class: "nbg-row" },
      button(translate("Nudge"), translate("Central difference: the slope from x - h to x + h, beside the gradient"), "nudge", () => {
        this.#nudge = true;
        this.#ask();
      }),
      button(translate("Reset"), translate("Show the recorded numbers again"), "reset", () => this.reset()),
    ), this.#result, this.#nudged);
    this.#slot.replaceChildren(...parts);
  }

  /** Another number of the same tensor comes under the slider. */
  #at(place: number): void {
    if (place === this.#place) return;
    this.#place = place;
    this.#nudged.textContent = "";
    this.#ask();
  }

  #banner({ notes, result }: Supposed): void {
    const { description } = this.scene();
    const all = Object.entries(this.#changes);
    const [id = "", some = {}] = all[0] ?? [];
    const [at = "0", value] = Object.entries(some)[0] ?? [];
    const more = all.reduce((sum, [, one]) => sum + Object.keys(one).length, -1);
    const what = `${name(description, id)}${this.#last?.node === id && this.#last.shape ? place(this.#last.shape, Number(at)) : ""} = ${short(value ?? 0)}${more ? ` ${translate("and {more} more", { more })}` : ""}. `;
    const told = [...(result ? [`${result}.`] : []), ...notes].join(" ");
    this.#said.replaceChildren(html("b", {}, word(`${translate("What if")}: `), what), told);
    this.banner.title = `${translate("What if")}: ${what}${told} ${translate(RECORDED)}`;
    this.#open(true);
  }

  /** The numbers of the node in the panel, and what came back along its edges. */
  #looks({ value, gradient, edges }: Supposed): void {
    const old = this.panel.querySelector(".nbg-looks");
    if (!old || !value) return;
    if (!old.matches(".nbg-supposed")) this.#recorded = old;
    old.replaceWith(html("div", { class: "nbg-looks nbg-supposed" }, lookOf(translate("Value"), value), ...(gradient ? [lookOf(translate("Gradient"), gradient)] : [])));
    for (const one of this.panel.querySelectorAll<HTMLElement>("[data-came]")) {
      const told = edges[one.dataset["came"]!];
      if (told === undefined) continue;
      if (!this.#edges.has(one)) this.#edges.set(one, one.textContent ?? "");
      one.textContent = `∇ ${told}`;
    }
  }
}

/** A number in as many digits as a reader compares. */
const short = (value: number): number => Number(value.toPrecision(5));

/** The text in at most that many `lines`: the last line holds the rest. */
function fitted(text: string, lines: number): string[] {
  const all = broken(text);
  return Array.from({ length: lines }, (_, at) => (at < lines - 1 ? all[at] : all.slice(at).join(" ")) ?? "");
}

/** The place of a number in a tensor of this shape, such as "[0, 2]"; empty for a tensor without dimensions. */
function place(shape: number[], at: number): string {
  const found: number[] = [];
  for (const length of [...shape].reverse()) {
    found.unshift(at % length);
    at = Math.floor(at / length);
  }
  return found.length ? `[${found.join(", ")}]` : "";
}

/** Write into a field, unless the reader is typing there. */
function set(field: HTMLInputElement, text: string): void {
  if (document.activeElement === field && field.type === "number") return;
  if (field.value !== text) field.value = text;
}
