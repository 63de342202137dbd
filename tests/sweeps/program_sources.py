"""Programs of views, changes in place and new tensors: their source, at both levels, computes the program's bits."""

from random import Random
from typing import Any

import torch
from latex2mathml.converter import convert

import nbgrad
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.program import Program, trace
from tests.sweeps.traced_programs import RAISES, chosen, compare, differentiated, leaves, run

CASES = 20


def check(random: Random) -> None:
    """Compare the source of a program, and of the optimized one, with the program; the formulas must be LaTeX."""
    choices, given, order = chosen(random), leaves(random), random.choice([1, 1, 2])
    log: list[str] = []
    torch.manual_seed(1)
    run([nbgrad.tensor(one.data.clone(), requires_grad=one.requires_grad) for one in given], choices, log)
    choices = [one for one, line in zip(choices, log, strict=True) if not line.endswith(RAISES)]
    log = []
    try:
        program = trace(differentiated(choices, order, log), *given)
    except TraceError:
        return
    if any(line.endswith(RAISES) for line in log):
        return
    for kind in (program, program.optimize()):
        try:
            expected = ran(kind, None, given)
        except RuntimeError:  # the numbers make a step raise
            return
        for level in ("ops", "torch"):
            found = ran(kind, level, given)
            compare(found, expected, f"order {order}\n{kind.source(level)}")
        assert str(kind).count("\n") > 2
        assert " step" in kind.explain()
        convert(kind.latex())


def ran(program: Program, level: Any, given: list[Any]) -> Any:
    """The results of a program or of its source, and the inputs as it left them."""
    data = [one.data.clone() for one in given]
    torch.manual_seed(1)
    if level is None:
        return program(*data), data
    space: dict[str, Any] = {}
    exec(compile(program.source(level), "<source>", "exec"), space)  # nbgrad wrote this source
    return space[program.name](*data, **program.source_arguments(level)), data
