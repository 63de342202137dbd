"""Texts of a picture in a browser that cover each other."""

COLLISIONS = """() => {
    const seen = one => one.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    const all = which => [...document.querySelectorAll(`.nbg-stage ${which}`)].filter(
        one => one.tagName !== "text" || (one.textContent && seen(one)));
    const rim = of => {
        const { left, right, top, bottom } = of.getBoundingClientRect();
        const lead = (bottom - top) / 5;  // letters are lower than their line
        return { left, right, top: top + lead, bottom: bottom - lead, of };
    };
    const meet = (a, b) =>
        a.right > b.left + 1 && b.right > a.left + 1 && a.bottom > b.top + 1 && b.bottom > a.top + 1;
    const pairs = (some, others) => some.flatMap((a, at) => others(at).filter(b => meet(a, b)).map(
        b => `${a.of.textContent} | ${b.of.textContent || "a box"}`));
    const texts = all("text").map(rim);
    const boxes = all(".nbg-node:not(.nbg-row) > .nbg-shape:last-of-type").map(rim);
    const told = texts.filter(({ of }) => of.matches(".nbg-told"));
    return [...pairs(texts, at => texts.slice(at + 1)), ...pairs(told, () => boxes)];
}"""
"""The texts of the picture that cover each other, and those beside boxes that cover one."""
