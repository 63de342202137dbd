// The live view of one picture: pan and zoom, selection, keyboard, panel.

import { select } from "d3-selection";
import { type ZoomBehavior, type ZoomTransform, zoom, zoomIdentity, zoomTransform } from "d3-zoom";
import type { Box, Picture } from "./description";
import { button, html, svg } from "./dom";
import { type Drawing, draw } from "./draw";
import { closeButton, markPanel, nodePanel, original, reductionsPanel, type Selection } from "./panel";

const READABLE = 0.45; // below this scale a label is no text any more

export class View implements Selection {
  readonly root = html("div", { class: "nbgrad", "data-testid": "nbgrad-view", role: "group" });
  private readonly stage = svg("svg", { class: "nbg-stage", role: "group", tabindex: -1 });
  private readonly panel = html("aside", { class: "nbg-panel", "data-testid": "nbgrad-details", hidden: "" });
  private readonly zoom: ZoomBehavior<SVGSVGElement, unknown>;
  private readonly order: [string, SVGGElement, Box][] = []; // what the keyboard walks: nodes and marks, row by row
  private readonly drawing: Drawing;
  private readonly watcher: ResizeObserver;
  private chosen: SVGGElement | null = null;
  private width = 0; // of the stage when it was last looked at; 0 before it is in the page

  constructor(private readonly picture: Picture) {
    const { description, layout } = picture;
    this.drawing = draw(picture);
    this.root.setAttribute("aria-label", `${description.name}: ${description.summary}`);
    this.stage.append(this.drawing.layer);
    this.root.append(this.header(), html("div", { class: "nbg-body" }, this.stage, this.panel), this.legend());
    this.root.style.setProperty("--nbg-height", `${Math.min(620, Math.max(300, layout.height + 40))}px`);
    this.zoom = zoom<SVGSVGElement, unknown>()
      .scaleExtent([0.02, 4])
      // A wheel over a view that nobody has clicked scrolls the notebook.
      .filter((event: Event) => this.wants(event))
      .on("zoom", ({ transform }: { transform: ZoomTransform }) =>
        this.drawing.layer.setAttribute("transform", transform.toString()),
      );
    select(this.stage).call(this.zoom).on("dblclick.zoom", null);
    this.listen();
    this.watcher = new ResizeObserver(() => (this.width ? this.keepCentre() : this.firstLook()));
    this.watcher.observe(this.stage);
  }

  remove(): void {
    this.watcher.disconnect();
    select(this.stage).on(".zoom", null);
    this.root.remove();
  }

  node(id: string): void {
    const element = this.drawing.nodes.get(id);
    const node = this.picture.description.nodes.find((other) => other.id === id);
    if (element && node) this.choose(element, nodePanel(this.picture.description, node, this));
  }

  mark(id: string): void {
    const element = this.drawing.marks.get(id);
    const edge = this.picture.description.edges.find((other) => other.id === id);
    if (element && edge) this.choose(element, markPanel(this.picture.description, edge, this));
  }

  // --- the frame ------------------------------------------------------------------------------------------------

  private header(): HTMLElement {
    const { description, layout } = this.picture;
    const words = html("div", { class: "nbg-words" }, html("strong", {}, description.name));
    words.append(html("span", {}, description.summary));
    for (const note of description.notes) words.append(html("span", { class: "nbg-note", role: "note" }, note));
    const tools = html("div", { class: "nbg-tools", role: "toolbar", "aria-label": "View" });
    const count = Object.keys(layout.marks).length;
    tools.append(
      button(`Broadcast reductions (${count})`, "List the broadcast reductions", "nbgrad-reductions", () => {
        this.close();
        this.open(reductionsPanel(description, this));
      }),
      button("−", "Zoom out", "nbgrad-zoom-out", () => this.scale(1 / 1.4)),
      button("+", "Zoom in", "nbgrad-zoom-in", () => this.scale(1.4)),
      button("Fit", "Fit the whole graph", "nbgrad-fit", () => this.fit()),
    );
    return html("header", { class: "nbg-header" }, words, tools);
  }

  private legend(): HTMLElement {
    const legend = html("footer", { class: "nbg-legend" });
    const { nodes, edges } = this.picture.description;
    const has = (kind: string) => nodes.some((node) => node.kind === kind && !node.root);
    const entries: [boolean, string, string][] = [
      [has("op"), "op", "operation"],
      [has("parameter"), "parameter", "parameter"],
      [has("leaf"), "leaf", "leaf: needs a gradient"],
      [has("constant"), "constant", "constant"],
      [has("outside"), "outside", "made before this graph"],
      [has("folded"), "folded", "folded module"],
      [nodes.some((node) => node.root), "root", "▲ backward starts here"],
      [edges.some((edge) => edge.reduction), "mark", "Σ broadcast undone: summed"],
      [edges.some((edge) => edge.gradient !== null), "came", "gradient came back"],
      [edges.some((edge) => edge.gradient === null), "none", "no gradient"],
    ];
    for (const [shown, key, meaning] of entries)
      if (shown) legend.append(html("span", {}, html("i", { class: `nbg-key nbg-key-${key}` }), meaning));
    legend.append(html("span", { class: "nbg-help" }, "Drag to move. Click, then scroll to zoom. Arrow keys walk."));
    return legend;
  }

  // --- pan and zoom ---------------------------------------------------------------------------------------------

  private wants(event: Event): boolean {
    if (event instanceof MouseEvent && event.type !== "wheel") return !event.button && !event.ctrlKey;
    if (!(event instanceof WheelEvent)) return true;
    return event.ctrlKey || event.metaKey || this.root.contains(document.activeElement);
  }

  private size(): [number, number] {
    return [this.stage.clientWidth, this.stage.clientHeight];
  }

  private fitted(): ZoomTransform {
    const [width, height] = this.size();
    const { layout } = this.picture;
    const scale = Math.min(1.25, width / layout.width, height / layout.height);
    return zoomIdentity
      .translate((width - layout.width * scale) / 2, (height - layout.height * scale) / 2)
      .scale(scale);
  }

  private fit(): void {
    this.zoom.transform(select(this.stage), this.fitted());
  }

  private scale(factor: number): void {
    this.zoom.scaleBy(select(this.stage), factor);
  }

  /** The whole graph if it can be read so, else the place where the backward starts. */
  private firstLook(): void {
    const [width, height] = this.size();
    if (!width || !height) return;
    this.width = width;
    this.fit();
    if (this.fitted().k >= READABLE) return;
    const roots = this.picture.description.nodes.filter((node) => node.root);
    const box = this.picture.layout.nodes[(roots[roots.length - 1] ?? this.picture.description.nodes[0])?.id ?? ""];
    if (!box) return;
    const whole = this.picture.layout.width;
    const scale = Math.min(1, Math.max(READABLE, (width / whole) * 0.95));
    const centre = whole * scale <= width ? whole / 2 : box.x + box.width / 2;
    const x = width / 2 - centre * scale;
    this.zoom.transform(
      select(this.stage),
      zoomIdentity.translate(x, height - 30 - (box.y + box.height) * scale).scale(scale),
    );
  }

  private reveal(box: Box): void {
    const [width, whole] = this.size();
    const overlaid = !this.panel.hidden && this.panel.offsetLeft < width; // in a narrow view it lies over the picture
    const height = overlaid ? whole - this.panel.offsetHeight : whole;
    const { x: x0, y: y0, k: scale } = zoomTransform(this.stage);
    const [x, y] = [x0 + (box.x + box.width / 2) * scale, y0 + (box.y + box.height / 2) * scale];
    const [mx, my] = [Math.min(80, width / 4), Math.min(40, height / 4)];
    const shift = (at: number, margin: number, end: number) => Math.min(Math.max(at, margin), end - margin) - at;
    const [dx, dy] = [shift(x, mx, width), shift(y, my, height)];
    if (dx || dy) this.zoom.translateBy(select(this.stage), dx / scale, dy / scale);
  }

  // --- selection ------------------------------------------------------------------------------------------------

  private listen(): void {
    const { nodes, marks } = this.drawing;
    const { layout } = this.picture;
    for (const [id, element] of nodes) this.connect(element, id, layout.nodes[id], () => this.node(id));
    for (const [id, element] of marks) this.connect(element, id, layout.marks[id], () => this.mark(id));
    this.order.sort(([, , a], [, , b]) => a.y - b.y || a.x - b.x);
    this.order[0]?.[1].setAttribute("tabindex", "0");
    this.stage.addEventListener("click", (event) => {
      if (event.target === this.stage) this.close();
    });
    // A click anywhere in the picture lets the wheel zoom; a press on a node focuses the node.
    this.stage.addEventListener("pointerdown", () => this.stage.focus({ preventScroll: true }));
    this.root.addEventListener("keydown", (event) => this.key(event));
  }

  private connect(element: SVGGElement, id: string, box: Box | undefined, choose: () => void): void {
    if (!box) return;
    this.order.push([id, element, box]);
    element.addEventListener("click", choose);
    element.addEventListener("mouseenter", () => this.highlight(element));
    element.addEventListener("mouseleave", () => this.highlight(this.chosen));
    element.addEventListener("focus", () => {
      for (const [, other] of this.order) other.setAttribute("tabindex", other === element ? "0" : "-1");
      if (element.matches(":focus-visible")) this.reveal(box);
      this.highlight(element);
    });
    element.addEventListener("blur", () => this.highlight(this.chosen));
  }

  private choose(element: SVGGElement, content: Node[]): void {
    this.chosen?.classList.remove("nbg-chosen");
    this.chosen = element;
    element.classList.add("nbg-chosen");
    this.open(content);
    const box = this.order.find(([, other]) => other === element)?.[2];
    if (box) this.reveal(box);
    element.focus({ preventScroll: true });
    this.highlight(element);
  }

  private open(content: Node[]): void {
    this.panel.replaceChildren(closeButton(() => this.close()), ...content);
    this.showPanel(true);
    this.panel.scrollTop = 0;
  }

  /** The panel takes room from the picture; what was in the middle stays in the middle. */
  private showPanel(shown: boolean): void {
    this.panel.hidden = !shown;
    this.keepCentre();
  }

  private keepCentre(): void {
    const [width] = this.size();
    if (!width || !this.width || width === this.width) return;
    const scale = zoomTransform(this.stage).k;
    this.zoom.translateBy(select(this.stage), (width - this.width) / 2 / scale, 0);
    this.width = width;
  }

  private close(): void {
    this.showPanel(false);
    this.chosen?.classList.remove("nbg-chosen");
    this.chosen = null;
    this.highlight(null);
  }

  /** Show one node or mark with its edges and neighbours, and let the rest step back. */
  private highlight(element: SVGGElement | null): void {
    const { nodes, edges, marks } = this.drawing;
    const on = new Set<Element>();
    const id = element?.dataset["nodeId"];
    const mark = element?.dataset["edgeId"];
    for (const edge of element ? this.picture.description.edges : []) {
      const own = id !== undefined && [edge.source, edge.target].some((end) => original(end) === original(id));
      if (!own && edge.id !== mark) continue;
      for (const part of [edges.get(edge.id), marks.get(edge.id), nodes.get(edge.source), nodes.get(edge.target)])
        if (part) on.add(part);
    }
    if (element) on.add(element);
    this.stage.classList.toggle("nbg-focus", on.size > 0);
    for (const part of [...nodes.values(), ...edges.values(), ...marks.values()])
      part.classList.toggle("nbg-on", on.has(part));
  }

  // --- keyboard -------------------------------------------------------------------------------------------------

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const handled = event.key === "Escape" ? this.escape() : this.stageKey(event);
    if (!handled) return;
    // Jupyter has its own use for these keys.
    event.preventDefault();
    event.stopPropagation();
  }

  private escape(): boolean {
    const inPanel = this.panel.contains(document.activeElement);
    const back = this.chosen ?? this.order[0]?.[1];
    this.close();
    if (inPanel) back?.focus({ preventScroll: true });
    return true;
  }

  private stageKey(event: KeyboardEvent): boolean {
    const here = this.order.findIndex(([, element]) => element === document.activeElement);
    const current = this.order[here];
    if (!current) return false;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step !== undefined) this.order[here + step]?.[1].focus({ preventScroll: true });
    else if (event.key === "ArrowUp") this.along(current[1], "target", "source");
    else if (event.key === "ArrowDown") this.along(current[1], "source", "target");
    else if (event.key === "Enter" || event.key === " ") current[1].dispatchEvent(new MouseEvent("click"));
    else if (event.key === "+" || event.key === "=") this.scale(1.4);
    else if (event.key === "-") this.scale(1 / 1.4);
    else if (event.key === "0") this.fit();
    else return false;
    return true;
  }

  /** Follow the first edge, through its mark if it has one. */
  private along(element: SVGGElement, from: "source" | "target", to: "source" | "target"): void {
    const { nodes, marks } = this.drawing;
    const mark = element.dataset["edgeId"];
    const edge = this.picture.description.edges.find((other) =>
      mark === undefined ? other[from] === element.dataset["nodeId"] : other.id === mark,
    );
    if (!edge) return;
    const next = mark === undefined ? (marks.get(edge.id) ?? nodes.get(edge[to])) : nodes.get(edge[to]);
    next?.focus({ preventScroll: true });
  }
}
