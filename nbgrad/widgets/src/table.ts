// The graph as a table: for screen readers, for everybody who would rather read than look, and to rank by a number.

import { MEANING } from "./constants";
import type { Description, Kind, Node as GraphNode, Ranked } from "./description";
import { attribute, html, listen } from "./dom";
import { lower, message, translate } from "./language";
import { lines, name, original, scopePath } from "./model";

/** The kinds of rows that the reader may choose. */
const CHOICES: [string, string, (kind: Kind) => boolean][] = [
  ["", message("all rows"), () => true],
  ["learned", message("parameters and leaves"), (kind) => kind === "parameter" || kind === "leaf"],
  ["op", message("operations"), (kind) => kind === "op"],
];

/** A row, and its place in the ranking; -1 for what has no numbers to be ranked by. */
interface Row {
  element: HTMLElement;
  kind: Kind;
  place: number;
}

export class Table {
  readonly root = html("div", { class: "nbg-table", tabindex: 0, hidden: "", testid: "table", role: "region", label: translate("Table") });
  readonly #body = html("tbody");
  readonly #choice = html("select", { label: translate("Rows"), testid: "rows" });
  #head = html("tr");
  #heads = new Map<string, HTMLElement>(); // by the key of the column
  #rows: Row[] = [];
  #description: Description | null = null; // of which there is no table yet
  #key = ""; // the column by which the rows are sorted
  #down = true;

  constructor(private readonly choose: (id: string, ranked?: Ranked) => void) {
    for (const [value, label] of CHOICES) this.#choice.append(html("option", { value }, translate(label)));
    listen(this.#choice, "change", () => this.#arrange());
  }

  get shown(): boolean {
    return !this.root.hidden;
  }

  open(shown: boolean): void {
    this.root.hidden = !shown;
    this.#fill();
  }

  replace(description: Description): void {
    this.#description = description;
    this.#fill();
  }

  /** Make the rows, once they are seen: there may be thousands. */
  #fill(): void {
    const description = this.#description;
    if (!description || !this.shown) return;
    this.#description = null;
    const { columns, rows, note } = description.ranking;
    const others = columns.filter(({ key }) => key !== "gradient");
    const head = (this.#head = html("tr"));
    this.#heads.clear();
    for (const [title, key] of [[translate("Node")], [translate("What")], [translate("Module")], [translate("Takes")], [translate("Gradient"), "gradient"], ...others.map(({ key, title }) => [title, key]), [translate("Findings")]]) {
      const cell = html("th", { scope: "col" }, title ?? "");
      if (key && columns.some((one) => one.key === key)) {
        const sort = html("button", { type: "button", title: translate("Sort by {title}", { title: lower(title ?? "") }), testid: `sort-${key}` }, title ?? "", html("i", { "aria-hidden": "true" }));
        listen(sort, "click", () => this.#sort(key));
        cell.replaceChildren(sort);
        this.#heads.set(key, cell);
      }
      head.append(cell);
    }
    const places = new Map(rows.map(({ node }, at) => [node, at]));
    const cell = (key: string, place: number) => columns.find((one) => one.key === key)?.cells[place] ?? "";
    const row = (kind: Kind, place: number, label: string, go: () => void, [what, module, takes, gradient, findings]: (string | Node)[][]) => {
      const link = html("button", { type: "button" }, label);
      listen(link, "click", go);
      const numbers = others.map(({ key }) => html("td", { class: "nbg-number" }, cell(key, place)));
      const element = html("tr", {}, html("th", { scope: "row" }, link), ...[what, module, takes, gradient].map((parts) => html("td", {}, ...(parts ?? []))), ...numbers, html("td", {}, ...(findings ?? [])));
      this.#rows.push({ element, kind, place });
    };
    const drawn = new Set(description.nodes.map(({ id }) => original(description, id)));
    const folded = new Map<string, number[]>(); // the rows inside each folded box
    rows.forEach(({ node, scope }, place) => {
      const box = drawn.has(node) ? undefined : homeOf(description, scope);
      if (box) folded.set(box.id, [...(folded.get(box.id) ?? []), place]);
    });
    this.#rows = [];
    for (const node of description.nodes) {
      const of = original(description, node.id); // a copy has the gradient of all uses
      const place = places.get(of) ?? -1;
      const takes = description.edges.filter((edge) => edge.target === node.id).map((edge) => {
        const reduction = edge.reduction ? `; ${translate("gradient summed")} ${edge.reduction.text}` : "";
        return html("div", {}, `${edge.input ? `${edge.input}: ` : ""}${name(description, edge.source)} ${edge.label}${reduction}`);
      });
      const back = description.edges.find((edge) => edge.source === node.id && edge.gradient)?.gradient;
      const norm = cell("gradient", place);
      const gradient = norm ? `${norm}${of === node.id ? "" : ` ${translate("in all")}`}` : (node.gradient?.facts ?? node.rule ?? back ?? (node.root ? translate("not kept") : translate("none")));
      const [first = "", ...rest] = lines(node);
      const whole = node.kind === "parameter" ? rows[place]?.name ?? first : first;
      row(node.kind, place, [whole, ...rest].join(", "), () => this.choose(node.id), [[translate(MEANING[node.kind])], [scopePath(description, node.scope)], takes, [gradient], [node.badges.map((badge) => badge.text).join("; ")]]);
      for (const inner of folded.get(node.id) ?? []) {
        const one = rows[inner]!;
        row(one.kind, inner, one.name, () => this.choose(one.node, one), [[translate(MEANING[one.kind])], [`${translate("in")} ${name(description, node.id)}`], [], [cell("gradient", inner) || translate("none")], []]);
      }
    }
    const caption = html("caption", {}, `${description.name}: ${description.summary} ${note}`.trim(), " ", this.#choice);
    this.root.replaceChildren(html("table", {}, caption, html("thead", {}, head), this.#body));
    this.#columns = new Map(columns.map(({ key, order }) => [key, order]));
    this.#arrange();
  }

  #columns = new Map<string, number[]>();

  /** The largest first; after a second click the smallest, and after a third the order of the graph. */
  #sort(key: string): void {
    if (this.#key !== key) [this.#key, this.#down] = [key, true];
    else if (this.#down) this.#down = false;
    else this.#key = "";
    this.#arrange();
  }

  #arrange(): void {
    const order = this.#columns.get(this.#key);
    const rank = new Map((order && !this.#down ? [...order].reverse() : order)?.map((place, at) => [place, at]));
    const fits = CHOICES.find(([value]) => value === this.#choice.value)![2];
    const shown = this.#rows.filter(({ kind }) => fits(kind));
    if (order) shown.sort((a, b) => (rank.get(a.place) ?? Infinity) - (rank.get(b.place) ?? Infinity) || 0);
    const elements = shown.map(({ element }) => element);
    this.#body.replaceChildren(...elements);
    [...this.#head.children].forEach((_, at) => {
      const unused = elements.length > 0 && elements.every(({ children }) => !children[at]?.textContent); // there is more room for the others
      for (const { children } of [this.#head, ...elements]) (children[at] as HTMLElement).hidden = unused;
    });
    for (const [key, head] of this.#heads) {
      const sort = order && key === this.#key ? (this.#down ? "descending" : "ascending") : "none";
      attribute(head, "aria-sort", sort);
      head.querySelector("i")!.textContent = { descending: " ▼", ascending: " ▲", none: "" }[sort];
    }
  }
}

/** The folded box that something in this scope is inside of. */
export function homeOf({ nodes, ranking }: Description, scope: string | null): GraphNode | undefined {
  const around = new Set<string>();
  for (let one: string | null = scope; one !== null && !around.has(one); one = ranking.parents[one] ?? null) around.add(one);
  return nodes.find(({ holds }) => holds.some((held) => around.has(held)));
}
