// The live view of one picture: what is drawn of it, what is selected, and what the tools do.

import { Camera } from "./camera";
import type { Box, Picture, Step } from "./description";
import { attribute, flag, html, listen, svg } from "./dom";
import { between, matches, reach } from "./find";
import { folded } from "./geometry";
import { type Keyed, Keys } from "./keys";
import { Minimap } from "./minimap";
import { original } from "./model";
import { ASKED, GONE, Inquiry, type Kernel } from "./numbers";
import { closeButton, edgePanel, findingsPanel, markPanel, nodePanel, reductionsPanel } from "./panel";
import { Player, stepPanel } from "./player";
import { Scene, type Touched } from "./scene";
import { tableOf } from "./table";
import { differencePanel, Timeline } from "./timeline";
import { count, headerOf, legendOf, type Mode, scaleOf, type Tools, toolbarOf } from "./toolbar";

const PART = "Here is a part of the graph. Drag to see more; Fit shows all of it.";

export class View implements Touched, Keyed, Tools {
  readonly root = html("div", { class: "nbgrad nbg-both", testid: "view", role: "group" });
  readonly inquiry: Inquiry;
  readonly #stage = svg("svg", { class: "nbg-stage", role: "group", label: "Graph", tabindex: -1 });
  readonly #panel = html("aside", { class: "nbg-panel", testid: "details", label: "Details", tabindex: -1, hidden: "" });
  readonly #status = html("div", { class: "nbg-status", role: "status", hidden: "" });
  readonly #camera: Camera;
  readonly #map: Minimap;
  readonly #player: Player;
  readonly #timeline: Timeline;
  readonly #bar: HTMLElement;
  readonly #keys: Keys;
  readonly #watcher: ResizeObserver;
  readonly #closed: Set<string>;
  #table: HTMLElement;
  #legendScale: HTMLElement | null = null;
  scene!: Scene; // the base with what is folded here
  chosen: SVGGElement | null = null;
  #pathFrom: string | null = null;
  #tool: HTMLElement | null = null; // that opened the panel
  #overlaid = "";

  constructor(private base: Picture, private readonly kernel: Kernel | null) {
    const { description } = base;
    this.inquiry = new Inquiry(kernel);
    this.#closed = new Set(base.folded);
    this.#player = new Player([], (step, at) => this.#step(step, at));
    this.#timeline = new Timeline((frame, other) => this.#at(frame, other), (node) => this.node(node));
    this.#table = html("div", { hidden: "" });
    const body = html("div", { class: "nbg-body" }, this.#stage, this.#panel, this.#table);
    this.#bar = toolbarOf(this, base.turned !== null || kernel !== null);
    this.root.append(headerOf(description), this.#bar, body, this.#status, this.#player.root, this.#timeline.root, legendOf(description));
    this.#about();
    this.#camera = new Camera(
      this.#stage,
      (event) => this.#wants(event),
      (to, moving) => {
        if (!this.scene) return;
        attribute(this.scene.drawing.layer, "transform", to.toString());
        this.scene.titles.at(to.k);
        const room = [this.#stage.clientWidth, this.#stage.clientHeight] as const;
        this.scene.cull.look(to, ...room, moving);
        this.#map.look(to, ...room, moving);
      },
      () => this.scene.light(this.#stage.querySelector<SVGGElement>(":is(.nbg-node, .nbg-mark, .nbg-edge):hover")),
    );
    this.#map = new Minimap(this.#camera);
    body.append(this.#map.root);
    this.#draw();
    // As much of a screen as is left beside what a notebook and its browser have around a cell.
    const room = Math.min(900, Math.max(480, screen.height - 240));
    this.root.style.setProperty("--nbg-height", `${Math.min(room, Math.max(320, this.scene.size[1] + 40))}px`);
    this.#keys = new Keys(this, [this.#player, this.#timeline, this.#map]);
    this.#listen();
    this.#watcher = new ResizeObserver(() => this.#camera.resized(() => this.#begin()));
    this.#watcher.observe(this.#stage);
  }

  remove(): void {
    this.#watcher.disconnect();
    this.#keys.stop();
    this.#player.play(false);
    this.#camera.stop();
    this.root.remove();
  }

  /** What stands around the picture. */
  #about(): void {
    const { description } = this.base;
    attribute(this.root, "aria-label", `${description.name}: ${description.summary}`);
    this.root.querySelector(".nbg-header")?.replaceWith(headerOf(description));
    this.root.querySelector(".nbg-legend")?.replaceWith(legendOf(description));
    count(this.#bar, description);
  }

  /** The kernel has another picture: of the same graph, or of what has become of it. */
  replace(base: Picture): void {
    const anchor = this.chosen?.dataset["nodeId"] ?? "";
    const before = this.scene.box(anchor);
    this.base = base;
    this.#status.hidden = true;
    this.#about();
    this.#close();
    this.#draw();
    if (!this.#keep(anchor, before)) this.#firstLook();
  }

  #draw(): void {
    const held = document.activeElement;
    const old = held instanceof SVGGElement && this.scene?.boxOf(held) ? this.scene.node(held.dataset["nodeId"]) : undefined;
    const byKeys = !!old && !!held?.matches(":focus-visible"); // the pointer needs no focus that lights up
    this.scene = new Scene(folded(this.base, this.#closed), this.#stage, this);
    this.#map.replace(this.scene.picture);
    if (byKeys) this.scene.go(this.scene.heir(old));
    else if (held !== document.activeElement) this.refocus(this.#stage);
    this.#player.replace(this.scene.description.steps);
    const table = tableOf(this.scene.description, (id) => {
      this.#table.hidden = true;
      this.node(id);
    });
    table.hidden = this.#table.hidden;
    this.#table.replaceWith(table);
    this.#table = table;
    this.overlay(this.#overlaid);
    this.#timeline.replace(this.scene.description.history);
  }

  /** Let a node or a module stand where it stood in the drawing before; whether there is one. */
  #keep(id: string, before: Box | undefined): boolean {
    const box = this.scene.box(id);
    if (before && box) this.#camera.keep(this.scene.size, before, box);
    return !!(before && box);
  }

  // --- selection ------------------------------------------------------------------------------------------------

  node(id: string): void {
    const { description, drawing } = this.scene;
    const node = this.scene.node(id);
    const element = drawing.nodes.get(node?.id ?? "");
    if (!element || !node) return;
    if (this.#pathFrom !== null && original(this.#pathFrom) !== original(id)) {
      this.#only(between(description, this.#pathFrom, id));
      this.#pathFrom = null;
    }
    const panel = nodePanel(description, node, this);
    if (this.#timeline.earlier) panel.splice(1, 0, html("p", { class: "nbg-finding" }, "What follows is of the last backward."));
    this.#choose(element, panel);
  }

  edge(id: string): void {
    const edge = this.scene.edge(id);
    const element = this.scene.drawing.edges.get(id);
    if (edge && element) this.#choose(element, edgePanel(this.scene.description, edge, this));
  }

  mark(id: string): void {
    const edge = this.scene.edge(id);
    const element = this.scene.drawing.marks.get(id) ?? this.scene.drawing.edges.get(id);
    if (element && edge) this.#choose(element, markPanel(this.scene.description, edge, this));
  }

  focus(id: string, what: "ancestors" | "descendants" | "path"): void {
    this.#pathFrom = what === "path" ? id : null;
    if (what === "path") this.#say("Choose the node at the other end of the path.");
    else this.#only(reach(this.scene.description, id, what));
  }

  /** Fold or unfold: here if the picture holds what is needed, else by the kernel. */
  toggle(holds: string[]): void {
    const [first] = holds;
    if (first === undefined) return;
    const before = this.scene.box(first);
    if (this.base.layout.scopes[first]) {
      if (!this.#closed.delete(first)) this.#closed.add(first);
      this.#close();
      this.#draw();
      this.#keep(first, before);
    } else if (this.kernel) this.#ask(this.kernel, { toggle: holds });
    else this.#say("What is inside this module is not in this file.");
  }

  /** Another picture, if somebody is there to make one. */
  #ask(kernel: Kernel, request: Parameters<Kernel["ask"]>[0]): void {
    kernel.ask(request);
    this.#say(kernel.gone ? GONE : ASKED);
  }

  #say(text: string): void {
    this.#status.textContent = text;
    this.#status.hidden = false;
  }

  get moving(): boolean {
    return this.#camera.moving;
  }

  reveal(box: Box | undefined): void {
    if (box) this.#camera.reveal(box, this.#panel);
  }

  #choose(element: SVGGElement, content: Node[]): void {
    flag(this.chosen, "chosen", false);
    this.chosen = element;
    flag(element, "chosen", true);
    this.#open(content);
    this.reveal(this.scene.boxOf(element));
    if (this.#player.shown) this.#player.play(false);
    if (element.hasAttribute("tabindex")) this.scene.go(element);
    this.scene.paint.highlight(element);
  }

  #open(content: Node[]): void {
    this.#status.hidden = this.#pathFrom === null;
    this.#tool = null;
    this.#panel.replaceChildren(closeButton(() => this.#leavePanel()), ...content);
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
    this.#unchoose();
  }

  #unchoose(): void {
    flag(this.chosen, "chosen", false);
    this.chosen = null;
    this.scene.paint.highlight(null);
  }

  /** Let all but these nodes step back until Escape; null shows everything. */
  #only(ids: Set<string> | null): void {
    this.scene.paint.only(ids);
    if (ids === null) this.#status.hidden = true;
    else this.#say(`${ids.size ? "Only what you asked for is lit" : "There is no way between the two"}. Escape shows everything.`);
  }

  // --- the tools ------------------------------------------------------------------------------------------------

  mode = (mode: Mode): void => {
    for (const one of ["forward", "backward", "both"]) {
      flag(this.root, one, one === mode);
      attribute(this.root.querySelector(`[data-testid=nbgrad-${one}]`), "aria-checked", one === mode);
    }
  };

  /** Colour by something; the history has colours of its own, and its panel open. */
  colour = (key: string): void => {
    if ((key === "history") !== this.#timeline.shown) this.past();
    if (key !== "history") this.overlay(key);
  };

  overlay(key: string): void {
    this.#overlaid = key;
    this.#bar.querySelector<HTMLSelectElement>("[data-testid=nbgrad-overlay]")!.value = key;
    this.#legendScale?.remove();
    this.#legendScale = scaleOf(this.scene.description, key);
    if (this.#legendScale) this.#stage.after(this.#legendScale);
    this.scene.paint.overlay(key);
  }

  search = (query: string, next: boolean): void => {
    const [found, said] = matches(this.scene.description, query);
    this.root.querySelector("output")!.textContent = said;
    for (const [id, element] of this.scene.drawing.nodes) flag(element, "match", found.includes(id));
    const here = found.indexOf(this.chosen?.dataset["nodeId"] ?? "");
    if (next) this.node(found[(here + 1) % found.length] ?? "");
    else this.reveal(this.scene.box(found[0] ?? ""));
  };

  reductions = (): void => this.#list(reductionsPanel);
  findings = (): void => this.#list(findingsPanel);

  /** What a tool lists has the focus, and gives it back. */
  #list(panel: typeof findingsPanel): void {
    this.#close();
    this.#open(panel(this.scene.description, this));
    this.#tool = document.activeElement as HTMLElement | null;
    this.refocus(this.#panel);
  }

  steps = (): void => {
    if (this.#timeline.shown) this.#timeline.open(false);
    this.#player.open(!this.#player.shown);
  };
  showTable = (): void => {
    this.#table.hidden = !this.#table.hidden;
    if (this.#table.hidden) this.refocus();
    else this.#table.focus();
  };
  scale = (factor: number): void => this.#camera.scale(factor);
  fit = (): void => {
    if (this.#status.textContent === PART) this.#status.hidden = true; // first, for it leaves more room
    this.#camera.fit();
  };

  turn = (): void => {
    const direction = this.base.direction === "TB" ? "LR" : "TB";
    if (this.base.turned) {
      this.base = { ...this.base, direction, layout: this.base.turned, turned: this.base.layout };
      this.#close();
      this.#draw();
      this.#firstLook();
    } else if (this.kernel) this.#ask(this.kernel, { direction });
  };

  past = (): void => {
    if (this.#player.shown) this.#player.open(false);
    this.#timeline.open(!this.#timeline.shown);
  };

  #at(frame: number | null, other: number | null): void {
    this.overlay(frame === null ? "" : "history");
    this.scene.paint.frame(frame);
    if (frame !== null && other !== null) this.#open(differencePanel(this.scene.description, other, frame));
    else if (this.#panel.querySelector(".nbg-norms")) this.#close();
  }

  #step(step: Step | null, at: number): void {
    this.scene.paint.step(step, at);
    if (!step) return this.#close();
    this.#unchoose(); // it is no part of the walk
    this.#open(stepPanel(this.scene.description, step));
    // First where it leads to, so that as much of the way there is in sight as there is room for.
    for (const { edge } of step.given) this.reveal(this.scene.box(this.scene.edge(edge)?.source ?? ""));
    this.reveal(this.scene.box(step.node));
  }

  // --- pan and zoom ---------------------------------------------------------------------------------------

  /** What the picture is to show first. */
  #begin(): void {
    this.#firstLook();
    if (this.base.opens === "flow") this.mode("forward");
    if (this.base.opens === "steps" && this.scene.description.steps.length) this.#player.open(true, false);
  }

  #firstLook(): void {
    const { nodes } = this.scene.description;
    const roots = nodes.filter((node) => node.root || node.kind === "failed");
    const look = () => this.#camera.look(this.scene.size, this.scene.box((roots[roots.length - 1] ?? nodes[0])?.id ?? ""));
    if (!look()) return;
    this.#say(PART);
    look(); // the line may have taken some of the room
  }

  #wants(event: Event): boolean {
    if (event instanceof MouseEvent && event.type !== "wheel") return !event.button && !event.ctrlKey;
    if (!(event instanceof WheelEvent)) return true;
    // A wheel over a view that nobody has clicked scrolls the notebook.
    return event.ctrlKey || event.metaKey || this.root.contains(document.activeElement);
  }

  #listen(): void {
    listen(this.#stage, "click", (event) => {
      if (event.target === this.#stage) this.#close();
    });
    // A click anywhere in the picture lets the wheel zoom; a press on a node focuses the node.
    listen(this.#stage, "pointerdown", () => this.refocus(this.#stage));
  }

  /** Close what is open and light everything: what Escape does. */
  leave(): void {
    this.#pathFrom = null;
    this.#only(null);
    this.#leavePanel();
  }

  /** Close the panel, or the table; if the focus was in there it goes back to where it came from. */
  #leavePanel(): void {
    const inside = document.activeElement?.closest(".nbg-panel, .nbg-table");
    const back = this.chosen ?? this.#tool;
    this.#table.hidden = true;
    this.#close();
    if (inside) this.refocus(back);
  }

  /** The keys go on from the node that is chosen, or from the one that had the focus last. */
  refocus(to: HTMLElement | SVGElement | null = this.chosen): void {
    (to ?? this.#stage.querySelector<SVGGElement>("[tabindex='0']"))?.focus({ preventScroll: true });
  }
}
