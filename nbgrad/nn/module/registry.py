"""What a module is made of: parameters, buffers and modules by name, and the walks through them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSet
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as every_module

from nbgrad.core.backend.torch_guards import check_asker
from nbgrad.core.engine.scope import forget_paths
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.module.torch_dicts import Held, TransientNames
from nbgrad.nn.parameter import Buffer, Parameter

if TYPE_CHECKING:
    from nbgrad.nn.module.module import Module


class Tree:
    """Registration of attributes, and the walks; ``Module`` is the class to use."""

    # What each registered attribute is: "parameter", "buffer", "transient" (a buffer that is not saved) or "module".
    # The values are plain attributes, so that reading ``self.weight`` costs what any attribute does.
    _roles: dict[str, str]

    # Registration.

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._register(name, value, "parameter", replace=True)
        elif isinstance(value, Tree):
            self._register(name, value, "module", replace=True)
        elif isinstance(value, Buffer):
            self._register(name, value, "buffer" if value.persistent else "transient", replace=True)
        elif role := self.__dict__.get("_roles", {}).get(name):
            self._register(name, value, role)
        else:
            if isinstance(value, torch.nn.Module | torch.nn.Parameter):
                _check_foreign(type(self).__name__, name, value)
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__.get("_roles", {}):
            self._discard(name)
        else:
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        """Every attribute that can be written down: not the numbers that a list of modules gives its own."""
        return [name for name in super().__dir__() if name.isidentifier()]

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make ``param`` the parameter ``name``; None keeps the name for a parameter that this module does without."""
        self._register(name, param, "parameter")

    def register_buffer(self, name: str, tensor: Tensor | torch.Tensor | None, persistent: bool = True) -> None:
        """Make ``tensor`` the buffer ``name``: state that is not learned, but moves with the module.

        Args:
            name: the attribute to read it by.
            tensor: its value; a torch tensor shares its memory.
            persistent: whether ``state_dict`` holds it.
        """
        self._register(name, tensor, "buffer" if persistent else "transient")

    def register_module(self, name: str, module: "Module | None") -> None:
        """Make ``module`` the child ``name``, as assigning it to that attribute does."""
        self._register(name, module, "module")

    def add_module(self, name: str, module: "Module | None") -> None:
        """Make ``module`` the child ``name``, as assigning it to that attribute does."""
        self._register(name, module, "module")

    def _register(self, name: str, value: Any, role: str, *, replace: bool = False) -> None:
        """Make ``value`` the attribute ``name``; with ``replace`` even if something else has that name."""
        if "_roles" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {role} {name!r} before Module.__init__() call: "
                f"begin {type(self).__name__}.__init__ with super().__init__()"
            )
        if not isinstance(name, str):
            raise TypeError(f"{role} name should be a string, got {torch.typename(name)}")
        if name == "" or "." in name:
            raise KeyError(f'{role} name can\'t be empty or contain ".", got {name!r}')
        value = _accepted(name, value, role)
        if self._roles.get(name) != role:
            if replace:
                self._discard(name)
            # Not hasattr: a __getattr__ of the user's may look at this very attribute.
            taken = name in self.__dict__ or hasattr(type(self), name)
            if taken and self._roles.get(name) not in _LIKE_ROLES.get(role, ()):
                raise KeyError(f"attribute {name!r} of {type(self).__name__} already exists")
        for hook in _REGISTRATION_HOOKS[role].values() if value is not None or role != "parameter" else ():
            value = _accepted(name, _first(hook(self, name, value), value), role)
        self._roles[name] = role
        self.__dict__[name] = value
        if role == "module":
            forget_paths()
        elif value is not None and value.name is None:
            value.name = name

    def _renew(self, name: str, data: torch.Tensor) -> None:
        """Give the buffer ``name`` other data; hooks hear of what is registered, not of this."""
        self.__dict__[name] = renewed = tensor(data)
        renewed.name = name

    def _discard(self, name: str) -> None:
        self.__dict__.pop(name, None)
        if self._roles.pop(name, None) == "module":
            forget_paths()

    def _own(self, *roles: str) -> Iterator[tuple[str, Any]]:
        """Name and value of this module's own attributes with one of ``roles``, in order of registration."""
        for name, role in self._roles.items():
            if role in roles and (value := self.__dict__[name]) is not None:
                yield name, value

    def _all(self, *roles: str) -> Mapping[str, Any]:
        return MappingProxyType({name: self.__dict__[name] for name, role in self._roles.items() if role in roles})

    @property
    def _parameters(self) -> MutableMapping[str, Parameter | None]:
        """This module's own parameters by name."""
        check_asker()
        return Held(self, "parameter")

    @property
    def _buffers(self) -> MutableMapping[str, Tensor | None]:
        """This module's own buffers by name."""
        check_asker()
        return Held(self, "buffer", "transient")

    @property
    def _non_persistent_buffers_set(self) -> MutableSet[str]:
        """The names of this module's own buffers that ``state_dict`` does not hold."""
        return TransientNames(self)

    @property
    def _modules(self) -> "MutableMapping[str, Module | None]":
        """The modules directly in this one by name."""
        return Held(self, "module")

    # What is inside.

    def named_modules(
        self, memo: "set[Module] | None" = None, prefix: str = "", remove_duplicate: bool = True
    ) -> "Iterator[tuple[str, Module]]":
        """This module and every one below it, each with its path, parents before children.

        Args:
            memo: modules to leave out; those found are added.
            prefix: what the paths begin with.
            remove_duplicate: whether a shared module comes once, under its first path.
        """
        seen: set[Any] = set() if memo is None else memo
        waiting: list[tuple[str, Any]] = [(prefix, self)]
        while waiting:
            path, module = waiting.pop()
            if module is not self and getattr(module.named_modules, "__func__", None) is not Tree.named_modules:
                yield from module.named_modules(seen, path, remove_duplicate)  # it goes through its own in another way
                continue
            if remove_duplicate:
                if module in seen:
                    continue
                seen.add(module)
            yield path, module
            for name, child in reversed([*module._own("module")]):
                waiting.append((join(path, name), child))

    def modules(self, remove_duplicate: bool = True) -> "Iterator[Module]":
        """This module and every one below it, a shared one once if ``remove_duplicate``."""
        check_asker()
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> "Iterator[tuple[str, Module]]":
        """The modules directly in this one with their names, a shared one once."""
        seen: set[Any] = set()
        for name, child in self._own("module"):
            if child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> "Iterator[Module]":
        """The modules directly in this one, a shared one once."""
        return (child for _, child in self.named_children())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its path; a shared one once, under its first path, if ``remove_duplicate``."""
        own = lambda module: module._own("parameter")  # noqa: E731
        return self._named_members(own, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Every parameter, a shared one once: what an optimizer is given."""
        check_asker()
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Every buffer with its path; a shared one once, under its first path, if ``remove_duplicate``."""
        own = lambda module: module._own("buffer", "transient")  # noqa: E731
        return self._named_members(own, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every buffer, a shared one once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Iterable[tuple[str, Any]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """What ``get_members_fn(module)`` gives for each module, pairs of name and value, by path."""
        seen: set[Any] = set()
        walk: Any = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        )
        for path, module in walk:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield join(path, name), value

    # By path.

    def get_submodule(self, target: str) -> "Module":
        """The module at the path ``target``, as ``"encoder.layers.3"``; this one for an empty path.

        Raises:
            AttributeError: there is none.
        """
        module: Any = self
        for name in target.split(".") if target else ():
            found = getattr(module, name, None)
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute {name!r}, of the path {target!r}")
            if not isinstance(found, Tree):
                raise AttributeError(f"{name!r} of {type(module).__name__}, of the path {target!r}, is not a Module")
            module = found
        return module  # type: ignore[no-any-return]  # every Tree is a Module

    def set_submodule(self, target: str, module: "Module", strict: bool = False) -> None:
        """Put ``module`` in the place of the one at the path ``target``.

        Args:
            target: the path.
            module: what goes there.
            strict: whether there has to be one already.

        Raises:
            ValueError: the path is empty, or ``module`` is no ``Module``.
            AttributeError: a module on the way is missing; with ``strict``, the last one too.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Tree):
            raise ValueError(f"module is not an instance of nn.Module: {module!r}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            parent.get_submodule(name)
        parent._register(name, module, "module", replace=True)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at the path ``target``, as ``"encoder.layers.3.weight"``.

        Raises:
            AttributeError: there is none.
        """
        return self._at(target, ("parameter",), "an nn.Parameter")  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at the path ``target``, as ``"norm.running_mean"``.

        Raises:
            AttributeError: there is none.
        """
        return self._at(target, ("buffer", "transient"), "a buffer")  # type: ignore[no-any-return]

    def _at(self, target: str, roles: tuple[str, ...], kind: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute {name!r}, of the path {target!r}")
        if module._roles.get(name) not in roles:
            raise AttributeError(f"{name!r} of {type(module).__name__} is not {kind}")
        return getattr(module, name)


_REGISTRATION_HOOKS: dict[str, Any] = {
    "parameter": every_module._global_parameter_registration_hooks,
    "buffer": every_module._global_buffer_registration_hooks,
    "transient": every_module._global_buffer_registration_hooks,
    "module": every_module._global_module_registration_hooks,
}
"""Functions of the user's that see what any module registers: torch's own tables."""


def _first(returned: Any, value: Any) -> Any:
    return value if returned is None else returned


_LIKE_ROLES = {"buffer": ("transient",), "transient": ("buffer",)}
"""Which role an attribute may have had that is registered again: a buffer may begin, or cease, to be saved."""


def join(path: str, name: str) -> str:
    """The path of ``name`` below ``path``."""
    return f"{path}.{name}" if path else name


def _check_foreign(kind: str, name: str, value: "torch.nn.Module | torch.nn.Parameter") -> None:
    """Raise an error about what is torch's own and would be learned: no optimizer would find it here."""
    learned = [value] if isinstance(value, torch.nn.Parameter) else value.parameters()
    if any(one.requires_grad for one in learned):
        instead = "Parameter(p.data)" if isinstance(value, torch.nn.Parameter) else "from_torch(module)"
        raise TypeError(
            f"attribute {name!r} of {kind} is a {torch.typename(value)} of torch's, which nbgrad does not "
            f"differentiate: write nbgrad.nn.{instead}, or freeze it with requires_grad_(False)"
        )
    modules = value.modules() if isinstance(value, torch.nn.Module) else ()
    for inner in modules:
        held = next((key for key, one in vars(inner).items() if isinstance(one, Tree | Parameter)), None)
        if held is not None:
            whose = "" if inner is value else f", whose {type(inner).__name__} is one too"
            raise TypeError(
                f"attribute {name!r} of {kind} is a {type(value).__name__}, a torch.nn.Module{whose}: it holds "
                f"{held!r}, which is nbgrad's and which no optimizer and no state_dict would find there. "
                f"Derive {type(inner).__name__} from nbgrad.nn.Module"
            )


def _accepted(name: str, value: Any, role: str) -> Any:
    """``value`` as what an attribute with ``role`` holds, or an error that says what it must be."""
    expected: type = {"parameter": Parameter, "module": Tree}.get(role, Tensor)
    if expected is Tensor and isinstance(value, torch.Tensor):
        return tensor(value)
    if expected is Parameter and isinstance(value, Tensor) and not value.is_leaf:
        raise ValueError(
            f"cannot assign the result of {value.grad_fn} to parameter {name!r}: a parameter is a leaf. "
            "To compute it from another one, do that in forward()"
        )
    if value is None or isinstance(value, expected):
        return value
    wanted = "nbgrad.nn.module.module.Module" if expected is Tree else torch.typename(expected)
    what = f"{torch.typename(value)!r} object"
    hint = ""
    if isinstance(value, torch.nn.Module):
        hint = ": nbgrad.from_torch(module) makes one of it"
    elif isinstance(value, type) and expected is Tree:
        what, hint = f"the class {value.__name__}", f": write {value.__name__}(), with what it takes"
    elif isinstance(value, list) and expected is Tree:
        hint = ": pass the modules one by one, as *modules, or make an nn.ModuleList of them"
    elif expected is Parameter and isinstance(value, Tensor | torch.Tensor):
        hint = ": nbgrad.nn.Parameter(t) makes one of it"
    raise TypeError(f"cannot assign {what} to {role} {name!r} ({wanted} or None required){hint}")
