"""An error in a compiled step leaves what the function would have left: what a run has not reached has not happened."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nbgrad
from nbgrad import nn

OPTIMIZERS = {
    "SGD": {"lr": 0.05},
    "SGD momentum": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "Adam": {"lr": 0.05, "fused": True},
    "Adam foreach": {"lr": 0.05, "foreach": True},
    "AdamW": {"lr": 0.05, "fused": True, "amsgrad": True},
    **{name: {"lr": 0.05} for name in ("Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop")},
    "RMSprop momentum": {"lr": 0.05, "momentum": 0.9, "centered": True},
    "Adafactor": {"lr": 0.05},
    "Muon": {"lr": 0.05},
}
State = list[Any]


class Raising(TorchDispatchMode):
    """Raises an error in place of one call of a kernel.

    Attributes:
        left: how many calls run before it.
    """

    def __init__(self, left: int, error: type[BaseException]) -> None:
        super().__init__()
        self.left, self.error = left, error

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.left -= 1
        if self.left < 0:
            raise self.error("injected")
        return func(*args, **(kwargs or {}))


class Network(nn.Module):
    """Has buffers, draws random numbers, and looks at numbers."""

    def __init__(self, bias: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 4)
        self.norm = nn.BatchNorm1d(4, affine=bias)
        self.drop = nn.Dropout(0.3)
        self.out = nn.Linear(4, 3, bias=bias)

    def forward(self, x: Any) -> Any:
        return self.out(self.drop(self.norm(self.table(x)).relu()))


class Training:
    """A training step, plain or compiled, and all that it changes."""

    def __init__(self, optimizer: str, compiled: bool, clears_first: bool, **options: Any) -> None:
        torch.manual_seed(0)
        name = optimizer.partition(" ")[0]
        self.net = Network(bias=name != "Muon")
        self.opt = getattr(nbgrad.optim, name)(self.net.parameters(), **OPTIMIZERS[optimizer])
        self.frozen = nbgrad.tensor([1.0], requires_grad=True)
        self.clears_first = clears_first
        self.run: Callable[..., Any] = nbgrad.compile(self.step, **options) if compiled else self.step
        self.x, self.y = torch.arange(6), torch.tensor([0, 1, 2, 0, 1, 2])

    def step(self, x: Any, y: Any, late: Any) -> Any:
        self.frozen.requires_grad_(False)
        if self.clears_first:
            self.opt.zero_grad()
        found = nn.functional.cross_entropy(self.net(x), y)
        found.backward()
        self.y_table()[late].sum()  # may raise between backward and update, although nothing reads it
        self.opt.step()
        if not self.clears_first:
            self.opt.zero_grad()
        self.frozen.requires_grad_(True)
        return found

    def y_table(self) -> Any:
        return self.net.out.weight.detach()

    def once(self, x: torch.Tensor | None = None, late: int = 0) -> Any:
        return self.run(nbgrad.tensor(self.x if x is None else x), nbgrad.tensor(self.y), nbgrad.tensor([late]))

    def state(self) -> State:
        tensors = [one.data for one in self.net.state_dict().values()]
        tensors += [one for held in self.opt.state.values() for one in held.values() if isinstance(one, torch.Tensor)]
        tensors += [torch.get_rng_state()]
        grads = [None if one.grad is None else one.grad.data for one in self.net.parameters()]
        kept = [None if one is None else one.clone() for one in (*tensors, *grads)]
        return [*kept, self.frozen.requires_grad]

    def put_back(self, state: State) -> None:
        """Give everything the state that it had."""
        given = iter(state)
        for one in self.net.state_dict().values():
            one.data.copy_(next(given))
        for held in self.opt.state.values():
            for one in held.values():
                if isinstance(one, torch.Tensor):
                    one.copy_(next(given))
        torch.set_rng_state(next(given))
        for one in self.net.parameters():
            one.grad = next(given)
        self.frozen.requires_grad_(next(given))


def same(one: State, other: State) -> bool:
    return all(
        torch.equal(first, second)
        if isinstance(first, torch.Tensor) and isinstance(second, torch.Tensor)
        else first is second
        for first, second in zip(one, other, strict=True)
    )


def warm(optimizer: str, compiled: bool, clears_first: bool, **options: Any) -> tuple[Training, State]:
    training = Training(optimizer, compiled, clears_first, **options)
    for _ in range(3):
        training.once()
    return training, training.state()


def states_after_errors(training: Training, start: State, error: type[BaseException]) -> list[State]:
    """The state after an error in each call of a kernel, one after the other, and at last after none."""
    found = []
    for left in range(400):
        training.put_back(start)
        try:
            with Raising(left, error):
                training.once()
        except error:
            found.append(training.state())
            continue
        found.append(training.state())
        return found
    raise AssertionError("the step has more than 400 calls")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("clears_first", [True, False])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_error_of_a_kernel_leaves_a_state_of_the_function(
    optimizer: str, clears_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbgrad.core.symbolic.compiled.interferes", lambda: None)  # the program runs inside of the mode
    plain, start = warm(optimizer, False, clears_first)
    ours, ours_start = warm(optimizer, True, clears_first)
    assert same(start, ours_start)
    known = states_after_errors(plain, start, RuntimeError)
    for error in (RuntimeError, KeyboardInterrupt):
        found = states_after_errors(ours, start, error)
        assert len(found) > 5
        for number, state in enumerate(found):
            assert any(same(state, one) for one in known), f"the state after an error in call {number}"
        assert same(found[-1], known[-1])
    assert len([one for one in ours.run.reasons if "traced" in one]) == 1  # type: ignore[attr-defined]


WHERE = ("forward", "loss", "after the backward")
CASES: list[tuple[str, str, dict[str, Any]]] = [(optimizer, where, {}) for optimizer in OPTIMIZERS for where in WHERE]
CASES += [(one, where, {"level": "reassociate"}) for one in ("SGD momentum", "Adam") for where in WHERE]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("clears_first", [True, False])
@pytest.mark.parametrize(("optimizer", "where", "options"), CASES, ids=str)
def test_an_index_that_is_too_large(optimizer: str, where: str, options: dict[str, Any], clears_first: bool) -> None:
    found = []
    for compiled in (False, True):
        training, _ = warm(optimizer, compiled, clears_first, **(options if compiled else {}))
        given: dict[str, Any] = {"late": 99} if where == "after the backward" else {}
        if where == "forward":
            given["x"] = torch.tensor([0, 1, 2, 3, 4, 99])
        elif where == "loss":
            training.y[-1] = 99
        for _ in range(2):
            with pytest.raises(IndexError):
                training.once(**given)
        state = training.state()
        training.y[-1] = 2
        found.append((state, [training.once().item() for _ in range(2)]))
    (state, losses), (other, other_losses) = found
    if "level" in options:  # which may change the last digits
        for one, two in zip(state, other, strict=True):
            assert one is two or torch.allclose(one.float(), two.float(), atol=1e-4)
        assert losses == pytest.approx(other_losses, rel=1e-3)
    else:
        assert same(state, other)
        assert losses == other_losses


@pytest.mark.parametrize("compiled", [False, True])
def test_an_error_that_the_function_raises_itself(compiled: bool) -> None:
    training, start = warm("SGD momentum", compiled, clears_first=True)
    plain, _ = warm("SGD momentum", False, clears_first=True)
    for one in (training, plain):
        one.put_back(start)
        one.y_table = raising  # type: ignore[method-assign]
        with pytest.raises(ValueError, match="not today"):
            one.once()
    assert same(training.state(), plain.state())
    assert all(one.grad is not None for one in training.net.parameters())
    losses = []
    for one in (training, plain):
        del one.y_table
        torch.manual_seed(1)
        losses.append(one.once().item())
    assert losses[0] == losses[1]


def raising() -> Any:
    raise ValueError("not today")


def test_an_error_in_the_first_call() -> None:
    states = []
    for compiled in (False, True):
        training = Training("SGD momentum", compiled, clears_first=True)
        with pytest.raises(IndexError):
            training.once(torch.tensor([0, 1, 2, 3, 4, 99]))
        states.append(training.state())
    assert same(*states)


def test_what_fails_in_a_trace_alone_runs_and_says_so() -> None:
    def function(x: Any) -> Any:
        if type(x.data) is not torch.Tensor:
            raise ValueError("no torch")
        return x * 2

    compiled = nbgrad.compile(function)
    with pytest.warns(UserWarning, match=r"function ran without a program, because it raises .* alone: ValueError: no"):
        assert compiled(nbgrad.tensor([1.0])).item() == 2.0
    assert "ran without a program, because the trace raised ValueError" in compiled.reasons[0]


def test_a_compiled_loss_leaves_the_gradients_that_it_has_cleared() -> None:
    outcomes = []
    for compiled in (False, True):
        net = nn.Embedding(3, 2)
        opt = nbgrad.optim.SGD(net.parameters(), lr=0.1)

        def loss(x: Any, opt: Any = opt, net: Any = net) -> Any:
            opt.zero_grad()
            return net(x).sum()

        run = nbgrad.compile(loss) if compiled else loss
        found = []
        for index in ([0, 1], [1, 1], [0, 9], [2, 2]):
            try:
                run(nbgrad.tensor(index)).backward()
            except IndexError:
                found.append(net.weight.grad)
            else:
                found.append(net.weight.grad.tolist())
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][2] is None


@pytest.mark.parametrize("last", [True, False])
def test_a_step_that_freezes_a_parameter(last: bool) -> None:
    outcomes = []
    for compiled in (False, True):
        torch.manual_seed(0)
        net = nn.Linear(3, 2)

        def step(x: Any, net: Any = net) -> Any:
            net.weight.requires_grad_(not last)
            net(x).sum().backward()
            net.weight.requires_grad_(last)
            return net.bias.detach() * 1

        run = nbgrad.compile(step) if compiled else step
        found = []
        for _ in range(4):
            net.weight.grad = None
            run(nbgrad.ones(2, 3))
            grad = net.weight.grad
            found.append((net.weight.requires_grad, None if grad is None else grad.tolist()))
        outcomes.append(found)
    assert outcomes[0] == outcomes[1]


def test_a_program_leaves_what_it_has_reached_too() -> None:
    training, start = warm("SGD momentum", False, clears_first=True)
    bad = nbgrad.tensor([0, 1, 2, 3, 4, 99]), nbgrad.tensor(training.y), nbgrad.tensor([0])
    program = nbgrad.trace(training.step, *bad)
    states = []
    for run in (training.step, program, program.optimize()):
        training.put_back(start)
        with pytest.raises(IndexError):
            run(*bad)
        states.append(training.state())
    assert same(states[0], states[1])
    assert same(states[0], states[2])
