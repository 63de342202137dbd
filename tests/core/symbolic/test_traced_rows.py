"""Every row of the op table as a program: forward, gradient and second gradient equal those that run directly."""

from typing import Any

import pytest
import torch

from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.program import Program, trace
from tests.core.symbolic.traced_rows import ORDERS, Traced, arguments, closeness, differentiated, spread
from tools import write_traced_rows

SPECIAL = write_traced_rows.named(write_traced_rows.PAGE.read_text(encoding="utf-8"))


def check(row: Op, sample: Sample, order: int, run: Any = None) -> Program:
    """Run the sample directly and as a program: both give the same bits, and leave the same inputs."""
    function, mine = differentiated(row, sample.settings, order, run), arguments(row, sample)
    torch.manual_seed(0)
    expected = [*function(*mine), *mine]
    given = arguments(row, sample)
    program = trace(function, *given)
    for one in (program, program.optimize()):
        given = arguments(row, sample)
        torch.manual_seed(0)
        compare([*one(*given), *given], expected, closeness(row))
    return program


def compare(found: list[Any], expected: list[Any], most: float = 0.0) -> None:
    """Both are the same tensors, bit for bit unless ``most`` allows a difference."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if hasattr(one, "_data"):
            left, right = (
                each.data if each.data.layout is torch.strided else each.data.to_dense() for each in (one, other)
            )
            torch.testing.assert_close(left, right, rtol=most, atol=most, equal_nan=True)


@pytest.mark.sampled(48)
@pytest.mark.parametrize("name", sorted(OPS))
def test_a_row_computes_the_same_as_a_program(name: str) -> None:
    row, found = OPS[name], Traced()
    for sample in spread(row):
        for order in ORDERS:
            try:
                found.add(row, check(row, sample, order), order)
            except TraceError as error:
                found.refuse(sample, error)
        found.count += 1
    assert found.random == row.random, "the declaration of the row says whether it draws random numbers"
    assert found.mutates == set(row.mutates), "the declaration of the row says which inputs it changes"
    here = [line for line in SPECIAL if line.startswith(f"| `{name}` |")]
    assert write_traced_rows.lines(row, found) == here, "run python -m tools.write_traced_rows"


TWINS = sorted(name for name, row in OPS.items() if row._in_place is not None)


@pytest.mark.sampled(48)
@pytest.mark.parametrize("name", TWINS)
def test_a_twin_in_place_computes_the_same_as_a_program(name: str) -> None:
    row, compared = OPS[name], 0

    def run(first: Any, *rest: Any, **settings: Any) -> Any:
        target = first.clone()
        view = target[...]
        return [row.in_place(view, *rest, **settings), target * 1]

    for sample in (one for one in spread(row) if isinstance(one.args[0], torch.Tensor)):
        for order in ORDERS:
            try:
                differentiated(row, sample.settings, order, run)(*arguments(row, sample))
            except (RuntimeError, TypeError):  # the result has another shape or type than the input
                continue
            check(row, sample, order, run)
            compared += 1
    assert compared


def test_the_table_of_special_rows_names_rows() -> None:
    assert SPECIAL
    assert {line.split("`")[1] for line in SPECIAL} <= OPS.keys()
    before = f"x\n{write_traced_rows.HEAD}| `old` | |\n| `sin` | draws random numbers |\n| `svd` | |\n\ny"
    assert write_traced_rows.named(write_traced_rows.page(before, {})) == ["| `sin` | draws random numbers |"]


def test_a_row_that_is_named_gets_its_line_and_the_others_keep_theirs() -> None:
    before = f"x\n{write_traced_rows.HEAD}| `exp` | draws random numbers |\n| `sin` | draws random numbers |\n\ny"
    found = {"exp": Traced(), "cos": Traced(random=True)}
    table = "| `cos` | draws random numbers |\n| `sin` | draws random numbers |\n"
    assert write_traced_rows.page(before, found) == f"x\n{write_traced_rows.HEAD}{table}\ny"
    with pytest.raises(ValueError, match="no rows of the op table: sinn"):
        write_traced_rows.main(["sin", "sinn"])
