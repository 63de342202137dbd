"""A loss function in two parts: its forward, and the backward that takes what the forward saved."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import update_wrapper
from inspect import Parameter, signature
from typing import Any

from nbgrad.core.functional.grad import grad
from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.ir import Listing, Value
from nbgrad.core.tensor.tensor import Tensor


@dataclass(frozen=True)
class Parts:
    """A function and its backward.

    Attributes:
        forward: gives what the function returns, and then the ``saved`` values.
        backward: takes the gradients of the results, then the saved values, and gives the gradients.
        saved: the values that the forward hands on.
    """

    forward: Listing
    backward: Listing
    saved: list[Value]


def with_seeds(function: Callable[..., Any], wrt: Sequence[Any], asked: Sequence[bool]) -> Callable[..., Any]:
    """The function that takes the gradients of its results as well, and returns its results and its own gradients.

    Args:
        function: the function.
        wrt: the tensors to differentiate by; a number stands for a tensor argument.
        asked: for each result whether it needs a gradient.
    """

    def joint(seeds: list[Any], *args: Any) -> Any:
        found = function(*args)
        results = [one for one in leaves(found) if isinstance(one, Tensor)]
        outputs = [one for one, needed in zip(results, asked, strict=True) if needed]
        flat = [one for one in leaves(args) if isinstance(one, Tensor)]
        inputs = [flat[one] if isinstance(one, int) else one for one in wrt]
        return found, grad(outputs, inputs, seeds, allow_unused=True)

    update_wrapper(joint, function)
    with suppress(TypeError, ValueError):  # a function of Python's own does not say its arguments
        own = signature(function)
        seeded = Parameter("seeds", Parameter.POSITIONAL_ONLY)
        joint.__signature__ = own.replace(parameters=[seeded, *own.parameters.values()])  # type: ignore[attr-defined]
    return joint


def partitioned(listing: Listing, seeds: int) -> Parts:
    """Split the listing of a function made by ``with_seeds``, whose first ``seeds`` inputs are gradients."""
    found, gradients = listing.outputs
    first = [step for step in listing.steps if step.phase == "forward"]
    second = [step for step in listing.steps if step.phase != "forward"]
    inputs, seeded = listing.inputs[seeds:], listing.inputs[:seeds]
    known = {id(value) for value in seeded} | {id(value) for step in second for value in step.results()}
    wanted = {id(value): value for step in second for value in (*step.inputs(), *step.writes)}
    wanted |= {id(value): value for value in leaves(gradients) if isinstance(value, Value)}
    saved = [value for key, value in wanted.items() if key not in known]
    reached = {id(value) for step in first for value in step.results()}
    reached |= {id(value) for value in (*inputs, *listing.captured)}
    events = [one for one in listing.events if not isinstance(one.value, Value) or id(one.value) in reached]
    forward = replace(
        listing, inputs=inputs, steps=first, outputs=(found, saved), arguments=listing.arguments[1:], events=events
    )
    backward = replace(
        listing, inputs=[*seeded, *saved], captured=[], steps=second, outputs=gradients, gradients=[], events=[]
    )
    return Parts(forward, backward, saved)
