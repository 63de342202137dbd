// The live view of one picture: what is drawn of it, what is selected, and what the keys do.

import { Camera } from "./camera";
import { Cull } from "./cull";
import type { Box, Picture, Step } from "./description";
import { html, svg } from "./dom";
import { type Drawing, draw } from "./draw";
import { between, matches, reach } from "./find";
import { count, headerOf, legendOf, type Mode, scaleOf, type Tools, toolbarOf } from "./frame";
import { folded } from "./geometry";
import { closeButton, edgePanel, findingsPanel, markPanel, nodePanel, original, reductionsPanel, type Selection } from "./panel";
import { Paint } from "./paint";
import { Player, stepPanel } from "./player";
import { tableOf } from "./table";
import { differencePanel, Timeline } from "./timeline";

/** What only a kernel can do: unfold what is not in the picture, or turn it. */
export type Ask = (request: { toggle?: string[]; direction?: string }) => void;

type Element = SVGGElement;

/** Focus a part of the drawing, which may be too far away to be drawn just now. */
function go(element: Element | undefined): void {
  if (!element) return;
  element.style.display = "";
  element.focus({ preventScroll: true });
}

export class View implements Selection, Tools {
  readonly root = html("div", { class: "nbgrad nbg-both", testid: "view", role: "group" });
  readonly #stage = svg("svg", { class: "nbg-stage", role: "group", label: "Graph", tabindex: -1 });
  readonly #panel = html("aside", { class: "nbg-panel", testid: "details", label: "Details", hidden: "" });
  readonly #status = html("div", { class: "nbg-status", role: "status", hidden: "" });
  readonly #camera: Camera;
  readonly #player: Player;
  readonly #timeline: Timeline;
  readonly #bar: HTMLElement;
  readonly #watcher: ResizeObserver;
  readonly #closed: Set<string>;
  #table: HTMLElement;
  #legendScale: HTMLElement | null = null;
  #picture!: Picture; // as drawn: the base with what is folded here
  #drawing!: Drawing;
  #cull: Cull | null = null;
  #paint!: Paint;
  #order: [string, Element, Box][] = []; // what the keyboard walks: nodes and marks, row by row
  #chosen: Element | null = null;
  #pathFrom: string | null = null;
  #overlaid = "";

  constructor(private base: Picture, private readonly ask: Ask | null) {
    const { description } = base;
    this.#closed = new Set(base.folded);
    this.#player = new Player([], (step, at) => this.#step(step, at));
    this.#timeline = new Timeline((frame, other) => this.#at(frame, other), (node) => this.node(node));
    this.#table = html("div");
    const body = html("div", { class: "nbg-body" }, this.#stage, this.#panel, this.#status, this.#table);
    this.#bar = toolbarOf(this, base.turned !== null || ask !== null);
    this.root.append(headerOf(description), this.#bar, body, this.#player.root, this.#timeline.root, legendOf(description));
    this.#about();
    this.#camera = new Camera(
      this.#stage,
      (event) => this.#wants(event),
      (to) => {
        this.#drawing?.layer.setAttribute("transform", to.toString());
        this.#cull?.look(to, this.#stage.clientWidth, this.#stage.clientHeight);
      },
    );
    this.#draw();
    this.#timeline.replace(description.history);
    this.root.style.setProperty("--nbg-height", `${Math.min(640, Math.max(320, this.#picture.layout.height + 40))}px`);
    this.#listen();
    this.#watcher = new ResizeObserver(() => this.#camera.resized(() => this.#begin()));
    this.#watcher.observe(this.#stage);
  }

  remove(): void {
    this.#watcher.disconnect();
    window.removeEventListener("keydown", this.#keydown, true);
    this.#player.play(false);
    this.#camera.stop();
    this.root.remove();
  }

  /** What stands around the picture. */
  #about(): void {
    const { description } = this.base;
    this.root.setAttribute("aria-label", `${description.name}: ${description.summary}`);
    this.root.querySelector(".nbg-header")?.replaceWith(headerOf(description));
    this.root.querySelector(".nbg-legend")?.replaceWith(legendOf(description));
    count(this.#bar, description);
  }

  /** The kernel has another picture: of the same graph, or of what has become of it. */
  replace(base: Picture): void {
    const anchor = this.#chosen?.dataset["nodeId"] ?? "";
    const before = this.#picture.layout.nodes[anchor];
    this.base = base;
    this.#status.hidden = true;
    this.#about();
    this.#close();
    this.#draw();
    this.#timeline.replace(base.description.history);
    const box = this.#picture.layout.nodes[anchor];
    if (before && box) this.#camera.keep(this.#extent(), before, box);
    else this.#firstLook();
  }

  #draw(): void {
    this.#picture = folded(this.base, this.#closed);
    this.#drawing = draw(this.#picture);
    this.#paint = new Paint(this.#stage, this.#picture, this.#drawing);
    this.#cull = new Cull(this.#drawing, this.#picture.layout);
    this.#stage.replaceChildren(this.#drawing.layer);
    this.#player.replace(this.#picture.description.steps);
    const table = tableOf(this.#picture.description, (id) => {
      this.#table.hidden = true;
      this.node(id);
    });
    table.hidden = this.#table.hidden !== false || !this.#table.dataset["testid"];
    this.#table.replaceWith(table);
    this.#table = table;
    this.#order = [];
    const { nodes, marks, edges, scopes } = this.#drawing;
    const { layout, description } = this.#picture;
    const holds = new Map(description.nodes.map((node) => [node.id, node.holds]));
    for (const [id, element] of nodes) this.#connect(element, id, layout.nodes[id], () => this.node(id), holds.get(id));
    for (const [id, element] of marks) this.#connect(element, id, layout.marks[id], () => this.mark(id));
    this.#order.sort(([, , a], [, , b]) => a.y - b.y || a.x - b.x);
    this.#order[0]?.[1].setAttribute("tabindex", "0");
    for (const [id, element] of edges) {
      element.addEventListener("click", () => this.edge(id));
      element.addEventListener("mouseenter", () => this.#paint.highlight(element));
      element.addEventListener("mouseleave", () => this.#paint.highlight(this.#chosen));
    }
    for (const [id, element] of scopes) element.addEventListener("dblclick", () => this.toggle([id]));
    this.overlay(this.#overlaid);
  }

  // --- selection ------------------------------------------------------------------------------------------------

  node(id: string): void {
    const { description } = this.#picture;
    const node = description.nodes.find((other) => other.id === id) ?? description.nodes.find((other) => original(other.id) === original(id));
    const element = this.#drawing.nodes.get(node?.id ?? "");
    if (!element || !node) return;
    if (this.#pathFrom !== null && original(this.#pathFrom) !== original(id)) {
      this.#only(between(description, this.#pathFrom, id));
      this.#pathFrom = null;
    }
    this.#choose(element, nodePanel(description, node, this));
  }

  edge(id: string): void {
    const { description } = this.#picture;
    const edge = description.edges.find((other) => other.id === id);
    const element = this.#drawing.edges.get(id);
    if (edge && element) this.#choose(element, edgePanel(description, edge, this));
  }

  mark(id: string): void {
    const { description } = this.#picture;
    const edge = description.edges.find((other) => other.id === id);
    const element = this.#drawing.marks.get(id) ?? this.#drawing.edges.get(id);
    if (element && edge) this.#choose(element, markPanel(description, edge, this));
  }

  focus(id: string, what: "ancestors" | "descendants" | "path"): void {
    this.#pathFrom = what === "path" ? id : null;
    if (what === "path") this.#say("Choose the node at the other end of the path.");
    else this.#only(reach(this.#picture.description, id, what));
  }

  /** Fold or unfold: here if the picture holds what is needed, else by the kernel. */
  toggle(holds: string[]): void {
    const [first] = holds;
    if (first === undefined) return;
    const before = this.#picture.layout.scopes[first] ?? this.#picture.layout.nodes[`f-${first}`];
    if (this.base.layout.scopes[first]) {
      if (!this.#closed.delete(first)) this.#closed.add(first);
      this.#close();
      this.#draw();
      const box = this.#picture.layout.scopes[first] ?? this.#picture.layout.nodes[`f-${first}`];
      if (before && box) this.#camera.keep(this.#extent(), before, box);
    } else if (this.ask) {
      this.#say("Asking the kernel for the new layout; it answers when the running cell has ended.");
      this.ask({ toggle: holds });
    } else this.#say("What is inside this module is not in this file.");
  }

  #say(text: string): void {
    this.#status.textContent = text;
    this.#status.hidden = false;
  }

  #connect(element: Element, id: string, box: Box | undefined, choose: () => void, holds: string[] = []): void {
    if (!box) return;
    this.#order.push([id, element, box]);
    let timer = 0;
    element.addEventListener("click", (event) => {
      clearTimeout(timer);
      // The panel that opens moves the picture: a second click would miss what the first one meant.
      if (!holds.length || !event.detail) choose();
      else if (event.detail === 1) timer = window.setTimeout(choose, 280);
    });
    if (holds.length) element.addEventListener("dblclick", () => this.toggle(holds));
    element.addEventListener("mouseenter", () => this.#paint.highlight(element));
    element.addEventListener("mouseleave", () => this.#paint.highlight(this.#chosen));
    element.addEventListener("focus", () => {
      for (const [, other] of this.#order) other.setAttribute("tabindex", other === element ? "0" : "-1");
      if (element.matches(":focus-visible")) this.#camera.reveal(box, this.#panel);
      this.#paint.highlight(element);
    });
    element.addEventListener("blur", () => this.#paint.highlight(this.#chosen));
  }

  #choose(element: Element, content: Node[]): void {
    this.#chosen?.classList.remove("nbg-chosen");
    this.#chosen = element;
    this.#status.hidden = this.#pathFrom === null;
    element.classList.add("nbg-chosen");
    this.#open(content);
    const box = this.#order.find(([, other]) => other === element)?.[2];
    if (box) this.#camera.reveal(box, this.#panel);
    if (this.#player.shown) this.#player.play(false);
    if (element.hasAttribute("tabindex")) go(element);
    this.#paint.highlight(element);
  }

  #open(content: Node[]): void {
    this.#panel.replaceChildren(closeButton(() => this.#close()), ...content);
    this.#showPanel(true);
    this.#panel.scrollTop = 0;
  }

  /** The panel takes room from the picture; what was in the middle stays in the middle. */
  #showPanel(shown: boolean): void {
    this.#panel.hidden = !shown;
    this.#camera.resized(() => this.#firstLook());
  }

  #close(): void {
    this.#showPanel(false);
    this.#chosen?.classList.remove("nbg-chosen");
    this.#chosen = null;
    this.#paint.highlight(null);
  }

  /** Let all but these nodes step back until Escape; null shows everything. */
  #only(ids: Set<string> | null): void {
    this.#paint.only(ids);
    if (ids === null) this.#status.hidden = true;
    else this.#say(ids.size ? "Only what you asked for is lit. Escape shows everything." : "There is no way between the two. Escape shows everything.");
  }

  // --- the tools ------------------------------------------------------------------------------------------------

  mode = (mode: Mode): void => {
    for (const one of ["forward", "backward", "both"]) {
      this.root.classList.toggle(`nbg-${one}`, one === mode);
      this.root.querySelector(`[data-testid=nbgrad-${one}]`)?.setAttribute("aria-checked", String(one === mode));
    }
  };

  overlay = (key: string): void => {
    this.#overlaid = key;
    this.#legendScale?.remove();
    this.#legendScale = scaleOf(this.#picture.description, key);
    if (this.#legendScale) this.#stage.after(this.#legendScale);
    this.#paint.overlay(key);
  };

  search = (query: string, next: boolean): void => {
    const found = matches(this.#picture.description, query);
    const output = this.root.querySelector("output");
    if (output) output.textContent = query.trim() ? `${found.length} found` : "";
    for (const [id, element] of this.#drawing.nodes) element.classList.toggle("nbg-match", found.includes(id));
    const first = found.map((id) => this.#picture.layout.nodes[id]).find(Boolean);
    if (!next && first) this.#camera.reveal(first, this.#panel);
    if (!next || !found.length) return;
    const here = found.indexOf(this.#chosen?.dataset["nodeId"] ?? "");
    this.node(found[(here + 1) % found.length] ?? "");
  };

  reductions = (): void => {
    this.#close();
    this.#open(reductionsPanel(this.#picture.description, this));
  };

  findings = (): void => {
    this.#close();
    this.#open(findingsPanel(this.#picture.description, this));
  };

  steps = (): void => {
    if (this.#timeline.shown) this.#timeline.open(false);
    this.#player.open(!this.#player.shown);
  };
  showTable = (): void => {
    this.#table.hidden = !this.#table.hidden;
    if (!this.#table.hidden) this.#table.focus();
  };
  scale = (factor: number): void => this.#camera.scale(factor);
  fit = (): void => this.#camera.fit();

  turn = (): void => {
    const direction = this.base.direction === "TB" ? "LR" : "TB";
    if (this.base.turned) {
      this.base = { ...this.base, direction, layout: this.base.turned, turned: this.base.layout };
      this.#close();
      this.#draw();
      this.#firstLook();
    } else this.ask?.({ direction });
  };

  past = (): void => {
    if (this.#player.shown) this.#player.open(false);
    this.#timeline.open(!this.#timeline.shown);
  };

  #at(frame: number | null, other: number | null): void {
    this.overlay("");
    this.#paint.frame(frame);
    if (frame !== null && other !== null) this.#open(differencePanel(this.#picture.description, other, frame));
  }

  #step(step: Step | null, at: number): void {
    this.#paint.step(step, at);
    if (!step) return this.#close();
    this.#open(stepPanel(this.#picture.description, step));
    const box = this.#picture.layout.nodes[step.node];
    if (box) this.#camera.reveal(box, this.#panel);
  }

  // --- pan, zoom and keys ---------------------------------------------------------------------------------------

  #extent(): [number, number] {
    return [this.#picture.layout.width, this.#picture.layout.height];
  }

  /** What the picture is to show first. */
  #begin(): void {
    this.#firstLook();
    if (this.base.opens === "flow") this.mode("forward");
    if (this.base.opens === "steps" && this.#picture.description.steps.length) this.#player.open(true, false);
  }

  #firstLook(): void {
    const { nodes } = this.#picture.description;
    const roots = nodes.filter((node) => node.root || node.kind === "failed");
    this.#camera.look(this.#extent(), this.#picture.layout.nodes[(roots[roots.length - 1] ?? nodes[0])?.id ?? ""]);
  }

  #wants(event: Event): boolean {
    if (event instanceof MouseEvent && event.type !== "wheel") return !event.button && !event.ctrlKey;
    if (!(event instanceof WheelEvent)) return true;
    // A wheel over a view that nobody has clicked scrolls the notebook.
    return event.ctrlKey || event.metaKey || this.root.contains(document.activeElement);
  }

  #listen(): void {
    this.#stage.addEventListener("click", (event) => {
      if (event.target === this.#stage) this.#close();
    });
    // A click anywhere in the picture lets the wheel zoom; a press on a node focuses the node.
    this.#stage.addEventListener("pointerdown", () => this.#stage.focus({ preventScroll: true }));
    window.addEventListener("keydown", this.#keydown, true);
  }

  /** Keys that are pressed in the view, before the host, which has its own use for them, sees them. */
  #keydown = (event: KeyboardEvent): void => {
    const { target } = event;
    if (!(target instanceof Node) || !this.root.contains(target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const typed = target instanceof HTMLSelectElement || target instanceof HTMLInputElement;
    const inside = [this.#player, this.#timeline].find(({ root }) => root.contains(target));
    const handled = inside ? inside.key(event) : typed ? this.#typed(event, target) : event.key === "Escape" ? this.#escape() : this.#key(event);
    if (handled) event.preventDefault();
    if (handled || typed) event.stopImmediatePropagation();
  };

  #typed(event: KeyboardEvent, field: HTMLInputElement | HTMLSelectElement): boolean {
    if (field.type !== "search" || (event.key !== "Enter" && event.key !== "Escape")) return false;
    if (event.key === "Escape") field.value = "";
    this.search(field.value, event.key === "Enter");
    return true;
  }

  #escape(): boolean {
    const inPanel = this.#panel.contains(document.activeElement);
    const back = this.#chosen ?? this.#order[0]?.[1];
    this.#pathFrom = null;
    this.#only(null);
    this.#table.hidden = true;
    this.#close();
    if (inPanel) back?.focus({ preventScroll: true });
    return true;
  }

  #key(event: KeyboardEvent): boolean {
    const { steps, history } = this.#picture.description;
    if (event.key === "s" && steps.length) this.steps();
    else if (event.key === "h" && history.frames.length) this.past();
    else if (event.key === "t") this.showTable();
    else return this.#stageKey(event);
    return true;
  }

  #stageKey(event: KeyboardEvent): boolean {
    const here = this.#order.findIndex(([, element]) => element === document.activeElement);
    const current = this.#order[here];
    if (!current) return false;
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step !== undefined) go(this.#order[here + step]?.[1]);
    else if (event.key === "ArrowUp") this.#along(current[1], "target", "source");
    else if (event.key === "ArrowDown") this.#along(current[1], "source", "target");
    else if (event.key === "Enter" || event.key === " ") this.#enter(current[1]);
    else if (event.key === "f") this.#foldAt(current[0]);
    else if (event.key === "+" || event.key === "=") this.scale(1.4);
    else if (event.key === "-") this.scale(1 / 1.4);
    else if (event.key === "0") this.fit();
    else return false;
    return true;
  }

  /** Open the details; a second time, of a folded module, unfold it. */
  #enter(element: Element): void {
    const node = this.#picture.description.nodes.find((other) => other.id === element.dataset["nodeId"]);
    if (node?.holds.length && this.#chosen === element) this.toggle(node.holds);
    else element.dispatchEvent(new MouseEvent("click"));
  }

  /** Fold the module that a node is in, or unfold the one that it is. */
  #foldAt(id: string): void {
    const node = this.#picture.description.nodes.find((other) => other.id === id);
    if (node?.holds.length) this.toggle(node.holds);
    else if (node?.scope) {
      const stand = `f-${node.scope}`;
      this.toggle([node.scope]);
      this.#drawing.nodes.get(stand)?.focus({ preventScroll: true });
    }
  }

  /** Follow the first edge, through its mark if it has one. */
  #along(element: Element, from: "source" | "target", to: "source" | "target"): void {
    const { nodes, marks } = this.#drawing;
    const mark = element.dataset["edgeId"];
    const edge = this.#picture.description.edges.find((other) =>
      mark === undefined ? other[from] === element.dataset["nodeId"] : other.id === mark,
    );
    if (!edge) return;
    const next = mark === undefined ? (marks.get(edge.id) ?? nodes.get(edge[to])) : nodes.get(edge[to]);
    go(next);
  }
}
