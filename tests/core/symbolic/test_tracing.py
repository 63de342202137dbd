"""What a trace sees, what it refuses, and that it leaves everything as it was."""

import pytest
import torch

import nbgrad
from nbgrad.core.symbolic.program import Program, trace
from nbgrad.symbolic import Spec, TraceError


def loss_of(net: nbgrad.nn.Module) -> "object":
    return lambda x, y: nbgrad.nn.functional.cross_entropy(net(x), y)


def small() -> nbgrad.nn.Sequential:
    torch.manual_seed(0)
    return nbgrad.nn.Sequential(nbgrad.nn.Linear(4, 8), nbgrad.nn.ReLU(), nbgrad.nn.Linear(8, 3))


X, Y = nbgrad.tensor(torch.randn(5, 4)), nbgrad.tensor(torch.randint(0, 3, (5,)))


def test_a_trace_computes_nothing_and_draws_nothing() -> None:
    calls = []

    def function(x: nbgrad.Tensor) -> nbgrad.Tensor:
        calls.append(x.shape)
        return nbgrad.nn.functional.dropout(x @ x, 0.5)

    before = torch.random.get_rng_state()
    program = trace(function, Spec((10_000, 10_000)))  # would take seconds
    assert torch.equal(before, torch.random.get_rng_state())
    assert calls == [(10_000, 10_000)]
    assert [step.random for step in program.steps].count(True) == 1


def test_the_gradient_of_a_program_is_that_of_the_function() -> None:
    net = small()
    program = trace(loss_of(net), X, Y).grad()
    loss, gradients = program(X, Y)
    expected = loss_of(net)(X, Y)
    expected.backward()
    assert torch.equal(loss.data, expected.data)
    for found, parameter in zip(gradients, net.parameters(), strict=True):
        assert torch.equal(found.data, parameter.grad.data)


def test_gradients_by_name_position_and_tensor() -> None:
    net = small()
    program = trace(loss_of(net), X, Y)
    for wrt in ("x", 0):
        _, (found,) = program.grad(wrt=[wrt])(X, Y)
        assert found.shape == X.shape
    _, (found,) = program.grad(wrt=[net[0].weight])(X, Y)
    assert found.shape == net[0].weight.shape
    with pytest.raises(ValueError, match="no tensor 'z' to differentiate by: it has x, y"):
        program.grad(wrt=["z"])


def test_order_2() -> None:
    x = nbgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    _, (first,), (second,) = trace(lambda x: (x**3).sum(), x).grad(order=2)(x)
    assert first.tolist() == [3.0, 12.0, 27.0]
    assert second.tolist() == [6.0, 12.0, 18.0]


def test_names_are_those_of_the_user() -> None:
    net = small()
    program = trace(loss_of(net), X, Y).grad()
    names = [value.name for value in program.inputs + program.captured]
    assert names == ["x", "y", "w0_weight", "w0_bias", "w2_weight", "w2_bias"]
    made = [value.name for step in program.steps for value in step.results()]
    assert "d_w0_weight" in made
    assert "d_relu" in made
    assert len(made) == len(set(made))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 2 if x.sum() > 0 else x,
        lambda x: x[x > 0],
        lambda x: x * x.sum().item(),
        lambda x: x * float(x.sum()),
        lambda x: nbgrad.tensor(x.tolist()),
        lambda x: nbgrad.tensor(x.detach().numpy()),
        lambda x: print(x) or x,
        lambda x: x.nonzero(),
        lambda x: nbgrad.masked_select(x, x > 0),
        lambda x: x.repeat(int(x[0])),
    ],
)
def test_numbers_are_refused_with_the_line_and_a_remedy(function: "object") -> None:
    with pytest.raises(TraceError, match=r"(?s)test_tracing\.py:\d+.*traced tensor has no numbers.*Use nbgrad\.where"):
        trace(function, X[0])


def test_an_error_of_shapes_names_the_line() -> None:
    with pytest.raises(RuntimeError, match=r"matmul"):
        trace(lambda x: x @ x, Spec((3, 4)))


def test_everything_is_as_it_was_after_an_error() -> None:
    net = small()
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    data = [parameter._data for parameter in net.parameters()]
    values = [one.clone() for one in data]
    net[0].weight.grad = nbgrad.ones(8, 4)
    held = net[0].weight.grad

    def function(x: nbgrad.Tensor, y: nbgrad.Tensor) -> nbgrad.Tensor:
        optimizer.zero_grad()
        loss = loss_of(net)(x, y)
        loss.backward()
        optimizer.step()
        raise KeyError("mine")

    with pytest.raises((KeyError, TraceError)):
        trace(function, X, Y)
    assert all(parameter._data is one for parameter, one in zip(net.parameters(), data, strict=True))
    assert all(map(torch.equal, data, values))
    assert net[0].weight.grad is held
    assert net[0].bias.grad is None
    assert not optimizer.state


def test_a_tensor_with_a_history_from_outside_is_refused() -> None:
    w = nbgrad.ones(4, requires_grad=True)
    scaled = w * 2
    with pytest.raises(TraceError, match="computed outside of the traced function"):
        trace(lambda x: x * scaled, X)


def test_a_torch_parameter_is_refused() -> None:
    w = torch.ones(4, requires_grad=True)
    with pytest.raises(TraceError, match="from_torch"):
        trace(lambda x: torch.mul(x.data, w), X)


def test_other_shapes_and_types_are_refused_by_a_program() -> None:
    program = trace(lambda x: x * 2, X)
    with pytest.raises(ValueError, match=r"x was traced as \[5, 4\].* got \[4, 4\].*trace it again"):
        program(X[:4])
    with pytest.raises(TypeError, match="takes 1 arguments"):
        program(X, X)
    with pytest.raises(TypeError, match="x must be a tensor"):
        program(1.0)


def test_a_program_that_does_not_hang_together_is_found() -> None:
    program = trace(lambda x: (x * 2).exp(), X)
    with pytest.raises(ValueError, match="which no earlier step made"):
        program.with_steps(program.steps[1:]).check()
    with pytest.raises(ValueError, match="which there is already"):
        program.with_steps([*program.steps, program.steps[0]]).check()


def test_aliases_and_changes_in_place() -> None:
    def function(x: nbgrad.Tensor) -> nbgrad.Tensor:
        y = x * 2
        y[0].mul_(3)
        y.t().add_(1)
        return y.sum(0) + y[1]

    assert torch.equal(trace(function, X)(X).data, function(X).data)
    assert torch.equal(trace(function, X).optimize()(X).data, function(X).data)


def test_a_view_that_is_changed_is_not_merged_with_its_twin() -> None:
    def function(x: nbgrad.Tensor) -> nbgrad.Tensor:
        first = x + 1
        first.mul_(2)
        second = x + 1
        return first - second

    assert torch.equal(trace(function, X).optimize()(X).data, function(X).data)


def test_dropout_is_kept_and_drawn_in_order() -> None:
    def function(x: nbgrad.Tensor) -> nbgrad.Tensor:
        nbgrad.nn.functional.dropout(x, 0.5)  # nothing reads it, and the next draw depends on it
        return nbgrad.nn.functional.dropout(x, 0.5) + nbgrad.nn.functional.dropout(x, 0.5)

    torch.manual_seed(3)
    expected = function(X)
    program: Program = trace(function, X).optimize()
    torch.manual_seed(3)
    assert torch.equal(program(X).data, expected.data)


def test_a_batch_norm_in_training_is_known_to_change_its_statistics() -> None:
    net = nbgrad.nn.BatchNorm1d(4)
    (step,) = [one for one in trace(net, X).steps if one.name == "native_batch_norm"]
    assert [value.name for value in step.writes] == ["running_mean", "running_var"]
    assert not any(one.writes for one in trace(net.eval(), X).steps)
