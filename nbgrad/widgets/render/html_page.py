"""Picture -> HTML that is live without a kernel: one file, or fragments for a page with several pictures."""

import base64
import json
import zlib
from functools import cache
from html import escape
from pathlib import Path

from nbgrad.core.translation import SOURCE
from nbgrad.widgets.description.schema import Picture
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.render.svg import svg
from nbgrad.widgets.render.text import text
from nbgrad.widgets.render.wire_format import packed

_STATIC = Path(__file__).parents[1] / "static"

# The browser itself refuses every request of a page, whatever is in it.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


_FILLED = """body{margin:0;padding:12px;--nbg-room:320px}
@media screen{.nbgrad{min-height:calc(100vh - 26px)}
.nbgrad .nbg-body{flex:1 0 auto}
.nbgrad .nbg-stage{height:auto}}"""
"""The picture fills the part of the window that the open lines above and below it leave free."""


_STILL = "div:has(>.nbgrad)+.nbgrad-still{display:none}\n"
"""A drawing makes room for the live picture, which the script puts before it."""


def page(picture: Picture, title: str, program: str | None = None) -> str:
    """Write one HTML file in which a picture pans, zooms and answers clicks, with no kernel and no network.

    Args:
        picture: what to show.
        title: the title of the page; any text.
        program: what runs the graph again with other numbers, as ``what_if_program`` writes it.
    """
    language = escape(picture["description"].get("language", SOURCE))
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n"
        f"<style>{_FILLED}</style>\n"
        f"</head>\n<body>\n{fragment(picture, program)}\n{runtime()}\n</body>\n</html>\n"
    )


def fragment(picture: Picture, program: str | None = None) -> str:
    """Write the place of one picture in a page. It shows the SVG until the script has made the live picture.

    So a page whose scripts do not run has a drawing, also where the server of the page forbids them: a browser with
    scripts shows no ``noscript`` element then.

    The page needs :func:`runtime` once, after the last fragment.
    """
    runs = "" if program is None else _runs(program)
    return runs + (
        f'<script type="text/plain" class="nbgrad-picture">{base64.b64encode(packed(picture, 9)).decode()}</script>\n'
        f'<div class="nbgrad-still">{_still(picture)}</div>'
    )


def _runs(program: str) -> str:
    """The program of the picture that follows, after the scripts that run it."""
    from nbgrad.core.symbolic.exports.page import kernels  # it imports much of torch

    run = (_STATIC / "page_run.js").read_text(encoding="utf-8")
    return (
        f"<script>{kernels()}</script>\n"
        f'<script type="module">{run}</script>\n'
        f'<script type="application/json" class="nbgrad-program">{program}</script>\n'
    )


def _still(picture: Picture) -> str:
    """The content for a reader without scripts: the drawing, or the table if the drawing would be too large."""
    if len(picture["description"]["nodes"]) <= NODES:
        return svg(picture)
    return f"<pre>{escape(text(picture['description']))}</pre>"


@cache
def runtime() -> str:
    """Return the style and script elements that bring all fragments of a page to life."""
    css, script = sources()
    # The bundle holds neither of these today; a string in it that did would end the element early.
    css, script = css.replace("</style", "<\\/style"), script.replace("</script", "<\\/script")
    return f'<style>{css}</style>\n<script type="module">{script}</script>'


_HEAD = base64.b64encode(b'<svg xmlns="http://www.w3.org/2000/svg" class="nbgrad-static').decode()
_ENCODED = f'img[src^="data:image/svg+xml;base64,{_HEAD}"]'
"""A drawing in the page that nbconvert writes."""

_WIDE = f"{_ENCODED}{{max-width:100%;height:auto}}\n@media print{{{_ENCODED}{{max-height:95vh;break-inside:avoid}}}}\n"
"""A wide drawing has the width of the page or of the paper."""

_START = """(async () => {
  if (globalThis.nbgradSaved) return;
  globalThis.nbgradSaved = "due";
  const letters = atob(document.querySelector("script.nbgrad-script").textContent);
  const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const [css, script] = await new Response(stream).json();
  const add = (name, content) => document.head.append(Object.assign(document.createElement(name), content));
  add("style", { textContent: css });
  add("script", { type: "module", textContent: script });
})();"""
"""A script element and no import: a policy may allow inline scripts and no others, as that of VS Code can."""


@cache
def saved_page_script() -> str:
    """Return the HTML that makes the drawings of a saved notebook live that hold their pictures.

    The sheet and the script are deflated, and a page that has them twice reads them once.
    """
    data = base64.b64encode(zlib.compress(json.dumps(sources()).encode(), 9)).decode()
    return (
        f"<style>{_WIDE}</style>\n"
        f'<script type="text/plain" class="nbgrad-script">{data}</script>\n'
        f"<script>{_START}</script>"
    )


def sources() -> tuple[str, str]:
    """Return the content of the two elements of ``runtime``: the style sheet, and the script, which is a module."""
    return _STILL + (_STATIC / "graph.css").read_text(encoding="utf-8"), (_STATIC / "graph.js").read_text(
        encoding="utf-8"
    )
