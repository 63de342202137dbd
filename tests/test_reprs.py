"""Tensors, modules and reductions as the last expression of a cell."""

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import nbformat
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

import nbgrad
from nbgrad.core.engine.broadcast import Reduction, reduction
from nbgrad.core.graph.stats import summarise
from nbgrad.reprs import RICH, module_html, reduction_html, tensor_html

HOSTILE = "<script>alert(1)</script>\"&'\n" + "x" * 10_000


def net() -> nbgrad.nn.Sequential:
    return nbgrad.nn.Sequential(
        nbgrad.nn.Linear(8, 16), nbgrad.nn.ReLU(), nbgrad.nn.Sequential(nbgrad.nn.BatchNorm1d(16))
    )


def parsed(html: str) -> ElementTree.Element:
    """The HTML, parsed as XML. In XML the attribute ``open`` needs a value."""
    return ElementTree.fromstring(html.replace('open=""', 'open="open"').replace(" open>", ' open="open">'))


def words(html: str) -> str:
    return " ".join("".join(parsed(html).itertext()).split())


def test_a_small_tensor_shows_its_numbers_as_a_heat_map() -> None:
    html = tensor_html(nbgrad.tensor([[1.0, -2.0, 3.5], [0.0, float("nan"), float("inf")]], requires_grad=True))
    root = parsed(html)
    cells = root.findall(".//rect")
    assert [text.text for text in root.findall(".//text")] == ["1", "-2", "3.5", "0", "nan", "inf"]
    assert [cell.get("fill") for cell in cells] == ["#d55e00", "#0072b2", "#d55e00", "#0072b2", "none", "none"]
    shades = [float(cell.get("fill-opacity", "0")) for cell in cells[:4]]
    assert shades[3] == 0 < shades[0] < shades[1] < shades[2]
    assert words(html).startswith("Tensor (2, 3) float32, requires_grad")
    assert "1 NaN1 Inf" in words(html).replace(" 1 Inf", "1 Inf")


@pytest.mark.parametrize(
    ("shape", "cells", "what"),
    [
        ((), 0, "Tensor ()"),
        ((5,), 5, "Tensor (5,)"),
        ((28, 28), 784, "Tensor (28, 28)"),
        ((2, 3, 4, 4), 96, "(2, 3, 4, 4)"),
    ],
)
def test_tensors_of_every_rank(shape: tuple[int, ...], cells: int, what: str) -> None:
    html = tensor_html(nbgrad.tensor(torch.randn(shape)))
    assert len(parsed(html).findall(".//rect")) == cells
    assert what in words(html)
    assert len(html) < 150_000


def test_a_large_tensor_shows_a_histogram_and_a_huge_one_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    html = tensor_html(nbgrad.tensor(torch.randn(100, 100)))
    assert "histogram" in html
    assert 10 < len(parsed(html).findall(".//rect")) <= 20
    monkeypatch.setattr("nbgrad.reprs.summarise", lambda data: pytest.fail("it was read"))
    assert "5,000,000 elements" in words(tensor_html(nbgrad.tensor(torch.empty(5_000_000))))


@pytest.mark.parametrize(
    "made",
    [
        lambda: nbgrad.tensor(torch.zeros(0, 3)),
        lambda: nbgrad.tensor([True, False]),
        lambda: nbgrad.tensor(torch.arange(4)),
        lambda: nbgrad.tensor([1 + 2j]),
        lambda: nbgrad.tensor(torch.ones(2), dtype=nbgrad.bfloat16),
        lambda: nbgrad.tensor(torch.ones(2, device="meta")),
        lambda: nbgrad.nn.LazyLinear(3).weight,
    ],
)
def test_tensors_of_every_kind(made: Callable[[], nbgrad.Tensor]) -> None:
    assert "Tensor" in (text := words(tensor_html(made()))) or "Parameter" in text


def test_statistics_of_complex_numbers_are_those_of_their_magnitudes() -> None:
    stats = summarise(torch.tensor([3 + 4j, 0j]))
    assert (stats.norm, stats.low, stats.high) == (5.0, 0.0, 5.0)


def test_where_a_tensor_came_from() -> None:
    weight = nbgrad.nn.Linear(2, 1).weight
    assert words(tensor_html(weight)).startswith("Parameter weight (1, 2) float32, requires_grad")
    assert "result of mul" in words(tensor_html(weight * 2))


def test_numbers_stay_apart_where_an_untrusted_notebook_shows_no_drawing() -> None:
    assert "1 2 3 4 norm" in words(tensor_html(nbgrad.tensor([[1.0, 2.0], [3.0, 4.0]])))
    undone = reduction((2, 8), (8,))
    assert undone is not None
    assert "2 Σ 8 ↓ 8" in words(reduction_html(undone))


def test_a_module_is_a_tree_with_shapes_and_counts() -> None:
    html = module_html(net())
    assert [words("".join(ElementTree.tostring(line, "unicode"))) for line in parsed(html).findall(".//summary")] == [
        "Sequential 176 parameters",
        "0 (Linear) in_features=8, out_features=16, bias=True 144 parameters",
        "1 (ReLU)",
        "2 (Sequential) 32 parameters",
        "0 (BatchNorm1d) 16, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True 32 parameters",
    ]
    assert "weight (16, 8) float32, 128" in words(html)
    assert "running_mean (16,) float32, 16, buffer" in words(html)
    model = net()
    model[0].weight.requires_grad = False
    assert "weight (16, 8) float32, 128, frozen" in words(module_html(model))
    assert "a shape that the first call makes known" in words(module_html(nbgrad.nn.LazyLinear(3)))


def test_a_large_module_is_folded_and_a_shared_one_is_there_once() -> None:
    large = nbgrad.nn.Sequential(*[nbgrad.nn.Linear(1, 1) for _ in range(60)])
    assert len(re.findall(r"<details[^>]* open", module_html(large))) == 1
    shared = nbgrad.nn.Linear(2, 2)
    assert module_html(nbgrad.nn.Sequential(shared, shared)).count("<summary>") == 2


@pytest.mark.parametrize(
    ("given", "summed", "kept"),
    [(((32, 10), (10,)), 1, ["10"]), (((32, 4, 10), (1, 10)), 2, ["1", "10"]), (((3, 4), ()), 2, [])],
)
def test_a_reduction_shows_which_dimensions_were_summed(given: Any, summed: int, kept: list[str]) -> None:
    made = reduction(*given)
    root = parsed(reduction_html(made))
    rects = root.findall(".//rect")
    assert sum(rect.get("fill") != "none" for rect in rects) == summed
    assert [text.text for text in root.findall(".//text")].count("Σ") == summed
    assert len(rects) == len(made.source) + len(kept)
    assert words(reduction_html(made)).startswith(str(made))


def test_names_are_text() -> None:
    tensor = nbgrad.tensor([1.0])
    tensor.name = HOSTILE
    kind = type("<b>" + "x" * 1000, (nbgrad.nn.Module,), {"extra_repr": lambda self: HOSTILE})
    for html in (tensor_html(tensor), module_html(kind())):
        assert "<script" not in html
        assert "&lt;script&gt;" in html
        assert len(html) < 2000


def test_nothing_is_asked_of_a_network_and_no_run_differs() -> None:
    for made in (lambda: tensor_html(nbgrad.tensor([[1.0, 2.0]])), lambda: module_html(net())):
        assert made() == made()
        assert not re.search(r"(src|href|url)\s*[=(]", made())
        assert "0x" not in made()


# In IPython.


def displayed(shell: InteractiveShell, code: str) -> dict[str, str]:
    with capture_output():
        shell.user_ns["_made"] = shell.run_cell(f"import nbgrad\n{code}").result
    return shell.display_formatter.format(shell.user_ns["_made"])[0]


def test_loaded_each_has_html_beside_its_text_and_unloaded_it_has_none(shell: InteractiveShell) -> None:
    formatter = shell.display_formatter.formatters["text/html"]
    assert set(RICH) <= formatter.type_printers.keys()
    shell.display_formatter.active_types = ["text/plain", "text/html"]
    for code in ("nbgrad.tensor([1.0])", "nbgrad.nn.Linear(1, 1)", "nbgrad.nn.Parameter(nbgrad.tensor([1.0]))"):
        data = displayed(shell, code)
        assert data["text/html"].startswith('<div class="nbgrad-')
        assert data["text/plain"] == repr(shell.user_ns["_made"])
    nbgrad.unload_ipython_extension(shell)
    assert not set(RICH) & formatter.type_printers.keys()
    assert "text/html" not in displayed(shell, "nbgrad.tensor([1.0])")


def test_what_the_user_had_registered_comes_back(one_shell: InteractiveShell) -> None:
    formatter = one_shell.display_formatter.formatters["text/html"]
    mine = str
    formatter.for_type(Reduction, mine)
    nbgrad.load_ipython_extension(one_shell)
    nbgrad.unload_ipython_extension(one_shell)
    assert formatter.type_printers.pop(Reduction) is mine


@pytest.mark.rotated(3)
def test_in_a_kernel_they_display() -> None:
    cells = [
        "import nbgrad\nnbgrad.tensor([1.0])",
        "%load_ext nbgrad\nnbgrad.tensor([1.0])",
        "nbgrad.nn.Linear(2, 1)",
        "x = nbgrad.tensor([[1.0], [2.0]])\nwith nbgrad.AutogradGraph() as graph:\n"
        "    (x * nbgrad.tensor([3.0], requires_grad=True)).sum().backward()\n"
        "next(iter(graph.frame.reductions.values()))",
    ]
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    extra = ["--log-level=ERROR"]
    NotebookClient(notebook, timeout=60, kernel_name="python3", extra_arguments=extra).execute()
    results: list[nbformat.NotebookNode] = [
        next(output.data for output in cell.outputs if output.output_type == "execute_result")
        for cell in notebook.cells
    ]
    assert ["text/html" in data for data in results] == [False, True, True, True]
    assert "sum dim 0" in results[3]["text/html"]
