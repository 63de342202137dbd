// Written by tools/write_view.py from palette.py, curves.py, card.py and tensor_summary.py in nbgrad/widgets: run make write.

import type { Kind } from "./description";

/** The meaning of each kind of node, in the order of the legend. */
export const MEANING: Record<Kind, string> = {
  op: "operation",
  parameter: "parameter",
  leaf: "leaf: needs a gradient",
  input: "input",
  constant: "constant",
  outside: "made before this graph",
  folded: "folded module",
  failed: "raised an error",
};

/** The meaning of a folded box for a loop, and the meaning if there are loops and modules. */
export const FOLDED = {
  loop: "folded loop",
  both: "folded module or loop",
};

/** The addition to the legend if a folded box has a small chart. */
export const BARS = ", bars: gradients of its parameters";

/** The meanings of the other signs of the legend. */
export const SIGNS = {
  root: "backward starts here",
  mark: "broadcast undone: summed",
  value: "value, forward",
  back: "∇ gradient, backward",
  wrong: "∇ NaN or infinity",
  faint: "no gradient",
  jump: "goes on at the same letter",
};

/** Half the distance between the two lines of an edge. */
export const APART = 3;

/** How long an arrow head is. */
export const TIP_LENGTH = 7;

/** How wide an arrow head is on each side of its line. */
export const TIP_SIDE = 3.2;

/** How many pixels are seen of the boxes behind a folded one. */
export const BEHIND = 5;

/** How wide a bar of a small chart is, with the gap behind it. */
export const BAR = 3;

/** How high the highest bar is. */
export const BAR_HEIGHT = 10;

/** The gradient is beside the last line if the two together have at most this many letters. */
export const TOGETHER = 36;

/** How many letters a line of a short box has at most. */
export const SHORT = 24;

/** How many letters a box has at most that is only a name. */
export const NAME = 16;

/** A text of fewer letters than this is left out rather than cut. */
export const NARROW = 5;

/** How high a short box is. */
export const HIGH = 41;

/** The scale at which the smallest letters of a picture can just be read. */
export const LEGIBLE = 0.818182;

/** A small picture is not seen larger than by this factor. */
export const LARGEST = 1.25;

/** How high the smallest letters of a picture are. */
export const LETTERS = 11;

/** How many times as large as elsewhere a picture is on a projector. */
export const PROJECTOR = 3;

/** A list of numbers is broken after so many letters. */
export const WIDE = 42;
