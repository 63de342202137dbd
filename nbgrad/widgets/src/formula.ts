// A formula as MathML if it is nothing but MathML, else as its LaTeX text.

import { html } from "./dom";
import type { Formula } from "./description";

const MATHML = "http://www.w3.org/1998/Math/MathML";
const ATTRIBUTES = new Set((
  "accent accentunder columnalign columnspacing columnspan dir display displaystyle fence form largeop " +
  "linethickness lspace mathvariant maxsize minsize movablelimits rowalign rowspacing rowspan rspace scriptlevel separator stretchy symmetric width xmlns"
).split(" "));
// These carry other languages inside a formula.
const ELEMENTS_REFUSED = new Set(["annotation", "annotation-xml", "maction", "semantics"]);

export function formula(source: Formula): Node {
  const math = parse(source.mathml);
  return math ?? html("code", { class: "nbg-latex" }, source.latex);
}

function parse(text: string): Node | null {
  if (!text) return null;
  const root = new DOMParser().parseFromString(text, "application/xml").documentElement;
  if (root.localName !== "math") return null;
  for (const element of [root, ...root.querySelectorAll("*")]) if (!allowed(element)) return null;
  return document.importNode(root, true);
}

function allowed(element: Element): boolean {
  if (element.namespaceURI !== MATHML || ELEMENTS_REFUSED.has(element.localName)) return false;
  return [...element.attributes].every((attribute) => ATTRIBUTES.has(attribute.name));
}
