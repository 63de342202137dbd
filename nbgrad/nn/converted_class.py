"""The classes of converted modules: each is a subclass of a class of nbgrad's and of the class of torch's module.

``isinstance`` finds both. If ``nbgrad.nn`` has the block, the class computes as ours. Any other class keeps the
methods of torch's module. In these methods ``super()`` leads to our ``Module``, where it led to torch's before.
"""

from collections.abc import Callable
from functools import cache, wraps
from types import MemberDescriptorType, new_class
from typing import Any

import torch

from nbgrad import nn
from nbgrad.core.tensor.filled import counterparts, fillings
from nbgrad.nn.module.module import NEVER_CALLED, TRANSFORMED, Module
from nbgrad.nn.utils import parametrizations

UNMODIFIED = (
    "record the torch module unmodified instead: run it in a cell with %%autograd or in nbgrad.record(), which needs "
    "no conversion"
)
"""The advice for a module that cannot be converted."""

_PLACES = {torch.nn: nn, torch.nn.utils.parametrizations: parametrizations}
"""Where torch's blocks are, and ours of the same names."""

_SAME: dict[type, type] = {torch.nn.modules.linear.NonDynamicallyQuantizableLinear: torch.nn.Linear}

_PRIVATE = {name for name in dir(Module) if name.startswith("_") and not name.startswith("__")} - {
    *dir(torch.nn.Module),
    *vars(torch.nn.Module()),
}
_PRIVATE |= {"_roles", "_compared"}
"""Names that our ``Module`` uses and torch's does not have. An attribute of the user's must have none of them."""


class _Made:
    """The first base of every converted class. It stops code that must not run, and serves copies and pickles."""

    _torch_class: Any

    def __init_subclass__(cls, **settings: Any) -> None:
        """Do nothing: the hook of a user's class might register this class too, or require settings."""

    def compile(self, *_args: Any, **_settings: Any) -> None:
        """Torch's way to compile a module in place, which would change nothing here.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            f"{type(self).__name__}.compile(): torch compiles its own autograd, and this module is nbgrad's: compile "
            "the torch module, and record it unmodified in a cell with %%autograd or in nbgrad.record()"
        )

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return empty_of, (self._torch_class,), self.__getstate__()


def _attribute(self: Any, name: str) -> Any:
    """The value of ``super().__getattr__(name)`` in a user's class: torch finds parameters and modules only there."""
    if name in vars(self).get("_roles", ()):
        return vars(self)[name]
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


_MODULES: Any = new_class("_Module", (Module, torch.nn.Module), {}, lambda names: names.update(__getattr__=_attribute))
"""The last base of a class that keeps its methods: our ``Module`` comes directly before torch's."""


class _LikeTorchs(type):
    """The class of converted classes. Each is equal to torch's class, so a table of torch's classes has it too.

    ``type(module) in {torch.nn.ReLU: ...}`` and ``type(module) == torch.nn.ReLU`` are true. ``is`` cannot be.
    """

    def __eq__(cls, other: object) -> bool:
        return other is cls or (other is not None and other is vars(cls).get("_torch_class"))

    def __hash__(cls) -> int:
        theirs = vars(cls).get("_torch_class")  # a class derived from such a class has none
        return type.__hash__(cls if theirs is None else theirs)


def _make_class_of(kind: type) -> type:
    """The metaclass of converted classes whose torch class has the metaclass ``kind``."""
    return _LikeTorchs if kind is type else new_class(kind.__name__, (_LikeTorchs, kind))


_class_of: Callable[[Any], type] = cache(_make_class_of)


class ClassReference:
    """Stands for a converted class in pickles. They name a class by its module, and a converted class is in none."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    def __reduce__(self) -> tuple[Any, ...]:
        return _class_for, (self.kind,)


def known_block(kind: type) -> type[Module] | None:
    """Our block for one of torch's own classes, if there is one."""
    kind = _SAME.get(kind, kind)
    for theirs, ours in _PLACES.items():
        if getattr(theirs, kind.__name__, None) is kind:
            found: type[Module] | None = getattr(ours, kind.__name__, None)
            return found
    return None


def _make(kind: Any) -> type[Module]:
    known = known_block(kind)
    own: dict[str, Any] = {"_torch_class": kind, "_pickled_class": ClassReference(kind)}
    if known is not None:
        own |= {"__module__": known.__module__, "__qualname__": known.__qualname__, "__doc__": known.__doc__}
        bases: tuple[type, ...] = (_Made, _pair(kind))
    else:
        _check_class(kind)
        own |= {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
        if defines(kind, "__getattr__"):
            own["__getattribute__"] = _own_attributes_first(kind)
        if defines(kind, "__call__"):
            own["__call__"] = _compared_first(kind)
        if issubclass(kind, torch.fx.GraphModule):  # its own copy methods would make torch's class again
            own |= {"__deepcopy__": None, "__copy__": None}
        bases = (_Made, kind, _last_base(kind))
    settings = {"metaclass": _class_of(type(kind))}
    made: Any = new_class(kind.__name__, bases, settings, lambda names: names.update(own))
    if known is None:
        made.forward = _returning_ours(made.forward)
    return made  # type: ignore[no-any-return]


def _returning_ours(forward: Callable[..., Any]) -> Callable[..., Any]:
    """``forward``, but a torch tensor that it made and filled from our tensors is returned as one of ours."""

    @wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        if torch._C._functorch.maybe_current_level() is not None:
            raise RuntimeError(TRANSFORMED)
        result = forward(*args, **kwargs)
        return counterparts(result) if fillings.any else result

    return run


def _last_base(kind: type) -> Any:
    """The last base of a converted class: our block if the class is derived from torch's same block, else ``Module``.

    It is ``Module`` also if the class replaces a part of the block: our block may lack the part, so torch's code runs.
    """
    classes = own_classes(kind)
    at = next((place for place, base in enumerate(classes) if known_block(base) is not None), None)
    if at is None:
        return _MODULES
    theirs = classes[at]
    ours: Any = known_block(theirs)
    replaced = {name for base in classes[:at] for name in vars(base) if not name.startswith("__")} - _REPLACED
    parts = {
        name for base in (*own_classes(theirs), *ours.__mro__[: ours.__mro__.index(Module)]) for name in vars(base)
    }
    return _MODULES if replaced & parts else _pair(theirs)


_REPLACED = {"forward", "extra_repr", "reset_parameters"}
"""The names that a class may define without replacing a part of the block that it is derived from."""


def _make_pair(theirs: type) -> type[Module]:
    ours: Any = known_block(theirs)
    # The __getstate__ of torch's blocks leaves out attributes that ours do not have.
    own = {"__doc__": ours.__doc__, "__getstate__": object.__getstate__}
    made: type[Module] = new_class(ours.__name__, (ours, theirs), {}, lambda names: names.update(own))
    return made


_pair: Callable[[Any], type[Module]] = cache(_make_pair)
"""The class that is derived from two: our block, and torch's block of the same name."""


converted_class: Callable[[Any], type[Module]] = cache(_make)
"""Returns, for the class of a torch module, the class that it has after the conversion. Each is made once."""


def _class_for(kind: type) -> type[Module]:
    """For pickles, which name functions by their place."""
    return converted_class(kind)


def empty_of(kind: type) -> Any:
    """For copies and pickles: an object of the class for ``kind``, without attributes yet."""
    return object.__new__(converted_class(kind))


def empty(theirs: torch.nn.Module) -> Any:
    """An object of the class for ``theirs``, which holds nothing but the values of its slots.

    Raises:
        TypeError: ``theirs`` is a module and also, for example, a dict. The content of the dict would be lost.
    """
    kind = type(theirs)
    try:
        made = empty_of(kind)
    except TypeError as error:
        raise TypeError(
            f"from_torch(): {kind.__name__} cannot be converted, because it is not only a module: {error}. "
            f"{UNMODIFIED[0].upper()}{UNMODIFIED[1:]}"
        ) from error
    for base in own_classes(kind):
        for slot in vars(base).values():
            if isinstance(slot, MemberDescriptorType) and hasattr(theirs, slot.__name__):
                slot.__set__(made, slot.__get__(theirs))
    return made


def own_classes(kind: type) -> list[type]:
    """The classes of ``kind``, itself first, that come before torch's ``Module``."""
    return [base for base in kind.__mro__ if base not in torch.nn.Module.__mro__]


def defines(kind: type, name: str) -> bool:
    """Whether ``kind``, or a class between it and torch's ``Module``, has its own definition of ``name``."""
    return any(name in vars(base) for base in own_classes(kind))


def hides(theirs: torch.nn.Module, name: str) -> bool:
    """Whether a property of the class hides the parameter, buffer or child ``name``, as it does in torch.

    Raises:
        NotImplementedError: another attribute of the class does. Python finds it first only in torch's module, which
            keeps these in dicts of their own.
    """
    kind = type(theirs)
    found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
    if hasattr(type(found), "__set__"):
        return True
    if hasattr(kind, name):
        raise NotImplementedError(
            f"from_torch(): the class {kind.__name__} has an attribute {name!r}, which hides what the module has "
            f"registered under this name: rename one of them, or {UNMODIFIED}"
        )
    return False


def _check_class(kind: type) -> None:
    """Raise if the class overrides a method that nbgrad never calls, or has a private name of our ``Module``."""
    for name, instead in NEVER_CALLED.items():
        if defines(kind, name) and name != "_replicate_for_data_parallel":  # there is no DataParallel to call it
            raise NotImplementedError(
                f"from_torch(): {kind.__name__} overrides torch's private {name}(), which nbgrad never calls: "
                f"{instead}; or {UNMODIFIED}"
            )
    check_names(kind, {name for base in own_classes(kind) for name in vars(base)})


def check_names(kind: type, names: Any) -> None:
    """Raise if one of ``names``, the attributes of a module or class, is a private name of our ``Module``."""
    taken = sorted(_PRIVATE.intersection(names))
    if taken:
        raise NotImplementedError(
            f"from_torch(): {kind.__name__} has an attribute {taken[0]!r}, and that is a private name of nbgrad's "
            f"Module: rename it, or {UNMODIFIED}"
        )


def _own_attributes_first(kind: Any) -> Callable[[Any, str], Any]:
    """``__getattribute__`` for a class with a ``__getattr__``: it gets parameters from ``__getattr__``, as in torch.

    In torch parameters are in dicts of their own, not among the attributes, so Python calls ``__getattr__`` for them.
    """
    usual: Callable[[Any, str], Any] = kind.__getattribute__

    def get(self: Any, name: str) -> Any:
        roles = object.__getattribute__(self, "__dict__").get("_roles")
        if roles is not None and name in roles and not hasattr(type(self), name):
            return type(self).__getattr__(self, name)
        return usual(self, name)

    return get


def _compared_first(kind: Any) -> Callable[..., Any]:
    """``__call__`` for a class that has its own: the first call is compared with torch's."""
    usual: Callable[..., Any] = kind.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        hooks = self._hooks
        if hooks is not None and hooks.first_call is not None:
            return hooks.first_call.run(self, usual, args, kwargs)
        return usual(self, *args, **kwargs)

    return call
