// How high the picture is: as high as it needs to be, but no higher than the window has room for.

const [LEAST, MOST] = [320, 900];
const BESIDE = 16; // pixels of the window above and below the view
const PART = 0.7; // of the window, at most: there is room for the code
const LARGE = 0.9; // the same with the letters of a projector

export class Room {
  readonly #watcher: ResizeObserver;
  #most = 0; // how high the picture may be
  #scroller: Element | null = null;
  large = false; // whether the picture has the letters of a projector
  full = false; // whether the view has the whole screen

  constructor(private readonly root: HTMLElement, private readonly body: HTMLElement, private readonly size: () => [number, number], changed: () => void) {
    // The height before the view is in the page. It should hardly change later: some hosts draw only the visible outputs.
    this.#set(`${Math.min(MOST, Math.max(LEAST, Math.min(this.size()[1] + 40, screen.height - 240)))}px`);
    this.#watcher = new ResizeObserver(() => {
      if (!root.clientWidth) return;
      this.measure();
      changed();
    });
    this.#watcher.observe(root);
    this.#watcher.observe(body);
  }

  /** The width and the height that the picture may have. */
  get stage(): [number, number] {
    return [this.body.clientWidth, this.full ? this.body.clientHeight : this.#most];
  }

  /** Whether the page around the view scrolls. */
  get scrolls(): boolean {
    const page = this.#scroller;
    return !!page && page.scrollHeight > page.clientHeight + 1;
  }

  leave(): void {
    this.#watcher.disconnect();
  }

  /** Fit the picture into the part of the window that is left by the open lines around it. */
  measure(): void {
    const { root, body } = this;
    if (!root.clientWidth || this.full) return; // it stands nowhere yet, or its sheet says how high it is
    if (!this.#scroller?.isConnected) {
      this.#scroller = this.#scrolling();
      this.#watcher.observe(this.#scroller);
    }
    const [width, height] = this.size();
    const seen = Math.min(this.#scroller.clientHeight, innerHeight);
    // Some hosts put each output into a frame as high as the content. The height of this frame says nothing about the screen.
    const part = this.large ? LARGE : PART;
    const whole = self === top ? Math.min(seen - BESIDE, part * innerHeight) : part * Math.max(seen, screen.height - 80);
    const room = whole - (root.offsetHeight - body.offsetHeight);
    const needed = height * Math.min(1, body.clientWidth / width) + 40;
    const least = Math.min(LEAST, Math.max(160, room));
    this.#most = Math.round(Math.max(Math.min(room, MOST), least));
    this.#set(`${Math.round(Math.max(Math.min(needed, room, MOST), least))}px`);
  }

  /** The element that scrolls the view and has a height of its own: some parts of a page scroll only sideways, and are as high as their content. */
  #scrolling(): Element {
    const high = 1e5;
    this.#set(`${high}px`);
    for (let one = this.root.parentElement; one; one = one.parentElement)
      if (one.clientHeight < high && /auto|scroll/.test(getComputedStyle(one).overflowY)) return one;
    return document.documentElement;
  }

  #set(height: string): void {
    this.root.style.setProperty("--nbg-height", height);
  }
}
