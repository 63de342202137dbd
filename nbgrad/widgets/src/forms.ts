// The form of each box at the scale of the moment: as much of it as can be read in its place. Nothing else moves.

import { HIGH, LEGIBLE, LETTERS, NAME, NARROW, SHORT, TOGETHER } from "./constants";
import type { Box, Form, Node as GraphNode, Picture } from "./description";
import { attribute, flag } from "./dom";
import { type Drawing, front, shrinking } from "./draw";
import { cut, widthOf } from "./write";

const [HEAD, LINE] = [14.8, 11.7]; // the size of the letters of the first line, which are bold, and of the others, with some room to spare
const NAMED = (LEGIBLE * LETTERS) / 13; // the letters of a name are larger than others
const [TALL, CAPITAL] = [15, 9.3]; // how high a name and a capital letter are
const FEWEST = 4; // the letters of a name that has no room at all
const NEAR = 0.995; // a scale that is only that much smaller is as good

/** One box, and how it is drawn. */
interface Part {
  node: GraphNode;
  box: Box;
  form: Form; // the one for which it was measured
  shrunk: number; // of its card
  short: number; // how large the short form can be
  line: number; // how large the form of one line can be
  name: number; // how large the name can be in a box that was measured for it
  texts: SVGGElement;
  inside: SVGGElement[]; // its rows and their marks
  plain: Map<SVGElement, Plain>;
  now: string;
}

/** A text of a card: where it stands there, all of it, and as much of it as this module has written. */
interface Plain {
  x: string;
  y: string;
  end: boolean;
  text: string;
  shown: string;
}

export class Forms {
  readonly #parts: Part[] = [];

  constructor({ nodes, marks }: Drawing, { description, layout }: Picture) {
    const inside = new Map<string, SVGGElement[]>();
    const rows = new Map(description.nodes.map(({ id, row }) => [id, row]));
    const put = (op: string | null | undefined, element: SVGGElement | undefined) => {
      if (op && element) inside.set(op, [...(inside.get(op) ?? []), element]);
    };
    for (const [id, row] of rows) put(row, nodes.get(id));
    for (const { id, source } of description.edges) put(rows.get(source), marks.get(id));
    for (const node of description.nodes) {
      const [element, whole] = [nodes.get(node.id), layout.nodes[node.id]];
      const texts = element?.querySelector<SVGGElement>(".nbg-texts");
      if (!whole || !texts || node.row !== null) continue;
      const [box, form] = [front(node, whole), layout.forms[node.id] ?? "card"];
      const short = form === "short" ? 1 : Math.min(box.height / HIGH, box.width / wide(node));
      const line = form === "line" ? 1 : Math.min(box.height / TALL, box.width / wide(node, true));
      const name = form !== "card" ? Math.max(1, box.width / (HEAD * length(brief(node, true)) + around(node))) : Infinity;
      this.#parts.push({ node, box, form, shrunk: layout.shrunk[node.id] ?? 1, short, line, name, texts, inside: inside.get(node.id) ?? [], plain: new Map(), now: "card 1" });
    }
  }

  /** Draw each box at this scale in the form with the most lines whose letters can be read. With `whole`, names are smaller rather than cut. With `again`, a step has written all of its texts. */
  at(scale: number, whole: boolean, again = false): void {
    for (const part of this.#parts) {
      const [form, by] = best(part, scale, whole);
      const now = form === "card" ? form : `${form} ${by} ${by * scale < LEGIBLE * NEAR}`;
      if (now === part.now && !again) continue;
      part.now = now;
      write(part, form, by, scale);
    }
  }

  /** How high the smallest letters in the boxes are at this scale, with whole names. */
  letters(scale: number): number {
    return Math.min(...this.#parts.map((part) => {
      const [form, by] = best(part, scale, true);
      return by * scale * (form === "name" ? 13 : LETTERS);
    }));
  }

  /** Whether there is something to read in each box at this scale. */
  readable(scale: number): boolean {
    return this.letters(scale) >= LEGIBLE * LETTERS * NEAR;
  }
}

/** The form, and the factor by which it is drawn larger or smaller in its place. */
function best({ shrunk, short, line, name, box }: Part, scale: number, whole: boolean): [Form, number] {
  const least = (LEGIBLE * NEAR) / scale;
  if (shrunk >= least) return ["card", shrunk];
  if (short >= least) return ["short", step(Math.max(1, least), short)];
  if (line >= least) return ["line", step(Math.max(1, least), line)];
  return ["name", step(Math.max(1, (NAMED * NEAR) / scale), Math.min(whole ? name : Infinity, box.height / TALL))];
}

/** Letters grow in steps, so that they do not move at every turn of the wheel. */
const step = (by: number, most: number): number => Math.min(most, Math.ceil(by * 16) / 16);

const inset = ({ kind }: GraphNode): number => 10 + (kind === "leaf" || kind === "input" ? 4 : 0);

/** How much room a box has for other things than its name. */
const around = (node: GraphNode): number => 2 * inset(node) + (node.root ? 16 : 0) - 3;

/** How wide the short form of a box is, or the one of one line. */
function wide(node: GraphNode, flat = false): number {
  const [head, line] = [brief(node, flat), shape(node)];
  const tail = tailed(node, flat);
  const first = HEAD * length(head) + LINE * length(tail) + (tail ? 6 : 0) + (node.root ? 16 : 0);
  const gradient = LINE * length(cut(node.rule ?? "", Math.max(8, TOGETHER - line.length))) + 10;
  return 24 + (flat ? first + gradient : Math.max(first, LINE * length(line) + gradient));
}

/** The paler text after the name in the short form, or in the one of one line. */
const tailed = (node: GraphNode, flat: boolean): string => [about(node, flat), flat && shape(node)].filter(Boolean).join(" ");

const about = (node: GraphNode, flat: boolean): string => (flat && node.cuts[1] ? "" : room(node.about, (flat ? NAME : SHORT) - (node.label[0] ?? "").length));

/** The line of a short box. */
const shape = (node: GraphNode): string => cut(node.label[shapeLine(node)] ?? "", SHORT);

/** How wide a text is, as a part of the size of its letters: rather too wide. */
const length = (text: string): number => [...text].reduce((sum, letter) => sum + (/[ijl|.,:;'!()[\]ft ]/.test(letter) ? 0.3 : /[mwMWQGO@…∇×→Σ]/.test(letter) ? 0.9 : /[A-Z]/.test(letter) ? 0.7 : 0.556), 0);

/** The line of a short box: the shape, or the number where there is no shape. */
const shapeLine = ({ label, numbers }: Pick<GraphNode, "label" | "numbers">): number => Math.max(1, (numbers[0] ?? label.length) - 1);

/** The same in the middle: names differ at both ends. */
const shortened = (text: string, letters: number): string => (text.length > letters ? `${text.slice(0, letters >> 1)}…${text.slice(text.length - ((letters - 1) >> 1))}` : text);

/** The name of a box that is no card. */
const brief = ({ cuts, label: [name = ""] }: GraphNode, flat: boolean): string => cuts[Number(flat)] ?? shortened(name, flat ? NAME : SHORT);

/** As much of a text as there is room for, first without what is in brackets at its end. */
function room(text: string, letters: number): string {
  const bare = text.length >= letters ? text.split(" (")[0]! : text;
  return letters > NARROW ? (bare[0] === "·" ? shortened : cut)(bare, letters - 1) : "";
}

/** The text of an element; of a first line only its name. */
const own = (element: Element): string => (element.matches(".nbg-head") ? element.firstChild : element)?.textContent ?? "";

const isLine = (element: SVGElement, at: number): boolean => element.matches(".nbg-line") && Number(element.dataset["line"]) === at;

function write(part: Part, form: Form, by: number, scale: number): void {
  const { node, box, texts, inside, plain } = part;
  const [whole, tall, flat] = [form === "card", form === "short", form === "line"];
  for (const element of inside) flag(element, "roomless", !whole);
  flag(texts, "brief", !whole);
  const lines = texts.querySelectorAll<SVGTextElement>("*");
  const line = shapeLine(node);
  let said = ""; // by that line
  for (const element of lines) {
    const text = own(element);
    const known = plain.get(element) ?? { x: element.getAttribute("x") ?? "", y: element.getAttribute("y") ?? "", end: element.matches(".nbg-end"), text, shown: text };
    if (text !== known.shown && element.matches(".nbg-line, .nbg-rule")) known.text = text; // another run, or a step, has written it
    plain.set(element, known);
    if (isLine(element, line)) said = known.text;
  }
  const wideness = box.width / by;
  const edge = inset(node);
  const space = form === part.form && by === 1 ? Infinity : wideness - around(node);
  let head = brief(node, !tall);
  for (let left = head.length - 2; left >= FEWEST && HEAD * length(head) > space; left--) head = shortened(node.variable || node.label[0]!, left);
  if (form === "name") by = Math.min(by, Math.max(1, box.width / ((widthOf(head, true) * 13) / LETTERS + around(node))));
  const tail = by * scale < LEGIBLE * NEAR ? "" : flat ? [about(node, true), cut(said, SHORT)].filter(Boolean).join(" ") : about(node, !tall);
  let rules = 0;
  for (const element of lines) {
    const known = plain.get(element)!;
    const { x, y, end, text } = known;
    const kind = (name: string) => element.matches(`.nbg-${name}`);
    const left = kind("rule") ? form === "name" || rules++ : kind("minibars") ? !tall : kind("line") && !(tall && isLine(element, line));
    const shown = whole || !left;
    element.style.display = shown ? "" : "none";
    element.removeAttribute("textLength"); // of what was written in the form before
    if (!shown) continue;
    if (kind("head")) element.firstChild!.textContent = whole ? text : head;
    else if (kind("tail")) {
      element.textContent = whole ? text : HEAD * length(head) + LINE * length(tail) + 6 > space ? "" : tail;
      if (flat && element.textContent) [element.dataset["about"], element.dataset["line"]] = [about(node, true), String(line)];
      else delete element.dataset["line"];
    }
    else if (kind("line") || kind("rule")) {
      const beside = kind("rule") && (flat || line < node.label.length);
      attribute(element, "x", whole ? x : beside ? box.x + wideness - edge : box.x + edge);
      attribute(element, "y", whole ? y : box.y + (flat ? 18 : 34));
      flag(element, "end", whole ? end : beside);
      const most = kind("line") ? SHORT : Math.max(8, TOGETHER - said.length);
      if (text.length > most) element.textContent = whole ? text : cut(text, most);
    } else if (kind("minibars")) {
      const { x: from, y: top, width, height } = (element as unknown as SVGPathElement).getBBox();
      attribute(element, "transform", whole ? "" : `translate(${box.x + wideness - edge - from - width} ${box.y + 18 - top - height})`);
    }
    known.shown = own(element);
  }
  const down = whole ? 0 : tall ? Math.max(0, (box.height - HIGH * by) / 2) : (box.height + CAPITAL * by) / 2 - 18 * by;
  attribute(texts, "transform", by === 1 && !down ? "" : shrinking(box, by, down));
  // A sign at a corner is as large as the letters: else it would cover the first ones of a card that is drawn smaller.
  for (const sign of texts.parentElement!.querySelectorAll<SVGElement>(":scope > :is(.nbg-fold, .nbg-badge)")) {
    const { cx, cy } = sign.querySelector("circle")!;
    attribute(sign, "transform", by < 1 ? shrinking({ x: cx.baseVal.value, y: cy.baseVal.value }, by) : "");
  }
}
