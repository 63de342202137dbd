"""A ``Function`` of the user's whose ``backward`` is not the derivative of its ``forward``.

The class is run again with float64 inputs of the same shapes, and differences of its values are compared with its
gradients. Where the program could notice it (``side_effects.py``), nothing is run again. Some backwards differ from the
derivative on purpose, and are left alone: those of a forward that passes its input on unchanged (a gradient that is
reversed, scaled or clipped), and of one whose numbers jump (a straight-through estimator), wherever its slope is 0.
"""

from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from copy import deepcopy
from inspect import Parameter, getattr_static, signature
from io import StringIO
from typing import Any, NamedTuple

import torch

from nbgrad.core.dispatch.function import Function
from nbgrad.core.engine.function_calls import FunctionCall
from nbgrad.core.engine.state import Switch
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.unreached import is_function
from nbgrad.core.tensor.tensor import Tensor, tensor as own_tensor
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import number
from nbgrad.widgets.findings.examination import Examination, typical
from nbgrad.widgets.findings.located import located
from nbgrad.widgets.findings.side_effects import leaves_nothing

_LARGEST = 1 << 16
"""A ``Function`` with more numbers in its inputs is not run again."""

_STEPS = 1e-5, 1e-6
"""The distances of the differences, which have to agree: at a kink or a jump they do not."""

_AGREE = 0.02
"""By how much they may differ."""

_WRONG = 0.02
"""A gradient that differs from the differences by this part of them is wrong."""

_TRIES = 3
"""So many directions are tried; all have to show the fault."""


class _Fault(NamedTuple):
    """The change of the values along a direction, and what the gradient says."""

    name: str
    said: float
    changed: float


def untrue(case: Examination) -> Iterator[Finding]:
    """The findings about backwards that are not the derivatives of their forwards."""
    told: set[type] = set()
    for record in reversed(case.records):
        if record.op is None or record.gradient is None or not is_function(record.op):
            continue
        call = case.evidence.function_call(record.id)
        if call is None or call.function in told:
            continue
        fault = None
        with suppress(Exception):  # the class may refuse float64, or other inputs than the program's
            fault = _checked(case, record, call)
            told.add(call.function)
        if fault is not None:
            name = call.function.__name__
            text = translate(
                "the backward() of {run} is not the derivative of its forward(): along a direction "
                "of {name} its result changes by {changed}, and the gradient says {said}.",
                run=record.run,
                name=fault.name,
                changed=number(fault.changed),
                said=number(fault.said),
            )
            yield located(
                record,
                "custom function",
                text,
                translate("Check it with gradcheck({name}.apply, inputs), and mend its backward()", name=name),
            )


def _base(function: type) -> Any:
    """The class of torch's or ours from which the user's is derived."""
    return Function if issubclass(function, Function) else torch.autograd.Function


_METHODS = ("apply", "forward", "setup_context", "backward", "vjp")
"""The methods that a run calls; vjp is the other name that torch has for backward."""


def _may_run(function: type) -> bool:
    """Whether the program does not notice a run of the class."""
    base = _base(function)
    methods = [(getattr_static(function, name, None), getattr_static(base, name, None)) for name in _METHODS]
    return all(own is inherited or leaves_nothing(own) for own, inherited in methods)


def _checked(case: Examination, record: Record, call: FunctionCall) -> _Fault | None:
    """Run the class again; the first input whose gradient is wrong, or None."""
    if not _may_run(call.function):
        return None
    generator = torch.Generator().manual_seed(0)
    made = _arguments(case, record, call, generator)
    if made is None:
        return None
    names, args = made
    ours = issubclass(call.function, Function)
    with Switch(grad_enabled=True, observers=()), torch.random.fork_rng(devices=[]), redirect_stdout(StringIO()):
        run = _Rerun(call.function, args, ours=ours)
        first, again = run.values(), run.values()
        if not torch.equal(first, again) or any(_is_same(first, one) for one in args):
            return None
        for at, needed in enumerate(call.needs):
            if needed and isinstance(args[at], torch.Tensor):
                faults = [_compared(run, at, names[at], first, generator) for _ in range(_TRIES)]
                if all(faults):
                    return faults[0]
    return None


def _is_same(result: torch.Tensor, one: Any) -> bool:
    return isinstance(one, torch.Tensor) and result.shape == one.shape and torch.equal(result, one)


def _arguments(
    case: Examination, record: Record, call: FunctionCall, generator: torch.Generator
) -> tuple[list[str], list[Any]] | None:
    """The names of the arguments, and values like those of the program; None if some are not known."""
    parameters = list(signature(call.function.forward).parameters.values())  # type: ignore[attr-defined]
    if call.function.setup_context is _base(call.function).setup_context:  # type: ignore[attr-defined]
        parameters = parameters[1:]
    if any(one.kind is Parameter.VAR_POSITIONAL for one in parameters) or len(call.needs) > len(parameters):
        return None
    given, constants = iter(record.inputs), iter(call.constants)
    args: list[Any] = []
    for parameter, needed in zip(parameters, call.needs, strict=False):
        if needed:
            source = case.made.get(getattr(next(given), "source", None) or 0)
            if source is None or not source.dtype.is_floating_point or source.several:
                return None
            args.append(_like(case, source, generator))
        elif parameter.name in call.settings:
            args.append(deepcopy(call.settings[parameter.name]))  # it may be a list of the program's
        elif (constant := next(constants, None)) is not None:
            args.append(constant.double().cpu() if constant.is_floating_point() else constant.cpu())
        elif parameter.default is not Parameter.empty:
            args.append(parameter.default)
        else:
            return None
    if sum([one.numel() for one in args if isinstance(one, torch.Tensor)]) > _LARGEST:
        return None
    return [one.name for one in parameters], args


def _like(case: Examination, source: Record, generator: torch.Generator) -> torch.Tensor:
    """The values of a leaf, or numbers of the same size as those of a result."""
    tensor = case.evidence.tensor(source.id) if source.op is None else None
    if tensor is not None:
        return tensor.detach().double().cpu().clone()
    array = None if source.value is None else source.value.array
    if array is not None and array.shape == source.shape:
        return torch.tensor(array, dtype=torch.float64)
    size = typical(source.value) or 1.0
    return torch.randn(source.shape, dtype=torch.float64, generator=generator) * size


class _Rerun:
    """Runs of a class at given arguments."""

    def __init__(self, function: type, args: list[Any], *, ours: bool) -> None:
        self._function: Any = function
        self._ours = ours
        self.args = args

    def _result(self, args: list[Any]) -> Any:
        result = self._function.apply(*args)
        return (
            next(one for one in result if isinstance(one, torch.Tensor | Tensor)) if type(result) is tuple else result
        )

    def values(self, at: int = -1, moved: torch.Tensor | None = None) -> torch.Tensor:
        """The result, with argument ``at`` ``moved``."""
        args = [moved if number == at else one for number, one in enumerate(self.args)]
        args = [one.clone() if isinstance(one, torch.Tensor) else one for one in args]
        result = self._result(
            [own_tensor(one) if self._ours and isinstance(one, torch.Tensor) else one for one in args]
        )
        found: torch.Tensor = result.data if self._ours else result
        return found.detach().double()

    def gradient(self, at: int, weights: torch.Tensor) -> torch.Tensor:
        """The gradient of the result, times ``weights``, for argument ``at``."""
        args = [one.clone() if isinstance(one, torch.Tensor) else one for one in self.args]
        if self._ours:
            args = [own_tensor(one) if isinstance(one, torch.Tensor) else one for one in args]
        args[at].requires_grad_()
        result = self._result(args)
        result.backward(own_tensor(weights) if self._ours else weights.to(result.dtype))
        grad = args[at].grad
        found = torch.zeros_like(self.args[at]) if grad is None else grad.data if self._ours else grad
        return torch.as_tensor(found, dtype=torch.float64)


def _compared(run: _Rerun, at: int, name: str, first: torch.Tensor, generator: torch.Generator) -> _Fault | None:
    """Compare the gradient for one argument with differences along a direction at random."""
    start = run.args[at]
    direction = torch.randn(start.shape, dtype=torch.float64, generator=generator)
    weights = torch.randn(first.shape, dtype=torch.float64, generator=generator)
    elementwise = first.shape == start.shape and _is_elementwise(run, at, first, generator)
    if elementwise:  # the weights have sizes of 0.5 to 1: a backward may limit those above 1 on purpose
        sizes = 0.5 + 0.5 * torch.rand(first.shape, dtype=torch.float64, generator=generator)
        weights, direction = weights.sign() * sizes, torch.ones_like(start)
    wide, narrow = [
        (run.values(at, start + step * direction) - run.values(at, start - step * direction)) / (2 * step)
        for step in _STEPS
    ]
    size = narrow.abs().max()
    if not size > 0 or (wide - narrow).abs().max() > _AGREE * size:
        return None
    gradient = run.gradient(at, weights)
    if elementwise:
        sloped = narrow != 0  # elsewhere a gradient may be made on purpose
        told, slopes = gradient[sloped], (narrow * weights)[sloped]
        fault = _Fault(name, float(told.sum()), float(slopes.sum()))
        return fault if (told - slopes).abs().max() > _WRONG * slopes.abs().max() else None
    said, changed = float((gradient * direction).sum()), float((narrow * weights).sum())
    return _Fault(name, said, changed) if abs(said - changed) > _WRONG * max(abs(said), abs(changed)) else None


def _is_elementwise(run: _Rerun, at: int, first: torch.Tensor, generator: torch.Generator) -> bool:
    """Whether each number of the result depends on the number at the same place alone."""
    chosen = torch.rand(first.shape, generator=generator) < 0.5
    moved = run.values(at, torch.where(chosen, run.args[at] + 1e-3, run.args[at]))
    return bool(((moved != first) <= chosen).all())
