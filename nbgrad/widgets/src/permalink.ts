// Links into an exported page: the text after "#" says what the page shows, and follows the choices of the reader.

import { button } from "./dom";
import { translate } from "./language";

/** The content of a link. */
export interface Place {
  node: string | null; // chosen
  step: number; // of the backward, from 1; 0 for none
  folded: string[] | null; // the modules that are folded; null for those that are folded at first
}

/** The target of links. */
interface Linked {
  readonly root: HTMLElement;
  readonly place: Place;
  begun: () => void;
  changed: () => void;
  go(place: Place): void;
  copy(text: string, what: string): void;
}

function read(): Place {
  const said = new URLSearchParams(location.hash.slice(1));
  return { node: said.get("node"), step: Number(said.get("step")) || 0, folded: said.get("folded")?.split(",").filter(Boolean) ?? null };
}

const written = ({ node, step, folded }: Place): string =>
  [node === null ? "" : `node=${node}`, step ? `step=${step}` : "", folded ? `folded=${folded.join(",")}` : ""].filter(Boolean).join("&");

/** Keep a view and the text behind the "#" of this page the same: if one changes, the other follows. The page has only this picture. */
export function link(view: Linked): void {
  let going = false;
  const go = (): void => {
    const place = read();
    if (!written(place) || written(place) === written(view.place)) return;
    going = true;
    view.go(place);
    going = false;
  };
  view.changed = () => {
    const [was, now] = [written(read()), written(view.place)];
    if (going || was === now) return;
    try {
      history.replaceState(history.state, "", now ? `#${now}` : location.pathname + location.search);
    } catch {
      // Not every host allows it: a frame without an origin has no addresses.
    }
  };
  view.begun = go;
  addEventListener("hashchange", go);
  const copy = button("#", translate("Copy a link to this view: the box, the step, the folded modules"), "copy-link", () => view.copy(location.href, translate("the link")));
  copy.tabIndex = -1; // one of its group has the tab stop
  view.root.querySelector(".nbg-search + .nbg-group")?.prepend(copy);
}
