// A map of a picture that is larger than the window: where the window is, and a way to move it.

import type { Camera } from "./camera";
import type { Box, Picture } from "./description";
import { attribute, flag, html, listen, svg } from "./dom";
import type { Placement } from "./gestures";
import { translate } from "./language";

const [WIDTH, HEIGHT] = [150, 110]; // at most, in pixels
const PART = 0.28; // of the window, at most
const ASIDE = 10; // from the edges of the window
const CORNERS = [[0, 0], [1, 0], [0, 1], [1, 1]] as const; // right or not, low or not
const WAYS: Record<string, [number, number]> = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [1, 0], ArrowRight: [-1, 0] };

export class Minimap {
  readonly root = html("div", { class: "nbg-minimap", testid: "minimap", role: "application", tabindex: 0, hidden: "" });
  readonly #window = svg("rect", { class: "nbg-minimap-window" });
  #picture: Picture | null = null; // until it is drawn
  #size: [number, number] = [1, 1];
  #boxes: [Box, number][] = []; // each with a weight: how bad it is to cover it

  constructor(private readonly camera: Camera) {
    listen(this.root, "pointerdown", (event) => {
      this.root.setPointerCapture(event.pointerId);
      this.#go(event);
    });
    listen(this.root, "pointermove", (event) => {
      if (this.root.hasPointerCapture(event.pointerId)) this.#go(event);
    });
  }

  /** Another picture is shown; it is drawn here when it does not fit the window. */
  replace(picture: Picture): void {
    this.#picture = picture;
    this.#size = [picture.layout.width, picture.layout.height];
  }

  /** The window has moved. */
  look({ x, y, k }: Placement, width: number, height: number, moving: boolean): void {
    const [w, h] = this.#size;
    const [x0, y0] = [Math.max(0, -x / k), Math.max(0, -y / k)];
    const [x1, y1] = [Math.min(w, (width - x) / k), Math.min(h, (height - y) / k)];
    const seen = (Math.max(0, x1 - x0) * Math.max(0, y1 - y0)) / (w * h);
    this.root.hidden = !width || seen > 0.98;
    if (this.root.hidden) return;
    if (this.#picture) this.#draw(this.#picture, width, height);
    for (const [name, value] of Object.entries({ x: x0, y: y0, width: Math.max(0, x1 - x0), height: Math.max(0, y1 - y0) }))
      attribute(this.#window, name, value);
    if (moving) return;
    attribute(this.root, "aria-label", translate("Map of the graph: {seen} percent are in sight. Arrow keys move the picture.", { seen: Math.round(100 * seen) }));
    if (!this.root.matches(":focus, :hover")) this.#makeWay({ x, y, k }, width, height);
  }

  /** Stand in the corner where the least of the boxes is covered. */
  #makeWay({ x, y, k }: Pick<Placement, "x" | "y" | "k">, width: number, height: number): void {
    const { offsetWidth: w, offsetHeight: h } = this.root;
    const along = (from: number, size: number, start: number, room: number) => Math.max(0, Math.min(from + size * k, start + room) - Math.max(from, start));
    const covered = CORNERS.map(([right, low]) => {
      const [left, top] = [right ? width - w - ASIDE : ASIDE, low ? height - h - ASIDE : ASIDE];
      return this.#boxes.reduce((sum, [box, weight]) => sum + weight * along(x + box.x * k, box.width, left, w) * along(y + box.y * k, box.height, top, h), 0);
    });
    const [right, low] = CORNERS[covered.indexOf(Math.min(...covered))]!;
    flag(this.root, "east", !!right);
    flag(this.root, "low", !!low);
  }

  /** Move by a quarter of the window. */
  key(event: KeyboardEvent): boolean {
    const way = WAYS[event.key];
    if (way) this.camera.pan(way[0] / 4, way[1] / 4);
    return !!way;
  }

  #draw({ layout, description }: Picture, width: number, height: number): void {
    this.#picture = null;
    const [w, h] = this.#size;
    const k = Math.min(Math.min(WIDTH, PART * width) / w, Math.min(HEIGHT, PART * height) / h);
    const outline = ({ x, y, width, height }: Box) => `M${x} ${y}h${width}v${height}h${-width}z`;
    const boxes = (which: (id: string) => boolean) => description.nodes.filter(({ id, row }) => row === null && which(id)).map(({ id }) => outline(layout.nodes[id]!)).join("");
    const roots = new Set(description.nodes.filter(({ root, kind }) => root || kind === "failed").map(({ id }) => id));
    const arrows = Object.values(layout.scopes).map((box): [Box, number] => [{ ...box, width: 90, height: 24 }, 3]);
    this.#boxes = description.nodes.flatMap(({ id, row }): [Box, number][] => {
      const box = layout.nodes[id]!;
      const title = { ...box, width: 0.6 * box.width, height: 24 };
      return row === null ? [[box, roots.has(id) ? 20 : 1], [title, 3]] : [];
    }).concat(arrows);
    this.root.replaceChildren(svg("svg", { viewBox: `0 0 ${w} ${h}`, width: w * k, height: h * k, preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("path", { class: "nbg-minimap-frame", d: Object.values(layout.scopes).map(outline).join("") }),
      svg("path", { class: "nbg-minimap-box", d: boxes((id) => !roots.has(id)) }),
      svg("path", { class: "nbg-minimap-root", d: boxes((id) => roots.has(id)) }),
      this.#window));
  }

  #go(event: PointerEvent): void {
    const { left, top, width, height } = this.root.firstElementChild!.getBoundingClientRect();
    this.camera.go(((event.clientX - left) / width) * this.#size[0], ((event.clientY - top) / height) * this.#size[1]);
  }
}
