// The numbers of a tensor: as a coloured table where there are few, else as a heat map, and as a histogram.

import type { Look } from "./description";
import { html, svg } from "./dom";

export function lookOf(title: string, look: Look, ...more: HTMLElement[]): HTMLElement {
  const parts: Node[] = [html("h4", {}, title)];
  if (look.columns) parts.push(look.cells.length ? table(look) : map(look));
  if (look.bars.length) parts.push(histogram(look));
  parts.push(html("p", { class: "nbg-facts" }, look.facts), ...more);
  return html("section", { class: "nbg-look" }, ...parts);
}

/** The share of colour of a level, and whether it is positive. "A" to "Y", "M" is zero. */
function colour(level: string | undefined): string {
  if (level === "n" || level === "i") return "var(--nbg-alarm)";
  const at = (level ?? "M").charCodeAt(0) - 77;
  return `color-mix(in oklab, var(--nbg-ink-${at < 0 ? "negative" : "positive"}) ${Math.round((Math.abs(at) / 12) * 78)}%, var(--nbg-zero))`;
}

function table(look: Look): HTMLElement {
  const body = html("tbody");
  const wide = 6.7 * Math.max(...look.cells.map((cell) => cell.length)) + 13; // of a cell, in a panel of 288 pixels
  const columns = look.columns === look.cells.length ? Math.min(5, Math.floor(288 / wide)) : look.columns; // a vector is wrapped
  for (let at = 0; at < look.cells.length; at += columns) {
    const row = html("tr");
    for (let column = at; column < Math.min(at + columns, look.cells.length); column++)
      row.append(html("td", { style: `background:${colour(look.levels[column])}` }, look.cells[column] ?? ""));
    body.append(row);
  }
  return html("div", { class: "nbg-scroll", tabindex: 0 }, html("table", { class: "nbg-heat", testid: "heat" }, body));
}

export function map(look: Look): Element {
  const [columns, rows] = [look.columns, look.levels.length / look.columns];
  const drawing = svg("svg", {
    class: "nbg-map", viewBox: `0 0 ${columns} ${rows}`, role: "img", label: `heat map: ${look.facts}`,
    preserveAspectRatio: columns / rows > 8 ? "none" : "xMinYMid meet", testid: "heat",
    style: `height:${Math.max(18, Math.min(160, (rows / columns) * 280))}px`,
  });
  const paths = new Map<string, string>(); // one for each level: a map may have 16,000 cells
  [...look.levels].forEach((level, at) => {
    paths.set(level, `${paths.get(level) ?? ""}M${at % columns} ${Math.floor(at / columns)}h1.03v1.03h-1.03`);
  });
  for (const [level, d] of paths) drawing.append(svg("path", { d, style: `fill:${colour(level)}` }));
  return drawing;
}

function histogram(look: Look): HTMLElement {
  const bars = svg("svg", {
    class: "nbg-bars", viewBox: `0 0 ${look.bars.length} 100`, preserveAspectRatio: "none", role: "img",
    label: `histogram from ${look.low} to ${look.high}`, testid: "histogram",
  });
  look.bars.forEach((height, at) => bars.append(svg("rect", { x: at + 0.08, y: 100 - height, width: 0.84, height })));
  return html("div", { class: "nbg-histogram" }, bars, html("div", {}, html("span", {}, look.low), html("span", {}, look.high)));
}
