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

    kind: type[Any]
    module: "ref[Tree]"

    def __init__(self, module: "Tree", parent: Scope | None) -> None:
        caller = parent
        while caller is not None and not isinstance(caller, ModuleScope):
            caller = caller.parent
        above = None if caller is None else caller.module
        held, label, _ = _labels.get((id(module), id(above)), _NOT_KNOWN)
        if held is None or held() is not module:
            held, label = ref(module), _label(module, None if above is None else above())
            _labels[id(module), id(above)] = held, label, above
        self.label, self.parent = label, parent  # every call of a module comes by: as super() does it, but quicker
        self.kind = type(module)
        self.module = held

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


_paths: "WeakKeyDictionary[Tree, dict[int, str]]" = WeakKeyDictionary()
"""For each module that was called inside a graph, the path of every module below it, by its id."""

_labels: "dict[tuple[int, int], tuple[ref[Tree] | None, str, ref[Tree] | None]]" = {}
"""By the ids of a module and of the reference to the one that calls it: both references, which keep these ids theirs,
and the label. A loop calls the same modules in every step."""

_NOT_KNOWN = (None, "", None)


def forget_paths() -> None:
    """A module somewhere gained or lost a child: paths, ids and labels may be stale."""
    _paths.clear()
    _labels.clear()


def _label(module: "Tree", caller: "Tree | None") -> str:
    """The class name, after the path of the module in the one whose call encloses it: ``layers.3 (Block)``."""
    path = path_below(caller, module) if caller is not None else None
    kind = type(module).__name__
    return f"{path} ({kind})" if path else kind


def path_below(module: "Tree", inner: "Tree") -> str | None:
    """The path of ``inner`` in ``module``, "" for itself; None if it is not in there."""
    paths = _paths.get(module)
    if paths is None:
        _paths[module] = paths = {id(one): path for path, one in module.named_modules()}
    return paths.get(id(inner))
