// Every backward that is remembered: a slider through them, the gradient norms of parameters as curves, and a comparison of two backwards.

import type { Chart, Description, History } from "./description";
import { attribute, button, html, listen, svg } from "./dom";
import { translate } from "./language";
import { scopePath } from "./model";
import { offer } from "./toolbar";

const [WIDTH, HEIGHT, NAME] = [600, 58, 11]; // the last: how high the name of a curve is

export class Timeline {
  readonly root = html("div", { class: "nbg-player nbg-timeline", role: "group", label: translate("History"), hidden: "", testid: "timeline" });
  readonly #slider = html("input", { type: "range", min: 0, label: translate("Frame"), testid: "frame" });
  readonly #words = html("span", { class: "nbg-step-title", "aria-live": "polite" });
  readonly #other = html("select", { label: translate("Compare with"), title: translate("Compare with"), testid: "compare" });
  readonly #cursors: SVGLineElement[] = [];

  readonly #strip = html("div", { class: "nbg-strip nbg-charts" });
  readonly #chart = html("select", { label: translate("Content of the curves"), title: translate("Content of the curves"), testid: "chart" });
  #history!: History;

  constructor(private readonly show: (frame: number | null, other: number | null) => void, private readonly choose: (node: string) => void) {
    listen(this.#slider, "input", () => this.#at());
    listen(this.#other, "change", () => this.#at());
    listen(this.#chart, "change", () => this.#draw());
    this.root.append(
      html("b", {}, translate("History")), button("◀", translate("One frame back"), "earlier", () => this.#move(-1)), this.#slider,
      button("▶", translate("One frame on"), "later", () => this.#move(1)), this.#other, this.#chart, this.#words, this.#strip,
    );
  }

  /** Show another history, or the same one with more frames or for another drawing. If the last frame was chosen, choose the last one again; else keep the chosen frame. */
  replace(history: History): void {
    const { frames } = history;
    const before = this.earlier ? this.#words.textContent : "";
    const at = frames.findIndex((frame) => frame.title === before);
    this.#history = history;
    this.#slider.max = String(frames.length - 1);
    this.#slider.value = at < 0 ? this.#slider.max : String(at);
    offer(this.#other, [["", translate("compare with …")], ...frames.map((frame, at) => [at, frame.title] as const)]);
    const chosen = this.#chart.value || "0";
    offer(this.#chart, history.charts.map(({ title }, at) => [at, title] as const));
    this.#chart.value = chosen in history.charts ? chosen : "0";
    this.#draw();
    if (!frames.length && this.shown) this.open(false);
    else if (this.shown) this.#at();
  }

  /** Handle Escape, if it was pressed in here; the browser handles the other keys. Return whether it was Escape. */
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
    this.#slider.focus({ preventScroll: true });
  }

  #move(by: number): void {
    this.#slider.value = String(Number(this.#slider.value) + by);
    this.#at();
  }

  /** Where a frame stands in the charts: by the number of its backward, for not every one is remembered. */
  #x(frame: number): number {
    const { frames } = this.#history;
    return this.#place(frames[frame]?.number ?? frames[0]?.number ?? 0);
  }

  /** Where a backward stands. The last one may come after the last frame. */
  #place(backward: number): number {
    const { frames, loss } = this.#history;
    const ends = [frames[0], frames[frames.length - 1]].map((frame) => frame?.number ?? 0) as [number, number];
    const last = Math.max(ends[1], ...(loss?.numbers ?? []));
    return ((backward - ends[0]) / Math.max(1, last - ends[0])) * WIDTH;
  }

  #at(): void {
    const frame = Number(this.#slider.value);
    const title = this.#history.frames[frame]?.title ?? "";
    this.#words.textContent = title;
    attribute(this.#slider, "aria-valuetext", title);
    this.#mark();
    this.show(frame, this.#other.value === "" ? null : Number(this.#other.value));
  }

  #mark(): void {
    const x = this.#x(Number(this.#slider.value));
    for (const cursor of this.#cursors) for (const end of ["x1", "x2"]) attribute(cursor, end, x);
  }

  #draw(): void {
    const { charts, loss } = this.#history;
    const chart = charts[Number(this.#chart.value)];
    if (!chart) return;
    this.#cursors.length = 0;
    this.#strip.replaceChildren(...(loss ? [this.#curves(loss, "loss")] : []), this.#curves(chart, "curves"));
    this.#mark();
  }

  /** One chart. The two ends of its scale are written at its left side. The names of curves stand where these end, as many as there is room for. */
  #curves(chart: Chart, testid: string): HTMLElement {
    const drawing = svg("svg", { viewBox: `0 -4 ${WIDTH} 108`, preserveAspectRatio: "none", role: "img", label: translate("{title} over all frames", { title: chart.title }), testid });
    if (chart.guide !== null) drawing.append(svg("path", { d: `M0 ${100 - chart.guide}H${WIDTH}`, class: "nbg-guide" }));
    const names = html("div", { class: "nbg-names", "aria-hidden": "true" });
    const ends: [number, HTMLElement][] = [];
    chart.curves.forEach((curve, at) => {
      const look = at || testid !== "loss" ? `nbg-curve-${at % 6}` : "nbg-curve-loss";
      let pen = "M";
      const d = curve.heights.map((height, frame) => {
        if (height === null) return (pen = "M"), "";
        const x = chart.numbers.length ? this.#place(chart.numbers[frame] ?? 0) : this.#x(frame);
        const part = `${pen}${x.toFixed(1)} ${100 - height}`;
        pen = "L";
        return `${part}h0`; // a point between two gaps is seen too
      });
      const line = svg("path", { d: d.join(""), class: `nbg-curve ${look}` }, svg("title", {}, `${curve.label}: ${curve.text}`));
      if (curve.node) listen(line, "click", () => this.choose(curve.node));
      drawing.append(line);
      const end = [...curve.heights].reverse().find((one) => one !== null);
      if (end !== undefined && end !== null) ends.push([((104 - end) / 108) * HEIGHT, html("span", { class: look, title: curve.label }, curve.label.split(/: | > /).slice(-2).join(" › "))]);
    });
    // Each name stands beside its end, or as little above or below as the others let it.
    const many = Math.floor(HEIGHT / NAME);
    const shown = ends.sort((a, b) => a[0] - b[0]).filter((_, at) => ends.length <= many || Math.floor((at * many) / ends.length) > Math.floor(((at - 1) * many) / ends.length));
    let free = 0;
    shown.forEach(([top, name], at) => {
      const place = Math.max(free, Math.min(top - NAME / 2, HEIGHT - NAME * (shown.length - at)));
      free = place + NAME;
      name.style.top = `${place}px`;
      names.append(name);
    });
    const cursor = svg("line", { class: "nbg-cursor", y1: 0, y2: 100 });
    this.#cursors.push(cursor);
    drawing.append(cursor);
    const scrub = (event: PointerEvent) => {
      if (!(event.buttons & 1)) return;
      const { left, width } = drawing.getBoundingClientRect();
      const x = ((event.clientX - left) / width) * WIDTH;
      const { frames } = this.#history;
      this.#slider.value = String(frames.reduce((best, _, at) => (Math.abs(this.#x(at) - x) < Math.abs(this.#x(best) - x) ? at : best), 0));
      this.#at();
    };
    drawing.addEventListener("pointerdown", scrub);
    drawing.addEventListener("pointermove", (event) => {
      if (event.buttons & 1) drawing.setPointerCapture(event.pointerId); // only during a drag: a click on a curve has to choose the curve
      scrub(event);
    });
    const axis = html("div", { class: "nbg-axis", "aria-hidden": "true" }, html("span", {}, chart.high), html("b", {}, chart.title), html("span", {}, chart.low));
    return html("div", { class: "nbg-chart", title: chart.text }, axis, drawing, names);
  }
}

/** The differences between two frames. */
export function differencePanel(description: Description, a: number, b: number): Node[] {
  const { frames, differences } = description.history;
  const [from, to] = [frames[a], frames[b]];
  const parts: Node[] = [html("h3", {}, translate("Difference")), html("p", { class: "nbg-kind" }, `${from?.title ?? ""} → ${to?.title ?? ""}`)];
  const found = differences.find((one) => one.before === from?.structure && one.after === to?.structure);
  const same = from?.structure === to?.structure ? translate("Both ran the same ops on the same shapes.") : translate("They ran different ops.");
  parts.push(html("p", {}, same));
  if (found) parts.push(html("pre", {}, found.lines.join("\n")));
  const body = html("tbody");
  const names = description.nodes.map((node) => node.label[0] ?? "");
  const add = (name: string, { norms }: { norms: string[] }) => {
    const [was, now] = [norms[a], norms[b]];
    if (!was && !now) return;
    const sign = was === now ? "=" : Number(now) > Number(was) ? "▲" : Number(now) < Number(was) ? "▼" : "≠"; // of nan and none
    body.append(html("tr", {}, ...[name, was || translate("none"), sign, now || translate("none")].map((text) => html("td", {}, text))));
  };
  description.nodes.forEach((node, at) => {
    const where = names.indexOf(names[at]!) === names.lastIndexOf(names[at]!) ? "" : scopePath(description, node.scope);
    add(`${where && `${where} › `}${names[at]}`, node);
  });
  for (const one of description.hidden.nodes) add(one.label, one);
  parts.push(html("h4", {}, translate("Gradient norms")), html("table", { class: "nbg-heat nbg-norms", testid: "norms" }, body));
  return parts;
}
