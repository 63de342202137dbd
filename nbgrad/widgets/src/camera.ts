// Pan and zoom: which part of the drawing the reader sees.

import { LARGEST, LEGIBLE } from "./constants";
import { FAR } from "./cull";
import type { Box } from "./description";
import { flag } from "./dom";
import { gestures, type Moved, Placement, type Spot } from "./gestures";

const SMALL = 0.25; // a picture that would be seen smaller than this opens at a part of it: there is hardly a word in its boxes
const OUT = 0.85; // of the scale at which all is seen: how far a reader can zoom out
const NEAR = 8; // the largest scale
const GLIDE = 200; // milliseconds
const EDGE = 12; // pixels between the picture and the edge of the stage

export class Camera implements Moved {
  by = 1; // how many times as large as elsewhere all is seen
  moving = false; // whether the reader is moving the drawing now
  moved = false; // by the reader, since the picture was shown
  about: Box | undefined; // what the open panel is about
  #now = new Placement(1, 0, 0);
  #least = 0.02; // the smallest scale
  #size: [number, number] = [1, 1]; // of the drawing
  #seen: [number, number] = [0, 0]; // the uncovered part of the stage when it was last measured; 0 before the stage is in the page
  #covered: [number, number] = [0, 0]; // how much of the stage a panel covers: at the right, and at the bottom
  #frame = 0;
  #gliding: Placement | null = null; // where the running glide ends
  #aside = false; // whether all was seen before a panel came, and all cannot be read beside it
  readonly #heard = new AbortController();

  constructor(private readonly stage: SVGSVGElement, private readonly readable: (k: number) => boolean, readonly wants: (event: Event) => boolean, private readonly told: (to: Placement, moving: boolean) => void, private readonly rests: () => void) {
    gestures(stage, this, this.#heard.signal);
  }

  stop(): void {
    this.#halt();
    this.#heard.abort();
  }

  /** The scale at which the smallest letters can just be read. */
  get legible(): number {
    return LEGIBLE * this.by;
  }

  /** Return what brings the drawing back to where it is now. */
  kept(): () => void {
    const { by, moved, place } = this;
    const [size, seen, least] = [this.#size, this.#seen, this.#least];
    return () => {
      [this.by, this.#size, this.#seen, this.#least, this.#aside] = [by, size, seen, least, false];
      this.#set(place);
      this.moved = moved;
    };
  }

  begin(): void {
    this.moving = this.moved = true;
    this.#aside = false;
    this.#halt();
  }

  lead(factor: number, from: Spot, to: Spot): void {
    this.#put(this.#now.led(this.#limited(this.#now.k * factor), from, to));
  }

  end(): void {
    this.moving = false;
    this.told(this.#now, false);
    this.rests();
  }

  #limited(k: number): number {
    return Math.max(this.#least, Math.min(NEAR, k));
  }

  #put(to: Placement): void {
    this.#now = to;
    flag(this.stage, "far", to.k < FAR * this.by);
    flag(this.stage, "small", to.k < this.legible * 0.995);
    this.told(to, true);
  }

  /** The place that the reader sees; during a glide, the place where it ends. */
  get place(): Placement {
    return this.#gliding ?? this.#now;
  }

  /** Show another drawing: all of it, if it is then large enough to be read, else the part around `start`. Return whether it is only a part. */
  look(size: [number, number], start: Box | undefined): boolean {
    this.#size = size;
    this.moved = false;
    const [width, height] = (this.#seen = this.#room());
    if (!width || !height) return false;
    this.#least = Math.min(this.legible, this.#fitted().k) * OUT;
    this.#set(this.#fitted());
    if (this.#fitted().k >= SMALL || this.by > 1 || !start) return false; // a lecturer shows all
    const k = Math.min(1, Math.max(LEGIBLE, width / size[0], height / size[1]));
    // As near to the middle as can be without a gap beside the drawing.
    const place = (room: number, whole: number, middle: number) => (whole * k <= room ? (room - whole * k) / 2 : Math.max(room - whole * k, Math.min(0, room / 2 - middle * k)));
    this.#set(at(place(width, size[0], start.x + start.width / 2), place(height, size[1], start.y + start.height / 2), k));
    return true;
  }

  /** Show another drawing, with `box` where `before` was when it was seen from `place`. With `all`, then bring all of `box` into sight. */
  keep(size: [number, number], place: Placement, before: Box, box: Box, all: boolean): void {
    this.#size = size;
    const [dx, dy] = [before.x + before.width / 2 - box.x - box.width / 2, before.y + before.height / 2 - box.y - box.height / 2];
    this.#set(at(place.x + dx * place.k, place.y + dy * place.k, place.k));
    if (all) this.show(box);
  }

  /** Glide until all of a box is seen. If it is too large to be read at once, show its beginning. */
  show(box: Box, least = 0): void {
    const [width, height] = this.#room();
    const was = this.place;
    const fit = Math.min((width - 2 * EDGE) / box.width, (height - 2 * EDGE) / box.height);
    const k = Math.min(Math.max(was.k, least), Math.max(this.legible, fit));
    const middle = was.invert([width / 2, height / 2]);
    const from = at(width / 2 - middle[0] * k, height / 2 - middle[1] * k, k);
    const shift = (room: number, begin: number, size: number) => {
      const edge = Math.max(EDGE, Math.min(60, (room - size) / 2));
      return size > room - 2 * EDGE ? EDGE - begin : Math.max(edge - begin, Math.min(0, room - edge - begin - size));
    };
    const [dx, dy] = [shift(width, from.x + box.x * k, box.width * k), shift(height, from.y + box.y * k, box.height * k)];
    this.glide(at(from.x + dx, from.y + dy, k));
  }

  fit(): void {
    this.moved = true;
    this.#aside = false;
    this.#seen = this.#room();
    this.#set(this.#fitted());
  }

  /** Look at this point of the drawing. */
  go(x: number, y: number): void {
    this.#aside = false;
    const [[width, height], { k }] = [this.#room(), this.#now];
    this.#set(at(width / 2 - x * k, height / 2 - y * k, k));
  }

  /** Move the drawing by these parts of the width and the height of the window. */
  pan(x: number, y: number): void {
    this.#aside = false;
    const [width, height] = this.#room();
    this.#set(this.#now.led(this.#now.k, [0, 0], [x * width, y * height]));
  }

  scale(factor: number): void {
    this.moved = true;
    this.#aside = false;
    const [width, height] = this.#room();
    this.#set(this.#now.led(this.#limited(this.#now.k * factor), [width / 2, height / 2]));
  }

  /** The stage has another size. If all of the picture was seen, fit it again; else keep its middle in the middle. */
  resized(first: () => void): void {
    const [[width, height], [w, h]] = [this.#room(), this.#seen];
    if (!width || (width === w && height === h)) return;
    if (!w) return first();
    const [was, whole] = [this.place, this.#aside || this.#whole()];
    this.#seen = [width, height];
    this.#set(whole ? this.#all() : at(was.x + (width - w) / 2, was.y + (height - h) / 2, was.k));
  }

  /** A panel covers this much of the stage. If all of the picture was seen, glide until all of it is seen again. What the panel is about stays in sight. */
  beside(covered: [number, number]): void {
    const whole = this.#aside || this.#whole();
    this.#covered = covered;
    this.#seen = this.#room();
    this.glide(this.#revealed(whole ? this.#all() : this.place, this.about));
  }

  /** From where all of the picture is seen; beside a panel only if it can be read from there, else only what the panel is about. */
  #all(): Placement {
    const [fitted, { k }] = [this.#fitted(), this.place];
    const small = this.by > 1 ? fitted.k < this.legible : this.about && fitted.k < k * 0.995 && (fitted.k < FAR || !this.readable(fitted.k));
    this.#aside = this.#covered.some(Boolean) && !!small;
    return this.#aside ? this.#revealed(this.place, this.about) : fitted;
  }

  reveal(box: Box): void {
    this.glide(this.#revealed(this.place, box));
  }

  /** Move to another place little by little, so that the reader sees where it is relative to this one. */
  glide(to: Placement): void {
    this.moved = true;
    const from = this.#now;
    if (from.x === to.x && from.y === to.y && from.k === to.k) return this.#halt();
    if (matchMedia("(prefers-reduced-motion: reduce)").matches || !this.#seen[0]) return this.#set(to);
    this.#halt();
    this.#gliding = to;
    const begin = performance.now();
    const step = (now: number) => {
      const done = Math.min(1, Math.max(0, now - begin) / GLIDE);
      const part = done * (2 - done);
      const between = (a: number, b: number) => a + (b - a) * part;
      this.#show(at(between(from.x, to.x), between(from.y, to.y), between(from.k, to.k)));
      if (done < 1) this.#frame = requestAnimationFrame(step);
      else this.#gliding = null;
    };
    this.#frame = requestAnimationFrame(step);
  }

  #halt(): void {
    cancelAnimationFrame(this.#frame);
    this.#gliding = null;
  }

  /** A place from which all of a box is seen, as near to another as can be. */
  #revealed(from: Placement, box: Box | undefined): Placement {
    if (!box) return from;
    const [width, height] = this.#room();
    const { x: x0, y: y0, k } = from;
    const [x, y] = [x0 + (box.x + box.width / 2) * k, y0 + (box.y + box.height / 2) * k];
    const [mx, my] = [Math.min(80, width / 4), Math.min(60, height / 4)];
    const shift = (at: number, half: number, margin: number, end: number) =>
      at >= half && at <= end - half ? 0 : Math.min(Math.max(at, margin, half + 8), end - Math.max(margin, half + 8)) - at;
    return at(x0 + shift(x, (box.width / 2) * k, mx, width), y0 + shift(y, (box.height / 2) * k, my, height), k);
  }

  /** Whether the whole drawing is seen as Fit shows it. */
  #whole(): boolean {
    const [now, fitted] = [this.place, this.#fitted(this.#seen)];
    return Math.abs(now.k - fitted.k) + Math.abs(now.x - fitted.x) < 1e-3;
  }

  /** The part of the stage that nothing covers. */
  #room(): [number, number] {
    const [right, bottom] = this.#covered;
    const { clientWidth: width, clientHeight: height } = this.stage;
    return [width && Math.max(1, width - right), height && Math.max(1, height - bottom)];
  }

  #fitted([width, height] = this.#room()): Placement {
    const [w, h] = this.#size;
    const k = Math.min(LARGEST * this.by, width / w, height / h);
    return at((width - w * k) / 2, (height - h * k) / 2, k);
  }

  #show(to: Placement): void {
    this.#put(to);
    this.told(to, false);
  }

  #set(to: Placement): void {
    this.#halt();
    this.#show(to);
  }
}

const at = (x: number, y: number, k: number): Placement => new Placement(k, x, y);
