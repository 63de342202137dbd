// Stands in for d3-transition and d3-interpolate, which d3-zoom imports for animated zooms. This view has none, and
// without them (and the colours, timers and easings they bring) the bundle is half as large. See build.mjs.

import { selection } from "d3-selection";

const interruptible = selection.prototype as unknown as { interrupt(): unknown };
interruptible.interrupt = function () {
  return this;
};

export function interrupt(): void {}
export const interpolateZoom = null;
