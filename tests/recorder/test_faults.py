"""Errors of nbgrad's own do not reach the recorded program: it goes on, and the picture or a sentence says it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.widgets.describe import outline

ROOT = Path(__file__).parents[2]


@pytest.mark.rotated(3)
def test_no_function_of_the_recorder_that_raises_is_noticed_by_the_program(request: pytest.FixtureRequest) -> None:
    cases = "4" if request.config.option.sampled else "12"
    command = [sys.executable, "-m", "tests.recorder.fault_injection", "--cases", cases]
    plain = {**os.environ, "NBGRAD_COMPILED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_error_at_the_end_of_a_graph_is_a_sentence_of_its_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_graph: AutogradGraph, _namespace: dict[str, Any]) -> None:
        raise LookupError("no more room")

    monkeypatch.setattr(AutogradGraph, "_settle", broken)
    x = torch.randn(3, requires_grad=True)
    with nbgrad.record(view="none") as graph:
        (x * 2).sum().backward()
    assert x.grad is not None
    assert graph.closed
    assert graph.records == []
    assert "LookupError: no more room" in str(graph.fault)
    assert graph.findings() == []
    assert any("LookupError: no more room" in one for one in outline(graph).description["notes"])


def test_an_error_of_the_program_is_shown_even_if_the_end_of_the_graph_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_graph: AutogradGraph, _namespace: dict[str, Any]) -> None:
        raise LookupError

    monkeypatch.setattr(AutogradGraph, "_settle", broken)
    graph = AutogradGraph()
    with pytest.raises(ZeroDivisionError), graph:
        print(1 / 0)
    assert graph.ending is not None
    assert graph.ending.kind == "ZeroDivisionError"


def test_a_refusal_that_the_user_has_asked_for_still_reaches_the_program() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="strict_broadcast"), nbgrad.record(view="none", strict_broadcast=True):
        print(x * torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="log of 0"), nbgrad.record(view="none", anomaly=True):
        print((x * 0).log())


# Tensors that have no values to read, and programs that torch traces.


def exported(strict: bool) -> list[Any]:
    made = torch.export.export(nn.Linear(4, 2), (torch.randn(3, 4),), strict=strict)
    return [str(made.graph)]


def export_between_steps() -> list[Any]:
    model, x = nn.Linear(4, 2), torch.randn(3, 4)
    model(x).sum().backward()
    torch.export.export(model, (x,), strict=True)
    model(x).pow(2).sum().backward()
    return [model.weight.grad]


def proxies() -> list[Any]:
    from torch.fx.experimental.proxy_tensor import make_fx

    weight = torch.randn(4, 4, requires_grad=True)
    made: Any = make_fx(lambda x: torch.autograd.grad((x @ weight).relu().sum(), x))(torch.randn(3, 4).requires_grad_())
    return [made.code]


def traced() -> list[Any]:
    layer = nn.Linear(4, 2)
    made: Any = torch.jit.trace(layer, torch.randn(3, 4))
    made(torch.ones(3, 4)).sum().backward()
    return [layer.weight.grad]


def rows(layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.randn(2, 8), torch.randn(3, 8)], layout=layout, requires_grad=True)


def nested_linear(layout: torch.layout) -> list[Any]:
    x, layer = rows(layout), nn.Linear(8, 2)
    sum(one.sum() for one in layer(x * 2).unbind()).backward()  # type: ignore[union-attr]
    return [*x.grad.unbind(), layer.weight.grad]  # type: ignore[union-attr]


def nested_attention() -> list[Any]:
    x = rows(torch.jagged)
    heads: Any = x.unflatten(-1, [2, 4]).transpose(1, 2)
    made: Any = nn.functional.scaled_dot_product_attention(heads, heads, heads)
    made.transpose(1, 2).flatten(-2).values().sum().backward()
    return [x.grad.values()]  # type: ignore[union-attr]


def masked() -> list[Any]:
    from torch.masked import masked_tensor

    mask = torch.tensor([[True, False, True], [True, True, False]])
    x = masked_tensor(torch.arange(6.0).reshape(2, 3), mask, requires_grad=True)
    (x * 2).sum().backward()
    return [x.grad.get_data()]


def fake() -> list[Any]:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        layer = nn.Linear(4, 2)
        loss = layer(torch.randn(3, 4)).relu().sum()
        loss.backward()
    return [str(loss), str(layer.weight.grad)]


def distributed() -> list[Any]:
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        weight = nn.Parameter(distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)]))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        (distribute_tensor(torch.randn(3, 4), mesh, [Replicate()]) @ weight).relu().sum().backward()
        optimizer.step()
        return [weight.grad.to_local(), weight.detach().to_local()]  # type: ignore[union-attr, operator]
    finally:
        dist.destroy_process_group()


def wrapped() -> list[Any]:
    class Wrapper(torch.Tensor):
        inner: torch.Tensor

        @staticmethod
        def __new__(cls, inner: torch.Tensor) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]

        def __init__(self, inner: torch.Tensor) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, function: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
            from torch.utils._pytree import tree_map

            bare = lambda one: one.inner if isinstance(one, Wrapper) else one  # noqa: E731
            made = function(*tree_map(bare, args), **tree_map(bare, kwargs or {}))
            return tree_map(lambda one: Wrapper(one) if isinstance(one, torch.Tensor) else one, made)

    x: Any = Wrapper(torch.randn(3, 4)).requires_grad_()
    (x * 2).sum().backward()
    return [x.grad.inner]


def meta() -> list[Any]:
    layer = nn.Linear(4, 2, device="meta")
    layer(torch.randn(3, 4, device="meta", requires_grad=True)).sum().backward()
    return [str(layer.weight.grad)]


def transformed() -> list[Any]:
    x = torch.randn(3, 4, requires_grad=True)
    torch.func.vmap(torch.func.grad(lambda row: (row * row).sum()))(x).sum().backward()
    return [x.grad]


def sparse() -> list[Any]:
    values = torch.randn(2, requires_grad=True)
    matrix = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), values, (3, 3))
    torch.sparse.mm(matrix, torch.randn(3, 2)).sum().backward()
    rows = torch.randn(3, 3).relu().to_sparse_csr().requires_grad_()
    (rows @ torch.randn(3, 2)).sum().backward()
    return [values.grad, rows.grad.to_dense()]  # type: ignore[union-attr]


def quantised() -> list[Any]:
    levels = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.quint8)
    weight = torch.randn(4, requires_grad=True)
    (levels.dequantize() * weight).sum().backward()
    return [weight.grad]


def mkldnn() -> list[Any]:
    x = torch.randn(3, 4, requires_grad=True)
    x.to_mkldnn().relu().to_dense().sum().backward()
    return [x.grad]


PROGRAMS: dict[str, tuple[Callable[[], list[Any]], str | None]] = {
    "export": (lambda: exported(False), None),
    "strict export": (lambda: exported(True), None),
    "an export between two steps": (export_between_steps, None),
    "make_fx": (proxies, None),
    "torch.jit.trace": (traced, None),
    "strided nested tensors": (lambda: nested_linear(torch.strided), "nested tensors"),
    "jagged nested tensors": (lambda: nested_linear(torch.jagged), "nested tensors"),
    "attention of nested tensors": (nested_attention, "nested tensors"),
    "masked tensors": (masked, "MaskedTensor"),
    "fake tensors": (fake, "FakeTensor"),
    "tensors spread over processes": (distributed, "DTensor"),
    "a class of the user's": (wrapped, "Wrapper"),
    "the meta device": (meta, None),
    "torch.func": (transformed, None),
    "sparse tensors": (sparse, None),
    "quantised tensors": (quantised, None),
    "mkldnn": (mkldnn, None),
}
"""Programs, each with the tensors of which the picture says that their values are not shown."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")  # torch's own, of prototypes
def test_a_program_whose_tensors_have_no_values_runs_as_without_nbgrad(name: str, watch: bool) -> None:
    program, unread = PROGRAMS[name]
    torch.manual_seed(0)
    plain = program()
    torch.manual_seed(0)
    with nbgrad.record(view="none", watch=watch) as graph:
        made = program()
    assert len(made) == len(plain)
    for one, other in zip(plain, made, strict=True):
        assert type(one) is type(other)
        assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    assert graph.fault is None
    notes = [one for one in outline(graph).description["notes"] if "without values" in one or "FakeTensorMode" in one]
    assert len(notes) == (1 if unread is not None and watch else 0), notes
    assert all(unread in one for one in notes if unread is not None)
    assert unread is None or graph.records
