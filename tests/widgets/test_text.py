"""The table of plain text."""

from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import AutogradGraph
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.schema import Description
from nbgrad.widgets.description.text_metrics import clean, clip, text_width, wrap
from nbgrad.widgets.render.text import text

SMALL = """\
first steps: 2 ops, 2 tensors; backward from loss

node  kind      label                                scope  takes
n0    leaf      w  () float32  ∇ 0.2
n1    constant  x  (32,) float32
n2    op        mul  (32,) float32  ∇ 0.2                   a=n0, b=n1
n3    op, root  sum  () float32  loss = 1.25  ∇ 0.2         a=n2

Gradients:
  n0 -> n2.a  (32, 10), norm 0.25
  n2 -> n3.a  (32, 10), norm 0.25

Broadcast reductions:
  n0 -> n2.a  (32,) -> (): sum dim 0"""


def test_the_small_table(small: Description) -> None:
    assert text(small) == SMALL


def test_what_is_wrong_stands_above_the_table(small: Description) -> None:
    small["problems"] = [{"kind": "nan", "text": "NaN begins here", "node": "n2"}] * 31
    small["verdicts"] = [
        {"kind": kind, "scope": None, "name": "", "text": f"{kind} gradients"} for kind in ("vanishing", "sound")
    ]  # type: ignore[misc]
    lines = text(small).splitlines()
    assert lines[1:31] == ["Finding: NaN begins here (n2)"] * 30
    assert lines[31:33] == ["(2 more findings are not listed)", ""]
    small["problems"] = []
    assert text(small).splitlines()[1:3] == ["Finding: vanishing gradients", ""]


@pytest.mark.parametrize("dialect", [torch, nbgrad])
def test_with_a_clock_the_slowest_are_listed(dialect: Any) -> None:
    w = dialect.ones(200, 10, requires_grad=True)
    with nbgrad.record(view="none", time=True) as graph:
        loss = (w.exp().tanh().sin().cos().exp().tanh() * 2).sum()
        loss.backward()
    written = text(describe(graph)).split("\n\n")
    slow = next(part for part in written if part.startswith("Slowest"))
    head, *rows, rest = slow.splitlines()[1:]
    assert head.split() == ["Time", "Forward", "Backward"]
    ranked = [" = ".join(filter(None, (one.name, one.op))) for one in graph.slowest()]
    names = [" ".join(row.split()[1:-6]) for row in rows]
    assert [set(name.split(" = ")) for name in names] == [set(name.split(" = ")) for name in ranked[:5]]
    assert rest == f"({len(ranked) - 5} with less are not listed)"
    with nbgrad.record(view="none") as without:
        (w * 2).sum().backward()
    assert "Slowest" not in text(describe(without))


def test_a_node_is_marked_where_the_picture_has_a_mark() -> None:
    with AutogradGraph("marked") as graph:
        w = nbgrad.tensor([1.0, -1.0], requires_grad=True)
        w.sqrt().sum().backward()
    (marked,) = [node for node in describe(graph)["nodes"] if node["badges"]]
    found = text(describe(graph)).splitlines()
    assert found[1].startswith("Finding: NaN begins here, in the forward of sqrt: square root of a negative number")
    rows = {line.split()[0]: line for line in found if line[:2] in {"n0", "n1", "n2"}}
    assert rows[marked["id"]].endswith("  x=n0   ! NaN begins here, in the forward of sqrt: square…")
    assert sum("!" in line for line in found) == 1
    assert found == text(describe(graph)).splitlines()


def test_marks_are_short_and_stand_in_the_last_column(small: Description) -> None:
    small["nodes"][2]["badges"] = [
        {"kind": "nan", "text": "NaN begins here"},
        {"kind": "warning", "text": "long " * 30},
    ]
    head, *rows = [line for line in text(small).splitlines() if line.startswith(("node", "n0", "n1", "n2", "n3"))]
    assert head.split() == ["node", "kind", "label", "scope", "takes", "finding"]
    assert rows[2].endswith("a=n0, b=n1  ! NaN begins here; ! " + ("long " * 30)[:47] + "…")
    assert [rows[at] for at in (0, 1, 3)] == [SMALL.splitlines()[at] for at in (3, 4, 6)]


def test_scopes_are_paths(mlp: Description) -> None:
    assert "MLP > layers.1 (Linear)" in text(mlp)


def test_a_large_graph_lists_its_end(flat: Any) -> None:
    lines = text(flat(1000), rows=10).splitlines()
    assert any(line.startswith("n1000 ") for line in lines)
    assert "(991 earlier nodes are not listed)" in lines
    assert "(990 earlier ones are not listed)" in lines
    assert len(lines) < 40


def test_hostile_names_stay_in_their_cells(hostile: Description) -> None:
    table = text(hostile)
    assert "\x1b" not in table
    assert "\u202e" not in table
    assert "<script>window.hacked = 1</script>" in table
    assert max(map(len, table.splitlines())) < 700
    assert len([line for line in table.splitlines() if line.startswith("n1 ")]) == 1
    table.encode()


def test_clean_keeps_lines_only_where_asked() -> None:
    assert clean("a\nb\tc\x00\ud800\u202ed") == "a b c···d"
    assert clean("a\nb", lines=True) == "a\nb"
    assert clip("abcdef", 4) == "abc…"
    assert clip("abcd", 4) == "abcd"


def test_wide_text_is_measured_wide() -> None:
    assert text_width("iiii", 10) < text_width("WWWW", 10) < text_width("漢字漢字", 10) * 1.1
    assert text_width("e\u0301", 10) == text_width("e", 10)
    assert all(text_width(line, 12) <= 200 for line in wrap("a" * 300 + " some words " * 20, 12, 200))
