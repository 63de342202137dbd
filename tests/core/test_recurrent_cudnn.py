"""A recurrent layer on a GPU is one call of cuDNN, as in torch. Arguments are tested anywhere, numbers on a GPU."""

from itertools import product
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import nbgrad
from nbgrad import nn
from nbgrad.core.backend import recurrent_cudnn as cudnn
from nbgrad.core.backend.aten import aten

GATES = {cudnn.RNN_RELU: 1, cudnn.RNN_TANH: 1, cudnn.LSTM: 4, cudnn.GRU: 3}
KINDS: dict[str, dict[str, Any]] = {
    "RNN": {},
    "relu": {"nonlinearity": "relu"},
    "LSTM": {},
    "projected": {"proj_size": 2},
    "GRU": {},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "without bias": {"bias": False},
    "both directions, two layers": {"bidirectional": True, "num_layers": 2},
    "batch first": {"batch_first": True},
}


def block(library: Any, kind: str, options: str, **more: Any) -> Any:
    name = {"relu": "RNN", "projected": "LSTM"}.get(kind, kind)
    return getattr(library, name)(3, 4, **KINDS[kind], **OPTIONS[options], **more)


FITS = {
    "Tensor": lambda one: isinstance(one, torch.Tensor),
    "Optional[Tensor]": lambda one: one is None or isinstance(one, torch.Tensor),
    "List[Tensor]": lambda one: all(isinstance(part, torch.Tensor) for part in one),
    "int": lambda one: type(one) is int,
    "bool": lambda one: type(one) is bool,
    "float": lambda one: type(one) is float,
    "List[int]": lambda one: all(type(part) is int for part in one),
    "List[bool]": lambda one: all(type(part) is bool for part in one),
}


def backward(*given: Any) -> tuple[Any, ...]:
    """A stand-in for cuDNN's gradient. It checks its arguments against torch's declaration."""
    declared = torch.ops.aten._cudnn_rnn_backward.default._schema.arguments
    assert len(given) == len(declared)
    for one, argument in zip(given, declared, strict=True):
        assert FITS[str(argument.type).replace("SymInt", "int")](one), argument.name
    named = {argument.name: one for one, argument in zip(given, declared, strict=True)}
    for gradient, like in (("grad_output", "output"), ("grad_hy", "hx"), ("grad_cy", "cx")):
        assert named[gradient] is None or named[gradient].shape == named[like].shape
    x, h, c, weights = (
        named[name] if wanted else None
        for name, wanted in zip(("input", "hx", "cx", "weight"), named["output_mask"], strict=True)
    )
    return x, h, c, weights or []


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("biases", [(False, False), (True, True), (False, True)])
@pytest.mark.parametrize("kind", [*GATES, "projected"])
def test_the_kernels_take_what_they_are_given(kind: Any, biases: tuple[bool, bool], reverse: bool) -> None:
    """Checks declarations and shapes with torch's fake GPU tensors."""
    gates = 4 if kind == "projected" else GATES[kind]
    size = 2 if kind == "projected" else 4
    number = cudnn.LSTM if kind == "projected" else kind

    def flatten(weights: list[torch.Tensor], count: int, *settings: Any) -> torch.Tensor:
        assert len(weights) == count
        assert settings == (3, number, 4, 2 if kind == "projected" else 0, 1, False, False)
        return weights[0].new_empty(sum(one.numel() for one in weights))

    with FakeTensorMode(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "_cudnn_rnn_flatten_weight", flatten)  # torch has no fake versions of these two kernels
        patch.setattr(aten, "_cudnn_rnn_backward", backward, raising=False)
        made = lambda *shape: torch.empty(*shape, device="cuda")  # noqa: E731
        x, h, c = made(5, 2, 3), made(2, size), made(2, 4) if number == cudnn.LSTM else None
        w_hr = (made(2, 4),) if kind == "projected" else ()
        weights = (made(4 * gates, 3), made(4 * gates, size), *(made(4 * gates) if b else None for b in biases), *w_hr)
        out, h_n, c_n, reserve, flat = cudnn.layer_by_cudnn(number, x, h, c, weights, reverse)
        assert (out.shape, h_n.shape) == ((5, 2, size), h.shape)
        assert c is None or c_n.shape == c.shape
        arrived = (out, None, c_n if c is not None else None)
        for needed in (True, False):
            found = cudnn.gradients_by_cudnn(number, arrived, needed, x, (h, c), weights, out, (reserve, flat), reverse)
            expected = [one if needed else None for one in weights]
            assert [None if one is None else one.shape for one in found] == [
                None if one is None else one.shape for one in (x, h, c, *expected)
            ]


def test_cudnn_runs_only_what_it_can() -> None:
    x, w = torch.empty(2, 3, 4), torch.empty(4, 4)
    assert not cudnn.runs_on_cudnn(x, (w, w, None, None))


def pair(kind: str, options: str, dtype: torch.dtype) -> tuple[Any, Any]:
    torch.manual_seed(0)
    theirs = block(torch.nn, kind, options, device="cuda", dtype=dtype)
    ours = block(nn, kind, options, device="cuda", dtype=dtype)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def flat(given: Any) -> list[Any]:
    return [one for part in given for one in flat(part)] if isinstance(given, tuple) else [given]


def close(ours: list[Any], theirs: list[Any]) -> None:
    assert len(ours) == len(theirs)
    for mine, yours in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.data, yours.detach())


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(("kind", "options"), list(product(KINDS, OPTIONS)))
def test_on_a_gpu_a_layer_is_torchs(kind: str, options: str, dtype: torch.dtype) -> None:
    ours, theirs = pair(kind, options, dtype)
    raw = torch.randn(5, 2, 3, device="cuda", dtype=dtype)
    x, y = nbgrad.tensor(raw, requires_grad=True), raw.clone().requires_grad_()
    got, expected = flat(ours(x)), flat(theirs(y))
    close(got, expected)
    seeds = [torch.randn_like(one) for one in expected]
    yours = torch.autograd.grad(expected, [y, *theirs.parameters()], seeds, retain_graph=True)
    for again in (True, False):  # the kernel overwrites its saved data
        mine = nbgrad.grad(got, [x, *ours.parameters()], [nbgrad.tensor(one) for one in seeds], retain_graph=again)
        close(list(mine), list(yours))


@pytest.mark.cuda
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_packed_sequences_and_second_derivatives_are_those_of_a_cpu(kind: str) -> None:
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = block(nn, kind, "both directions, two layers", dtype=torch.float64).to(device)
        torch.manual_seed(1)
        x = nbgrad.tensor(torch.randn(5, 3, 3, dtype=torch.float64).to(device), requires_grad=True)
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3, 2]))
        loss = (made(packed)[0].data ** 2).sum()
        (slope,) = nbgrad.grad(loss, [x], create_graph=True)
        second = nbgrad.grad((slope**2).sum(), [x, *made.parameters()])
        return [one.data.cpu() for one in (loss, slope, *second)]

    torch.testing.assert_close(run("cuda"), run("cpu"))


class Calls(TorchDispatchMode):
    """Records the names of the kernels that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(function.__name__)
        return function(*args, **(kwargs or {}))


@pytest.mark.cuda
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_a_layer_is_one_call_of_cudnn_each_way(kind: str) -> None:
    ours, _ = pair(kind, "plain", torch.float32)
    x = nbgrad.tensor(torch.randn(50, 8, 3, device="cuda"), requires_grad=True)
    with Calls() as calls:
        ours(x)[0].sum().backward()
    assert [name for name in calls.names if "cudnn" in name] == [
        "_cudnn_rnn_flatten_weight.default",
        "_cudnn_rnn.default",
        "_cudnn_rnn_backward.default",
    ]
    assert len(calls.names) < 60


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "LSTM", "GRU"])
def test_on_a_gpu_without_cudnn_a_step_is_one_kernel_as_in_torch(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    theirs = getattr(torch.nn, kind)(3, 4, device="cuda", dtype=dtype)
    ours = getattr(nn, kind)(3, 4, device="cuda", dtype=dtype)
    ours.load_state_dict(theirs.state_dict())
    raw = torch.randn(2, 3) if "Cell" in kind else torch.randn(5, 2, 3)
    x = nbgrad.tensor(raw.to("cuda", dtype), requires_grad=True)
    y = raw.to("cuda", dtype).requires_grad_()
    with torch.backends.cudnn.flags(enabled=False):
        with Calls() as calls:
            got = flat(ours(x))
            mine = nbgrad.grad(got, [x, *ours.parameters()], [nbgrad.tensor(one.data.sin()) for one in got])
        with Calls() as their_calls:
            expected = flat(theirs(y))
            yours = torch.autograd.grad(expected, [y, *theirs.parameters()], [one.detach().sin() for one in expected])
    close(got, expected)
    most = {torch.bfloat16: 3e-2, torch.float16: 4e-3}.get(dtype, 1e-5)  # torch adds up the steps in the short type
    for one, other in zip(mine, yours, strict=True):
        torch.testing.assert_close(one.data, other, rtol=most, atol=most)
    counts = [sum("_thnn_fused" in name for name in one.names) for one in (calls, their_calls)]
    assert counts[0] == counts[1] > 0


@pytest.mark.cuda
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_on_a_gpu_second_derivatives_of_a_step_are_those_of_a_cpu(kind: str) -> None:
    def run(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        made = getattr(nn, kind)(3, 4, dtype=torch.float64).to(device)
        x = nbgrad.tensor(torch.randn(2, 3, dtype=torch.float64).to(device), requires_grad=True)
        loss = sum((one**2).sum() for one in flat(made(x)))
        (slope,) = nbgrad.grad(loss, [x], create_graph=True)
        second = nbgrad.grad((slope**2).sum(), [x, *made.parameters()])
        return [one.data.cpu() for one in (loss, slope, *second)]

    torch.testing.assert_close(run("cuda"), run("cpu"))


@pytest.mark.cuda
@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_on_a_gpu_a_layer_under_autocast_is_one_call_of_cudnn(kind: str, half: torch.dtype) -> None:
    """torch casts to float16 for cuDNN, also where autocast is set to bfloat16."""
    ours, theirs = pair(kind, "plain", torch.float32)
    raw = torch.randn(5, 2, 3, device="cuda")
    x, y = nbgrad.tensor(raw, requires_grad=True), raw.clone().requires_grad_()
    with nbgrad.autocast("cuda", half):
        ours(x)  # the first call asks what autocast casts
        with Calls() as calls:
            got = flat(ours(x))
    with torch.autocast("cuda", half):
        expected = flat(theirs(y))
    assert {one.dtype for one in got} == {half}
    assert sum("_cudnn_rnn.default" in name for name in calls.names) == 1
    mine = nbgrad.grad([one.float().sum() for one in got], [x, *ours.parameters()])
    yours = torch.autograd.grad([one.float().sum() for one in expected], [y, *theirs.parameters()])
    most = {torch.bfloat16: 3e-2, torch.float16: 4e-3}[half]
    for one, other in zip((*got, *mine), (*expected, *yours), strict=True):
        torch.testing.assert_close(one.data.float(), other.detach().float(), rtol=most, atol=most)
