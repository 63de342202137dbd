// Small helpers that make elements. Text goes in as text: nothing in this front end parses a string as HTML.

const SVG = "http://www.w3.org/2000/svg";

type Attributes = Record<string, string | number>;

/** Attributes go by their names, but for ``label``, which is read aloud, and ``testid``, by which tests find it. */
function fill<E extends Element>(element: E, attributes: Attributes, children: (Node | string)[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "testid") element.setAttribute("data-testid", `nbgrad-${value}`);
    else element.setAttribute(name === "label" ? "aria-label" : name, String(value));
  }
  element.append(...children); // a string becomes a text node
  return element;
}

export function html<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** The words of a docstring, in which ``code`` stands between two backquotes. */
export function prose(text: string): (Node | string)[] {
  return text.split("``").map((part, at) => (at % 2 ? html("code", {}, part) : part));
}

export function button(label: string, title: string, testid: string, click: () => void): HTMLButtonElement {
  const sign = label && !/[a-z]/i.test(label); // words are read aloud as they stand, and the title after them
  const element = html("button", { type: "button", ...(sign ? { label: title } : {}), title, testid }, label);
  element.addEventListener("click", click);
  return element;
}
