// The live view of one picture: its drawn part, the selection, and the actions of the tools.

import { Answers } from "./answers";
import { Camera } from "./camera";
import { copied } from "./clipboard";
import { CodeLines } from "./code_lines";
import { PROJECTOR } from "./constants";
import type { Box, Jump, Picture, Ranked, Step } from "./description";
import { attribute, button, flag, html, listen, svg } from "./dom";
import { farEnds } from "./draw";
import { between, matches, reach } from "./find";
import { folded } from "./geometry";
import type { Placement } from "./gestures";
import { HoverCard } from "./hover_card";
import { type Keyed, Keys } from "./keys";
import { message, translate } from "./language";
import { Memory } from "./memory";
import { Minimap } from "./minimap";
import { nodeOf, original, remember, within } from "./model";
import { ASKED, GONE, Inquiry, type Kernel } from "./numbers";
import { closeButton, edgePanel, findingsPanel, markPanel, nodePanel, reductionsPanel } from "./panel";
import type { Place } from "./permalink";
import { Player, stepPanel } from "./player";
import { Projector } from "./projector";
import { Room } from "./room";
import { Scene, type Touched } from "./scene";
import { homeOf, Table } from "./table";
import { isThumbnail, thumbnailKey, thumbnails } from "./thumbnails";
import { differencePanel, Timeline } from "./timeline";
import { type Runner, WhatIf } from "./what_if";
import { count, legendPanel, lossesOf, type Mode, noticesOf, press, rove, scaleOf, tellLosses, titleOf, type Tools, toolbarOf } from "./toolbar";

const AGAIN = 280; // milliseconds in which a second click follows the first one

const STILL = 250; // milliseconds in which the window does not change
const MUCH = 1.12; // how many times as large or as small another stage has to be

const HINT = 1400; // milliseconds in which a hint can be read
const WHEEL = /Mac/.test(navigator.platform) ? message("⌘ and the wheel zoom the picture") : message("Ctrl and the wheel zoom the picture");
const FINGERS = message("Two fingers move and zoom the picture");

const POINTS = 20; // the letters on a projector
const PART = message("Here is a part of the graph. Drag to see more; Fit shows all of it.");

export class View implements Touched, Keyed, Tools {
  readonly root = html("div", { class: "nbgrad nbg-both", testid: "view", role: "group" });
  readonly answers = new Answers(() => this.scene, (answer) => this.kernel?.ask({ answer }));
  readonly inquiry: Inquiry;
  readonly whatIf: WhatIf | null;
  readonly #stage = svg("svg", { class: "nbg-stage", role: "group", label: translate("Graph"), tabindex: -1 });
  readonly #panel = html("aside", { class: "nbg-panel", testid: "details", label: translate("Details"), tabindex: -1, hidden: "" });
  readonly #status = html("div", { class: "nbg-status", role: "status", hidden: "" });
  readonly #hint = html("div", { class: "nbg-hint", "aria-hidden": "true", testid: "hint" });
  readonly #found = html("output", { class: "nbg-found", testid: "found" }); // how many a search found
  readonly #code = new CodeLines(this.root);
  readonly #card = new HoverCard();
  readonly #camera: Camera;
  readonly #map: Minimap;
  readonly #player: Player;
  readonly #timeline: Timeline;
  readonly #memory = new Memory((node) => this.node(node), () => this.#press());
  readonly #bar: HTMLElement;
  readonly #keys: Keys;
  readonly #room: Room;
  readonly #closed: Set<string>;
  readonly #table: Table;
  readonly #scale = html("footer", {});
  readonly #below = html("div", { class: "nbg-below" }); // what the header says if it is out of the way
  readonly #projector = new Projector(this.root, () => this.#screened());
  #title: HTMLElement = html("div");
  #notices: HTMLElement = html("div");
  begun = (): void => {}; // called when the view is seen for the first time
  changed = (): void => {}; // called when the link to the shown place changes
  scene!: Scene; // the base, folded as the reader chose here
  chosen: SVGGElement | null = null;
  #pathFrom: string | null = null;
  #covered: [number, number] = [0, 0]; // how much of the stage the panel covers: at the right, and at the bottom
  #origin: Placement | null = null; // where the reader was before being led elsewhere
  readonly #return = button(`↩ ${translate("Back")}`, translate("Back to where you were"), "return", () => this.#goBack());
  #tool: HTMLElement | null = null; // that opened the panel
  #overlaid = "";
  #sought = (): void => {}; // goes on to what is in a module that will be unfolded: the match of a search, or a row of the table
  #detailed = ""; // the nodes for which the kernel was asked for more detail
  #asked: string[] = []; // the modules that the kernel was asked to fold or unfold
  #hinting = 0;
  #resizing = 0; // the timer before the kernel is asked to lay the picture out for another stage
  #told: [number, number] = [0, 0]; // the stage that it was told last
  #offered = false; // the stage, and no picture for it has come
  #late: Picture | null = null; // for another stage: it waits until the reader has closed the details
  #expected = false; // whether the reader asked for the next picture
  #waiting = 0; // the timer before the picture moves: the box may be clicked once more
  #page: (() => void) | null = null; // brings back the view as it was in its page, where it is not just now
  #toggled: string[][] = []; // what the reader has folded and unfolded on the projector
  #turned: string | null = null; // the direction that the reader has chosen there

  private base: Picture;
  #whole: Picture | null; // the whole picture, if the base is only its first picture

  constructor(private readonly picture: Picture, private readonly kernel: Kernel | null, run: Runner | null = kernel && ((asked) => kernel.suppose(asked))) {
    const base = picture.first ?? picture;
    this.base = base;
    this.#whole = picture.first && picture;
    const { description } = base;
    if (description.language) this.root.lang = description.language;
    this.inquiry = new Inquiry(kernel);
    this.whatIf = run && new WhatIf(run, () => this.scene, this.#panel);
    this.#closed = new Set(base.folded);
    this.#overlaid = description.colour;
    this.#player = new Player([], (step, at) => this.#step(step, at));
    this.#timeline = new Timeline((frame, other) => this.#at(frame, other), (node) => this.node(node));
    this.#table = new Table((id, ranked) => {
      this.#table.open(false);
      if (ranked) this.#reach(ranked);
      else this.node(id);
    });
    const body = html("div", { class: "nbg-body" }, this.#stage, this.#return, this.#hint, this.#found, this.#card.root, this.#panel, this.#table.root);
    this.#bar = toolbarOf(this, base.turned !== null || kernel !== null);
    this.#return.className = "nbg-return";
    this.#return.hidden = true;
    this.root.append(
      html("header", { class: "nbg-header" }, this.#title, this.#bar),
      this.#notices, body, this.#below, this.#player.root, this.#timeline.root, this.#memory.root, this.#scale,
    );
    this.#about();
    this.#camera = new Camera(
      this.#stage,
      (k) => this.scene.forms.readable(k),
      (event) => this.#wants(event),
      (to, moving) => {
        if (!this.scene) return;
        if (this.#origin && this.#camera.moving) this.#forget();
        attribute(this.scene.drawing.layer, "transform", to.toString());
        this.scene.titles.at(to.k / this.#camera.by);
        this.scene.forms.at(to.k / this.#camera.by, this.#camera.by > 1);
        if (!moving && this.whatIf?.on) this.whatIf.paint(); // boxes that have another form now have their recorded texts
        const [width, height, [right, bottom]] = [this.#stage.clientWidth, this.#stage.clientHeight, this.#covered];
        this.scene.cull.look(to, width, height, moving);
        this.#map.look(to, width && width - right, height && height - bottom, moving);
      },
      () => this.scene.light(this.#stage.querySelector<SVGGElement>(":is(.nbg-node, .nbg-mark, .nbg-edge):hover")),
    );
    this.#magnify(picture.projected);
    this.#map = new Minimap(this.#camera);
    body.append(this.#map.root);
    this.#draw();
    this.#keys = new Keys(this, [this.#player, this.#timeline, this.#memory, this.#map]);
    this.#listen();
    this.#press();
    this.#room = new Room(this.root, body, () => this.scene.size.map((size) => size * this.#camera.by) as [number, number], () => {
      flag(this.root, "scrolls", this.#room.scrolls);
      if (!this.#panel.hidden) this.#lay();
      this.#camera.resized(() => this.#begin());
      this.#rest();
    });
    this.#room.large = picture.projected;
  }

  remove(): void {
    this.#page = null;
    this.#projector.leave();
    this.#room.leave();
    clearTimeout(this.#waiting);
    clearTimeout(this.#hinting);
    clearTimeout(this.#resizing);
    this.#keys.stop();
    this.#code.leave();
    this.#player.play(false);
    this.#camera.stop();
    this.root.remove();
  }

  /** The parts around the picture. */
  #about(): void {
    const { description } = this.base;
    attribute(this.root, "aria-label", `${description.name}: ${description.summary}`);
    const [title, notices] = [titleOf(description), noticesOf(description, this.#go)];
    this.#title.replaceWith(title);
    this.#notices.replaceWith(notices);
    [this.#title, this.#notices] = [title, notices];
    this.#started(null);
    flag(this.root, "empty", !description.nodes.length);
    count(this.#bar, description);
  }

  /** The kernel has another picture: of the same graph, or of what has become of it. */
  replace(base: Picture): void {
    const own = this.#offered && base.stage.some((size, at) => size !== this.base.stage[at]); // the answer to the offer: the kernel answers in order
    if (own) this.#offered = false;
    if (this.#page) return this.#underneath(base);
    this.#late = own && !this.#expected && this.#busy ? base : null;
    if (this.#late) return;
    this.#expected = false;
    const turned = base.direction !== this.base.direction;
    const asked = this.#asked;
    const kept = asked.length || turned || !this.#camera.moved ? asked : [this.chosen?.dataset["nodeId"] ?? this.#middle()];
    this.#asked = [];
    if (!asked.length && !turned) this.whatIf?.forget();
    remember(base, this.base);
    this.base = base;
    this.#status.hidden = true;
    this.#about();
    this.#redraw(kept, asked.length > 0);
    this.#seek();
  }

  /** The node in the middle of the visible part. */
  #middle(): string {
    const { clientWidth, clientHeight } = this.#stage;
    const [x, y] = this.#camera.place.invert([clientWidth / 2, clientHeight / 2]);
    const far = ([, box]: [string, Box]) => Math.hypot(box.x + box.width / 2 - x, box.y + box.height / 2 - y);
    return Object.entries(this.scene.picture.layout.nodes).sort((a, b) => far(a) - far(b))[0]?.[0] ?? "";
  }

  /** Draw again, with these modules or this node in the place where they were. With `all`, bring them into sight. */
  #redraw(ids: string[], all: boolean): void {
    const [before, place] = [this.scene.around(ids), this.#camera.place];
    this.#close();
    this.#draw();
    this.#room.measure();
    const box = this.scene.around(ids);
    if (!before || !box) this.#firstLook();
    else this.#camera.keep(this.scene.size, place, before, box, all);
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
    this.#table.replace(this.scene.description);
    this.overlay(this.#overlaid);
    this.#timeline.replace(this.scene.description.history);
    this.#memory.replace(this.scene.description);
    this.whatIf?.paint();
    this.answers.paint();
    this.#code.replace(this.scene);
    this.#card.hide();
  }

  // --- selection ------------------------------------------------------------------------------------------------

  readonly #go = (id: string): void => this.node(id);

  /** Choose a node. Unless it was clicked in the picture (`here`), go to it, at a scale at which it can be read. */
  node(id: string, here = false): void {
    if (!here) this.#leap();
    const { description, drawing } = this.scene;
    const node = this.scene.node(id);
    const element = drawing.nodes.get(node?.id ?? "");
    if (!element || !node) return;
    if (this.#pathFrom !== null && original(description, this.#pathFrom) !== original(description, id)) {
      this.#light(between(description, this.#pathFrom, id));
      this.#pathFrom = null;
    }
    const panel = nodePanel(description, node, this);
    if (this.#timeline.earlier) panel.splice(1, 0, html("p", { class: "nbg-finding" }, translate("The numbers below are of the last backward.")));
    this.#choose(element, panel);
    if (!here) this.#show(this.scene.box(node.id));
  }

  edge(id: string): void {
    const edge = this.scene.edge(id);
    const element = this.scene.drawing.edges.get(id);
    if (edge && element) this.#choose(element, edgePanel(this.scene.description, edge, this));
  }

  mark(id: string, here = false): void {
    if (!here) this.#leap();
    const edge = this.scene.edge(id);
    const element = this.scene.drawing.marks.get(id) ?? this.scene.drawing.edges.get(id);
    if (!element || !edge) return;
    this.#choose(element, markPanel(this.scene.description, edge, this));
    if (!here) this.#show(this.scene.boxOf(element) ?? this.scene.box(edge.target));
  }

  /** Go to where the lines of a jump go on: with each click to another one of these boxes. */
  hop(jump: Jump): void {
    const ends = farEnds(jump, this.scene.description);
    this.node(ends[(ends.indexOf(this.chosen?.dataset["nodeId"] ?? "") + 1) % ends.length] ?? "");
  }

  /** Note where the reader comes from, for the way back. */
  #leap(): void {
    this.#origin ??= this.#camera.place;
  }

  #show(box: Box | undefined): void {
    if (box) this.#camera.show(box, this.#camera.legible);
    this.#offer();
  }

  /** Show the button for the way back while there is a place to go back to. */
  #offer(): void {
    this.#return.hidden = !this.#origin;
  }

  readonly #goBack = (): void => {
    const origin = this.#origin;
    this.#forget();
    this.leave();
    if (origin) this.#camera.glide(origin);
  };

  #forget(): void {
    this.#origin = null;
    this.#return.hidden = true;
  }

  focus(id: string, what: "ancestors" | "descendants" | "path"): void {
    this.#pathFrom = what === "path" ? id : null;
    if (what === "path") this.#say(translate("Click the box at the other end of the path."));
    else this.#light(reach(this.scene.description, id, what));
  }

  /** Light these alone, and show all of them. */
  #light(ids: Set<string>): void {
    this.#only(ids);
    const { description } = this.scene;
    const lit = description.nodes.filter(({ id }) => ids.has(original(description, id))).map(({ id }) => id);
    if (!lit.length) return;
    this.#leap();
    const box = this.scene.hull(lit);
    if (box) this.#camera.show(box);
    this.#offer();
    const { kernel, chosen } = this;
    const detailed = lit.join();
    if (!kernel || kernel.gone || this.whatIf?.on || detailed === this.#detailed || !lit.some((id) => this.scene.picture.layout.forms[id])) return;
    this.#detailed = detailed;
    this.#sought = () => {
      this.node(chosen?.dataset["nodeId"] ?? "", true);
      this.#light(ids);
    };
    this.#ask(kernel, {}); // with more in these boxes
  }

  /** The nodes that keep most of their lines in another layout: those that are highlighted, else the chosen one and those of the marked line. */
  get #near(): string[] {
    const kept = this.#stage.matches(".nbg-only") ? ":not(.nbg-out)" : ".nbg-chosen, .nbg-of-line";
    return [...this.scene.drawing.nodes].flatMap(([id, element]) => (element.matches(kept) ? [id] : []));
  }

  get place(): Place {
    const { folded } = this.base;
    const same = folded.length === this.#closed.size && folded.every((scope) => this.#closed.has(scope));
    return { node: this.chosen?.dataset["nodeId"] ?? null, step: this.#player.at, folded: same && !this.base.first ? null : [...this.#closed] };
  }

  /** Show what a link says; the modules that its node is in are open. */
  go({ node, step, folded }: Place): void {
    const { description, layout, folded: atFirst } = this.#whole ?? this.base;
    const scopes = new Map(description.scopes.map((scope) => [scope.id, scope]));
    const of = original(description, node ?? "");
    const found = nodeOf(description, node ?? "") ?? description.nodes.find(({ id }) => original(description, id) === of);
    const left = (folded || (found && !this.scene.node(found.id))) && this.#leaveFirst();
    const closed = new Set((folded ?? (this.#whole ? [] : atFirst)).filter((scope) => layout.scopes[scope]));
    for (const scope of within(scopes, found?.scope ?? null)) closed.delete(scope);
    if (left || [...closed].sort().join() !== [...this.#closed].sort().join()) {
      this.#closed.clear();
      for (const scope of closed) this.#closed.add(scope);
      this.#redraw([], false);
    }
    if (step > 0 && this.scene.description.steps.length) this.#player.open(true, false, step);
    else if (this.#player.shown) this.#player.open(false);
    if (node === null) return;
    if (this.scene.node(node)) this.node(node);
    else this.#say(translate("The link leads to a box “{node}”, which is not in this picture.", { node }));
  }

  /** Copy a text, and say so. */
  copy(text: string, what = text): void {
    void copied(text, this.root).then((done) => this.#say(done ? translate("Copied {what}.", { what }) : translate("This page may not use the clipboard. Copy it from here: {text}", { text })));
  }

  /** Fold or unfold: here if the picture holds the data for it, else by the kernel. */
  toggle(holds: string[]): void {
    const [first] = holds;
    if (first === undefined) return;
    const run = holds.length > 1;
    // The whole picture has a folded box for each call of a run, and no frame to fold around a module of one box.
    if (this.#leaveFirst() && (run || !this.base.layout.scopes[first])) return this.#redraw(holds, true);
    if (this.base.layout.scopes[first]) {
      const open = this.#closed.has(first);
      for (const scope of [first, this.base.description.twins[first] ?? first]) open ? this.#closed.delete(scope) : this.#closed.add(scope);
      this.#redraw(holds, true);
    } else if (this.kernel) {
      this.#asked = holds;
      this.#ask(this.kernel, { toggle: holds });
    }
    else this.#say(translate("This file does not have the boxes of this module."));
  }

  /** Replace the first picture by the whole one, with the same modules folded. Return whether there is a whole one. */
  #leaveFirst(): boolean {
    const whole = this.#whole;
    if (!whole) return false;
    const turned = whole.direction !== this.base.direction && whole.turned;
    this.base = turned ? { ...whole, direction: this.base.direction, layout: turned, turned: whole.layout } : whole;
    this.#whole = null;
    for (const scope of whole.folded) this.#closed.add(scope);
    this.#about();
    return true;
  }

  /** Whether the reader looks at details or walks the steps: a picture that was not asked for would close them. */
  get #busy(): boolean {
    return !this.#panel.hidden || this.#player.shown;
  }

  /** A moment after the last change, see to it that the picture fits its stage. */
  #rest(): void {
    clearTimeout(this.#resizing);
    this.#resizing = window.setTimeout(() => (this.#late && !this.#busy ? this.replace(this.#late) : this.#offerStage()), STILL);
  }

  /** If the stage is much larger or smaller than the one for which the picture was laid out, or too small to read it, ask the kernel for another layout: once for each size, because another page may show the same view on another stage. */
  #offerStage(): void {
    const { kernel, base } = this;
    const [size, { by, legible }] = [this.scene.size, this.#camera];
    const page = this.#room.stage;
    const stage = page.map((size) => size / by) as [number, number];
    const tight = stage.some((now, at) => now * by < size[at]! * legible * 0.999);
    const other = (known: number[]) => stage.some((now, at) => Math.max(known[at]!, now) > MUCH * Math.min(known[at]!, now) || (tight && now < known[at]! - 1));
    if (!kernel || kernel.gone || !stage[0] || this.#page || this.#busy || !base.description.nodes.length) return;
    if (!other(base.stage) || !other(this.#told)) return;
    this.#told = stage;
    this.#offered = true;
    kernel.ask({ stage: page, near: this.#near });
  }

  /** Another picture, if a kernel can make one. */
  #ask(kernel: Kernel, request: Parameters<Kernel["ask"]>[0]): void {
    this.#expected = true;
    if (this.#page) {
      if (request.toggle) this.#toggled.push(request.toggle);
      this.#turned = request.direction ?? this.#turned;
      kernel.project({ stage: this.#room.stage, toggled: this.#toggled, direction: this.#turned, near: this.#near });
    } else kernel.ask({ ...request, near: this.#near });
    this.#say(translate(kernel.gone ? GONE : ASKED));
  }

  #say(text: string): void {
    this.#status.textContent = this.#status.title = text;
    this.#status.hidden = false;
  }

  get moving(): boolean {
    return this.#camera.moving;
  }

  reveal(box: Box | undefined): void {
    if (box) this.#camera.reveal(box);
  }

  #choose(element: SVGGElement, content: Node[]): void {
    flag(this.chosen, "chosen", false);
    this.chosen = element;
    flag(element, "chosen", true);
    this.#open(content, this.scene.boxOf(element), element.hasAttribute("aria-expanded"));
    if (this.#player.shown) this.#player.play(false);
    if (element.hasAttribute("tabindex")) this.scene.go(element);
    this.scene.paint.highlight(element);
    this.changed();
  }

  #open(content: Node[], box?: Box, again = false): void {
    this.#status.hidden = this.#pathFrom === null;
    this.#tool = null;
    this.#panel.replaceChildren(closeButton(() => this.#leavePanel()), ...content);
    this.#showPanel(true, box, again);
    this.#panel.scrollTop = 0;
  }

  /** Show or hide the panel. The picture makes way for it: at once, or, if a second click may follow (`again`), a moment later. A click in this moment goes through the panel. */
  #showPanel(shown: boolean, box?: Box, again = false): void {
    clearTimeout(this.#waiting);
    this.#panel.hidden = !shown;
    this.#camera.about = box;
    this.#press();
    flag(this.#panel, "through", again);
    if (!again) return this.#lay();
    this.#waiting = window.setTimeout(() => {
      flag(this.#panel, "through", false);
      this.#lay();
    }, AGAIN);
  }

  /** Say which tools have something open. */
  #press(): void {
    const by = this.#panel.hidden ? undefined : this.#tool?.dataset["testid"];
    press(this.#bar, {
      steps: this.#player.shown, history: this.#timeline.shown, memory: this.#memory.shown, "as-table": this.#table.shown,
      reductions: by === "nbgrad-reductions", findings: by === "nbgrad-findings", legend: by === "nbgrad-legend",
    });
  }

  #lay(): void {
    const { width, height } = this.#panel.getBoundingClientRect(); // 0 if it is hidden
    this.#covered = width >= this.#stage.clientWidth ? [0, height] : [width, 0]; // below, in a narrow view
    this.#covered.forEach((size, at) => this.root.style.setProperty(at ? "--nbg-bottom" : "--nbg-right", `${size}px`));
    this.#camera.beside(this.#covered);
  }

  #close(): void {
    if (!this.#panel.hidden) this.#showPanel(false);
    this.#unchoose();
  }

  #unchoose(): void {
    flag(this.chosen, "chosen", false);
    this.chosen = null;
    this.scene.paint.highlight(null);
    this.changed();
    this.#rest();
  }

  /** Let all but these nodes step back until Escape; null shows everything. */
  #only(ids: Set<string> | null): void {
    this.scene.paint.only(ids);
    if (ids === null) this.#status.hidden = true;
    else this.#say(translate(ids.size ? "Only these boxes are highlighted. Escape shows everything." : "There is no path between the two. Escape shows everything."));
  }

  // --- the projector ----------------------------------------------------------------------------------------------

  get projected(): boolean {
    return this.#projector.on;
  }

  project = (): void => void (this.projected ? this.#projector.leave() : this.#projector.enter());

  /** Letters of another size. */
  #magnify(large: boolean): void {
    this.#camera.by = large ? PROJECTOR : 1;
    flag(this.root, "large", large);
    const said = [...(this.whatIf ? [this.whatIf.banner] : []), this.#status];
    if (large) this.#below.append(...said);
    else this.#bar.before(...said);
  }

  /** The view has got the whole screen, or is in its page again. */
  #screened(): void {
    this.#room.full = this.projected;
    if (!this.projected) return this.#page?.();
    const [{ base, place }, whole, closed, back] = [this, this.#whole, [...this.#closed], this.#camera.kept()];
    this.#page = () => {
      this.#page = null;
      this.#clear();
      this.#magnify(this.picture.projected);
      this.#restore(base, whole, closed);
      this.#room.measure();
      if (place.step) this.#player.open(true, false, place.step);
      else if (place.node) this.node(place.node, true);
      back();
      this.refocus();
    };
    [this.#toggled, this.#turned] = [[], null];
    this.#clear();
    this.#magnify(true);
    this.#firstLook();
    this.refocus(this.#stage);
    const { kernel, picture } = this;
    if (kernel) this.#ask(kernel, {});
    else if (picture.large) this.enlarge(picture.large);
  }

  /** Close all that is open. */
  #clear(): void {
    if (this.#player.shown) this.#player.open(false);
    if (this.#timeline.shown) this.#timeline.open(false);
    if (this.#memory.shown) this.#memory.open(false);
    this.#table.open(false);
    this.#close();
    this.#status.hidden = true;
  }

  #restore(base: Picture, whole: Picture | null, closed: string[]): void {
    [this.base, this.#whole] = [base, whole];
    this.#closed.clear();
    for (const scope of closed) this.#closed.add(scope);
    this.#about();
    this.#draw();
  }

  /** The picture for the projector has come. */
  enlarge(large: Picture): void {
    if (!this.#page) return;
    const asked = this.#asked;
    this.#asked = [];
    remember(large, this.base);
    this.base = large;
    this.#closed.clear();
    this.#whole = this.kernel ? null : { ...this.picture, folded: large.folded };
    this.#status.hidden = true;
    this.#about();
    this.#redraw(asked, asked.length > 0);
    this.#seek();
  }

  /** A picture has come for the page below the projector. */
  #underneath(base: Picture): void {
    remember(base, this.base);
    this.#page = () => {
      this.#page = null;
      this.#clear();
      this.#magnify(this.picture.projected);
      this.#restore(base, null, base.folded);
      this.#room.measure();
      this.#firstLook();
    };
    this.#ask(this.kernel!, {});
  }

  // --- the tools ------------------------------------------------------------------------------------------------

  mode = (mode: Mode): void => {
    for (const one of ["forward", "backward", "both"]) {
      flag(this.root, one, one === mode);
      const button = this.root.querySelector<HTMLElement>(`[data-testid=nbgrad-${one}]`)!;
      attribute(button, "aria-checked", one === mode);
      if (one === mode) rove(button);
    }
  };

  /** Colour by `key`. The history has colours of its own: its panel opens. */
  colour = (key: string): void => {
    if ((key === "history") !== this.#timeline.shown) this.past();
    if (key !== "history") this.overlay(key);
  };

  overlay(key: string): void {
    this.#overlaid = key;
    this.#bar.querySelector<HTMLSelectElement>("[data-testid=nbgrad-overlay]")!.value = key;
    const scale = isThumbnail(key) ? thumbnailKey(this.scene.description, key) : scaleOf(this.scene.description, key);
    this.#scale.replaceChildren(...(scale ? [scale] : []));
    this.scene.paint.overlay(isThumbnail(key) ? "" : key);
    thumbnails(this.scene.drawing, this.scene.picture, key);
  }

  /** Show what fits; go `by` places on from the one that is chosen. */
  search = (query: string, by: number): void => {
    const [found, said] = matches(this.scene.description, query);
    for (const [id, element] of this.scene.drawing.nodes) flag(element, "match", found.includes(id));
    const here = found.indexOf(this.chosen?.dataset["nodeId"] ?? "");
    const at = by ? (here < 0 && by < 0 ? found.length - 1 : (here + by + found.length) % found.length) : 0;
    const then = found[at] ?? "";
    this.#found.textContent = by && found.length > 1 ? `${translate("{at} of {count} boxes", { at: at + 1, count: found.length })}, ${said}` : said;
    if (!by) return this.reveal(this.scene.box(then));
    this.#leap();
    if (!this.#unfoldAround(query, then)) this.node(then);
  };

  /** If a search found something only inside a folded node, unfold its module. Return whether that is done or asked for. */
  #unfoldAround(query: string, id: string): boolean {
    const holds = this.scene.node(id)?.holds ?? [];
    if (!holds.length || matches({ ...this.scene.description, hidden: { nodes: [], reductions: [] } }, query)[0].includes(id)) return false;
    const here = !!(this.#whole ?? this.base.layout.scopes[holds[0] ?? ""]);
    if (!here && (!this.kernel || this.kernel.gone)) return false;
    this.#sought = () => this.search(query, 1);
    this.toggle(holds);
    if (here) this.#seek();
    return true;
  }

  /** Go on to the node that was searched or ranked, in a module that is unfolded now. */
  #seek(): void {
    const go = this.#sought;
    this.#sought = () => {};
    go();
  }

  /** Go to a node; the folded modules that it is in are unfolded one after the other. `last`: the one that was unfolded before. */
  #reach(ranked: Ranked, last = ""): void {
    const { description } = this.scene;
    if (this.scene.node(ranked.node)) return this.node(ranked.node);
    const box = homeOf(description, ranked.scope);
    if (!box) return this.#say(translate("{name} is not drawn in this picture.", { name: ranked.name }));
    const here = !!(this.#whole ?? this.base.layout.scopes[box.holds[0] ?? ""]);
    const holds = box.holds.join();
    if (holds === last || (!here && (!this.kernel || this.kernel.gone))) return this.node(box.id);
    this.#sought = () => this.#reach(ranked, holds);
    this.toggle(box.holds);
    if (here) this.#seek();
  }

  reductions = (): void => this.#list(reductionsPanel);
  findings = (): void => this.#list(findingsPanel);
  legend = (): void => this.#list((description) => legendPanel(description, this.scene.picture.layout));

  /** Open the list of a tool and give it the focus. When the list closes, the tool has the focus again. */
  #list(panel: typeof findingsPanel): void {
    this.#close();
    this.#open(panel(this.scene.description, this));
    this.#tool = document.activeElement as HTMLElement | null;
    this.#press();
    this.refocus(this.#panel);
  }

  steps = (): void => {
    this.whatIf?.reset();
    if (this.#timeline.shown) this.#timeline.open(false);
    this.#player.open(!this.#player.shown);
    this.#press();
  };
  showTable = (): void => {
    this.#table.open(!this.#table.shown);
    this.#press();
    if (this.#table.shown) this.#table.root.focus({ preventScroll: true });
    else this.refocus();
  };
  scale = (factor: number): void => this.#camera.scale(factor);
  fit = (): void => {
    if (this.#status.textContent === translate(PART)) this.#status.hidden = true; // first of all, because the picture has more room without this line
    this.#room.measure();
    this.#camera.fit();
    const said = this.#points();
    if (said) this.#say(said);
  };

  turn = (): void => {
    const direction = this.base.direction === "TB" ? "LR" : "TB";
    if (this.base.turned) {
      this.base = { ...this.base, direction, layout: this.base.turned, turned: this.base.layout };
      this.#redraw([], false);
    } else if (this.kernel) this.#ask(this.kernel, { direction });
    else this.#say(translate("This file has this picture in one direction."));
  };

  past = (): void => {
    this.whatIf?.reset();
    if (this.#player.shown) this.#player.open(false);
    this.#timeline.open(!this.#timeline.shown);
    this.#press();
  };

  memory = (): void => {
    this.#memory.open(!this.#memory.shown);
    this.#press();
  };

  /** Say in the title what the backward of a frame started from; null for the last backward. A run with other numbers says it in its own line. */
  #started(frame: number | null): void {
    const { losses, history: { frames } } = this.base.description;
    const { loss, value } = frames[frame ?? -1] ?? {};
    const last = frame === null || frame === frames.length - 1;
    tellLosses(this.#title, last ? lossesOf(this.base.description) : value ? `${loss ?? losses[0]?.name} ${value.slice(6)}` : "");
  }

  #at(frame: number | null, other: number | null): void {
    this.#started(frame);
    this.overlay(frame === null ? "" : "history");
    this.#press();
    this.scene.paint.frame(frame);
    if (frame !== null && other !== null) this.#open(differencePanel(this.scene.description, other, frame));
    else if (this.#panel.querySelector(".nbg-norms")) this.#close();
  }

  #step(step: Step | null, at: number): void {
    const told = this.scene.paint.step(step, at);
    const { by, place } = this.#camera;
    this.scene.forms.at(place.k / by, by > 1, true);
    this.#press();
    if (!step) return this.#close();
    this.#unchoose(); // it is no part of the walk
    this.#open(stepPanel(this.scene.description, step), this.scene.box(step.node));
    // First the boxes that the step leads to, then what is written there and its own box: so as much as possible of the way between them is in sight.
    if (step.rewrite) this.reveal(this.scene.box(step.rewrite.after));
    for (const { edge } of step.given) this.reveal(this.scene.box(this.scene.edge(edge)?.source ?? ""));
    told.forEach((box) => this.reveal(box));
    this.reveal(this.scene.box(step.node));
  }

  // --- pan and zoom ---------------------------------------------------------------------------------------

  /** The first content of the picture. */
  #begin(): void {
    this.#firstLook();
    const { opens } = this.#whole ?? this.base;
    if (opens === "flow") this.mode("forward");
    if (opens === "steps" && this.scene.description.steps.length) this.#player.open(true, false);
    this.begun();
  }

  #firstLook(): void {
    const { nodes } = this.scene.description;
    const roots = nodes.filter((node) => node.root || node.kind === "failed");
    const look = () => this.#camera.look(this.scene.size, this.scene.box((roots[roots.length - 1] ?? nodes[0])?.id ?? ""));
    const said = look() ? translate(PART) : this.#points();
    if (!said) return;
    this.#say(said);
    this.#room.measure();
    look(); // the line may have taken some of the room
    if (said !== translate(PART)) this.#say(this.#points());
  }

  /** Say how large the letters are if they are too small for a projector. */
  #points(): string {
    const { by, place } = this.#camera;
    const points = Math.floor(this.scene.forms.letters(place.k / by) * by * 0.75 + 0.01);
    return by > 1 && points < POINTS ? translate("All of the graph fits with letters of {points} points, not with {wanted}.", { points, wanted: POINTS }) : "";
  }

  /** The wheel, or one finger, scrolls the page that the view is in, if it can be scrolled. */
  #wants(event: Event): boolean {
    const { scrolls } = this.#room;
    if (event instanceof WheelEvent) return event.ctrlKey || event.metaKey || !scrolls || this.#tell(translate(WHEEL));
    if (event instanceof MouseEvent) return !event.button && !event.ctrlKey;
    return (event as TouchEvent).touches.length > 1 || !scrolls;
  }

  /** Show for a moment a hint how the picture is moved. Return false: the picture does not use the event. */
  #tell(how: string): false {
    clearTimeout(this.#hinting);
    this.#hint.textContent = how;
    flag(this.#hint, "shown", true);
    this.#hinting = window.setTimeout(() => flag(this.#hint, "shown", false), HINT);
    return false;
  }

  #listen(): void {
    listen(this.#stage, "click", (event) => {
      if (event.target === this.#stage) this.#close();
    });
    listen(this.#stage, "pointerover", ({ target, pointerType }) => {
      const element = (target as Element).closest<SVGGElement>(".nbg-node");
      this.#code.mark(this.scene.node(element?.dataset["nodeId"]));
      if (pointerType !== "touch") this.#card.over(element, this.scene);
    });
    for (const type of ["pointerleave", "pointerdown", "wheel"] as const)
      this.#stage.addEventListener(type, () => this.#card.hide(), { passive: true });
    listen(this.#stage, "pointerleave", () => this.#code.mark(undefined));
    this.#stage.addEventListener("touchmove", ({ touches }) => void (touches.length > 1 || !this.#room.scrolls || this.#tell(translate(FINGERS))), { passive: true });
    // After a press anywhere in the picture the keys work in it; a press on a node focuses the node.
    listen(this.#stage, "pointerdown", () => this.refocus(this.#stage));
  }

  /** Close the open part and light everything: the action of Escape. */
  leave(): void {
    this.#pathFrom = null;
    this.#forget();
    this.#only(null);
    this.#leavePanel();
  }

  /** Close the panel, or the table; if the focus was in there it goes back to where it came from. */
  #leavePanel(): void {
    const inside = document.activeElement?.closest(".nbg-panel, .nbg-table");
    const back = this.chosen ?? this.#tool;
    this.#table.open(false);
    this.#press();
    this.#close();
    if (inside) this.refocus(back);
  }

  /** The keys go on from the node that is chosen, or from the one that had the focus last. */
  refocus(to: HTMLElement | SVGElement | null = this.chosen): void {
    this.scene.lights = false; // closing something must not dim the other boxes
    (to ?? this.#stage.querySelector<SVGGElement>("[tabindex='0']"))?.focus({ preventScroll: true });
    this.scene.lights = true;
  }
}
