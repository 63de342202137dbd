"""The configuration of Sphinx. ``tools.site`` stages the sources of the site, and ``make site`` runs Sphinx.

Nothing of the pages comes from a network: formulas are MathML, fonts are the reader's own, and the views of graphs are
two files of the site.
"""

import json
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

import nbgrad
from nbgrad.widgets.render.html_page import sources

project = "nbgrad"
author = "the nbgrad developers"
copyright = author  # noqa: A001  # Sphinx's name
release = version = nbgrad.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns: list[str] = []
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}

html_theme = "furo"
html_title = f"nbgrad {release}"
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # it would fetch pages, and a browser refuses that for pages on the disk
html_theme_options = {"navigation_with_keys": True}
html_math_renderer = "mathml"
pygments_style = "friendly"

myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # tools.site has already run what must run
nb_ipywidgets_js: dict[str, Any] = {}  # these scripts would come from a network
nb_merge_streams = True
nb_render_markdown_format = "myst"

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

VIEWS = ("nbgrad-views.css", "nbgrad-views.js")
"""The style and the script of live pictures. Only pages with such pictures load them."""

_LOADER = """(() => {
  const script = document.createElement("script");
  script.type = "module";
  script.textContent = %s;
  document.addEventListener("DOMContentLoaded", () => document.body.append(script));
})();
"""
"""The script is inline: a browser does not load a module from a file on the disk, which counts as another origin."""


def _formula(self: Any, node: Any) -> None:
    self.body.append(convert(node.astext()))
    raise _skip()


def _displayed(self: Any, node: Any) -> None:
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise _skip()


def _skip() -> Exception:
    """The exception that tells docutils that a node is done."""
    from docutils.nodes import SkipNode

    skip: Exception = SkipNode()
    return skip


def _add_views(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:  # noqa: ARG001
    """Load what brings pictures to life on the pages that have one."""
    if 'class="nbgrad-picture"' in context.get("body", ""):
        style, script = VIEWS
        app.add_css_file(style)
        app.add_js_file(script)


def _write_views(app: Any, config: Any) -> None:
    """Write these two files as static files of the site."""
    static = Path(app.srcdir) / "_static"
    style, script = sources()
    (static / VIEWS[0]).write_text(style, "utf-8")
    (static / VIEWS[1]).write_text(_LOADER % json.dumps(script), "utf-8")
    config.html_static_path = [str(static)]


def _as_text(app: Any, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:  # noqa: ARG001
    """Escape the stars and bars in the prose of a docstring. Those between backticks and in examples stay."""
    for place, line in enumerate(lines):
        parts = line.split("``")
        if not re.match(r"\s*(>>>|\.\.\.|\*+\w+:)", line):  # the last is `*args:`, which napoleon needs
            parts[::2] = [re.sub(r"\||(?<!\*)\*(?!\*)", r"\\\g<0>", part) for part in parts[::2]]
        lines[place] = "``".join(parts)


def setup(app: Any) -> dict[str, bool]:
    """Set up the extension: Sphinx calls this."""
    app.add_html_math_renderer("mathml", inline_renderers=(_formula, None), block_renderers=(_displayed, None))
    app.connect("config-inited", _write_views)
    app.connect("autodoc-process-docstring", _as_text, priority=400)  # this runs before napoleon
    app.connect("html-page-context", _add_views)
    return {"parallel_read_safe": False}
