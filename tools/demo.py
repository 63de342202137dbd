"""Run a notebook without a screen and write it as one HTML page that needs nothing else, not even a network.

    python -m tools.demo notebooks/00_tour.ipynb build/tour.html

Every view that a cell displayed stays alive in the page: its picture is taken from the widget's state and handed to the
same front end that draws it in JupyterLab. Formulas in the text become MathML, which browsers draw by themselves.
"""

import re
import sys
import time
from base64 import b64decode
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import DictLoader
from latex2mathml.converter import convert
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode
from nbformat.v4 import new_output

from nbgrad.core.files import replace_file
from nbgrad.widgets.render.html_page import fragment, runtime
from tools.cells import run
from tools.unpacking import unpacked

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"

# nbconvert's page as JupyterLab shows a notebook, without the four scripts that it fetches from elsewhere. The policy
# makes the browser itself refuse every request of the page, whatever a cell has put into it.
PAGE = """
{%- extends 'lab/index.html.j2' -%}
{%- block html_head_js -%}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline';
 style-src 'unsafe-inline'; img-src data:; font-src data:; media-src data:">
{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block output_group -%}
{%- if cell.metadata.closed -%}
<details class="nbgrad-closed"><summary>{{ cell.metadata.closed }}</summary>{{ super() }}</details>
{%- else -%}{{ super() }}{%- endif -%}
{%- endblock -%}
"""

# A closed output opens for the printer: paper cannot be clicked.
PRINTED_OPEN = """<style>
.nbgrad-closed > summary { margin: .5em 0 .5em 5.5em; cursor: pointer;
 color: var(--jp-content-font-color2); font-family: var(--jp-content-font-family); }
@media print { .nbgrad-closed > summary { display: none; } }
</style>
<script>
addEventListener("beforeprint", () => {
  const closed = document.querySelectorAll("details.nbgrad-closed:not([open])");
  for (const one of closed) one.open = true;
  addEventListener("afterprint", () => { for (const one of closed) one.open = false; }, { once: true });
});
</script>"""


class MathMLRenderer(IPythonRenderer):
    """Markdown to HTML, with formulas as MathML instead of text for MathJax to find."""

    def inline_math(self, body: str) -> str:
        """Return the MathML of ``$x$``."""
        return str(convert(body))

    def block_math(self, body: str) -> str:
        """Return the MathML of ``$$x$$``."""
        return str(convert(body, display="block"))


def markdown_to_html(source: str) -> str:
    """Return the HTML of a markdown cell."""
    return MarkdownWithMath(renderer=MathMLRenderer(escape=False)).render(source)


def make_views_live(notebook: NotebookNode) -> int:
    """Replace each graph view, and the still picture before it, by one live view. Return the number of views."""
    states = notebook.metadata.pop("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    views = 0
    for cell in notebook.cells:
        outputs: list[NotebookNode] = []
        for output in cell.get("outputs", []):
            model = output.get("data", {}).get(WIDGET_VIEW, {}).get("model_id")
            buffers = [one for one in states.get(model, {}).get("buffers", []) if one["path"] == ["picture"]]
            if not buffers:
                outputs.append(output)
                continue
            if outputs and "image/svg+xml" in outputs[-1].get("data", {}):
                outputs.pop()  # the fragment has its own still picture, for readers without scripts
            outputs.append(
                new_output("display_data", data={"text/html": fragment(unpacked(b64decode(buffers[0]["data"])))})
            )
            views += 1
        if "outputs" in cell:
            cell.outputs = outputs
    return views


def to_page(notebook: NotebookNode, scripts: str = "") -> str:
    """Return the notebook, as it is, as one HTML page that ends with these script elements."""
    exporter = HTMLExporter(
        extra_loaders=[DictLoader({"page.html.j2": PAGE})],
        template_file="page.html.j2",
        embed_images=True,
        filters={"markdown2html": markdown_to_html},
    )
    heading = re.search(r"^# +(.+)$", notebook.cells[0].source if notebook.cells else "", re.MULTILINE)
    name = heading[1] if heading else "nbgrad"
    html, _ = exporter.from_notebook_node(notebook, resources={"metadata": {"name": name}})
    before, body, after = html.rpartition("</body>")
    return before + scripts + body + after


class _References(HTMLParser):
    """Collects what a browser would fetch from elsewhere on its own, without a click."""

    REMOTE = re.compile(r"\s*(?:https?:|wss?:|//)", re.IGNORECASE)
    FETCHING = frozenset({"src", "srcset", "href", "xlink:href", "data", "poster", "background", "action"})
    IN_STYLE = re.compile(r"""(?:@import\s*|url\(\s*)["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
    IN_SCRIPT = re.compile(
        r"""(?:\bfrom\s*|\bimport\s*\(?\s*|\bfetch\s*\(\s*|\bsrc\s*=\s*|new\s+WebSocket\s*\(\s*)"""
        r"""["'`]((?:https?:|wss?:)?//[^"'`]+)"""
    )

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        for name, value in attrs:
            if name == "style":
                self.found += self.IN_STYLE.findall(value or "")
            elif name in self.FETCHING and tag != "a" and self.REMOTE.match(value or ""):
                self.found.append(value or "")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 (the name is HTMLParser's)
        self.inside = ""

    def handle_data(self, data: str) -> None:
        patterns = {"style": self.IN_STYLE, "script": self.IN_SCRIPT}
        if self.inside in patterns:
            self.found += patterns[self.inside].findall(data)


def remote_references(html: str) -> list[str]:
    """Return every address that the page would load from a network. A plain link does not count: it loads nothing."""
    parser = _References()
    parser.feed(html)
    parser.close()
    return parser.found


def build(source: Path, target: Path) -> dict[str, Any]:
    """Run the notebook ``source`` and write the page ``target``; return what there is to say about it.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed.
        ValueError: the page would load something from a network.
    """
    notebook = nbformat.read(source, as_version=4)
    run(notebook, source.parent, timeout=300, keeps_widgets=True)
    views = make_views_live(notebook)
    write(notebook, target)
    return {"views": views, "kilobytes": target.stat().st_size // 1000}


def write(notebook: NotebookNode, target: Path) -> None:
    """Write a notebook whose views are live as the page ``target``.

    A cell with ``closed`` in its metadata has its outputs folded below this text.

    Raises:
        ValueError: the page would load something from a network.
    """
    live = any('class="nbgrad-picture"' in str(output.get("data")) for output in _outputs(notebook))
    closed = any(cell.metadata.get("closed") for cell in notebook.cells)
    html = to_page(notebook, (PRINTED_OPEN if closed else "") + (runtime() if live else ""))
    if remote := remote_references(html):
        raise ValueError(f"{target.name} would load from a network: {remote}")
    target.parent.mkdir(parents=True, exist_ok=True)
    replace_file(target, lambda file: file.write_text(html, encoding="utf-8"))


def _outputs(notebook: NotebookNode) -> Iterator[NotebookNode]:
    for cell in notebook.cells:
        yield from cell.get("outputs", [])


def main(source: str, target: str) -> None:
    """Build the page and print where it is."""
    start = time.perf_counter()
    print(f"running {source}", flush=True)
    facts = build(Path(source), Path(target))
    print(
        f"{target}: {facts['views']} live views, {facts['kilobytes']} kB, "
        f"in {time.perf_counter() - start:.0f} s. Open it in any browser:"
    )
    print(Path(target).resolve())


if __name__ == "__main__":
    main(*sys.argv[1:])
