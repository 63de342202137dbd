// Where a drawing is on its stage, and the gestures that move it: a drag, the wheel, two fingers.

export type Spot = [x: number, y: number];

/** A drawing is made larger by `k`, and then moved by `x` and `y`. */
export class Placement {
  constructor(readonly k: number, readonly x: number, readonly y: number) {}

  /** The point of the drawing that is at a point of the stage. */
  invert([x, y]: Spot): Spot {
    return [(x - this.x) / this.k, (y - this.y) / this.k];
  }

  /** Another scale; what is at the point `from` of the stage is at `to` then. */
  led(k: number, from: Spot, to = from): Placement {
    const by = k / this.k;
    return new Placement(k, to[0] - (from[0] - this.x) * by, to[1] - (from[1] - this.y) * by);
  }

  toString(): string {
    return `translate(${this.x},${this.y}) scale(${this.k})`;
  }
}

/** Who moves the drawing. */
export interface Moved {
  wants(event: Event): boolean;
  begin(): void;
  lead(factor: number, from: Spot, to: Spot): void; // make it so much larger; what is at the first point goes to the other one
  end(): void;
}

const IDLE = 150; // milliseconds without a turn of the wheel: the gesture is over
const EMULATED = 500; // milliseconds after a touch in which browsers also tell of a mouse

/** Hear the gestures on a stage until the signal stops it. */
export function gestures(stage: SVGSVGElement, moved: Moved, signal: AbortSignal): void {
  const hear = <K extends keyof HTMLElementEventMap>(target: EventTarget, type: K, heard: (event: HTMLElementEventMap[K]) => void, stop = signal) =>
    target.addEventListener(type, heard as (event: Event) => void, { passive: false, capture: target === window, signal: stop });
  const spot = ({ clientX, clientY }: { clientX: number; clientY: number }): Spot => {
    const { left, top } = stage.getBoundingClientRect();
    return [clientX - left, clientY - top];
  };
  const use = (event: Event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
  };

  let idle = 0;
  hear(stage, "wheel", (event) => {
    if (!moved.wants(event)) return;
    use(event);
    if (!idle) moved.begin();
    clearTimeout(idle);
    idle = window.setTimeout(() => {
      idle = 0;
      moved.end();
    }, IDLE);
    const by = -event.deltaY * (event.deltaMode === 1 ? 0.05 : event.deltaMode ? 1 : 0.002) * (event.ctrlKey ? 10 : 1);
    moved.lead(2 ** by, spot(event), spot(event));
  });

  let touched = -EMULATED;
  hear(stage, "mousedown", (event) => {
    if (event.timeStamp < touched + EMULATED || !moved.wants(event)) return;
    event.stopImmediatePropagation();
    let [last, dragged] = [spot(event), false];
    const drag = new AbortController();
    moved.begin();
    hear(window, "dragstart", use, drag.signal);
    hear(window, "mousemove", (event) => {
      use(event);
      dragged = true;
      const now = spot(event);
      moved.lead(1, last, now);
      last = now;
    }, drag.signal);
    hear(window, "mouseup", (event) => {
      use(event);
      drag.abort();
      moved.end();
      if (!dragged) return;
      const over = new AbortController(); // the end of a drag is no click
      hear(window, "click", use, over.signal);
      setTimeout(() => over.abort());
    }, drag.signal);
  });

  const fingers = new Map<number, Spot>();
  hear(stage, "touchstart", (event) => {
    if (!moved.wants(event)) return;
    event.stopImmediatePropagation();
    if (!fingers.size) moved.begin();
    for (const one of event.touches) if (fingers.size < 2) fingers.set(one.identifier, spot(one));
  });
  hear(stage, "touchmove", (event) => {
    if (!fingers.size) return;
    use(event);
    const before = [...fingers.values()];
    for (const one of event.changedTouches) if (fingers.has(one.identifier)) fingers.set(one.identifier, spot(one));
    const [[from, was], [to, is]] = [middle(before), middle([...fingers.values()])];
    moved.lead(was && is ? is / was : 1, from, to);
  });
  const lifted = (event: TouchEvent) => {
    if (!fingers.size) return;
    event.stopImmediatePropagation();
    for (const one of event.changedTouches) fingers.delete(one.identifier);
    touched = event.timeStamp;
    if (!fingers.size) moved.end();
  };
  hear(stage, "touchend", lifted);
  hear(stage, "touchcancel", lifted);
}

/** The point between two points, and how far they are apart; of a single one, the point. */
function middle([[x, y] = [0, 0], [u, v] = [x, y]]: Spot[]): [Spot, number] {
  return [[(x + u) / 2, (y + v) / 2], Math.hypot(x - u, y - v)];
}
