// Step by step through the backward: a slider over the rules in the order in which they ran.

import type { Description, Step } from "./description";
import { attribute, button, html, listen } from "./dom";
import { message, translate } from "./language";
import { name, nodeOf, stepTitle } from "./model";
import { formulas } from "./panel";

const SPEEDS: [string, number][] = [[message("slow"), 2400], [message("normal"), 1100], [message("fast"), 350]];

export class Player {
  readonly root = html("div", { class: "nbg-player", role: "group", label: translate("Steps"), hidden: "", testid: "player" });
  readonly #slider = html("input", { type: "range", min: 1, value: 1, label: translate("Step"), testid: "step" });
  readonly #words = html("span", { class: "nbg-step-title", "aria-live": "polite" });
  readonly #speed = html("select", { label: translate("Speed") });
  readonly #go: HTMLButtonElement;
  #timer = 0;

  constructor(private steps: Step[], private readonly show: (step: Step | null, at: number) => void) {
    this.#go = button(translate("Play"), translate("Play or pause"), "play", () => this.play(!this.#timer));
    for (const [label, delay] of SPEEDS) this.#speed.append(html("option", { value: delay }, translate(label)));
    this.#speed.value = "1100";
    listen(this.#speed, "change", () => this.#timer && this.play(true));
    listen(this.#slider, "input", () => this.#at(Number(this.#slider.value)));
    this.root.append(
      button("|◀", translate("First step"), "first", () => this.#at(1)),
      button("◀", translate("One step back"), "back", () => this.#move(-1)),
      this.#go,
      button("▶", translate("One step on"), "next", () => this.#move(1)),
      this.#slider, this.#speed, this.#words,
    );
  }

  /** Handle a key that was pressed in the player. Return whether the key has a meaning here. */
  key(event: KeyboardEvent): boolean {
    const by = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.open(false);
    else if (by === undefined || event.target === this.#speed) return false;
    else this.#move(by);
    return true;
  }

  get shown(): boolean {
    return !this.root.hidden;
  }

  /** The step that is shown, from 1; 0 for none. */
  get at(): number {
    return this.shown ? Number(this.#slider.value) : 0;
  }

  replace(steps: Step[]): void {
    this.steps = steps;
    this.#slider.max = String(steps.length);
    if (this.shown) this.#at(1);
  }

  open(shown: boolean, focus = true, at = 1): void {
    this.play(false);
    this.root.hidden = !shown;
    if (!shown) return this.show(null, 0);
    this.#at(Math.min(at, this.steps.length));
    if (focus) this.#slider.focus({ preventScroll: true });
  }

  play(on: boolean): void {
    clearInterval(this.#timer);
    this.#timer = 0;
    this.#go.textContent = on ? translate("Pause") : translate("Play");
    if (!on) return;
    if (Number(this.#slider.value) >= this.steps.length) this.#at(1);
    this.#timer = window.setInterval(() => {
      if (!this.root.isConnected || Number(this.#slider.value) >= this.steps.length) this.play(false);
      else this.#move(1);
    }, Number(this.#speed.value));
  }

  #move(by: number): void {
    this.#at(Math.min(this.steps.length, Math.max(1, Number(this.#slider.value) + by)));
  }

  #at(step: number): void {
    this.#slider.value = String(step);
    const found = this.steps[step - 1];
    const title = stepTitle(this.steps, step);
    this.#words.textContent = title;
    attribute(this.#slider, "aria-valuetext", title);
    if (found) this.show(found, step);
  }
}

/** The events of one step, in their order. */
export function stepPanel(description: Description, step: Step): Node[] {
  const node = nodeOf(description, step.node);
  const op = description.ops[node?.op ?? ""];
  const title = html("p", { class: "nbg-kind" }, stepTitle(description.steps, description.steps.indexOf(step) + 1));
  if (step.rewrite) {
    const told = step.rewrite.details.flatMap(({ term, text }) => [html("dt", {}, term), html("dd", {}, html("pre", {}, text))]);
    return [html("h3", {}, step.title), title, html("dl", {}, ...told)];
  }
  const parts: Node[] = [html("h3", {}, `∇ ${name(description, step.node)}`), title];
  parts.push(html("h4", {}, translate("Incoming gradient")), html("p", {}, step.incoming), html("h4", {}, translate("Local rule")));
  const inputs = new Set(step.given.map((given) => description.edges.find((edge) => edge.id === given.edge)?.input));
  const rules = op ? op.formulas.filter((item) => item.of && inputs.has(item.of)) : [];
  parts.push(...(rules.length ? formulas(description, step.node, rules) : [html("p", {}, node?.kind === "folded" ? translate("Unfold the module to see its rules.") : "")]));
  parts.push(html("h4", {}, translate("Outgoing contributions")));
  const list = html("ul", { class: "nbg-given", testid: "given" });
  for (const given of step.given) {
    const item = html("li", {}, html("span", {}, given.text));
    if (given.reduction) item.append(html("span", { class: "nbg-sum" }, `Σ ${given.reduction}`));
    if (given.sum) item.append(html("small", {}, `⊕ ${given.sum}`));
    list.append(item);
  }
  parts.push(step.given.length ? list : html("p", {}, translate("none")));
  return parts;
}
