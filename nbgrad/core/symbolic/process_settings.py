"""``ProcessSettings``: the settings of the whole process, to see whether a traced function has changed one."""

import decimal
import gc
import locale
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.optim.optimizer as torch_optimizer

from nbgrad.core.engine.module_changes import TABLES
from nbgrad.core.engine.state import current, set_grad_enabled

Setting = tuple[str, Callable[[], Any], Callable[[Any], object]]


def _flag(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    return partial(getattr, owner, name), partial(setattr, owner, name)


def _table(table: Any) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    def put_back(before: dict[Any, Any]) -> None:
        table.clear()
        table.update(before)

    return partial(dict, table), put_back


def _put_environment_back(before: dict[str, str]) -> None:
    for name in [one for one in os.environ if one not in before]:
        del os.environ[name]
    os.environ.update(before)


def _put_list_back(owner: list[Any], before: list[Any]) -> None:
    owner[:] = before


def _set_filters(before: list[Any]) -> None:
    filters: Any = warnings.filters  # another list inside of ``catch_warnings``
    filters[:] = before


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


def _set_deterministic(before: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _attention() -> tuple[bool, ...]:
    cuda: Any = torch.backends.cuda
    return cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()


def _set_attention(before: tuple[bool, ...]) -> None:
    cuda = torch.backends.cuda
    for switch, on in zip(
        (cuda.enable_flash_sdp, cuda.enable_mem_efficient_sdp, cuda.enable_math_sdp), before, strict=True
    ):
        switch(on)


def _print_options() -> dict[str, Any]:
    return dict(vars(torch._tensor_str.PRINT_OPTS))


def _set_print_options(before: dict[str, Any]) -> None:
    vars(torch._tensor_str.PRINT_OPTS).update(before)


def _levels() -> dict[str, Any]:
    known = [(name, one.level) for name, one in logging.root.manager.loggerDict.items() if hasattr(one, "level")]
    changed = {name: level for name, level in known if level}  # a library may make a logger, without a level
    return {**changed, "": logging.root.level, " disabled": logging.root.manager.disable}


def _set_levels(before: dict[str, Any]) -> None:
    logging.disable(before[" disabled"])
    logging.root.setLevel(before[""])
    for name in _levels():
        if name not in ("", " disabled"):
            logging.getLogger(name).setLevel(before.get(name, logging.NOTSET))


def _handled(number: int) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    return partial(signal.getsignal, number), partial(signal.signal, number)


def _settings() -> list[Setting]:
    flags = torch.backends
    return [
        ("torch's default type", torch.get_default_dtype, torch.set_default_dtype),
        ("torch's default device", torch.get_default_device, torch.set_default_device),
        ("torch.use_deterministic_algorithms", _deterministic, _set_deterministic),
        ("torch's precision of matmul", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        ("torch's number of threads", torch.get_num_threads, torch.set_num_threads),
        ("torch's grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
        ("nbgrad's grad mode", lambda: current().grad_enabled, set_grad_enabled),
        ("torch's anomaly mode", torch.is_anomaly_enabled, torch.set_anomaly_enabled),
        ("torch's print options", _print_options, _set_print_options),
        ("torch.backends.cudnn.enabled", *_flag(flags.cudnn, "enabled")),
        ("torch.backends.cudnn.benchmark", *_flag(flags.cudnn, "benchmark")),
        ("torch.backends.cudnn.deterministic", *_flag(flags.cudnn, "deterministic")),
        ("the kernels of attention in torch.backends.cuda", _attention, _set_attention),
        ("torch's hooks of all optimizers", *_table(torch_optimizer._global_optimizer_pre_hooks)),
        ("torch's hooks of all optimizers", *_table(torch_optimizer._global_optimizer_post_hooks)),
        *(("the hooks of all modules", *_table(one)) for one in TABLES),
        ("numpy's treatment of errors", np.geterr, lambda before: np.seterr(**before)),
        ("numpy's print options", np.get_printoptions, lambda before: np.set_printoptions(**before)),
        ("os.environ", partial(dict, os.environ), _put_environment_back),
        ("the working directory", os.getcwd, os.chdir),
        ("the locale", partial(locale.setlocale, locale.LC_ALL), partial(locale.setlocale, locale.LC_ALL)),
        ("the context of decimal", lambda: decimal.getcontext().copy(), decimal.setcontext),
        ("the filters of warnings", lambda: list(warnings.filters), _set_filters),
        ("sys.path", lambda: list(sys.path), partial(_put_list_back, sys.path)),
        ("sys.stdout", *_flag(sys, "stdout")),
        ("sys.stderr", *_flag(sys, "stderr")),
        ("the levels of logging", _levels, _set_levels),
        ("the limit of recursion", sys.getrecursionlimit, sys.setrecursionlimit),
        ("the garbage collector", gc.get_threshold, lambda before: gc.set_threshold(*before)),
        ("the handler of Ctrl-C", *_handled(signal.SIGINT)),
        ("a context variable", _variables, _put_variables_back),
    ]


class ProcessSettings:
    """The settings of the process."""

    def __init__(self) -> None:
        self._before = [(name, read, write, read()) for name, read, write in _SETTINGS]

    def changed(self) -> str | None:
        """The name of a setting that has changed since; None if none has."""
        return next((name for name, read, _, before in self._before if _differs(read(), before)), None)

    def restore(self) -> None:
        """Give all settings that have changed their old values."""
        for _, read, write, before in self._before:
            if _differs(read(), before):
                write(before)


def _differs(now: Any, before: Any) -> bool:
    if now is before:
        return False
    if isinstance(before, decimal.Context):
        return repr(now) != repr(before)
    return bool(now != before)


_SETTINGS = _settings()
