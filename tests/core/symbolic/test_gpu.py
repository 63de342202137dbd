"""Programs on a CUDA device: every backend gives what nbgrad gives without a program."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.structure import mapped
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.tensor.tensor import Tensor
from tests.core.symbolic.test_traced_rows import compare
from tests.core.symbolic.traced_rows import ORDERS, arguments, differentiated, spread

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # from torch's compiler
]
BACKENDS = ["replay", "inductor", "cudagraph"]


def convolutional() -> nn.Module:
    """A network without a bias before a norm: the gradient of such a bias is only rounding, which Adam scales up."""
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.3), nn.Flatten()),
        nn.Linear(4 * 6 * 6, 5),
    )


class Sequences(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 5)

    def forward(self, x: Any) -> Any:
        found, _ = self.lstm(x[:, 0])
        return self.head(found[:, -1])


def losses(backend: str | None, make: Callable[[], nn.Module], optimizer: str, *, whole: bool) -> list[torch.Tensor]:
    """The losses of nine steps with a falling learning rate, then the parameters and buffers."""
    torch.manual_seed(0)
    net = make().to("cuda")
    settings = {"momentum": 0.9} if optimizer == "SGD" else {}
    opt = getattr(nbgrad.optim, optimizer)(net.parameters(), lr=0.02, **settings)

    def loss(x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(net(x), y)

    run = nbgrad.compile(loss, backend=backend) if backend and not whole else loss

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        found = run(x, y)
        found.backward()
        opt.step()
        return found

    taken = nbgrad.compile(step, backend=backend) if backend and whole else step
    found = []
    for number in range(9):
        generator = torch.Generator().manual_seed(number)
        x = nbgrad.tensor(torch.randn(16, 1, 8, 8, generator=generator).cuda())
        y = nbgrad.tensor(torch.randint(0, 5, (16,), generator=generator).cuda())
        opt.param_groups[0]["lr"] = 0.02 / (1 + number)
        found.append(taken(x, y))
    return [one.data for one in (*found, *net.state_dict().values())]


@pytest.mark.parametrize("whole", [True, False], ids=["step", "loss"])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("make", [convolutional, Sequences])
@pytest.mark.parametrize("backend", BACKENDS)
def test_training_is_the_same(backend: str, make: Callable[[], nn.Module], optimizer: str, whole: bool) -> None:
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # programs run recurrent layers without cuDNN
        expected = losses(None, make, optimizer, whole=whole)
        found = losses(backend, make, optimizer, whole=whole)
    most = 1e-3 if backend == "inductor" else 1e-5
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=most, atol=most)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_outlive_the_next_run(backend: str) -> None:
    run = nbgrad.compile(lambda x: (x * 2, x.view(-1), x, (x + 1).relu()), backend=backend)
    given = [nbgrad.tensor(torch.full((2, 3), float(number), device="cuda")) for number in range(5)]
    found = [run(one) for one in given]
    for number, (double, flat, same, more) in enumerate(found):
        assert double.tolist() == [[2.0 * number] * 3] * 2
        assert flat.tolist() == [float(number)] * 6
        assert same.tolist() == [[float(number)] * 3] * 2
        assert more.tolist() == [[number + 1.0] * 3] * 2


def test_a_loss_twice_before_its_backwards() -> None:
    w = nbgrad.tensor([2.0, 3.0], device="cuda", requires_grad=True)
    run = nbgrad.compile(lambda x: (w * x).exp().sum(), backend="cudagraph")
    for _ in range(3):
        first, second = (run(nbgrad.tensor([a, 0.5], device="cuda")) for a in (1.0, -1.0))
        found = [nbgrad.autograd.grad(one, [w])[0].tolist() for one in (second, first)]
        x = [torch.tensor([a, 0.5]) for a in (-1.0, 1.0)]
        expected = [(one * (torch.tensor([2.0, 3.0]) * one).exp()).tolist() for one in x]
        assert found == [pytest.approx(one) for one in expected]


def test_what_a_graph_cannot_do_is_refused() -> None:
    x = nbgrad.tensor([1.0, 2.0], device="cuda")
    with pytest.raises(RuntimeError, match="it changes an argument in place"):
        nbgrad.compile(lambda x: x.mul_(2), backend="cudagraph")(x.clone())
    with pytest.raises(RuntimeError, match=r"is on cpu, and a CUDA graph takes tensors of one CUDA device"):
        nbgrad.compile(lambda x: x.cpu() * 2, backend="cudagraph")(x)


def test_loop_nests_leave_the_gpu_to_torch() -> None:
    x = nbgrad.tensor([1.0, 2.0], device="cuda")
    assert nbgrad.compile(lambda x: (x * 2 + 1).relu(), backend="fused")(x).tolist() == [3.0, 5.0]


CPU_ONLY = frozenset(("quantize_per_channel", "quantize_per_tensor"))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", sorted(OPS.keys() - CPU_ONLY))
def test_a_row_computes_the_same_as_a_program(name: str) -> None:
    """Atomic additions run in another order each time, so the last digits of sums differ."""
    row, refused = OPS[name], []
    for sample in spread(row):
        for order in ORDERS:
            function = differentiated(row, sample.settings, order)
            try:
                moved = [mapped(_there, one) for one in arguments(row, sample)]
                torch.manual_seed(0)
                expected = [*function(*moved), *moved]
            except (RuntimeError, NotImplementedError) as error:  # torch supports this only on CPUs
                if "cuda" in str(error).lower() or "gpu" in str(error).lower() or "same device" in str(error):
                    continue
                raise
            given = [mapped(_there, one) for one in arguments(row, sample)]
            try:
                program = nbgrad.trace(function, *given)
            except TraceError as error:
                refused.append(str(error))
                continue
            for one in (program, program.optimize()):
                given = [mapped(_there, each) for each in arguments(row, sample)]
                torch.manual_seed(0)
                compare([*one(*given), *given], expected, 1e-9)
    if name not in ("getitem", "getitem_backward"):
        assert not refused


def _there(given: Any) -> Any:
    return nbgrad.tensor(given.data.cuda(), requires_grad=given.requires_grad) if isinstance(given, Tensor) else given
