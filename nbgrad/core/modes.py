"""What is switched on in this thread or task: gradient recording, the active graph, the scope, the default device.

One immutable state in one context variable, so that an op looks up everything it needs with a single ``get`` and
threads and async tasks never see each other's graph.
"""

from collections.abc import Callable
from contextvars import ContextVar, Token
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

if TYPE_CHECKING:
    import torch

    from nbgrad.core.node import Leaf, Node, Origin

F = TypeVar("F", bound=Callable[..., Any])


class Scope:
    """One call of a module (or a ``with nbgrad.scope(...)`` block): a box in the picture, nested in its parent."""

    __slots__ = ("label", "parent")

    def __init__(self, label: str, parent: "Scope | None") -> None:
        self.label = label
        self.parent = parent


class Observer:
    """Sees what the engine does; every method may be overridden and by default does nothing."""

    __slots__ = ()

    def on_record(self, node: "Node", args: tuple[Any, ...], out: "torch.Tensor") -> None:
        """An op ran and was recorded as ``node``: ``args`` are its inputs as passed, ``out`` the data it made."""

    def on_backward_begin(self, roots: "list[tuple[Origin, Any]]") -> None:
        """A backward starts at ``roots``, pairs of where a tensor came from and the gradient it is seeded with."""

    def on_gradient(self, origin: "Origin", gradient: Any) -> None:
        """The gradient of what ``origin`` made is complete."""

    def on_rule(self, node: "Node", position: int, gradient: Any, reduced: Any, reduction: Any) -> None:
        """The rule of input ``position`` gave ``gradient``; ``reduced`` is it after undoing a broadcast, if any."""

    def on_accumulate(self, leaf: "Leaf", gradient: Any) -> None:
        """``gradient`` is about to be added to the ``.grad`` of ``leaf``'s tensor."""

    def on_backward_end(self) -> None:
        """The backward is complete; not called when it raised."""


class State(NamedTuple):
    """Everything that is scoped: replaced as a whole, never changed."""

    grad_enabled: bool = True
    scope: Scope | None = None
    device: "torch.device | None" = None
    observers: tuple[Observer, ...] = ()


_STATE: ContextVar[State] = ContextVar("nbgrad", default=State())  # noqa: B039  # a NamedTuple never changes
current: Callable[[], State] = _STATE.get


class Switch:
    """A context manager, decorator and nestable switch that changes fields of the state and restores them."""

    __slots__ = ("_changes", "_tokens")

    def __init__(self, **changes: Any) -> None:
        self._changes = changes
        self._tokens: list[Token[State]] = []

    def __enter__(self) -> Self:
        self._tokens.append(_STATE.set(_STATE.get()._replace(**self._changes)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _STATE.reset(self._tokens.pop())

    def _again(self) -> "Switch":
        return Switch(**self._changes)

    def __call__(self, function: F) -> F:
        """Run ``function`` inside this switch, each call with a fresh one."""

        @wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Any:
            with self._again():
                return function(*args, **kwargs)

        return switched  # type: ignore[return-value]  # wraps keeps the signature, which mypy cannot see


class no_grad(Switch):  # noqa: N801  # torch's name
    """Inside it nothing is recorded and results need no gradient; works as ``with no_grad():`` and ``@no_grad()``."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(grad_enabled=False)


class enable_grad(Switch):  # noqa: N801  # torch's name
    """Inside it recording is on, also within a ``no_grad`` block."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(grad_enabled=True)


class scope(Switch):  # noqa: N801  # reads as a statement: with nbgrad.scope("encoder"):
    """Ops recorded inside it are drawn in a box labelled ``label``, nested in the box around it."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = label

    def _again(self) -> "scope":
        return scope(self.label)

    def __enter__(self) -> Self:
        self._changes = {"scope": Scope(self.label, _STATE.get().scope)}
        return super().__enter__()


def is_grad_enabled() -> bool:
    """Whether ops record their history here and now."""
    return _STATE.get().grad_enabled


def set_state(state: State) -> None:
    """Make ``state`` the current one, for a context that ends elsewhere than it began, as a notebook cell's does."""
    _STATE.set(state)
