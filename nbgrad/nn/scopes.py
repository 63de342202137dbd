"""The box that a module call draws around its ops, labelled with where the module is in the model."""

from inspect import cleandoc
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, ref

from nbgrad.core.modes import Scope

if TYPE_CHECKING:
    from nbgrad.nn.tree import Tree


class ModuleScope(Scope):
    """The call of a module. A graph keeps its scopes, so the module is held weakly: a record keeps no model alive."""

    __slots__ = ("kind", "module")

    def __init__(self, module: "Tree", parent: Scope | None) -> None:
        super().__init__(_label(module, parent), parent)
        self.kind: type[Any] = type(module)
        self.module = ref(module)

    @property
    def about(self) -> str:
        """What the module is, in a line, and its formula in the next; what its class does not say is left out."""
        told = vars(self.kind).get("__doc__") or ""
        return "\n".join(line for line in (cleandoc(told).partition("\n")[0], self.kind.__formula__) if line)


_paths: "WeakKeyDictionary[Tree, dict[int, str]]" = WeakKeyDictionary()
"""For each module that was called inside a graph, the path of every module below it, by its id."""


def forget_paths() -> None:
    """A module somewhere gained or lost a child: paths and ids may be stale."""
    _paths.clear()


def _label(module: "Tree", parent: Scope | None) -> str:
    """The class name, after the path of the module in the one whose call encloses it: ``layers.3 (Block)``."""
    while parent is not None and not isinstance(parent, ModuleScope):
        parent = parent.parent
    caller = parent.module() if parent is not None else None
    path = path_below(caller, module) if caller is not None else None
    kind = type(module).__name__
    return f"{path} ({kind})" if path else kind


def path_below(module: "Tree", inner: "Tree") -> str | None:
    """The path of ``inner`` in ``module``, "" for itself; None if it is not in there."""
    paths = _paths.get(module)
    if paths is None:
        _paths[module] = paths = {id(one): path for path, one in module.named_modules()}
    return paths.get(id(inner))
