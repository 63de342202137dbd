// The projector: a view takes the whole screen, or the whole page where the host allows no more.

import { flag } from "./dom";

export class Projector {
  on = false;

  /** `changed` is called when the view has the screen, and when it is in its page again. */
  constructor(private readonly root: HTMLElement, private readonly changed: () => void) {
    root.addEventListener("fullscreenchange", () => document.fullscreenElement !== root && this.leave()); // the browser's own Escape
  }

  async enter(): Promise<void> {
    const { root } = this;
    this.on = true;
    root.parentElement!.style.minHeight = `${root.parentElement!.offsetHeight}px`; // so the page does not move
    try {
      await root.requestFullscreen();
      if (!this.on) return void document.exitFullscreen(); // the reader was faster
    } catch {
      // The top layer of the page: no other element cuts the view off there.
      root.popover = "manual";
      root.showPopover();
    }
    flag(root, "projected", true);
    this.changed();
  }

  leave(): void {
    const { root } = this;
    if (!this.on) return;
    root.parentElement?.style.removeProperty("min-height");
    if (document.fullscreenElement === root) return void document.exitFullscreen(); // and then it is told
    this.on = false;
    root.removeAttribute("popover");
    flag(root, "projected", false);
    this.changed();
  }
}
