"""Plain torch in a graph: the same numbers to the bit, every gradient in the graph, and torch as it was afterwards."""

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.autograd.function import _HookMixin
from torch.utils._pytree import tree_leaves

import nbgrad
from nbgrad.core.engine.torch_origins import known_origin
from nbgrad.core.graph.graph import AutogradGraph
from tests.core import opdb
from tests.recorder.torch_programs import PROGRAMS, Gradients, Program


def replaced() -> tuple[Any, ...]:
    """What a graph replaces in torch while it is open."""
    return (
        torch.autograd._engine_run_backward,  # type: ignore[attr-defined]
        torch.nn.Module.__call__,
        _HookMixin._register_hook,
        torch.compile,
        torch._C._len_torch_function_stack(),
    )


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    before = replaced()
    yield
    assert replaced() == before


def seeded(program: Program) -> Gradients:
    torch.manual_seed(0)
    return [None if one is None else one.clone() for one in program()]


def recorded(program: Program, **options: Any) -> tuple[Gradients, AutogradGraph]:
    with AutogradGraph(**options) as graph:
        made = seeded(program)
    return made, graph


def alike(one: Gradients, other: Gradients) -> bool:
    return all(
        a is b is None or (a is not None and b is not None and same(a, b)) for a, b in zip(one, other, strict=True)
    )


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    a, b = (torch.view_as_real(one) if one.is_complex() else one for one in (a.resolve_conj(), b.resolve_conj()))
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


# The numbers.


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_gradients_are_the_same_to_the_bit(program: Program, watch: bool) -> None:
    plain = seeded(program)
    made, graph = recorded(program, watch=watch)
    assert alike(plain, made)
    assert graph.backwards > 0
    assert any(record.kind == "op" for record in graph.records)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_every_op_and_leaf_of_the_last_backward_has_a_gradient(program: Program) -> None:
    _, graph = recorded(program)
    without = [record for record in graph.records if record.kind != "constant" and record.gradient is None]
    assert not [record.op.name for record in without if record.op]
    assert all(record.name in ("w", None) for record in without if record.op is None)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_the_graph_can_be_drawn_and_asked(program: Program, tmp_path: Any) -> None:
    _, graph = recorded(program)
    for suffix in ("svg", "html", "json", "txt"):
        graph.save(tmp_path / f"graph.{suffix}")
    assert isinstance(graph.findings(), list)
    assert isinstance(graph.unreached(), list)


def flat(value: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]


def run(entry: Any, sample: Any) -> Gradients:
    inputs = [one for one in opdb.leaves_of(sample) if isinstance(one, torch.Tensor) and one.requires_grad]
    for one in inputs:
        one.grad = None
    torch.manual_seed(0)
    outs = [one for one in flat(entry(sample.input, *sample.args, **sample.kwargs)) if one.requires_grad]
    if outs:
        torch.autograd.backward([(one.abs() ** 2 if one.is_complex() else one * one).sum() for one in outs])
    return [one.grad for one in inputs]


@pytest.mark.filterwarnings("ignore")  # torch's own, of functions that it will drop
@pytest.mark.parametrize("name", [name for name in opdb.cases() if not name.endswith(opdb.COMPLEX)])
def test_an_op_of_torchs_database_gives_the_same_and_its_inputs_have_their_gradients(name: str) -> None:
    entry = opdb.entries()[name]
    sample = opdb.samples_of(entry, torch.float64)[0]
    plain = [None if one is None else one.clone() for one in run(entry, sample)]
    with AutogradGraph() as graph:
        made = run(entry, sample)
    assert alike(plain, made)
    found = {record.id: record for record in graph.records}
    for one in flat(opdb.leaves_of(sample)):
        if one.grad is None or one.grad.numel() == 0 or one.grad.layout is not torch.strided:
            continue
        origin = known_origin(one)
        assert origin is not None
        assert origin.seq in found
        gradient = found[origin.seq].gradient
        values = torch.view_as_real(one.grad.resolve_conj()) if one.grad.is_complex() else one.grad
        want = float(torch.linalg.vector_norm(values.double()))
        assert gradient is not None
        assert gradient.norm == pytest.approx(want, rel=1e-6, abs=1e-12, nan_ok=True)


# The picture.


def test_modules_are_boxes_and_ops_have_the_names_of_the_rows() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    x = torch.randn(5, 3)
    with AutogradGraph() as graph:
        loss = net(x).pow(2).mean()
        loss.backward()
    ops = {record.op.name: record for record in graph.records if record.op is not None}
    assert list(ops) == ["linear", "relu", "pow", "mean"]
    assert all(type(record.op).__name__ == "Op" for record in ops.values())
    assert ops["relu"].scope is not None
    assert ops["relu"].scope.path() == ("Sequential", "1 (ReLU)")
    assert [(r.name, r.kind) for r in graph.records if r.op is None] == [
        ("x", "constant"),
        *[("weight", "parameter"), ("bias", "parameter")] * 2,
    ]
    assert ops["mean"].name == "loss"
    assert ops["mean"].root
    assert ops["mean"].place is not None
    assert "pow(2).mean()" in ops["mean"].place.text


def test_a_forward_may_have_an_argument_of_any_name() -> None:
    class Net(torch.nn.Module):
        def forward(self, *, module: torch.Tensor, args: float) -> torch.Tensor:
            return module * args

    x = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        Net()(module=x, args=2.0).sum().backward()
    assert [record.op.name for record in graph.records if record.op is not None] == ["mul", "sum"]


def test_a_change_of_a_view_is_drawn_as_one_of_what_it_is_a_view_of() -> None:
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    with AutogradGraph() as graph:
        y = x * 2
        z = y[:, 1]
        z.mul_(w)
        (y.sum() + z.exp().sum()).backward()
    ops = [(record.op.name, tuple(record.shape)) for record in graph.records if record.op is not None]
    assert ops == [
        *(("mul", (4, 3)), ("mul_", (4, 3)), ("sum", ()), ("as_strided", (4,)), ("exp", (4,)), ("sum", ()), ("add", ()))
    ]
    (changed,) = [record for record in graph.records if record.op is not None and record.op.name == "mul_"]
    assert changed.gradient is not None
    assert changed.place is not None
    assert changed.place.text.strip() == "z.mul_(w)"
    assert [one.reduction for one in changed.inputs] == [None, None]


def test_a_result_that_is_a_view_inside_of_its_op_is_changed_like_any_other() -> None:
    x, b = torch.randn(2, 3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    with AutogradGraph() as graph:
        y = torch.einsum("btc,tu->buc", x, torch.randn(3, 5))
        y += b
        y.square().sum().backward()
    assert [record.op.name for record in graph.records if record.op is not None] == ["einsum", "add_", "square", "sum"]
    assert all(record.gradient is not None for record in graph.records if record.kind == "leaf")


def test_each_broadcast_has_its_reduction_with_the_terms_of_the_sum() -> None:
    x, b, s = torch.randn(4, 3), torch.randn(3, requires_grad=True), torch.randn((), requires_grad=True)
    with AutogradGraph() as graph:
        (x + b).mul(s).sum().backward()
    found = {str(undone) for record in graph.records for one in record.inputs if (undone := one.reduction) is not None}
    assert found == {"(4, 3) -> (3,): sum dim 0", "(4, 3) -> (): sum dims 0, 1"}


def test_the_bias_of_a_linear_layer_is_a_reduction_too() -> None:
    net = torch.nn.Linear(3, 2)
    with AutogradGraph() as graph:
        net(torch.randn(5, 3)).sum().backward()
    (linear,) = [record for record in graph.records if record.op is not None and record.op.name == "linear"]
    assert [str(one.reduction) for one in linear.inputs] == ["None", "None", "(5, 2) -> (2,): sum dim 0"]


def test_values_and_gradients_of_small_tensors_are_kept() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = x * 3
        y.sum().backward()
    leaf, op, _ = graph.records
    assert leaf.value is not None
    assert leaf.value.array is not None
    assert leaf.value.array.tolist() == [1, 2]
    assert op.value is not None
    assert op.value.array is not None
    assert op.value.array.tolist() == [3, 6]
    assert leaf.gradient is not None
    assert leaf.gradient.array is not None
    assert leaf.gradient.array.tolist() == [3, 3]


@pytest.mark.filterwarnings(
    "ignore:Using `torch.compile"
)  # of global hooks of modules, which another test may have left
def test_a_compiled_module_runs_as_compiled_and_is_one_op() -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    run, x = torch.compile(net, backend="aot_eager"), torch.randn(5, 3)
    with AutogradGraph():  # the first call may come inside a graph
        run(x).sum().backward()
    graphs = counters["stats"]["unique_graphs"]
    plain = [one.grad.clone() for one in net.parameters() if one.grad is not None]
    net.zero_grad()
    with AutogradGraph() as graph:
        run(x).sum().backward()
    assert counters["stats"]["unique_graphs"] == graphs
    assert not counters["graph_break"]
    assert alike(plain, [one.grad for one in net.parameters()])
    compiled, _ = [record for record in graph.records if record.op is not None]
    assert compiled.op is not None
    assert compiled.op.name == "CompiledFunction"
    assert {record.name for record in graph.records if record.kind == "parameter"} == {"0.weight", "0.bias"}


def test_torch_and_nbgrad_can_share_a_graph() -> None:
    a, b = torch.ones(2, requires_grad=True), nbgrad.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        (a * 2).sum().backward()
        (b * 3).sum().backward()
    assert graph.backwards == 2
    assert [record.name for record in graph.records if record.kind == "leaf"] == ["b"]
    assert a.grad is not None
    assert a.grad.tolist() == [2, 2]


# Errors, and what is left.


def test_an_op_that_raises_is_the_failure_of_the_graph() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with AutogradGraph() as graph, pytest.raises(RuntimeError) as caught:
        x @ torch.ones(2, 3)
    failure = graph.failure(caught.value)
    assert failure is not None
    assert failure.op == "matmul"
    assert [one.what for one in failure.operands] == ["(2, 3) float32", "(2, 3) float32"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_torch_is_as_it_was_after_an_error(error: type[BaseException]) -> None:
    before = replaced()

    def fail(_: Any) -> None:
        raise error

    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(fail)
    with pytest.raises(error), AutogradGraph():
        y.sum().backward()
    assert replaced() == before
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3]


@pytest.mark.parametrize("switch", [nbgrad.detect_anomaly, nbgrad.strict_broadcast], ids=lambda one: one.__name__)
def test_what_checks_nbgrads_ops_leaves_torchs_alone(switch: Any) -> None:
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    with AutogradGraph() as graph, switch():
        (x / x + torch.ones(3, 1)).sum().backward()
    assert graph.backwards == 1
    assert x.grad is not None
    assert x.grad.isnan()[0]
    y = nbgrad.tensor([0.0, 1.0], requires_grad=True)
    with switch(), AutogradGraph(), pytest.raises((nbgrad.AnomalyError, nbgrad.BroadcastError)):
        y / y + nbgrad.ones(3, 1)


def test_nothing_of_a_program_stays_alive() -> None:
    class Big(torch.nn.Linear):
        pass

    with AutogradGraph() as graph:
        net, x = Big(64, 64), torch.randn(8, 64)
        loss = net(x).square().sum()
        loss.backward()
        assert loss.grad_fn is not None
        kept: list[Any] = [net, x, loss, net.weight, loss.grad_fn.metadata["nbgrad"]]
        held = [weakref.ref(one) for one in kept]
        del net, x, loss, kept
    gc.collect()
    assert [one() for one in held] == [None] * 5
    assert len(graph.records) == 6


def test_a_module_whose_class_holds_it_does_not_stay_alive() -> None:
    with AutogradGraph() as graph:
        net = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))  # a class of its own
        net(torch.randn(4, 2)).sum().backward()
        held = [weakref.ref(one) for one in (net, *net.parameters())]
        del net
    gc.collect()
    assert [one() for one in held] == [None] * 4
    assert {record.scope.label for record in graph.records if record.scope} >= {"ParametrizedLinear"}


def test_a_retained_graph_keeps_no_hook() -> None:
    x = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        y = (x * x).sum()
        y.backward(retain_graph=True)
    count = graph.backwards
    y.backward()
    assert graph.backwards == count == 1


def test_a_chain_of_many_ops_is_let_go_of() -> None:
    limit = sys.getrecursionlimit()
    x = torch.ones(1, requires_grad=True)
    with AutogradGraph(watch=False):
        y = x
        for _ in range(20 * limit):
            y = y + 1
        y.backward()
        del y
    assert x.grad is not None
    assert x.grad.item() == 1


def test_another_thread_is_not_recorded() -> None:
    x = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        thread = threading.Thread(target=lambda: (x * 2).sum().backward())
        thread.start()
        thread.join()
    assert not graph.records
    assert x.grad is not None


def test_a_mode_of_the_users_stays_where_it_is() -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        seen = 0

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen += 1
            return function(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    graph = AutogradGraph()
    graph.__enter__()
    with Mode() as mode:
        x * 2
        graph.__exit__(None, None, None)
        assert torch._C._len_torch_function_stack() == 1
        seen = mode.seen
        x * 3
        assert mode.seen > seen
    assert [record.op.name for record in graph.records if record.op] == []


def test_what_runs_without_a_gradient_is_not_recorded() -> None:
    x = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        with torch.no_grad():
            x * 2
        torch.ones(2) * 2
        x.detach() * 2
    assert not graph.records


def test_torch_func_keeps_its_tensors_to_itself() -> None:
    net = torch.nn.Linear(4, 1)
    x = torch.randn(3, 4)

    def loss(parameters: Any) -> Any:
        return torch.func.functional_call(net, parameters, (x,)).sum()

    given = dict(net.named_parameters())
    plain = torch.func.grad(loss)(given)
    with AutogradGraph() as graph:
        made = torch.func.grad(loss)(given)
        torch.func.vmap(torch.func.jacrev(torch.sin))(x)
    assert alike(list(plain.values()), list(made.values()))
    assert graph.backwards == 0


def test_many_gradients_at_once_keep_their_tensors_to_themselves() -> None:
    x = torch.randn(3, requires_grad=True)
    y = x.exp() * x
    plain = torch.autograd.grad(y, x, torch.eye(3), retain_graph=True, is_grads_batched=True)[0]
    with AutogradGraph() as graph:
        made = torch.autograd.grad(y, x, torch.eye(3), create_graph=True, is_grads_batched=True)[0]
        made.square().sum().backward()
        jacobian = torch.autograd.functional.jacobian(torch.sin, x.detach(), vectorize=True)
    assert torch.equal(plain, made)
    assert torch.equal(jacobian, torch.diag(x.detach().cos()))
    assert graph.backwards == 1
    assert x.grad is not None
    assert any(record.kind == "leaf" and record.gradient is not None for record in graph.records)


def test_threads_may_open_and_close_graphs_at_the_same_time() -> None:
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                x = torch.ones(2, requires_grad=True)
                with AutogradGraph() as graph:
                    (x * 2).sum().backward()
                assert graph.backwards == 1
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed, failed[0]
