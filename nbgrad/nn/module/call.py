"""What happens when a module is called: its hooks, its box in the picture, and where an error says it came from."""

import warnings
from collections import OrderedDict
from collections.abc import Callable, MutableMapping
from typing import Any, ClassVar, NamedTuple, TypeVar
from weakref import ref

from torch.nn.modules import module as every_module
from torch.utils.hooks import RemovableHandle

from nbgrad.core.backend.below_autograd import is_own
from nbgrad.core.backend.torch_guards import check_asker
from nbgrad.core.dispatch.function import Function
from nbgrad.core.engine.scope import called, path_below
from nbgrad.core.engine.state import current, recording
from nbgrad.core.tensor.call_errors import no_tensor
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.module.registry import Tree, join
from nbgrad.nn.module.torch_dicts import HookFunctions

_BEFORE = every_module._global_forward_pre_hooks
_AFTER = every_module._global_forward_hooks
_ALWAYS_CALLED = every_module._global_forward_hooks_always_called
_BACKWARD_BEFORE = every_module._global_backward_pre_hooks
_BACKWARD_AFTER = every_module._global_backward_hooks
"""The hooks of all modules: torch's own tables, which it changes and never replaces."""


class Hook(NamedTuple):
    """A function of the user's that a call runs."""

    run: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


class ModuleHooks:
    """The hooks of one module, in the order in which they run; made when the first is registered."""

    def __init__(self) -> None:
        self.before: OrderedDict[int, Hook] = OrderedDict()
        self.after: OrderedDict[int, Hook] = OrderedDict()
        self.backward_before: OrderedDict[int, Hook] = OrderedDict()
        self.backward_after: OrderedDict[int, Hook] = OrderedDict()


class Calling(Tree):
    """The call of a module, with hooks around it."""

    _hooks: ModuleHooks | None = None

    _runs_functions: ClassVar[bool] = False
    """Whether the forward runs functions that it was given, besides modules: the lines of their ops are looked for."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = current()
        plain = self._hooks is None and not (_BEFORE or _AFTER or _BACKWARD_BEFORE or _BACKWARD_AFTER)
        run = self.forward if plain else self._with_hooks
        try:
            if not state.observers:
                return run(*args, **kwargs)
            return called(self, state, run, args, kwargs)
        except Exception as error:
            _say_where(error, self, args)
            raise

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass defines it."""
        raise NotImplementedError(f'{type(self).__name__} has no "forward": define it to say what the module computes')

    def extra_repr(self) -> str:
        """What ``repr`` shows between the parentheses: the settings of the block."""
        return ""

    def _misfit(self, _input: Tensor) -> str | None:
        """What is wrong with the shape of an input on which ``forward`` raised an error, if it is that."""
        return None

    # Hooks.

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward; what it returns takes the place of the arguments.

        Args:
            hook: the function; with ``with_kwargs`` it gets ``(module, args, kwargs)`` and returns both, or None.
            prepend: whether it runs before the hooks that are there, not after.
            with_kwargs: whether it sees the named arguments.
        """
        return _add(self._made_hooks().before, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each forward; what it returns takes the output's place.

        Args:
            hook: the function; with ``with_kwargs`` it gets ``(module, args, kwargs, output)``.
            prepend: whether it runs before the hooks that are there, not after.
            with_kwargs: whether it sees the named arguments.
            always_call: whether it runs, with None for the output, even if the forward raises an error.
        """
        return _add(self._made_hooks().after, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` in each backward when the gradients of the outputs are complete.

        ``grad_output`` is a tuple; what the hook returns goes on in its place.
        """
        return _add(self._made_hooks().backward_before, Hook(hook), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` in each backward when the inputs' gradients are complete.

        Both are tuples, with None for what has no gradient; ``grad_input`` is that of the positional arguments, and
        what the hook returns goes on in its place.
        """
        return _add(self._made_hooks().backward_after, Hook(hook), prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Torch's older hook, which sees the gradients of whatever op the module runs last.

        Raises:
            NotImplementedError: always; ``register_full_backward_hook`` sees those of the module's inputs.
        """
        raise NotImplementedError(
            "register_backward_hook() is deprecated in torch, and what it sees depends on the op that a module runs "
            "last: use register_full_backward_hook()"
        )

    @property
    def _backward_pre_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that see the gradients of the outputs, by their numbers."""
        return HookFunctions({} if self._hooks is None else self._hooks.backward_before)

    @property
    def _backward_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that see the gradients of the inputs, by their numbers."""
        return HookFunctions({} if self._hooks is None else self._hooks.backward_after)

    @property
    def _forward_pre_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run before the forward, by their numbers."""
        check_asker()
        return HookFunctions({} if self._hooks is None else self._hooks.before)

    @property
    def _forward_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run after the forward, by their numbers."""
        return HookFunctions({} if self._hooks is None else self._hooks.after)

    def _made_hooks(self) -> ModuleHooks:
        if self._hooks is None:
            self._hooks = ModuleHooks()
        return self._hooks

    def _with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        output, began = None, set[int]()
        try:
            own = self._hooks or ModuleHooks()
            watched = _Backward(self, own)
            args, kwargs = _before(self, [*map(Hook, _BEFORE.values()), *own.before.values()], args, kwargs)
            args = watched.inputs(args)
            output = self.forward(*args, **kwargs)
            for number, hook in _hooks_after(self).items():
                began.add(number)
                returned = _after(self, hook, args, kwargs, output)
                output = output if returned is None else returned
            return watched.output(output)
        except Exception:
            for number, hook in _hooks_after(self).items():
                if hook.always_call and number not in began:
                    output = _after_an_error(self, hook, args, kwargs, output)
            raise


def _add(table: OrderedDict[int, Hook], hook: Hook, prepend: bool) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


def _hooks_after(module: Calling) -> dict[int, Hook]:
    """The hooks after the forward by their numbers: first those of all modules."""
    every = {
        number: Hook(hook, number in every_module._global_forward_hooks_with_kwargs, number in _ALWAYS_CALLED)
        for number, hook in _AFTER.items()
    }
    return every | (module._hooks.after if module._hooks is not None else {})


def _before(
    module: Calling, hooks: list[Hook], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a forward after the hooks before it."""
    for hook in hooks:
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


def _after(module: Calling, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    return hook.run(module, args, kwargs, output) if hook.with_kwargs else hook.run(module, args, output)


def _after_an_error(module: Calling, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
    """Run a hook that is always called; an error in it is a warning, for there is one already."""
    try:
        returned = _after(module, hook, args, kwargs, output)
    except Exception as error:  # whatever it is, the first one is to be seen
        warnings.warn(
            "module forward hook with ``always_call=True`` raised an exception that was silenced as another error was "
            f"raised in forward: {error}",
            stacklevel=2,
        )
        return output
    return output if returned is None else returned


# Backward hooks.


class ModuleBoundary(Function):
    """Where the gradients of a module's inputs, or those of its outputs, are together: it changes nothing."""

    @staticmethod
    def forward(_ctx: Any, *tensors: Tensor) -> Any:
        return tensors

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return gradients


class _Backward:
    """The backward hooks of one call of a module."""

    def __init__(self, module: Calling, hooks: ModuleHooks) -> None:
        self.module = module
        self.before = [*map(Hook, _BACKWARD_BEFORE.values()), *hooks.backward_before.values()]
        self.after = [*map(Hook, _BACKWARD_AFTER.values()), *hooks.backward_after.values()]
        if _BACKWARD_AFTER and not every_module._global_is_full_backward_hook:
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
        """What the forward returned; the gradients of the tensors in it run the hooks."""
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
    """Where in ``values`` tensors need a gradient, ``values`` with these beyond a boundary, and the boundary's node."""
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
    """Where an error came from: the module that it left last, and the path in that of the one that raised it."""

    def __init__(self, module: Calling, args: tuple[Any, ...], error: Exception) -> None:
        self.kind = type(module).__name__
        self.path = ""
        self.module: ref[Calling] | None = ref(module)
        self.what = str(error) if "_nbgrad_misfit" in vars(error) else _wrong(module, args, error)
        if self.what:
            settings = module.extra_repr()
            error.args = (f"{self.kind}({settings}): {self.what}" if settings else f"{self.kind}: {self.what}",)

    def left(self, module: Calling, error: Exception) -> None:
        """The error leaves ``module``, which called the last one."""
        inner = None if self.module is None else self.module()
        below = None if inner is None else path_below(module, inner)
        self.module = None if below is None else ref(module)  # a module from elsewhere: its path cannot be told
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


def _wrong(module: Calling, args: tuple[Any, ...], error: Exception) -> str | None:
    """What is wrong with the input of a block that raised ``error``, if it is that."""
    if args and isinstance(args[0], Tensor):
        return module._misfit(args[0]) if isinstance(error, _SHAPE_ERRORS) else None
    plain = isinstance(error, AttributeError) and is_own(type(module).forward) and not module._runs_functions
    return no_tensor("the input", args[0]) if args and plain else None


E = TypeVar("E", bound=Exception)


def misfit(error: E) -> E:
    """An error of a block's own about a shape: what it says stands behind the path of the block."""
    error.__dict__["_nbgrad_misfit"] = True
    return error


_SHAPE_ERRORS = (RuntimeError, ValueError, IndexError, TypeError)


def _say_where(error: Exception, module: Calling, args: tuple[Any, ...]) -> None:
    """Name the module that raised ``error`` by its path, as far as it is known when the error leaves ``module``."""
    origin = error.__dict__.get("_nbgrad_origin")
    if origin is None:
        error.__dict__["_nbgrad_origin"] = _Origin(module, args, error)
    else:
        origin.left(module, error)
