// All numbers of a tensor that is too large to travel with the picture: the kernel is asked for them.

import type { Look, Numbers } from "./description";
import { button, html } from "./dom";
import { map } from "./look";

/** What only a kernel can do: unfold what is not in the picture, turn it, or look up all numbers of a tensor. */
export type Ask = (request: { toggle?: string[]; direction?: string; node?: string; of?: Numbers["of"] }) => void;

/** What a reader sees until the kernel has answered. */
export const ASKED = "Asking the kernel. It answers when the running cell has ended; after a restart, run this cell again.";

export class Inquiry {
  readonly #slots = new Map<string, HTMLElement>(); // where an answer goes

  constructor(private readonly ask: Ask | null) {}

  /** A button where there is a kernel, and more numbers than the picture has. */
  offer(node: string, of: Numbers["of"], look: Look): HTMLElement[] {
    const { ask } = this;
    if (!ask || look.columns || !look.bars.length) return [];
    const slot = html("div", { class: "nbg-numbers", testid: `${of}-numbers`, role: "status" });
    const asked = () => {
      slot.textContent = ASKED;
      this.#slots.set(node + of, slot);
      ask({ node, of });
    };
    slot.append(button("All numbers", `Ask the kernel for all numbers of the ${of}`, "numbers", asked));
    return [slot];
  }

  answer({ node, of, said, look, rows }: Numbers): void {
    const parts: Node[] = look ? [map(look)] : [];
    parts.push(html("p", {}, said));
    if (rows.length) parts.push(html("pre", { class: "nbg-scroll", tabindex: 0 }, rows.join("\n")));
    this.#slots.get(node + of)?.replaceChildren(...parts);
  }
}
