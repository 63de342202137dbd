"""Module: the base of every block, which knows its parameters, buffers and children by name."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Self

import torch

from nbgrad.core.modes import Switch, current
from nbgrad.core.tensor import Tensor, check_device, tensor
from nbgrad.nn.parameter import Parameter
from nbgrad.nn.scopes import ModuleScope, forget_paths


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict`` could not match; both empty when it was strict."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """A block of a network: parameters, child modules, and a ``forward`` that computes with them.

    Subclass it, call ``super().__init__()`` first, assign parameters and modules to attributes, and write ``forward``.
    Names, order and ``state_dict`` keys are torch's. Inside an ``AutogradGraph`` every call is drawn as a box.

    Attributes:
        training: True in training mode, False after ``eval()``.
    """

    training: bool
    # What each registered attribute is: "parameter", "buffer", "transient" (a buffer that is not saved) or "module".
    # The values are plain attributes, so that reading ``self.weight`` costs what any attribute does.
    _roles: dict[str, str]

    def __init__(self) -> None:
        self.__dict__["_roles"] = {}
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; every subclass defines it."""
        raise NotImplementedError(f'{type(self).__name__} has no "forward": define it to say what the module computes')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = current()
        if not state.observers:
            return self.forward(*args, **kwargs)
        with Switch(scope=ModuleScope(self, state.scope)):
            return self.forward(*args, **kwargs)

    # Registration.

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._register(name, value, "parameter", replace=True)
        elif isinstance(value, Module):
            self._register(name, value, "module", replace=True)
        elif role := self.__dict__.get("_roles", {}).get(name):
            self._register(name, value, role)
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._roles:
            self._discard(name)
        else:
            object.__delattr__(self, name)

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

    add_module = register_module

    def _register(self, name: str, value: Any, role: str, *, replace: bool = False) -> None:
        """Make ``value`` the attribute ``name``; with ``replace`` even if something else has that name."""
        if "_roles" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {role} {name!r} before Module.__init__() call: "
                f"begin {type(self).__name__}.__init__ with super().__init__()"
            )
        if name == "" or "." in name:
            raise KeyError(f'{role} name can\'t be empty or contain ".", got {name!r}')
        value = _accepted(name, value, role)
        if self._roles.get(name) != role:
            if replace:
                self._discard(name)
            if hasattr(self, name):
                raise KeyError(f"attribute {name!r} of {type(self).__name__} already exists")
        self._roles[name] = role
        self.__dict__[name] = value
        if role == "module":
            forget_paths()
        elif value is not None and value.name is None:
            value.name = name

    def _discard(self, name: str) -> None:
        self.__dict__.pop(name, None)
        if self._roles.pop(name, None) == "module":
            forget_paths()

    def _own(self, *roles: str) -> Iterator[tuple[str, Any]]:
        """Name and value of this module's own attributes with one of ``roles``, in order of registration."""
        for name, role in self._roles.items():
            if role in roles and (value := self.__dict__[name]) is not None:
                yield name, value

    # What is inside.

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, "Module"]]:
        """This module and every one below it, each with its path, parents before children."""
        seen: set[Module] = set()
        waiting: list[tuple[str, Module]] = [(prefix, self)]
        while waiting:
            path, module = waiting.pop()
            if remove_duplicate and module in seen:
                continue
            seen.add(module)
            yield path, module
            waiting += [(_join(path, name), child) for name, child in reversed([*module._own("module")])]

    def modules(self) -> Iterator["Module"]:
        """This module and every one below it, a shared one once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """The modules directly in this one with their names, a shared one once."""
        seen: set[Module] = set()
        for name, child in self._own("module"):
            if child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator["Module"]:
        """The modules directly in this one, a shared one once."""
        return (child for _, child in self.named_children())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its path; a shared one once, under its first path, if ``remove_duplicate``."""
        return self._named_tensors(("parameter",), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Every parameter, a shared one once: what an optimizer is given."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Every buffer with its path; a shared one once, under its first path, if ``remove_duplicate``."""
        return self._named_tensors(("buffer", "transient"), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every buffer, a shared one once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named_tensors(
        self, roles: tuple[str, ...], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Tensor] = set()
        modules = self.named_modules(prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in module._own(*roles):
                if remove_duplicate and value in seen:
                    continue
                seen.add(value)
                yield _join(path, name), value

    # What is done to all of it.

    def apply(self, fn: Callable[["Module"], Any]) -> Self:
        """Call ``fn`` on every module below this one, then on this one; for initialisation, say."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch this module and those below it to training mode, or to evaluation with ``mode=False``."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Switch this module and those below it to evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say of every parameter whether it gets gradients; False freezes the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradient of every parameter, or fill it with zeros in place with ``set_to_none=False``."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach()
                parameter.grad.data.zero_()

    def to(
        self,
        *args: torch.device | torch.dtype | str,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> Self:
        """Move parameters and buffers to ``device``, and change the element type of those with floating point numbers.

        Both may be given by position too, as in ``module.to("cuda")``. Parameters stay the same objects, so an
        optimizer keeps them.

        Raises:
            TypeError: ``dtype`` has no gradients.
            RuntimeError: a CUDA device where there is none.
        """
        for arg in args:
            if isinstance(arg, torch.dtype):
                dtype = arg
            else:
                device = arg
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"{type(self).__name__}.to() takes a floating point dtype, got {dtype}")
        place = None if device is None else check_device(device)
        return self._apply(lambda data: data.to(device=place, dtype=dtype if data.is_floating_point() else None))

    def _apply(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Self:
        for parameter in self.parameters():
            parameter.replace_data(change)
        for module in self.modules():
            for name, buffer in module._own("buffer", "transient"):
                module._register(name, change(buffer.data), module._roles[name])
        return self

    # Saving and loading.

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        """What ``state_dict`` holds, in torch's order: a shared tensor under each of its names."""
        for path, module in self.named_modules(remove_duplicate=False):
            for name, value in (*module._own("parameter"), *module._own("buffer")):
                yield _join(path, name), value

    def state_dict(self, *, prefix: str = "") -> dict[str, torch.Tensor]:
        """Every parameter and persistent buffer by its path, as torch tensors that share the module's memory.

        The keys are torch's: ``torch.save`` takes it, and a ``torch.nn`` model of the same structure loads it.
        """
        return {prefix + path: value.data.detach() for path, value in self._named_state()}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Copy values into the parameters and buffers, which stay the same objects in the same memory.

        Args:
            state_dict: torch tensors or ``Tensor`` objects by path, from this class's or torch's ``state_dict``.
            strict: raise if a key is missing or unexpected, instead of reporting it.

        Raises:
            RuntimeError: keys or shapes do not match; it lists them all, and nothing has been loaded.
            TypeError: ``state_dict`` is no dict.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"state_dict must be a dict of tensors, got {type(state_dict).__name__}")
        own = dict(self._named_state())
        missing = [key for key in own if key not in state_dict]
        unexpected = [key for key in state_dict if key not in own]
        shared = [(key, value, state_dict[key]) for key, value in own.items() if key in state_dict]
        problems = [problem for entry in shared if (problem := _misfit(*entry))]
        if strict and unexpected:
            problems.insert(0, f"Unexpected key(s) in state_dict: {', '.join(map(repr, unexpected))}")
        if strict and missing:
            problems.insert(0, f"Missing key(s) in state_dict: {', '.join(map(repr, missing))}")
        if problems:
            raise RuntimeError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *problems]))
        for _, value, loaded in shared:
            value.data.copy_(loaded.data)
        return IncompatibleKeys(missing, unexpected)

    # Printing.

    def extra_repr(self) -> str:
        """What ``repr`` shows between the parentheses: the settings of the block."""
        return ""

    def __repr__(self) -> str:
        settings = self.extra_repr()
        children = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self._own("module")]
        if not children:
            return f"{type(self).__name__}({settings})"
        lines = [settings, *children] if settings else children
        return "\n  ".join([f"{type(self).__name__}(", *lines]) + "\n)"


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _accepted(name: str, value: Any, role: str) -> Any:
    """``value`` as what an attribute with ``role`` holds, or an error that says what it must be."""
    expected: type = {"parameter": Parameter, "module": Module}.get(role, Tensor)
    if expected is Tensor and isinstance(value, torch.Tensor):
        return tensor(value)
    if value is None or isinstance(value, expected):
        return value
    raise TypeError(
        f"cannot assign {torch.typename(value)!r} object to {role} {name!r} "
        f"({torch.typename(expected)} or None required)"
    )


def _misfit(key: str, value: Tensor, loaded: Any) -> str | None:
    """Why ``loaded`` cannot be copied into ``value``, if it cannot."""
    if not isinstance(loaded, Tensor | torch.Tensor):
        return f"expected a tensor for {key}, got {torch.typename(loaded)}"
    if loaded.shape != value.shape:
        return f"size mismatch for {key}: got shape {tuple(loaded.shape)}, the model has {tuple(value.shape)}"
    return None
