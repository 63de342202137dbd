// Gradients that the reader is asked for: a field in the panel of such a box. The page judges an answer without a kernel.

import type { Node as GraphNode, Question } from "./description";
import { attribute, flag, html, listen } from "./dom";
import { spoken } from "./draw";
import { message, translate } from "./language";
import { original } from "./model";
import type { Scene } from "./scene";
import { write } from "./write";

/** An answer as a kernel gets it: its numbers row by row. */
export interface Answer {
  name: string;
  shape: number[];
  numbers: number[];
}

interface Given {
  text: string;
  reason: string; // why it is not right; empty if it is
}

export class Answers {
  readonly #given = new Map<string, Given>(); // by node

  constructor(private readonly scene: () => Scene, private readonly tell: (answer: Answer) => void) {}

  /** The field for the answer, in the panel of a node that is asked for. */
  offer({ id }: GraphNode): HTMLElement[] {
    const of = original(this.scene().description, id);
    const question = this.#questions.find(({ node }) => node === of);
    if (!question) return [];
    const { node, name, shape } = question;
    const field = html("input", { type: "text", autocomplete: "off", label: translate("The gradient of {name}", { name }), testid: "answer" });
    const said = html("p", { role: "status", testid: "answered" });
    const form = html("form", { class: "nbg-what-if" }, `∇ ${name} = `, field, html("button", {}, translate("Answer")), said);
    const show = () => {
      const given = this.#given.get(node);
      field.value = given?.text ?? "";
      said.textContent = !given ? (shape.length ? translate("{count} numbers, such as 1, -2.5, 1/4", { count: question.seals.length }) : "") : given.reason ? `✗ ${translate("not yet")}: ${given.reason}.` : `✓ ${translate("right")}`;
    };
    listen(form, "submit", (event) => {
      event.preventDefault();
      const text = field.value.trim();
      const numbers = numbersIn(text);
      this.#given.set(node, { text, reason: reason(question, numbers) });
      show();
      this.paint();
      if (numbers.length === question.seals.length && numbers.every(Number.isFinite)) this.tell({ name, shape, numbers });
    });
    show();
    return [form];
  }

  /** The texts of the boxes: a number that was answered right, and a cross where the last answer was wrong. */
  paint(): void {
    const scene = this.scene();
    const { description, drawing } = scene;
    for (const { node, seals } of this.#questions) {
      const given = this.#given.get(node);
      if (!given) continue;
      const right = !given.reason;
      for (const one of description.nodes.filter(({ id }) => original(description, id) === node)) {
        one.rule = right ? `∇ ${seals.length > 1 ? "" : given.text.slice(0, 9)} ✓` : "∇ ✗";
        const element = drawing.nodes.get(one.id);
        if (element) write(element, scene.picture.layout.nodes[one.id], one.label, [one.rule]);
        attribute(element, "aria-label", spoken(one));
        flag(element, "right", right);
        flag(element, "not-yet", !right);
      }
    }
  }

  get #questions(): Question[] {
    return this.scene().description.questions ?? [];
  }
}

/** The numbers in "[1, -2.5]", "1 -2.5" or "1/4"; NaN for text that is no number. */
const numbersIn = (text: string): number[] =>
  text.replaceAll("−", "-").replace(/\s*\/\s*/g, "/").split(/[\s,;[\]()]+/).filter(Boolean).map((one) => {
    const [above, below = 1] = one.split("/");
    return Number(above) / Number(below);
  });

/** How an answer is wrong, in the words of nbgrad/core/tensor/comparison.py; empty if it is right. */
function reason(question: Question, given: number[]): string {
  const { shape, seals } = question;
  const many = seals.length;
  if (!given.length || given.some(Number.isNaN)) return translate("numbers are expected, such as -1.5 or 1/4");
  if (given.length !== many) return translate(many > 1 ? "the shape is {shape}, so {many} numbers are expected, not {count}" : "the shape is {shape}, so {many} number is expected, not {count}", { shape: `(${shape.join(", ")}${shape.length === 1 ? "," : ""})`, many, count: given.length });
  const each = (change: (x: number) => number) => given.map((x, at) => near(question, at, change(x)));
  const all = (change: (x: number) => number) => each(change).every(Boolean);
  const right = each((x) => x);
  const count = right.filter(Boolean).length;
  if (count === many) return "";
  if (!given.some(Boolean)) return many > 1 ? translate("every element is 0") : translate("it is 0, which is not right");
  if (all((x) => -x)) return translate(many > 1 ? "the sign of every element is wrong" : "the sign is wrong");
  for (const [by, what] of [[0.5, message("too many")], [2, message("missing")]] as const) if (all((x) => x * by)) return translate("a factor 2 is {what}: often that of a square, or of a value used twice", { what: translate(what) });
  if (each((x) => -x).every((one, at) => one || right[at])) return translate("the sign of {count} of {total} elements is wrong", { count: many - count, total: many });
  if (given.every((x, at) => Array(41).fill(x).some((x, by) => near(question, at, x * (0.98 + by / 1000))))) return translate("it is nearly right: write more digits");
  if (many === 1) return translate("it is wrong by more than its sign or a factor 2");
  return translate("{count} of {total} elements {verb} right{first}", { count: count || translate("none"), total: many, verb: translate(count === 1 ? "is" : "are"), first: "" });
}

/** Whether this is the number at a place, as nbgrad/widgets/description/questions.py seals it. */
function near({ rtol, atol, offsets, seals }: Question, place: number, x: number): boolean {
  const at = (Math.sign(x) * Math.log1p((rtol * Math.abs(x)) / atol)) / rtol;
  let state = 0x9e3779b1;
  for (const one of [place, Math.round((at - offsets[place]!) / 2)]) {
    state = Math.imul(state ^ one, 0x85ebca6b);
    state ^= state >>> 13;
    state = Math.imul(state, 0xc2b2ae35);
    state ^= state >>> 16;
  }
  return state >>> 0 === seals[place];
}
