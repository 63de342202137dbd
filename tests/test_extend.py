"""nbgrad.extend has everything that a user's op needs, with types. No page sends a reader into the engine."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import extend
from nbgrad.core.dispatch.table import OPS

ROOT = Path(__file__).parents[1]

USER = """
from collections.abc import Iterator
from typing import assert_type

import torch

import nbgrad
from nbgrad import extend
from nbgrad.extend import Make, Observer, Sample, observe, op


def both(make: Make) -> Iterator[Sample]:
    yield from extend.unary(make)
    yield Sample.of(make(3), limit=2.0)


@op(formula="x", samples=both, method=False)
def clipped(x: torch.Tensor, *, limit: float = 1.0) -> torch.Tensor:
    return x.clamp(-limit, limit)


@clipped.rule("x", "g")
def _(g: nbgrad.Tensor, x: nbgrad.Tensor, limit: float) -> nbgrad.Tensor:
    return g * (x < limit) * (x > -limit)


@nbgrad.op(formula="x", samples=extend.unary, method=False)
def untyped(x):  # type: ignore[no-untyped-def]
    return x


@op(formula="x", samples=extend.unary, method=False, outputs=("low", "high"))
def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x, x


class Counts(Observer):
    def on_call(self, op: extend.OpInfo, args: tuple[object, ...]) -> None:
        print(op.name)


x = nbgrad.tensor([1.0, 2.0])
assert_type(clipped(x, limit=2.0), nbgrad.Tensor)
assert_type(clipped(x).sum(), nbgrad.Tensor)
untyped(x).sum()
halves(x).low.sum()
assert_type(extend.OPS["mul"].formula, str)
with observe(Counts()):
    clipped(x)
clipped(x).no_such_method()  # type: ignore[attr-defined]
extend.OPS["mul"] = clipped  # type: ignore[index]
op(formula=3, samples=both)  # type: ignore[arg-type]
op(formula="x", samples=both, no_such_setting=3)  # type: ignore[call-arg]
"""


@pytest.mark.once
def test_a_type_checker_knows_a_row_of_the_users(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    command = [sys.executable, "-m", "mypy", str(tmp_path / "user.py")]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture
def row() -> Iterator[extend.Op]:
    @extend.op(formula="2 x", samples=extend.unary, method=False)
    def twice_of_a_test(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice_of_a_test.rule("x", r"2 \bar{y}")
    def _(g: Any) -> Any:
        return g * 2

    yield twice_of_a_test
    del OPS["twice_of_a_test"]


def test_the_table_shows_a_new_row_and_cannot_be_changed(row: extend.Op) -> None:
    assert extend.OPS["twice_of_a_test"] is row
    assert extend.OPS["mul"] is OPS["mul"]
    with pytest.raises(TypeError, match="item assignment"):
        extend.OPS["mul"] = row  # type: ignore[index]


class Names(extend.Observer):
    def __init__(self) -> None:
        self.names: list[str] = []

    def on_call(self, op: extend.OpInfo, args: tuple[Any, ...]) -> None:
        self.names.append(op.name)


def test_observers_see_the_ops_inside_of_the_block_alone(row: extend.Op) -> None:
    outer, first, second = Names(), Names(), Names()
    x = nbgrad.tensor([1.0], requires_grad=True)
    row(x)
    with extend.observe(outer):
        x.exp()
        with extend.observe(first, second):
            row(x).sum().backward()
        x.sin()
    x.cos()
    assert first.names == second.names == ["twice_of_a_test", "sum"]
    assert outer.names == ["exp", "twice_of_a_test", "sum", "sin"]


def test_observe_decorates_a_function() -> None:
    seen = Names()

    @extend.observe(seen)
    def run() -> None:
        nbgrad.tensor(1.0).exp()

    run()
    run()
    assert seen.names == ["exp", "exp"]


def test_observe_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match=r"subclasses of nbgrad\.extend\.Observer"):
        extend.observe(Names)  # type: ignore[arg-type]


def test_op_is_one_function() -> None:
    assert nbgrad.op is extend.op


@pytest.mark.once
def test_no_page_sends_a_reader_into_the_engine() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*")]
    assert len(pages) > 15
    naming = [page.name for page in pages if page.is_file() and "nbgrad.core" in page.read_text("utf-8")]
    assert not naming, "say it by nbgrad or nbgrad.extend"
