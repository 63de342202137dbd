// The graph as a table: for screen readers, and for everybody who would rather read than look.

import { MEANING } from "./constants";
import type { Description } from "./description";
import { html, listen } from "./dom";
import { lines, name, scopePath } from "./model";

export function tableOf(description: Description, choose: (id: string) => void): HTMLElement {
  const head = html("tr");
  for (const title of ["Node", "What", "Module", "Takes", "Gradient", "Findings"]) head.append(html("th", { scope: "col" }, title));
  const body = html("tbody");
  for (const node of description.nodes) {
    const takes = description.edges.filter((edge) => edge.target === node.id);
    const go = html("button", { type: "button" }, lines(node).join(", "));
    listen(go, "click", () => choose(node.id));
    const list = takes.map((edge) => {
      const reduction = edge.reduction ? `; gradient summed ${edge.reduction.text}` : "";
      return html("div", {}, `${edge.input ? `${edge.input}: ` : ""}${name(description, edge.source)} ${edge.label}${reduction}`);
    });
    const back = description.edges.find((edge) => edge.source === node.id && edge.gradient)?.gradient;
    const gradient = node.gradient?.facts ?? node.rule ?? back ?? (node.root ? "not kept" : "none");
    body.append(
      html("tr", {},
        html("th", { scope: "row" }, go), html("td", {}, MEANING[node.kind]), html("td", {}, scopePath(description, node.scope)),
        html("td", {}, ...list), html("td", {}, gradient),
        html("td", {}, node.badges.map((badge) => badge.text).join("; "))),
    );
  }
  const caption = html("caption", {}, `${description.name}: ${description.summary}`);
  return html("div", { class: "nbg-table", tabindex: 0, hidden: "", testid: "table" },
    html("table", {}, caption, html("thead", {}, head), body));
}
