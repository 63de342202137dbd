"""``nbgrad compare``: what it prints, what it writes, and its exit status."""

from pathlib import Path

import pytest
import torch

import nbgrad
from nbgrad.run.command import main
from tests.run import commands


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str]:
    """Two graphs of one network, with another ``eps``."""
    found = []
    for eps in (1e-5, 1e-2):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8, eps=eps), torch.nn.Linear(8, 1))
        found.append(str(tmp_path / f"eps{eps}.nbgrad"))
        with nbgrad.record(view="none", save=found[-1]):
            net(0.1 * torch.randn(16, 4)).square().mean().backward()
    return found[0], found[1]


def test_it_names_the_first_difference(files: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *files]) == 1
    told = capsys.readouterr().out
    assert "first difference: layer_norm" in told
    assert "eps 1e-05 | 0.01" in told


def test_equal_graphs_are_equal(files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "both.html"
    assert main(["compare", files[0], files[0], "--save", str(page)]) == 0
    assert "agree" in capsys.readouterr().out
    assert page.stat().st_size > 10_000


def test_the_picture_marks_the_first_difference(files: tuple[str, str], tmp_path: Path) -> None:
    picture = tmp_path / "both.svg"
    assert main(["compare", *files, "--save", str(picture)]) == 1
    assert "first difference" in picture.read_text()


def test_a_larger_tolerance_counts(files: tuple[str, str]) -> None:
    assert main(["compare", *files, "--rtol", "0.5"]) == 0


@pytest.mark.parametrize("wrong", ["missing", "damaged", "folder", "rtol"])
def test_what_cannot_be_compared_is_one_sentence(
    wrong: str, files: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.nbgrad"
    damaged.write_bytes(b"no graph")
    given = {
        "missing": [files[0], str(tmp_path / "none.nbgrad")],
        "damaged": [files[0], str(damaged)],
        "folder": [str(Path(files[0]).parent), files[1]],
        "rtol": [*files, "--rtol", "-1"],
    }[wrong]
    if wrong == "folder":
        damaged.unlink()
    assert main(["compare", *given]) == 2
    told = capsys.readouterr().err
    assert told.startswith("nbgrad compare: ")
    assert told.count("\n") == 1
    assert "Errno" not in told


BY_HAND = """
import sys
import torch
torch.manual_seed(0)
weight = torch.randn(8, 16).mul_(0.3).requires_grad_()
x = torch.randn(64, 8)
for step in range(5):
    hidden = torch.nn.functional.layer_norm(x @ weight, (16,), eps=float(sys.argv[1]))
    loss = torch.relu(hidden).sum(1).sin().mean()
    loss.backward()
    with torch.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
print(f"{loss.item():.4f}")
"""


@pytest.mark.once
def test_programs_without_an_optimizer_are_compared_in_their_first_step(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BY_HAND)
    for name, eps in (("a", "1e-5"), ("b", "1e-2")):
        saved = ("--every", "1", "--steps", "1", "--save", f"{name}.nbgrad")
        result = commands.nbgrad("run", *saved, "train.py", eps, cwd=tmp_path)
        assert "train.py, 1 step (1 backward, all recorded) in " in result.stderr
    graphs = [nbgrad.load(tmp_path / f"{name}.nbgrad") for name in "ab"]
    assert [graph.backwards for graph in graphs] == [1, 1]
    comparison = nbgrad.compare(*graphs)
    assert "layer_norm" in str(comparison)
    assert "eps 1e-05 | 0.01" in str(comparison)
