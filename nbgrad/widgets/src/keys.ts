// The actions of the keys in a view. The view sees a key before the host, which has its own use for it.

import type { Scene } from "./scene";
import { groupOf, rove, type Tools } from "./toolbar";

/** A part with keys of its own; it says whether it used one. */
interface Inside {
  readonly root: HTMLElement;
  key(event: KeyboardEvent): boolean;
}

/** The element in which the keys are pressed. */
export interface Keyed extends Tools {
  readonly root: HTMLElement;
  readonly scene: Scene;
  readonly chosen: SVGGElement | null;
  toggle(holds: string[]): void;
  leave(): void;
  refocus(): void;
}

const ARROWS = ["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight"];

export class Keys {
  constructor(private readonly view: Keyed, private readonly inside: Inside[]) {
    window.addEventListener("keydown", this.#pressed, true);
  }

  stop(): void {
    window.removeEventListener("keydown", this.#pressed, true);
  }

  #pressed = (event: KeyboardEvent): void => {
    const { target } = event;
    const letter = event.key.length < 2;
    const key = letter ? event.key.toLowerCase() : event.key; // S is s, as with the caps lock on
    const near = this.view.projected && target === document.body; // then no other part of the page is seen
    if (!(target instanceof Node) || !(near || this.view.root.contains(target)) || event.ctrlKey || event.metaKey || event.altKey) return;
    const typed = target instanceof HTMLSelectElement || target instanceof HTMLInputElement;
    const inside = this.inside.find(({ root }) => root.contains(target));
    const field = typed && target.type !== "range";
    const handled =
      (key === "Escape" && this.view.projected && this.#tool("p")) || inside?.key(event) || (field ? this.#typed(key, target) : this.#tool(key) || this.#walk(key) || this.#among(key, target));
    if (inside?.root.hidden) this.view.refocus(); // what had the focus is gone, and the next key would reach the page
    if (handled) event.preventDefault();
    if (handled || typed || letter) event.stopImmediatePropagation(); // to a notebook, x means to cut the cell
  };

  #typed(key: string, field: HTMLInputElement | HTMLSelectElement): boolean {
    const by = { Enter: 1, ArrowDown: 1, ArrowUp: -1, Escape: 0 }[key];
    if (field.type !== "search" || by === undefined) return false;
    if (!by) field.value = "";
    this.view.search(field.value, by);
    if (key !== "Enter") field.focus({ preventScroll: true });
    return true;
  }

  #tool(key: string): boolean {
    const { view } = this;
    const { steps, history, memory } = view.scene.description;
    if (key === "Escape") view.leave();
    else if (key === "s" && steps.length) view.steps();
    else if (key === "h" && history.frames.length) view.past();
    else if (key === "m" && memory?.ops.length) view.memory();
    else if (key === "t") view.showTable();
    else if (key === "p") view.project();
    else if (key === "?") view.legend();
    else if (key === "/") view.root.querySelector<HTMLElement>("[type=search]")!.focus();
    else return false;
    return true;
  }

  /** The keys of a node or a mark that has the focus. */
  #walk(key: string): boolean {
    const { view } = this;
    const { scene } = view;
    const here = document.activeElement;
    if (!(here instanceof SVGGElement) || !scene.boxOf(here)) return false;
    const at = ARROWS.indexOf(key);
    const runs = at < 2 === (scene.picture.direction === "TB"); // whether the key goes along the values, and not to the boxes beside
    if (at >= 0 && !runs) scene.step(here, at % 2 ? 1 : -1);
    else if (at >= 0) scene.along(here, at % 2);
    else if (key === "Enter" || key === " ") this.#enter(here);
    else if (key === "f") this.#fold(here);
    else if (key === "+" || key === "=") view.scale(1.4);
    else if (key === "-") view.scale(1 / 1.4);
    else if (key === "0") view.fit();
    else return false;
    return true;
  }

  /** The arrow keys go from button to button of a group. In a group with one chosen button they choose. */
  #among(key: string, one: Node): boolean {
    const at = ARROWS.indexOf(key);
    if (at < 0 || !(one instanceof HTMLElement)) return false;
    const buttons = groupOf(one);
    const other = buttons[buttons.indexOf(one as HTMLButtonElement) + (at % 2 ? 1 : -1)];
    if (other) {
      rove(other);
      other.focus({ preventScroll: true });
      if (other.role === "radio") other.click();
    }
    return buttons.length > 0;
  }

  /** Open the details of a node. If they are open and it is a folded module, unfold it. */
  #enter(here: SVGGElement): void {
    const holds = this.view.scene.node(here.dataset["nodeId"])?.holds ?? [];
    if (holds.length && this.view.chosen === here) this.view.toggle(holds);
    else here.dispatchEvent(new MouseEvent("click"));
  }

  /** Unfold a node that is a folded module; else fold the module that the node is in. */
  #fold(here: SVGGElement): void {
    const node = this.view.scene.node(here.dataset["nodeId"]);
    if (node?.holds.length) this.view.toggle(node.holds);
    else if (node?.scope) this.view.toggle([node.scope]);
  }
}
