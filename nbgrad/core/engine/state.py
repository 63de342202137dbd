"""The state of a thread or task: gradient recording, the active graph, the scope, the default device.

It is one object in one context variable. So an op looks everything up with a single ``get``, and threads and tasks
never see each other's graph. A change replaces the whole state, except for its scope (see ``scope.called``).
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextvars import ContextVar
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from threading import get_ident
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import torch

from nbgrad.core.backend.autocast import Settings, any_enabled, set_back
from nbgrad.core.backend.function_mode import unheard
from nbgrad.core.engine.node import TensorBase
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.place import Place

F = TypeVar("F", bound=Callable[..., Any])


class Scope:
    """One call of a module (or a ``with nbgrad.scope(...)`` block): a box in the picture, nested in its parent.

    Attributes:
        label: the text of the box.
        parent: the scope around it.
        place: the user's line that called the module, if the module is nbgrad's and runs no line of the user's: then it
            is the line of each op in this scope. Otherwise None.
    """

    __slots__ = ("label", "parent", "place")

    def __init__(self, label: str, parent: "Scope | None") -> None:
        self.label = label
        self.parent = parent
        self.place: Place | None = None

    def path(self) -> tuple[str, ...]:
        """The labels of the scopes around this one and its own, outermost first."""
        return tuple([one.label for one in outwards(self)][::-1])

    def attribute(self, value: Any) -> str | None:  # noqa: ARG002
        """The name of the attribute of the called module that holds ``value``, a tensor; None if there is none."""
        return None


def outwards(scope: Scope | None) -> Iterator[Scope]:
    """A scope and those around it, innermost first; none where there is none."""
    while scope is not None:
        yield scope
        scope = scope.parent


class State:
    """All settings of a thread or task.

    ``walking``: the backward that runs; ``computed``: the values of parametrized tensors inside
    ``parametrize.cached()``, by the id of their parametrizations; ``outer``: the state before the innermost block, and
    again after it; ``thread``: the thread that made the state; ``tracer``: the tracer that writes the ops down as a
    program, instead of running them.
    """

    __slots__ = (
        *("computed", "device", "grad_enabled", "inference", "observers", "outer", "scope", "thread", "tracer"),
        "walking",
    )

    def __init__(
        self,
        grad_enabled: bool = True,
        walking: object = None,
        inference: bool = False,
        scope: Scope | None = None,
        device: "torch.device | None" = None,
        observers: tuple[Observer, ...] = (),
        computed: dict[int, Any] | None = None,
        outer: "State | None" = None,
        tracer: Any = None,
    ) -> None:
        self.grad_enabled = grad_enabled
        self.walking = walking
        self.inference = inference
        self.scope = scope
        self.device = device
        self.observers = observers
        self.computed = computed
        self.outer = outer
        self.tracer = tracer
        self.thread = get_ident()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.fields() == other.fields()

    def __hash__(self) -> int:
        return hash(tuple(self.fields().values()))

    def fields(self) -> dict[str, Any]:
        """All settings by name."""
        return {name: getattr(self, name) for name in State.__slots__ if name not in ("outer", "thread")}

    def replaced(self, **changes: Any) -> "State":
        """A state like this one but for ``changes``."""
        get = changes.get
        return State(
            get("grad_enabled", self.grad_enabled),
            get("walking", self.walking),
            get("inference", self.inference),
            get("scope", self.scope),
            get("device", self.device),
            get("observers", self.observers),
            get("computed", self.computed),
            get("outer", self.outer),
            get("tracer", self.tracer),
        )


_STATE: ContextVar[State] = ContextVar("nbgrad", default=State())  # noqa: B039  # only its scope ever changes
current: Callable[[], State] = _STATE.get

_torch_records = torch.is_grad_enabled


def recording(state: State) -> bool:
    """Whether ops record their history in ``state``.

    torch's own ``no_grad`` counts too: its distributions draw samples in it.
    """
    return state.grad_enabled and _torch_records()


def _set_back(state: State, torch_records: bool) -> None:
    """Make ``state`` the current one, and set torch's recording. It may be called twice, after an interrupt."""
    torch._C._set_grad_enabled(torch_records)
    _STATE.set(state)


def restoring(function: F) -> F:
    """Decorate ``function``: if it raises, all settings, torch's too, are restored to those before the call.

    Ctrl-C may raise anywhere, also in the code that would switch something back.
    """

    @wraps(function)
    def restored(*args: Any, **kwargs: Any) -> Any:
        before, records, casts = _STATE.get(), _torch_records(), Settings() if any_enabled() else None
        try:
            return function(*args, **kwargs)
        except BaseException:
            _set_back(before, records)
            set_back(casts)
            raise

    return restored  # type: ignore[return-value]  # wraps keeps the signature, which mypy cannot see


def unwound(before: State) -> State:
    """The current state without the blocks that were entered since ``before`` was the current one, and not left.

    In plain Python ``__exit__`` is a Python function. If Ctrl-C hits its first instruction, the block is never left.
    Settings outside of any block stay.
    """
    state, depth = _STATE.get(), _depth(before)
    while _depth(state) > depth and state.outer is not None:
        state = state.outer
    return state


def _depth(state: State) -> int:
    depth = 0
    while state.outer is not None:
        state, depth = state.outer, depth + 1
    return depth


class Switch:
    """A context manager, decorator and nestable switch that changes fields of the state and restores them.

    A switch that turns recording on also does so inside torch's own ``no_grad``.
    """

    __slots__ = ("_changes", "_entered")

    def __init__(self, **changes: Any) -> None:
        self._changes = changes
        self._entered: list[tuple[State, State, bool]] = []

    def __enter__(self) -> Self:
        before, records = _STATE.get(), _torch_records()
        state = self._changed(before)
        for_torch = not records and bool(self._changes.get("grad_enabled"))
        try:
            self._entered.append((state, before, for_torch))
            if for_torch:
                torch._C._set_grad_enabled(True)
            _STATE.set(state)
        except BaseException:
            _set_back(before, records)
            raise
        return self

    def _changed(self, before: State) -> State:
        """The state inside the block, if ``before`` is the state outside."""
        return before.replaced(**self._changes, outer=before)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        depth = len(self._entered) - 1
        state, before, for_torch = self._entered[depth]
        now = _STATE.get()
        if now is not state and "grad_enabled" not in self._changes and now.grad_enabled != before.grad_enabled:
            before = before.replaced(grad_enabled=now.grad_enabled)  # set_grad_enabled(...) may have been called inside
        try:
            if for_torch:
                torch._C._set_grad_enabled(False)
            _STATE.set(before)
            del self._entered[depth:]
        except BaseException:
            _set_back(before, _torch_records() and not for_torch)
            raise

    def _again(self) -> "Switch":
        return Switch(**self._changes)

    def __call__(self, function: F) -> F:
        """Run ``function`` inside this switch, each call with a fresh one.

        A generator is inside the switch whenever it runs, not while it waits for its caller. A coroutine is inside it
        from start to end: its task has a state of its own, so other tasks are not inside it.

        Raises:
            TypeError: ``function`` is no function, or an asynchronous generator.
        """
        return _switched(type(self).__name__, self._again, function)


def _switched(name: str, again: Callable[[], Switch], function: F) -> F:
    """Wrap ``function``: each call runs inside a switch that ``again`` makes."""
    given: Any = function
    if isinstance(given, type) or not callable(given) or isasyncgenfunction(given):
        kind = "an async generator" if isasyncgenfunction(given) else f"the {type(given).__name__} {given!r}"
        raise TypeError(f"{name} cannot decorate {kind}: write a with block inside it instead")

    @wraps(function)
    def switched(*args: Any, **kwargs: Any) -> Any:
        before, records = _STATE.get(), _torch_records()
        try:
            with again():
                return function(*args, **kwargs)
        except Exception:
            raise
        except BaseException:  # an interrupt, which may have hit the switch at work
            _set_back(before, records)
            raise

    @wraps(function)
    def resumed(*args: Any, **kwargs: Any) -> Any:
        return _resumed(again(), function(*args, **kwargs))

    @wraps(function)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        with again():
            return await function(*args, **kwargs)

    made: Any = resumed if isgeneratorfunction(function) else awaited if iscoroutinefunction(function) else switched
    return cast("F", made)  # wraps keeps the signature, which mypy cannot see


def _resumed(switch: Switch, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Wrap ``generator``: each of its steps runs inside ``switch``, and the caller's state holds between them."""
    step, given = generator.send, None
    while True:
        try:
            with switch:
                made = step(given)
        except StopIteration as stop:
            return stop.value
        try:
            step, given = generator.send, (yield made)
        except GeneratorExit:
            with switch:
                generator.close()
            raise
        except BaseException as error:  # thrown in by the caller, for the generator to handle
            step, given = generator.throw, error


class no_grad(Switch):  # noqa: N801  # torch's name
    """A context in which nothing is recorded and results need no gradient.

    Works as ``with no_grad():``, ``@no_grad()`` and ``@no_grad``.
    """

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """A switch; or ``function`` inside one, for the bare decorator."""
        return super().__new__(cls) if function is None else _switched(cls.__name__, cls, function)

    def __init__(self) -> None:
        super().__init__(grad_enabled=False)


class enable_grad(Switch):  # noqa: N801  # torch's name
    """A context in which recording is on, also within a ``no_grad`` block; works as a decorator too."""

    __slots__ = ()

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """A switch; or ``function`` inside one, for the bare decorator."""
        return super().__new__(cls) if function is None else _switched(cls.__name__, cls, function)

    def __init__(self) -> None:
        super().__init__(grad_enabled=True)


class Setting(Switch):
    """A switch that is set when it is made. As a ``with`` block it is restored at the end of the block."""

    __slots__ = ()

    def __init__(self, **changes: Any) -> None:
        before = _STATE.get()
        super().__init__(**{name: getattr(before, name) for name in changes})
        _STATE.set(before.replaced(**changes))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _STATE.set(_STATE.get().replaced(**self._changes))


class set_grad_enabled(Setting):  # noqa: N801  # torch's name
    """Switch recording on or off from this call on: ``set_grad_enabled(training)``.

    As ``with set_grad_enabled(mode):`` and ``@set_grad_enabled(mode)`` it holds only inside. A plain call holds until
    the next call, or until the end of a ``with`` block around it that sets the mode itself. It holds only in its thread
    or task.
    """

    __slots__ = ("mode",)

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)
        super().__init__(grad_enabled=self.mode)

    def _again(self) -> Switch:
        return Switch(grad_enabled=self.mode)

    def __call__(self, function: F) -> F:
        """Run ``function`` in this mode. Outside of it the mode does not change."""
        self.__exit__(None, None, None)
        return super().__call__(function)


class inference_mode(Switch):  # noqa: N801  # torch's name
    """A context in which nothing is recorded, and whose results can never be saved for a backward.

    Unlike in ``no_grad``, results are torch's inference tensors, which are faster to make. Outside of the block they
    can be read and used in ops, and ``clone()`` makes an ordinary tensor. It is an error if a recorded op would have to
    save an inference tensor, if it is given ``requires_grad=True``, or if it is changed in place outside of the block.
    ``inference_mode(False)`` switches to ordinary recording, also inside another such block. It works as ``with
    inference_mode():``, ``@inference_mode()`` and ``@inference_mode``.
    """

    __slots__ = ("mode",)

    def __new__(cls, mode: "bool | Callable[..., Any]" = True) -> Any:
        """A switch; or a function inside one, for the bare decorator."""
        return super().__new__(cls) if isinstance(mode, bool) else _switched(cls.__name__, cls, mode)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(grad_enabled=not mode, inference=mode)


def is_grad_enabled() -> bool:
    """Whether ops record their history here and now."""
    return recording(_STATE.get())


def is_inference_mode_enabled() -> bool:
    """Whether results here and now are inference tensors."""
    return _STATE.get().inference


def set_state(state: State) -> None:
    """Make ``state`` the current one, for a context that ends elsewhere than it began, as a notebook cell's does."""
    _STATE.set(state)


def live() -> State:
    """The current state, without the observers of graphs that another thread has closed."""
    state = _STATE.get()
    kept = tuple([one for one in state.observers if not getattr(one, "closed", False)])
    if len(kept) < len(state.observers):
        state = state.replaced(observers=kept)
        _STATE.set(state)
    return state


def tell_changed(changed: "Sequence[torch.Tensor]", what: str) -> None:
    """Notify observers that ``what`` has changed the data of each tensor in ``changed``."""
    for observer in _STATE.get().observers:
        unheard(observer.on_change, changed, what)


def tell_detached(tensor: TensorBase, detached: TensorBase, what: str) -> None:
    """Notify observers that ``what`` has cut ``detached`` from the graph of ``tensor``."""
    for observer in _STATE.get().observers:
        unheard(observer.on_detach, tensor, detached, what)


def tell_read(tensor: TensorBase, what: str) -> None:
    """Notify observers that ``what`` gave the values of ``tensor`` without its history, if it has one."""
    if tensor._needs_grad:
        for observer in _STATE.get().observers:
            unheard(observer.on_read, tensor, what)
