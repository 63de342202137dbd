"""The types that a module may register in each role, and the paths of its members."""

from typing import Any

import torch
from torch.nn.modules import module as every_module

from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.parameter import Parameter

REGISTRATION_HOOKS: dict[str, Any] = {
    "parameter": every_module._global_parameter_registration_hooks,
    "buffer": every_module._global_buffer_registration_hooks,
    "transient": every_module._global_buffer_registration_hooks,
    "module": every_module._global_module_registration_hooks,
}
"""Functions of the user's that see what any module registers: torch's own tables."""


LIKE_ROLES = {"buffer": ("transient",), "transient": ("buffer",)}
"""The other roles from which an attribute may change: a buffer may be registered again as saved or as not saved."""


def join(path: str, name: str) -> str:
    """The path of ``name`` below ``path``."""
    return f"{path}.{name}" if path else name


def check_foreign(kind: str, name: str, value: torch.nn.Module | torch.nn.Parameter, module: type) -> None:
    """Raise an error if the new attribute ``name`` of a ``kind`` is torch's own and learns: no optimizer finds it.

    A torch module that holds one of our modules (of the class ``module``) or parameters is an error too.
    """
    learned = [value] if isinstance(value, torch.nn.Parameter) else value.parameters()
    if any(one.requires_grad for one in learned):
        instead = "Parameter(p.data)" if isinstance(value, torch.nn.Parameter) else "from_torch(module)"
        raise TypeError(
            f"attribute {name!r} of {kind} is a {torch.typename(value)} of torch's, which nbgrad does not "
            f"differentiate: write nbgrad.nn.{instead}, or freeze it with requires_grad_(False)"
        )
    modules = value.modules() if isinstance(value, torch.nn.Module) else ()
    for inner in modules:
        held = next((key for key, one in vars(inner).items() if isinstance(one, (module, Parameter))), None)
        if held is not None:
            whose = "" if inner is value else f", whose {type(inner).__name__} is one too"
            raise TypeError(
                f"attribute {name!r} of {kind} is a {type(value).__name__}, a torch.nn.Module{whose}: it holds "
                f"{held!r}, which is nbgrad's and which no optimizer and no state_dict would find there. "
                f"Derive {type(inner).__name__} from nbgrad.nn.Module"
            )


def accepted(name: str, value: Any, role: str, module: type) -> Any:
    """``value`` as an attribute with ``role`` holds it, or an error that says what it must be.

    Args:
        name: of the attribute, for the error.
        value: a tensor, a module or None.
        role: of the attribute.
        module: the class ``Module``, which this file cannot import.
    """
    expected: type = {"parameter": Parameter, "module": module}.get(role, Tensor)
    if expected is Tensor and isinstance(value, torch.Tensor):
        return tensor(value)
    if expected is Parameter and isinstance(value, Tensor) and not value.is_leaf:
        raise ValueError(
            f"cannot assign the result of {value.grad_fn} to parameter {name!r}: a parameter is a leaf. "
            "To compute it from another one, do that in forward()"
        )
    if value is None or isinstance(value, expected):
        return value
    wanted = torch.typename(expected)
    what = f"{torch.typename(value)!r} object"
    hint = ""
    if isinstance(value, torch.nn.Module):
        hint = ": nbgrad.from_torch(module) makes one of it"
    elif isinstance(value, type) and expected is module:
        what, hint = f"the class {value.__name__}", f": write {value.__name__}(), with what it takes"
    elif isinstance(value, list) and expected is module:
        hint = ": pass the modules one by one, as *modules, or make an nn.ModuleList of them"
    elif expected is Parameter and isinstance(value, Tensor | torch.Tensor):
        hint = ": nbgrad.nn.Parameter(t) makes one of it"
    raise TypeError(f"cannot assign {what} to {role} {name!r} ({wanted} or None required){hint}")
