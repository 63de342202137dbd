// Whether the output that a view stood in was cleared: the kernel may then let go of what it keeps for the view.
// A view is also taken away where a notebook is closed or a cell is deleted, cut or moved, and may come back with it.

const SOON = 2000; // milliseconds: a host that draws an output anew takes a view away, and at once makes another

/** The views that one model has in this page. */
export class Outputs {
  readonly #page = Math.random().toString(36).slice(2); // a kernel may have several pages, each with views of its own
  #views = 0;

  /** Note that a view of the model is made in an element. Return the function to call when the view is taken away. */
  enter(el: HTMLElement, tell: (what: { shown: string } | { cleared: string }) => void): () => void {
    let area: Element | null = null;
    const seen = new ResizeObserver(() => (area = areaOf(el) ?? area)); // until it has a size, the element may be in no page
    seen.observe(el);
    this.#views++;
    tell({ shown: this.#page });
    return () => {
      seen.disconnect();
      this.#views--;
      setTimeout(() => {
        if (!this.#views && area?.isConnected && !area.contains(el)) tell({ cleared: this.#page });
      }, SOON);
    };
  }
}

/** The output area of a cell; null inside an output widget, because such a widget may show its content again elsewhere. */
function areaOf(el: Element): Element | null {
  const area = el.closest(".jp-Cell .jp-OutputArea");
  return area?.parentElement?.closest(".jp-OutputArea") ? null : area;
}
