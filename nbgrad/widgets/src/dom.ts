// Small helpers that make elements. Text goes in as text: nothing in this front end parses a string as HTML.

const SVG = "http://www.w3.org/2000/svg";

type Attributes = Record<string, string | number>;

/** Attributes go by their names, but for ``label``, which is read aloud, and ``testid``, by which tests find it. */
function fill<E extends Element>(element: E, attributes: Attributes, children: (Node | string)[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "testid") attribute(element, "data-testid", `nbgrad-${value}`);
    else attribute(element, name === "label" ? "aria-label" : name, value);
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

export function listen<K extends keyof HTMLElementEventMap>(
  element: Element,
  type: K,
  heard: (event: HTMLElementEventMap[K]) => void,
): void {
  element.addEventListener(type, heard as (event: Event) => void);
}

/** Set an attribute of an element. Without an element, do nothing. */
export function attribute(element: Element | null | undefined, name: string, value: string | number | boolean): void {
  element?.setAttribute(name, String(value));
}

/** Give an element the class of that name if `holds`, else take it away. Without an element, do nothing. */
export function flag(element: Element | null | undefined, name: string, holds: boolean): void {
  element?.classList.toggle(`nbg-${name}`, holds);
}

/** The words of a docstring, in which ``code`` stands between two backquotes. */
export function prose(text: string): (Node | string)[] {
  return text.split("``").map((part, at) => (at % 2 ? html("code", {}, part) : part));
}

export function button(label: string, title: string, testid: string, click: () => void): HTMLButtonElement {
  const sign = label && !/[a-z]/i.test(label); // a screen reader reads words and then the title, and for a sign only the title
  const element = html("button", { type: "button", ...(sign ? { label: title } : {}), title, testid }, label);
  listen(element, "click", click);
  return element;
}
