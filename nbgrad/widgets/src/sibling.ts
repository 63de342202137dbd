// The static picture is the output before the live one; while the live one is there, one of the two is enough.

const STATIC = 'svg.nbgrad-static, img[src*="nbgrad-static"]';
const OUTPUT = ".jp-OutputArea-child";

/** Hide the static picture of the same cell. Returns what shows it again. */
export function hideStatic(el: HTMLElement): () => void {
  let hidden: HTMLElement | null = null;
  let frames = 120; // the host puts the element into the page some time after render
  let request = 0;
  const look = () => {
    const before = el.closest(OUTPUT)?.previousElementSibling;
    if (before instanceof HTMLElement && before.querySelector(STATIC)) {
      hidden = before;
      hidden.style.display = "none";
    } else if (frames-- > 0) {
      request = requestAnimationFrame(look);
    }
  };
  look();
  return () => {
    cancelAnimationFrame(request);
    if (hidden) hidden.style.display = "";
  };
}
