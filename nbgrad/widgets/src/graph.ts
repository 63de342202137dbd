// The one module: what anywidget calls, and what makes the pictures of an exported page live.

import { html } from "./dom";
import type { Description, Numbers, Supposed } from "./description";
import { translate } from "./language";
import { GONE, type Kernel } from "./numbers";
import { NOTHING } from "./model";
import { Outputs } from "./output";
import { link } from "./permalink";
import { withoutStill } from "./still";
import { enliven } from "./saved";
import { unpack } from "./unpack";
import { View } from "./view";
import type { Runner } from "./what_if";

interface Model {
  get(name: "picture"): DataView | null;
  get(name: "numbers"): Numbers;
  set(name: "request", value: object): void;
  save_changes(): void;
  send(content: object): void;
  on(event: string, callback: Heard): void;
  off(event: string, callback: Heard): void;
}

/** A callback for the host. After a change it gets the host's own model, which knows whether the kernel can be reached. After a message it gets the message. */
type Heard = (own?: { comm_live?: boolean; live?: string; supposed?: Supposed & { page: number }; projected?: number }, buffers?: BlobPart[]) => void;

function render({ model, el }: { model: Model; el: HTMLElement }, outputs: Outputs): () => void {
  let view: View | null = null;
  let stopped = false;
  let newest = 0;
  let count = 0;
  let asked = "";
  const mine = Math.random();
  const kernel: Kernel = {
    gone: false,
    ask(request) {
      model.set("request", { ...request, count: ++count });
      model.save_changes();
    },
    project: (wanted) => kernel.ask({ project: { ...wanted, page: mine } }),
    suppose(what) {
      kernel.ask({ suppose: { ...what, page: mine } });
      asked = what.node;
      lost();
    },
  };
  const redraw = async () => {
    const data = model.get("picture");
    const mine = ++newest;
    if (!data?.byteLength) return; // the picture has not come yet: it is drawn when it comes
    const picture = await unpack(data as unknown as BlobPart);
    if (stopped || mine !== newest) return; // another one has overtaken it
    if (view) return view.replace(picture);
    el.append((view = new View(picture, kernel)).root);
    shown = withoutStill(el);
    ticker.remove();
    view.root.prepend(ticker);
  };
  const ticker = html("div", { class: "nbg-ticker", testid: "ticker", hidden: "" });
  el.append(ticker); // until there is a picture
  let shown = () => {};
  // A question that is on its way when the kernel ends gets no answer, and others would wait for it.
  const lost = () => kernel.gone && view?.whatIf?.answer({ ...NOTHING, node: asked, said: translate(GONE) });
  const line: Heard = (own) => {
    kernel.gone = !own || own.comm_live === false; // it is called without an argument if the connection was cut
    lost();
  };
  const heard: Record<string, Heard> = {
    "change:picture": redraw,
    "change:numbers": () => view?.inquiry.answer(model.get("numbers")),
    "change:request": line,
    comm_live_update: line,
    "msg:custom": (told, buffers) => {
      if (told?.projected === mine) void unpack(buffers![0]!).then((picture) => view?.enlarge(picture));
      if (told?.supposed?.page === mine) view?.whatIf?.answer(told.supposed);
      if (told?.live === undefined) return;
      ticker.textContent = told.live;
      ticker.hidden = !told.live;
    },
  };
  void redraw();
  for (const event in heard) model.on(event, heard[event]!);
  const leave = outputs.enter(el, (what) => {
    try {
      model.send(what);
    } catch {
      // The line is cut: a kernel that has ended keeps nothing.
    }
  });
  return () => {
    stopped = true;
    leave();
    for (const event in heard) model.off(event, heard[event]!);
    shown();
    ticker.remove();
    view?.remove();
  };
}

declare global {
  /** The script of a saved notebook sets it; the first module that sees it makes the drawings live. */
  var nbgradSaved: undefined | "due" | "done";
  /** The object that page_run.ts makes, in a page whose graph can be run again. */
  var nbgradRunner: undefined | ((program: unknown, description: Description, answer: (told: Supposed) => void) => Runner);
}
const { nbgradRunner, nbgradSaved } = globalThis;
if (nbgradSaved === "due") {
  globalThis.nbgradSaved = "done";
  enliven();
}

// In a page without a kernel, each picture is data in a script element.
const pictures = document.querySelectorAll<HTMLScriptElement>("script.nbgrad-picture");
for (const data of pictures) {
  const el = document.createElement("div");
  const program = data.previousElementSibling;
  data.replaceWith(el);
  const bytes = Uint8Array.from(atob(data.textContent ?? ""), (letter) => letter.charCodeAt(0));
  void unpack(bytes).then((picture) => {
    const runs = program?.matches("script.nbgrad-program") && nbgradRunner?.(JSON.parse(program.textContent!), picture.description, (told) => view.whatIf?.answer(told));
    const view: View = new View(picture, null, runs || null);
    if (pictures.length === 1) link(view);
    el.append(view.root);
  });
}

export default () => {
  const outputs = new Outputs(); // anywidget calls this once for each model
  return { render: (given: Parameters<typeof render>[0]) => render(given, outputs) };
};
