// The lines of the code: beside the names of ops, and in JupyterLab marked in the cell while a box is under the pointer.

import type { Node as GraphNode } from "./description";
import { flag, svg } from "./dom";
import { translate } from "./language";
import type { Scene } from "./scene";
import { widthOf } from "./write";

const [ROOM, INSET] = [12, 10]; // between the name of an op and its line, and beside the line
const NAME = "nbgrad-line"; // of the highlight, see graph.css

export class CodeLines {
  #scene: Scene | null = null;
  #area: Element | null = null; // the code of the cell that the view is the output of

  constructor(private readonly root: HTMLElement) {}

  /** Another drawing is shown. Where there is room beside the name of an op, its line stands there. */
  replace(scene: Scene): void {
    this.#scene = scene;
    for (const { id, line, label, about, row, root, bars } of scene.description.nodes) {
      const [element, box] = [scene.drawing.nodes.get(id), scene.space(id)];
      const head = element?.querySelector(".nbg-head");
      if (!line || !box || !head || row !== null || bars) continue;
      const text = translate("line {line}", { line });
      const name = widthOf(label[0] ?? "", true) * (13 / 11) + (about ? widthOf(about, false) + 6 : 0) + (root ? 16 : 0);
      if (name + widthOf(text, false) + ROOM + 2 * INSET <= box.width)
        head.after(svg("text", { class: "nbg-end nbg-at", x: box.x + box.width - INSET, y: head.getAttribute("y") ?? 0, "aria-hidden": "true" }, text));
    }
  }

  /** Mark the line of a node; undefined takes the mark away. Hosts that do not show their cells as CodeMirror's lines get none. */
  mark(node: GraphNode | undefined): void {
    if (typeof Highlight === "undefined") return;
    this.#listen();
    const line = node?.line ? this.#lines()[node.line - 1] : undefined;
    CSS.highlights.delete(NAME);
    if (!line) return;
    const range = new Range();
    range.selectNodeContents(line);
    CSS.highlights.set(NAME, new Highlight(range));
  }

  leave(): void {
    this.mark(undefined);
    this.#area?.removeEventListener("mouseover", this.#over);
    this.#area = null;
  }

  /** The lines of the cell, if all of them are there: of a very long cell CodeMirror draws a part. */
  #lines(): Element[] {
    return this.#area && !this.#area.querySelector(".cm-gap") ? [...this.#area.querySelectorAll(".cm-line")] : [];
  }

  #listen(): void {
    const area = this.root.closest(".jp-CodeCell")?.querySelector(".jp-InputArea") ?? null;
    if (area === this.#area) return;
    this.#area?.removeEventListener("mouseover", this.#over);
    area?.addEventListener("mouseover", this.#over);
    this.#area = area;
  }

  /** The boxes of the line under the pointer stand out. */
  readonly #over = ({ target }: Event): void => {
    const line = (target as Element).closest(".cm-line");
    const number = line ? this.#lines().indexOf(line) + 1 : -1;
    for (const node of this.#scene?.description.nodes ?? []) flag(this.#scene!.drawing.nodes.get(node.id), "of-line", node.line === number);
  };
}
