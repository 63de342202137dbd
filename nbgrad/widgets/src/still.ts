// The picture without a script that stands in the output before a live view: while the live one is there, one is enough.

const STILL = "svg.nbgrad-static, img[src*='nbgrad-static']";

/** Hide what stands right before an element if it is such a picture and nothing else; the function that shows it again. */
export function withoutStill(el: Element): () => void {
  for (let one: Element | null = el; one; one = one.parentElement ?? hostOf(one)) {
    const before = one.previousElementSibling;
    if (!(before instanceof HTMLElement)) continue;
    const still = before.matches(STILL) ? before : before.querySelector(STILL);
    if (!still || words(before) !== words(still)) continue; // there may be a cell between, with a text of its own
    const { display } = before.style;
    before.style.display = "none";
    return () => (before.style.display = display);
  }
  return () => {};
}

const words = (element: Element): string => (element.textContent ?? "").trim();

/** What a shadow tree is in. */
const hostOf = (one: Element): Element | null => {
  const root = one.getRootNode();
  return root instanceof ShadowRoot ? root.host : null;
};
