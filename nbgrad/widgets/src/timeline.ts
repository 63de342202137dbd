// Every backward that is remembered: a slider through them, the norms of all parameters as curves, two of them compared.

import type { Description, History } from "./description";
import { attribute, button, html, listen, svg } from "./dom";
import { scopePath } from "./model";
import { offer } from "./toolbar";

const [WIDTH, HEIGHT] = [600, 100];

export class Timeline {
  readonly root = html("div", { class: "nbg-player nbg-timeline", role: "group", label: "History", hidden: "", testid: "timeline" });
  readonly #slider = html("input", { type: "range", min: 0, label: "Frame", testid: "frame" });
  readonly #words = html("span", { class: "nbg-step-title", "aria-live": "polite" });
  readonly #other = html("select", { label: "Compare with", title: "Compare with", testid: "compare" });
  readonly #cursor = svg("line", { class: "nbg-cursor", y1: 0, y2: HEIGHT });

  readonly #strip = html("div", { class: "nbg-strip" });
  readonly #chart = html("select", { label: "What the curves show", title: "What the curves show", testid: "chart" });
  #history!: History;

  constructor(private readonly show: (frame: number | null, other: number | null) => void, private readonly choose: (node: string) => void) {
    listen(this.#slider, "input", () => this.#at());
    listen(this.#other, "change", () => this.#at());
    listen(this.#chart, "change", () => this.#draw());
    this.root.append(
      html("b", {}, "History"), button("◀", "One frame back", "earlier", () => this.#move(-1)), this.#slider,
      button("▶", "One frame on", "later", () => this.#move(1)), this.#other, this.#words, this.#strip,
    );
  }

  /** Another history, or the same with more in it or of another drawing: the last frame stays the last, any other is the one it was. */
  replace(history: History): void {
    const { frames } = history;
    const before = this.earlier ? this.#words.textContent : "";
    const at = frames.findIndex((frame) => frame.title === before);
    this.#history = history;
    this.#slider.max = String(frames.length - 1);
    this.#slider.value = at < 0 ? this.#slider.max : String(at);
    offer(this.#other, [["", "compare with …"], ...frames.map((frame, at) => [at, frame.title] as const)]);
    const chosen = this.#chart.value || "0";
    offer(this.#chart, history.charts.map(({ title }, at) => [at, title] as const));
    this.#chart.value = chosen in history.charts ? chosen : "0";
    this.#draw();
    if (!frames.length && this.shown) this.open(false);
    else if (this.shown) this.#at();
  }

  /** A key that was pressed in here; whether it meant something that the browser does not know. */
  key(event: KeyboardEvent): boolean {
    if (event.key === "Escape") this.open(false);
    return event.key === "Escape";
  }

  get shown(): boolean {
    return !this.root.hidden;
  }

  /** Whether another frame than the last is shown. */
  get earlier(): boolean {
    return this.shown && this.#slider.value !== this.#slider.max;
  }

  open(shown: boolean): void {
    this.root.hidden = !shown;
    if (!shown) return this.show(null, null);
    this.#slider.value = this.#slider.max;
    this.#at();
    this.#slider.focus();
  }

  #move(by: number): void {
    this.#slider.value = String(Number(this.#slider.value) + by);
    this.#at();
  }

  #at(): void {
    const frame = Number(this.#slider.value);
    const { frames } = this.#history;
    const title = frames[frame]?.title ?? "";
    this.#words.textContent = title;
    attribute(this.#slider, "aria-valuetext", title);
    const x = (frame / Math.max(1, frames.length - 1)) * WIDTH;
    attribute(this.#cursor, "x1", x);
    attribute(this.#cursor, "x2", x);
    this.show(frame, this.#other.value === "" ? null : Number(this.#other.value));
  }

  #draw(): void {
    const { charts, frames } = this.#history;
    const chart = charts[Number(this.#chart.value)];
    if (!chart) return;
    const drawing = svg("svg", { viewBox: `0 -4 ${WIDTH} ${HEIGHT + 8}`, preserveAspectRatio: "none", role: "img", label: `${chart.title} over all frames`, testid: "curves" });
    const step = WIDTH / Math.max(1, frames.length - 1);
    if (chart.guide !== null) drawing.append(svg("path", { d: `M0 ${HEIGHT - chart.guide}H${WIDTH}`, class: "nbg-guide" }));
    chart.curves.forEach((curve, at) => {
      let pen = "M";
      const d = curve.heights.map((height, frame) => {
        if (height === null) return (pen = "M"), "";
        const part = `${pen}${(frame * step).toFixed(1)} ${HEIGHT - height}`;
        pen = "L";
        return `${part}h0`; // a point between two gaps is seen too
      });
      const line = svg("path", { d: d.join(""), class: `nbg-curve nbg-curve-${at % 6}` }, svg("title", {}, `${curve.label}: ${curve.text}`));
      listen(line, "click", () => this.choose(curve.node));
      drawing.append(line);
    });
    drawing.append(this.#cursor);
    this.#strip.replaceChildren(drawing, this.#chart, html("small", {}, chart.text));
  }
}

/** What differs between two frames. */
export function differencePanel(description: Description, a: number, b: number): Node[] {
  const { frames, differences } = description.history;
  const [from, to] = [frames[a], frames[b]];
  const parts: Node[] = [html("h3", {}, "Difference"), html("p", { class: "nbg-kind" }, `${from?.title ?? ""} → ${to?.title ?? ""}`)];
  const found = differences.find((one) => one.before === from?.structure && one.after === to?.structure);
  const same = from?.structure === to?.structure ? "Both ran the same ops on the same shapes." : "They ran different ops.";
  parts.push(html("p", {}, same));
  if (found) parts.push(html("pre", {}, found.lines.join("\n")));
  const body = html("tbody");
  const names = description.nodes.map((node) => node.label[0] ?? "");
  const add = (name: string, { norms }: { norms: string[] }) => {
    const [was, now] = [norms[a], norms[b]];
    if (!was && !now) return;
    const sign = was === now ? "=" : Number(now) > Number(was) ? "▲" : Number(now) < Number(was) ? "▼" : "≠"; // of nan and none
    body.append(html("tr", {}, ...[name, was || "none", sign, now || "none"].map((text) => html("td", {}, text))));
  };
  description.nodes.forEach((node, at) => {
    const where = names.indexOf(names[at]!) === names.lastIndexOf(names[at]!) ? "" : scopePath(description, node.scope);
    add(`${where && `${where} › `}${names[at]}`, node);
  });
  for (const one of description.hidden.nodes) add(one.label, one);
  parts.push(html("h4", {}, "Gradient norms"), html("table", { class: "nbg-heat nbg-norms", testid: "norms" }, body));
  return parts;
}
