// The numbers of a tensor: as a coloured table where there are few, else as a heat map, and as a histogram.

import type { Look } from "./description";
import { html, svg } from "./dom";
import { translate } from "./language";

export function lookOf(title: string, look: Look, ...more: HTMLElement[]): HTMLElement {
  const parts: Node[] = [html("h4", {}, title)];
  if (look.columns) parts.push(look.cells.length ? table(look) : map(look), ...shades(look));
  if (look.bars.length) parts.push(histogram(look));
  parts.push(html("p", { class: "nbg-facts" }, look.facts), ...more);
  return html("section", { class: "nbg-look" }, ...parts);
}

/** The scale of the colours: white is zero, and the strongest colour is the number farthest from zero. */
function shades({ low, high, cells }: Look): Node[] {
  const size = (text: string) => Math.abs(Number(text)) || 0;
  const far = [low, high, ...cells].reduce((most, one) => (Number.isFinite(size(one)) && size(one) > size(most) ? one : most), "0").replace("-", "");
  return size(far) ? [html("div", { class: "nbg-shades" }, `-${far}`, html("i"), far)] : [];
}

/** The colour of a level. A level is a letter from "A" to "Y"; "M" is zero. */
export function colour(level: string | undefined): string {
  if (level === "n" || level === "i") return "var(--nbg-alarm)";
  const at = (level ?? "M").charCodeAt(0) - 77;
  return `color-mix(in oklab, var(--nbg-ink-${at < 0 ? "negative" : "positive"}) ${Math.round((Math.abs(at) / 12) * 78)}%, var(--nbg-zero))`;
}

function table(look: Look): HTMLElement {
  const body = html("tbody");
  const wide = 6.7 * Math.max(...look.cells.map((cell) => cell.length)) + 13; // of a cell, in half of a panel
  const columns = look.columns === look.cells.length || look.columns === 1 ? Math.max(1, Math.min(5, Math.floor(138 / wide))) : look.columns; // a vector is wrapped
  for (let at = 0; at < look.cells.length; at += columns) {
    const row = html("tr");
    for (let column = at; column < Math.min(at + columns, look.cells.length); column++)
      row.append(html("td", { style: `background:${colour(look.levels[column])}`, title: `[${place(look, column)}] ${look.cells[column] ?? ""}` }, look.cells[column] ?? ""));
    body.append(row);
  }
  return html("div", { class: "nbg-scroll", tabindex: 0 }, html("table", { class: "nbg-heat", testid: "heat" }, body));
}

/** Which row and column a number is in. */
const place = ({ columns, levels }: Look, at: number): string => (columns === levels.length ? String(at) : `${Math.floor(at / columns)}, ${at % columns}`);

export function map(look: Look): Element {
  const [columns, rows] = [look.columns, look.levels.length / look.columns];
  const drawing = svg("svg", {
    class: "nbg-map", viewBox: `0 0 ${columns} ${rows}`, role: "img", label: `${translate("heat map")}: ${look.facts}`,
    preserveAspectRatio: columns / rows > 8 ? "none" : "xMinYMid meet", testid: "heat",
    style: `height:${Math.max(18, Math.min(160, (rows / columns) * 280))}px`,
  });
  const paths = new Map<string, string>(); // one for each level: a map may have 16,000 cells
  [...look.levels].forEach((level, at) => {
    paths.set(level, `${paths.get(level) ?? ""}M${at % columns} ${Math.floor(at / columns)}h1.03v1.03h-1.03`);
  });
  const said = svg("title", {}, "");
  drawing.append(said);
  drawing.addEventListener("pointermove", ({ clientX, clientY }) => {
    const at = new DOMPoint(clientX, clientY).matrixTransform(drawing.getScreenCTM()?.inverse());
    const [row, column] = [Math.floor(at.y), Math.floor(at.x)];
    const level = column >= 0 && column < columns ? look.levels[row * columns + column] : undefined;
    const part = ((level?.charCodeAt(0) ?? 77) - 77) / 12;
    said.textContent = level === undefined ? "" : `[${place(look, row * columns + column)}] ${level === "n" ? "NaN" : level === "i" ? translate("infinite") : translate("about {part}% of the largest magnitude", { part: Math.round(100 * part) })}`;
  });
  for (const [level, d] of paths) drawing.append(svg("path", { d, style: `fill:${colour(level)}` }));
  return drawing;
}

export function histogram(look: Look): HTMLElement {
  const bars = svg("svg", {
    class: "nbg-bars", viewBox: `0 0 ${look.bars.length} 100`, preserveAspectRatio: "none", role: "img",
    label: `${translate("histogram from {low} to {high}", { low: look.low, high: look.high })}${ofSample(look)}`, testid: "histogram",
  });
  look.bars.forEach((height, at) => bars.append(svg("rect", { x: at + 0.08, y: 100 - height, width: 0.84, height })));
  return html("div", { class: "nbg-histogram" }, bars, html("div", {}, html("span", {}, look.low), html("span", {}, ofSample(look).trim()), html("span", {}, look.high)));
}

/** That a histogram is not one of all numbers, if it is not. */
export const ofSample = ({ sample }: Look): string => (sample ? ` ${translate("of {sample}", { sample })}` : "");
