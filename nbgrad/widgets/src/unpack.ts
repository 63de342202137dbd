// A picture as it travels: nbgrad/widgets/render/wire_format.py is the other end.

import type { Look, Picture } from "./description";
import { speak } from "./language";

type Columns = Record<string, unknown[]>;
/** Packed data have types only after they are unpacked. */
type Sent = any;

export async function unpack(data: BlobPart): Promise<Picture> {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  const { looks: columns, ...picture }: Sent = JSON.parse(await new Response(stream).text());
  const looks: Look[] = records(columns);
  const give = (thing: Sent) => {
    for (const key of ["value", "gradient", "incoming", "reduced"]) if (thing && key in thing) thing[key] = looks[thing[key]] ?? null;
  };
  speak(picture.description.texts);
  const others = [picture.first, picture.large].filter(Boolean);
  for (const { description, layout, turned } of [picture, ...others]) {
    description.nodes = records(description.nodes);
    for (const node of description.nodes) give(node);
    for (const one of [...description.nodes, ...(description.hidden?.nodes ?? [])]) one.norms = norms(one.norms);
    description.edges = records(description.edges);
    for (const edge of description.edges) give(edge.reduction);
    for (const one of [layout, turned]) raise(one);
  }
  for (const one of others) share(one, picture.description);
  return picture;
}

/** Give a first picture, or that for a projector, what it has in common with the whole one. */
function share(other: Sent, whole: Sent): void {
  for (const part in other.shared)
    other.description[part] = other.shared[part].map((at: number | null) => (at === null ? other.description[part].shift() : whole[part][at]));
  other.description = { ...whole, ...other.description, copies: { ...whole.copies, ...other.description.copies } };
  whole.copies = other.description.copies; // a link may lead to a copy that only the other picture has
}

function records(columns: Columns): Sent[] {
  const all = Object.entries(columns);
  return (all[0]?.[1] ?? []).map((_, at) => Object.fromEntries(all.map(([key, column]) => [key, column[at]])));
}

/** A layout again: its boxes come as columns, and its runs of points in tenths of a pixel, each from the one before it. */
function raise(layout: Sent): void {
  if (!layout) return;
  for (const part of ["nodes", "labels", "marks", "scopes"]) layout[part] = Object.fromEntries(records(layout[part]).map(({ id, ...box }) => [id, box]));
  for (const id in layout.edges)
    layout.edges[id] = layout.edges[id].map((steps: number[]) => {
      const run: number[][] = [];
      for (let at = 0, x = 0, y = 0; at < steps.length; at += 2) run.push([(x += steps[at]!) / 10, (y += steps[at + 1]!) / 10]);
      return run;
    });
}

/** The norms again: each comes as its distance from the last one among all numbers of four digits. */
function norms(sent: (number | string)[]): string[] {
  let place = 0;
  return sent.map((one) => (typeof one === "string" ? one : text((place += one))));
}

/** As Python writes such a number. */
function text(place: number): string {
  const exponent = Math.floor(place / 9000);
  const digits = place - 9000 * exponent + 1000;
  if (exponent > -5 && exponent < 4) return String(Number(`${digits}e${exponent - 3}`));
  return `${digits / 1000}e${exponent < 0 ? "-" : "+"}${String(Math.abs(exponent)).padStart(2, "0")}`;
}
