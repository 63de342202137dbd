"""A recorded graph as a program: what a run of it computes, with every value and every gradient."""

from typing import Any, NamedTuple

from nbgrad.core.graph.rerun import Rerun, RerunError, RerunOutcome
from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.program import Program, trace
from nbgrad.core.tensor.tensor import Tensor


class RerunProgram(NamedTuple):
    """A program that takes the leaves and inputs of a recorded graph.

    Attributes:
        program: it returns the tensors that ``results`` name.
        given: the ids of the records that its arguments stand for, in order.
        examples: the arguments, with the numbers that they have now.
        results: what each result is: ("value", id), ("gradient", id), or ("edge", id of the op, position of the input).
    """

    program: Program
    given: list[int]
    examples: list[Tensor]
    results: list[tuple[Any, ...]]


def rerun_program(rerun: Rerun) -> RerunProgram:
    """Trace a run of a recorded graph.

    Raises:
        RerunError: it cannot be run again.
        TraceError: a program cannot do what an op does.
    """
    given = list(rerun.sources)
    examples = [Tensor(rerun.numbers(id).clone(), requires_grad=rerun.learns(id)) for id in given]

    def recorded(*tensors: Tensor) -> dict[tuple[Any, ...], Any]:
        return _flat(rerun.among(dict(zip(given, tensors, strict=True))))

    program = trace(recorded, *examples)
    results = list(program.outputs)
    program.outputs = list(program.outputs.values())
    if len(list(leaves(program.outputs))) != len(results):
        raise RerunError("two of its tensors are one value in the program")
    return RerunProgram(program, given, examples, results)


def _flat(outcome: RerunOutcome) -> dict[tuple[Any, ...], Any]:
    return {
        **{("value", id): one for id, one in outcome.values.items()},
        **{("gradient", id): one for id, one in outcome.gradients.items() if not isinstance(one, list)},
        **{("edge", *key): one for key, one in outcome.contributions.items()},
    }
