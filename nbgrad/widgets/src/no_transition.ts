// Stands in for d3-transition, which d3-zoom imports for animated zooms. This view has none, and without it (and the
// interpolations, colours, timers and easings that it brings) the bundle is half as large. See build.mjs and slim.mjs.

import { selection } from "d3-selection";

const interruptible = selection.prototype as unknown as { interrupt(): unknown };
interruptible.interrupt = function () {
  return this;
};

export function interrupt(): void {}
