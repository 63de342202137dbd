"""``from_torch``: a model of torch's becomes one of ours, which shares its memory."""

from collections.abc import Callable
from functools import cache, wraps
from types import MethodType, new_class
from typing import Any

import torch

from nbgrad import nn
from nbgrad.core.tensor.filled import counterparts, fillings
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter, is_lazy
from nbgrad.nn.utils import parametrizations

_BASE = {*vars(torch.nn.Module()), "_flat_weights", "_flat_weight_refs"}
"""What every module of torch keeps for itself, and what recurrent ones do: not copied."""

_STAYS_OURS = {"state_dict", "load_state_dict", "to", "float", "double", "half", "cpu", "cuda", "type", "zero_grad"}
"""Methods that are about torch's tensors where a module defines its own."""

_PLACES = {torch.nn: nn, torch.nn.utils.parametrizations: parametrizations}
"""Where torch's blocks are, and ours of the same names."""

_SAME: dict[type, type] = {torch.nn.modules.linear.NonDynamicallyQuantizableLinear: torch.nn.Linear}


def from_torch(module: torch.nn.Module) -> Module:
    """``module`` with nbgrad's engine: its forward is recorded, differentiated and drawn by us.

    A block that ``nbgrad.nn`` has becomes ours. Any other module keeps its own forward, which is run on our tensors:
    torch's functions in it find our ops. Parameters and buffers share their memory with torch's, under the same keys;
    what is shared within the model stays shared. ``copy.deepcopy`` the result for memory of its own.

    Args:
        module: a module of torch's, in training mode or not, on any device.

    Raises:
        TypeError: ``module`` is no module, or one compiled by torch.jit, which has no forward in Python.
        RuntimeError: a lazy module that has not seen an input yet.
        NotImplementedError: the module has backward hooks; or, when it is called, it needs an op that nbgrad has not.
    """
    return _Conversion().module(module)


class _Conversion:
    """What has become of what, so that shared parts stay shared."""

    def __init__(self) -> None:
        self.modules: dict[torch.nn.Module, Module] = {}
        self.tensors: dict[torch.Tensor, Any] = {}

    def module(self, theirs: Any) -> Module:
        if theirs in self.modules:
            return self.modules[theirs]
        _check(theirs)
        kind = _known(type(theirs)) or _running(type(theirs))
        ours: Module = kind.__new__(kind)
        self.modules[theirs] = ours
        Module.__init__(ours)
        for name, parameter in theirs._parameters.items():
            ours._register(name, self.parameter(parameter), "parameter")
        for name, buffer in theirs._buffers.items():
            role = "transient" if name in theirs._non_persistent_buffers_set else "buffer"
            ours._register(name, buffer, role)
            if buffer is not None:
                vars(ours.__dict__[name]).update(vars(buffer))
        for name, child in theirs._modules.items():
            ours._register(name, None if child is None else self.module(child), "module")
        for name, value in vars(theirs).items():
            if name not in _BASE:
                ours.__dict__[name] = self.value(value)
        ours.training = theirs.training
        _copy_hooks(theirs, ours)
        return ours

    def parameter(self, theirs: Any) -> Parameter | None:
        if theirs is None:
            return None
        if theirs not in self.tensors:
            self.tensors[theirs] = made = Parameter(theirs.detach(), theirs.requires_grad)
            vars(made).update(vars(theirs))  # the user's attributes
        found: Parameter = self.tensors[theirs]
        return found

    def value(self, theirs: Any) -> Any:
        """A plain attribute: modules and parameters in it, and methods of modules, become ours."""
        if isinstance(theirs, torch.nn.Module):
            return self.module(theirs)
        if isinstance(theirs, torch.nn.Parameter):
            return self.parameter(theirs)
        if isinstance(theirs, MethodType) and isinstance(theirs.__self__, torch.nn.Module):
            return MethodType(theirs.__func__, self.module(theirs.__self__))
        if type(theirs) in {list, tuple, set}:
            return type(theirs)(self.value(one) for one in theirs)
        if type(theirs) is dict:
            return {key: self.value(one) for key, one in theirs.items()}
        return theirs


def _check(theirs: Any) -> None:
    if not isinstance(theirs, torch.nn.Module):
        raise TypeError(f"from_torch takes a torch.nn.Module, not {torch.typename(theirs)}")
    name = type(theirs).__name__
    if isinstance(theirs, torch.jit.ScriptModule):
        raise TypeError(f"{name} was compiled by torch.jit and has no forward in Python: pass the module it came from")
    if any(is_lazy(one) for one in (*theirs._parameters.values(), *theirs._buffers.values())):
        raise RuntimeError(f"{name} does not know its shapes yet: call it once on an input before from_torch")
    if theirs._backward_hooks or theirs._backward_pre_hooks:
        raise NotImplementedError(f"{name} has backward hooks of torch's engine: register them on the result instead")


def _copy_hooks(theirs: torch.nn.Module, ours: Module) -> None:
    for number, before in theirs._forward_pre_hooks.items():
        ours.register_forward_pre_hook(before, with_kwargs=number in theirs._forward_pre_hooks_with_kwargs)
    for number, after in theirs._forward_hooks.items():
        always = number in theirs._forward_hooks_always_called
        ours.register_forward_hook(after, with_kwargs=number in theirs._forward_hooks_with_kwargs, always_call=always)


def _known(kind: type) -> type[Module] | None:
    """Our block for one of torch's own classes, if there is one."""
    kind = _SAME.get(kind, kind)
    for theirs, ours in _PLACES.items():
        if getattr(theirs, kind.__name__, None) is kind:
            found: type[Module] | None = getattr(ours, kind.__name__, None)
            return found
    return None


def _make_running(kind: Any) -> type[Module]:
    """A module of ours that runs the forward of ``kind``, a class of torch modules that we do not have.

    It is a subclass of both. What we define comes first, so that attributes, calls and saving are ours; but what
    ``kind`` defines itself, as its forward, comes before that.
    """
    theirs = [base for base in kind.__mro__ if base not in torch.nn.Module.__mro__]
    own = {
        name: value
        for base in reversed(theirs)
        for name, value in vars(base).items()
        if hasattr(Module, name) and not name.startswith("__") and name not in _STAYS_OURS
    }
    own["forward"] = _returning_ours(kind.forward)
    own |= {
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        "__reduce_ex__": lambda self, _protocol: (_empty, (kind,), vars(self)),
        "__setstate__": lambda self, state: self.__dict__.update(state),
    }
    made: type[Module] = new_class(kind.__name__, (Module, kind), {}, lambda names: names.update(own))
    return made


def _returning_ours(forward: Callable[..., Any]) -> Callable[..., Any]:
    """``forward``; a torch tensor that it made and filled with ours comes back as one of ours."""

    @wraps(forward)
    def run(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        return counterparts(result) if fillings.any else result

    return run


_running: Callable[[Any], type[Module]] = cache(_make_running)


def _empty(kind: type) -> Any:
    """For copies and pickles: an object of the class for ``kind``, without attributes yet."""
    return object.__new__(_running(kind))
