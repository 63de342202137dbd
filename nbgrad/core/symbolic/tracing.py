"""Run a function under a ``Tracer``, and let go of all that the trace had changed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from inspect import Parameter, signature
from typing import Any

import torch

from nbgrad.core.backend.function_mode import unheard
from nbgrad.core.engine.node import TensorBase
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import Switch, current, restoring
from nbgrad.core.functional.grad import grad
from nbgrad.core.no_gc import uncollected
from nbgrad.core.ops import zeros_like
from nbgrad.core.structure import leaves, mapped
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.fake import is_fake
from nbgrad.core.symbolic.ir import Listing, Value
from nbgrad.core.symbolic.naming import name_values
from nbgrad.core.symbolic.process_settings import arithmetic
from nbgrad.core.symbolic.source import one_line
from nbgrad.core.symbolic.surroundings import Surroundings
from nbgrad.core.symbolic.tracer import Tracer
from nbgrad.core.symbolic.turns import ModesAround
from nbgrad.core.symbolic.watch import TraceWatch, Wrong
from nbgrad.core.tensor.tensor import Tensor


@dataclass(frozen=True)
class Spec:
    """The shape and type of a tensor argument, for ``trace``, which needs no numbers.

    Attributes:
        shape: the size of each dimension.
        dtype, device: as of a tensor.
        requires_grad: whether gradients with respect to it can be asked for.
    """

    shape: Sequence[int]
    dtype: torch.dtype = torch.float32
    device: torch.device | str = "cpu"
    requires_grad: bool = False


@dataclass(frozen=True)
class Trace:
    """A listing, and what must stay as it was for it to hold.

    Attributes:
        listing: what the function does.
        tensors: each tensor of nbgrad that it found, with the data that it had and whether it needed a gradient.
        gradients: tensors with the data of their ``.grad`` before the call; None where there was none.
        guards: comparisons of settings: the text, the function that repeats it, the outcome.
        modules: the outermost modules that it called.
        states: the tensors in the states of the optimizers that it steps: optimizer, parameter, key, tensor.
        differentiable: for each tensor that it returns, whether the result needs a gradient.
        surroundings: what the function uses from around it.
    """

    listing: Listing
    tensors: list[tuple[Any, torch.Tensor, bool]]
    gradients: list[tuple[Any, torch.Tensor | None]]
    guards: list[tuple[str, Callable[[], Any], Any]]
    modules: list[Any]
    states: list[tuple[Any, Any, str, torch.Tensor]]
    differentiable: list[bool]
    surroundings: Surroundings


def gradient(function: Callable[..., Any], wrt: Sequence[Any], order: int) -> Callable[..., Any]:
    """The function that returns the result of ``function`` and its gradients, of order 1 or higher."""

    @wraps(function)
    def with_gradients(*args: Any) -> Any:
        found = function(*args)
        outputs = [one for one in leaves(found) if isinstance(one, Tensor)]
        if not outputs or not outputs[0].requires_grad:
            raise RuntimeError("the first result of the program needs no gradient: nothing in it depends on wrt")
        parts: list[Any] = [found]
        chosen = _chosen(wrt, args)
        parts.append(grad(outputs[0], chosen, create_graph=order > 1))
        for further in range(2, order + 1):
            of: list[Any] = [one.sum() for one in parts[-1] if one.requires_grad]
            if of:
                parts.append(grad(sum(of), chosen, create_graph=further < order, materialize_grads=True))
            else:  # the gradients are constants
                parts.append(tuple([zeros_like(one) for one in chosen]))
        return tuple(parts)

    return with_gradients


def _chosen(wrt: Sequence[Any], args: tuple[Any, ...]) -> list[Any]:
    flat = [one for one in leaves(args) if isinstance(one, Tensor)]
    return [flat[one] if isinstance(one, int) else one for one in wrt]


@uncollected
@restoring
def traced(
    function: Callable[..., Any],
    examples: tuple[Any, ...],
    on_error: Callable[[Exception], object] | None = None,
    *,
    locating: Wrong | None = None,
) -> Trace:
    """The trace of a call. The tensors that it finds are afterwards what they were before, whatever happens.

    Args:
        function: as for ``trace``.
        examples: as for ``trace``.
        on_error: is called with an error that the function itself raises.
        locating: what a first trace has refused. This one finds the line of it, and raises ``Located``.
    """
    trace: Trace = unheard(_traced, function, examples, on_error, locating)
    return trace


def _traced(
    function: Callable[..., Any],
    examples: tuple[Any, ...],
    on_error: Callable[[Exception], object] | None,
    locating: Wrong | None,
) -> Trace:
    tracer = Tracer()
    if current().tracer is not None:
        raise RuntimeError("trace() inside of a function that is being traced: trace it outside")
    names = iter(_argument_names(function, examples))
    args = mapped(lambda one: _argument(tracer, one, names), examples)
    sights = Surroundings(function).seen
    watch = TraceWatch(tracer, sights, locating=locating)
    around, ended = ModesAround(), False
    try:
        try:
            tracer.watch_settings([one.value for one in sights])
            with Switch(tracer=tracer, observers=(tracer.watch,)), tracer, watch:
                found = _called(function, args, on_error)
                outputs = mapped(lambda one: _value(tracer, one), found)
            ended = True
        finally:
            changed, gradients, replaced = _released(tracer, around)
            if not ended or locating is not None:
                watch.restore()
    except BaseException as error:
        if not isinstance(error, Exception):  # Ctrl-C, which may have hit the ``finally``: to let go twice is the same
            _released(tracer, around)
            watch.restore()
        raise
    if locating is not None:
        raise Located(watch.place)
    watch.check(changed, replaced, partial(_place_of, function, examples))
    tracer.guards += [*watch.calls.guards(), *arithmetic(one.value for one in sights)]
    arguments = mapped(lambda one: _value(tracer, one), args)
    changes = any(step.writes and step.phase != "update" for step in tracer.steps)
    listing = Listing(
        _name(function), tracer.inputs, tracer.captured, tracer.steps, outputs, gradients, arguments, changes
    )
    listing.events = [one for one in tracer.events if not is_fake(one.owner._data)]  # of tensors from outside
    surroundings = Surroundings(function, [*(modules := list(tracer.modules.values())), *tracer.optimizers()])
    tensors = {id(one.value): one.name for one in surroundings.seen if is_tensor(one.value)}
    name_values(listing, modules, tensors, tracer.state_names())
    needing = [
        isinstance(one, TensorBase) and tracer.watch.has_backward(one) for one in leaves(found) if is_tensor(one)
    ]
    kept = tracer.found_gradients, tracer.guards, modules, tracer.states()
    return Trace(listing.check(), _held(tracer), *kept, needing, surroundings)


def _name(function: Callable[..., Any]) -> str:
    return one_line(str(getattr(function, "__name__", type(function).__name__)))  # files and titles will hold it


def _released(
    tracer: Tracer, around: ModesAround
) -> tuple[list[str], list[tuple[TensorBase, Value | None]], list[str]]:
    """Let go of all that a trace has changed. Torch's modes are first: no step of this may run under those of a trace.

    Args:
        tracer: that of the trace.
        around: torch's modes before the trace.

    Returns:
        The settings of optimizers that the function has changed, the tensors whose ``.grad`` it has replaced, and the
        attributes of modules that it has.
    """
    around.restore()
    return tracer.release_settings(), tracer.release(), tracer.restore_modules()


def _held(tracer: Tracer) -> list[tuple[Any, torch.Tensor, bool]]:
    """The tensors of nbgrad that a trace has found, with their data and whether they needed a gradient."""
    return [
        (one.owner, one.data, one.owner._needs_grad)
        for one in tracer.captured
        if one.owner is not None and one.data is not None
    ]


def _called(function: Callable[..., Any], args: tuple[Any, ...], on_error: Callable[[Exception], object] | None) -> Any:
    try:
        return function(*args)
    except TraceError:
        raise
    except Exception as error:
        if on_error is not None:
            on_error(error)
        raise


class Located(Exception):
    """A second trace has found the line of what the first one has refused; or None, if there is none."""


def _place_of(function: Callable[..., Any], examples: tuple[Any, ...], wrong: Wrong) -> Place | None:
    """The first line of the user's that does what is wrong."""
    try:
        traced(function, examples, locating=wrong)
    except Located as found:
        place: Place | None = found.args[0]
        return place
    except Exception:  # it runs in another way the second time
        return None
    return None


def is_tensor(given: Any) -> bool:
    """Whether it is a tensor, ours or torch's."""
    return isinstance(given, TensorBase | torch.Tensor)


def _argument(tracer: Tracer, given: Any, names: Any) -> Any:
    """The value with which the function is traced in place of one of its arguments."""
    if isinstance(given, Spec):
        data = torch.empty(tuple(given.shape), dtype=given.dtype, device=given.device)
        return Tensor(tracer.input(data, next(names)), given.requires_grad)
    if isinstance(given, TensorBase):
        return Tensor(tracer.input(given._data, next(names)), given._needs_grad)
    if isinstance(given, torch.Tensor):
        return tracer.input(given, next(names))
    return given


def spec_of(given: Any) -> Any:
    """The part of an argument that is kept: no numbers of a tensor."""
    if isinstance(given, TensorBase):
        return Spec(tuple(given._data.shape), given._data.dtype, given._data.device, given._needs_grad)
    if isinstance(given, torch.Tensor):
        return Spec(tuple(given.shape), given.dtype, given.device)
    return given


def _value(tracer: Tracer, given: Any) -> Any:
    if isinstance(given, TensorBase):
        tracer.adopt(given)
        return tracer.value(given._data)
    return tracer.value(given) if isinstance(given, torch.Tensor) else given


def _argument_names(function: Callable[..., Any], examples: tuple[Any, ...]) -> list[str]:
    """A name for each tensor among the arguments: that of its parameter."""
    try:
        parameters = list(signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names: list[str] = []
    for position, example in enumerate(examples):
        several = position < len(parameters) and parameters[position].kind is Parameter.VAR_POSITIONAL
        if position < len(parameters) and not several:
            name = parameters[position].name
        else:
            name = f"{parameters[-1].name if parameters else 'input'}_{position}"
        tensors = [one for one in leaves(example) if isinstance(one, Spec | TensorBase | torch.Tensor)]
        alone = len(tensors) == 1 and tensors[0] is example
        names += [name] if alone else [f"{name}_{number}" for number in range(len(tensors))]
    return names
