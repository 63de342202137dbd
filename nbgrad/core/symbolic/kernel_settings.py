"""The settings of torch that decide how its kernels compute: a program holds for those that it was traced with."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from nbgrad.core.backend.function_mode import recorder
from nbgrad.core.diagnose.anomaly import detects_anomalies

Setting = tuple[str, Callable[[], Any], Callable[[Any], object]]

_C: Any = torch._C
_SMALL = 1e-310
"""A number that is zero where the processor flushes denormal numbers."""


def _deterministic() -> tuple[bool, bool, bool]:
    return (
        _C._get_deterministic_algorithms(),
        _C._get_deterministic_algorithms_warn_only(),
        _C._get_deterministic_fill_uninitialized_memory(),
    )


def _set_deterministic(before: tuple[bool, bool, bool]) -> None:
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    _C._set_deterministic_fill_uninitialized_memory(before[2])


def _flushes() -> bool:
    return _SMALL * 1.0 == 0.0


def _flag(name: str, key: str) -> Setting | None:
    """A setting that two functions of torch's read and write; None in a version of torch that does not have it."""
    read, write = (getattr(_C, f"_{verb}_{key}", None) for verb in ("get", "set"))
    return None if read is None or write is None else (name, read, write)


def _kernel_of_attention(key: str) -> Setting | None:
    read, write = getattr(_C, f"_get_{key}_sdp_enabled", None), getattr(_C, f"_set_sdp_use_{key}", None)
    return None if read is None or write is None else ("the kernels of attention in torch.backends.cuda", read, write)


def _reduction(name: str, key: str) -> Setting | None:
    """The same for a setting that newer versions of torch give as two flags."""
    found = _flag(name, key)
    if found is None or not isinstance(found[1](), tuple):
        return found
    _, read, write = found
    return name, read, lambda before: write(*before)


def _precision(backend: str, op: str) -> Setting | None:
    """The precision of one kind of kernels. torch raises an error where its older function cannot tell it."""
    if not hasattr(_C, "_get_fp32_precision_getter"):
        return None
    told = "matmul" if op == "matmul" else f"float32 in {op} of {backend}"
    return (
        f"torch's precision of {told}",
        partial(_C._get_fp32_precision_getter, backend, op),
        partial(_C._set_fp32_precision_setter, backend, op),
    )


_OPS = ("matmul", "conv", "rnn")
_MATMUL = "torch.backends.cuda.matmul"
_ATTENTION: list[Setting | None] = [
    *map(_kernel_of_attention, ("flash", "mem_efficient", "math", "cudnn")),
    _flag("the kernels of attention in torch.backends.cuda", "math_sdp_allow_fp16_bf16_reduction"),
]
_ALWAYS: list[Setting | None] = [
    ("torch.use_deterministic_algorithms", _deterministic, _set_deterministic),
    ("torch's number of threads", torch.get_num_threads, torch.set_num_threads),
    ("torch.set_flush_denormal", _flushes, torch.set_flush_denormal),
    _flag("torch.backends.mkldnn.enabled", "mkldnn_enabled"),
    _flag("torch.backends.mkldnn.deterministic", "mkldnn_deterministic"),
    _flag("torch.backends.nnpack", "nnpack_enabled"),
    _flag("torch.backends.cudnn.enabled", "cudnn_enabled"),
    _flag("torch.backends.cudnn.benchmark", "cudnn_benchmark"),
    _flag("torch.backends.cudnn.deterministic", "cudnn_deterministic"),
    _flag(f"{_MATMUL}.allow_fp16_accumulation", "cublas_allow_fp16_accumulation"),
    _flag("torch's reductions in float16 on CPUs", "cpu_allow_fp16_reduced_precision_reduction"),
    *(_precision("mkldnn", op) for op in _OPS),
]
_ON_GPU: list[Setting | None] = [
    _reduction(f"{_MATMUL}.allow_fp16_reduced_precision_reduction", "cublas_allow_fp16_reduced_precision_reduction"),
    _reduction(f"{_MATMUL}.allow_bf16_reduced_precision_reduction", "cublas_allow_bf16_reduced_precision_reduction"),
    *(_precision("cuda", op) for op in _OPS),
    _flag("torch.backends.cuda.preferred_linalg_library", "linalg_preferred_backend"),
    _flag("torch.backends.cuda.preferred_blas_library", "blas_preferred_backend"),
]
"""Settings that take long to read, and that no other kernel asks."""


def _known(settings: list[Setting | None]) -> list[Setting]:
    return [one for one in settings if one is not None]


KERNEL_SETTINGS = _known([*_ALWAYS, *_ATTENTION, *_ON_GPU])
"""All of them: what each is called, the function that reads it, and the function that writes it."""

_older = [] if hasattr(_C, "_get_fp32_precision_getter") else ["float32_matmul_precision", "cudnn_allow_tf32"]
_COMPARED = _known(
    [
        *_ALWAYS,
        *_ATTENTION,
        *(_flag("torch's precision of matmul", key) for key in _older),
        *(_ON_GPU if torch.version.cuda or torch.version.hip else ()),
    ]
)
_NAMES = tuple(one[0] for one in _COMPARED)
_READ = tuple(one[1] for one in _COMPARED)


def kernel_settings() -> list[Any]:
    """The settings now, to compare."""
    return [read() for read in _READ]


def changed_setting(before: list[Any], now: list[Any], *, attends: bool = True) -> str | None:
    """The name of a setting that differs; None if none does.

    Args:
        before: what ``kernel_settings`` gave.
        now: what it gives now.
        attends: whether the kernels of attention count.
    """
    for name, one, other in zip(_NAMES, before, now, strict=True):
        if one != other and (attends or "attention" not in name):
            return name
    return None


# ------------------------------------------------------------------------------------------------------------- modes


_length = _C._len_torch_function_stack
_at = _C._get_function_stack_at
_DeviceContext = torch.utils._device.DeviceContext
dispatched = _C._len_torch_dispatch_stack
"""How many modes of this thread see the kernels."""
current_mode = torch.utils._python_dispatch._get_current_dispatch_mode
"""The innermost of them."""


def devices() -> tuple[torch.device, ...]:
    """The devices of ``with torch.device(...)`` around the call."""
    return tuple(_at(one).device for one in range(_length()) if type(_at(one)) is _DeviceContext)


def interferes() -> str | None:
    """The mode that looks at each call of torch, or changes it, so that no program does the same; None if none does."""
    for place in range(_length()):
        mode = _at(place)
        if mode is not recorder.mode and type(mode) is not _DeviceContext:
            return f"the mode {type(mode).__name__} is on"
    if dispatched():
        return f"the mode {type(current_mode()).__name__} is on"
    return "detect_anomaly() is on" if detects_anomalies() else None
