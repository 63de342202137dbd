// What stands on the page of a view: boxes, letters, white space. It is evaluated in the page, which must be at scale 1.

(() => {
  const EDGE = 1; // pixels by which a box may stick out: browsers round
  const CELL = 4; // white space is counted in squares of so many pixels

  const overlap = (a, b) => Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
  const inside = (a, b) => a.left >= b.left - EDGE && a.right <= b.right + EDGE && a.top >= b.top - EDGE && a.bottom <= b.bottom + EDGE;
  const seen = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const stageOf = () => document.querySelector(".nbg-stage");

  /** The elements that lie over the stage and are no part of the drawing. */
  const over = () =>
    [...stageOf().parentElement.children].filter((one) => one !== stageOf() && seen(one) && overlap(one.getBoundingClientRect(), stageOf().getBoundingClientRect()) > 0);

  /** The boxes of the drawing. Rows belong to their box. */
  const boxes = () =>
    [...document.querySelectorAll(".nbg-stage .nbg-node:not(.nbg-row)")].map((element) => {
      const shape = [...element.querySelectorAll(".nbg-shape")].find(seen) ?? element;
      return { element, shown: seen(element), rect: shape.getBoundingClientRect() };
    });

  /** The pixels of a letter's em on the screen. */
  function letters(element) {
    const size = parseFloat(getComputedStyle(element).fontSize);
    const matrix = element.getScreenCTM?.();
    return matrix ? size * Math.hypot(matrix.c, matrix.d) : size;
  }

  /** The texts of the drawing that can be seen: each run of letters of one size. */
  function drawn() {
    const stage = stageOf().getBoundingClientRect();
    const found = [];
    for (const element of document.querySelectorAll(".nbg-stage :is(text, tspan)")) {
      const own = [...element.childNodes].filter((one) => one.nodeType === 3 && one.data.trim());
      if (!own.length || !seen(element)) continue;
      const range = document.createRange();
      const rect = element.tagName === "text" ? element.getBoundingClientRect() : (range.selectNodeContents(element), range.getBoundingClientRect());
      if (!rect.width || !overlap(rect, stage)) continue;
      const paint = getComputedStyle(element);
      if (paint.fillOpacity === "0" || paint.fill === "none") continue;
      found.push({ element, rect, text: own.map((one) => one.data).join("").trim(), size: letters(element) });
    }
    return found;
  }

  /** The corners of the smallest convex shape around some points. */
  function hull(points) {
    points.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const turn = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]);
    const half = (all) => {
      const kept = [];
      for (const point of all) {
        while (kept.length > 1 && turn(kept[kept.length - 2], kept[kept.length - 1], point) <= 0) kept.pop();
        kept.push(point);
      }
      return kept.slice(0, -1);
    };
    return [...half(points), ...half([...points].reverse())];
  }

  /** The share of the stage that no box and no hull of an edge covers; and, with `frames`, no frame of a module. */
  function white() {
    const stage = stageOf().getBoundingClientRect();
    const [width, height] = [Math.floor(stage.width / CELL), Math.floor(stage.height / CELL)];
    if (!width || !height) return 1;
    const canvas = new OffscreenCanvas(width, height);
    const paint = canvas.getContext("2d", { willReadFrequently: true });
    paint.lineWidth = 2;
    const rect = (one) => paint.fillRect((one.left - stage.left) / CELL, (one.top - stage.top) / CELL, one.width / CELL, one.height / CELL);
    for (const one of boxes()) if (one.shown) rect(one.rect);
    for (const one of document.querySelectorAll(".nbg-stage .nbg-mark .nbg-shape")) if (seen(one)) rect(one.getBoundingClientRect());
    for (const one of document.querySelectorAll(".nbg-stage rect.nbg-scope")) if (seen(one)) rect(one.getBoundingClientRect());
    for (const edge of document.querySelectorAll(".nbg-stage .nbg-edge")) {
      if (!seen(edge)) continue;
      const points = [];
      for (const line of edge.querySelectorAll("path")) {
        if (!seen(line)) continue;
        const [length, matrix] = [line.getTotalLength(), line.getScreenCTM()];
        for (let at = 0; at <= 16; at++) {
          const { x, y } = line.getPointAtLength((length * at) / 16).matrixTransform(matrix);
          points.push([(x - stage.left) / CELL, (y - stage.top) / CELL]);
        }
      }
      if (points.length < 3) continue;
      paint.beginPath();
      for (const [x, y] of hull(points)) paint.lineTo(x, y);
      paint.closePath();
      paint.fill();
      paint.stroke();
    }
    const pixels = paint.getImageData(0, 0, width, height).data;
    let bare = 0;
    for (let at = 3; at < pixels.length; at += 4) if (pixels[at] < 128) bare++;
    return bare / (width * height);
  }

  /** The part of the stage that lies outside of the smallest rectangle around the drawing. */
  function outside() {
    const stage = stageOf().getBoundingClientRect();
    const parts = [...boxes().map(({ element }) => element), ...document.querySelectorAll(".nbg-stage :is(.nbg-mark .nbg-shape, rect.nbg-scope, .nbg-edge path)")];
    const rects = parts.filter(seen).map((one) => one.getBoundingClientRect());
    if (!rects.length || !stage.width || !stage.height) return 1;
    const most = (side, sign) => Math.max(...rects.map((one) => sign * one[side])) * sign;
    const around = { left: most("left", -1), right: most("right", 1), top: most("top", -1), bottom: most("bottom", 1) };
    return 1 - overlap(around, stage) / (stage.width * stage.height);
  }

  /** How long the lines of values are together, and the longest one: pixels of the screen. */
  function ink() {
    const lines = [...document.querySelectorAll(".nbg-stage .nbg-value")].filter(seen).map((line) => {
      const { a, b } = line.getScreenCTM();
      return line.getTotalLength() * Math.hypot(a, b);
    });
    return { ink: lines.reduce((sum, length) => sum + length, 0), longest: Math.max(0, ...lines) };
  }

  /** The figures of the picture as it stands now. */
  function look() {
    const [view, stage] = [document.querySelector(".nbgrad").getBoundingClientRect(), stageOf().getBoundingClientRect()];
    const [all, texts, above] = [boxes(), drawn(), over().map((one) => one.getBoundingClientRect())];
    const whole = all.filter(({ shown, rect }) => shown && rect.width && inside(rect, stage) && !above.some((one) => overlap(one, rect) > 4));
    const wordless = whole.filter(({ rect }) => !texts.some((text) => overlap(text.rect, rect)));
    const smallest = texts.reduce((least, one) => (one.size < least.size ? one : least), { size: Infinity, text: "" });
    const cut = all.filter((one) => !whole.includes(one)).map(({ element }) => element.querySelector("title")?.textContent ?? "");
    return {
      boxes: all.length, whole: whole.length, cut: cut.slice(0, 8), wordless: wordless.length,
      letters: texts.length ? smallest.size : 0, smallest: smallest.text, texts: texts.length,
      white: white(), outside: outside(), ...ink(),
      stage: [stage.width, stage.height], view: view.height, frame: view.height - stage.height,
    };
  }

  // --- what collides -----------------------------------------------------------------------------------------------

  const short = (text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text);

  /** Whether two texts touch: a part of one is on the other, or beside it without a gap. */
  function touch(a, b) {
    const [across, down] = [Math.min(a.right, b.right) - Math.max(a.left, b.left), Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top)];
    const low = Math.min(a.height, b.height);
    return (across > 1.5 && down > 0.3 * low) || (across > -1 && down > 0.6 * low);
  }

  /** Whether a text stands on a box by more than its edge. */
  const on = (text, box) => Math.min(text.right, box.right) - Math.max(text.left, box.left) > 2 && Math.min(text.bottom, box.bottom) - Math.max(text.top, box.top) > 0.3 * Math.min(text.height, box.height);

  const holds = (outer, inner) => inner.left >= outer.left - 2 && inner.right <= outer.right + 2 && inner.top >= outer.top - 2 && inner.bottom <= outer.bottom + 2;

  /** The collisions inside the drawing: text on text, text on a box that it does not belong to, text out of its own box. */
  function inDrawing() {
    const stage = stageOf().getBoundingClientRect();
    const texts = drawn().filter(({ element }) => element.tagName === "text").map((one) => ({ ...one, group: one.element.closest(".nbg-node, .nbg-mark, .nbg-scope-name, .nbg-edge") }));
    const shapes = [...document.querySelectorAll(".nbg-stage :is(.nbg-node, .nbg-mark)")].filter(seen).map((group) => {
      const shape = [...group.querySelectorAll(".nbg-shape")].filter(seen).at(-1); // those of a folded box that lie behind come first
      return shape && { group, rect: shape.getBoundingClientRect() };
    }).filter((one) => one && overlap(one.rect, stage));
    const shapeOf = new Map(shapes.map(({ group, rect }) => [group, rect]));
    const signs = [...document.querySelectorAll(".nbg-stage :is(.nbg-fold, .nbg-badge) circle")].filter(seen).map((circle) => {
      const { left, right, top, bottom, width } = circle.getBoundingClientRect();
      const edge = 0.15 * width; // a circle leaves the corners of its rectangle free
      return { badge: circle.closest(".nbg-badge"), rect: new DOMRect(left + edge, top + edge, right - left - 2 * edge, bottom - top - 2 * edge) };
    });
    const found = [];
    texts.forEach((one, at) => {
      for (const { badge, rect } of signs) if (!(badge && badge.contains(one.element)) && on(one.rect, rect)) found.push(`“${short(one.text)}” under the sign at a corner`);
      for (const other of texts.slice(at + 1)) if (touch(one.rect, other.rect)) found.push(`“${short(one.text)}” on “${short(other.text)}”`);
      const own = shapeOf.get(one.group);
      for (const { group, rect } of shapes)
        if (group !== one.group && on(one.rect, rect) && !(own && holds(rect, own))) found.push(`“${short(one.text)}” on the box “${short(group.querySelector("text")?.textContent ?? "")}”`);
      const { left, right } = one.rect;
      if (own && !one.element.closest(".nbg-badge") && (left < own.left - 2 || right > own.right + 2)) found.push(`“${short(one.text)}” out of its box`);
    });
    return found;
  }

  /** The visible part of a rectangle of an element. */
  function clipped(rect, element) {
    let { left, top, right, bottom } = rect;
    for (let one = element; one && one !== document.documentElement; one = one.parentElement) {
      if (one !== element && one === document.body) break;
      if (getComputedStyle(one).overflow === "visible" && one.id !== "scroller") continue;
      const around = one.getBoundingClientRect();
      [left, top, right, bottom] = [Math.max(left, around.left), Math.max(top, around.top), Math.min(right, around.right), Math.min(bottom, around.bottom)];
    }
    return { left, top, right, bottom, width: right - left, height: bottom - top };
  }

  /** The texts around the drawing: each line of each text, and each field with its text. */
  function written() {
    const view = document.querySelector(".nbgrad");
    const found = [];
    const add = (element, rect, text, of) => {
      const part = clipped(rect, element);
      if (part.width > 3 && part.height > 3) found.push({ element, rect: part, text, of });
    };
    const walker = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const element = node.parentElement;
      if (!node.data.trim() || stageOf().contains(element) || element.closest("option, title, style, math, svg.nbg-stage") || !seen(element)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      for (const rect of range.getClientRects()) add(element, rect, node.data.trim(), node);
    }
    for (const field of view.querySelectorAll("select, input:not([type=range])"))
      if (seen(field)) add(field, field.getBoundingClientRect(), field.value || field.placeholder || "", field);
    return found;
  }

  /** The collisions around the drawing: text on text, text under another part, text that is cut. */
  function inFrame() {
    const [texts, found] = [written(), []];
    const related = (a, b) => a.contains(b) || b.contains(a);
    const covers = texts.map(({ element, rect }) => {
      const top = document.elementFromPoint((rect.left + rect.right) / 2, (rect.top + rect.bottom) / 2);
      return !top || related(top, element) ? null : top;
    });
    texts.forEach((one, at) => {
      const cover = covers[at];
      if (cover) found.push(`“${short(one.text)}” under ${cover.closest("[class^=nbg-]")?.classList[0] ?? cover.tagName}`);
      texts.slice(at + 1).forEach((other, by) => {
        if (other.of === one.of || related(one.element, other.element) || cover || covers[at + 1 + by]) return;
        if (touch(one.rect, other.rect) && overlap(one.rect, other.rect) > 4) found.push(`“${short(one.text)}” on “${short(other.text)}”`);
      });
    });
    for (const field of document.querySelectorAll(".nbgrad select")) {
      if (!seen(field)) continue;
      const style = getComputedStyle(field);
      const paint = new OffscreenCanvas(1, 1).getContext("2d");
      paint.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
      const text = field.selectedOptions[0]?.textContent ?? "";
      const room = field.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - (style.appearance === "none" ? 0 : 14); // the arrow
      if (paint.measureText(text).width > room + 1) found.push(`“${short(text)}” is cut`);
    }
    for (const tool of document.querySelectorAll(".nbgrad button"))
      if (seen(tool) && tool.scrollWidth > tool.clientWidth + 1 && getComputedStyle(tool).overflow !== "visible" && !tool.title) found.push(`“${short(tool.textContent)}” is cut`);
    return found;
  }

  const collisions = () => [...new Set([...inDrawing(), ...inFrame()])];

  window.firstLook = { look, collisions };
})();
