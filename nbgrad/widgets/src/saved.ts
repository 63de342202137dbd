// The drawings of a saved notebook become live: no kernel knows their pictures any more, but the drawings hold them.

import { html } from "./dom";
import { unpack } from "./unpack";
import { View } from "./view";

const DRAWING = "svg.nbgrad-static, img[src^='data:image/svg+xml']";
const HELD = /<metadata class="nbgrad-picture">([^<]+)</;
const SEEN = "nbgrad-seen";
const SOON = 50; // milliseconds
const PATIENCE = 5000; // milliseconds: without a kernel, a host may say for ever that it loads a view

/** Make every drawing of this page live when it is first seen, also those that the host makes later. */
export function enliven(): void {
  const near = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries)
      if (isIntersecting) {
        near.unobserve(target);
        void awake(target as HTMLElement);
      }
  });
  // An animation begins on each element that comes to be displayed: the host does not tell when it makes one.
  document.addEventListener("animationstart", ({ animationName, target }) => animationName === SEEN && near.observe(target as Element), true);
  document.head.append(html("style", {}, `@keyframes ${SEEN}{} :is(${DRAWING}){animation:${SEEN} 1ms}`));
}

async function awake(drawing: HTMLElement): Promise<void> {
  const held = drawing instanceof HTMLImageElement ? HELD.exec(source(drawing.src))?.[1] : drawing.querySelector("metadata.nbgrad-picture")?.textContent;
  if (!held) return;
  const after = following(drawing);
  for (let waited = 0; awaited(after) && waited < PATIENCE; waited += SOON) await new Promise((done) => setTimeout(done, SOON));
  const picture = await unpack(Uint8Array.from(atob(held), (letter) => letter.charCodeAt(0)));
  if (drawing.style.display || !drawing.getClientRects().length) return; // it is live by now, or hidden behind the view of a kernel
  const view = new View(picture, null);
  drawing.style.display = "none";
  drawing.after(html("div", { class: "nbgrad-saved" }, view.root));
  hush(after);
}

/** The output that stands after a drawing: that of its live view, if a kernel knows that view. */
function following(drawing: Element): Element | null {
  let one: Element | null = drawing;
  while (one && !one.nextElementSibling) one = one.parentElement;
  return one && one.nextElementSibling;
}

/** Whether a live view is on its way into this output: the host loads it, or in JupyterLab its element is still empty. */
const awaited = (output: Element | null): boolean => {
  const text = output?.textContent?.trim() ?? "-";
  return text.startsWith("Loading") || (!text && !!output?.matches(".jp-OutputArea-child") && !output.querySelector("svg, img"));
};

/** JupyterLab says in the next output that it knows no widget: the drawing does not need it. */
function hush(after: Element | null): void {
  if (!after || !/Loading|Error/.test(after.textContent ?? "")) return;
  const look = () => /^\s*Error displaying widget/.test(after.textContent ?? "") && after.setAttribute("hidden", "");
  look();
  new MutationObserver(look).observe(after, { childList: true, subtree: true });
}

/** The text of an image whose address holds it. */
function source(address: string): string {
  const [head = "", body = ""] = address.split(/,(.*)/s);
  return head.endsWith("base64") ? atob(body) : decodeURIComponent(body);
}
