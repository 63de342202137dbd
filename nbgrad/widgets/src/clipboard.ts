// Text for the clipboard of the reader.

/** Copy a text; whether it is there now. Where the page is not to be trusted with the clipboard, the old way may still work. */
export async function copied(text: string, beside: Element): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const held = document.activeElement;
    const field = document.createElement("textarea");
    field.value = text;
    field.style.cssText = "position:fixed;opacity:0"; // not hidden: nothing can be selected in what is
    beside.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (held instanceof HTMLElement || held instanceof SVGElement) held.focus({ preventScroll: true });
    return done;
  }
}
