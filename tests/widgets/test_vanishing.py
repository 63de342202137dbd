"""The place where a gradient ends or becomes small, on its way to modules that get none, is a finding of a picture."""

import re
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
        self.linear, self.scale = nn.Linear(8, 8), nn.Parameter([by], requires_grad=by != 0)

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
SHORT = nbgrad.tensor(torch.randn(16, 8, generator=torch.Generator().manual_seed(0)))


@pytest.mark.parametrize("by", [0.0, 1e-5])
def test_the_block_where_a_gradient_vanishes_is_named_with_its_line(by: float) -> None:
    net = blocks(by)
    (text,) = told(lambda: net(SHORT))
    begin, _, end = text.partition(" at tests/widgets/test_vanishing.py:")
    assert "in Sequential > 3 (Gate)" in end
    if by:
        assert begin == "the gradient falls at mul"
        assert end.endswith("for a, because 3.scale (1,) is 1e-05 at most")
    else:
        assert begin == "the gradient ends at mul"
        assert end.endswith("and exactly 0 goes on to a, because 3.scale (1,) is all 0 and gets no gradient")


ENDS: dict[str, tuple[str, Callable[[nbgrad.Tensor], nbgrad.Tensor]]] = {
    "round": (": the slope of round is 0 everywhere", lambda x: x.round() - 1),
    "clamp": ("exactly 0 goes on to input", lambda x: (x + 9).clamp(0, 1)),
    "sigmoid": (
        "exactly 0 goes on to input: all of its inputs lie so far from 0 that it is flat there",
        lambda x: (x * 1e4 + 1e6).sigmoid(),
    ),
    "softmax": (
        "softmax of one number, as along dim=-1 of (16, 8, 1), is always the same",
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
    assert text.startswith(f"the gradient ends at {op} at tests/widgets/test_vanishing.py:")
    assert end in text


def leaf(*values: float) -> nbgrad.Tensor:
    return nbgrad.tensor([float(one) for one in values], requires_grad=True)


OFF = nbgrad.zeros(())

ALONE: dict[str, tuple[str, str, list[float], Callable[[nbgrad.Tensor, nbgrad.Tensor], nbgrad.Tensor]]] = {
    "a step": ("round", ": the slope of round is 0 everywhere", [3, -4], lambda w, v: w.exp().round().square() + v),
    "a number": ("mul", ", because the other factor is the number 0", [3, -4], lambda w, v: (w * 0 + v).square()),
    "a constant": ("mul", " is all 0", [3, -4], lambda w, v: OFF * w.exp() * v),
    "saturated": (
        "tanh",
        ": all of its inputs lie so far from 0 that it is flat",
        [30, -40],
        lambda w, v: w.tanh() * v,
    ),
    "off": (
        "relu",
        ": its slope is 0 wherever the gradient of its result is not 0",
        [-3],
        lambda w, v: w.relu() * v,
    ),
    "bounded": (
        "clamp",
        ": its slope is 0 wherever the gradient of its result is not 0",
        [3, -4],
        lambda w, v: w.clamp(0, 1) * v,
    ),
    "many": (
        "clamp",
        ": its slope is 0 wherever the gradient of its result is not 0",
        [3] * 8,
        lambda w, v: w.exp().clamp(0, 1) * v,
    ),
}


@pytest.mark.parametrize("case", ALONE)
def test_a_tensor_of_no_module_that_gets_exactly_0_is_reported(case: str) -> None:
    op, why, values, run = ALONE[case]
    for w, called in ((leaf(*values), "a leaf"), (nn.Parameter(leaf(*values).detach()), "a parameter")):
        (text,) = told(lambda w=w: run(w, leaf(2.0)))
        assert text.startswith(f"the gradient ends at {op} at tests/widgets/test_vanishing.py:")
        assert why in text
        assert text.endswith(f". So {called} ({len(values)},) learns nothing from this loss")
        assert w.grad is not None
        assert not w.grad.any()


def test_an_activation_that_is_silent_is_reported_once() -> None:
    (text,) = told(lambda: leaf(*[-1.0] * 8).relu() * leaf(2.0))
    assert "let no gradient through" in text


HEALTHY: dict[str, Callable[[nbgrad.Tensor, nbgrad.Tensor], nbgrad.Tensor]] = {
    "a row of an embedding": lambda w, v: nbgrad.stack([w, w])[nbgrad.tensor([1])] * v,
    "no row of it": lambda w, v: w[nbgrad.tensor([], dtype=nbgrad.int64)].sum() * v + v,
    "a mask": lambda w, v: w * nbgrad.zeros(2) + v,
    "no data": lambda w, v: (nbgrad.zeros(3, 2) @ w) + v,
    "not chosen": lambda w, v: nbgrad.where(nbgrad.tensor([True, True]), v, w),
    "not the largest": lambda w, v: nbgrad.maximum(w, v + 99),
    "a layer that begins at 0": lambda w, v: w.tanh() * leaf(0.0, 0.0) + v,
    "a gate that begins at 0": lambda w, v: (leaf(0.0) * w + v).square(),
    "a loss that weighs 0": lambda w, v: (v - 1).square().sum() + 0 * w.square().sum(),
    "a loss that is 0": lambda w, v: (w - w.detach()).square() * v.detach(),
    "a margin that is kept": lambda w, v: (1 - w.square()).clamp(min=0) + v,
    "a few by chance": lambda w, v: (w.square() * -1).relu() * v,
    "a straight way past a step": lambda w, v: (w + (w.round() - w).detach()) * v,
    "what cancels": lambda w, v: (w - w) * v,
}


@pytest.mark.parametrize("case", HEALTHY)
def test_a_tensor_of_no_module_that_is_masked_or_not_chosen_is_not_accused(case: str) -> None:
    assert told(lambda: HEALTHY[case](leaf(3.0, -4.0), leaf(2.0))) == []


def test_a_gradient_too_small_for_half_precision_says_so() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).half()
    (text,) = told(lambda: net(SHORT.half()).float() * 4e-8)
    assert text.endswith("it is too small for float16. Scale the loss, as optim.GradScaler does")


def test_so_does_one_that_a_cast_back_to_it_loses() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))

    def cast() -> nbgrad.Tensor:
        with nbgrad.autocast("cpu", dtype=torch.float16):
            return functional.mse_loss(net(SHORT), torch.ones(16, 1)) * 1e-8

    (text,) = told(cast)
    assert text.startswith("the gradient ends at to at ")
    assert text.endswith("it is too small for float16. Scale the loss, as optim.GradScaler does")


class Twice(nn.Module):
    """A branch that never learns: its last convolution and the gain of the normalization after it are both 0."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last, self.norm = nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1, bias=False), nn.BatchNorm2d(2)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.norm.weight)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return x + self.norm(self.last(self.first(x)))  # type: ignore[no-any-return]  # a module gives anything


def test_the_mean_of_a_normalization_is_no_factor_of_its_gradient() -> None:
    net = Twice()
    (text,) = told(lambda: net(nbgrad.randn(4, 2, 3, 3)).square())
    assert text.endswith(
        "exactly 0 goes on to input, because norm.weight (2,) is all 0 and gets a gradient of 0 itself, because the "
        "other factor is 0 too: so it stays 0"
    )


def test_all_calls_on_a_line_are_reported_once() -> None:
    net, scale = nn.Linear(8, 8), nbgrad.zeros(1)
    (text,) = told(lambda: nbgrad.stack([functional.linear(net(SHORT) * scale, WIDE) for _ in range(3)]))
    assert text.endswith("The same holds for 2 more of its calls there")


def deep(blocks: int, act: type[nn.Module]) -> nn.Sequential:
    nbgrad.manual_seed(0)
    return nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), act()) for _ in range(blocks)])


@pytest.mark.parametrize("act", [nn.Sigmoid, nn.ReLU, nn.Tanh])
def test_many_that_shrink_it_a_little_are_reported_together(act: type[nn.Module]) -> None:
    net = deep(24, act)
    with nbgrad.AutogradGraph() as graph:
        net(SHORT).sum().backward()
    described = describe(graph)
    assert [verdict["kind"] for verdict in described["verdicts"]].count("vanishing") > 3
    problem = described["problems"][0]
    assert problem["text"].startswith("the gradient shrinks little by little on its way back")
    assert problem["node"] is None, "it is nowhere in particular: the modules say it where they are"
    sizes = [
        (norms.sum() / 72) ** 0.5
        for norms in (
            torch.stack([one.grad.data.square().sum() for one in net[at].parameters()])  # type: ignore[union-attr]
            for at in (0, -1)
        )
    ]
    text = problem["text"]
    found = re.search(
        r"a typical number of it is (\S+) in Sequential > 23 \(Sequential\) > 0 \(Linear\) and (\S+) in ", text
    )
    assert found is not None
    assert [float(size) for size in found.groups()[::-1]] == pytest.approx(list(map(float, sizes)), rel=1e-3)


def test_few_layers_and_those_that_keep_the_gradient_have_no_such_finding() -> None:
    assert told(lambda: deep(3, nn.Sigmoid)(SHORT)) == []
    normed = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()) for _ in range(24)])
    assert told(lambda: normed(SHORT).square()) == []


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
