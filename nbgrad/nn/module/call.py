"""The call of a module: the hooks around its forward and its backward, and the path that an error names."""

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar
from weakref import ref

from torch.nn.modules import module as every_module
from torch.utils.hooks import RemovableHandle

from nbgrad.core.backend.below_autograd import is_own
from nbgrad.core.dispatch.function import Function
from nbgrad.core.engine.module_changes import (
    GLOBAL_BACKWARD_HOOKS,
    GLOBAL_BACKWARD_PRE_HOOKS,
    GLOBAL_FORWARD_HOOKS,
    GLOBAL_FORWARD_PRE_HOOKS,
    module_changes,
)
from nbgrad.core.engine.scope import path_below
from nbgrad.core.engine.state import current, recording
from nbgrad.core.tensor.call_errors import no_tensor
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.module.registry import join

_ALWAYS_CALLED = every_module._global_forward_hooks_always_called


class Hook(NamedTuple):
    """A function of the user's that a call runs."""

    run: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


class CalledModule(Protocol):
    """The parts of a module that this file uses."""

    _runs_functions: ClassVar[bool]

    @property
    def forward(self) -> Callable[..., Any]: ...

    def extra_repr(self) -> str: ...

    def _misfit(self, _input: Tensor, /) -> str | None: ...


class ComparedCall(Protocol):
    """The check that ``from_torch`` runs in the first call of a module."""

    def run(self, module: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any: ...


class HookTable(OrderedDict[int, Hook]):
    """Hooks by their numbers. A change of this table counts as a change of the module."""

    def __setitem__(self, number: int, hook: Hook) -> None:
        module_changes.hooks += 1
        super().__setitem__(number, hook)

    def __delitem__(self, number: int) -> None:
        module_changes.hooks += 1
        super().__delitem__(number)


class ModuleHooks:
    """The hooks of one module, in the order in which they run; made when the first is registered.

    Attributes:
        first_call: the check that the first call of a converted module also runs; None for any other call.
    """

    def __init__(self) -> None:
        self.first_call: ComparedCall | None = None
        self.before: HookTable = HookTable()
        self.after: HookTable = HookTable()
        self.backward_before: HookTable = HookTable()
        self.backward_after: HookTable = HookTable()


def add_hook(table: HookTable, hook: Hook, prepend: bool) -> RemovableHandle:
    """Put ``hook`` into ``table``, first or last; the handle takes it out."""
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def forward_hooks(own: ModuleHooks | None) -> dict[int, Hook]:
    """The hooks after the forward by their numbers: first those of all modules, then the ``own``."""
    every = {
        number: Hook(hook, number in every_module._global_forward_hooks_with_kwargs, number in _ALWAYS_CALLED)
        for number, hook in GLOBAL_FORWARD_HOOKS.items()
    }
    return every | ({} if own is None else own.after)


def run_forward_pre_hooks(
    module: CalledModule, own: ModuleHooks, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a forward after the hooks before it: first those of all modules, then the ``own``."""
    for hook in [*map(Hook, GLOBAL_FORWARD_PRE_HOOKS.values()), *own.before.values()]:
        if not hook.with_kwargs:
            returned = hook.run(module, args)
            if returned is not None:
                args = returned if isinstance(returned, tuple) else (returned,)
            continue
        returned = hook.run(module, args, kwargs)
        if returned is not None:
            if not isinstance(returned, tuple) or len(returned) != 2:
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {returned}."
                )
            args, kwargs = returned
    return args, kwargs


def run_forward_hook(
    module: CalledModule, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Any:
    """The result of a hook after the forward."""
    return hook.run(module, args, kwargs, output) if hook.with_kwargs else hook.run(module, args, output)


def run_after_error(
    module: CalledModule, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Any:
    """Run a hook that is always called. An error in it becomes a warning, because the call has raised one already."""
    try:
        returned = run_forward_hook(module, hook, args, kwargs, output)
    except Exception as error:  # of any kind: the user should see the first one
        warnings.warn(
            "module forward hook with ``always_call=True`` raised an exception that was silenced as another error was "
            f"raised in forward: {error}",
            stacklevel=2,
        )
        return output
    return output if returned is None else returned


# Backward hooks.


class ModuleBoundary(Function):
    """Passes tensors on unchanged, so that one node gets all gradients of a module's inputs, or of its outputs."""

    @staticmethod
    def forward(_ctx: Any, *tensors: Tensor) -> Any:
        return tensors

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return gradients


class BackwardHooks:
    """The backward hooks of one call of a module."""

    def __init__(self, module: CalledModule, hooks: ModuleHooks) -> None:
        self.module = module
        self.before = [*map(Hook, GLOBAL_BACKWARD_PRE_HOOKS.values()), *hooks.backward_before.values()]
        self.after = [*map(Hook, GLOBAL_BACKWARD_HOOKS.values()), *hooks.backward_after.values()]
        if GLOBAL_BACKWARD_HOOKS and not every_module._global_is_full_backward_hook:
            raise RuntimeError(
                "a hook of register_module_backward_hook() sees the gradients of whatever op a module runs last, which "
                "are others here than in torch: use register_module_full_backward_hook()"
            )
        self.count = 0
        self.places: list[int] | None = None  # of the inputs that get gradients; None: no input does
        self.grad_output: tuple[Any, ...] = ()

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments of the forward; the gradients of the tensors among them run the hooks."""
        self.count = len(args)
        places, passed, node = _bounded(args) if self.after else ([], args, None)
        if node is not None:
            self.places = places
            node.register_hook(lambda grad_input, _: self._end(grad_input))
        return passed

    def output(self, output: Any) -> Any:
        """The result of the forward; the gradients of the tensors in it run the hooks."""
        if not self.before and not self.after:
            return output
        if not isinstance(output, Tensor | tuple):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(output)}",
                stacklevel=2,
            )
        single = not isinstance(output, tuple)
        outputs = (output,) if single else output
        places, passed, node = _bounded(outputs)
        if node is not None:
            node.register_prehook(lambda grad_output: self._begin(grad_output, places, len(outputs)))
        return passed[0] if single else passed

    def _begin(self, gradients: tuple[Any, ...], places: list[int], count: int) -> tuple[Any, ...]:
        grad_output = _spread(gradients, places, count)
        for hook in self.before:
            returned = hook.run(self.module, grad_output)
            grad_output = grad_output if returned is None else _as_many(returned, grad_output, "grad_output")
        self.grad_output = grad_output
        if self.places is None:
            for hook in self.after:
                if hook.run(self.module, (None,) * self.count, grad_output) is not None:
                    raise RuntimeError(
                        "a full backward hook returned gradients for a module none of whose inputs needs one"
                    )
        return tuple(grad_output[place] for place in places)

    def _end(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        assert self.places is not None
        grad_input = _spread(gradients, self.places, self.count)
        for hook in self.after:
            returned = hook.run(self.module, grad_input, self.grad_output)
            grad_input = grad_input if returned is None else _as_many(returned, grad_input, "grad_input")
        self.grad_output = ()
        return tuple(grad_input[place] for place in self.places)


def _bounded(values: tuple[Any, ...]) -> tuple[list[int], tuple[Any, ...], Any]:
    """The places of tensors that need a gradient, ``values`` with these passed through a boundary, and its node."""
    places = [place for place, value in enumerate(values) if isinstance(value, Tensor) and value.requires_grad]
    if not places or not recording(current()):
        return [], values, None
    passed = ModuleBoundary.apply(*[values[place] for place in places])
    mixed = list(values)
    for place, tensor in zip(places, passed, strict=True):
        mixed[place] = tensor
    return places, tuple(mixed), passed[0].grad_fn


def _spread(gradients: tuple[Any, ...], places: list[int], count: int) -> tuple[Any, ...]:
    """A tuple of ``count``, with ``gradients`` at ``places`` and None elsewhere."""
    spread: list[Any] = [None] * count
    for place, gradient in zip(places, gradients, strict=True):
        spread[place] = gradient
    return tuple(spread)


def _as_many(returned: Any, given: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    found = returned if isinstance(returned, tuple) else (returned,)
    if len(found) != len(given):
        raise RuntimeError(f"a backward hook returned {len(found)} gradients for {what}, which has {len(given)}")
    return found


# Errors.


class _Origin:
    """The origin of an error: the module that it left last, and the path from there to the module that raised it."""

    def __init__(self, module: CalledModule, args: tuple[Any, ...], error: Exception) -> None:
        self.kind = type(module).__name__
        self.path = ""
        self.module: ref[CalledModule] | None = ref(module)
        self.what = str(error) if "_nbgrad_misfit" in vars(error) else _wrong(module, args, error)
        if self.what:
            settings = module.extra_repr()
            error.args = (f"{self.kind}({settings}): {self.what}" if settings else f"{self.kind}: {self.what}",)

    def left(self, module: CalledModule, error: Exception) -> None:
        """The error leaves ``module``, which called the last one."""
        inner = None if self.module is None else self.module()
        below = None if inner is None else path_below(module, inner)
        self.module = None if below is None else ref(module)  # the module is not below this one: its path is not known
        if not below:
            return
        old, self.path = self._note(), join(below, self.path) if self.path else below
        if self.what:
            error.args = (f"{self.path} ({self.kind}): {self.what}",)
            return
        notes = error.__dict__.setdefault("__notes__", [])
        if old in notes:
            notes.remove(old)
        notes.append(self._note())

    def _note(self) -> str:
        return f"in {self.path} ({self.kind})"


def _wrong(module: CalledModule, args: tuple[Any, ...], error: Exception) -> str | None:
    """The message about the input of a block that raised ``error``, if the input is the cause."""
    if args and isinstance(args[0], Tensor):
        return module._misfit(args[0]) if isinstance(error, _SHAPE_ERRORS) else None
    plain = isinstance(error, AttributeError) and is_own(type(module).forward) and not module._runs_functions
    return no_tensor("the input", args[0]) if args and plain else None


E = TypeVar("E", bound=Exception)


def misfit(error: E) -> E:
    """Mark ``error`` as a block's own error about a shape: its message then stands after the path of the block."""
    error.__dict__["_nbgrad_misfit"] = True
    return error


_SHAPE_ERRORS = (RuntimeError, ValueError, IndexError, TypeError)


def add_path(error: Exception, module: CalledModule, args: tuple[Any, ...]) -> None:
    """Name the module that raised ``error`` by its path, as far as it is known when the error leaves ``module``."""
    origin = error.__dict__.get("_nbgrad_origin")
    if origin is None:
        error.__dict__["_nbgrad_origin"] = _Origin(module, args, error)
    else:
        origin.left(module, error)
