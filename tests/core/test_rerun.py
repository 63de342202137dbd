"""A recorded graph that runs again with other numbers gives the same as a fresh run with these numbers."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.rerun import Rerun, RerunError, RerunOutcome
from nbgrad.core.tensor.tensor import Tensor
from tests.core import rows


def same(one: torch.Tensor, other: torch.Tensor, what: str) -> None:
    """Both come from the same kernels and numbers. Some differ in the last digit because of their memory addresses."""
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12, equal_nan=True, msg=lambda text: f"{what}: {text}")


def id_of(graph: AutogradGraph, tensor: Any) -> int:
    """The id of the record of a leaf."""
    return next(one.id for one in graph.records if one.leaf is not None and one.leaf() is tensor)


def named(graph: AutogradGraph, name: str) -> int:
    return next(one.id for one in graph.records if one.name == name)


# Every row of the table.


def recorded(row: Op, sample: Sample, data: list[Any]) -> tuple[AutogradGraph, list[Any], Any]:
    """A recorded run of one row and its backward. ``data`` replaces the arguments of the sample."""
    positions = rows.differentiable(row, sample)
    args = [
        nbgrad.tensor(a.clone(), requires_grad=i in positions) if isinstance(a, torch.Tensor) else a
        for i, a in enumerate(data)
    ]
    with AutogradGraph() as graph:
        torch.manual_seed(0)
        outputs = rows.live(row, row(*args, **sample.settings))
        weights = [nbgrad.tensor(rows.weights(out.data).to(out.dtype)) for out in outputs]
        terms = [rows.real((out * weight).sum()) for out, weight in zip(outputs, weights, strict=True)]
        loss = terms[0]
        for term in terms[1:]:
            loss = loss + term
        loss.backward()
    return graph, [*args, *weights], loss


def cases(row: Op) -> list[tuple[Sample, Sample]]:
    """Some samples of a row, each paired with a sample that has other numbers."""
    pairs = zip(rows.samples(row), row.samples(Make(row.domain, seed=1)), strict=True)
    fit = [(one, other) for one, other in pairs if rows.differentiable(row, one) and _alike(one, other)]
    return fit[:: max(1, len(fit) // 4)]


def _alike(one: Sample, other: Sample) -> bool:
    shapes = [[a.shape for a in sample.args if isinstance(a, torch.Tensor)] for sample in (one, other)]
    return shapes[0] == shapes[1]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "row", [row for row in OPS.values() if row.differentiable and not row.random], ids=lambda row: row.name
)
def test_values_and_gradients_of_every_row_are_those_of_a_fresh_run(row: Op) -> None:
    for sample, other in cases(row):
        first = rows.differentiable(row, sample)[0]
        new = [other.args[i] if i == first else a for i, a in enumerate(sample.args)]
        try:
            expected = recorded(row, sample, new)
        except (RuntimeError, ValueError):  # the new numbers may not fit, as for an index
            continue
        graph, args, loss = recorded(row, sample, list(sample.args))
        before = [
            (a.data.clone(), None if a.grad is None else a.grad.data.clone()) for a in args if isinstance(a, Tensor)
        ]
        outcome = Rerun(graph).run({id_of(graph, args[first]): new[first]})
        same(outcome.values[graph.records[-1].id], expected[2].data, f"{row.name} value")
        for i in rows.differentiable(row, sample):
            grad = expected[1][i].grad
            got = outcome.gradients.get(id_of(graph, args[i]))
            assert (grad is None) == (got is None)
            if isinstance(got, torch.Tensor):
                same(got, grad.data, f"{row.name} gradient {i}")
        after = [(a.data, None if a.grad is None else a.grad.data) for a in args if isinstance(a, Tensor)]
        for was, now in zip(before, after, strict=True):
            same(now[0], was[0], "the user's tensor")
            assert was[1] is None or torch.equal(now[1], was[1]) or was[1].isnan().any()
        del loss


# Whole programs.


def check(
    program: Callable[..., Any], inputs: dict[str, torch.Tensor], change: str, number: torch.Tensor
) -> RerunOutcome:
    """A program is recorded and runs again with another tensor: the result is that of the program with this tensor."""

    def run(numbers: dict[str, torch.Tensor]) -> tuple[AutogradGraph, dict[str, Any], Any]:
        tensors = {
            name: nbgrad.tensor(data.clone(), requires_grad=data.is_floating_point()) for name, data in numbers.items()
        }
        with AutogradGraph() as graph:
            loss = program(**tensors)
            loss.backward()
        return graph, tensors, loss

    graph, tensors, _loss = run(inputs)
    expected, fresh, _ = run({**inputs, change: number})
    rerun = Rerun(graph)
    assert rerun.differences() == []
    outcome = rerun.run({id_of(graph, tensors[change]): number})
    for mine, other in zip(graph.records, expected.records, strict=True):
        if other.value is not None and other.value.raw is not None:
            same(
                outcome.values[mine.id], torch.from_numpy(other.value.array.copy()).to(other.dtype), f"value of {mine}"
            )
    for name, tensor in fresh.items():
        if tensor.grad is not None:
            got = outcome.gradients[id_of(graph, tensors[name])]
            assert isinstance(got, torch.Tensor)
            same(got, tensor.grad.data, f"gradient of {name}")
    return outcome


X, Y, W = torch.randn(3, 4), torch.randn(3, 4), torch.randn(4)


def in_place(x: Any, y: Any) -> Any:
    z = x * 2
    z[0] += y[1]
    z.mul_(y)
    z[:, 1:3].exp_()
    return (z * z).sum()


def several(x: Any, y: Any) -> Any:
    a, b, c = x.split(1)
    top = y.max(1)
    return (a * b).sum() + c.sum() * top.values.sum() + nbgrad.cat([b, a]).var()


def indexed(x: Any, y: Any) -> Any:
    rows = nbgrad.tensor([0, 2, 1])
    return (x[rows] * y[torch.tensor([1, 1, 0])]).sum() + x[torch.tensor([True, False, True])].prod()


def chosen(x: Any, y: Any) -> Any:
    scale = x.sum().item()
    return (x * y).sum() * 3.0 if scale > -1e9 else (x - y).sum()


def short_lived(x: Any, y: Any) -> Any:
    return ((x - (nbgrad.tensor(Y) - 0.5)) ** 2).mean() + (y @ nbgrad.ones(4)).sum()


@pytest.mark.parametrize("program", [in_place, several, indexed, chosen, short_lived])
@pytest.mark.parametrize("change", ["x", "y"])
def test_programs(program: Callable[..., Any], change: str) -> None:
    check(program, {"x": X, "y": Y}, change, torch.randn(3, 4))


def test_a_path_is_kept_as_it_was_recorded() -> None:
    x = nbgrad.tensor([2.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = x * 3 if x.item() > 0 else x * -1
        y.sum().backward()
    outcome = Rerun(graph).run({id_of(graph, x): torch.tensor([-2.0])})
    assert outcome.values[graph.records[-1].id].item() == -6.0


def test_the_seed_of_a_backward_is_kept() -> None:
    x = nbgrad.tensor([2.0, 3.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = x * x
        y.backward(nbgrad.tensor([1.0, 10.0]))
    outcome = Rerun(graph).run({id_of(graph, x): torch.tensor([5.0, 7.0])})
    same(outcome.gradients[id_of(graph, x)], torch.tensor([10.0, 140.0]), "gradient")


def test_what_needs_no_gradient_can_be_changed_and_asked_for_one() -> None:
    x, w = nbgrad.tensor(X), nbgrad.tensor(W, requires_grad=True)
    with AutogradGraph() as graph:
        loss = (x @ w).tanh().sum()
        loss.backward()
    rerun, data = Rerun(graph), id_of(graph, x)
    new = torch.randn(3, 4)
    assert data not in rerun.run({data: new}).gradients
    asked = rerun.run({data: new}, asked=(data,)).gradients[data]
    fresh = nbgrad.tensor(new, requires_grad=True)
    (fresh @ w).tanh().sum().backward()
    same(asked, fresh.grad.data, "gradient of the input")


def test_torch_graphs() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
    x, y = torch.randn(3, 4), torch.tensor([0, 1, 1])
    with AutogradGraph() as graph:
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
    grads = [p.grad.clone() for p in net.parameters()]
    rerun = Rerun(graph)
    assert rerun.differences() == []
    weight = net[0].weight
    new = torch.randn_like(weight)
    outcome = rerun.run({id_of(graph, weight): new})
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), grads, strict=True))
    with torch.no_grad():
        weight.copy_(new)
    net.zero_grad()
    again = torch.nn.functional.cross_entropy(net(x), y)
    again.backward()
    torch.testing.assert_close(outcome.values[graph.records[-1].id], again.detach())
    torch.testing.assert_close(outcome.gradients[id_of(graph, weight)], weight.grad)


def test_batch_norm_leaves_its_running_statistics() -> None:
    norm, x = nn.BatchNorm1d(4), nbgrad.tensor(X, requires_grad=True)
    with AutogradGraph() as graph:
        loss = (norm(x) ** 3).sum()
        loss.backward()
    before = norm.running_mean.data.clone()
    Rerun(graph).run({id_of(graph, x): torch.randn(3, 4)})
    same(norm.running_mean.data, before, "running mean")


def test_random_rows_draw_the_same_numbers_in_each_run_and_leave_the_generator() -> None:
    x = nbgrad.tensor(-torch.rand(6), requires_grad=True)
    with AutogradGraph() as graph:
        loss = nn.functional.rrelu(x, training=True).sum()
        loss.backward()
    rerun, state = Rerun(graph), torch.get_rng_state()
    one, other = rerun.run({}), rerun.run({})
    same(one.values[graph.records[-1].id], other.values[graph.records[-1].id], "value")
    assert torch.equal(torch.get_rng_state(), state)
    (said,) = rerun.differences()
    assert said == "rrelu draws random numbers again: the same ones in each run, but not the recorded ones."


def test_dropout_keeps_its_mask_where_that_is_small() -> None:
    x = nbgrad.tensor(torch.rand(8) + 1, requires_grad=True)
    with AutogradGraph() as graph:
        loss = nn.functional.dropout(x, 0.5).sum()
        loss.backward()
    rerun = Rerun(graph)
    assert rerun.differences() == []
    twice = rerun.run({id_of(graph, x): 2 * x.data}).values[graph.records[-1].id]
    same(twice, 2 * loss.data, "twice")


def test_an_op_in_place_that_changes_nothing_has_its_own_gradient() -> None:
    x = nbgrad.tensor(X, requires_grad=True)
    with AutogradGraph() as graph:
        y = x * 2
        z = y.sigmoid()
        y.conj_physical_()
        loss = (y * 3).sum() + z.sum()
        loss.backward()
    assert Rerun(graph).differences() == []


# Nudges.


def test_a_nudge_is_the_finite_difference_of_one_number() -> None:
    x, w = nbgrad.tensor(X), nbgrad.tensor(W, requires_grad=True)
    with AutogradGraph() as graph:
        loss = (x @ w).exp().mean()
        loss.backward()
    rerun = Rerun(graph)
    for place in range(4):
        nudge = rerun.nudge(id_of(graph, w), place, {})
        assert nudge.gradient == w.grad.data[place].item()
        assert nudge.difference == pytest.approx(nudge.gradient, rel=2e-3, abs=1e-4)
    assert rerun.nudge(id_of(graph, x), 2, {}).gradient == pytest.approx(
        rerun.nudge(id_of(graph, x), 2, {}).difference, rel=2e-3, abs=1e-4
    )


def test_a_wrong_rule_is_seen_by_a_nudge() -> None:
    class Wrong(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3

    x = nbgrad.tensor([1.0], requires_grad=True)
    with AutogradGraph() as graph:
        loss = Wrong.apply(x).sum()
        loss.backward()
    with pytest.raises(RerunError, match=r"Wrong at .* is no row of the op table, so it cannot be run again"):
        Rerun(graph).nudge(id_of(graph, x), 0, {})


def test_whole_numbers_have_no_nudge() -> None:
    net, tokens = nn.Embedding(5, 3), nbgrad.tensor([1, 4])
    with AutogradGraph() as graph:
        loss = net(tokens).sum()
        loss.backward()
    rerun = Rerun(graph)
    with pytest.raises(RerunError, match="these are whole"):
        rerun.nudge(id_of(graph, tokens), 0, {})
    found = rerun.run({id_of(graph, tokens): torch.tensor([0, 0])})
    same(found.values[graph.records[-1].id], 2 * net.weight.data[0].sum(), "value")
    with pytest.raises(RerunError, match=r"embedding at .* does not run with these numbers: "):
        rerun.run({id_of(graph, tokens): torch.tensor([0, 9])})


# The error says why an op cannot be run again.


def test_a_large_constant_that_is_gone() -> None:
    x = nbgrad.tensor(torch.randn(2000), requires_grad=True)
    with AutogradGraph() as graph:
        loss = (x * nbgrad.ones(2000)).sum()
        loss.backward()
    with pytest.raises(RerunError, match=r"the constant of shape \(2000,\) no longer exists. Assign it to a variable"):
        Rerun(graph).run({})


def test_a_large_index_that_is_gone_with_the_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbgrad.core.graph.rerun.KEPT", 8)
    x = nbgrad.tensor(X, requires_grad=True)
    with AutogradGraph() as graph:
        loss = x[torch.tensor([0, 2])].sum()
        loss.backward()
    rerun = Rerun(graph)
    rerun.run({})
    del loss
    with pytest.raises(RerunError, match="Keep the loss in a variable"):
        rerun.run({})


def test_only_leaves_and_inputs_have_numbers_to_change() -> None:
    x = nbgrad.tensor(X, requires_grad=True)
    with AutogradGraph() as graph:
        loss = (x * 2).sum()
        loss.backward()
    with pytest.raises(RerunError, match="an op makes its own"):
        Rerun(graph).numbers(graph.records[-1].id)


def test_a_graph_of_too_many_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbgrad.core.graph.rerun.MOST", 3)
    x = nbgrad.tensor(X, requires_grad=True)
    with AutogradGraph() as graph:
        loss = (x * 2 + 1).sum()
        loss.backward()
    with pytest.raises(RerunError, match="at most 3 can be run again"):
        Rerun(graph)


def test_what_was_changed_since_is_said() -> None:
    w = nn.Parameter(torch.randn(4))
    optimizer = nbgrad.optim.SGD([w], lr=0.1)
    with AutogradGraph() as graph:
        loss = (w * nbgrad.tensor(W)).sum()
        loss.backward()
        optimizer.step()
    (said,) = Rerun(graph).differences()
    assert said == "It runs on the numbers that w has after SGD.step()."
    with AutogradGraph() as graph:
        loss = (w * nbgrad.tensor(W)).sum()
        loss.backward()
    rerun = Rerun(graph)
    assert rerun.differences() == []
    with nbgrad.no_grad():
        w += 1
    assert rerun.differences() == [], "it runs on the recorded numbers"


def test_what_was_changed_since_is_said_of_numbers_that_are_too_many_to_be_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nbgrad.core.graph.rerun.KEPT", 4000)
    w = nn.Parameter(torch.randn(2000))
    with AutogradGraph() as graph:
        loss = (w**2).sum()
        loss.backward()
    rerun = Rerun(graph)
    with nbgrad.no_grad():
        w += 1
    assert rerun.differences() == ["It runs on the numbers that w has now."]


@pytest.mark.parametrize("size", [3, 2000])
def test_it_runs_when_every_tensor_of_it_is_gone(size: int) -> None:
    x = nbgrad.tensor(torch.randn(size), requires_grad=True)
    at = torch.tensor([0, 2, 2])
    with AutogradGraph() as graph:
        first, second = (x * 2)[: size // 2 * 2].split(size // 2)
        loss = x[at].sum() + (second**2).sum() + x[[0, 1]].prod()
        loss.backward()
    rerun = Rerun(graph)
    before, wanted = rerun.root({}), x.grad.data.clone()
    leaf = id_of(graph, x)
    del x, at, first, second, loss
    graph.close()
    assert rerun.root({}) == before
    same(rerun.run({}).gradients[leaf], wanted, "gradient")
    assert rerun.differences() == []


def test_an_open_graph() -> None:
    x = nbgrad.tensor(X, requires_grad=True)
    with AutogradGraph() as graph:
        loss = (x[torch.tensor([1])] * 2).sum()
        loss.backward()
        before = len(graph.records)
        outcome = Rerun(graph).run({id_of(graph, x): torch.ones(3, 4)})
        assert outcome.values[graph.records[-1].id].item() == 8.0
        assert len(graph.records) == before
        assert graph.backwards == 1


def test_no_backward() -> None:
    x = nbgrad.tensor(X, requires_grad=True)
    with AutogradGraph() as graph:
        y = (x * 2).sum()
    rerun = Rerun(graph)
    outcome = rerun.run({id_of(graph, x): torch.ones(3, 4)})
    assert outcome.gradients == {}
    assert outcome.values[graph.records[-1].id].item() == 24.0
    with pytest.raises(RerunError, match="no backward ran here"):
        rerun.nudge(id_of(graph, x), 0, {})
    del y
