"""A problem in an earlier backward of a loop is a finding of the last backward."""

import re
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe
from nbgrad.widgets.findings import divergence


def trained(
    loss: Callable[[nn.Sequential, int], nbgrad.Tensor], steps: int, lr: float = 0.1, history: int = 48
) -> list[str]:
    """The findings after ``steps`` steps of a small network. Its ``loss`` gets the number of the step."""
    nbgrad.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = optim.SGD(net.parameters(), lr=lr)
    with nbgrad.AutogradGraph(history=history) as graph:
        for step in range(steps):
            optimizer.zero_grad()
            loss(net, step).backward()
            optimizer.step()
    return [problem["text"] for problem in describe(graph)["problems"]]


def of_a_root(net: nn.Sequential, step: int) -> nbgrad.Tensor:
    """A loss that is finite. In the third step its gradient is not."""
    out: nbgrad.Tensor = net(nbgrad.ones(5, 3)).square()
    return (out * (step != 2)).sqrt().sum()


def of_a_bad_number(net: nn.Sequential, step: int) -> nbgrad.Tensor:
    """A loss that is NaN in the third step, because the target is NaN."""
    out: nbgrad.Tensor = net(nbgrad.ones(5, 3))
    return (out - (float("nan") if step == 2 else 1.0)).square().mean()


def of_one_root_of_two_uses(net: nn.Sequential, step: int) -> nbgrad.Tensor:
    """The NaN comes from one of two losses. It flows on through ops that both losses use."""
    out: nbgrad.Tensor = net(nbgrad.ones(5, 3))
    distance = (out * (step != 2)).abs().sum(1).sqrt().sum()
    return distance + out.square().mean()


SINCE = "NaN is in 0.weight (4, 3) and 3 others since the step after backward 3, "
STOP = "nbgrad.detect_anomaly(), or %%autograd --anomaly, stops at the op that made it."


def test_where_a_backward_spoiled_the_parameters_the_op_is_named() -> None:
    (text,) = trained(of_a_root, 6)
    assert text.startswith(f"{SINCE}whose loss was 0: it began in its backward, in the rule of sqrt at tests/widgets/")
    assert text.endswith(
        "`return (out * (step != 2)).sqrt().sum()` for x. Keep the numbers there in range, as in (x + 1e-8).sqrt()"
    )


def test_who_gave_a_sound_part_of_a_bad_gradient_is_not_blamed() -> None:
    (text,) = trained(of_one_root_of_two_uses, 6)
    assert "in the rule of sqrt at tests/widgets/" in text
    assert "square" not in text


def test_where_a_forward_did_its_loss_tells() -> None:
    (text,) = trained(of_a_bad_number, 6)
    assert text.startswith(f"{SINCE}whose loss was nan: it began in its data: b, which sub uses at tests/widgets/")
    assert text.endswith(
        "held it (the number nan). Clean the data, and check them before the model: assert torch.isfinite(x).all()"
    )


def test_a_parameter_that_was_bad_from_the_start_is_named_and_lit() -> None:
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(3)])
    net[1].weight.data[0, 0] = float("nan")
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            optimizer.zero_grad()
            net(nbgrad.ones(1, 2)).sum().backward()
            optimizer.step()
    described = describe(graph)
    (problem,) = described["problems"]
    assert "it began in its forward, with 1.weight (2, 2), which held it already." in (problem["text"])
    (lit,) = [node for node in described["nodes"] if node["id"] == problem["node"]]
    (scope,) = [one["label"] for one in described["scopes"] if one["id"] == lit["scope"]]
    assert (lit["label"][0], scope) == ("weight", "1 (Linear)")


def test_between_two_frames_the_step_is_named_too() -> None:
    (text,) = trained(lambda net, step: of_a_bad_number(net, 2 if step == 20 else 0), 60, history=4)
    assert text.startswith(
        "NaN is in 0.weight (4, 3) and 3 others since the step after backward 21: it began in its data"
    )


def test_without_a_history_the_rule_is_named_all_the_same() -> None:
    texts = trained(of_a_root, 6, history=0)
    assert texts[0].startswith("Inf begins in backward 3, in its backward, in the rule of sqrt at tests/widgets/")


def regression(net: nn.Module, step: int) -> nbgrad.Tensor:
    x = torch.linspace(-9, 9, 15).reshape(5, 3)
    return functional.mse_loss(net(x), x.sum(1, keepdim=True))


@pytest.mark.parametrize("steps", [10, 200])
def test_a_loss_that_grew_without_bound_says_so(steps: int) -> None:
    nbgrad.manual_seed(0)
    net = nn.Linear(3, 1)
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for step in range(steps):
            optimizer.zero_grad()
            regression(net, step).backward()
            optimizer.step()
    texts = [problem["text"] for problem in describe(graph)["problems"]]
    (text,) = [text for text in texts if "the loss has grown" in text]
    assert text.startswith("the loss has grown from 300 in backward 1 to ")
    assert text.endswith(
        "each step goes further than the one before. Try a smaller learning rate, inputs of a size near 1, or "
        "nn.utils.clip_grad_norm_()."
    )
    assert len(texts) == (1 if steps == 10 else 2)


def test_one_that_is_no_number_after_few_steps_says_so_too() -> None:
    nbgrad.manual_seed(0)
    net = nn.Linear(3, 1)
    optimizer = optim.SGD(net.parameters(), lr=1.0)
    with nbgrad.AutogradGraph() as graph:
        for step in range(6):
            optimizer.zero_grad()
            (regression(net, step) ** 2).backward()
            optimizer.step()
    (text,) = [text["text"] for text in describe(graph)["problems"] if "the loss has grown" in text["text"]]
    assert re.match(r"the loss has grown from \S+ in backward 1 to \S+ in backward [23]: each step goes further", text)


def test_one_that_leaps_with_a_step_and_stays_there_names_the_step() -> None:
    nbgrad.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.5), nn.Linear(8, 8), nn.LeakyReLU(0.5), nn.Linear(8, 1))
    optimizer = optim.Adam(net.parameters(), lr=9.0)
    with nbgrad.AutogradGraph() as graph:
        for step in range(8):
            optimizer.zero_grad()
            regression(net, step).backward()
            optimizer.step()
    texts = [problem["text"] for problem in describe(graph)["problems"]]
    assert len(texts) == 1
    assert re.match(
        r"the loss has grown from \S+ in backward 1 to \S+ in backward 2 and stays as large: the step between them "
        r"changed a typical parameter by \S+ times its size. Try a smaller learning rate, ",
        texts[0],
    )


def test_a_loss_that_falls_or_that_is_another_one_has_not_grown() -> None:
    assert trained(regression, 30, lr=1e-3) == []
    assert trained(lambda net, step: regression(net, step) * (1e6 if step == 9 else 1.0), 10, lr=1e-9) == []


@pytest.mark.parametrize("steps", [5, 90])
@pytest.mark.parametrize(("clear", "every", "wrong"), [(False, 1, True), (True, 1, False), (True, 3, False)])
def test_gradients_of_all_steps_that_add_up_are_a_finding(steps: int, clear: bool, every: int, wrong: bool) -> None:
    nbgrad.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = optim.SGD(net.parameters(), lr=1e-3)
    with nbgrad.AutogradGraph() as graph:
        for step in range(every * steps):
            regression(net, step).backward()
            if step % every == every - 1:
                nn.utils.clip_grad_norm_(net.parameters(), 1e3)
                optimizer.step()
                if clear and step < every * steps - 1:
                    optimizer.zero_grad()
    texts = [problem["text"] for problem in describe(graph)["problems"]]
    texts = [text for text in texts if "is not divided by" not in text]
    assert len(texts) == wrong
    for text in texts:
        assert text.startswith(
            "the .grad of 0.weight (4, 3) and of 3 others holds more than the gradient of the last backward, "
        )
        assert text.endswith(
            "although SGD.step() came after each backward: it still contains gradients of earlier backwards. "
            "Call zero_grad() in every step"
        )


@pytest.mark.parametrize("power", [1, 2])
def test_two_losses_in_one_step_are_none(power: int) -> None:
    net = nn.Linear(3, 1)
    optimizer = optim.SGD(net.parameters(), lr=1e-7)
    with nbgrad.AutogradGraph() as graph:
        for step in range(5):
            optimizer.zero_grad()
            regression(net, step).backward()
            (regression(net, step) ** power).backward()
            optimizer.step()
    assert describe(graph)["problems"] == []


def test_a_loss_that_begins_at_0_has_not_grown() -> None:
    with nbgrad.AutogradGraph() as graph:
        for x in range(6):  # of separate tensors, as tasks of a program have them
            (nbgrad.ones(2, requires_grad=True) * x).sum().backward()
    assert graph.findings() == []


def test_a_leap_is_looked_for_once_in_a_long_history() -> None:
    moved = SimpleNamespace(parameters=[SimpleNamespace(update=1e6)])
    frames = [SimpleNamespace(number=at + 1, parameters=moved.parameters) for at in range(200_000)]
    losses = [1.0 + at % 7 for at in range(200_000)]
    before = time.process_time()
    assert divergence._leapt(frames, losses) is None
    assert time.process_time() - before < 5  # each look at all others takes minutes
    leapt = [*losses[:100_000], *(loss * 1e6 for loss in losses[100_000:])]
    assert "in backward 100,000 to" in divergence._leapt(frames, leapt)
