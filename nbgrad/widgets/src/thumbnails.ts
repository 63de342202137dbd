// The numbers of each tensor as a small picture in its box: an image, a heat map, or of a large one a histogram.

import type { Box, Look, Node as GraphNode, Picture } from "./description";
import { attribute, html, svg } from "./dom";
import { type Drawing, spoken } from "./draw";
import { message, translate } from "./language";
import { colour, ofSample } from "./tensor_plot";

/** The pictures for the boxes, by the key in the menu beside the colours. */
export const THUMBNAILS = { "@value": message("values"), "@gradient": message("gradients") } as const;

type Key = keyof typeof THUMBNAILS;

export const isThumbnail = (key: string): key is Key => key in THUMBNAILS;

/** The known facts about the numbers of `key`. */
export const lookFor = (node: GraphNode, key: string): Look | null => (key === "@value" ? node.value : key === "@gradient" ? node.gradient : null);

const CELLS = 20_000; // at most this many cells are drawn, in all boxes together; of a map that is too large for its share, every second or third row and column
const [HEAD, ROW, FOOT, SIDE] = [22, 15, 5, 8]; // heights: of the first line of a box, of the first line of a row, of the rim below; and the width of the rim at a side
const [LEAST, IMAGE] = [8, 40]; // how high a map is at least, and an image at most

/** In every box, draw the numbers of `key` in the place of the lines. A key without numbers takes the drawings away. */
export function thumbnails({ nodes: drawn }: Drawing, { description, layout }: Picture, key: string): void {
  const share = CELLS / Math.max(1, description.nodes.length);
  const foot = new Map<string, number>(); // for each box or row, where its rows or its mark begin
  const under = (id: string, box: Box | undefined) => box && foot.set(id, Math.min(foot.get(id) ?? Infinity, box.y));
  for (const { id, row } of description.nodes) if (row !== null) under(row, layout.nodes[id]);
  for (const { id, source } of description.edges) if (!layout.edges[id]?.length) under(source, layout.marks[id]);
  for (const node of description.nodes) {
    const [element, box, look] = [drawn.get(node.id), layout.nodes[node.id], lookFor(node, key)];
    if (!element || !box) continue;
    element.querySelector(".nbg-thumb")?.remove();
    const found = look && thumbnail(node, look, key, { ...box, height: (foot.get(node.id) ?? box.y + box.height) - box.y }, share);
    element.classList.toggle("nbg-pictured", !!found);
    attribute(element, "aria-label", found ? `${spoken(node)}; ${found[1]}` : spoken(node));
    if (found) element.append(found[0]);
  }
}

/** The part of a box for its numbers: below its first line, or the right half of a low row. An image is at the right end. */
function room({ row }: GraphNode, { x, y, width, height }: Box, image: boolean): Box {
  const size = Math.min(IMAGE, height - 8);
  if (image) return { x: x + width - SIDE - size, y: y + 4, width: size, height: size };
  const head = row === null ? HEAD : ROW;
  if (row !== null && height < head + LEAST + FOOT) return { x: x + width / 2, y: y + 2, width: width / 2 - 4, height: head };
  return { x: x + SIDE, y: y + head, width: width - 2 * SIDE, height: Math.max(LEAST, height - head - FOOT) };
}

function thumbnail(node: GraphNode, look: Look, key: string, box: Box, share: number): [SVGElement, string] | null {
  const { columns, levels, bars, low, high } = look;
  const image = columns && key === "@value" ? imageOf(node, look) : null;
  const place = room(node, box, !!image);
  const group = (width: number, height: number, parts: SVGElement[]) => {
    const [across, down] = [place.width / width, place.height / height];
    const scale = image ? Math.min(across, down) : `${across} ${down}`;
    return svg("g", { class: `nbg-thumb nbg-thumb-${key.slice(1)}`, testid: "thumb", transform: `translate(${place.x} ${place.y}) scale(${scale})` }, ...parts);
  };
  if (image) return [group(image.wide, image.high, paths(image.wide, image.high, 1, image.at)), translate(image.first ? "drawn as an image of {high} × {wide}, the first one" : "drawn as an image of {high} × {wide}", { high: image.high, wide: image.wide })];
  if (columns) {
    const rows = levels.length / columns;
    const by = Math.max(1, Math.ceil(Math.sqrt(levels.length / share)));
    return [group(columns, rows, paths(columns, rows, by, (row, column) => colour(levels[row * columns + column]))), translate("drawn as a heat map of {rows} × {columns}", { rows, columns })];
  }
  if (!bars.length) return null;
  const d = bars.map((height, at) => (height ? `M${at} 100v${-height}h.86v${height}z` : "")).join("");
  return [group(bars.length, 100, [svg("path", { d, class: "nbg-thumb-bars" })]), `${translate("drawn as a histogram from {low} to {high}", { low, high })}${ofSample(look)}`];
}

/** Squares of one colour are one path, those that stand beside each other one rectangle. */
function paths(columns: number, rows: number, by: number, at: (row: number, column: number) => string): SVGElement[] {
  const found = new Map<string, string>();
  for (let row = 0; row < rows; row += by)
    for (let column = 0; column < columns; ) {
      const [start, fill] = [column, at(row, column)];
      do column += by;
      while (column < columns && at(row, column) === fill);
      const [wide, high] = [Math.min(column, columns) - start, Math.min(by, rows - row)];
      found.set(fill, `${found.get(fill) ?? ""}M${start} ${row}h${wide + 0.02}v${high + 0.02}h${-wide - 0.02}z`);
    }
  return [...found].map(([fill, d]) => svg("path", { d, style: `fill:${fill}` }));
}

interface Image {
  wide: number;
  high: number;
  first: boolean; // of several
  at: (row: number, column: number) => string;
}

/** The first image among the numbers of data or of channels, by their shape: three channels are red, green and blue. */
function imageOf({ kind, label }: GraphNode, { columns, levels }: Look): Image | null {
  const shape = label.slice(1).find((line) => /^\(\d+, \d/.test(line))?.match(/\d+(?=[,)])/g)?.map(Number) ?? [];
  const [high = 0, wide = 0] = shape.slice(-2);
  const channels = shape.length > 2 ? shape[shape.length - 3]! : 1;
  const alike = kind !== "parameter" && Math.min(high, wide) >= 8 && Math.max(high, wide) <= 2 * Math.min(high, wide);
  if (!alike || (shape.length < 3 && kind !== "input") || shape.length > 4 || columns !== wide * channels) return null;
  const signed = [...levels].some((level) => level < "M");
  const light = (row: number, column: number, channel: number) => {
    const part = ((levels[row * columns + channel * wide + column] ?? "M").charCodeAt(0) - 77) / 12;
    return Math.round(255 * Math.min(1, signed ? (1 + part) / 2 : part));
  };
  const of = channels === 3 ? [0, 1, 2] : [0, 0, 0];
  return { wide, high, first: levels.length > wide * high * (channels === 3 ? 3 : 1), at: (row, column) => `rgb(${of.map((channel) => light(row, column, channel)).join(" ")})` };
}

/** The meaning of the small pictures. */
export function thumbnailKey(description: Picture["description"], key: Key): HTMLElement {
  const what = THUMBNAILS[key];
  const none = description.nodes.filter((node) => !lookFor(node, key)?.columns && !lookFor(node, key)?.bars.length).length;
  const words = translate("each box has its own scale; large tensors have a histogram") + (key === "@value" ? translate("; images in grey or in colour") : "") + (none ? `; ${translate(none > 1 ? "{none} boxes without numbers to draw" : "{none} box without numbers to draw", { none })}` : "");
  return html("div", { class: "nbg-scale", testid: "scale" }, html("b", {}, translate("the {what} in the boxes", { what: translate(what) })), translate("negative"), html("i", { class: "nbg-signs" }), translate("positive"), html("span", {}, words));
}
