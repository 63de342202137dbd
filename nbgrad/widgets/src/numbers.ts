// All numbers of a tensor that is too large to travel with the picture: the kernel is asked for them.

import type { Answer } from "./answers";
import type { Look, Numbers } from "./description";
import { button, html } from "./dom";
import { message, translate } from "./language";
import { histogram, map } from "./tensor_plot";
import type { Supposition } from "./what_if";

/** The actions that need a kernel: unfold a module that is not in the picture, turn the picture, or look up all numbers of a tensor. */
export interface Kernel {
  gone: boolean; // whether it was restarted and has lost this picture; only a question to the kernel makes this certain
  ask(request: { toggle?: string[]; direction?: string; stage?: [number, number]; near?: string[]; node?: string; of?: Numbers["of"]; suppose?: object; answer?: Answer; project?: object }): void;
  project(wanted: Projected): void; // a picture for a projector, for this page alone
  suppose(asked: Supposition): void;
}

/** A wish for a picture on a projector: its stage, the modules that the reader has folded and unfolded there, the direction, the chosen nodes. */
export interface Projected {
  stage: [number, number];
  toggled: string[][];
  direction: string | null;
  near: string[];
}

/** The text until the kernel has answered. */
export const ASKED = message("Asking the kernel. It answers when the running cell has ended; after a restart, run this cell again.");

/** The text if the kernel cannot answer any more. */
export const GONE = message("The kernel that made this picture is gone: run this cell again.");

const ASKS = { value: message("Ask the kernel for all numbers of the value"), gradient: message("Ask the kernel for all numbers of the gradient") };

const LEFT_OUT = message("Its numbers do not fit into the picture.");

export class Inquiry {
  readonly #slots = new Map<string, HTMLElement>(); // where an answer goes

  constructor(private readonly kernel: Kernel | null) {}

  /** Where the picture has no map: a button if there is a kernel to ask, else the reason why there is none. */
  offer(node: string, of: Numbers["of"], look: Look): HTMLElement[] {
    const { kernel } = this;
    if (look.columns || !look.bars.length) return [];
    const slot = html("div", { class: "nbg-numbers", testid: `${of}-numbers`, role: "status" });
    const ask = () => {
      this.#slots.set(node + of, slot);
      kernel?.ask({ node, of });
      slot.textContent = kernel?.gone ? `${translate(LEFT_OUT)} ${translate(GONE)}` : translate(ASKED);
    };
    if (!kernel) slot.textContent = `${translate(LEFT_OUT)} ${translate("A notebook looks them up while its kernel runs.")}`;
    else if (kernel.gone) ask();
    else slot.append(button(translate("All numbers"), translate(ASKS[of]), "numbers", ask));
    return [slot];
  }

  answer({ node, of, said, look, rows }: Numbers): void {
    const parts: Node[] = look ? [map(look), ...(look.bars.length ? [histogram(look)] : [])] : [];
    parts.push(html("p", {}, said));
    if (rows.length) parts.push(html("pre", { class: "nbg-scroll", tabindex: 0 }, rows.join("\n")));
    this.#slots.get(node + of)?.replaceChildren(...parts);
  }
}
