"""Scopes, the boxes around ops: a ``with nbgrad.scope(...)`` block of the user's, or the call of a module.

``called`` takes any module that has ``named_modules()`` and ``named_children()``, and a class with ``forward``,
``__formula__`` and ``_runs_functions``.
"""

import sys
from collections.abc import Callable
from inspect import cleandoc
from itertools import chain
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary, ref

from nbgrad.core.backend.below_autograd import is_own
from nbgrad.core.backend.function_mode import put_back, take_off
from nbgrad.core.engine.call_site import NOT_THE_USERS, in_library, user_place
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.state import Scope, State, Switch, current, outwards, set_state


class Kind:
    """The texts of a module's class, which it holds weakly.

    Torch makes some classes for one module, and they hold that module.

    Attributes:
        name: of the class.
        ours: whether the class is one of nbgrad's own.
        installed: whether it is one of a package's, but neither nbgrad's nor torch's.
    """

    __slots__ = ("_about", "_class", "_formula", "installed", "name", "ours")

    def __init__(self, kind: type[Any]) -> None:
        self._class = ref(kind)
        self.name = kind.__name__
        self.ours = str(kind.__module__).startswith("nbgrad.")
        file = str(getattr(sys.modules.get(kind.__module__), "__file__", None) or "")
        self.installed = in_library(file) and not file.startswith(NOT_THE_USERS)
        self._formula = ""
        self._about = self.about

    @property
    def formula(self) -> str:
        """The formula of the module in LaTeX; empty if its class has none, as torch's classes."""
        kind = self._class()
        if kind is not None:  # the text of a class that is gone stays as it was
            self._formula = str(getattr(kind, "__formula__", None) or "")
        return self._formula

    @property
    def about(self) -> str:
        """The first line of the class's docstring, and its formula on the next line, if the class has them."""
        kind = self._class()
        if kind is not None:
            told = cleandoc(str(vars(kind).get("__doc__") or "")).partition("\n")[0]
            self._about = "\n".join(line for line in (told, self.formula) if line)
        return self._about

    @classmethod
    def told(cls, name: str, formula: str, about: str, *, ours: bool, installed: bool) -> "Kind":
        """The texts of a class that is not there, as of a graph that was read from a file."""
        made = cls.__new__(cls)
        made._class, made.name, made.ours, made.installed = _GONE, name, ours, installed
        made._formula, made._about = formula, about
        return made


def _gone() -> None:
    """Stands for a weak reference to a class or a module that does not exist any more."""


_GONE: Any = _gone


_kinds: WeakKeyDictionary[type[Any], Kind] = WeakKeyDictionary()


def _kind(kind: type[Any]) -> Kind:
    known = _kinds.get(kind)
    if known is None:
        _kinds[kind] = known = Kind(kind)
    return known


class ModuleScope(Scope):
    """The call of a module. It holds the module weakly: a graph keeps its scopes, and must not keep the model alive."""

    __slots__ = ("kind", "module")

    kind: Kind
    module: ref[Any]

    def attribute(self, value: Any) -> str | None:
        """The name of the module's attribute that holds the tensor ``value``; None if there is none."""
        module = self.module()
        own: dict[str, Any] = {} if module is None else vars(module)
        # Torch keeps these in dicts of their own.
        held = chain(own.get("_buffers", {}).items(), own.get("_parameters", {}).items(), own.items())
        return next((name for name, one in held if one is value), None)


def told_scope(label: str, kind: Kind, parent: Scope | None) -> ModuleScope:
    """The call of a module that is not there, as in a graph that was read from a file."""
    scope = ModuleScope.__new__(ModuleScope)
    scope.module, scope.label, scope.kind, scope.parent, scope.place = _GONE, label, kind, parent, None
    return scope


class scope(Switch):  # noqa: N801  # reads as a statement: with nbgrad.scope("encoder"):
    """A context whose recorded ops are drawn in a box with the label ``label``, inside the box around it."""

    __slots__ = ("label",)

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = str(label)

    def _again(self) -> "scope":
        return scope(self.label)

    def _changed(self, before: State) -> State:
        return before.replaced(scope=Scope(self.label, before.scope), outer=before)


def called(
    module: Any,
    state: State,
    run: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    then: Callable[[Any], Any] | None = None,
) -> Any:
    """Return ``run(*args, **kwargs)``, run in the scope of ``module``. Every call does this, so it must be fast.

    ``then`` gets its result, in the same scope.

    Calls nest within a thread. So the scope is changed and restored in ``state`` itself, the current one.
    Another thread, which runs in a copy of the context, gets a state of its own at its first call.
    """
    given = state
    if state.thread != get_ident():
        set_state(state := state.replaced())
    outer, depth, own = state.scope, 0, False
    placed: Any = None
    try:
        try:
            try:
                placed = _placed(module, outer)
                # With hooks, or with a forward of its own, the module runs something else.
                own = placed.forward is not None and getattr(run, "__func__", None) is placed.forward
                state.scope = _entered(placed, outer, own)
            except Exception as error:
                if not taken(state.observers, error, "the call of a module"):
                    raise
            depth = take_off() if own and placed.alone else 0
            # Compiled, a call with ``*`` takes one more of the calls that Python's limit of recursion allows: modules
            # could not be nested as deeply as without a graph. A call with written arguments takes none.
            few = 0 if kwargs else len(args)
            result = (run(args[0]) if few == 1 else run(args[0], args[1])) if few in (1, 2) else run(*args, **kwargs)
            if then is not None:
                _tell(then, result, state)
            return result
        finally:
            put_back(depth)
            state.scope = outer
            after = current()  # set_grad_enabled(...) may have been called inside
            if after is not given:
                set_state(given if after is state else given.replaced(grad_enabled=after.grad_enabled))
    except BaseException as error:
        state.scope = outer
        if not isinstance(error, Exception):  # an interrupt, which may have hit the lines before
            set_state(given)
        raise


def _tell(then: Callable[[Any], Any], result: Any, state: State) -> None:
    """Give ``then`` the result of a module; the module has run, so an error of ours must not hide it."""
    try:
        then(result)
    except Exception as error:
        if not taken(state.observers, error, "the result of a module"):
            raise


def _entered(placed: "_Placed", outer: Scope | None, own: bool) -> ModuleScope:
    """The scope of a call, inside the scope ``outer``; ``own``: whether the call runs only code of nbgrad's."""
    scope = ModuleScope.__new__(ModuleScope)
    scope.module = placed.module
    scope.label = placed.label
    scope.kind = placed.kind
    scope.parent = outer
    scope.place = None
    if own:
        known = outer.place if outer is not None else None
        scope.place = known if known is not None else user_place()
    return scope


def outermost_module(scope: Scope | None) -> Any:
    """The model in whose call an op ran; None if there is none, or it is gone."""
    modules = [one.module() for one in outwards(scope) if isinstance(one, ModuleScope)]
    return modules[-1] if modules else None


def retitle(scope: ModuleScope, title: str) -> None:
    """Give the frame of a call another title."""
    scope.label = title


_paths: WeakKeyDictionary[Any, dict[int, str]] = WeakKeyDictionary()
"""For each module that was called inside a graph: the paths of all modules below it, by their ids."""

_names: WeakKeyDictionary[Any, dict[int, str]] = WeakKeyDictionary()
"""The paths of the modules directly inside, by id: most calls go to them. Tables of all modules below take much memory,
as each module is below every module around it."""


class _Placed:
    """The facts about a module and the module that calls it, kept because a loop calls the same ones in every step.

    Attributes:
        module, above: references to both.
        label: of the call.
        kind: the facts about its class.
        forward: the function that a call runs, if it is nbgrad's own, and runs only code of nbgrad and of the modules
            that it calls.
        alone: whether ``forward`` calls no other module, and so runs no code of the user's.
    """

    __slots__ = ("above", "alone", "forward", "kind", "label", "module")

    def __init__(self, module: Any, above: "ref[Any] | None") -> None:
        self.module = ref(module)
        self.above = above
        self.label = _label(module, None if above is None else above())
        self.kind = _kind(type(module))
        forward: Callable[..., Any] | None = getattr(type(module), "forward", None)  # a ScriptModule's class has none
        self.forward = forward if forward is not None and is_own(forward) and not module._runs_functions else None
        self.alone = self.forward is not None and is_own(type(module)) and not any(True for _ in module.children())


_known: dict[int, _Placed] = {}
"""By the id of a module, the facts about the last call of it."""


def forget_paths() -> None:
    """Forget paths, ids and labels, because a module somewhere gained or lost a child."""
    _paths.clear()
    _names.clear()
    _known.clear()


def _placed(module: Any, parent: Scope | None) -> _Placed:
    """The facts about a call of ``module`` in the scope ``parent``."""
    while parent is not None and not isinstance(parent, ModuleScope):
        parent = parent.parent
    caller = parent
    above = None if caller is None else caller.module
    key = id(module)
    known = _known.get(key)
    if known is None or known.above is not above or known.module() is not module:
        _known[key] = known = _Placed(module, above)
    return known


def _label(module: Any, caller: Any | None) -> str:
    """The path of the module in the module that calls it, and then its class name: ``layers.3 (Block)``."""
    path = path_below(caller, module) if caller is not None else None
    kind = type(module).__name__
    return f"{path} ({kind})" if path else kind


def path_below(module: Any, inner: Any) -> str | None:
    """The path of ``inner`` in ``module``, "" for itself; None if it is not in there."""
    if inner is module:
        return ""
    names = _names.get(module)
    if names is None:
        _names[module] = names = {id(one): name for name, one in module.named_children()}
    if (name := names.get(id(inner))) is not None:
        return name
    paths = _paths.get(module)
    if paths is None:
        _paths[module] = paths = {id(one): path for path, one in module.named_modules()}
    return paths.get(id(inner))
