"""``nbgrad.compile``: losses and training steps run as programs and stay what they are without it."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.errors import TraceError

X, Y = torch.randn(16, 6), torch.randint(0, 3, (16,))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


def trained(optimizer: str, settings: dict[str, Any], kind: str) -> tuple[list[float], nn.Module, list[str]]:
    """The losses of 14 steps, in which learning rate, mode and batch size change."""
    net = network()
    opt = getattr(nbgrad.optim, optimizer)(net.parameters(), lr=0.05, **settings)
    schedule = nbgrad.optim.lr_scheduler.StepLR(opt, 3, gamma=0.5)
    loss: Callable[..., Any] = lambda x, y: nn.functional.cross_entropy(net(x), y)  # noqa: E731
    reasons: list[str] = []
    if kind == "loss":
        loss = nbgrad.compile(loss)
        reasons = loss.reasons  # type: ignore[attr-defined]

    def step(x: Any, y: Any) -> Any:
        found = loss(x, y)
        found.backward()
        opt.step()
        opt.zero_grad()
        return found

    if kind == "step":
        step = nbgrad.compile(step)
        reasons = step.reasons  # type: ignore[attr-defined]
    torch.manual_seed(1)
    losses = []
    for number in range(14):
        net.train(number not in (8, 9))
        size = 10 if number == 5 else 16
        losses.append(float(step(nbgrad.tensor(X[:size]), nbgrad.tensor(Y[:size]))))
        schedule.step()
    return losses, net, reasons


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["loss", "step"])
@pytest.mark.parametrize(
    ("optimizer", "settings"),
    [
        ("SGD", {}),
        ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        ("SGD", {"momentum": 0.9, "dampening": 0.1}),
        ("Adam", {"fused": True}),
        ("Adam", {"fused": True, "amsgrad": True, "weight_decay": 0.1}),
        ("AdamW", {"fused": True, "maximize": True}),
        ("AdamW", {"foreach": True}),
        ("RMSprop", {}),
        ("Adagrad", {}),
        ("NAdam", {}),
        ("Rprop", {}),
    ],
)
def test_training_is_the_same_to_the_bit(optimizer: str, settings: dict[str, Any], kind: str) -> None:
    expected, plain, _ = trained(optimizer, settings, "eager")
    found, compiled, reasons = trained(optimizer, settings, kind)
    assert found == expected
    for one, other in zip(plain.state_dict().values(), compiled.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    traces = [reason for reason in reasons if "traced" in reason]
    assert len(traces) == 3, reasons  # one trace for training, one for the small batch, one for evaluation
    assert any("training is False, was True" in reason for reason in traces)


@pytest.mark.parametrize("optimizer", ["Adam", "AdamW"])
def test_adam_takes_the_fused_kernel_where_none_was_chosen(optimizer: str) -> None:
    def losses(compiled: bool) -> list[float]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        opt = getattr(nbgrad.optim, optimizer)(net.parameters(), lr=0.05)

        def step(x: Any, y: Any) -> Any:
            found = nn.functional.cross_entropy(net(x), y)
            found.backward()
            opt.step()
            opt.zero_grad()
            return found

        run = nbgrad.compile(step) if compiled else step
        made = [float(run(nbgrad.tensor(X), nbgrad.tensor(Y))) for _ in range(10)]
        names = [one.name for one in run.program.steps] if compiled else ["_fused_adam_"]
        assert any(name.startswith("_fused_adam") for name in names)
        return made

    assert losses(True) == pytest.approx(losses(False), rel=1e-5)


def test_a_loss_gives_the_gradients_of_its_arguments_too() -> None:
    net = network().eval()
    x, y = nbgrad.tensor(X, requires_grad=True), nbgrad.tensor(Y)
    loss = nbgrad.compile(lambda x, y: nn.functional.cross_entropy(net(x), y))
    (loss(x, y) * 3).backward()
    found = x.grad.data.clone()
    x.grad = None
    (nn.functional.cross_entropy(net(x), y) * 3).backward()
    assert torch.equal(found, x.grad.data)


def test_several_results_and_keyword_arguments() -> None:
    x = nbgrad.tensor(X, requires_grad=True)

    @nbgrad.compile(backend="replay")
    def function(x: Any, scale: float = 2.0) -> Any:
        return {"a": x * scale, "b": [x.detach().sum(), 7]}

    found = function(x, scale=3.0)
    assert found["b"][1] == 7
    assert not found["b"][0].requires_grad
    found["a"].sum().backward()
    assert torch.equal(x.grad.data, torch.full_like(X, 3.0))
    assert len(function.reasons) == 1
    function(x)
    assert "arguments of another kind" in function.reasons[1]


def test_the_gradient_cannot_be_differentiated_again_and_says_so() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    y = nbgrad.compile(lambda x: (x**3).sum())(x)
    with pytest.raises(NotImplementedError, match=r"grad\(order=2\)"):
        nbgrad.grad(y, x, create_graph=True)


def test_accumulated_gradients() -> None:
    def grads(compiled: bool) -> list[torch.Tensor]:
        net = network().eval()
        loss: Any = lambda x, y: nn.functional.cross_entropy(net(x), y)  # noqa: E731

        def step(x: Any, y: Any) -> Any:
            found = loss(x, y)
            found.backward()
            return found

        run = nbgrad.compile(step) if compiled else step
        for _ in range(3):
            run(nbgrad.tensor(X), nbgrad.tensor(Y))
        return [one.grad.data for one in net.parameters()]

    assert all(map(torch.equal, grads(True), grads(False)))


def test_zero_grad_first_leaves_the_gradients() -> None:
    net = network().eval()
    opt = nbgrad.optim.SGD(net.parameters(), lr=0.1)

    @nbgrad.compile
    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        found = nn.functional.cross_entropy(net(x), y)
        found.backward()
        opt.step()
        return found

    for _ in range(3):
        step(nbgrad.tensor(X), nbgrad.tensor(Y))
    assert all(one.grad is not None for one in net.parameters())
    assert len(step.reasons) == 1


def test_what_has_changed_is_traced_again_with_a_reason() -> None:
    net = network().eval()
    opt = nbgrad.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @nbgrad.compile
    def step(x: Any, y: Any) -> Any:
        found = nn.functional.cross_entropy(net(x), y)
        found.backward()
        opt.step()
        opt.zero_grad()
        return found

    def run() -> str:
        step(nbgrad.tensor(X), nbgrad.tensor(Y))
        return str(step.reasons[-1])

    run()
    run()
    net[0].weight.requires_grad_(False)
    assert "0_weight has requires_grad=False" in run()
    net[0].weight.requires_grad_(True)
    run()
    net[4].weight.data = net[4].weight.data.clone()
    assert "4_weight has other data" in run()
    opt.param_groups[0]["momentum"] = 0.0
    assert "momentum" in run()
    opt.param_groups[0]["momentum"] = 0.9
    run()
    opt.load_state_dict(opt.state_dict())
    assert "momentum_buffer" in run()
    net[3].p = 0.9
    net.train()
    assert "Dropout.p" in run() or "training" in run()


def test_the_program_is_that_of_the_newest_trace() -> None:
    net = network().eval()
    loss = nbgrad.compile(lambda x, y: nn.functional.cross_entropy(net(x), y))
    large, small = (nbgrad.tensor(X), nbgrad.tensor(Y)), (nbgrad.tensor(X[:4]), nbgrad.tensor(Y[:4]))
    loss(*large)
    loss(*small)
    assert loss.program.inputs[0].shape == (4, 6)
    net.train()
    loss(*large)  # this kind of call was traced before
    assert loss.program.inputs[0].shape == (16, 6)
    assert any(step.random for step in loss.program.steps)
    loss(*small)
    assert loss.program.inputs[0].shape == (4, 6)
    net.eval()
    loss(*large)  # this runs the first trace
    assert len(loss.reasons) == 4
    assert loss.program.inputs[0].shape == (4, 6)


def test_the_backward_of_a_loss_keeps_the_names_of_its_arguments() -> None:
    loss = nbgrad.compile(lambda first, second: (first * second).sum())
    loss(*(nbgrad.tensor(X, requires_grad=True) for _ in range(2))).backward()
    variant: Any = loss._newest
    assert [one.name for one in variant._forward.inputs] == ["first", "second"]
    assert {one.name for one in variant._backward.inputs} >= {"first", "second"}


def test_a_kernel_that_gives_one_tensor_twice() -> None:
    net = nn.LSTM(4, 5)  # oneDNN gives the gradient of both biases as one tensor
    x = nbgrad.tensor(torch.randn(3, 2, 4))
    loss = nbgrad.compile(lambda x: net(x)[0].square().mean())
    loss(x).backward()
    found = [one.grad.data.clone() for one in net.parameters()]
    net.zero_grad()
    net(x)[0].square().mean().backward()
    assert all(torch.equal(one, other.grad.data) for one, other in zip(found, net.parameters(), strict=True))


def test_bad_calls() -> None:
    with pytest.raises(ValueError, match="the backends are auto"):
        nbgrad.compile(lambda x: x, backend="magic")
    with pytest.raises(TypeError, match="takes a function"):
        nbgrad.compile(3)
    with pytest.raises(RuntimeError, match="call it once"):
        _ = nbgrad.compile(lambda x: x).program


def test_levels() -> None:
    net = network().eval()
    x, y = nbgrad.tensor(X), nbgrad.tensor(Y)
    for level in ("exact", "reassociate"):
        net.zero_grad()
        loss = nbgrad.compile(lambda x, y: nn.functional.cross_entropy(net(x), y), level=level)(x, y)
        loss.backward()
        expected = nn.functional.cross_entropy(net(x), y)
        torch.testing.assert_close(loss.data, expected.data, rtol=0 if level == "exact" else 1e-6, atol=0)
    with pytest.raises(ValueError, match="the levels are exact, reassociate"):
        nbgrad.compile(lambda x: x, level="fast")


def test_arguments_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(TypeError, match=r"got ndarray: make an array a tensor with nbgrad\.tensor"):
        nbgrad.compile(lambda x: x)(X.numpy())


def test_a_compiled_loss_is_one_op_of_a_graph() -> None:
    w = nbgrad.ones(6, requires_grad=True)
    loss = nbgrad.compile(lambda x: (x @ w).square().mean())
    with nbgrad.AutogradGraph() as graph:
        loss(nbgrad.tensor(X)).backward()
    assert [record.op.name for record in graph.records if record.kind == "op"] == ["CompiledFunction"]


def test_a_matrix_still_has_a_trace() -> None:
    matrix = nbgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert float(nbgrad.trace(matrix)) == 5.0
    assert float(nbgrad.trace(input=matrix)) == 5.0
    with pytest.raises(TypeError, match=r"trace\(\) needs 'input'"):
        nbgrad.trace()
    with pytest.raises(TypeError, match=r"takes the examples in order, without names such as 'x'"):
        nbgrad.trace(lambda x: x, x=matrix)


def test_a_mask_that_decides_how_to_attend_is_looked_at() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    net = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    x = nbgrad.tensor(torch.randn(2, 5, 8))
    run = nbgrad.compile(lambda x: net(x, mask=mask).sum())
    assert float(run(x)) == float(net(x, mask=mask).sum())
    with nbgrad.no_grad():
        mask[0, 1] = 0.0
    assert float(run(x)) == float(net(x, mask=mask).sum())
    assert run.reasons[-1].startswith(
        "'a tensor of shape (5, 5) has the numbers that decided what was traced' is False now"
    )
    with pytest.raises(TraceError, match="Say is_causal=True or is_causal=False"):
        nbgrad.compile(lambda x, mask: net(x, mask=mask).sum())(x, nbgrad.zeros(5, 5))


SCALE = 2.0


def scaled(x: Any) -> Any:
    return x * SCALE


def test_a_number_from_around_the_function_is_looked_at_in_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    factor, shape = 3.0, 1.0

    def function(x: Any) -> Any:
        return [scaled(one) * factor for one in (x, x + x.shape[0])]

    compiled = nbgrad.compile(function)
    x = nbgrad.tensor(X)

    def run() -> int:
        for found, right in zip(compiled(x), function(x), strict=True):
            assert torch.equal(found.data, right.data)
        return len(compiled.reasons)

    assert (run(), run()) == (1, 1)
    factor = 4.0
    assert run() == 2
    assert compiled.reasons[-1].startswith("factor is 4.0, was 3.0: give the function a tensor")
    monkeypatch.setattr(f"{__name__}.SCALE", 5)
    assert run() == 3
    assert compiled.reasons[-1].startswith("SCALE is 5, was 2.0")
    shape += 1.0  # the function reads an attribute of this name, not this variable
    assert run() == 3
    monkeypatch.setattr(f"{__name__}.SCALE", 2.0)
    assert run() == 3, "the program of 4.0 and 2.0 is still there"


def test_a_learning_rate_that_the_function_reads_itself_is_read_anew() -> None:
    weights = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizers = [nbgrad.optim.SGD([weight], lr=0.1, momentum=0.5) for weight in weights]

    def step(weight: Any, opt: Any, x: Any) -> Any:
        found = (weight * x).sum()
        found.backward()
        with nbgrad.no_grad():
            weight.sub_(weight.grad * opt.param_groups[0]["lr"] + weight * opt.param_groups[0]["momentum"])
        opt.zero_grad()
        return found

    compiled = nbgrad.compile(lambda x: step(weights[0], ours, x))
    ours = optimizers[0]
    for lr in (0.1, 0.5, 0.25):
        for opt in optimizers:
            opt.param_groups[0]["lr"] = lr
        x = nbgrad.tensor(torch.randn(3))
        assert compiled(x).item() == pytest.approx(step(weights[1], optimizers[1], x).item())
        torch.testing.assert_close(weights[0].data, weights[1].data)
        assert type(ours.param_groups[0]["lr"]) is float
    assert len(compiled.reasons) == 1


@pytest.mark.parametrize("change", ["integer", "nesterov", "group"])
def test_settings_that_a_program_does_not_read_anew_are_looked_at(change: str) -> None:
    nets = [network().eval() for _ in range(2)]
    optimizers = [
        nbgrad.optim.SGD([*net[0].parameters()], lr=1 if change == "integer" else 0.1, momentum=0.9) for net in nets
    ]

    def stepping(net: nn.Module, opt: Any) -> Callable[..., Any]:
        def step(x: Any, y: Any) -> Any:
            found = nn.functional.cross_entropy(net(x), y)
            found.backward()
            opt.step()
            opt.zero_grad()
            return found

        return step

    steps = [nbgrad.compile(stepping(nets[0], optimizers[0])), stepping(nets[1], optimizers[1])]
    for place in range(6):
        if place == 3:
            for net, opt in zip(nets, optimizers, strict=True):
                if change == "integer":
                    opt.param_groups[0]["lr"] = 0.01
                elif change == "nesterov":
                    opt.param_groups[0]["nesterov"] = True
                else:
                    opt.add_param_group({"params": [*net[4].parameters()], "lr": 0.3})
        first, second = (step(nbgrad.tensor(X), nbgrad.tensor(Y)) for step in steps)
        assert torch.equal(first.data, second.data)
    for one, other in zip(nets[0].parameters(), nets[1].parameters(), strict=True):
        assert torch.equal(one.data, other.data)


class Trainer:
    """A class with a compiled method."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @nbgrad.compile
    def run(self, x: Any) -> Any:
        return x * self.scale


class Scaling(nn.Module):
    """A module with a compiled forward."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    @nbgrad.compile(backend="replay")
    def forward(self, x: Any) -> Any:
        return (x * self.weight).sum()


def test_a_method_is_compiled_for_each_object() -> None:
    x = nbgrad.tensor([1.0, 2.0])
    first, second = Trainer(2.0), Trainer(3.0)
    for _ in range(2):
        assert first.run(x).tolist() == [2.0, 4.0]
        assert second.run(x).tolist() == [3.0, 6.0]
    assert [len(one.run.reasons) for one in (first, second)] == [1, 1]
    first.scale = 5.0
    assert first.run(x).tolist() == [5.0, 10.0]
    assert first.run.reasons[-1].startswith("Trainer.scale is 5.0, was 2.0")
    assert Trainer.run.reasons == []


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"])
def test_a_copy_of_an_object_with_a_compiled_method_has_its_own(copied: Callable[[Any], Any]) -> None:
    x = nbgrad.tensor([1.0, 2.0])
    net = Scaling()
    assert net(x).item() == 3.0
    other = copied(net)
    with nbgrad.no_grad():
        other.weight.fill_(2.0)
    assert (net(x).item(), other(x).item()) == (3.0, 6.0)
    other(x).backward()
    assert (net.weight.grad, other.weight.grad.tolist()) == (None, [1.0, 2.0])
