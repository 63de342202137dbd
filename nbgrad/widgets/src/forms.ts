// The form of each box at the scale of the moment: as much of it as can be read in its place. Nothing else moves.

import { HIGH, LEGIBLE, NAME, NARROW, SHORT, TOGETHER } from "./constants";
import type { Box, Form, Node as GraphNode, Picture } from "./description";
import { attribute, flag } from "./dom";
import { type Drawing, front, shrinking } from "./draw";

const [HEAD, LINE] = [14.8, 11.7]; // the size of the letters of the first line, which are bold, and of the others, with some room to spare
const NAMED = (LEGIBLE * 11) / 13; // the letters of a name are larger than others
const [TALL, CAPITAL] = [15, 9.3]; // how high a name and a capital letter are
const NEAR = 0.995; // a scale that is only that much smaller is as good

/** One box, and how it is drawn. */
interface Part {
  node: GraphNode;
  box: Box;
  form: Form; // the one for which it was measured
  shrunk: number; // of its card
  short: number; // how large the short form can be
  texts: SVGGElement;
  inside: SVGGElement[]; // its rows and their marks
  plain: Map<SVGElement, [x: string, y: string, end: boolean, text: string]>; // where its texts stand in the card
  now: string;
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
      this.#parts.push({ node, box, form, shrunk: layout.shrunk[node.id] ?? 1, short, texts, inside: inside.get(node.id) ?? [], plain: new Map(), now: "card 1" });
    }
  }

  /** Draw each box at this scale in the form with the most lines whose letters can be read. */
  at(scale: number): void {
    for (const part of this.#parts) {
      const [form, by] = best(part, scale);
      const now = form === "card" ? form : `${form} ${by} ${by * scale < LEGIBLE * NEAR}`;
      if (now === part.now) continue;
      part.now = now;
      write(part, form, by, scale);
    }
  }
}

/** The form, and the factor by which it is drawn larger or smaller in its place. */
function best({ shrunk, short, box }: Part, scale: number): [Form, number] {
  const least = (LEGIBLE * NEAR) / scale;
  if (shrunk >= least) return ["card", shrunk];
  if (short >= least) return ["short", step(Math.max(1, least), short)];
  return ["name", step(Math.max(1, (NAMED * NEAR) / scale), box.height / TALL)];
}

/** Letters grow in steps, so that they do not move at every turn of the wheel. */
const step = (by: number, most: number): number => Math.min(most, Math.ceil(by * 16) / 16);

/** How wide the short form of a box is. */
function wide({ label, numbers, about, rule, root }: GraphNode): number {
  const [head, line] = [cut(label[0] ?? "", SHORT), cut(label[told({ label, numbers })] ?? "", SHORT)];
  const [tail, gradient] = [room(about, SHORT - head.length), cut(rule ?? "", Math.max(8, TOGETHER - line.length))];
  return 24 + Math.max(HEAD * length(head) + LINE * length(tail) + (tail ? 6 : 0) + (root ? 16 : 0), LINE * (length(line) + length(gradient)) + 10);
}

/** How wide a text is, as a part of the size of its letters: rather too wide. */
const length = (text: string): number => [...text].reduce((sum, letter) => sum + (/[ijl|.,:;'!()[\]ft ]/.test(letter) ? 0.3 : /[mwMWQGO@…∇×→Σ]/.test(letter) ? 0.9 : /[A-Z]/.test(letter) ? 0.7 : 0.556), 0);

/** The line of a short box: the shape, or the number where there is no shape. */
const told = ({ label, numbers }: Pick<GraphNode, "label" | "numbers">): number => Math.max(1, (numbers[0] ?? label.length) - 1);

const cut = (text: string, letters: number): string => (text.length > letters ? `${text.slice(0, Math.max(1, letters - 1))}…` : text);

/** As much of a text as there is room for, first without what is in brackets at its end. */
function room(text: string, letters: number): string {
  const bare = text.length >= letters ? text.split(" (")[0]! : text;
  return letters > NARROW ? cut(bare, letters - 1) : "";
}

function write(part: Part, form: Form, by: number, scale: number): void {
  const { node, box, texts, inside, plain } = part;
  for (const element of inside) flag(element, "inner", form !== "card");
  flag(texts, "brief", form !== "card");
  const lines = texts.querySelectorAll<SVGTextElement>(".nbg-head, .nbg-tail, .nbg-line, .nbg-rule, .nbg-minibars, .nbg-sign");
  for (const line of lines) {
    const own = line.matches(".nbg-head") ? line.firstChild : line;
    if (!plain.has(line)) plain.set(line, [line.getAttribute("x") ?? "", line.getAttribute("y") ?? "", line.matches(".nbg-end"), own?.textContent ?? ""]);
  }
  const wideness = box.width / by;
  const inset = 10 + (node.kind === "leaf" || node.kind === "input" ? 4 : 0);
  const [letters, name] = [form === "short" ? SHORT : NAME, node.label[0] ?? ""];
  const space = form === part.form ? Infinity : wideness - 2 * inset - (node.root ? 16 : 0) + 3;
  let head = cut(name, letters);
  for (let left = head.length; left > 1 && HEAD * length(head) > space; left--) head = `${name.slice(0, left - 1)}…`;
  const tail = by * scale < LEGIBLE * NEAR ? "" : room(node.about, letters - name.length);
  const line = told(node);
  let rules = 0;
  for (const element of lines) {
    const [x, y, end, text] = plain.get(element)!;
    const kind = (name: string) => element.matches(`.nbg-${name}`);
    const short = form === "short" && (kind("minibars") || (kind("rule") && !rules++) || (kind("line") && Number(element.dataset["line"]) === line));
    const shown = form === "card" || short || kind("head") || kind("tail") || kind("sign");
    element.style.display = shown ? "" : "none";
    if (!shown) continue;
    if (kind("head")) element.firstChild!.textContent = form === "card" ? text : head;
    else if (kind("tail")) element.textContent = form === "card" ? text : HEAD * length(head) + LINE * length(tail) + 6 > space ? "" : tail;
    else if (kind("line") || kind("rule")) {
      const beside = kind("rule") && line < node.label.length;
      attribute(element, "x", form === "card" ? x : beside ? box.x + wideness - inset : box.x + inset);
      attribute(element, "y", form === "card" ? y : box.y + 34);
      flag(element, "end", form === "card" ? end : beside);
      const most = kind("line") ? SHORT : Math.max(8, TOGETHER - (node.label[line]?.length ?? 0));
      if (text.length > most) element.textContent = form === "card" ? text : cut(text, most);
    } else if (kind("minibars")) {
      const { x: from, y: top, width, height } = (element as unknown as SVGPathElement).getBBox();
      attribute(element, "transform", form === "card" ? "" : `translate(${box.x + wideness - inset - from - width} ${box.y + 18 - top - height})`);
    }
  }
  const down = form === "card" ? 0 : form === "short" ? Math.max(0, (box.height - HIGH * by) / 2) : (box.height + CAPITAL * by) / 2 - 18 * by;
  attribute(texts, "transform", by === 1 && !down ? "" : shrinking(box, by, down));
}
