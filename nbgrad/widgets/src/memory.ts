// The bytes that live while each op of the forward and of the backward runs, as stacked columns; a slider goes through them.

import type { Description, MemoryTimeline } from "./description";
import { attribute, button, html, listen, svg } from "./dom";
import { translate } from "./language";

const [WIDTH, HEIGHT] = [600, 90];

/** A number of bytes, as nbgrad/core/graph/memory.py writes it. */
function bytes(size: number): string {
  const power = Math.min(3, Math.floor(Math.log2(Math.max(1, size)) / 10));
  return `${Number((size / 1024 ** power).toPrecision(4))} ${["B", "KiB", "MiB", "GiB"][power]}`;
}

const total = (sizes: number[][], at: number): number => sizes.reduce((sum, all) => sum + (all[at] ?? 0), 0);

export class Memory {
  readonly root = html("div", { class: "nbg-player nbg-timeline", role: "group", label: translate("Memory"), hidden: "", testid: "memory-strip" });
  readonly #slider = html("input", { type: "range", min: 0, label: translate("Moment"), testid: "moment" });
  readonly #words = html("span", { class: "nbg-step-title", "aria-live": "polite" });
  readonly #strip = html("div", { class: "nbg-strip" });
  readonly #cursor = svg("line", { class: "nbg-cursor", y1: 0, y2: 100 });
  #memory: MemoryTimeline | null = null;
  #nodes: string[] = [];

  constructor(private readonly choose: (node: string) => void, private readonly closed: () => void) {
    listen(this.#slider, "input", () => this.#at());
    this.root.append(
      html("b", {}, translate("Memory")), button("◀", translate("One op back"), "memory-earlier", () => this.#move(-1)), this.#slider,
      button("▶", translate("One op on"), "memory-later", () => this.#move(1)), button(translate("Peak"), translate("The moment with the most bytes"), "peak", () => this.#peak()),
      button(translate("Go there"), translate("Show the op in the graph"), "memory-go", () => this.choose(this.#nodes[Number(this.#slider.value)] ?? "")), this.#words, this.#strip,
    );
  }

  get shown(): boolean {
    return !this.root.hidden;
  }

  key(event: KeyboardEvent): boolean {
    if (event.key === "Escape") this.open(false);
    return event.key === "Escape";
  }

  open(shown: boolean): void {
    this.root.hidden = !shown;
    if (!shown) return this.closed();
    this.#peak();
    this.#slider.focus({ preventScroll: true });
  }

  /** Show another timeline; at first its peak. */
  replace({ memory, living }: Description): void {
    const same = memory?.ops.length === this.#memory?.ops.length;
    this.#memory = memory;
    this.#nodes = living;
    if (!memory?.ops.length) {
      if (this.shown) this.open(false);
      return;
    }
    this.#slider.max = String(memory.ops.length - 1);
    this.#draw(memory);
    if (same) this.#at();
    else this.#peak();
  }

  #peak(): void {
    this.#slider.value = String(this.#memory?.peak ?? 0);
    this.#at();
  }

  #move(by: number): void {
    this.#slider.value = String(Number(this.#slider.value) + by);
    this.#at();
  }

  #at(): void {
    const at = Number(this.#slider.value);
    if (!this.#memory) return;
    const { ops, parts, sizes, forward, peak } = this.#memory;
    const told = parts.flatMap((part, which) => (sizes[which]![at] ? `${part} ${bytes(sizes[which]![at]!)}` : []));
    const text = `${at === peak ? `${translate("Peak")}: ` : ""}${translate(at < forward ? "{bytes} at {op}" : "{bytes} at the backward of {op}", { bytes: bytes(total(sizes, at)), op: ops[at] })}: ${told.join(", ")}`;
    this.#words.textContent = text;
    attribute(this.#slider, "aria-valuetext", text);
    for (const end of ["x1", "x2"]) attribute(this.#cursor, end, ((at + 0.5) / ops.length) * WIDTH);
  }

  #draw({ ops, parts, sizes, peak, forward }: MemoryTimeline): void {
    const most = Math.max(1, total(sizes, peak));
    const step = WIDTH / ops.length;
    const drawing = svg("svg", { viewBox: `0 -4 ${WIDTH} 104`, preserveAspectRatio: "none", role: "img", label: translate("Living bytes over forward and backward"), testid: "memory-chart", style: `height:${HEIGHT}px` });
    const tops = ops.map(() => 0);
    sizes.forEach((all, which) => {
      const d = all.map((size, at) => {
        const low = 100 - tops[at]!;
        const high = low - (100 * size) / most;
        tops[at] = 100 - high;
        return size ? `M${(at * step).toFixed(1)} ${low.toFixed(1)}V${high.toFixed(1)}h${step.toFixed(2)}V${low.toFixed(1)}z` : "";
      });
      drawing.append(svg("path", { d: d.join(""), class: `nbg-living nbg-living-${which}` }, svg("title", {}, parts[which] ?? "")));
    });
    drawing.append(svg("path", { d: `M${(forward * step).toFixed(1)} -4V100`, class: "nbg-guide" }), svg("path", { d: `M${((peak + 0.5) * step).toFixed(1)} 6l-5 -10h10z`, class: "nbg-peak" }, svg("title", {}, translate("peak"))), this.#cursor);
    const scrub = (event: PointerEvent) => {
      const { left, width } = drawing.getBoundingClientRect();
      this.#slider.value = String(Math.floor(((event.clientX - left) / width) * ops.length));
      this.#at();
    };
    listen(drawing, "pointerdown", scrub);
    listen(drawing, "pointermove", (event) => {
      if (event.buttons & 1) scrub(event);
    });
    const axis = html("div", { class: "nbg-axis", "aria-hidden": "true" }, html("span", {}, bytes(most)), html("span", {}, "0"));
    const key = html("div", { class: "nbg-names nbg-living-key" }, ...parts.map((part, which) => html("div", {}, html("i", { class: `nbg-living-${which}` }), part)).filter((_, which) => sizes[which]?.some(Boolean)));
    const ends = html("div", { class: "nbg-ends", "aria-hidden": "true" }, html("span", {}, translate("forward")), html("span", {}, translate("backward")));
    this.#strip.replaceChildren(html("div", { class: "nbg-chart" }, axis, drawing, key), ends);
  }
}
