"""gradcheck and gradgradcheck: they compare gradients with differences of values, and explain a disagreement.

A failure is narrowed down: every op that ran is checked alone, at the values it saw. So the message names the rule that
is wrong, and the wrong numbers of this rule show the probable cause.
"""

from collections.abc import Callable, Sequence
from functools import partial
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.diagnose.causes import cause, circumstance, kink, mistake
from nbgrad.core.diagnose.numeric_jacobian import Limits, Mismatch, Probe, count, differentiables, gradient_of, precise
from nbgrad.core.dispatch.function import FunctionPlan
from nbgrad.core.dispatch.table import Op
from nbgrad.core.engine.backward import reachable
from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.node import Node, OpInfo
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import Switch, current, restoring
from nbgrad.core.engine.tensor_data import differentiable, dtype_name
from nbgrad.core.graph.listener import Listener
from nbgrad.core.tensor.tensor import Tensor, tensor

_LARGEST = 1 << 20
"""Jacobians with more entries are not made to check an op alone."""


class GradcheckError(RuntimeError):
    """A gradient is wrong; the message says where, by how much, which rule is wrong, and the probable cause."""


@restoring
def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """Check the gradients of ``func`` against central differences, in float64 or complex128.

    Args:
        func: a function that takes the inputs as arguments and returns a tensor or a tuple of tensors; or a row made
            with ``@nbgrad.op``.
        inputs: one input or a tuple. The inputs that require grad are checked; for a row also every floating point
            torch tensor. If an input is not float64 or complex128, a copy of that type is checked. All other inputs are
            passed unchanged. For complex inputs and outputs, the real and the imaginary part are checked: the gradient
            with respect to z = x + iy is the gradient with respect to x plus i times the gradient with respect to y, as
            in torch.
        eps: the distance by which each element is moved to either side.
        atol: the allowed difference where the difference quotient is 0.
        rtol: the allowed relative difference. The default overlooks an error of 0.1 %; 1e-4 finds it.
        raise_exception: raise an error on failure, instead of returning False.
        nondet_tol: the allowed difference of two backwards at the same point.

    Returns:
        True if every element of every gradient agrees.

    Raises:
        GradcheckError: a gradient is wrong, differs between backwards, or is not linear in the incoming gradient.
        ValueError: no input requires grad, or ``func`` reads an input from an outer variable, and not from its
            argument, which is a copy.
    """
    limits = Limits(eps, atol, rtol, nondet_tol)
    with _unobserved():
        args, leaves, names = _prepared(func, inputs)
        probe = Probe(lambda: func(*args), leaves, names, limits)
        problem = probe.problem()
        if problem is not None and raise_exception:
            calls = [(call, 1) for call in _recorded(probe.run)]
            raise GradcheckError(_explained("gradcheck", problem, calls))
    return problem is None


@restoring
def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:
    """Check the gradients of the gradients of ``func`` against differences of its gradients, in float64.

    Args:
        func: as for ``gradcheck``.
        inputs: as for ``gradcheck``.
        grad_outputs: the gradients that start the first backward, shaped as the outputs; default: random numbers.
        eps: as for ``gradcheck``.
        atol: as for ``gradcheck``.
        rtol: as for ``gradcheck``.
        raise_exception: as for ``gradcheck``.
        nondet_tol: as for ``gradcheck``.

    Returns:
        True if every element agrees.

    Raises:
        GradcheckError: a second-order gradient is wrong.
        ValueError: as for ``gradcheck``.
    """
    limits = Limits(eps, atol, rtol, nondet_tol)
    with _unobserved():
        args, leaves, names = _prepared(func, inputs)
        first = Probe(lambda: func(*args), leaves, names, limits)
        second = gradient_of(first, grad_outputs)
        problem = second.problem()
        if problem is not None and raise_exception:
            calls = [(call, 1) for call in _recorded(second.run)] + [(call, 2) for call in _recorded(first.run)]
            raise GradcheckError(_explained("gradgradcheck", problem, calls))
    return problem is None


def _unobserved() -> Switch:
    """Gradients on, and no graph that records the hundreds of runs of a check."""
    watching = tuple(observer for observer in current().observers if not isinstance(observer, Listener))
    return Switch(grad_enabled=True, observers=watching)


def _prepared(func: Callable[..., Any], inputs: Any) -> tuple[list[Any], list[Tensor], list[str]]:
    """Return three lists: the arguments for ``func``, those of them that the check moves, and the names of the latter.

    Each ``Tensor`` of floating point or complex numbers is in contiguous float64 or complex128.
    """
    given = list(inputs) if isinstance(inputs, tuple | list) else [inputs]
    rules = [name in func.rules for name in func.inputs] if isinstance(func, Op) else []
    args, originals = [], []
    for value, ruled in zip(given, [*rules, *[False] * len(given)], strict=False):
        if isinstance(value, torch.Tensor) and (value.requires_grad or (ruled and differentiable(value.dtype))):
            value = tensor(value, requires_grad=True)
        checked = value
        if isinstance(value, Tensor) and differentiable(value.dtype):
            raw = value.data
            if raw.dtype is not precise(raw.dtype) or not raw.is_contiguous() or raw.is_conj() or raw.is_neg():
                checked = _float64(value, requires_grad=value.requires_grad)
                originals += [value] if value.requires_grad else []
        args.append(checked)
    moved = [i for i, arg in enumerate(args) if isinstance(arg, Tensor) and arg.requires_grad]
    if not moved:
        raise ValueError("gradcheck needs an input that requires grad: nbgrad.tensor(..., requires_grad=True)")
    if originals:
        _check_uses_arguments(func, args, originals)
    called = {i: f" ({name!r})" for i, name in enumerate(func.inputs)} if isinstance(func, Op) else {}
    return args, [args[i] for i in moved], [f"input {i}{called.get(i, '')}" for i in moved]


def _check_uses_arguments(func: Callable[..., Any], args: list[Any], originals: list[Tensor]) -> None:
    """An error if ``func`` reaches past the float64 copies in its arguments: moving those would show nothing."""
    try:
        outputs = differentiables(func(*args))
    except RuntimeError as error:
        error.add_note("gradcheck passes float64 copies: func must take every floating point tensor as an argument")
        raise
    reached = set(reachable([out.origin for out in outputs if out.requires_grad]))
    for value in originals:
        if value.origin in reached:
            raise ValueError(
                f"func reads a {dtype_name(value.dtype)} input of shape {tuple(value.shape)} from a variable, but "
                "gradcheck passes a float64 copy as an argument: use the argument, or make the input float64"
            )


# The search for the op whose rule is wrong.


class _Call(NamedTuple):
    """An op that ran: how to run it again on copies of what it saw, and the user's line that ran it."""

    op: OpInfo
    function: Callable[..., Any]
    args: tuple[Any, ...]
    needs: tuple[int, ...]
    dtype: torch.dtype
    place: Place

    def alone(self, order: int, limits: Limits) -> Probe | None:
        """A probe of the op, or with ``order`` 2 of its gradient, that moves its inputs; None if it is too large."""
        args = [_float64(arg, requires_grad=i in self.needs) for i, arg in enumerate(self.args)]
        leaves = [args[i] for i in self.needs]
        probe = Probe(lambda: self.function(*args), leaves, [repr(self.op.inputs[i]) for i in self.needs], limits)
        if sum(count(leaf.data) for leaf in leaves) * sum(count(out.data) for out in probe.run()) > _LARGEST:
            return None
        return probe if order == 1 else gradient_of(probe)


class _Recorder(Observer):
    """Keeps the ops that run, with copies of what they saw."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls: list[_Call] = []

    def on_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:
        """Keep one op."""
        op, plan = node.op, node.plan
        function = plan.function.apply if isinstance(plan, FunctionPlan) else partial(op, **node.settings)
        needs = tuple(i for i, edge in enumerate(node.edges) if edge is not None and op.inputs[i] in op.rules)
        self.calls.append(_Call(op, function, tuple(map(_float64, args)), needs, out.dtype, user_place()))


def _float64(value: Any, requires_grad: bool = False) -> Any:
    """A copy of a tensor, in float64 if it is floating point and in complex128 if complex; anything else as it is."""
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if not isinstance(value, Tensor | torch.Tensor):
        return value
    raw = value.data.detach().resolve_conj().resolve_neg()
    copy = raw.to(precise(raw.dtype), copy=True).contiguous()
    return tensor(copy, requires_grad=requires_grad) if isinstance(value, Tensor) or requires_grad else copy


def _recorded(run: Callable[[], Any]) -> list[_Call]:
    recorder = _Recorder()
    with Switch(observers=(*current().observers, recorder)):
        run()
    return recorder.calls


def _culprit(calls: Sequence[tuple[_Call, int]], limits: Limits) -> tuple[_Call, int, Mismatch] | None:
    """The first op whose own rule is wrong at the values it saw; one at a kink only if there is no other."""
    at_a_kink = None
    for call, order in calls:
        probe = call.alone(order, limits)
        problem = None if probe is None else probe.problem()
        if problem is None:
            continue
        if not kink(problem):
            return call, order, problem
        at_a_kink = at_a_kink or (call, order, problem)
    return at_a_kink


# The text of the error.


def _explained(title: str, problem: Mismatch, calls: Sequence[tuple[_Call, int]]) -> str:
    limits = problem.probe.limits
    culprit = _culprit(calls, limits)
    return "\n".join(
        [
            f"{title}: {problem.probe.results[problem.output]} with respect to {problem.name}: {_WHAT[problem.kind]}",
            *_numbers(problem),
            *_blamed(culprit),
            *wrap("  probable cause  " + _why(problem, culprit, calls), 112, subsequent_indent=" " * 18),
        ]
    )


_WHAT = {
    "wrong": "the gradient is wrong",
    "nondeterministic": "the gradient is not the same each time",
    "not linear": "the gradient is not linear in the incoming gradient",
}

_LABELS = {
    "wrong": ("analytic", "numeric", "from the rules", "central difference, eps = {eps:g}"),
    "nondeterministic": ("first backward", "second backward", "from the rules", "from the rules"),
    "not linear": ("analytic", "expected", "from the rules, for a random incoming gradient", "what the Jacobian gives"),
}


def _numbers(problem: Mismatch) -> list[str]:
    """The worst entry and both its values."""
    got, want = problem.values
    first, second, origin, other = _LABELS[problem.kind]
    shape, input = problem.shapes
    paired = problem.complex
    rows = "" if problem.kind == "not linear" else _index(problem.row, shape, "the output", paired[0])
    at = ", ".join(filter(None, [rows, _index(problem.column, input, "the input", paired[1])]))
    digits = 17 if problem.kind == "nondeterministic" else 8
    return [
        f"  worst at        {at or 'the single number'}",
        f"  {first:<15} {got:.{digits}g} ({origin})",
        f"  {second:<15} {want:.{digits}g} ({other.format(eps=problem.probe.limits.eps)})",
        f"  ratio           {got / want:.6g}" if want else "  ratio           none: divided by 0",
    ]


def _index(element: int, shape: tuple[int, ...], of: str, paired: bool) -> str:
    """The place of an element; empty if it is the only one. For a complex element also its part, real or imaginary."""
    places = [int(place) for place in np.unravel_index(element, shape)]
    part = ("the real part", "the imaginary part")[places.pop()] if paired else ""
    place = f"[{', '.join(map(str, places))}]" if places else ""
    return " of ".join(filter(None, [part, place, of])) if part or place else ""


def _blamed(culprit: tuple[_Call, int, Mismatch] | None) -> list[str]:
    """The op whose rule is wrong, and the result of that rule alone, at the values that the op saw."""
    if culprit is None:
        return ["  op              none: the rule of each op is right by itself, at its values"]
    call, order, problem = culprit
    got, want = problem.values
    digits = 17 if problem.kind == "nondeterministic" else 8
    rule = "the rule" if order == 1 else "differentiating its rule"
    by = f"for {problem.name} of shape {problem.shapes[1]}" if order == 1 else f"by {problem.name}"
    return [
        f"  op              {call.op.name}",
        f"  called at       {call.place}",
        f"  alone           {rule} {by} gives {got:.{digits}g} instead of {want:.{digits}g}",
    ]


def _why(problem: Mismatch, culprit: tuple[_Call, int, Mismatch] | None, calls: Sequence[tuple[_Call, int]]) -> str:
    for call, _ in calls:
        if call.dtype is not precise(call.dtype):
            kind, wanted = dtype_name(call.dtype), dtype_name(precise(call.dtype))
            coarse = f"{call.op.name} at {call.place} computes in {kind}"
            return f"{coarse}, too coarse for differences: use {wanted} throughout"
    if culprit is not None:
        return cause(culprit[2]) if culprit[1] == 1 else circumstance(culprit[2]) or _CUT_RULE
    if text := circumstance(problem):
        return text
    large = [call.op.name for call, order in calls if call.alone(order, problem.probe.limits) is None]
    if large:
        return f"{mistake(problem)}; too large to be checked alone: {', '.join(dict.fromkeys(large))}"
    return _CUT_FUNCTION


_CUT_RULE = (
    "the rule is right at first order and cannot be differentiated: a part of it is not recorded (.data, detach(), "
    "item(), or a torch function that is no row of the table)"
)
_CUT_FUNCTION = (
    "every rule is right, so a part of func is not recorded (.data, detach(), item(), no_grad(), or a torch function "
    "that is no row of the table)"
)
