// Text for the clipboard of the reader.

/** Copy a text. Return whether it is in the clipboard now. Where the browser forbids the new way, the old way may still work. */
export async function copied(text: string, beside: Element): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const held = document.activeElement;
    const field = document.createElement("textarea");
    field.value = text;
    field.style.cssText = "position:fixed;opacity:0"; // not display:none, because text in a hidden element cannot be selected
    beside.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    if (held instanceof HTMLElement || held instanceof SVGElement) held.focus({ preventScroll: true });
    return done;
  }
}
