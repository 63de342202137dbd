"""Errors, warnings and the fast paths of plain torch are the same in a graph: no frame of ours, and none twice."""

import ast
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.recorder.functions import ASKS
from nbgrad.core.recorder.python_functions import ANSWERS, MODULES, RUNNING, _by_code, _functions

needs_c = pytest.mark.skipif(not nbgrad.compiled(), reason="plain Python cannot leave its frames out")


def learns(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 2, torch.Size(shape).numel()).reshape(shape).requires_grad_()


class Failing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(x, x.detach()[:2])


class Refusing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        raise ValueError("no gradient here")


def twice() -> None:
    loss = learns(3).sum()
    loss.backward()
    (loss * 1).sum().backward()
    x = learns(3).exp().sum()
    x.backward()
    x.backward()


def refused() -> None:
    Refusing.apply(learns(3)).sum().backward()  # type: ignore[no-untyped-call]


def hooked() -> None:
    x = learns(3)
    y = x * 2
    y.register_hook(lambda g: g.view(7))
    y.sum().backward()


ERRORS: dict[str, Callable[[], Any]] = {
    "a C function": lambda: learns(2) @ torch.ones(3),
    "a method": lambda: learns(2, 3).view(7),
    "an operator": lambda: learns(2) + torch.ones(3),
    "a reversed operator": lambda: 2 - learns(2) + torch.ones(3),
    "a loss": lambda: functional.cross_entropy(learns(3, 2), torch.ones(3, 3)),
    "a function of several ops": lambda: functional.multi_head_attention_forward(  # type: ignore[call-arg]
        learns(2, 1, 4), learns(2, 1, 4), learns(2, 1, 4), 4, 3, *[None] * 4, False, 0.0, learns(4, 4), None
    ),
    "einsum": lambda: torch.einsum("ij,jk->ik", learns(2, 3), learns(2, 3)),
    "a module": lambda: nn.Sequential(nn.Linear(2, 3), nn.Linear(4, 3))(learns(1, 2)),
    "a module of the user's": lambda: nn.Sequential(nn.Sequential(Failing()))(learns(3, 2)),
    "a backward of no number": (learns(3) * 2).backward,
    "a second backward": twice,
    "autograd.grad": lambda: torch.autograd.grad(learns(3).sum(), learns(2)),
    "a Function": refused,
    "a hook": hooked,
    "an index": lambda: learns(3)[5],
    "an optimizer": lambda: torch.optim.SGD([learns(3)], lr=0.1).step(lambda: learns(2) @ torch.ones(3)),  # type: ignore[arg-type, return-value]
    "a norm": lambda: nn.LayerNorm(4)(learns(2, 3)),
    "interpolate": lambda: functional.interpolate(learns(2, 3), scale_factor=2, mode="bicubic"),
}


def told(run: Callable[[], Any]) -> tuple[str, list[tuple[str, int, str]]]:
    """The text of the error that ``run`` raises, and its traceback: file, line and function of each entry."""
    with pytest.raises(Exception) as caught:  # noqa: PT011  # of every kind
        run()
    entries = traceback.extract_tb(caught.value.__traceback__)
    return repr(caught.value), [(entry.filename, entry.lineno or 0, entry.name) for entry in entries]


@needs_c
@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("name", ERRORS)
def test_tracebacks_are_those_of_plain_torch(name: str, watch: bool) -> None:
    plain = told(ERRORS[name])
    with AutogradGraph(watch=watch):
        assert told(ERRORS[name]) == plain
    assert told(ERRORS[name]) == plain


def losses() -> None:
    n, one = learns(4), learns(4, 1)
    for loss in (functional.mse_loss, functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss):
        loss(one, n)
        loss(one, n)
    nn.MSELoss()(one, n)
    nn.MSELoss()(one, n)
    functional.softmax(n)
    functional.softmax(n)
    nn.Softmax()(n)
    functional.kl_div(n, n)
    functional.kl_div(n, n)
    functional.mse_loss(n, n, size_average=True)
    functional.interpolate(learns(1, 1, 4), scale_factor=1.5, recompute_scale_factor=True)
    nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 1, 4, norm_first=True), 1)


@needs_c
@pytest.mark.parametrize("rule", ["always", "default", "once"])
def test_warnings_come_at_the_lines_of_plain_torch(rule: Any) -> None:
    def warned() -> list[tuple[type, str, str, int]]:
        for module in list(sys.modules.values()):
            if isinstance(registry := vars(module).get("__warningregistry__"), dict):
                registry.clear()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter(rule)
            losses()
        return [(one.category, str(one.message), one.filename, one.lineno) for one in found]

    plain = warned()
    assert {file for _, _, file, _ in plain} >= {__file__}
    with AutogradGraph():
        assert warned() == plain


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_transformer_takes_its_fast_path(mode: Any, masked: bool, batch_first: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=batch_first).eval()
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=batch_first).eval()
    x = torch.randn(3, 3, 8)
    mask = torch.tensor([[False, False, True], [False, True, True], [False, False, False]]) if masked else None
    attention = nn.MultiheadAttention(8, 2, batch_first=batch_first).eval()

    def run() -> list[torch.Tensor]:
        with mode():
            shown = attention(x, x, x, key_padding_mask=mask)
            return [encoder(x, src_key_padding_mask=mask), layer(x, src_key_padding_mask=mask), shown[0], shown[1]]

    plain = run()
    with AutogradGraph():
        again = run()
    assert all(a.equal(b) for a, b in zip(plain, again, strict=True))


def test_every_row_that_torch_has_in_python_is_recorded_at_its_last_call() -> None:
    from nbgrad.core.recorder.functions import OP, called

    rows = {function for function in _functions() if called(function).kind == OP and called(function).row is not None}
    assert len(rows) > 40
    assert {function.__name__ for function in rows if function.__code__ not in _by_code()} == set()


def test_a_function_in_python_is_one_op_with_its_arguments() -> None:
    x, table = learns(3, 4), learns(3, 4)
    with AutogradGraph() as graph:
        made = [
            functional.mse_loss(x, x.detach() * 2, reduction="sum"),
            functional.softsign(x).sum(),
            (2 / x).sum(),
            (2 - x).sum(),
            functional.embedding_bag(torch.tensor([[0, 1]]), table).sum(),
            functional.relu(x * 1, inplace=True).sum(),
            torch.einsum("ij->i", x).sum(),
            functional.smooth_l1_loss(x, x.detach() + 2, beta=0.5),
            functional.interpolate(x[None], scale_factor=2.0, mode="linear").sum(),
        ]
        torch.stack(made).sum().backward()
    ops = {record.op.name: dict(record.settings) for record in graph.records if record.op is not None}
    assert {"mse_loss", "softsign", "div", "sub", "embedding_bag", "relu", "einsum"} < set(ops)
    assert not {"abs", "reciprocal", "rsub", "broadcast_tensors"} & set(ops)
    assert ops["mse_loss"]["reduction"] == "sum"
    assert ops["smooth_l1_loss"]["beta"] == 0.5
    assert ops["interpolate"]["mode"] == "linear"
    assert not RUNNING


def test_a_function_that_raised_leaves_nothing_behind() -> None:
    x = learns(3, 2)
    with AutogradGraph() as graph:
        with pytest.raises(ValueError, match="not a valid value for reduction"):
            functional.mse_loss(x, x.detach(), reduction="total")
        y = x.exp().sum()
        y.backward()
    assert [record.op.name for record in graph.records if record.op is not None] == ["exp", "sum"]
    assert not RUNNING


def distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return functional.mse_loss(functional.normalize(a), functional.relu(b))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("watch", [True, False])
def test_a_trace_has_no_op_of_the_recorder(watch: bool) -> None:
    a, b = learns(300, 5), torch.ones(300, 5)
    net = nn.Sequential(nn.Linear(5, 5), nn.BatchNorm1d(5), nn.ReLU())
    plain, of_net = torch.jit.trace(distance, (a, b)), torch.jit.trace(net, a)  # type: ignore[no-untyped-call]
    with AutogradGraph(watch=watch):
        traced, net_traced = torch.jit.trace(distance, (a, b)), torch.jit.trace(net, a)  # type: ignore[no-untyped-call]
    assert str(traced.graph).count("aten::") == str(plain.graph).count("aten::")
    assert traced(a, b).equal(distance(a, b))
    assert net_traced.code == of_net.code


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_scripts_are_compiled_in_a_graph() -> None:
    a, b = learns(3, 2), torch.ones(3, 2)
    with AutogradGraph():
        scripted = torch.jit.script(distance)
        assert scripted(a, b).equal(distance(a, b))
    assert torch.jit.script(distance)(a, b).equal(distance(a, b))


def test_modules_are_all_that_ask() -> None:
    """Each module of torch that imports one of the functions by name is on the list."""
    folder = Path(torch.__file__).parent
    asking = set()
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).parts
        if parts[0] in {"testing", "_dynamo", "jit"} or "has_torch_function" not in (text := path.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and not ASKS.isdisjoint(one.name for one in node.names):
                name = ".".join(("torch", *parts)).removesuffix(".py").removesuffix(".__init__")
                asking.add(name)
    assert asking, "nothing was found, so nothing was checked"
    assert asking <= set(MODULES), f"add {asking - set(MODULES)}"


@pytest.mark.parametrize(("owner", "name"), [(nn.Module, "__call__"), (torch.optim.Optimizer, "zero_grad")])
def test_a_replaced_method_looks_like_torchs(owner: type, name: str) -> None:
    def look() -> tuple[Any, ...]:
        method = getattr(owner, name)
        return inspect.signature(method), method.__qualname__, method.__module__, method.__doc__

    plain = look()
    with AutogradGraph():
        assert look() == plain


@pytest.mark.parametrize("name", ["relu", "mse_loss"])
def test_a_function_that_the_program_replaces_runs_once(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    own, calls = getattr(functional, name), []

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(name)
        return own(*args, **kwargs)

    with AutogradGraph() as graph:
        monkeypatch.setattr(functional, name, counted)
        x = nn.ReLU()(learns(3, 2))
        nn.MSELoss()(x, x.detach() + 1).backward()
    assert calls == [name]
    assert [record.op.name for record in graph.records if record.op is not None] == ["relu", "mse_loss"]


def test_torchs_own_functions_are_back_after_a_graph() -> None:
    before = {(name, ask): vars(import_module(name)).get(ask) for name in MODULES for ask in ASKS}
    with AutogradGraph():
        assert functional.has_torch_function_unary in ANSWERS.values()
    assert {(name, ask): vars(import_module(name)).get(ask) for name in MODULES for ask in ASKS} == before
