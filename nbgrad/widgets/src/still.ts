// An output has a picture without a script before its live view. While the live view is there, this picture is hidden.

const STILL = "svg.nbgrad-static, img[src*='nbgrad-static']";

/** The line that ipyparallel writes above each output of an engine, to tell it from those of others. */
const LABEL = /^\[output:\d+\]$/;

/** If such a picture, and nothing else, stands right before an element, hide it. Return the function that shows it again. */
export function withoutStill(el: Element): () => void {
  for (let one: Element | null = el; one; one = one.parentElement ?? hostOf(one)) {
    const before = one.previousElementSibling;
    if (!before) continue;
    if (LABEL.test(words(before))) return hide(labelled(before));
    if (isStill(before)) return hide([before]); // a whole cell that contains such a picture has a text of its own and stays
  }
  return () => {};
}

const isStill = (element: Element): boolean => {
  const still = element.matches(STILL) ? element : element.querySelector(STILL);
  return still !== null && (words(element) === words(still) || element.querySelector(".nbgrad-saved") !== null);
};

/** The last picture before `label` that has the same label: first its label, then the picture. */
function labelled(label: Element): Element[] {
  for (let one = label.previousElementSibling; one; one = one.previousElementSibling) {
    const above = one.previousElementSibling;
    if (above && isStill(one) && words(above) === words(label)) return [above, one];
  }
  return [];
}

function hide(elements: Element[]): () => void {
  const shown = elements.filter((one) => one instanceof HTMLElement).map((one) => ({ one, was: one.style.display }));
  for (const { one } of shown) one.style.display = "none";
  return () => {
    for (const { one, was } of shown) one.style.display = was;
  };
}

const words = (element: Element): string => (element.textContent ?? "").trim();

/** The element that holds a shadow tree. */
const hostOf = (one: Element): Element | null => {
  const root = one.getRootNode();
  return root instanceof ShadowRoot ? root.host : null;
};
