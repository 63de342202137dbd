// The parts around the picture: the title, the notices, the tools; and the list of the signs and keys.

import { BARS, FOLDED, MEANING, SIGNS } from "./constants";
import { BADGES, loops } from "./draw";
import type { Description, Layout } from "./description";
import { attribute, button, flag, html, listen } from "./dom";
import { message, translate } from "./language";
import { classColour, placeOf, wrong } from "./model";
import { lookFor, THUMBNAILS } from "./thumbnails";

export type Mode = "forward" | "backward" | "both";

/** The actions of the tools. */
export interface Tools {
  mode(mode: Mode): void;
  colour(key: string): void;
  search(query: string, by: number): void;
  reductions(): void;
  findings(): void;
  steps(): void;
  past(): void;
  memory(): void;
  legend(): void;
  showTable(): void;
  project(): void;
  readonly projected: boolean;
  turn(): void;
  scale(factor: number): void;
  fit(): void;
}

const plain = (text: string): string => text.replace(/\s+/g, " ");

/** The parts that a line says one after the other: one without room goes whole. */
const parts = (text: string): HTMLElement[] => text.split(/(?=[,;] )/).map((one) => html("span", {}, one));

/** Write the numbers from which a backward started into a title. */
export function tellLosses(title: HTMLElement, text: string): void {
  const place = title.querySelector<HTMLElement>(".nbg-loss")!;
  place.textContent = place.title = text;
  place.hidden = !text;
  flag(place, "broken", /\b(nan|-?inf)\b/.test(text));
}

export const lossesOf = ({ losses }: Description): string => losses.map(({ name, text }) => `${name} ${text}`).join(", ");

/** The title and what it adds up to, in one line; a pointer that rests on it gets all of its words. */
export function titleOf({ name, summary, totals, memory, outcome, checked }: Description): HTMLElement {
  const whole = memory ? `${summary}; ${memory.text}` : summary;
  return html("div", { class: "nbg-words", title: [`${name}: ${whole}`, totals].filter(Boolean).join("; ") }, html("strong", {}, name), html("b", { class: "nbg-loss", testid: "losses" }), ...(outcome ? [html("b", { class: `nbg-outcome ${outcome[0] === "✓" ? "nbg-sound" : ""}`, title: [outcome, ...checked].join("\n"), testid: "outcome" }, outcome.split(" in ")[0]!)] : []), html("span", { testid: "totals" }, ...parts([totals, summary].filter(Boolean).join("; "))));
}

/** The finding and the notes in one line: an error in red, a finding in its colour, the rest in grey. A click opens them in full, or goes to the finding. */
export function noticesOf(description: Description, go: (node: string) => void): HTMLElement {
  const { notes, stopped, problems, verdicts } = description;
  const all: HTMLElement[] = [];
  const turn = () => flag(bar, "open", !bar.matches(".nbg-open"));
  const add = (tag: "button" | "span", kind: string, text: string, attributes: Record<string, string>) => {
    const one = html(tag, { class: `nbg-note ${kind}`, title: text, ...attributes }, text);
    all.push(one);
    return one;
  };
  const error = stopped ? notes[0] : undefined;
  if (error) add("span", "nbg-error", error, { role: "alert", testid: "error" });
  const found = [...problems, ...verdicts.filter((one) => one.kind !== "sound")].find(({ text }) => !plain(error ?? "").includes(plain(text)));
  if (found) {
    const place = "node" in found ? found.node : placeOf(description, found.scope);
    const banner = add(place ? "button" : "span", `nbg-finding nbg-finding-${found.kind}`, found.text, { testid: "top-finding" });
    if (place) listen(banner, "click", () => go(place));
  }
  for (const note of error ? notes.slice(1) : notes) add("span", "", note, { role: "note" });
  const more = button(all.length > 1 ? `+ ${all.length - 1}` : "⌄", translate("All notices in full"), "notices", turn);
  const bar = html("div", { class: "nbg-notices" }, html("div", {}, ...all), more);
  bar.hidden = !all.length;
  for (const one of all) if (one instanceof HTMLSpanElement) listen(one, "click", turn);
  return bar;
}

export function toolbarOf(tools: Tools, turns: boolean): HTMLElement {
  const end = html("span", { class: "nbg-group", role: "group", label: translate("Place") });
  if (turns) end.append(button("⤨", translate("Direction: from top to bottom, or from left to right"), "turn", tools.turn));
  end.append(
    button("☰", translate("The graph as a table (T)"), "as-table", tools.showTable),
    button("⤢", translate("Projector: large letters on the whole screen (P)"), "project", tools.project),
    button("−", translate("Zoom out"), "zoom-out", () => tools.scale(1 / 1.4)),
    button("+", translate("Zoom in"), "zoom-in", () => tools.scale(1.4)),
    button(translate("Fit"), translate("Fit the whole graph"), "fit", tools.fit),
    button("?", translate("What the signs mean, and the keys (?)"), "legend", tools.legend),
  );
  const panels = html("span", { class: "nbg-set", role: "group", label: translate("Panels") },
    button(`▶ ${translate("Steps")}`, translate("Walk through the backward, rule by rule (S)"), "steps", tools.steps),
    button("", translate("The backwards in the history (H)"), "history", tools.past),
    button(translate("Memory"), translate("The bytes that live through forward and backward (M)"), "memory", tools.memory),
    button("", translate("List the broadcast reductions"), "reductions", tools.reductions),
    button("", translate("Findings, and what was checked"), "findings", tools.findings),
  );
  const rail = html("div", { class: "nbg-rail" }, modes(tools), panels, colours(tools), search(tools), end);
  return html("div", { class: "nbg-tools", role: "toolbar", label: translate("View") }, ...railed(rail, panels));
}

/** A rail without room for all tools scrolls, and has a button at each end behind which there are more. Tab also brings them into sight. */
function railed(rail: HTMLElement, panels: HTMLElement): HTMLElement[] {
  const more = (sign: string, label: string, side: string, by: number) => {
    const one = button(sign, label, `tools-${side}`, () => (rail.scrollLeft += by * rail.clientWidth));
    one.className = "nbg-more";
    one.tabIndex = -1;
    return one;
  };
  const [left, right] = [more("‹", translate("More tools to the left"), "left", -0.6), more("›", translate("More tools to the right"), "right", 0.6)];
  const show = (tool: Element | null) => tool?.scrollIntoView({ block: "nearest", inline: "nearest" });
  let known = "";
  const look = () => {
    const fits = rail.scrollWidth <= rail.parentElement!.clientWidth; // where the buttons take no room
    left.hidden = fits || rail.scrollLeft < 2;
    right.hidden = fits || rail.scrollLeft > rail.scrollWidth - rail.clientWidth - 2;
    const seen = `${left.hidden} ${right.hidden}`;
    if (seen !== known) show(rail.querySelector(":focus")); // a button that comes takes room of the rail
    known = seen;
  };
  listen(rail, "scroll", look);
  listen(rail, "focusin", ({ target }) => show(target as Element)); // a browser does it only for a tool of which nothing is seen
  const watcher = new ResizeObserver(look);
  for (const one of [rail, panels]) watcher.observe(one);
  return [left, rail, right];
}

/** The buttons between which the arrow keys go: Tab goes to one of them, and then past all of them. */
export const groupOf = (one: Element): HTMLElement[] =>
  [...(one.closest(".nbg-group, .nbg-set")?.querySelectorAll("button") ?? [])].filter((button) => !button.hidden);

/** Let Tab go to this one of its group. */
export function rove(one: HTMLElement): void {
  for (const other of groupOf(one)) other.tabIndex = other === one ? 0 : -1;
}

/** Say of the buttons that open something whether it is open. */
export function press(bar: HTMLElement, open: Record<string, boolean>): void {
  for (const [name, holds] of Object.entries(open)) attribute(bar.querySelector(`[data-testid=nbgrad-${name}]`), "aria-pressed", holds);
}

/** Show the tools that a graph has a use for, and how much there is in each. The choice and the focus stay. */
export function count(bar: HTMLElement, description: Description): void {
  const { nodes, edges, steps, history, overlays, hidden } = description;
  const reductions = [...edges.flatMap(({ reduction }) => reduction ?? []), ...hidden.reductions];
  const sums = reductions.length + hidden.reductions.reduce((sum, { many }) => sum + many - 1, 0);
  const tool = <E extends HTMLElement>(name: string, shown: unknown, label?: string): E => {
    const element = bar.querySelector<E>(`[data-testid=nbgrad-${name}]`)!;
    element.hidden = !shown;
    if (label) element.textContent = label;
    return element;
  };
  bar.querySelector<HTMLElement>(".nbg-group")!.hidden = !edges.some((edge) => edge.gradient);
  tool("steps", steps.length);
  tool("history", history.frames.length, `${translate("History")} (${history.frames.length})`);
  tool("memory", description.memory?.ops.length);
  const sum = tool("reductions", true, `${reductions.some((one) => one.warning) ? "⚠ " : ""}Σ `);
  sum.append(word(`${translate("Reductions")} `), `(${sums})`);
  flag(tool("findings", true, `${translate("Findings")} (${wrong(description)})`), "alert", wrong(description) > 0);
  for (const group of bar.querySelectorAll(".nbg-group, .nbg-set")) {
    const buttons = group.querySelector("button") ? groupOf(group.querySelector("button")!) : [];
    const kept = buttons.find((one) => one.ariaChecked === "true") ?? buttons.find((one) => one.tabIndex === 0) ?? buttons[0];
    if (kept) rove(kept);
  }
  const drawn = Object.entries(THUMBNAILS).filter(([key]) => nodes.some((node) => lookFor(node, key)));
  offer(tool("overlay", overlays.length + drawn.length), [
    ["", translate("colour: kind")], ...overlays.map(({ key, label }) => [key, label.replace(" (log)", "")] as const), ...drawn.map(([key, what]) => [key, translate("{what} in the boxes", { what: translate(what) })] as const),
  ]);
}

/** A word that a narrow view leaves out; it is still read aloud. */
export const word = (text: string): HTMLElement => html("span", { class: "nbg-word" }, text);

/** Offer a choice of these; the present choice stays if it is among them. */
export function offer(choice: HTMLSelectElement, options: (readonly [string | number, string])[]): void {
  const { value } = choice;
  choice.replaceChildren(...options.map(([value, label]) => html("option", { value }, label)));
  choice.value = value;
  if (choice.selectedIndex < 0) choice.value = "";
}

function modes(tools: Tools): HTMLElement {
  const group = html("span", { class: "nbg-group", role: "radiogroup", label: translate("Direction") });
  const all: [Mode, string, string][] = [
    ["forward", `↓ ${translate("Forward")}`, translate("Show only the forward")], ["backward", `↑ ${translate("Backward")}`, translate("Show only the backward")], ["both", `⇅ ${translate("Both")}`, translate("Show both directions")],
  ];
  for (const [mode, label, title] of all) {
    const one = button(label[0]!, title, mode, () => tools.mode(mode));
    one.append(word(label.slice(1)));
    attribute(one, "role", "radio");
    attribute(one, "aria-checked", mode === "both");
    group.append(one);
  }
  return group;
}

function colours(tools: Tools): HTMLElement {
  const choice = html("select", { label: translate("Colour the nodes by"), title: translate("Colour the nodes by"), testid: "overlay" });
  listen(choice, "change", () => tools.colour(choice.value));
  return choice;
}

function search(tools: Tools): HTMLElement {
  const field = html("input", {
    type: "search", placeholder: translate("Search"), title: translate("Search by name, op, shape, module or line (/); Enter and the arrow keys go through what is found"), label: translate("Search"), testid: "search", spellcheck: "false",
  });
  listen(field, "input", () => tools.search(field.value, 0));
  return html("span", { class: "nbg-search" }, field);
}

/** The keys: what to press, and what it does. */
const KEYS: [string, string][] = [
  ["↑ ↓ ← →", message("go from box to box")],
  ["Enter", message("details; once more: unfold")],
  ["F", message("fold or unfold")],
  ["+ − 0", message("zoom in, out, fit")],
  ["S H M T", message("steps, history, memory, table")],
  ["P", message("projector: large letters on the whole screen; P or Escape: back")],
  ["/", message("search; Enter, ↑ and ↓ go through the hits")],
  ["Escape", message("close, and show everything")],
  ["?", message("this list")],
];

/** The signs that this picture has, and the keys. */
export function legendPanel(description: Description, { jumps }: Layout): HTMLElement[] {
  const legend = html("div", { class: "nbg-legend" });
  const { nodes, edges, name, summary, memory } = description;
  const came = edges.some((edge) => edge.gradient);
  const has = (kind: string) => nodes.some((node) => node.kind === kind && !node.root);
  const kinds = new Set(nodes.filter(({ kind }) => kind === "folded").map(loops));
  const folded = translate(kinds.has(true) ? FOLDED[kinds.has(false) ? "both" : "loop"] : MEANING.folded) + (nodes.some(({ bars }) => bars) ? translate(BARS) : "");
  const entries: [boolean, string, string][] = [
    ...Object.entries({ ...MEANING, folded }).map(([kind, meaning]): [boolean, string, string] => [has(kind), kind, translate(meaning)]),
    [nodes.some((node) => node.root), "root", `⬆ ${translate(SIGNS.root)}`],
    [edges.some((edge) => edge.reduction), "mark", `Σ ${translate(SIGNS.mark)}`],
    [jumps.length > 0, "jump", `a: ${translate(SIGNS.jump)}`],
    [edges.some((edge) => edge.gradient !== null), "came", translate(SIGNS.value)],
    [came, "back", translate(SIGNS.back)],
    [edges.some((edge) => edge.spoiled), "mismatch", translate(SIGNS.wrong)],
    [edges.some((edge) => edge.gradient === null), "none", translate(SIGNS.faint)],
  ];
  for (const [shown, key, meaning] of entries)
    if (shown) legend.append(html("span", {}, html("i", { class: `nbg-key nbg-key-${key}` }), meaning));
  for (const [kind, [sign, meaning]] of Object.entries(BADGES))
    if (nodes.some(({ badges }) => badges.some((badge) => badge.kind === kind)))
      legend.append(html("span", {}, html("i", { class: `nbg-key nbg-key-badge nbg-key-${kind}` }, sign), translate(meaning)));
  if (edges.some((edge) => edge.mismatch)) legend.append(html("span", {}, html("i", { class: "nbg-key nbg-key-mismatch" }), `∇ … ≠ ${translate("gradient and value differ in shape")}`));
  const keys = html("dl", { class: "nbg-keys" }, ...KEYS.flatMap(([key, does]) => [html("dt", {}, key), html("dd", {}, translate(does))]));
  const hand = matchMedia("(hover: none)").matches; // no mouse, and seldom a keyboard
  return [
    html("h3", {}, name), html("p", {}, `${summary}.`), ...(memory ? [html("p", {}, `${memory.text}.`)] : []),
    html("h4", {}, translate("Signs")), legend, html("h4", {}, translate("Moving")),
    html("p", { class: "nbg-help" }, hand ? translate("Drag to move. Two fingers zoom.") : translate("Drag to move. Ctrl and the wheel, or two fingers, zoom.")), ...(hand ? [] : [html("h4", {}, translate("Keys")), keys]),
  ];
}

/** The scale of the colours of an overlay. */
export function scaleOf(description: Description, key: string): HTMLElement | null {
  const overlay = description.overlays.find((one) => one.key === key);
  if (!overlay) return null;
  const scale = html("div", { class: "nbg-scale", testid: "scale", title: overlay.label }, html("b", {}, overlay.label));
  if (!overlay.classes.length) scale.append(overlay.low, html("i", { class: "nbg-ramp" }), overlay.high);
  overlay.classes.forEach((name, at) => scale.append(html("span", {}, html("i", { class: "nbg-dot", style: `background:${classColour(overlay, at)}` }), name)));
  return scale;
}
