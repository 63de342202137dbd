"""The settings that decide what is computed, and ``KeptSettings``, which sees whether a function has changed one."""

import decimal
import os
from collections.abc import Callable, Iterable
from contextvars import copy_context
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import torch
import torch.optim.optimizer as torch_optimizer
from torch.backends import mha, opt_einsum as einsum

from nbgrad.core.engine.module_changes import TABLES
from nbgrad.core.engine.state import current, set_grad_enabled
from nbgrad.core.symbolic.kernel_settings import KERNEL_SETTINGS, Setting


def _table(table: Any) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    def put_back(before: dict[Any, Any]) -> None:
        table.clear()
        table.update(before)

    return partial(dict, table), put_back


def _put_environment_back(before: dict[str, str]) -> None:
    for name in [one for one in os.environ if one not in before]:
        del os.environ[name]
    os.environ.update(before)


def _variables() -> dict[Any, Any]:
    """The context variables of the user's: those of libraries hold their own modes."""
    return {
        variable: value
        for variable, value in copy_context().items()
        if not variable.name.startswith(("nbgrad", "decimal")) and type(value).__module__.partition(".")[0] != "nbgrad"
    }


def _put_variables_back(before: dict[Any, Any]) -> None:
    for variable, value in _variables().items():
        if variable in before and before[variable] is not value:
            variable.set(before[variable])


def _default_device() -> torch.device | None:
    """The one that was set; None where none was, and torch has no mode for it."""
    return getattr(getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None), "device", None)


def _precision() -> str | None:
    """The value that ``torch.set_float32_matmul_precision`` has set; None where newer settings have taken its place."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def _set_precision(before: str | None) -> None:
    if before is not None:
        torch.set_float32_matmul_precision(before)


def _einsum() -> tuple[Any, ...]:
    return einsum.enabled, einsum.strategy


def _set_einsum(before: tuple[Any, ...]) -> None:
    einsum.enabled, einsum.strategy = before


def _settings() -> list[Setting]:
    return [
        ("torch's default type", torch.get_default_dtype, torch.set_default_dtype),
        ("torch's default device", _default_device, torch.set_default_device),
        ("torch's precision of matmul", _precision, _set_precision),
        *KERNEL_SETTINGS,
        ("torch.backends.opt_einsum", _einsum, _set_einsum),
        ("the fast path of torch.backends.mha", mha.get_fastpath_enabled, mha.set_fastpath_enabled),
        ("torch's grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
        ("nbgrad's grad mode", lambda: current().grad_enabled, set_grad_enabled),
        ("torch's anomaly mode", torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        ("torch's hooks of all optimizers", *_table(torch_optimizer._global_optimizer_pre_hooks)),
        ("torch's hooks of all optimizers", *_table(torch_optimizer._global_optimizer_post_hooks)),
        *(("the hooks of all modules", *_table(one)) for one in TABLES),
        ("numpy's treatment of errors", np.geterr, lambda before: np.seterr(**before)),
        ("os.environ", partial(dict, os.environ), _put_environment_back),
        ("a context variable", _variables, _put_variables_back),
    ]


def arithmetic(around: Iterable[Any]) -> list[tuple[str, Callable[[], Any], Any]]:
    """The settings of numpy and ``decimal`` that decide what numbers are computed, where a function uses these modules.

    Args:
        around: what the function uses from outside.

    Returns:
        The text of each, the function that reads it, and what it reads now.
    """
    names = {_module_of(one) for one in around}
    return [(f"the setting {name}", read, read()) for module, name, read in _ARITHMETIC if module in names]


def _module_of(given: Any) -> str:
    name = given.__name__ if isinstance(given, ModuleType) else getattr(given, "__module__", type(given).__module__)
    return str(name).partition(".")[0]


def _precision_of_decimals() -> tuple[int, str]:
    context = decimal.getcontext()
    return context.prec, context.rounding


_ARITHMETIC: list[tuple[str, str, Callable[[], Any]]] = [
    ("numpy", "numpy.geterr()", np.geterr),
    ("decimal", "decimal.getcontext()", _precision_of_decimals),
]


class KeptSettings:
    """The values of settings at one time.

    Args:
        settings: what each is called, the function that reads it, and the function that writes it.
    """

    def __init__(self, settings: Iterable[Setting]) -> None:
        self._before = [(name, read, write, read()) for name, read, write in settings]

    def changed(self) -> str | None:
        """The name of a setting that has changed since; None if none has."""
        return next((name for name, read, _, before in self._before if _flat(read()) != _flat(before)), None)

    def restore(self) -> None:
        """Give all settings that have changed their old values."""
        for _, read, write, before in self._before:
            if _flat(read()) != _flat(before):
                write(before)


def _flat(value: Any) -> Any:
    """A value that can be compared: arrays as bytes."""
    if isinstance(value, dict):
        return {key: _flat(one) for key, one in value.items()}
    if isinstance(value, torch.Tensor):
        value = value.numpy()
    return value.tobytes() if isinstance(value, np.ndarray) else value


PROCESS_SETTINGS = _settings()
