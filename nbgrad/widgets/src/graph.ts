// The one module: what anywidget calls, and what makes the pictures of an exported page live.

import type { Picture } from "./description";
import { hideStatic } from "./sibling";
import { View } from "./view";

interface Model {
  get(name: "picture"): Picture;
  on(event: "change:picture", callback: () => void): void;
  off(event: "change:picture", callback: () => void): void;
}

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  let view: View | null = null;
  const redraw = () => {
    view?.remove();
    const picture = model.get("picture");
    view = picture?.layout ? new View(picture) : null; // an empty picture is drawn when it comes
    if (view) el.append(view.root);
  };
  redraw();
  model.on("change:picture", redraw);
  const showStatic = hideStatic(el);
  return () => {
    model.off("change:picture", redraw);
    view?.remove();
    showStatic();
  };
}

// In a page without a kernel, each picture is data in a script element; a model that never changes serves it.
for (const data of document.querySelectorAll<HTMLScriptElement>("script.nbgrad-picture")) {
  const el = document.createElement("div");
  data.replaceWith(el);
  const picture = JSON.parse(data.textContent ?? "{}") as Picture;
  render({ model: { get: () => picture, on: () => {}, off: () => {} }, el });
}

export default { render };
