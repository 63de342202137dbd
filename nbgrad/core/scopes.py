"""The boxes that are drawn around ops: a block of the user's, or the call of a module, labelled with where it is.

A module is here whatever is called with ``in_scope``, has ``named_modules()`` and a class with a ``__formula__``.
"""

from collections.abc import Callable
from inspect import cleandoc
from threading import get_ident
from typing import Any, Self
from weakref import WeakKeyDictionary, ref

from nbgrad.core.modes import Switch, current, set_state


class Scope:
    """One call of a module (or a ``with nbgrad.scope(...)`` block): a box in the picture, nested in its parent."""

    __slots__ = ("label", "parent")

    def __init__(self, label: str, parent: "Scope | None") -> None:
        self.label = label
        self.parent = parent

    def path(self) -> tuple[str, ...]:
        """The labels of the scopes around this one and its own, outermost first."""
        labels, above = [self.label], self.parent
        while above is not None:
            labels, above = [above.label, *labels], above.parent
        return tuple(labels)

    def attribute(self, value: Any) -> str | None:  # noqa: ARG002
        """The attribute of what is called under which it holds ``value``, a tensor; None where it does not."""
        return None


class ModuleScope(Scope):
    """The call of a module. A graph keeps its scopes, so the module is held weakly: a record keeps no model alive."""

    __slots__ = ("kind", "module")

    kind: type[Any]
    module: ref[Any]

    def __init__(self, module: Any, parent: Scope | None) -> None:
        self.parent = parent  # every call of a module comes by: as super() does it, but quicker
        self.module, self.label, _ = _placed(module, parent)
        self.kind = type(module)

    def attribute(self, value: Any) -> str | None:
        """The name of the buffer, or of any other tensor that the module keeps."""
        module = self.module()
        held = () if module is None else vars(module).items()
        return next((name for name, one in held if one is value), None)

    @property
    def about(self) -> str:
        """What the module is, in a line, and its formula in the next; what its class does not say is left out."""
        told = vars(self.kind).get("__doc__") or ""
        return "\n".join(line for line in (cleandoc(told).partition("\n")[0], self.kind.__formula__) if line)


class scope(Switch):  # noqa: N801  # reads as a statement: with nbgrad.scope("encoder"):
    """Ops recorded inside it are drawn in a box labelled ``label``, nested in the box around it."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = label

    def _again(self) -> "scope":
        return scope(self.label)

    def __enter__(self) -> Self:
        self._changes = {"scope": Scope(self.label, current().scope)}
        return super().__enter__()


def in_scope(scope: Scope, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``run(*args, **kwargs)`` inside ``scope``, as a switch would have it, but quicker: every module call asks.

    Calls nest within their thread, so there the scope of the state itself is changed and put back. Another thread that
    runs in a copy of the context has a state of its own from its first call on.
    """
    state = given = current()
    if state.thread != get_ident():
        set_state(state := state.replaced())
    outer, state.scope = state.scope, scope
    try:
        return run(*args, **kwargs)
    finally:
        state.scope = outer
        after = current()  # set_grad_enabled(...) may have been called inside
        if after is not given:
            set_state(given if after is state else given.replaced(grad_enabled=after.grad_enabled))


_paths: WeakKeyDictionary[Any, dict[int, str]] = WeakKeyDictionary()
"""For each module that was called inside a graph, the path of every module below it, by its id."""

_Place = tuple[ref[Any], str, "ref[Any] | None"]

_labels: dict[tuple[int, int], _Place] = {}
"""By the ids of a module and of the reference to the one that calls it: both references, which keep these ids theirs,
and the label. A loop calls the same modules in every step."""


def forget_paths() -> None:
    """A module somewhere gained or lost a child: paths, ids and labels may be stale."""
    _paths.clear()
    _labels.clear()


def _placed(module: Any, parent: Scope | None) -> _Place:
    """References to ``module`` and to the one in whose call it is called, if there is one, and the label between."""
    while parent is not None and not isinstance(parent, ModuleScope):
        parent = parent.parent
    above = None if parent is None else parent.module
    key = id(module), id(above)
    known = _labels.get(key)
    if known is None or known[0]() is not module:
        _labels[key] = known = ref(module), _label(module, None if above is None else above()), above
    return known


def _label(module: Any, caller: Any | None) -> str:
    """The class name, after the path of the module in the one whose call encloses it: ``layers.3 (Block)``."""
    path = path_below(caller, module) if caller is not None else None
    kind = type(module).__name__
    return f"{path} ({kind})" if path else kind


def path_below(module: Any, inner: Any) -> str | None:
    """The path of ``inner`` in ``module``, "" for itself; None if it is not in there."""
    paths = _paths.get(module)
    if paths is None:
        _paths[module] = paths = {id(one): path for path, one in module.named_modules()}
    return paths.get(id(inner))
