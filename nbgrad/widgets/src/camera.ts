// Pan and zoom: where the reader looks at.

import { select } from "d3-selection";
import { type ZoomBehavior, type ZoomTransform, zoom, zoomIdentity, zoomTransform } from "d3-zoom";
import { FAR } from "./cull";
import type { Box } from "./description";
import { flag } from "./dom";

const READABLE = 0.9; // at this scale the smallest letters are 10 pixels high

interface Zoomed {
  transform: ZoomTransform;
  sourceEvent: Event | null; // null where nobody did it by hand
}

export class Camera {
  readonly #zoom: ZoomBehavior<SVGSVGElement, unknown>;
  moving = false; // by hand, just now
  #size: [number, number] = [1, 1]; // of the drawing
  #seen: [number, number] = [0, 0]; // the stage when it was last looked at; 0 before it is in the page

  constructor(private readonly stage: SVGSVGElement, wants: (event: Event) => boolean, moved: (to: ZoomTransform, moving: boolean) => void, rests: () => void) {
    this.#zoom = zoom<SVGSVGElement, unknown>()
      .scaleExtent([0.02, 4])
      .filter(wants)
      .on("start", ({ sourceEvent }: Zoomed) => {
        this.moving = !!sourceEvent;
      })
      .on("zoom", ({ transform }: Zoomed) => {
        flag(stage, "far", transform.k < FAR);
        moved(transform, true);
      })
      .on("end", ({ transform, sourceEvent }: Zoomed) => {
        this.moving = false;
        moved(transform, false);
        if (sourceEvent) rests();
      });
    select(stage).call(this.#zoom);
  }

  stop(): void {
    select(this.stage).on(".zoom", null);
  }

  /** Another drawing is shown: the whole of it if it can be read so, else what is around `start`; whether that is a part. */
  look(size: [number, number], start: Box | undefined): boolean {
    this.#size = size;
    const [width, height] = (this.#seen = this.#room());
    if (!width || !height) return false;
    this.fit();
    if (this.#fitted().k >= READABLE || !start) return false;
    const k = Math.min(1, Math.max(READABLE, width / size[0], height / size[1]));
    // As near to the middle as can be without a gap beside the drawing.
    const place = (room: number, whole: number, middle: number) => (whole * k <= room ? (room - whole * k) / 2 : Math.max(room - whole * k, Math.min(0, room / 2 - middle * k)));
    this.#set(place(width, size[0], start.x + start.width / 2), place(height, size[1], start.y + start.height / 2), k);
    return true;
  }

  /** Another drawing is shown, in which `box` stands where the reader last saw it. */
  keep(size: [number, number], before: Box, box: Box): void {
    this.#size = size;
    const at = zoomTransform(this.stage);
    const [dx, dy] = [before.x + before.width / 2 - box.x - box.width / 2, before.y + before.height / 2 - box.y - box.height / 2];
    this.#set(at.x + dx * at.k, at.y + dy * at.k, at.k);
  }

  fit(): void {
    this.#seen = this.#room();
    this.#zoom.transform(select(this.stage), this.#fitted());
  }

  /** Look at this point of the drawing. */
  go(x: number, y: number): void {
    const [[width, height], at] = [this.#room(), zoomTransform(this.stage)];
    this.#zoom.translateBy(select(this.stage), (width / 2 - at.x) / at.k - x, (height / 2 - at.y) / at.k - y);
  }

  /** Move the drawing by such parts of the window. */
  pan(x: number, y: number): void {
    const [width, height] = this.#room();
    const { k } = zoomTransform(this.stage);
    this.#zoom.translateBy(select(this.stage), (x * width) / k, (y * height) / k);
  }

  scale(factor: number): void {
    this.#zoom.scaleBy(select(this.stage), factor);
  }

  /** The stage has another size: what was seen whole still is, else what was in the middle stays there. */
  resized(first: () => void): void {
    const [[width, height], [w, h]] = [this.#room(), this.#seen];
    if (!width || (width === w && height === h)) return;
    if (!w) return first();
    const [at, was] = [zoomTransform(this.stage), this.#fitted(w, h)];
    this.#seen = [width, height];
    if (Math.abs(at.k - was.k) + Math.abs(at.x - was.x) < 1e-3) this.fit();
    else this.#zoom.translateBy(select(this.stage), (width - w) / 2 / at.k, (height - h) / 2 / at.k);
  }

  reveal(box: Box, panel: HTMLElement): void {
    const [width, whole] = this.#room();
    const overlaid = !panel.hidden && panel.offsetLeft < width; // in a narrow view it lies over the picture
    const height = overlaid ? whole - panel.offsetHeight : whole;
    const { x: x0, y: y0, k } = zoomTransform(this.stage);
    const [x, y] = [x0 + (box.x + box.width / 2) * k, y0 + (box.y + box.height / 2) * k];
    const [mx, my] = [Math.min(80, width / 4), Math.min(60, height / 4)];
    const shift = (at: number, half: number, margin: number, end: number) =>
      at >= half && at <= end - half ? 0 : Math.min(Math.max(at, margin, half + 8), end - Math.max(margin, half + 8)) - at;
    const [dx, dy] = [shift(x, (box.width / 2) * k, mx, width), shift(y, (box.height / 2) * k, my, height)];
    if (dx || dy) this.#zoom.translateBy(select(this.stage), dx / k, dy / k);
  }

  #room(): [number, number] {
    return [this.stage.clientWidth, this.stage.clientHeight];
  }

  #fitted(width = this.stage.clientWidth, height = this.stage.clientHeight): ZoomTransform {
    const [w, h] = this.#size;
    const k = Math.min(1.25, width / w, height / h);
    return zoomIdentity.translate((width - w * k) / 2, (height - h * k) / 2).scale(k);
  }

  #set(x: number, y: number, k: number): void {
    this.#zoom.transform(select(this.stage), zoomIdentity.translate(x, y).scale(k));
  }
}
