"""nbgrad never waits for a device. Tested on ``meta`` tensors: they have no values, so reading one is an error."""

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.tensor.tensor import tensor
from tests.core import rows

DIFFERENTIABLE = [row for row in OPS.values() if row.differentiable]


def on_meta(value: Any, *, learned: bool = False) -> Any:
    """A torch tensor as an nbgrad tensor on meta. Any other value stays as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return tensor(value.to("meta"), requires_grad=learned and value.is_floating_point())


def values_read(run: Callable[[], Any]) -> str:
    """torch's error if ``run`` reads a value; empty if it does not."""
    try:
        run()
    except (RuntimeError, NotImplementedError) as error:
        return str(error)
    return ""


@pytest.mark.sampled(8)
@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=[row.name for row in DIFFERENTIABLE])
def test_no_row_reads_a_value_forward_or_backward(row: Any) -> None:
    for sample in rows.comparable(row, islice(rows.samples(row), 12), rows.LACKING_ON_META):
        settings = {
            name: value.to("meta") if torch.is_tensor(value) else value for name, value in sample.settings.items()
        }
        if settings.get("device") is not None:
            continue  # this sample copies to another device
        names = [*row.inputs, *[row.listed] * len(sample.args)]
        args = [on_meta(arg, learned=name in row.rules) for name, arg in zip(names, sample.args, strict=False)]
        made = row(*args, **settings)
        outputs = [one for one in (made if isinstance(made, tuple) else (made,)) if one.requires_grad]
        if outputs:
            seeds = [tensor(torch.empty(one.shape, dtype=one.dtype, device="meta")) for one in outputs]
            nbgrad.autograd.backward(outputs, seeds)
            assert [arg.grad.device.type for arg in args if isinstance(arg, nbgrad.Tensor) and arg.grad is not None]


def test_a_read_value_would_be_noticed() -> None:
    x = tensor(torch.empty(2, device="meta"), requires_grad=True)
    assert "meta" in values_read(lambda: (x * 2).sum().item())


MODELS: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Dropout(0.1), nn.Linear(8, 2)),
        (4, 8),
    ),
    "cnn": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)), (2, 3, 8, 8)),
    "transformer": (lambda: nn.TransformerEncoderLayer(16, 2, batch_first=True), (2, 5, 16)),
    "gru": (lambda: nn.GRU(4, 8, 2), (3, 2, 4)),
}


@pytest.mark.parametrize("name", MODELS)
def test_watching_a_training_step_reads_no_value(name: str) -> None:
    make, shape = MODELS[name]
    model = make().to("meta")
    optimizer = nbgrad.optim.AdamW(model.parameters(), lr=1e-3)
    x = tensor(torch.empty(shape, device="meta"))
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            optimizer.zero_grad()
            out = model(x)
            (out[0] if isinstance(out, tuple) else out).square().mean().backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    assert graph.backwards == 3
    assert {record.device.type for record in graph.records} == {"meta"}
