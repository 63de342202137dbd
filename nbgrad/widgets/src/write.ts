// Other texts in the boxes of a drawing: those of another run, of an earlier backward, or of an answer.

import { SHORT } from "./constants";
import type { Box } from "./description";

const LETTER = 0.556; // the width of a digit, as a part of the height of a letter: see font-size-adjust in graph.css
const [HEAD, SIZE] = [13, 11];
const [GAP, RIM] = [10, 8]; // between two texts in one line, and between a text and the side of its box
const context = document.createElement("canvas").getContext("2d");
const digit = new Map<boolean, number>();

/** A text, cut after a number of letters. */
export const cut = (text: string, letters: number): string => (text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text);

/** How wide a small text is in the drawing; it may be hidden now. */
export function widthOf(text: string, bold: boolean): number {
  if (!context) return text.length * SIZE * LETTER;
  context.font = `${bold ? "bold " : ""}100px Helvetica, Arial, "Liberation Sans", "DejaVu Sans", sans-serif`;
  if (!digit.has(bold)) digit.set(bold, context.measureText("0").width);
  return (context.measureText(text).width / digit.get(bold)!) * LETTER * SIZE;
}

/** How wide the first line of a box is: its letters are larger, and what stands after the name is paler. */
function headed(head: Element): number {
  const [name = "", tail = ""] = [...head.childNodes].map((one) => one.textContent ?? "");
  return (widthOf(name, true) * (head.closest(".nbg-row") ? SIZE : HEAD)) / SIZE + (tail ? 6 + widthOf(tail, false) : 0);
}

/** Write the lines and the gradient of a box. Letters move together where a text is longer than its room. */
export function write(element: Element, box: Box | undefined, label: string[], rules: (string | null)[]): void {
  const lines = [...element.querySelectorAll<SVGTextElement>(".nbg-line")];
  const ends = [...element.querySelectorAll<SVGTextElement>(".nbg-rule")];
  for (const line of lines) line.textContent = label[Number(line.dataset["line"])] ?? "";
  ends.forEach((line, at) => (line.textContent = rules[at] ?? ""));
  const tail = element.querySelector<SVGElement>(".nbg-tail[data-line]"); // in a box of one line
  if (tail) tail.textContent = [tail.dataset["about"], cut(label[Number(tail.dataset["line"])] ?? "", SHORT)].filter(Boolean).join(" ");
  const [outer, inner] = [(element as SVGGElement).getCTM(), element.querySelector<SVGTextElement>(".nbg-head")?.getCTM()];
  if (!box || !outer || !inner) return;
  box = { ...box, width: (box.width * outer.a) / inner.a }; // the texts may be drawn smaller than their box
  const x = (one: Element) => Number(one.getAttribute("x"));
  const wide = (one: Element): number => (one.matches(".nbg-head") ? headed(one) : widthOf(one.textContent ?? "", !one.matches(".nbg-line")));
  const squeeze = (one: Element, room: number) => (wide(one) > room ? one.setAttribute("textLength", String(Math.max(room, 1))) : one.removeAttribute("textLength"));
  for (const one of [...lines, ...ends.filter((end) => !end.matches(".nbg-end"))]) squeeze(one, box.x + box.width - RIM - x(one));
  for (const end of ends.filter((one) => one.matches(".nbg-end"))) {
    const beside = [...lines, ...element.querySelectorAll(".nbg-head")].find((one) => (one as SVGElement).style.display !== "none" && one.getAttribute("y") === end.getAttribute("y"));
    const room = x(end) - (beside ? x(beside) + GAP : box.x + RIM);
    const [left, right] = [beside ? wide(beside) : 0, wide(end)];
    const part = tail || beside?.matches(".nbg-line") ? Math.min(1, room / (left + right)) : 1; // of a name alone nothing is taken
    if (beside && part < 1) squeeze(beside, left * part);
    squeeze(end, part < 1 ? right * part : room - left);
  }
}
