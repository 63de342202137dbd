// The parts of the browser that the sources use most often, as variables: a minifier shortens variables, and never `Math.max`. See build.mjs.

const { abs, max, min, round, ceil, floor } = Math;
const { entries, values } = Object;
const { Number: number, String: string, Boolean: boolean, document } = globalThis;

export { abs as $abs, ceil as $ceil, entries as $entries, floor as $floor, max as $max, min as $min, round as $round, values as $values, number as $Number, string as $String, boolean as $Boolean, document as $document };
