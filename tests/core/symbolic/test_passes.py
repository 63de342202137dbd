"""Passes: what each rule does and does not do, and that optimized programs compute the same."""

import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.passes import optimize
from nbgrad.core.symbolic.passes.rewrite import Passed, note
from nbgrad.symbolic import Program, trace
from tests.core.symbolic.random_programs import check_passes, results, same_bits

X = nbgrad.tensor(torch.randn(5, 6))
COLUMN = nbgrad.tensor(torch.randn(5, 1))
ROW = nbgrad.tensor(torch.randn(6))


def rules(program: Program) -> list[str]:
    return [one.rule for one in program.notes]


def names(program: Program) -> list[str]:
    return [step.name for step in program.steps]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_stay_what_they_are(seed: int) -> None:
    check_passes(Random(seed))


def test_a_wrong_pass_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(listing: Any) -> Passed[Any]:
        """A wrong pass: it replaces one sum by a difference."""
        for position, step in enumerate(listing.steps):
            if step.name == "add" and len(step.args) == 2 and not step.kwargs:
                other = type(step)(torch.sub, step.args, {}, step.result, place=step.place)
                steps = [*listing.steps[:position], other, *listing.steps[position + 1 :]]
                return Passed(listing.with_steps(steps), [note("wrong", step, "")])
        return Passed(listing, [])

    monkeypatch.setitem(optimize.LEVELS, "exact", (wrong,))
    found = 0
    for seed in range(6):
        try:
            check_passes(Random(seed))
        except AssertionError:
            found += 1
    assert found >= 3


def _written_later(x: Any) -> Any:
    y = x + 0
    z = y * 1
    y.add_(1.0)
    return z + y.exp()


def _returned(x: Any) -> Any:
    return x * 1


@pytest.mark.parametrize(
    ("function", "kept"),
    [
        (lambda x: (x * 1).exp(), ["exp"]),
        (lambda x: (1.0 * x).exp(), ["exp"]),
        (lambda x: (x / 1).exp(), ["exp"]),
        (lambda x: (x - 0).exp(), ["exp"]),
        (lambda x: (x + -0.0).exp(), ["exp"]),
        (lambda x: x.neg().neg().exp(), ["exp"]),
        (lambda x: x + (-(x.exp())), ["exp", "sub"]),
        (lambda x: x - (-(x.exp())), ["exp", "add"]),
        (lambda x: (-(x.exp())) + x, ["exp", "sub"]),
        (lambda x: x.t().t().exp(), ["exp"]),
        (lambda x: x.reshape(-1).reshape(5, 6).exp(), ["exp"]),
        (lambda x: x.detach().exp(), ["exp"]),
        (lambda x: x[:].exp(), ["exp"]),
        (lambda x: x.reshape(-1).reshape(2, 15).exp(), ["view", "exp"]),
        (lambda x: x.to(torch.float64).to(torch.float32).exp(), ["exp"]),
        (lambda x: x.exp() * torch.tensor(1.0), ["exp"]),
        (lambda x: x + nbgrad.ones_like(x), ["add"]),
        (lambda x: x * (nbgrad.ones(2) * 3).sum(), ["mul"]),
    ],
)
def test_exact_rules(function: Callable[[Any], Any], kept: list[str]) -> None:
    traced = trace(lambda x: function(x) * 2.0, X)
    program = traced.optimize()
    plain = [name.rstrip("_") for name in names(program)]
    assert plain == [*kept, "mul"], program
    assert same_bits(results(program, [X])[0], results(traced, [X])[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 0.0).exp(),  # turns -0 into 0
        lambda x: (x * 1).exp().log().exp(),  # changes the last digits
        lambda x: x.log().exp(),  # NaN for a negative number
        lambda x: x.t().reshape(5, 6).exp(),  # the copy has another order in memory
        lambda x: x.to(torch.float16).to(torch.float32),  # loses digits
        lambda x: x * torch.tensor([1.0, 1, 1, 1, 1, 2]),
        lambda x: x.exp().expand(2, 5, 6).sum(0),
        lambda x: (x * 2.0) * 3.0,
    ],
)
def test_what_exact_rules_leave(function: Callable[[Any], Any]) -> None:
    traced = trace(function, X)
    program = traced.optimize()
    assert "constant" in rules(program) or len(program) >= len(traced) - 1
    assert same_bits(results(program, [X])[0], results(traced, [X])[0])
    zero = [nbgrad.tensor(torch.full((5, 6), -0.0))]
    assert same_bits(results(program, zero)[0], results(traced, zero)[0])


@pytest.mark.parametrize("function", [lambda z: z.conj() * 2, lambda z: z.mT.conj().mT * 2, lambda z: z.mH.mT * 2])
def test_a_conjugate_is_another_value_than_what_it_is_a_view_of(function: Callable[[Any], Any]) -> None:
    z = nbgrad.tensor(torch.randn(2, 3, dtype=torch.complex64))
    traced = trace(function, z)
    assert torch.equal(results(traced.optimize(), [z])[0], results(traced, [z])[0])


def test_what_leaves_or_is_changed_keeps_its_own_memory() -> None:
    program = trace(_returned, X).optimize()
    assert len(program) == 1
    found = program(X)
    found.data.add_(1)
    assert torch.equal(found.data, X.data + 1)
    program = trace(_written_later, X).optimize()
    assert same_bits(results(program, [X])[0], results(trace(_written_later, X), [X])[0])


@pytest.mark.parametrize(
    ("function", "rule", "big"),
    [
        (lambda c, r: (c.expand(5, 6) * 2.0 + 1.0) * r, "read before expand", 1),
        (lambda c, r: (c.expand(5, 6) + c) * r, "elementwise before expand", 1),
        (lambda c, r: ((c.expand(5, 6) * 1) * c) * r, "elementwise before expand", 1),
    ],
)
def test_an_expand_sinks(function: Callable[..., Any], rule: str, big: int) -> None:
    traced = trace(function, COLUMN, ROW)
    program = traced.optimize()
    assert rule in rules(program)
    assert sum(step.result.numel == 30 for step in program.steps) == big
    assert same_bits(results(program, [COLUMN, ROW])[0], results(traced, [COLUMN, ROW])[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda c, r: (c.expand(5, 6) * 2.0) @ nbgrad.outer(r, r),  # a matrix product depends on the order in memory
        lambda c, r: (c.expand(5, 6) * 2.0).sum(0) + r,  # the sum would have another order
        lambda c, r: c.expand(5, 6).exp() + r,  # exp of another kernel could differ in the last digit
        lambda c, r: (c.expand(5, 6) * 2.0, r),  # the value is a result of the program
    ],
)
def test_an_expand_that_stays(function: Callable[..., Any]) -> None:
    traced = trace(function, COLUMN, ROW)
    program = traced.optimize()
    assert not {"elementwise before expand", "read before expand"} & set(rules(program)), program
    found, expected = (results(one, [COLUMN, ROW]) for one in (program, traced))
    assert all(map(same_bits, found, expected))


@pytest.mark.parametrize(
    ("function", "rule", "steps"),
    [
        (lambda c, r: c.expand(5, 6).sum() * r, "sum of expand", 3),
        (lambda c, r: c.expand(5, 6).sum(1, keepdim=True) * r, "sum of expand", 2),
        (lambda c, r: c.expand(5, 6).sum(0) * r, "sum of expand", 3),
        (lambda c, r: (c + r).sum(1) + (c - r).sum(1), "sum of sums", 4),
        (lambda c, r: (c + r).sum(1) - (c - r).sum(1), "sum of sums", 4),
        (lambda c, r: c.square().sum(1) - (c + r).sum(1) + (c - r).sum(1), "sum of sums", 7),
        (lambda c, r: c + r * (c + 1.0), "product and sum in one", 2),
        (lambda c, r: c - r * (c + 1.0), "product and sum in one", 2),
        (lambda c, r: r * (c + 1.0) - c, "in place", 3),
        (lambda c, r: (-(c + r)).sum(0), "factor out of a sum", 3),
        (lambda c, r: ((c + r) * c).sum(1, keepdim=True), "factor out of a sum", 3),
        (lambda c, r: ((c + r) * r).sum(0), "factor out of a sum", 3),
        (lambda c, r: ((c + r) / r).sum(0), "factor out of a sum", 3),
        (lambda c, r: (c + r) * 2.0 * 3.0, "algebra", 2),
        (lambda c, r: (c + r) + (c + r) + (c + r), "algebra", 2),
        (lambda c, r: (c * r) * 5.0 - c * r, "algebra", 2),
        (lambda c, r: (c * r) * 5.0 + (c * r) * 0.5, "algebra", 2),
        (lambda c, r: c + c + r, "algebra", None),
        (lambda c, r: ((c + r) + 0.0) * c, "algebra", 2),
        (lambda c, r: (c + r).abs().log().exp() * c, "algebra", 3),
    ],
)
def test_reassociating_rules(function: Callable[..., Any], rule: str, steps: int | None) -> None:
    program = trace(function, COLUMN, ROW)
    found = program.optimize("reassociate")
    assert rule in rules(found), found
    assert steps is None or len(found) == steps, found
    assert rule in ("algebra", "in place") or rule not in rules(program.optimize())
    exact = results(trace(function, COLUMN.double(), ROW.double()), [COLUMN.double(), ROW.double()])[0]
    assert torch.allclose(results(found, [COLUMN, ROW])[0].double(), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda c, r: ((c + r) * c).sum(0),  # each term has another factor
        lambda c, r: ((c + r) * r).sum(),
        lambda c, r: ((c + r) * c).sum(1),  # the factor has a dimension that the sum lacks
        lambda c, r: (c * r).sum(1) + (c + r).sum(0, keepdim=True).sum(),  # the sums are over different dimensions
    ],
)
def test_sums_that_stay(function: Callable[..., Any]) -> None:
    program = trace(function, COLUMN, ROW).optimize("reassociate")
    assert not {"factor out of a sum", "sum of sums", "sum of expand"} & set(rules(program)), program


def test_a_sum_that_is_read_twice_is_not_merged() -> None:
    def function(c: Any, r: Any) -> Any:
        first, second = (c * r).sum(1), (c - r).sum(1)
        return (first + second) * first

    assert "sum of sums" not in rules(trace(function, COLUMN, ROW).optimize("reassociate"))


def network(kind: str) -> tuple[nn.Module, Any, Any]:
    torch.manual_seed(0)
    if kind == "mlp":
        net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
        return net, nbgrad.tensor(torch.randn(16, 6)), nbgrad.tensor(torch.randint(0, 3, (16,)))
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))
    return net, nbgrad.tensor(torch.randn(5, 1, 8, 8)), nbgrad.tensor(torch.randint(0, 3, (5,)))


def trained(kind: str, settings: dict[str, Any], level: str | None) -> list[torch.Tensor]:
    """The losses of some steps and the parameters after them."""
    net, x, y = network(kind)
    opt = nbgrad.optim.SGD(net.parameters(), lr=0.1, **settings)

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    torch.manual_seed(1)
    losses = [step(x, y).data]
    program: Any = trace(step, x, y)
    if level is not None:
        program = program.optimize(level)
    losses += [program(x, y).data for _ in range(4)]
    return [*(torch.as_tensor(one) for one in losses), *(one.clone() for one in net.state_dict().values())]


@pytest.mark.parametrize("kind", ["mlp", "cnn"])
@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9, "weight_decay": 0.01}, {"momentum": 0.9, "nesterov": True}])
def test_training_steps(kind: str, settings: dict[str, Any]) -> None:
    plain, exact = trained(kind, settings, None), trained(kind, settings, "exact")
    assert all(map(same_bits, plain, exact))
    for one, other in zip(trained(kind, settings, "reassociate"), plain, strict=True):
        assert torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def outer_sums(a: Any, b: Any) -> Any:
    t = a + b
    for _ in range(199):
        t = t + (a + b)
    return t.sum()


def test_the_example_of_a_student() -> None:
    """The sum is computed once, its gradient is a number, and both are exact."""

    def function(t1: Any, t2: Any, a: Any) -> Any:
        d = (t1 + t2) * a
        return t1 + t2 + d

    assert names(trace(function, X, X, X).optimize()) == ["add", "mul", "add_"]
    args = [
        nbgrad.tensor(torch.randn(64, 1), requires_grad=True),
        nbgrad.tensor(torch.randn(1, 64), requires_grad=True),
    ]
    program = trace(outer_sums, *args).grad()
    found = program.optimize()
    assert len(found) <= 204 < len(program)
    assert all(map(same_bits, results(found, args), results(program, args)))


def test_a_view_of_a_replaced_value_is_one_of_the_other_value() -> None:
    """A change in place of the doubled view must not reach the argument."""

    def function(x: Any) -> Any:
        return (x - 0).unsqueeze(0) * 2.0 + 1.0

    x = nbgrad.tensor(torch.randn(5, 6))
    before = x.data.clone()
    trace(function, x).optimize()(x)
    assert torch.equal(x.data, before)


def test_two_results_do_not_share_memory() -> None:
    program = trace(lambda x: (x + 1, x + 1), X).optimize()
    first, second = program(X)
    first.data.zero_()
    assert torch.equal(second.data, X.data + 1)


def test_memory_of_the_forward_stays_for_a_second_backward() -> None:
    w = nbgrad.tensor(torch.randn(5, 6), requires_grad=True)

    @nbgrad.compile
    def loss(x: Any) -> Any:
        y = (w * x).exp()
        return (y * y.tanh()).sum()

    for function in (loss, loss.function):
        w.grad = None
        found = function(X)
        found.backward(retain_graph=True)
        first = w.grad.data.clone()
        found.backward()
        assert torch.equal(w.grad.data, first + first)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_an_update_takes_the_product_in(momentum: float) -> None:
    net, opt, x, y = dense(momentum)
    step = training_step(net, opt)
    step(x, y)
    program = trace(step, x, y)
    exact, found = program.optimize(), program.optimize("reassociate")
    assert rules(found).count("folded update") == 2
    assert "folded update" not in rules(exact)
    assert names(found).index("addmm_") < max(place for place, one in enumerate(found.steps) if one.phase == "backward")
    before = {key: one.clone() for key, one in net.state_dict().items()}
    state = [{key: one.clone() for key, one in held.items()} for held in opt.state_dict()["state"].values()]
    outcomes = []
    for one in (program, found):
        net.load_state_dict({key: one.clone() for key, one in before.items()})
        for held, kept in zip(opt.state.values(), state, strict=True):
            held["momentum_buffer"].copy_(kept["momentum_buffer"])
        losses = [float(one(x, y)) for _ in range(3)]
        outcomes.append((losses, {key: one.clone() for key, one in net.state_dict().items()}))
    (losses, values), (others, found_values) = outcomes
    assert losses == pytest.approx(others, rel=1e-5)
    assert all(torch.allclose(values[key].data, found_values[key].data, atol=1e-6) for key in values)


def dense(momentum: float) -> tuple[nn.Module, Any, Any, Any]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    opt = nbgrad.optim.SGD(net.parameters(), lr=0.1, momentum=momentum)
    return net, opt, nbgrad.tensor(torch.randn(16, 6)), nbgrad.tensor(torch.randint(0, 3, (16,)))


def training_step(net: nn.Module, opt: Any, *, clears: bool = True) -> Callable[..., Any]:
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        if clears:
            opt.zero_grad()
        return loss

    return step


def test_a_gradient_that_leaves_the_program_is_not_folded() -> None:
    net, opt, x, y = dense(0.0)
    step = training_step(net, opt, clears=False)
    assert "folded update" not in rules(trace(step, x, y).optimize("reassociate"))
    step(x, y)
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_a_parameter_is_not_updated_before_it_is_read() -> None:
    w = nbgrad.tensor(torch.randn(6, 6), requires_grad=True)
    opt = nbgrad.optim.SGD([w], lr=0.1)

    def step(x: Any) -> Any:
        loss = ((x @ w).relu() @ w).sum()
        loss.backward()
        old = w.detach() * 2.0
        opt.step()
        opt.zero_grad()
        return loss, old

    start = w.data.clone()
    program = trace(step, X)
    expected = [*results(program, [X]), w.data.clone()]
    for level in ("exact", "reassociate"):
        w.data.copy_(start)
        found = [*results(program.optimize(level), [X]), w.data.clone()]
        assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(found, expected, strict=True))


def deep(x: Any) -> Any:
    for _ in range(6):
        x = (x * 1.5).exp().tanh() * 2.0
    return x.sum()


def measured_peak(program: Program, args: list[Any]) -> int:
    """The peak of the memory that torch's allocator gives in one run."""
    data, captured = [one._data for one in args], program.captured_data()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        made = program.run(data, captured)
    events = sorted(
        (one for one in profile.profiler.kineto_results.events() if one.name() == "[memory]"),
        key=lambda one: one.start_ns(),
    )
    alive = peak = 0
    for one in events:
        alive += one.nbytes()
        peak = max(peak, alive)
    assert made
    return peak


def test_peak_memory_is_that_of_the_allocator() -> None:
    args = [nbgrad.tensor(torch.randn(100, 100), requires_grad=True)]
    program = trace(deep, *args).grad().optimize()
    assert abs(measured_peak(program, args) - program.peak_memory()) <= 0.01 * program.peak_memory()


def test_notes_say_what_was_done_and_where() -> None:
    program = trace(lambda x: (x * 1).exp() + (x * 1).exp(), X).optimize()
    first = next(one for one in program.notes if one.rule == "algebra")
    assert first.before == "mul = mul(x, 1)"
    assert first.after == "x"
    assert "test_passes.py" in first.place
    assert (first.nodes, first.nbytes) == (1, 120)


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="exact, reassociate"):
        trace(lambda x: x * 2, X).optimize("fast")


@pytest.mark.rotated(6)
def test_the_time_of_passes_grows_with_the_number_of_steps() -> None:
    def seconds(count: int) -> float:
        def chain(a: Any, b: Any) -> Any:
            y = a
            for _ in range(count):
                y = (y * a + b) * a - b
            return y.sum()

        column, row = (nbgrad.tensor(torch.ones(shape), requires_grad=True) for shape in ((64, 1), (64,)))
        program = trace(chain, column, row).grad()
        taken = []
        for _ in range(2):
            begin = time.process_time()
            program.optimize("reassociate")
            taken.append(time.process_time() - begin)
        return min(taken)

    assert seconds(160) < 4 * 2.5 * seconds(40)


# Changes of shape in place.

TURNS: dict[str, Callable[[Any], Any]] = {
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "squeeze_": lambda x: x.squeeze_(),
    "squeeze_(dim)": lambda x: x.squeeze_(dim=1),
    "transpose_": lambda x: x.transpose_(0, 1),
    "t_": lambda x: x.t_(),
    "swapaxes_": lambda x: x.swapaxes_(0, 1),
    "swapdims_": lambda x: x.swapdims_(0, 1),
    "as_strided_": lambda x: x.as_strided_((3,), (1,)),
}
SAME: dict[str, Callable[[Any], Any]] = {
    "view": lambda x: x.view(6, 1),
    "slice": lambda x: x[:],
    "detach": lambda x: x.detach(),
    "there and back": lambda x: x.t().t(),
    "view of a view": lambda x: x.view(2, 3).view(6, 1),
}


@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("same", SAME)
def test_a_change_of_shape_in_place_changes_no_other_view(turn: str, same: str) -> None:
    def function(x: Any) -> Any:
        made = x * 1
        before, turned = SAME[same](made), SAME[same](made)
        TURNS[turn](turned)
        after = SAME[same](made)
        before.mul_(2)
        results = before + 0, turned + 0, after + 0, made + 0
        TURNS[turn](made)
        return *results, made + 0, turned.detach(), after.reshape(-1) * 2

    x = nbgrad.tensor(torch.arange(6.0, dtype=torch.float64).view(6, 1))
    program = trace(function, x)
    for one in (program, program.optimize(), program.optimize("reassociate"), nbgrad.compile(function)):
        for found, expected in zip(one(x), function(x), strict=True):
            assert found.shape == expected.shape
            assert torch.equal(found.data, expected.data)
    assert turn.partition("(")[0] not in names(program)


@pytest.mark.parametrize("turn", TURNS)
def test_the_shape_of_a_tensor_from_outside_stays(turn: str) -> None:
    x = nbgrad.ones(3, 1)
    for function, given in ((lambda x: TURNS[turn](x) * 2, (x,)), (lambda: TURNS[turn](x) * 2, ())):
        with pytest.raises(TraceError, match=r"_\(\) changes the shape of a tensor that was not made in the function"):
            trace(function, *given)
    assert x.shape == (3, 1)
