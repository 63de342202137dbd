"""A trace sees all ops, refuses what it cannot follow, and leaves everything as it was."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic import fake
from nbgrad.core.symbolic.fake import Fakes, storage_of
from nbgrad.core.symbolic.program import Program, trace
from nbgrad.symbolic import Spec, TraceError


def loss_of(net: nbgrad.nn.Module) -> "object":
    return lambda x, y: nbgrad.nn.functional.cross_entropy(net(x), y)


def small() -> nbgrad.nn.Sequential:
    torch.manual_seed(0)
    return nbgrad.nn.Sequential(nbgrad.nn.Linear(4, 8), nbgrad.nn.ReLU(), nbgrad.nn.Linear(8, 3))


X, Y = nbgrad.tensor(torch.randn(5, 4)), nbgrad.tensor(torch.randint(0, 3, (5,)))


def test_a_trace_computes_nothing_and_draws_nothing() -> None:
    def function(x: nbgrad.Tensor) -> nbgrad.Tensor:
        assert x.shape == (10_000, 10_000)
        return nbgrad.nn.functional.dropout(x @ x, 0.5)

    before = torch.random.get_rng_state()
    program = trace(function, Spec((10_000, 10_000)))  # a real run would take seconds
    assert torch.equal(before, torch.random.get_rng_state())
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


@pytest.mark.rotated(3)
@pytest.mark.parametrize("block", ["LSTM", "GRU", "RNN"])
def test_order_2_of_a_recurrence(block: str) -> None:
    """Its rule takes the conjugate of a weight, which is the weight itself: torch returns its argument."""
    layer, x = getattr(nn, block)(3, 4), nbgrad.tensor(torch.randn(5, 3), requires_grad=True)

    def loss(x: Any) -> Any:
        return layer(x)[0].square().sum()

    *_, (found,) = trace(loss, x).grad(wrt=["x"], order=2)(x)
    (first,) = nbgrad.autograd.grad(loss(x), x, create_graph=True)
    (second,) = nbgrad.autograd.grad(first.sum(), x)
    torch.testing.assert_close(found.data, second.data)


def test_order_2_where_the_gradient_is_constant() -> None:
    x, y = (nbgrad.tensor(values, requires_grad=True) for values in ([1.0, 2.0], [3.0, 4.0]))
    found = trace(lambda x, y: (2 * x + y).sum(), x, y).grad(order=3)(x, y)
    assert [[one.tolist() for one in part] for part in found[2:]] == [[[0.0, 0.0], [0.0, 0.0]]] * 2
    found = trace(lambda x, y: (x * x).sum() + y.sum(), x, y).grad(order=2)(x, y)
    assert [one.tolist() for one in found[2]] == [[2.0, 2.0], [0.0, 0.0]]


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
    ("function", "reason", "remedy"),
    [
        (lambda x: x * 2 if x.sum() > 0 else x, r"bool\(x\), as in `if x:`, asks for a number", "Use nbgrad.where"),
        (lambda x: x[x > 0], r"the size of the result of x\[mask\] depends on numbers", r"Use x \* mask"),
        (lambda x: x * x.sum().item(), "item asks for a number", "Use the tensor itself"),
        (lambda x: x * float(x.sum()), r"float\(x\) asks for a number", "Use the tensor itself"),
        (lambda x: nbgrad.tensor(x.tolist()), "tolist asks for the numbers", "Use the tensor itself"),
        (lambda x: nbgrad.tensor(x.detach().numpy()), "numpy asks for the numbers", "Use the tensor itself"),
        (lambda x: repr(x) and x, r"print\(x\) asks for the numbers", "Return the tensor"),
        (lambda x: f"{x.sum():.2f}" and x, "asks for", "Return the tensor|Use the tensor itself"),
        (lambda x: x.nonzero(), "nonzero asks for a size", r"Use x \* mask"),
        (lambda x: nbgrad.masked_select(x, x > 0), "depends on numbers|asks for a size", r"Use x \* mask"),
        (lambda x: x.repeat(int(x[0])), r"int\(x\), as in y\[x\], asks for a number", "a Python number for a size"),
        (lambda x: x[x.argmax()], r"int\(x\), as in y\[x\], asks for a number", r"index_select\(x, dim, i"),
        (lambda x: nbgrad.nn.functional.one_hot(x.long()), "one_hot", "Give num_classes"),
        (lambda x: x.repeat_interleave(x.long()), "repeat_interleave", "Give output_size"),
    ],
)
def test_numbers_are_refused_with_the_line_and_a_remedy(function: "object", reason: str, remedy: str) -> None:
    with pytest.raises(
        TraceError, match=rf"(?s)test_tracing\.py:\d+.*({reason}).*traced tensor has no numbers.*({remedy})"
    ):
        trace(function, X[0])


def test_the_remedies_are_traced() -> None:
    x, i = X[0], nbgrad.tensor([1, 0, 1, 2])
    for function in (
        lambda x, i: nbgrad.where(x.sum() > 0, x * 2, x),
        lambda x, i: x * (x > 0),
        lambda x, i: nbgrad.index_select(x, 0, x.argmax().reshape(1)),
        lambda x, i: nbgrad.nn.functional.one_hot(i, num_classes=3),
        lambda x, i: x.repeat_interleave(i, output_size=4),
        lambda x, i: nbgrad.zeros(3).index_add(0, i, nbgrad.ones(4)),
    ):
        assert torch.equal(trace(function, x, i)(x, i).data, function(x, i).data)


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
        nbgrad.nn.functional.dropout(x, 0.5)  # no step reads it, but the next random numbers depend on it
        return nbgrad.nn.functional.dropout(x, 0.5) + nbgrad.nn.functional.dropout(x, 0.5)

    torch.manual_seed(3)
    expected = function(X)
    program: Program = trace(function, X).optimize()
    torch.manual_seed(3)
    assert torch.equal(program(X).data, expected.data)


def test_running_statistics_move_as_often_as_the_layer_runs() -> None:
    torch.manual_seed(0)
    x = nbgrad.tensor(torch.randn(5, 4, 2))
    for layer in (nbgrad.nn.BatchNorm1d(4), nbgrad.nn.InstanceNorm1d(4, track_running_stats=True)):
        twin = copy.deepcopy(layer)

        def function(x: nbgrad.Tensor, layer: nbgrad.nn.Module = layer) -> nbgrad.Tensor:
            layer(x * 3)  # no step reads it, but it changes the running statistics
            return layer(x) + layer(x)

        program: Program = trace(function, x).optimize()
        assert torch.equal(program(x).data, function(x, twin).data)
        assert torch.equal(layer.running_mean.data, twin.running_mean.data)
        assert torch.equal(layer.running_var.data, twin.running_var.data)
        layer.eval()
        assert not any(step.writes for step in trace(function, x).steps)


def test_a_cast_by_autocast_is_part_of_a_program() -> None:
    weight = nbgrad.tensor(torch.randn(4, 4))

    def function(x: nbgrad.Tensor) -> nbgrad.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ weight

    found = trace(function, X)(X)
    assert found.dtype is torch.bfloat16
    assert torch.equal(found.data, function(X).data)


def test_inputs_that_are_changed_have_the_strides_of_the_examples() -> None:
    def function(x: nbgrad.Tensor) -> nbgrad.Tensor:
        y = x.reshape(-1)
        y.add_(1)
        return x * 1

    program = trace(function, nbgrad.tensor(torch.zeros(3, 4).t())).optimize()
    assert not program(nbgrad.tensor(torch.zeros(3, 4).t())).any()
    with pytest.raises(ValueError, match=r"x was traced with the strides \(1, 4\), got \(3, 1\)"):
        program(nbgrad.tensor(torch.zeros(4, 3)))


def test_inputs_that_are_changed_share_memory_as_the_examples_do() -> None:
    def function(a: nbgrad.Tensor, b: nbgrad.Tensor) -> nbgrad.Tensor:
        first = b + 1
        a.mul_(2)
        return first - (b + 1)

    one, other = nbgrad.tensor([1.0]), nbgrad.tensor([3.0])
    program = trace(function, one, other).optimize()
    assert program(one, other).item() == 0
    with pytest.raises(ValueError, match="share memory in another way"):
        program(other, other)
    compiled = nbgrad.compile(function)
    assert compiled(one, other).item() == 0
    assert compiled(other, other).item() == -3
    assert compiled(one, other).item() == 0
    assert len(compiled.reasons) == 2


class Average(nbgrad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", nbgrad.zeros(()))

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        self.mean = self.mean * 0.9 + x.mean()
        return x - self.mean


def test_a_module_with_another_tensor_is_refused_and_stays_as_it_was() -> None:
    layer = Average()
    held = layer.mean
    with pytest.raises(TraceError, match=r"gives Average\.mean a new tensor.*in place"):
        trace(layer, X)
    assert layer.mean is held


def test_other_data_is_refused() -> None:
    w = nbgrad.ones(4, requires_grad=True)

    def function(x: nbgrad.Tensor) -> nbgrad.Tensor:
        w.data = w.data * 2
        return x * w

    with pytest.raises(TraceError, match=r"t\.data = .* other memory.*copy_"):
        trace(function, X)
    assert w.tolist() == [1.0] * 4


def test_a_function_that_seeds_is_refused() -> None:
    def function(x: nbgrad.Tensor) -> nbgrad.Tensor:
        torch.manual_seed(3)
        return nbgrad.rand_like(x)

    before = torch.get_rng_state()
    with pytest.raises(TraceError, match=r"seeds torch's random numbers.*outside of the function"):
        trace(function, X)
    assert torch.equal(before, torch.get_rng_state())


def test_attention_takes_the_kernel_that_it_takes_without_a_trace() -> None:
    x = nbgrad.tensor(torch.randn(1, 2, 8, 4), requires_grad=True)

    def function(x: nbgrad.Tensor) -> "object":
        found = nbgrad.nn.functional.scaled_dot_product_attention(x, x, x)
        return found, nbgrad.grad((found * found).sum(), x)[0]

    program = trace(function, x)
    assert any("flash_attention" in step.name for step in program.steps)
    for found, expected in zip(program(x), function(x), strict=True):
        assert torch.equal(found.data, expected.data)


def test_equal_calls_of_torch_run_once_in_all_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    start = fake._Witness.__init__

    def counted(self: Any) -> None:
        ran.append(self)
        start(self)

    def stacked(depth: int) -> Callable[[Any], Any]:
        def function(x: Any) -> Any:
            for _ in range(depth):
                x = (x.reshape(6, 4).T @ x.unflatten(0, (4, 6))[0, 0].expand(6, 4)).flatten()[:12].repeat(2)
            return x

        return function

    monkeypatch.setattr(fake._Witness, "__init__", counted)
    monkeypatch.setattr(fake, "_KNOWN", {})
    first = trace(stacked(2), Spec((24,)))
    once = len(ran)
    assert 0 < once <= len(first)
    assert len(trace(stacked(20), Spec((24,)))) == 10 * len(first)
    assert len(ran) == once


def test_a_later_trace_writes_down_what_the_first_one_did() -> None:
    def function(x: Any) -> Any:
        target = x.clone()
        view = target[1:]
        view.abs_().mul_(x[1:])
        target.t().add_(1.0)
        return (target * view.sum()).sum()

    x = nbgrad.tensor(torch.randn(3, 3), requires_grad=True)
    first, second = trace(function, x).grad(), trace(function, x).grad()
    assert [str(step) for step in first.steps] == [str(step) for step in second.steps]
    function(x).backward()
    for program in (first, second):
        torch.testing.assert_close(program(x)[1][0].data, x.grad.data)


def test_tensors_that_follow_each_other_in_memory_do_not_share_it() -> None:
    fakes = Fakes()
    made = [fakes.of(torch.empty(3)) for _ in range(20)]  # each real one is freed before the next is made
    assert len({storage_of(one) for one in made}) == len(made)
    base = torch.empty(6)
    assert storage_of(fakes.of(base[2:])) == storage_of(fakes.of(base))
