// What the keys do in a view, before the host, which has its own use for them, sees them.

import type { Tools } from "./frame";
import type { Scene } from "./scene";

/** What has keys of its own, and says whether it had a use for one. */
interface Inside {
  readonly root: HTMLElement;
  key(event: KeyboardEvent): boolean;
}

/** What the keys are pressed in. */
export interface Keyed extends Tools {
  readonly root: HTMLElement;
  readonly scene: Scene;
  readonly chosen: SVGGElement | null;
  toggle(holds: string[]): void;
  leave(): void;
  refocus(): void;
}

export class Keys {
  constructor(private readonly view: Keyed, private readonly inside: Inside[]) {
    window.addEventListener("keydown", this.#pressed, true);
  }

  stop(): void {
    window.removeEventListener("keydown", this.#pressed, true);
  }

  #pressed = (event: KeyboardEvent): void => {
    const { target, key } = event;
    if (!(target instanceof Node) || !this.view.root.contains(target) || event.ctrlKey || event.metaKey || event.altKey) return;
    const typed = target instanceof HTMLSelectElement || target instanceof HTMLInputElement;
    const inside = this.inside.find(({ root }) => root.contains(target));
    const handled = inside ? inside.key(event) : typed ? this.#typed(key, target) : this.#tool(key) || this.#walk(key);
    if (inside?.root.hidden) this.view.refocus(); // what had the focus is gone, and the next key would reach the page
    if (handled) event.preventDefault();
    if (handled || typed) event.stopImmediatePropagation();
  };

  #typed(key: string, field: HTMLInputElement | HTMLSelectElement): boolean {
    if (field.type !== "search" || (key !== "Enter" && key !== "Escape")) return false;
    if (key === "Escape") field.value = "";
    this.view.search(field.value, key === "Enter");
    return true;
  }

  #tool(key: string): boolean {
    const { view } = this;
    const { steps, history } = view.scene.description;
    if (key === "Escape") view.leave();
    else if (key === "s" && steps.length) view.steps();
    else if (key === "h" && history.frames.length) view.past();
    else if (key === "t") view.showTable();
    else return false;
    return true;
  }

  /** The keys of a node or a mark that has the focus. */
  #walk(key: string): boolean {
    const { view } = this;
    const { scene } = view;
    const here = document.activeElement;
    if (!(here instanceof SVGGElement) || !scene.boxOf(here)) return false;
    if (key === "ArrowLeft") scene.step(here, -1);
    else if (key === "ArrowRight") scene.step(here, 1);
    else if (key === "ArrowUp") scene.along(here, "target", "source");
    else if (key === "ArrowDown") scene.along(here, "source", "target");
    else if (key === "Enter" || key === " ") this.#enter(here);
    else if (key === "f") this.#fold(here);
    else if (key === "+" || key === "=") view.scale(1.4);
    else if (key === "-") view.scale(1 / 1.4);
    else if (key === "0") view.fit();
    else return false;
    return true;
  }

  /** Open the details; a second time, of a folded module, unfold it. */
  #enter(here: SVGGElement): void {
    const holds = this.view.scene.node(here.dataset["nodeId"])?.holds ?? [];
    if (holds.length && this.view.chosen === here) this.view.toggle(holds);
    else here.dispatchEvent(new MouseEvent("click"));
  }

  /** Fold the module that a node is in, or unfold the one that it is. */
  #fold(here: SVGGElement): void {
    const node = this.view.scene.node(here.dataset["nodeId"]);
    if (node?.holds.length) this.view.toggle(node.holds);
    else if (node?.scope) this.view.toggle([node.scope]);
  }
}
