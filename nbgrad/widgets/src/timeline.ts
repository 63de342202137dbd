// Every backward that is remembered: a slider through them, the norms of all parameters as curves, two of them compared.

import type { Description, History } from "./description";
import { button, html, svg } from "./dom";

const [WIDTH, HEIGHT] = [600, 70];

export class Timeline {
  readonly root = html("div", { class: "nbg-player nbg-timeline", role: "group", "aria-label": "History", hidden: "", "data-testid": "nbgrad-timeline" });
  readonly #slider = html("input", { type: "range", min: 0, "aria-label": "Frame", "data-testid": "nbgrad-frame" });
  readonly #words = html("span", { class: "nbg-step-title", "aria-live": "polite" });
  readonly #other = html("select", { "aria-label": "Compare with", title: "Compare with", "data-testid": "nbgrad-compare" });
  readonly #cursor = svg("line", { class: "nbg-cursor", y1: 0, y2: HEIGHT });

  constructor(private readonly history: History, private readonly show: (frame: number | null, other: number | null) => void, choose: (node: string) => void) {
    const { frames } = history;
    this.#slider.max = String(frames.length - 1);
    this.#other.append(html("option", { value: "" }, "compare with …"));
    frames.forEach((frame, at) => this.#other.append(html("option", { value: at }, frame.title)));
    this.#slider.addEventListener("input", () => this.#at());
    this.#other.addEventListener("change", () => this.#at());
    this.root.append(
      html("b", {}, "History"), button("◀", "One frame back", "earlier", () => this.#move(-1)), this.#slider,
      button("▶", "One frame on", "later", () => this.#move(1)), this.#other, this.#words,
      html("div", { class: "nbg-strip" }, this.#curves(choose), html("small", {}, `gradient norms of the parameters, from ${history.low} to ${history.high} (log)`)),
    );
  }

  /** A key that was pressed in here; whether it meant something that the browser does not know. */
  key(event: KeyboardEvent): boolean {
    if (event.key === "Escape") this.open(false);
    return event.key === "Escape";
  }

  get shown(): boolean {
    return !this.root.hidden;
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
    const { frames } = this.history;
    const title = frames[frame]?.title ?? "";
    this.#words.textContent = title;
    this.#slider.setAttribute("aria-valuetext", title);
    const x = (frame / Math.max(1, frames.length - 1)) * WIDTH;
    this.#cursor.setAttribute("x1", String(x));
    this.#cursor.setAttribute("x2", String(x));
    this.show(frame, this.#other.value === "" ? null : Number(this.#other.value));
  }

  #curves(choose: (node: string) => void): SVGSVGElement {
    const drawing = svg("svg", { viewBox: `0 -3 ${WIDTH} ${HEIGHT + 6}`, preserveAspectRatio: "none", role: "img", "aria-label": "gradient norms over all frames", "data-testid": "nbgrad-curves" });
    const step = WIDTH / Math.max(1, this.history.frames.length - 1);
    this.history.curves.forEach((curve, at) => {
      let pen = "M";
      const d = curve.heights.map((height, frame) => {
        if (height === null) return (pen = "M"), "";
        const part = `${pen}${(frame * step).toFixed(1)} ${(HEIGHT * (1 - height)).toFixed(1)}`;
        pen = "L";
        return part;
      });
      const line = svg("path", { d: d.join(""), class: `nbg-curve nbg-curve-${at % 6}` }, svg("title", {}, `${curve.label}: ${curve.text}`));
      line.addEventListener("click", () => choose(curve.node));
      drawing.append(line);
    });
    drawing.append(this.#cursor);
    return drawing;
  }
}

/** What differs between two frames. */
export function differencePanel(description: Description, a: number, b: number): Node[] {
  const { frames, differences } = description.history;
  const [from, to] = [frames[a], frames[b]];
  const parts: Node[] = [html("h3", {}, "Difference"), html("p", { class: "nbg-kind" }, `${from?.title ?? ""} → ${to?.title ?? ""}`)];
  const found = differences.find((one) => one.before === from?.structure && one.after === to?.structure);
  const same = from?.structure === to?.structure ? "Both ran through the same ops on the same shapes." : "They ran through different ops.";
  parts.push(html("p", {}, same));
  if (found) parts.push(html("pre", {}, found.lines.join("\n")));
  const body = html("tbody");
  for (const node of description.nodes) {
    const [was, now] = [node.norms[a], node.norms[b]];
    if (!was && !now) continue;
    const [low, high] = [node.past.charCodeAt(a), node.past.charCodeAt(b)];
    const sign = was === now ? "=" : high > low ? "▲" : high < low ? "▼" : "≈";
    body.append(html("tr", {}, html("td", {}, node.label[0] ?? ""), html("td", {}, was || "none"), html("td", {}, sign), html("td", {}, now || "none")));
  }
  parts.push(html("h4", {}, "Gradient norms"), html("div", { class: "nbg-scroll", tabindex: 0 }, html("table", { class: "nbg-heat nbg-norms", "data-testid": "nbgrad-norms" }, body)));
  return parts;
}
