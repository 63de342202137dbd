// The titles of modules, as large on the screen as ever when the picture is small.

import type { Box, Picture } from "./description";
import { type Drawing, occupied } from "./draw";

const STEP = 1.25; // titles grow in steps of this factor, so that they do not move at every turn of the wheel
const MOST = 400; // with more modules than this, no title grows

/** A title: its frame, its text, and the text without the class of the module. */
interface Title {
  element: SVGGElement;
  frame: Box;
  label: string;
  brief: string;
  inside: Box[]; // what may stand below the title
}

const HEIGHT = 20;

/** How wide a title is at scale 1. */
const wide = (label: string): number => 22 + 6.6 * label.length;

/** Where the title of a frame stands, where it has grown by a step. */
export const titled = (frame: Box, label: string): Box => ({ ...frame, width: Math.min(frame.width, 4 + STEP * wide(label)), height: STEP * HEIGHT });

export class Titles {
  readonly #titles: Title[] = []; // outer ones first
  #power = 0; // of STEP

  constructor({ scopes }: Drawing, { description, layout }: Picture) {
    const boxes = description.scopes.length > MOST ? [] : [...description.nodes.flatMap((node) => occupied(node, layout)), ...Object.values(layout.scopes), ...Object.values(layout.marks), ...layout.jumps.map(({ box }) => box)];
    for (const { id, label } of description.scopes) {
      const [element, frame] = [scopes.get(id), layout.scopes[id]];
      if (element && frame) this.#titles.push({ element, frame, label, brief: label.split(" (")[0]!, inside: boxes.filter((box) => box !== frame && overlap(box, frame)) });
    }
    if (this.#titles.length > MOST) this.#titles.length = 0;
  }

  /** Draw each title at this scale as large as at scale 1, if its frame has room and no other title is in its place. */
  at(scale: number): void {
    const power = Math.max(0, Math.round(Math.log(1 / scale) / Math.log(STEP)));
    if (power === this.#power) return;
    this.#power = power;
    const taken: Box[] = [];
    for (const { element, frame, label, brief, inside } of this.#titles) {
      const factor = (width: number) => {
        let by = Math.min(STEP ** power, frame.width / width, frame.height / HEIGHT);
        for (const box of inside) // it covers no box, and no other frame
          if (box.y > frame.y && box.x < frame.x + width * by + 4) by = Math.min(by, Math.max((box.y - frame.y) / HEIGHT, (box.x - frame.x - 4) / width));
        return by;
      };
      const name = factor(wide(label)) * STEP < factor(wide(brief)) ? brief : label; // the class only where it costs no size
      const [width, by] = [wide(name), factor(wide(name))];
      element.querySelector("text")!.textContent = name;
      const [x, y] = [frame.x + 4, frame.y];
      const place = { x, y, width: width * by, height: HEIGHT * by };
      const free = by > 1 && !taken.some((other) => overlap(other, place));
      if (free) taken.push(place);
      element.classList.toggle("nbg-grown", free);
      if (free) element.setAttribute("transform", `translate(${x} ${y}) scale(${by}) translate(${-x} ${-y})`);
      else element.removeAttribute("transform");
    }
  }
}

function overlap(one: Box, other: Box): boolean {
  return one.x < other.x + other.width && other.x < one.x + one.width && one.y < other.y + other.height && other.y < one.y + one.height;
}
