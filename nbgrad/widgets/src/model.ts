// Questions about a description that need no drawing: what a thing is called, and where it stands.

import type { Description, Node as GraphNode, Scope } from "./description";

/** The id of the tensor that a copy ("n3.2") stands for. */
export const original = (id: string): string => id.split(".")[0] ?? id;

export const nodeOf = (description: Description, id: string): GraphNode | undefined => description.nodes.find((node) => node.id === id);

export function name(description: Description, id: string): string {
  return nodeOf(description, id)?.label[0] ?? id;
}

/** A node in words: what tells it from others stands behind its name; numbers in several lines are one list. */
export const lines = ({ label: [head = "", ...rest], about }: GraphNode): string[] =>
  [about ? `${head} ${about}` : head, ...rest.join("\n").replaceAll(",\n", ", ").split("\n").filter(Boolean)];

/** A scope and those around it, the outermost first. */
export const within = (scopes: Map<string, Scope>, scope: string | null): string[] => {
  const chain: string[] = [];
  for (let id = scope; id !== null && !chain.includes(id); id = scopes.get(id)?.parent ?? null) chain.unshift(id);
  return chain;
};

export function scopePath(description: Description, scope: string | null): string {
  const scopes = new Map(description.scopes.map((other) => [other.id, other]));
  return within(scopes, scope).map((id) => scopes.get(id)?.label ?? "").join(" › ");
}

/** How many findings there are: a verdict on the gradients of a module is one if they are not sound. */
export const wrong = ({ problems, verdicts }: Description): number => problems.length + verdicts.filter((one) => one.kind !== "sound").length;
