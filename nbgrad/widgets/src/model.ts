// Questions about a description that need no drawing: what a thing is called, and where it stands.

import type { Description, Node as GraphNode, Overlay, Picture, Scope, Step, Supposed } from "./description";
import { translate } from "./language";

/** The id of the tensor that a copy stands for; of any other node, its own. */
export const original = ({ copies }: Description, id: string): string => copies[id] ?? id;

/** Let a picture know the copies of an earlier one too, to which a link or a choice may lead. */
export const remember = ({ description }: Picture, earlier: Picture): void => void (description.copies = { ...earlier.description.copies, ...description.copies });

/** The id of the box of a folded module, as nbgrad/widgets/description/ids.py makes it. */
export const foldedId = (scope: string): string => `f-${scope}`;

export const nodeOf = (description: Description, id: string): GraphNode | undefined => description.nodes.find((node) => node.id === id);

/** The counterpart of a box in the other of two graphs side by side, if the counterpart is drawn. */
export function twinOf(description: Description, id: string): string | undefined {
  const { nodes, twins } = description;
  const [other, scope] = [twins[original(description, id)], twins[nodeOf(description, id)?.holds[0] ?? ""]];
  return nodes.find((node) => (other === undefined ? scope !== undefined && node.holds[0] === scope : original(description, node.id) === other))?.id;
}

/** The colour of a class of an overlay: its own, or one of six. */
export function classColour(overlay: Overlay | undefined, at: number): string {
  const own = overlay?.colours?.[at];
  return own ? `color-mix(in oklab, ${own} 55%, var(--nbg-card))` : `var(--nbg-class-${at % 6})`;
}

export function name(description: Description, id: string): string {
  return nodeOf(description, id)?.label[0] ?? id;
}

/** The lines of text about a node: first its whole name, or its name and what tells it from others. A list of numbers that was broken is one line again. */
export const lines = ({ label: [head = "", ...rest], about, full }: GraphNode): string[] =>
  [full || (about ? `${head} ${about}` : head), ...rest.join("\n").replaceAll(",\n", ", ").split("\n").filter(Boolean)];

/** A scope and those around it, the outermost first. */
export const within = (scopes: Map<string, Scope>, scope: string | null): string[] => {
  const chain: string[] = [];
  for (let id = scope; id !== null && !chain.includes(id); id = scopes.get(id)?.parent ?? null) chain.unshift(id);
  return chain;
};

export function scopePath(description: Description, scope: string | null): string {
  const scopes = new Map(description.scopes.map((other) => [other.id, other]));
  return within(scopes, scope).map((id) => scopes.get(id)?.full || scopes.get(id)?.label).join(" › ");
}

/** The box that a module is in, or the first one that is in it. */
export const placeOf = ({ nodes }: Description, scope: string | null): string | null =>
  nodes.find((node) => scope && (node.scope === scope || node.holds.includes(scope)))?.id ?? null;

/** The cell's name of an input of an op; empty if it uses the op's own name for the input, or if it is unknown. */
export function called(description: Description, id: string, input: string): string {
  const edge = description.edges.find((one) => one.input === input && original(description, one.target) === original(description, id));
  const source = edge && nodeOf(description, edge.source);
  const title = source?.label[0] ?? "";
  const whose = source?.variable || (source?.kind === "op" || source?.kind === "folded" ? translate("the result of {title}", { title }) : title);
  return whose === input ? "" : whose;
}

/** The line about a step: its number among the drawn steps and, if some are drawn as one, among all rules that ran. */
export function stepTitle(steps: Step[], at: number): string {
  const step = steps[at - 1];
  if (!step) return "";
  const [first = at, last = at, all = steps.length] = step.rules;
  const rules = all === steps.length ? "" : ` (${translate(first === last ? "rule {first} of {all}" : "rules {first}-{last} of {all}", { first, last, all })})`;
  return `${translate(step.rewrite ? "Rewrite {at} of {all}" : "Step {at} of {all}", { at, all: steps.length })}${rules}: ${step.title}`;
}

/** How many findings there are. A verdict on a module counts as one if it says that the gradients are not sound. */
export const wrong = ({ problems, verdicts }: Description): number => problems.length + verdicts.filter((one) => one.kind !== "sound").length;

/** An answer that says nothing yet. */
export const NOTHING: Supposed = {
  node: "", said: "", notes: [], shape: null, whole: false, place: 0, number: "", was: "", grid: [], texts: {}, edges: {}, value: null, gradient: null, result: "", nudge: "",
};
