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
      const shape = element.querySelector(".nbg-shape") ?? element;
      return { element, id: element.dataset.nodeId, shown: seen(element), rect: shape.getBoundingClientRect() };
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
  function white(frames) {
    const stage = stageOf().getBoundingClientRect();
    const [width, height] = [Math.floor(stage.width / CELL), Math.floor(stage.height / CELL)];
    if (!width || !height) return 1;
    const canvas = new OffscreenCanvas(width, height);
    const paint = canvas.getContext("2d", { willReadFrequently: true });
    paint.lineWidth = 2;
    const rect = (one) => paint.fillRect((one.left - stage.left) / CELL, (one.top - stage.top) / CELL, one.width / CELL, one.height / CELL);
    for (const one of boxes()) if (one.shown) rect(one.rect);
    for (const one of document.querySelectorAll(".nbg-stage .nbg-mark .nbg-shape")) if (seen(one)) rect(one.getBoundingClientRect());
    if (frames) for (const one of document.querySelectorAll(".nbg-stage rect.nbg-scope")) if (seen(one)) rect(one.getBoundingClientRect());
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
      white: white(true), bare: white(false),
      stage: [stage.width, stage.height], view: view.height, frame: view.height - stage.height,
    };
  }

  window.firstLook = { look };
})();
