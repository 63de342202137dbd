"""Module: the base of every block, which knows its parameters, buffers and children by name."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, MutableSet
from types import MappingProxyType
from typing import Any, ClassVar, Self, overload

import torch
from torch.utils.hooks import RemovableHandle

from nbgrad.core.backend.torch_guards import check_asker
from nbgrad.core.engine.module_changes import (
    GLOBAL_BACKWARD_HOOKS,
    GLOBAL_BACKWARD_PRE_HOOKS,
    GLOBAL_FORWARD_HOOKS,
    GLOBAL_FORWARD_PRE_HOOKS,
    module_changes,
)
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.scope import called, forget_paths
from nbgrad.core.engine.state import current
from nbgrad.core.engine.tensor_data import check_device
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.module.call import (
    BackwardHooks,
    Hook,
    ModuleHooks,
    add_hook,
    add_path,
    forward_hooks,
    run_after_error,
    run_forward_hook,
    run_forward_pre_hooks,
)
from nbgrad.nn.module.registry import LIKE_ROLES, REGISTRATION_HOOKS, accepted, check_foreign, join
from nbgrad.nn.module.state_dict import (
    EXTRA,
    Entry,
    IncompatibleKeys,
    Load,
    SavingHook,
    SavingHooks,
    current_load,
    detached_data,
)
from nbgrad.nn.module.torch_dicts import Held, HookFunctions, TransientNames
from nbgrad.nn.parameter import Buffer, Parameter, Uninitialized

NEVER_CALLED = {
    "_call_impl": "override __call__ or forward, or register a hook",
    "_wrapped_call_impl": "override __call__ or forward, or register a hook",
    "_slow_forward": "override forward",
    "_get_backward_hooks": "register_full_backward_hook() adds a hook",
    "_get_backward_pre_hooks": "register_full_backward_pre_hook() adds a hook",
    "_maybe_warn_non_full_backward_hook": "there are only full backward hooks",
    "_replicate_for_data_parallel": "there is no DataParallel",
}
"""Methods of torch's Module that a subclass would override for nothing, and what to do instead."""


TRANSFORMED = (
    "a transform of torch.func, such as grad, jvp or vmap, was given a module of nbgrad's, whose tensors it cannot "
    "follow: use nbgrad.autograd.functional, which has jvp, vjp, jacobian and hessian, or transform the torch module "
    "that from_torch() was given"
)
"""The error of a module inside a transform of torch.func."""

_level = torch._C._functorch.maybe_current_level


class Module:
    """A part of a network: parameters, child modules, and a ``forward`` that computes with them.

    Subclass it, call ``super().__init__()`` first, assign parameters and modules to attributes, and write ``forward``.
    Names, order and ``state_dict`` keys are torch's. Inside an ``AutogradGraph`` every call is drawn as a box, and an
    error names the path of the block that raised it.

    Attributes:
        training: True in training mode, False after ``eval()``.
        __formula__: the formula of the block, in LaTeX; the view shows it with the first line of the docstring. You may
            set it in a class of your own.
    """

    training: bool
    __formula__: ClassVar[str] = ""

    call_super_init: ClassVar[bool] = False
    """Whether ``Module.__init__`` passes its arguments on to the next class, for classes with several bases."""

    _runs_functions: ClassVar[bool] = False
    """Whether the forward also runs functions of the user's. If so, nbgrad searches the source line of each op."""

    # The role of each registered attribute: "parameter", "buffer", "transient" (a buffer that is not saved) or
    # "module". The values are plain attributes, so that reading ``self.weight`` costs what any attribute does.
    _roles: dict[str, str]

    _hooks: ModuleHooks | None = None
    _saving_hooks: SavingHooks | None = None
    _version: int = 1

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            given = f"keyword argument {next(iter(kwargs))!r}" if kwargs else f"{len(args)} positional arguments"
            name = type(self).__name__
            raise TypeError(f"{name}.__init__() passed {given} to Module.__init__(), which takes no arguments")
        self.__dict__["_roles"] = {}
        self.training = True
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        for name, instead in NEVER_CALLED.items():
            if name in cls.__dict__:
                raise TypeError(
                    f"{cls.__name__} overrides torch's private {name}(), which nbgrad never calls: {instead}"
                )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes of a copy or pickle; a subclass with older pickles overrides it."""
        self.__dict__.update(state)

    # The call.

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        state = current()
        plain = self._hooks is None and not (
            GLOBAL_FORWARD_PRE_HOOKS or GLOBAL_FORWARD_HOOKS or GLOBAL_BACKWARD_PRE_HOOKS or GLOBAL_BACKWARD_HOOKS
        )
        run = self.forward if plain else self._with_hooks
        if _level() is not None and any(isinstance(one, torch.Tensor) for one in (*args, *kwargs.values())):
            raise RuntimeError(TRANSFORMED)
        try:
            if not state.observers:
                return run(*args, **kwargs)
            return called(self, state, run, args, kwargs)
        except Exception as error:
            add_path(error, self, args)
            raise

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; every subclass defines this method."""
        raise NotImplementedError(f'{type(self).__name__} has no "forward": define it to say what the module computes')

    def _misfit(self, _input: Tensor) -> str | None:
        """The message about an input on which ``forward`` raised an error, if its shape is the cause."""
        return None

    def _with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is not None and self._hooks.first_call is not None:
            return self._hooks.first_call.run(self, Module._hooked, args, kwargs)
        return self._hooked(*args, **kwargs)

    def _hooked(self, *args: Any, **kwargs: Any) -> Any:
        output, began = None, set[int]()
        try:
            own = self._hooks or ModuleHooks()
            watched = BackwardHooks(self, own)
            args, kwargs = run_forward_pre_hooks(self, own, args, kwargs)
            args = watched.inputs(args)
            output = self.forward(*args, **kwargs)
            for number, hook in forward_hooks(self._hooks).items():
                began.add(number)
                returned = run_forward_hook(self, hook, args, kwargs, output)
                output = output if returned is None else returned
            return watched.output(output)
        except Exception:
            for number, hook in forward_hooks(self._hooks).items():
                if hook.always_call and number not in began:
                    output = run_after_error(self, hook, args, kwargs, output)
            raise

    # Registration.

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._register(name, value, "parameter", replace=True)
        elif isinstance(value, Module):
            self._register(name, value, "module", replace=True)
        elif isinstance(value, Buffer):
            self._register(name, value, "buffer" if value.persistent else "transient", replace=True)
        elif role := self.__dict__.get("_roles", {}).get(name):
            self._register(name, value, role)
        else:
            if isinstance(value, torch.nn.Module | torch.nn.Parameter):
                check_foreign(type(self).__name__, name, value, Module)
            module_changes.count += 1
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if name in self.__dict__.get("_roles", {}):
            self._discard(name)
        else:
            module_changes.count += 1
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        """Every attribute whose name is an identifier, so without the numbers of the modules in a list."""
        return [name for name in super().__dir__() if name.isidentifier()]

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Make ``param`` the parameter ``name``; None says that this module does not have this parameter."""
        self._register(name, param, "parameter")

    def register_buffer(self, name: str, tensor: Tensor | torch.Tensor | None, persistent: bool = True) -> None:
        """Make ``tensor`` the buffer ``name``: state that is not learned, but moves with the module.

        Args:
            name: the name of its attribute.
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

    def _register(self, name: str, value: Any, role: str, *, replace: bool = False, hidden: bool = False) -> None:
        """Make ``value`` the attribute ``name``; with ``replace`` even if something else has that name.

        ``hidden``: a property of the class may have that name. Then it answers who reads the attribute, and ``value``
        is known to ``_own`` alone.
        """
        if "_roles" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {role} {name!r} before Module.__init__() call: "
                f"begin {type(self).__name__}.__init__ with super().__init__()"
            )
        if not isinstance(name, str):
            raise TypeError(f"{role} name should be a string, got {torch.typename(name)}")
        if name == "" or "." in name:
            raise KeyError(f'{role} name can\'t be empty or contain ".", got {name!r}')
        value = accepted(name, value, role, Module)
        if self._roles.get(name) != role:
            if replace:
                self._discard(name)
            # Not hasattr: a __getattr__ of the user's may look at this very attribute.
            taken = name in self.__dict__ or (not hidden and hasattr(type(self), name))
            if taken and self._roles.get(name) not in LIKE_ROLES.get(role, ()):
                raise KeyError(f"attribute {name!r} of {type(self).__name__} already exists")
        for hook in REGISTRATION_HOOKS[role].values() if value is not None or role != "parameter" else ():
            returned = hook(self, name, value)
            value = accepted(name, value if returned is None else returned, role, Module)
        module_changes.count += 1
        self._roles[name] = role
        self.__dict__[name] = value
        if role == "module":
            forget_paths()
        elif value is not None and value.name is None:
            value.name = name

    def _renew(self, name: str, data: torch.Tensor) -> None:
        """Give the buffer ``name`` other data. Hooks run for a registration, not for this."""
        module_changes.count += 1
        self.__dict__[name] = renewed = tensor(data)
        renewed.name = name

    def _discard(self, name: str) -> None:
        module_changes.count += 1
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

    # Walks through modules, parameters and buffers.

    def named_modules(
        self, memo: "set[Module] | None" = None, prefix: str = "", remove_duplicate: bool = True
    ) -> "Iterator[tuple[str, Module]]":
        """This module and every one below it, each with its path, parents before children.

        Args:
            memo: a set of modules to leave out; the modules found are added to it.
            prefix: the text before each path.
            remove_duplicate: whether a shared module comes once, under its first path.
        """
        seen: set[Any] = set() if memo is None else memo
        waiting: list[tuple[str, Any]] = [(prefix, self)]
        while waiting:
            path, module = waiting.pop()
            if module is not self and getattr(module.named_modules, "__func__", None) is not Module.named_modules:
                yield from module.named_modules(seen, path, remove_duplicate)  # it overrides named_modules()
                continue
            if remove_duplicate:
                if module in seen:
                    continue
                seen.add(module)
            yield path, module
            for name, child in reversed(children_of(module)):
                waiting.append((join(path, name), child))

    def modules(self, remove_duplicate: bool = True) -> "Iterator[Module]":
        """This module and every one below it, a shared one once if ``remove_duplicate``."""
        check_asker()
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_children(self) -> "Iterator[tuple[str, Module]]":
        """The modules directly in this one with their names, a shared one once."""
        check_asker()
        return _each_once(children_of(self))

    def children(self) -> "Iterator[Module]":
        """The modules directly in this one, a shared one once."""
        return (child for _, child in self.named_children())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its path; a shared one once, under its first path, if ``remove_duplicate``."""
        check_asker()
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
        """The pairs of name and value that ``get_members_fn(module)`` returns for each module, by path."""
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

    def parameter_count(self, only_trainable: bool = False) -> int:
        """How many numbers the module learns, shared ones once; with ``only_trainable`` not the frozen ones."""
        return sum(one.numel() for one in self.parameters() if one.requires_grad or not only_trainable)

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
            if not isinstance(found, Module):
                raise AttributeError(f"{name!r} of {type(module).__name__}, of the path {target!r}, is not a Module")
            module = found
        return module  # type: ignore[no-any-return]

    def set_submodule(self, target: str, module: "Module", strict: bool = False) -> None:
        """Put ``module`` in the place of the one at the path ``target``.

        Args:
            target: the path.
            module: the new module.
            strict: whether there has to be one already.

        Raises:
            ValueError: the path is empty, or ``module`` is no ``Module``.
            AttributeError: a module on the way is missing; with ``strict``, the last one too.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
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

    # Modes and gradients.

    def train(self, mode: bool = True) -> Self:
        """Switch this module and those below it to training mode, or to evaluation with ``mode=False``.

        Raises:
            ValueError: ``mode`` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        waiting: list[Module] = [self]
        while waiting:
            module = waiting.pop()
            module.training = mode
            if (compared := module.__dict__.get("_compared")) is not None:
                compared.turned(module, mode)
            for child in module.children():
                if getattr(child.train, "__func__", None) is Module.train:
                    waiting.append(child)
                else:  # one of the user's
                    child.train(mode)
        return self

    def eval(self) -> Self:
        """Switch this module and those below it to evaluation mode."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set for every parameter whether it gets gradients; False freezes the module."""
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

    # Changes of all modules, parameters and buffers at once.

    def apply(self, fn: "Callable[[Module], Any]") -> Self:
        """Call ``fn`` on every module below this one, then on this one; for initialisation, say."""
        waiting: list[tuple[Any, bool]] = [(self, False)]
        while waiting:
            module, last = waiting.pop()
            if last:
                fn(module)
            elif module is not self and getattr(module.apply, "__func__", None) is not Module.apply:
                module.apply(fn)  # one of the user's
            else:
                waiting.append((module, True))
                waiting += [(child, False) for child in reversed([*module.children()])]
        return self

    @overload
    def to(
        self,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
        *,
        memory_format: torch.memory_format | None = None,
    ) -> Self: ...
    @overload
    def to(self, dtype: torch.dtype, non_blocking: bool = False) -> Self: ...
    @overload
    def to(self, tensor: Tensor | torch.Tensor, non_blocking: bool = False) -> Self: ...
    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move parameters and buffers to a device, and change the element type of those with floating point numbers.

        Call it as ``module.to("cuda")``, ``module.to(torch.float64)``, with both, or with a tensor whose device and
        element type they get.

        Args:
            args: the device, the element type, or a tensor that has both.
            kwargs: ``device``, ``dtype``, ``non_blocking``, and ``memory_format`` for parameters of rank 4 and 5.

        Raises:
            TypeError: ``dtype`` has no gradients.
            RuntimeError: a CUDA device where there is none.
        """
        args = tuple(raw_of(arg) for arg in args)
        parsed: Any = torch._C._nn._parse_to(*args, **kwargs)
        device, dtype, non_blocking, layout = parsed
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"{type(self).__name__}.to() takes a floating point or complex dtype, got {dtype}")
        place = None if device is None else check_device(device)

        def moved(data: torch.Tensor) -> torch.Tensor:
            wanted = dtype if data.is_floating_point() or data.is_complex() else None
            if layout is not None and data.ndim in {4, 5}:
                return data.to(place, wanted or data.dtype, non_blocking, memory_format=layout)
            return data.to(place, wanted or data.dtype, non_blocking)

        return self._apply(_for_both(moved))

    def type(self, dst_type: "torch.dtype | str") -> Self:
        """Give all parameters and buffers the element type ``dst_type``."""
        return self._apply(_for_both(lambda data: data.type(dst_type)))

    def float(self) -> Self:
        """Convert floating point parameters and buffers to ``float32``."""
        return self._as(torch.float32)

    def double(self) -> Self:
        """Convert floating point parameters and buffers to ``float64``."""
        return self._as(torch.float64)

    def half(self) -> Self:
        """Convert floating point parameters and buffers to ``float16``."""
        return self._as(torch.float16)

    def bfloat16(self) -> Self:
        """Convert floating point parameters and buffers to ``bfloat16``."""
        return self._as(torch.bfloat16)

    def _as(self, dtype: torch.dtype) -> Self:
        return self._apply(_for_both(lambda data: data.to(dtype) if data.is_floating_point() else data))

    def share_memory(self) -> Self:
        """Move parameters and buffers to memory that other processes see too."""
        return self._apply(_for_both(torch.Tensor.share_memory_))

    def cpu(self) -> Self:
        """Move parameters and buffers to the CPU."""
        return self._apply(_for_both(torch.Tensor.cpu))

    def cuda(self, device: "torch.device | str | int | None" = None) -> Self:
        """Move parameters and buffers to a CUDA device, the current one by default.

        Raises:
            RuntimeError: there is none.
        """
        place = torch.device("cuda", device) if isinstance(device, int) else device
        return self.to(check_device("cuda" if place is None else place))

    def to_empty(self, *, device: "torch.device | str | int | None", recurse: bool = True) -> Self:
        """Give parameters and buffers new memory on ``device``, with arbitrary values; default: the graph's device.

        With ``recurse=False`` only those of this module itself. After it, a model made on the device "meta" has memory.
        """
        place = current().device if device is None else torch.device(device)
        return self._apply(_for_both(lambda data: torch.empty_like(data, device=place)), recurse=recurse)

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replace the data of all parameters and buffers by what ``fn`` gives for them.

        ``to``, ``float``, ``cuda`` and their like call it, for the modules below this one first: a subclass that holds
        tensors of its own overrides it. ``fn`` gets torch tensors here. The functions that ``to`` and its like pass as
        ``fn`` also take a ``Tensor``, and then return one.
        """
        if recurse:
            for child in self.children():
                child._apply(fn)

        def change(data: torch.Tensor) -> torch.Tensor:
            changed: torch.Tensor = raw_of(fn(data))
            return changed

        for _, parameter in self._own("parameter"):
            parameter.replace_data(change)
        for name, buffer in list(self._own("buffer", "transient")):
            if isinstance(buffer, Uninitialized):
                buffer.replace_data(change)
            elif (changed := change(buffer.data)) is not buffer.data:
                self._renew(name, changed)
        return self

    # Saving and loading.

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Every parameter and persistent buffer by its path, as torch tensors that share the module's memory.

        The keys are torch's: ``torch.save`` takes it, and a ``torch.nn`` model of the same structure loads it.

        Args:
            destination: a dict to add them to, instead of a new one.
            prefix: the text before each key.
            keep_vars: give the parameters and buffers themselves, not their data.
        """
        saved: Any = destination
        if saved is None:
            saved = OrderedDict()
            saved._metadata = OrderedDict()
        facts = {"version": self._version}
        if hasattr(saved, "_metadata"):
            saved._metadata[prefix[:-1]] = facts
        for hook in self._hooks_of("saving"):
            hook.run(self, prefix, keep_vars)
        self._save_to_state_dict(saved, prefix, keep_vars)
        for name, child in children_of(self):
            child.state_dict(destination=saved, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._hooks_of("saved"):
            returned = hook.run(self, saved, prefix, facts)
            if returned is not None and not hook.apart:
                raise RuntimeError("state_dict post-hook must return None")
            saved = saved if returned is None else returned
        return saved  # type: ignore[no-any-return]

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put this module's own parameters, persistent buffers and extra state into ``destination``.

        ``state_dict`` calls it for each module: a subclass that saves in another way overrides it.
        """
        for role in ("parameter", "buffer"):
            for name, value in self._own(role):
                destination[prefix + name] = value if keep_vars else detached_data(value)
        if self._has_extra_state():
            destination[prefix + EXTRA] = self.get_extra_state()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values into the parameters and buffers, which stay the same objects in the same memory.

        Args:
            state_dict: torch tensors or ``Tensor`` objects by path, from this class's or torch's ``state_dict``.
            strict: raise if a key is missing or unexpected, instead of reporting it.
            assign: take the memory, element type and device of the values given, instead of copying them. Parameters
                stay the same objects then too, without their gradients, and tied ones stay tied.

        Raises:
            RuntimeError: keys or shapes do not match; it lists them all. Nothing has been loaded, unless a module
                loads in a way of its own or has hooks.
            TypeError: ``state_dict`` is no dict.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"state_dict must be a dict of tensors, got {kind_of(state_dict)}")
        given: dict[str, Any] = OrderedDict(state_dict)
        metadata = getattr(state_dict, "_metadata", None)
        if metadata is not None:
            given._metadata = metadata  # type: ignore[attr-defined]  # as torch keeps it
        load = Load(self, strict=strict, assign=assign)
        load.visit(given, metadata or {})
        load.check()
        load.write()
        return load.keys

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own values from ``state_dict``, and add what does not fit to the lists.

        ``load_state_dict`` calls it for each module: a subclass that loads in another way overrides it.

        Args:
            state_dict: values by path. A change in it also holds for the modules below this one.
            prefix: what the paths of this module's values begin with.
            local_metadata: what ``state_dict`` says of this module, as its ``version``.
            strict: whether to report keys that are missing or unexpected.
            missing_keys: a list to add keys to that are not in ``state_dict``.
            unexpected_keys: a list to add keys to that this module does not know.
            error_msgs: a list to add texts to about values that do not fit.
        """
        for hook in self._hooks_of("loading"):
            given = (state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
            hook.run(*given) if hook.apart else hook.run(self, *given)
        load = current_load() or Load(self, assign=local_metadata.get("assign_to_params_buffers", False))
        known: dict[str, Any] = {name: value for role in ("parameter", "buffer") for name, value in self._own(role)}
        optional = self._may_be_missing(local_metadata.get("version"))
        if self._has_extra_state():
            known[EXTRA] = None
        for name, value in known.items():
            if (key := prefix + name) not in state_dict:
                if strict and name not in optional:
                    missing_keys.append(key)
            elif name == EXTRA:
                self.set_extra_state(state_dict[key])
            else:
                load.take(Entry(self, name, key, value, state_dict[key]), error_msgs)
        if strict:
            unexpected_keys += [key for key in state_dict if key.startswith(prefix) and self._lacks(key, prefix, known)]

    def _lacks(self, key: str, prefix: str, known: Mapping[str, Any]) -> bool:
        """Whether a key of a ``state_dict`` leads to nothing in this module."""
        name, _, below = key[len(prefix) :].partition(".")
        return self._roles.get(name) != "module" if below else name not in known

    def get_extra_state(self) -> Any:
        """The state of this module besides tensors, for ``state_dict``. A subclass with such state defines it."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state: Any) -> None:  # noqa: ARG002
        """Restore the state that ``get_extra_state`` returned. A subclass with such state defines this method."""
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def _loads_plainly(self) -> bool:
        """Whether loading runs no code of the user's, except hooks before it."""
        own = getattr(self._load_from_state_dict, "__func__", None)
        return own is Module._load_from_state_dict and not self._hooks_of("loaded") and not self._has_extra_state()

    def _has_extra_state(self) -> bool:
        return type(self).get_extra_state is not Module.get_extra_state

    def _may_be_missing(self, _version: int | None) -> tuple[str, ...]:
        """The names of values that a state_dict of this version of the block does not have."""
        return ()

    # Hooks around the call.

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward; a value that it returns replaces the arguments.

        Args:
            hook: the function; with ``with_kwargs`` it gets ``(module, args, kwargs)`` and returns ``(args, kwargs)``,
                or None.
            prepend: whether it runs before the hooks that are already registered, not after them.
            with_kwargs: whether it sees the named arguments.
        """
        return add_hook(self._made_hooks().before, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each forward; a value that it returns replaces the output.

        Args:
            hook: the function; with ``with_kwargs`` it gets ``(module, args, kwargs, output)``.
            prepend: whether it runs before the hooks that are already registered, not after them.
            with_kwargs: whether it sees the named arguments.
            always_call: whether it runs, with None for the output, even if the forward raises an error.
        """
        return add_hook(self._made_hooks().after, Hook(hook, with_kwargs, always_call), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` in each backward when the gradients of the outputs are complete.

        ``grad_output`` is a tuple; a tuple that the hook returns replaces it.
        """
        return add_hook(self._made_hooks().backward_before, Hook(hook), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` in each backward when the inputs' gradients are complete.

        Both are tuples, with None for a tensor that has no gradient. ``grad_input`` holds the gradients of the
        positional arguments; a tuple that the hook returns replaces it.
        """
        return add_hook(self._made_hooks().backward_after, Hook(hook), prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Torch's older hook, which sees the gradients of whatever op the module runs last.

        Raises:
            NotImplementedError: always; ``register_full_backward_hook`` sees the gradients of the inputs of the module.
        """
        raise NotImplementedError(
            "register_backward_hook() is deprecated in torch, and what it sees depends on the op that a module runs "
            "last: use register_full_backward_hook()"
        )

    def _made_hooks(self) -> ModuleHooks:
        if self._hooks is None:
            self.__dict__["_hooks"] = ModuleHooks()  # not by a __setattr__ of the user's
        hooks: ModuleHooks = self.__dict__["_hooks"]
        return hooks

    # Hooks around saving and loading.

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before each ``state_dict``."""
        return self._add_hook("saving", SavingHook(hook))

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after each ``state_dict``, which it may change."""
        return self._add_hook("saved", SavingHook(hook))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Like ``register_state_dict_post_hook``, but what the hook returns takes the place of the ``state_dict``."""
        return self._add_hook("saved", SavingHook(hook, apart=True))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook`` before each ``load_state_dict``; it may change the ``state_dict`` that is loaded.

        It gets ``(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)``.
        """
        return self._add_hook("loading", SavingHook(hook))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """Like ``register_load_state_dict_pre_hook``; but without ``with_module`` the hook does not get the module."""
        return self._add_hook("loading", SavingHook(hook, apart=not with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after each ``load_state_dict``; it may clear keys from the lists."""
        return self._add_hook("loaded", SavingHook(hook))

    def _add_hook(self, kind: str, hook: SavingHook) -> RemovableHandle:
        if self._saving_hooks is None:
            self.__dict__["_saving_hooks"] = SavingHooks()
        table = getattr(self._saving_hooks, kind)
        handle = RemovableHandle(table)
        table[handle.id] = hook
        return handle

    def _hooks_of(self, kind: str) -> list[SavingHook]:
        return [] if self._saving_hooks is None else list(getattr(self._saving_hooks, kind).values())

    def _shown_hooks(self, kind: str) -> MutableMapping[int, Callable[..., Any]]:
        return HookFunctions({} if self._saving_hooks is None else getattr(self._saving_hooks, kind))

    # Attributes that are private in torch, and that programs read and change all the same.

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

    @property
    def _backward_pre_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that see the gradients of the outputs, by their numbers."""
        return HookFunctions({} if self._hooks is None else self._hooks.backward_before)

    @property
    def _backward_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that see the gradients of the inputs, by their numbers."""
        return HookFunctions({} if self._hooks is None else self._hooks.backward_after)

    @property
    def _forward_pre_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run before the forward, by their numbers."""
        check_asker()
        return HookFunctions({} if self._hooks is None else self._hooks.before)

    @property
    def _forward_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run after the forward, by their numbers."""
        return HookFunctions({} if self._hooks is None else self._hooks.after)

    @property
    def _state_dict_pre_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run before saving, by their numbers."""
        return self._shown_hooks("saving")

    @property
    def _state_dict_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run after saving, by their numbers."""
        return self._shown_hooks("saved")

    @property
    def _load_state_dict_pre_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run before loading, by their numbers."""
        return self._shown_hooks("loading")

    @property
    def _load_state_dict_post_hooks(self) -> MutableMapping[int, Callable[..., Any]]:
        """The functions that run after loading, by their numbers."""
        return self._shown_hooks("loaded")

    # Printing.

    def extra_repr(self) -> str:
        """The text that ``repr`` shows between the parentheses: the settings of the block."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        check_asker()  # some functions of torch see only torch's own parameters, and would find none here
        settings = self.extra_repr()
        children = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self._all("module").items()]
        if not children and "\n" not in settings:
            return f"{self._get_name()}({settings})"
        lines = [*(settings.split("\n") if settings else []), *children]
        return "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)"


def _for_both(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    """A function that applies ``change`` to torch tensors, and to nbgrad tensors that a user's module holds besides."""

    def changed(data: Any) -> Any:
        if not isinstance(data, Tensor):
            return change(data)
        return data if (made := change(data.data)) is data.data else Tensor(made, data.requires_grad and data.is_leaf)

    return changed


def children_of(module: Module) -> list[tuple[str, Module]]:
    """The modules directly in ``module`` with their names; one that has two names comes twice."""
    return list(module._own("module"))


def _each_once(children: "list[tuple[str, Module]]") -> "Iterator[tuple[str, Module]]":
    seen: set[Any] = set()
    for name, child in children:
        if child not in seen:
            seen.add(child)
            yield name, child
