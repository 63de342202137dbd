"""Programs as ONNX models. Each file was run in onnxruntime; programs that cannot be written raise an error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.exports import onnx_ops
from nbgrad.symbolic import Program, trace

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

CLASSES = nbgrad.tensor([0, 2, 1, 1, 2])


def mlp() -> tuple[Any, Any]:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)), nbgrad.tensor(torch.randn(5, 4))


def wide() -> tuple[Any, Any]:
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 8), nn.SiLU())
    return nn.Sequential(net, nn.Linear(8, 3)), nbgrad.tensor(torch.randn(5, 4))


def cnn() -> tuple[Any, Any]:
    layers = [nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)]
    net = nn.Sequential(*layers, nn.Conv2d(4, 3, 2, dilation=1), nn.Flatten(), nn.Linear(3, 3))
    return net, nbgrad.tensor(torch.randn(5, 1, 8, 8))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        found = self.embedding(x)
        return self.last(self.attention(found, found, found)[0].mean(1))


def transformer() -> tuple[Any, Any]:
    return Attention(), nbgrad.tensor(torch.randint(0, 7, (5, 6)))


def lost(net: Any) -> Callable[..., Any]:
    return lambda x, y: nn.functional.cross_entropy(net(x), y)


NETWORKS = [mlp, wide, cnn, transformer]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("make", NETWORKS)
def test_a_loss_and_its_gradient(make: Callable[[], tuple[Any, Any]], tmp_path: Path) -> None:
    torch.manual_seed(0)
    net, x = make()
    program = trace(lost(net), x, CLASSES)
    for number, one in enumerate((program, program.grad(), program.grad().optimize())):
        file = tmp_path / f"{number}.onnx"
        one.to_onnx(file)
        session = runtime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        feed = {"x": x.data.numpy(), "y": CLASSES.data.numpy()}
        found = dict(zip([each.name for each in session.get_outputs()], session.run(None, feed), strict=True))
        loss, gradients = (one(x, CLASSES), ()) if one is program else one(x, CLASSES)
        values = one.leaving()
        for value, wanted in zip(values, (loss, *gradients), strict=True):
            torch.testing.assert_close(torch.from_numpy(found[value.name]), wanted.data, rtol=1e-4, atol=1e-6)
    names = set(found)
    assert ("w1_running_mean_after" in names) == (make is cnn)


def test_a_backward_into_parameters_is_returned(tmp_path: Path) -> None:
    net, x = mlp()

    def function(x: Any, y: Any) -> Any:
        loss = lost(net)(x, y)
        loss.backward()
        return loss

    trace(function, x, CLASSES).to_onnx(tmp_path / "it.onnx", x, CLASSES)
    session = runtime.InferenceSession(str(tmp_path / "it.onnx"))
    assert len(session.get_outputs()) == 5


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: nn.functional.dropout(x, 0.5), r"ONNX: the step \w+ at .*test_onnx.py:\d+.*random numbers"),
        (lambda x: x.cumprod(0), r"ONNX: the step cumprod at .*test_onnx.py:\d+.*aten.cumprod.* has no translation"),
        (lambda x: (x @ x.T).det(), r"at .*test_onnx.py:\d+.*has no translation"),
    ],
)
def test_a_step_without_translation_names_itself(function: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match=message):
        trace(function, nbgrad.tensor(torch.randn(3, 4))).to_onnx(tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_an_update_is_refused(tmp_path: Path) -> None:
    net, x = mlp()
    opt = nbgrad.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        loss = lost(net)(x, y)
        loss.backward()
        opt.step()
        return loss

    with pytest.raises(NotImplementedError, match="settings of an optimizer"):
        trace(step, x, CLASSES).to_onnx(tmp_path / "it")


def written(function: Any, *args: Any) -> Program:
    return trace(function, *(nbgrad.tensor(one) for one in args))


def test_a_wrong_translation_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(onnx_ops.OPS, "tanh", onnx_ops.OPS["sigmoid"])
    (tmp_path / "it").write_text("before")
    with pytest.raises(RuntimeError, match=r"tanh of <lambda> differs by .* in onnxruntime.*no file is written"):
        written(lambda x: x.tanh(), torch.randn(3)).to_onnx(tmp_path / "it")
    assert (tmp_path / "it").read_text() == "before"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_wrong_gradient_writes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net, x = mlp()
    right = onnx_ops.OPS["mm"]
    monkeypatch.setitem(onnx_ops.OPS, "mm", lambda g, a, b: g.op("Neg", right(g, a, b)))
    with pytest.raises(RuntimeError, match="differs by"):
        trace(lost(net), x, CLASSES).grad().to_onnx(tmp_path / "it")
    assert not list(tmp_path.iterdir())


def test_numbers_that_cannot_be_compared_ask_for_others(tmp_path: Path) -> None:
    program = written(lambda x: x.log(), torch.ones(50))
    with pytest.raises(ValueError, match="not finite on the inputs to compare on: give others"):
        program.to_onnx(tmp_path / "it")
    program.to_onnx(tmp_path / "it", torch.rand(50) + 0.1)
    index = written(lambda x, i: x[i], torch.ones(1), torch.zeros(9, dtype=torch.int64))
    with pytest.raises(ValueError, match="does not run on drawn inputs"):
        index.to_onnx(tmp_path / "other")
    index.to_onnx(tmp_path / "other", torch.ones(1), torch.zeros(9, dtype=torch.int64))


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ModuleNotFoundError, match=r"onnxruntime is not installed\. Run: pip install"):
        written(lambda x: x * 2, torch.ones(2)).to_onnx(tmp_path / "it")


KINDS: list[tuple[Any, tuple[int, ...]]] = [
    (lambda x: x.log1p().sum(), (3, 4)),
    (lambda x: x.expm1() + x.rsqrt() + x.exp2() + x.log2() + x.log10(), (3, 4)),
    (lambda x: x.var(1) + x.std(1, correction=0), (3, 4)),
    (lambda x: nn.functional.pad(x, (1, 2, 0, 1), value=3.0)[::2, 1:-1].flip(0), (3, 4)),
    (lambda x: nbgrad.cat([x, x * 2], 1).split(3, 1)[1].T.reshape(-1), (3, 4)),
    (lambda x: x.cumsum(0).clamp(0.2, 1.5).max(1).values, (3, 4)),
    (lambda x: nbgrad.where(x > 0.5, x**2, x**0.5).mean(), (3, 4)),
    (lambda x: nn.functional.elu(x - 0.5) + nn.functional.leaky_relu(0.5 - x) + nn.functional.softplus(x), (3, 4)),
    (lambda x: nn.functional.mse_loss(x.softmax(0), x.log_softmax(1)), (3, 4)),
    (lambda x: nn.functional.binary_cross_entropy_with_logits(x, (x > 0.3).to(x.dtype)), (3, 4)),
    (lambda x: nn.functional.avg_pool2d(x, 2).sum(), (1, 2, 4, 4)),
    (lambda x: x.repeat(2, 1).unsqueeze(1).expand(6, 2, 4).squeeze(0).permute(2, 0, 1).sum((0, 2)), (3, 4)),
]

POOL = 10


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("number", range(len(KINDS)))
def test_kinds_of_steps(number: int, dtype: torch.dtype, tmp_path: Path) -> None:
    function, shape = KINDS[number]
    x = nbgrad.tensor(torch.rand(shape, dtype=dtype) + 0.1, requires_grad=True)
    if function is KINDS[POOL][0] and dtype is torch.float64:
        with pytest.raises(RuntimeError, match=r"onnxruntime cannot run .*no file is written.*AveragePool"):
            trace(function, x).to_onnx(tmp_path / "forward", x)
        return
    trace(function, x).to_onnx(tmp_path / "forward", x)
    trace(lambda x: function(x).sum(), x).grad().to_onnx(tmp_path / "gradient", x)
    assert len(list(tmp_path.iterdir())) == 2
