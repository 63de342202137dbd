"""Where a gradient ends or falls on its way to modules that get none, as findings of a picture."""

from collections.abc import Callable

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe


class Gate(nn.Module):
    """A block whose result is multiplied with something small."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.linear, self.scale = nn.Linear(8, 8), nn.Parameter([by])

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        made: nbgrad.Tensor = self.linear(x).tanh() * self.scale
        return made


def blocks(by: float) -> nn.Sequential:
    nbgrad.manual_seed(0)
    return nn.Sequential(*[Gate(by if at == 3 else 1.0) for at in range(8)])


def told(run: Callable[[], nbgrad.Tensor]) -> list[str]:
    with nbgrad.AutogradGraph() as graph:
        run().sum().backward()
    return [problem["text"] for problem in describe(graph)["problems"]]


READ = nn.Parameter(torch.rand(3, 2))
WIDE = nn.Parameter(torch.rand(2, 8))
SHORT = nbgrad.randn(16, 8)


@pytest.mark.parametrize("by", [0.0, 1e-5])
def test_the_block_where_a_gradient_vanishes_is_named_with_its_line(by: float) -> None:
    net = blocks(by)
    (text,) = told(lambda: net(SHORT))
    begin, _, end = text.partition(" at tests/widgets/test_falls.py:")
    assert "in Sequential > 3 (Gate)" in end
    if by:
        assert begin == "the gradient falls at mul"
        assert end.endswith("for a, because scale (1,) is 1e-05 at most")
    else:
        assert begin == "the gradient ends at mul"
        assert end.endswith("and exactly 0 goes on to a, because scale (1,) is all 0")


ENDS: dict[str, tuple[str, Callable[[nbgrad.Tensor], nbgrad.Tensor]]] = {
    "round": (": the slope of round is 0 everywhere", lambda x: x.round() - 1),
    "clamp": ("exactly 0 goes on to input", lambda x: (x + 9).clamp(0, 1)),
    "sigmoid": (
        "exactly 0 goes on to input: all of its inputs lie so far from 0 that it is flat there",
        lambda x: (x * 1e4 + 1e6).sigmoid(),
    ),
    "softmax": (
        "of one number, as along dim=-1 of (16, 8, 1), it is always the same",
        lambda x: x[..., None].softmax(-1),
    ),
    "matmul": (
        "goes on to a, because b (8, 2) is all 0",
        lambda x: functional.linear(x @ torch.zeros(8, 2), READ),
    ),
}


@pytest.mark.parametrize("op", ENDS)
def test_the_op_at_which_it_ends_is_named(op: str) -> None:
    end, run = ENDS[op]
    net = nn.Linear(8, 8)
    (text,) = told(lambda: run(net(SHORT)))
    assert text.startswith(f"the gradient ends at {op} at tests/widgets/test_falls.py:")
    assert end in text


def test_a_gradient_too_small_for_half_precision_says_so() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).half()
    (text,) = told(lambda: net(SHORT.half()).float() * 4e-8)
    assert text.endswith("it is too small for float16. Scale the loss, as optim.GradScaler does")


def test_all_calls_on_a_line_are_told_of_once() -> None:
    net, scale = nn.Linear(8, 8), nbgrad.zeros(1, requires_grad=True)
    (text,) = told(lambda: nbgrad.stack([functional.linear(net(SHORT) * scale, WIDE) for _ in range(3)]))
    assert text.endswith("So it is in 2 more of its calls there")


def test_many_that_shrink_it_a_little_are_told_of_by_their_modules_alone() -> None:
    net = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Sigmoid()) for _ in range(12)])
    with nbgrad.AutogradGraph() as graph:
        net(SHORT).sum().backward()
    described = describe(graph)
    assert "vanishing" in {verdict["kind"] for verdict in described["verdicts"]}
    assert described["problems"] == []


def test_a_loss_that_is_0_or_weighs_0_is_meant() -> None:
    net = nn.Linear(8, 8)
    assert told(lambda: net(SHORT) * 0) == []
    assert told(lambda: (1 - (net(SHORT) + 99)).clamp(min=0)) == []
    assert told(lambda: functional.mse_loss(net(SHORT), net(SHORT).detach())) == []


def test_parameters_that_a_rule_used_first_belong_to_their_module() -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.randn(5, 4, requires_grad=True)
        (slope,) = nbgrad.grad(net(x).sum(), x, create_graph=True)
        assert slope is not None
        penalty = (slope.norm(dim=1) - 1).square().mean()
        (net(nbgrad.ones(5, 4)).mean() - net(-nbgrad.ones(5, 4)).mean() + penalty).backward()
        optimizer.step()
    kinds = {verdict["text"].partition(":")[0]: verdict["kind"] for verdict in describe(graph)["verdicts"]}
    assert kinds == {"Sequential > 0 (Linear)": "sound", "Sequential > 2 (Linear)": "sound"}


def test_attention_to_one_token_ends_only_where_nothing_else_learns() -> None:
    net = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    assert told(lambda: net(nbgrad.randn(2, 1, 4)).square()) == []
