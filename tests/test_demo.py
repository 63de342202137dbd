"""The page that tools/demo.py makes of a notebook; tests/lab/test_demo_page.py opens it in a browser."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tools.cells import run
from tools.demo import build, remote_references, to_page

pytestmark = pytest.mark.once


@pytest.mark.rotated(3)
def test_a_notebook_becomes_a_page_that_loads_nothing(tmp_path: Path) -> None:
    text = "# A <title>\n\nInline $a^2$, on its own line:\n\n$$\\frac{1}{2}$$\n\n[a link](http://elsewhere.invalid)"
    notebook = new_notebook(cells=[new_markdown_cell(text), new_code_cell("6 * 7")])
    nbformat.write(notebook, tmp_path / "small.ipynb")

    build(tmp_path / "small.ipynb", tmp_path / "out" / "small.html")

    html = (tmp_path / "out" / "small.html").read_text(encoding="utf-8")
    assert remote_references(html) == []
    assert "<title>A &lt;title&gt;</title>" in html
    assert html.count("<math") == 2
    assert "<mfrac>" in html
    assert ">42" in html
    assert 'href="http://elsewhere.invalid"' in html


def test_a_failing_cell_fails_the_demo(tmp_path: Path) -> None:
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0")]), tmp_path / "bad.ipynb")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        build(tmp_path / "bad.ipynb", tmp_path / "bad.html")
    assert not (tmp_path / "bad.html").exists()


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://elsewhere.invalid/x.js"></script>',
        '<img src="//elsewhere.invalid/x.png">',
        '<link rel="stylesheet" href="https://elsewhere.invalid/x.css">',
        '<style>@import "https://elsewhere.invalid/x.css";</style>',
        "<style>a { background: url(https://elsewhere.invalid/x.png) }</style>",
        '<p style="background: url(http://elsewhere.invalid/x.png)">',
        '<script type="module">import x from "https://elsewhere.invalid/x.js"</script>',
        "<script>const x = await import('https://elsewhere.invalid/x.js')</script>",
        '<script>fetch("https://elsewhere.invalid/x")</script>',
        '<svg><image xlink:href="https://elsewhere.invalid/x.png"/></svg>',
        '<object data="https://elsewhere.invalid/x"></object>',
    ],
)
def test_each_way_to_load_from_a_network_is_seen(html: str) -> None:
    [found] = remote_references(html)
    assert "elsewhere.invalid" in found


def test_what_loads_nothing_is_left_alone() -> None:
    html = '<a href="https://x.invalid">x</a><svg xmlns="http://www.w3.org/2000/svg"/><img src="data:image/png,">'
    assert remote_references(html) == []


def test_the_page_of_an_empty_notebook_is_a_page() -> None:
    assert "<title>nbgrad</title>" in to_page(new_notebook())


def test_a_kernel_takes_no_port(tmp_path: Path) -> None:
    """Another process may take a port between the choice of it and its use."""
    notebook = new_notebook(cells=[new_code_cell("from ipykernel.connect import *\nprint(get_connection_info())")])
    run(notebook, tmp_path, timeout=60, keeps_widgets=False)
    assert '"transport": "ipc"' in notebook.cells[0].outputs[0].text
