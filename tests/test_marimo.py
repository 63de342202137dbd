"""marimo draws what a Jupyter notebook does: graphs, ``record`` and ``watch``."""

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import nbgrad
from nbgrad import nn
from nbgrad.watching import Watch

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]

NOTEBOOK = """
import marimo

app = marimo.App()


@app.cell
def _():
    import nbgrad
    from nbgrad import nn
    return nbgrad, nn


@app.cell
def _(nbgrad):
    with nbgrad.record("recorded in a cell") as graph:
        w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        (w * w).sum().backward()
    return (graph,)


@app.cell
def _(graph):
    graph.name = "the last expression"
    graph
    return


@app.cell
def _(nbgrad):
    with nbgrad.record("shown as a table", view="text"):
        nbgrad.ones(3, requires_grad=True).sum().backward()
    return


@app.cell
def _(nbgrad, nn):
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.watch(net, every=0.0) as live:
        for _step in range(5):
            optimizer.zero_grad()
            net(nbgrad.ones(4, 2)).pow(2).mean().backward()
            optimizer.step()
    print(live)
    return


@app.cell
def _(nbgrad):
    nbgrad.trace(lambda x: (x * x).sum(), nbgrad.ones(3, requires_grad=True)).grad()
    return


if __name__ == "__main__":
    app.run()
"""


@pytest.mark.more("marimo")
def test_a_notebook_of_marimo_shows_every_kind_of_picture(tmp_path: Path) -> None:
    (tmp_path / "notebook.py").write_text(NOTEBOOK, "utf-8")
    command = [sys.executable, "-m", "marimo", "export", "html", "notebook.py", "-o", "page.html"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.count("srcdoc=") == 3, "the block, the last expression, and the program"
    assert page.count("nbgrad-picture") >= 3
    assert "recorded in a cell" in page
    assert "shown as a table" in page
    assert "watch of Sequential: 5 backwards, closed" in page
    assert page.count("marimo-anywidget") == 2, "the live view of the watch: its tag begins and ends"


@pytest.fixture
def marimo(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stand in for marimo while a cell runs; what is shown below the cell."""
    shown: list[Any] = []
    cell = SimpleNamespace(running_in_notebook=lambda: True, output=SimpleNamespace(append=shown.append))
    monkeypatch.setitem(sys.modules, "marimo", cell)
    return shown


def recorded(**options: Any) -> nbgrad.AutogradGraph:
    with nbgrad.record("a small graph", **options) as graph:
        w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        (w * w).sum().backward()
    return graph


def test_a_graph_is_a_page_in_a_frame_that_may_not_leave_it() -> None:
    kind, html = recorded(view="none")._mime_()
    assert kind == "text/html"
    assert html.startswith('<iframe sandbox="allow-scripts allow-forms" ')
    page = unescape(html.partition('srcdoc="')[2].partition('"')[0])
    assert page.startswith("<!DOCTYPE html>")
    assert len(re.findall(r'<script[^>]* class="nbgrad-picture"', page)) == 1
    assert "default-src 'none'" in page


def test_record_shows_its_graph_below_the_cell(marimo: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    recorded()
    recorded(view="text")
    recorded(view="none")
    frame, table = (one._mime_() for one in marimo)
    assert frame[0] == table[0] == "text/html"
    assert "<iframe" in frame[1]
    assert "<pre>" in table[1]
    assert "a small graph" in table[1]
    assert not capsys.readouterr().out, "nothing is printed, too"


def test_a_script_that_has_imported_marimo_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(running_in_notebook=lambda: False))
    recorded()
    assert "a small graph" in capsys.readouterr().out


def test_watch_draws_until_it_is_closed(marimo: list[Any]) -> None:
    net = nn.Linear(2, 1)
    with nbgrad.watch(net, every=0.0) as live:
        assert marimo == [live.view]
        before = live.view.picture
        net(nbgrad.ones(4, 2)).sum().backward()
        assert live.view.picture != before
    assert isinstance(live, Watch)
    assert live.graph.closed
    net(nbgrad.ones(4, 2)).sum().backward()
    assert live.graph.backwards == 1
