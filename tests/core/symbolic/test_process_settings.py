"""Settings of the process that decide how a step computes: compiled as plain, whenever they change, or refused."""

import decimal
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.kernel_settings import KERNEL_SETTINGS
from nbgrad.core.symbolic.nest import interpreter

BACKENDS = ("replay", "fused") if interpreter.available() else ("replay",)
Context = Callable[[], AbstractContextManager[Any]]


@contextmanager
def held(read: Callable[[], Any], write: Callable[[Any], Any], value: Any) -> Iterator[None]:
    """A setting that has a value for a while."""
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


def flag(owner: Any, name: str, value: Any = None) -> Context:
    def write(given: Any) -> None:
        setattr(owner, name, given)

    return lambda: held(lambda: getattr(owner, name), write, not getattr(owner, name) if value is None else value)


def deterministic(warns: bool) -> Context:
    return lambda: held(
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda given: torch.use_deterministic_algorithms(given[0], warn_only=given[1]),
        (True, warns),
    )


class Doubling(TorchFunctionMode):
    """Doubles what torch.tanh gives."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return made * 2 if getattr(func, "__name__", "") in ("tanh", "tanh_") else made


class DoublingKernels(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The same among the kernels."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        return made * 2 if func is torch.ops.aten.tanh.default else made


_backends: Any = torch.backends
KERNELS: dict[str, Context] = {
    "precision": lambda: held(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"),
    "tf32": flag(_backends.cuda.matmul, "allow_tf32"),
    "float16": flag(_backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    "cudnn": lambda: _backends.cudnn.flags(enabled=False, allow_tf32=True),
    "cudnn benchmark": flag(_backends.cudnn, "benchmark"),
    "cudnn deterministic": flag(_backends.cudnn, "deterministic"),
    "cudnn tf32": flag(_backends.cudnn, "allow_tf32"),
    "mkldnn": flag(_backends.mkldnn, "enabled"),
    "mkldnn deterministic": flag(_backends.mkldnn, "deterministic"),
    "flash attention": lambda: held(_backends.cuda.flash_sdp_enabled, _backends.cuda.enable_flash_sdp, False),
    "plain attention": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    "deterministic": deterministic(False),
    "deterministic, with warnings": deterministic(True),
    "numbers of new memory": flag(torch.utils.deterministic, "fill_uninitialized_memory"),
    "denormal numbers": lambda: held(lambda: False, torch.set_flush_denormal, True),
    "threads": lambda: held(torch.get_num_threads, torch.set_num_threads, torch.get_num_threads() + 1),
}
AROUND: dict[str, Context] = {
    "default type": lambda: held(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "default device": lambda: held(lambda: None, torch.set_default_device, "meta"),
    "device": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast in float16": lambda: torch.autocast("cpu", torch.float16),
    "autocast without a cache": lambda: torch.autocast("cpu", torch.bfloat16, cache_enabled=False),
    "anomalies": nbgrad.detect_anomaly,
    "anomalies of torch": torch.autograd.detect_anomaly,
    "no gradients": nbgrad.no_grad,
    "inference": nbgrad.inference_mode,
    "inference of torch": torch.inference_mode,
    "errors of numpy": lambda: np.errstate(all="raise"),
    "decimals": lambda: decimal.localcontext(decimal.Context(prec=3)),
    "a mode": Doubling,
    "a mode of kernels": DoublingKernels,
}
CHANGES = KERNELS | AROUND


class Steps:
    """Steps on which the settings act."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.conv, self.gru = nn.Conv2d(2, 3, 3), nn.GRU(4, 3)
        self.weight, self.raw = nbgrad.tensor(torch.randn(8, 8)), torch.randn(8, 8)

    def products(self, x: Any) -> Any:
        return (x @ self.weight).tanh() + nbgrad.zeros(8)

    def images(self, x: Any) -> Any:
        return self.conv(x.reshape(1, 2, 4, 8)).sum((2, 3))

    def series(self, x: Any) -> Any:
        return self.gru(x.reshape(4, 4, 4))[0]

    def attention(self, x: Any) -> Any:
        heads = x.reshape(1, 2, 4, 8)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads)

    def attention_of_torch(self, x: Any) -> Any:
        heads = x.data.reshape(1, 2, 4, 8)
        return torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)

    def products_of_torch(self, x: Any) -> Any:
        return torch.tanh(x.data @ self.raw)

    def small_numbers(self, x: Any) -> Any:
        return x * 1e-39

    def made(self, x: Any) -> Any:
        return x + torch.full((8,), 1.5)

    def no_numbers(self, x: Any) -> Any:
        return (x * 0 - 1).log().sum()

    def of_numpy(self, x: Any) -> Any:
        return x * float(np.float32(1) / np.float32(0))

    def of_decimals(self, x: Any) -> Any:
        return x * float(decimal.Decimal(1) / decimal.Decimal(7))

    def loss(self, x: Any) -> Any:
        return (x @ self.weight).tanh().square().mean()


STEPS = [name for name in vars(Steps) if not name.startswith("_")]


def told(made: Any) -> Any:
    """A result down to its bits."""
    data = made.data.detach() if isinstance(made, nbgrad.Tensor) else made.detach()
    if data.device.type == "meta":
        return data.dtype, tuple(data.shape), None
    return (
        data.dtype,
        tuple(data.shape),
        data.clone().contiguous().view(torch.uint8).tolist() if data.ndim else repr(data),
    )


def outcome(function: Callable[[Any], Any], x: Any) -> Any:
    try:
        return told(function(x))
    except TraceError:
        raise
    except Exception as error:
        return type(error).__name__


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Torch's own test helpers, which other tests import, forbid to set flags without a context.
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)

    def now() -> list[Any]:
        known = [(name, read()) for name, read, _ in KERNEL_SETTINGS if "precision of" not in name]  # torch sets more
        return [*known, torch.get_default_dtype(), torch.get_default_device(), np.geterr(), decimal.getcontext().prec]

    before = now()
    yield
    assert now() == before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_that_changes_between_calls(name: str, backend: str) -> None:
    for step in STEPS:
        plain = getattr(Steps(), step)
        compiled = nbgrad.compile(getattr(Steps(), step), backend=backend)
        x = nbgrad.tensor(torch.randn(8, 8, generator=torch.Generator().manual_seed(1)))
        for changes in (False, True, False, True):
            if changes:
                with CHANGES[name]():
                    assert outcome(compiled, x) == outcome(plain, x), step
            else:
                assert outcome(compiled, x) == outcome(plain, x), step


@pytest.mark.rotated(3)
@pytest.mark.filterwarnings("ignore")
def test_inductor_compiles_again_for_other_settings(request: pytest.FixtureRequest) -> None:
    names = ("denormal numbers", "threads", "deterministic", "default type")
    names = names[:1] if request.config.option.sampled else names  # each is another run of the C++ compiler
    steps = Steps()
    compiled = nbgrad.compile(steps.small_numbers, backend="inductor")
    x = nbgrad.ones(8, 8)
    for name in names:
        assert outcome(compiled, x) == outcome(steps.small_numbers, x)
        with CHANGES[name]():
            assert outcome(compiled, x) == outcome(steps.small_numbers, x), name
    assert len([one for one in compiled.reasons if "traced in" in one]) == 1 + len(names)


def within(context: Context, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def inside(x: Any) -> Any:
        with context():
            return run(x)

    return inside


@pytest.mark.filterwarnings("ignore")
@pytest.mark.sampled(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CHANGES)
def test_a_setting_that_changes_inside_of_a_step(name: str, backend: str) -> None:
    refused = list[str]()
    for step in STEPS:
        inside = within(CHANGES[name], getattr(Steps(), step))
        compiled = nbgrad.compile(inside, backend=backend)
        x = nbgrad.tensor(torch.randn(8, 8, generator=torch.Generator().manual_seed(1)))
        for _ in range(2):
            try:
                found = outcome(compiled, x)
            except TraceError as error:
                refused.append(str(error))
                continue
            assert found == outcome(inside, x), step
    # A precision that was never set cannot be set back to that: then the function has changed it for later calls too.
    where = r"tests/core/symbolic/test_process_settings\.py:\d+, `.*(around|before) the call"
    assert [one for one in refused if not re.match(where, one)] == []
    on_gpu = () if _backends.cuda.is_built() else ("tf32", "float16", "cudnn tf32")
    assert refused or name in (*AROUND, *on_gpu)


def test_a_setting_that_a_step_leaves_changed_is_refused_and_put_back() -> None:
    steps = Steps()
    for name, read, write in KERNEL_SETTINGS:
        before = read()
        other = _other(before)
        if other is None or "float16 on CPUs" in name:  # few processors can do that
            continue

        def left(x: Any, write: Callable[[Any], Any] = write, other: Any = other) -> Any:
            write(other)
            return x * 1

        with pytest.raises(TraceError, match="the function changes"):
            nbgrad.compile(left)(nbgrad.ones(2))
        assert read() == before, name
    assert told(steps.loss(nbgrad.ones(8, 8)))


def test_a_default_device_is_put_back() -> None:
    def left(x: Any) -> Any:
        torch.set_default_device("meta")
        return x * 1

    with pytest.raises(TraceError, match="changes torch's default type or device"):
        nbgrad.compile(left)(nbgrad.ones(2))
    assert torch._C._len_torch_function_stack() == 0


def _other(value: Any) -> Any:
    """Another value of a setting; None where this machine may have no other."""
    if type(value) is bool:
        return not value
    if type(value) is int:
        return value + 1
    return (True, False, True) if value == (False, False, True) else None


def test_the_reason_names_the_setting() -> None:
    compiled = nbgrad.compile(Steps().products)
    x = nbgrad.ones(8, 8)
    compiled(x)
    with CHANGES["mkldnn"]():
        compiled(x)
    compiled(x)
    assert len(compiled.reasons) == 2
    assert compiled.reasons[1].startswith("torch.backends.mkldnn.enabled is another one: traced in")


def test_the_newer_settings_of_precision_do_not_break_a_trace() -> None:
    with flag(_backends.cuda.matmul, "fp32_precision", "tf32")():
        with pytest.raises(RuntimeError):
            torch.get_float32_matmul_precision()
        assert nbgrad.compile(Steps().loss)(nbgrad.ones(8, 8)) is not None


@pytest.mark.parametrize("mode", ["a mode", "a mode of kernels", "anomalies"])
def test_a_mode_of_the_user_sees_the_function_itself(mode: str) -> None:
    compiled = nbgrad.compile(Steps().products)
    x = nbgrad.ones(8, 8)
    compiled(x)
    with CHANGES[mode]():
        compiled(x)
        compiled(x)
    compiled(x)
    assert ["without a program" in one for one in compiled.reasons] == [False, True]


def test_autocast_inside_casts_the_ops_of_nbgrad() -> None:
    steps = Steps()

    def inside(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ steps.weight + torch.zeros(8).sum()

    x = nbgrad.ones(8, 8)
    with pytest.raises(TraceError, match="another autocast than that around it"):
        nbgrad.compile(inside)(x)

    def rows(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return x @ steps.weight

    assert told(nbgrad.compile(rows)(x)) == told(rows(x))
    assert rows(x).dtype is torch.bfloat16
