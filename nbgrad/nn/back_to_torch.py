"""A torch module is made from a converted one, with copies of everything that a forward may change."""

import copy
from collections import deque
from collections.abc import Callable
from functools import partial
from types import BuiltinFunctionType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any
from weakref import ref

import torch

from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.closures import ClosureCopy
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter
from nbgrad.nn.utils.rnn import PackedSequence

_ATOMS: tuple[type, ...] = (type(None), bool, int, float, complex, str, bytes, type, slice, type(Ellipsis))
_ATOMS += (FunctionType, BuiltinFunctionType, ModuleType)
_ATOMS += (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)

SMALL = 1 << 28
"""The parameters of a model are copied too if they take at most this many bytes. Larger ones share their memory: only a
forward that changes parameters would need the copies."""

_MOST = 100_000
"""The number of containers and objects that are copied; further ones are shared."""

_DEEPEST = 100
"""The depth to which structures are copied: deeper parts are shared."""

_OURS = {"_roles", "_hooks", "_saving_hooks", "_compared", "training"}


def raw(value: Any) -> torch.Tensor:
    """The torch tensor in ours, or torch's itself."""
    found: torch.Tensor = value._data if isinstance(value, Tensor) else value
    return found


class StructureCopy:
    """Copies structures, with ``leaf(tensor)`` in the place of each tensor; what cannot be copied is shared.

    Args:
        leaf: gets a tensor, ours or torch's.
    """

    def __init__(self, leaf: Callable[[Any], Any]) -> None:
        self._leaf = leaf
        self._depth = 0
        self._made: dict[int, Any] = {}
        self._kept: list[Any] = []  # or another object might get the id of one that is gone

    def remember(self, value: Any, made: Any) -> Any:
        """Let ``made`` replace ``value`` wherever ``value`` is found."""
        self._made[id(value)] = made
        self._kept.append(value)
        return made

    def __call__(self, value: Any) -> Any:
        """The replacement of ``value``."""
        if isinstance(value, _ATOMS):
            return value
        if id(value) in self._made:
            return self._made[id(value)]
        if isinstance(value, Tensor | torch.Tensor):
            return self.remember(value, self._leaf(value))
        if isinstance(value, Module | torch.nn.Module):
            return self.block(value)
        if isinstance(value, ref) and isinstance(value(), Module):
            return ref(self(value()))
        return self._function(value)

    def block(self, value: Any) -> Any:
        """A module, which stays as it is."""
        return value

    def _function(self, value: Any) -> Any:
        """The replacement of a function that holds values, of an object of torch's, or of any other object."""
        if isinstance(value, PackedSequence):
            return self.remember(value, torch.nn.utils.rnn.PackedSequence(*map(self, value)))
        if isinstance(value, torch.Generator):
            return self.remember(value, value.clone_state())
        if isinstance(value, MethodType):
            return MethodType(value.__func__, self(value.__self__))
        if type(value) is partial:
            named = {key: self(one) for key, one in value.keywords.items()}
            return partial(self(value.func), *map(self, value.args), **named)
        if isinstance(value, tuple | set | frozenset):
            return self._group(value)
        return self._object(value)

    def _group(self, value: Any) -> Any:
        """A tuple or set; itself if no part is replaced. A user's tuple class is not called: its arguments may vary."""
        parts = [self(one) for one in value]
        if all(made is one for made, one in zip(parts, value, strict=True)):
            return value
        if not isinstance(value, tuple) or type(value).__module__ == "torch.return_types":
            return type(value)(parts)
        made: Any = tuple.__new__(type(value), parts)
        if hasattr(value, "__dict__"):
            vars(made).update(vars(value))
        return made

    def _object(self, value: Any) -> Any:
        """A list, a dict or any object."""
        if len(self._kept) > _MOST or self._depth > _DEEPEST or type(value).__module__.startswith("torch.fx"):
            return value
        try:
            made = copy.copy(value)
        except Exception:  # a lock, an open file, ...
            made = value
        self.remember(value, made)
        if made is value:
            return value
        self._depth += 1
        self._fill(value, made)
        self._depth -= 1
        return made

    def _fill(self, value: Any, made: Any) -> None:
        """Put the replacements of the parts of ``value`` into ``made``, its copy."""
        if isinstance(value, list | deque):
            for place, one in enumerate(value):
                made[place] = self(one)
        elif isinstance(value, dict):
            for key, one in value.items():
                dict.__setitem__(made, key, self(one))
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            made.__dict__.update({key: self(one) for key, one in attributes.items()})


def values_of(value: Any) -> Any:
    """``value`` with a torch tensor without history in the place of each of its tensors, ours or torch's."""
    return StructureCopy(lambda one: raw(one).detach())(value)


def copied(value: Any) -> torch.Tensor:
    """A torch tensor with the values of ``value`` in memory of its own. It needs a gradient if ``value`` does."""
    data = raw(value).detach().clone()
    if not value.requires_grad:
        return data
    data.requires_grad_()
    return data if value.is_leaf else data.clone()  # no leaf: it may be changed in place


def holds_meta(value: Any) -> bool:
    """Whether a tensor in ``value`` is on the meta device, without numbers."""
    found: list[bool] = []
    StructureCopy(lambda one: found.append(raw(one).is_meta))(value)
    return any(found)


class Twins(StructureCopy):
    """A module of torch's for a converted one, and its arguments, for one call.

    Args:
        module: the converted one.
        args, kwargs: what its call is given.

    Attributes:
        root: the module of torch's.
        args, kwargs: the arguments.
        hooked: whether functions of the user's run around a forward. They may be made for our tensors.
        unknown: a module in it that ``from_torch`` has not made; or None.
    """

    def __init__(self, module: Module, args: Any, kwargs: Any) -> None:
        super().__init__(copied)
        self.hooked = False
        self.unknown: Module | None = None
        self._closure = ClosureCopy((Module, Parameter), self)
        self._copies = sum(one._data.nbytes for one in module.parameters()) <= SMALL
        self.root = self(module)
        self.args, self.kwargs = self(args), self(kwargs)

    def __call__(self, value: Any) -> Any:
        """The replacement of ``value``."""
        if isinstance(value, Parameter) and id(value) not in self._made:
            data = value._data.detach()
            return self.remember(value, torch.nn.Parameter(data.clone() if self._copies else data, value.requires_grad))
        if type(value) is FunctionType:
            return self._closure(value)
        return super().__call__(value)

    def block(self, value: Any) -> Any:
        """A torch module with everything that our module ``value`` holds."""
        kind: Any = vars(type(value)).get("_torch_class")
        if kind is None:
            self.unknown = value if isinstance(value, Module) else self.unknown
            return value
        made = self.remember(value, object.__new__(kind))
        own = made.__dict__
        own.update(vars(torch.nn.Module()), training=value.training)
        for name, role in value._roles.items():
            table = {"parameter": "_parameters", "module": "_modules"}.get(role, "_buffers")
            own[table][name] = self(vars(value)[name])
            if role == "transient":
                own["_non_persistent_buffers_set"].add(name)
        own.update({key: self(one) for key, one in vars(value).items() if key not in _OURS and key not in value._roles})
        for base in kind.__mro__:
            for slot in vars(base).values():
                if isinstance(slot, MemberDescriptorType) and hasattr(value, slot.__name__):
                    slot.__set__(made, self(slot.__get__(value)))
        self._hook(value, made)
        if isinstance(made, torch.nn.RNNBase):
            made._init_flat_weights()
        return made

    def _hook(self, value: Module, made: Any) -> None:
        for before in () if value._hooks is None else value._hooks.before.values():
            torch.nn.Module.register_forward_pre_hook(made, self(before.run), with_kwargs=before.with_kwargs)
            self.hooked = True
        for after in () if value._hooks is None else value._hooks.after.values():
            torch.nn.Module.register_forward_hook(made, self(after.run), with_kwargs=after.with_kwargs)
            self.hooked = True
