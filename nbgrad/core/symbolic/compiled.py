"""``compile``: a function that is traced at its first call, and runs as a program from then on."""

import warnings
from collections.abc import Callable
from decimal import Decimal
from functools import update_wrapper
from inspect import signature
from time import perf_counter
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
import torch.optim.optimizer as every_optimizer

from nbgrad.core.backend.autocast import Settings, any_enabled
from nbgrad.core.backend.below_autograd import below_autograd
from nbgrad.core.dispatch.function import Function
from nbgrad.core.engine.module_changes import global_hooks, module_changes
from nbgrad.core.engine.node import TensorBase, raw_of
from nbgrad.core.engine.state import current, recording
from nbgrad.core.structure import first_places, leaves, mapped
from nbgrad.core.symbolic.backends import BACKENDS, Backend
from nbgrad.core.symbolic.errors import ColdOptimizer, Unsettled
from nbgrad.core.symbolic.fake import storage_of
from nbgrad.core.symbolic.ir import Listing, Value
from nbgrad.core.symbolic.joint import partitioned, with_seeds
from nbgrad.core.symbolic.kernel_settings import changed_setting, devices, interferes, kernel_settings
from nbgrad.core.symbolic.nest import interpreter
from nbgrad.core.symbolic.passes.optimize import LEVELS, Level
from nbgrad.core.symbolic.program import Program
from nbgrad.core.symbolic.surroundings import change_of, differs
from nbgrad.core.symbolic.tracing import Spec, Trace, is_tensor, spec_of, traced
from nbgrad.core.symbolic.turns import running, tracing
from nbgrad.core.tensor.tensor import Tensor


def compile(  # torch's name
    function: Callable[..., Any] | None = None,
    *,
    backend: str = "auto",
    level: Level = "exact",
) -> Any:
    """Run ``function`` as a program: traced at its first call, and again if the program is no longer valid.

    The function is a loss, whose result has a ``backward()`` as before, or a whole training step with its optimizer. It
    is traced once for each kind of arguments. It is also traced again if anything has changed that it uses from outside
    it: a variable, an attribute, an entry of a list, a mode or a setting of a module, a parameter that was replaced or
    frozen, a hook, a setting of an optimizer. A learning rate and the numbers in parameters are read anew in each call.
    A method has programs of its own for each object.

    Args:
        function: as for ``trace``. Without it this is a decorator: ``@nbgrad.compile(backend="replay")``.
        backend: what runs the program, a name in ``nbgrad.symbolic.BACKENDS``. "auto" is "replay", which calls torch's
            own kernels; at the level "reassociate" it is "fused" where the core is compiled.
        level: that of ``Program.optimize``: "exact" changes no digit, "reassociate" may change the last ones.

    Returns:
        A function with the same arguments. Its ``reasons`` say why each trace was made.

    Raises:
        TypeError: ``function`` cannot be called.
        ValueError: there is no such backend or level.
    """
    if function is None:
        return lambda one: Compiled(one, backend, level)
    if not callable(function):
        raise TypeError(f"compile() takes a function, a module or a training step, got {type(function).__name__}")
    return Compiled(function, backend, level)


class Compiled:
    """A compiled function.

    Attributes:
        function: the function that was compiled.
        reasons: a line for each trace: why it was made, and how long it took.
    """

    def __init__(self, function: Callable[..., Any], backend: str, level: Level) -> None:
        if level not in LEVELS:
            raise ValueError(f"compile(level={level!r}): the levels are {', '.join(LEVELS)}")
        if backend not in BACKENDS:
            raise ValueError(f"compile(backend={backend!r}): the backends are {', '.join(BACKENDS)}")
        self.function = function
        self.reasons: list[str] = []
        self._settings = backend, level
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        fuses = backend == "auto" and level == "reassociate" and interpreter.available()
        self._backend = BACKENDS["fused" if fuses else backend]
        self._level: Level = level
        self._variants: dict[Any, list[Variant]] = {}
        self._newest: Variant | None = None
        self._writes_inputs = False
        self._alike: dict[str, list[Any]] = {}
        self._unsettled: set[Any] = set()  # kinds of calls that have set what was unset, the last time
        self._told_numbers = False
        self._told = False  # whether the user knows that it is traced too often
        self._takes_names = _takes_names(function)
        update_wrapper(self, function, updated=())

    def __get__(self, instance: Any, owner: Any = None) -> "Compiled":
        """A method is compiled for each object on its own; the object counts as outside of the function."""
        if instance is None or not isinstance(self.function, FunctionType):
            return self
        own = Compiled(MethodType(self.function, instance), *self._settings)
        vars(instance)[self.function.__name__] = own  # found there from now on
        return own

    def __reduce__(self) -> Any:
        """A copy has no programs yet: they belong to the tensors of the original."""
        return Compiled, (self.function, *self._settings)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs:
            args = self._in_order(args, kwargs)
        if current().tracer is not None:
            return self.function(*args)
        if (hindrance := interferes()) is not None:
            reason = f"ran without a program, because {hindrance}"
            if self.reasons[-1:] != [reason]:
                self.reasons.append(reason)
            return self.function(*args)
        with running:
            variant = self._found(args)[0]
            if variant is not None:
                if self._unsettled:
                    self._unsettled.clear()
                return variant.run(args)
        return self._traced(args)

    def _found(self, args: tuple[Any, ...]) -> "tuple[Variant | None, str | None, Any]":
        """The program for these arguments, or None and why an earlier one does not hold; and the kind of the call."""
        key = _key(args)
        if self._writes_inputs:  # then it matters which of them share their memory
            key = (*key, _sharing(args))
        try:
            known = self._variants.get(key)
        except TypeError:
            _check_kinds(key, args)
            raise
        whys = []
        for place, variant in enumerate(known or ()):
            why = variant.why_not()
            if why is None:
                if place and known:  # the last one that ran comes first
                    known.insert(0, known.pop(place))
                return variant, None, key
            whys.append(why)
        return None, whys[0] if whys else None, key

    def _in_order(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        if self._takes_names is None:
            raise TypeError(
                f"{self.__name__} is compiled and takes its arguments by position: pass {', '.join(kwargs)} without a "
                "name"
            )
        given = self._takes_names.bind(*args, **kwargs)
        given.apply_defaults()
        if given.kwargs:
            raise TypeError(f"{self.__name__} is compiled: arguments that can only be given by name are not supported")
        ordered: tuple[Any, ...] = given.args
        return ordered

    def _traced(self, args: tuple[Any, ...]) -> Any:
        """Trace the function for these arguments, and run the program."""
        with tracing():
            variant, why, key = self._found(args)  # another thread may have traced it meanwhile
            made = self._new(key, args, why) if variant is None else variant
            if isinstance(made, Variant):
                return made.run(args)
        return self._without_program(args, made)

    def _new(self, key: Any, args: tuple[Any, ...], why: str | None) -> "Variant | Exception | None":
        """A new program for these arguments; None before an optimizer has state; or the error of the function."""
        reason = why or ("first call" if not self._variants else f"arguments of another kind: {_told(args)}")
        begin, raised = perf_counter(), list[Exception]()
        try:
            variant = _variant(self.function, args, self._backend, self._level, raised.append)
        except ColdOptimizer as cold:
            self.reasons.append(f"{reason}: ran without a program, because {str(cold).partition(',')[0]}")
            return None
        except Unsettled as unsettled:
            if key in self._unsettled:
                raise
            self._unsettled.add(key)
            self.reasons.append(f"{reason}: ran without a program, because {unsettled.reason.partition(',')[0]}")
            return None
        except Exception as error:
            if not any(error is one for one in raised):
                raise
            self.reasons.append(f"{reason}: ran without a program, because the trace raised {_told_error(error)}")
            return error
        if variant.program.writes_inputs and not self._writes_inputs:
            self._writes_inputs = True
            key = (*key, _sharing(args))
        self._unsettled.clear()
        known = self._variants.setdefault(key, [])
        self._limit(key, args)
        if len(known) == _KEPT and not self._told:
            self._told = True
            warnings.warn(
                f"the compiled {self.__name__} was traced {_KEPT + 1} times for arguments of one kind, the last time "
                f"because {reason}. A trace takes longer than a run: give the function what changes as an argument",
                stacklevel=5,
            )
        known.insert(0, variant)
        del known[_KEPT:]
        self._newest = variant
        self.reasons.append(f"{reason}: traced in {(perf_counter() - begin) * 1e3:.0f} ms, {len(variant)} steps")
        return variant

    def _limit(self, key: Any, args: tuple[Any, ...]) -> None:
        """Forget the oldest programs if there are too many, and tell the user once of a number that changes."""
        kind = repr(mapped(lambda one: _part(one) if is_tensor(one) else type(one), args))
        alike = self._alike.setdefault(kind, [])
        if key in alike:
            return
        alike.append(key)
        if len(alike) > _KINDS:
            self._variants.pop(alike.pop(0), None)
        if len(alike) > _KEPT and not self._told_numbers:
            self._told_numbers = True
            warnings.warn(
                f"the compiled {self.__name__} was traced {len(alike)} times for arguments that differ in "
                f"numbers or text alone, the last time for {_told(args)}. Each value has a program of its own, and a "
                f"trace takes longer than a run. Give it a tensor in place of a number that changes, as "
                "nbgrad.tensor(0.5) for 0.5: one program then serves all values",
                stacklevel=6,
            )

    def _without_program(self, args: tuple[Any, ...], error: Exception | None) -> Any:
        """Call the function. If it raised ``error`` in its trace, what it does before that has to happen."""
        found = self.function(*args)
        if error is not None:
            warnings.warn(
                f"the compiled {self.__name__} ran without a program, because it raises an error in a trace alone: "
                f"{_told_error(error)}",
                stacklevel=4,
            )
        return found

    @property
    def program(self) -> Program:
        """The program of the last trace.

        Raises:
            RuntimeError: the function was not traced yet.
        """
        if self._newest is None:
            raise RuntimeError(f"{self.__name__} has no program yet: call it once")
        return self._newest.program


_KEPT = 8
"""How many programs are kept for one kind of arguments."""

_KINDS = 64
"""For how many values of the numbers among the arguments programs are kept."""


class Variant:
    """One program, and what has to stay as it was for the program to hold."""

    def __init__(self, program: Program, trace: Trace) -> None:
        self.program = program
        self._trace = trace
        self._changes = module_changes.count
        self._hooks = module_changes.hooks, global_hooks()
        trace.surroundings.keep_numbers()
        self._modules = trace.surroundings.modules()
        self._settings = self._read_settings()
        self._kernels, self._switches = kernel_settings(), _switches()
        self._hooked = {id(owner): found for owner, _, _ in trace.tensors if (found := _hooks_of(owner))}

    def __len__(self) -> int:
        return len(self.program)

    def why_not(self) -> str | None:
        """Why the program does not hold for a call now; None if it does."""
        trace = self._trace
        hooked = self._hooked
        for owner, data, needs_grad in trace.tensors:
            if owner._data is not data or owner._needs_grad is not needs_grad:
                return self._replaced(owner, data)
            origin = owner._origin
            seen = origin is not None and (hooked or origin.hooks is not None)
            if seen and _hooks_of(owner) != hooked.get(id(owner), ()):
                return "a hook was added to a tensor, or taken from one"
        for owner, grad in trace.gradients:
            held = owner._grad
            if grad is not (None if held is None else held._data):
                return f"a parameter of shape {list(owner.shape)} has another .grad"
        if self._kernels != (kernels := kernel_settings()):
            return f"{changed_setting(self._kernels, kernels)} is another one"
        if self._switches != _switches():
            return "torch's default device is another one, or a hook of all optimizers"
        return trace.surroundings.change() or self._optimizer_change() or self._module_change()

    def _optimizer_change(self) -> str | None:
        trace = self._trace
        for optimizer, param, key, data in trace.states:
            if optimizer.state[param].get(key) is not data:
                return f"the optimizer has another {key}"
        for text, repeat, outcome in trace.guards:
            if repeat() != outcome:
                return f"{text} is {repeat()!r} now"
        return None

    def _module_change(self) -> str | None:
        if self._hooks != (module_changes.hooks, global_hooks()):
            return "a hook was added to a module, or taken from one"
        if self._changes != module_changes.count:
            change = self._changed(self._read_settings())
            if change is not None:
                return change
            self._changes = module_changes.count
        return None

    def _replaced(self, owner: Any, data: torch.Tensor) -> str:
        name = next((one.name for one in self.program.captured if one.owner is owner), "a parameter")
        return f"{name} has " + ("other data" if owner._data is not data else f"requires_grad={owner._needs_grad}")

    def _read_settings(self) -> list[dict[str, Any]]:
        return [{**vars(module), "__class__": type(module)} for module in self._modules]

    def _changed(self, settings: list[dict[str, Any]]) -> str | None:
        for module, before, now in zip(self._modules, self._settings, settings, strict=True):
            for key in {*before, *now}:
                if differs(now.get(key), before.get(key)):
                    return change_of(f"{type(module).__name__}.{key}", now.get(key), before.get(key))
        return None

    def run(self, args: tuple[Any, ...]) -> Any:
        """Run the program on the arguments of a call."""
        raise NotImplementedError


def _hooks_of(tensor: Any) -> tuple[Any, ...]:
    """The hooks of a tensor; empty if there are none."""
    hooks = getattr(tensor._origin, "hooks", None)
    if hooks is None:
        return ()
    held = *hooks.gradient.items(), *hooks.before.items(), *hooks.after.items(), *hooks.accumulated.items()
    return held if hooks.reducer is None else (*held, hooks.reducer)


def _switches() -> tuple[Any, ...]:
    """The settings of the process that decide how a function is traced."""
    return (
        getattr(_DEFAULT, "device_context", None),
        tuple(_PRE_HOOKS) if _PRE_HOOKS else (),
        tuple(_POST_HOOKS) if _POST_HOOKS else (),
    )


_DEFAULT = torch._GLOBAL_DEVICE_CONTEXT
_PRE_HOOKS, _POST_HOOKS = every_optimizer._global_optimizer_pre_hooks, every_optimizer._global_optimizer_post_hooks
"""The hooks of all optimizers: torch's own tables."""


class _CompiledStep(Variant):
    """A program whose results need no gradient."""

    def __init__(self, program: Program, trace: Trace, backend: Backend) -> None:
        super().__init__(program, trace)
        self._run = backend(program)
        self._captured = program.captured_data()  # ``why_not`` has seen that they are still the same objects
        self._alone = isinstance(program.outputs, Value) and not program.events

    def run(self, args: tuple[Any, ...]) -> Any:
        if self._alone:
            return Tensor(below_autograd(self._run, _tensors(args), self._captured)[0])
        return self.program.result_of(self._run, _tensors(args), self._captured)


class _CompiledLoss(Variant):
    """A program whose results have a backward."""

    def __init__(self, program: Program, trace: Trace, joint: Listing, owners: list[Any], backend: Backend) -> None:
        super().__init__(program, trace)
        seeds = sum(trace.differentiable)
        parts = partitioned(joint, seeds)
        self._forward, self._backward = _shaped(parts.forward, program), _shaped(parts.backward, program)
        self._runs = backend(self._forward), backend(self._backward)
        self._saved, self._owners = len(parts.saved), owners
        self._results = sum(isinstance(one, Value) for one in leaves(program.outputs))
        self._captured = self._forward.captured_data()

    def run(self, args: tuple[Any, ...]) -> Any:
        tensors = [one for one in leaves(args) if isinstance(one, TensorBase | torch.Tensor)]
        results = CompiledFunction.apply(self, len(tensors), *tensors, *self._owners)
        made = iter(results)
        return mapped(lambda one: next(made) if isinstance(one, Value) else one, self.program.outputs)

    def forward(self, data: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """The results, and the values that the backward needs."""
        made: list[torch.Tensor] = []

        def run(*given: Any) -> list[torch.Tensor]:
            made[:] = self._runs[0](*given)
            return made

        self._forward.result_of(run, data, self._captured)
        return made[: self._results], made[self._results : self._results + self._saved]

    def backward(self, seeds: list[torch.Tensor], saved: list[torch.Tensor]) -> Any:
        """The gradient of each tensor argument and of each parameter; None where there is none."""
        with running:
            made = iter(below_autograd(self._runs[1], [*seeds, *saved], []))
        return [next(made) if isinstance(one, Value) else None for one in self._backward.outputs]


class CompiledFunction(Function):
    """One call of a compiled loss, recorded as one op."""

    @staticmethod
    def forward(ctx: Any, variant: Any, count: int, *tensors: Any) -> Any:
        results, saved = variant.forward([raw_of(one) for one in tensors[:count]])
        ctx.variant, ctx.count = variant, count
        ctx.save_for_backward(*map(Tensor, saved))
        made = tuple(map(Tensor, results))
        constant = [one for one, needed in zip(made, variant._trace.differentiable, strict=True) if not needed]
        ctx.mark_non_differentiable(*constant)
        return made

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        variant = ctx.variant
        if recording(current()):
            raise NotImplementedError(
                f"the gradient of the compiled {variant.program.name} cannot be differentiated again: "
                "take program.grad(order=2), or call the function without compile()"
            )
        seeds = [raw_of(g) for g, needed in zip(grad_outputs, variant._trace.differentiable, strict=True) if needed]
        found = variant.backward(seeds, [raw_of(one) for one in ctx.saved_tensors])
        return (None, None, *(None if one is None else Tensor(one) for one in found))


def _variant(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    backend: Backend,
    level: Level,
    on_error: Callable[[Exception], object],
) -> Variant:
    """Trace a function for these arguments. ``on_error`` is called with an error that the function raises."""
    trace = traced(function, args, on_error)
    program = Program(**vars(trace.listing), function=function, examples=mapped(spec_of, args))
    if not any(trace.differentiable):
        return _CompiledStep(program.optimize(level, ordered=True), trace, backend)
    flat = [one for one in leaves(args) if isinstance(one, TensorBase | torch.Tensor)]
    places = [place for place, one in enumerate(flat) if isinstance(one, TensorBase)]
    owners = [owner for owner, _, needs_grad in trace.tensors if needs_grad]
    ours = {place: number for number, place in enumerate(places)}
    wanted = [place for place, one in enumerate(flat) if isinstance(one, TensorBase) and one._needs_grad]
    values = [one for one in leaves(trace.listing.outputs) if isinstance(one, Value)]
    seeds = [
        Spec(one.shape, one.dtype, one.device)
        for one, needed in zip(values, trace.differentiable, strict=True)
        if needed
    ]
    joint_function = with_seeds(function, [*(ours[place] for place in wanted), *owners], trace.differentiable)
    joint = traced(joint_function, (seeds, *args)).listing
    found, gradients = joint.outputs
    by_place = dict(zip(wanted, gradients, strict=False))
    in_order = [by_place.get(place) for place in range(len(flat))] + list(gradients[len(wanted) :])
    joint.outputs = (found, in_order)
    return _CompiledLoss(program, trace, _shaped(joint, program).optimize(level, ordered=True), owners, backend)


def _shaped(listing: Listing, program: Program) -> Program:
    """A listing as a program."""
    return Program(**{name: getattr(listing, name) for name in Listing.__dataclass_fields__}, function=program.function)


def _tensors(args: tuple[Any, ...]) -> list[torch.Tensor]:
    if all([isinstance(one, TensorBase) for one in args]):  # noqa: C419  # faster than a generator
        return [one._data for one in args]
    return [raw_of(one) for one in leaves(args) if isinstance(one, TensorBase | torch.Tensor)]


def _sharing(args: tuple[Any, ...]) -> Any:
    """Which of the tensor arguments share their memory."""
    return first_places([storage_of(one) for one in _tensors(args)])


def _key(args: tuple[Any, ...]) -> Any:
    """The kind of a call: the shapes and types of its tensors, its other arguments, and the modes around it."""
    state = current()
    casts = Settings().key() if any_enabled() else None
    return (
        *[_part(one) for one in args],
        recording(state),
        state.inference,
        state.device,
        casts,
        torch.get_default_dtype(),
        *devices(),
    )


def _part(given: Any) -> Any:
    if isinstance(given, TensorBase):
        data = given._data
        return (data.shape, data.stride(), data.dtype, data.device, given._needs_grad)
    if isinstance(given, torch.Tensor):
        return (given.shape, given.stride(), given.dtype, given.device)
    if isinstance(given, list | tuple):
        return (type(given), *map(_part, given))
    if isinstance(given, dict):
        return (dict, *((key, _part(one)) for key, one in given.items()))
    if isinstance(given, float | complex | np.inexact | Decimal):  # 0.0 is equal to -0.0, and NaN to nothing
        return (type(given), repr(given))
    return (type(given), given)


def _check_kinds(key: Any, args: tuple[Any, ...]) -> None:
    """Raise an error if an argument is of a kind that no program is kept for."""
    try:
        hash(key)
    except TypeError:
        kinds = ", ".join(sorted({type(one).__name__ for one in leaves(args)}))
        raise TypeError(
            f"a compiled function takes tensors, numbers and text, in lists, tuples and dicts, but got {kinds}: make "
            "an array a tensor with nbgrad.tensor(...), or let the function find an object outside of itself"
        ) from None


def _told(args: tuple[Any, ...]) -> str:
    return ", ".join(map(_shape, leaves(args)))


def _told_error(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _shape(given: Any) -> str:
    return str(list(raw_of(given).shape)) if isinstance(given, TensorBase | torch.Tensor) else repr(given)


def _takes_names(function: Callable[..., Any]) -> Any:
    try:
        return signature(function)
    except (TypeError, ValueError):
        return None
