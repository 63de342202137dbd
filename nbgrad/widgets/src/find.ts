// Which nodes a reader looks for: by words, or by where they stand in the graph.

import type { Description, HiddenNode } from "./description";
import { told } from "./geometry";
import { translate } from "./language";
import { original } from "./model";

/** The ids of the nodes that have every word, and of folded nodes with such nodes inside; then a text that says how many were found. */
export function matches(description: Description, query: string): [string[], string] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return [[], ""];
  const fitting = (all: HiddenNode[]) => all.filter(({ label, words: more }) => {
    const text = `${label} ${more} ${label.replace(/( \(\w+\))? › /g, ".")}`.toLowerCase(); // blocks.0.fc1.weight, too
    return words.every((word) => text.includes(word));
  });
  const [seen, inside] = [fitting(description.nodes.map((node) => told(description, node))), fitting(description.hidden.nodes)];
  const many = inside.reduce((sum, one) => sum + one.many, 0);
  return [[...new Set([...seen, ...inside].map((one) => one.node))], translate(many ? "{count} found, {many} in folded modules" : "{count} found", { count: seen.length + many, many })];
}

/** The nodes above or below one, itself included; copies of one tensor are the same. */
export function reach(description: Description, id: string, what: "ancestors" | "descendants"): Set<string> {
  const [from, to] = what === "ancestors" ? (["target", "source"] as const) : (["source", "target"] as const);
  const next = new Map<string, string[]>();
  for (const edge of description.edges) {
    const at = original(description, edge[from]);
    next.set(at, [...(next.get(at) ?? []), original(description, edge[to])]);
  }
  const found = new Set([original(description, id)]);
  for (const one of found) for (const other of next.get(one) ?? []) found.add(other); // a Set grows while it is walked
  return found;
}

/** Every node on a way between two, in whichever direction there is one. */
export function between(description: Description, a: string, b: string): Set<string> {
  const meet = (from: string, to: string) => {
    const above = reach(description, to, "ancestors");
    return new Set([...reach(description, from, "descendants")].filter((id) => above.has(id)));
  };
  const down = meet(a, b);
  return down.size ? down : meet(b, a);
}
