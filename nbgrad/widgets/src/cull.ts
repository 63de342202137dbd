// Only the part of a large drawing near the window is drawn: browsers would draw the rest too, and need a second for it.

import type { Layout } from "./description";
import type { Drawing } from "./draw";
import type { Placement } from "./gestures";

const FEW = 400; // fewer parts than this are all drawn: they cost too little
export const FAR = 0.3; // below this scale no letters are drawn

type Extent = [x0: number, y0: number, x1: number, y1: number];

export class Cull {
  readonly #parts: [SVGGElement, Extent][] = [];
  readonly #far = new Set<SVGGElement>();
  #shown: Extent | null = null; // what is drawn, with a margin
  #scale = 0;

  constructor(drawing: Drawing, layout: Layout) {
    for (const [group, boxes] of [[drawing.nodes, layout.nodes], [drawing.marks, layout.marks]] as const)
      for (const [id, element] of group) {
        const box = boxes[id];
        if (box) this.#parts.push([element, [box.x, box.y, box.x + box.width, box.y + box.height]]);
      }
    for (const [id, element] of drawing.edges) {
      const points = (layout.edges[id] ?? []).flat();
      const label = layout.labels[id];
      if (label) points.push([label.x, label.y], [label.x + label.width, label.y + label.height]);
      const [xs, ys] = [points.map(([x = 0]) => x), points.map(([, y = 0]) => y)];
      this.#parts.push([element, [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)]]);
    }
  }

  /** The window has moved. While it still moves, parts are added, and parts are taken away only if the reader has zoomed in a lot. */
  look({ x, y, k }: Placement, width: number, height: number, moving: boolean): void {
    if (this.#parts.length < FEW || !width) return;
    const seen: Extent = [-x / k, -y / k, (width - x) / k, (height - y) / k];
    const old = this.#shown;
    const enough = old && seen[0] >= old[0] && seen[1] >= old[1] && seen[2] <= old[2] && seen[3] <= old[3];
    const nearer = k >= 2 * this.#scale || (k >= FAR && this.#scale < FAR);
    if (enough && !nearer && moving) return;
    const [mx, my] = [width / k / 2, height / k / 2];
    const [x0, y0, x1, y1] = (this.#shown = [seen[0] - mx, seen[1] - my, seen[2] + mx, seen[3] + my]);
    this.#scale = k;
    for (const [element, part] of this.#parts) {
      const near = part[2] > x0 && part[0] < x1 && part[3] > y0 && part[1] < y1;
      if (near === !this.#far.has(element)) continue;
      if (near) this.show(element);
      else if (nearer || !moving) {
        element.style.display = "none";
        this.#far.add(element);
      }
    }
  }

  /** Draw a part, wherever it is. */
  show(element: SVGGElement): void {
    element.style.display = "";
    this.#far.delete(element);
  }
}
