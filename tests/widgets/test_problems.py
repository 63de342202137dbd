"""The findings of a graph: what is wrong in it, or probably not meant."""

import contextlib
from collections.abc import Callable
from math import inf, isfinite, isnan, nan

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.nn.functional import mse_loss, scaled_dot_product_attention, softmax
from nbgrad.widgets.describe import describe


def found(run: Callable[[], nbgrad.Tensor]) -> list[str]:
    """The findings of a graph that has ``run`` and the backward of its sum."""
    with nbgrad.AutogradGraph() as graph:
        run().sum().backward()
    return [problem["text"] for problem in describe(graph)["problems"]]


def scores(*numbers: float) -> nbgrad.Tensor:
    return nbgrad.tensor(numbers, dtype=torch.float32, requires_grad=True) * 1.0


UPPER = torch.ones(3, 3, dtype=torch.bool).triu(1)
INFINITE = nbgrad.tensor([inf], requires_grad=True)
LARGE = torch.ones(40, 40, dtype=torch.bool).triu(1)

MASKS: dict[str, Callable[[], nbgrad.Tensor]] = {
    "a number": lambda: softmax(scores(1, 2, 3).expand(3, 3).masked_fill(UPPER, -inf), -1),
    "a constant": lambda: softmax(scores(1, 2, 3) + torch.full((3, 3), -inf).triu(1), -1),
    "a constant that is gone": lambda: softmax(nbgrad.where(UPPER[0], nbgrad.tensor(-inf), scores(1, 2, 3)), -1),
    "too large to keep": lambda: softmax(nbgrad.ones(40, 40, requires_grad=True).masked_fill(LARGE, -inf), -1),
    "through another op": lambda: softmax(scores(1, 2, 3).masked_fill(UPPER[0], -inf) / 2, -1)[0],
    "in a kernel": lambda: scaled_dot_product_attention(*[scores(1, 2, 3)[None, :, None]] * 3, is_causal=True),
}


@pytest.mark.parametrize("name", MASKS)
def test_an_inf_that_is_meant_is_no_finding_as_it_is_no_anomaly(name: str) -> None:
    assert found(MASKS[name]) == []
    with nbgrad.detect_anomaly():
        MASKS[name]().sum().backward()


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (lambda: scores(100).exp(), "Inf begins here, in the forward of exp: overflow: exp(100.0) in float32"),
        (lambda: scores(0, 1).log() * 0, "Inf begins here, in the forward of log: log of 0"),
        (lambda: scores(1, 2).masked_fill(UPPER[0, :2], nan), "NaN begins here, in the forward of masked_fill"),
        (
            lambda: softmax(scores(1, 2).masked_fill(torch.tensor([True, True]), -inf), -1),
            "NaN begins here, in the forward of softmax: inf - inf: a row that holds inf, or -inf everywhere",
        ),
        (
            lambda: scores(1, 2).masked_fill(UPPER[0, 1:], -inf) + scores(3e38) * 10,
            "Inf begins here, in the forward of mul",
        ),
        (lambda: INFINITE * 2, "Inf begins here, in the forward of leaf"),
        (lambda: scores(0).sqrt(), "Inf begins here, in the rule of sqrt for x"),
    ],
)
def test_any_other_is_named_once_where_it_begins(run: Callable[[], nbgrad.Tensor], expected: str) -> None:
    (text,) = found(run)
    assert text.startswith(expected)


def test_the_rule_in_which_a_nan_begins_is_told_by_the_name_that_the_user_gave_the_input() -> None:
    base, d, b = nbgrad.tensor([-1.0]), *(nbgrad.tensor([2.0], requires_grad=True) for _ in range(2))
    with nbgrad.AutogradGraph() as graph:
        (base**d * b).sum().backward()
    (text,) = [problem["text"] for problem in describe(graph)["problems"]]
    assert text == "NaN begins here, in the rule of pow for b (d)"
    with nbgrad.AutogradGraph() as graph:
        (base ** (d * 1.0) * b).sum().backward()
    (text,) = [problem["text"] for problem in describe(graph)["problems"]]
    assert text == "NaN begins here, in the rule of pow for b (the result of mul)"


class Masked(nn.Module):
    """A layer with a mask. The mask may cover everything."""

    def __init__(self) -> None:
        super().__init__()
        self.weigh, self.out = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: nbgrad.Tensor, mask: torch.Tensor) -> nbgrad.Tensor:
        return x + self.out(self.weigh(x).masked_fill(mask, -inf).softmax(-1))


@pytest.mark.parametrize("later", [False, True])
def test_a_nan_that_reached_everything_is_one_finding(later: bool) -> None:
    blocks = [Masked() for _ in range(6)]
    optimizer = optim.SGD([parameter for block in blocks for parameter in block.parameters()], lr=0.1)
    none, all_of_it = torch.zeros(4, 4).bool(), torch.ones(4, 4).bool()
    with nbgrad.AutogradGraph() as graph:
        for step in range(3 if later else 1):
            optimizer.zero_grad()
            x = nbgrad.tensor(torch.randn(4, 4))
            for at, block in enumerate(blocks):
                x = block(x, all_of_it if at == 3 and step == int(later) else none)
            x.square().mean().backward()
            optimizer.step()
    described = describe(graph)
    (problem,) = described["problems"]
    if later:
        assert "and 23 others since the step after backward 2" in problem["text"]
    else:
        # linear and +, then 2 blocks of linear, masked_fill, softmax, linear and +, then square and mean
        assert problem["text"].endswith(". It went on to 14 tensors and the gradients of 11 modules")
    assert [verdict for verdict in described["verdicts"] if verdict["kind"] != "sound"] == []


class Cut(nbgrad.nn.Module):
    """Two layers. One is cut off, by detach() or inside no_grad()."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nbgrad.nn.Linear(2, 1)
        self.b = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 1))

    def forward(self, x: nbgrad.Tensor, recorded: bool) -> nbgrad.Tensor:
        with nbgrad.set_grad_enabled(recorded):
            cut = self.a(x)
        return cut.detach() + self.b(x)


@pytest.mark.parametrize("recorded", [True, False])
def test_an_unreached_parameter_is_called_by_its_path(recorded: bool) -> None:
    net = Cut()
    texts = found(lambda: net(nbgrad.ones(3, 2), recorded))
    assert [text.partition(":")[0] for text in texts] == ["No gradient reached a.weight (1, 2), a.bias (1,)"]


def test_all_that_one_place_cuts_off_is_reported_once() -> None:
    net = nn.Sequential(*[nn.Linear(2, 2) for _ in range(5)])
    (text,) = found(lambda: net[4](net[:4](nbgrad.ones(3, 2)).detach()))
    assert text.startswith(
        "No gradient reached 0.weight (2, 2), 0.bias (2,) and 6 others, the last of them 3.bias (2,): the result of "
    )


def test_what_learns_from_another_loss_is_not_said_to_have_no_gradient() -> None:
    """Two heads that take turns."""
    body, *heads = nn.Linear(2, 2), nn.Linear(2, 1), nn.Linear(2, 1)
    optimizers = [optim.SGD([*body.parameters(), *head.parameters()], lr=0.1) for head in heads]
    with nbgrad.AutogradGraph() as graph:
        for step in range(4):
            optimizers[step % 2].zero_grad()
            both = [head(body(nbgrad.ones(3, 2))) for head in heads]
            both[step % 2].square().mean().backward()
            optimizers[step % 2].step()
    assert describe(graph)["problems"] == []


@pytest.mark.parametrize("learns", [False, True])
def test_a_network_that_is_looked_at_inside_no_grad_is_not_accused_if_no_optimizer_holds_it(learns: bool) -> None:
    """In Q-learning the target network is used like this until it is copied."""
    net, target = nn.Linear(2, 1), nn.Linear(2, 1)
    optimizer = optim.SGD([*net.parameters(), *(target.parameters() if learns else ())], lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(2):
            with nbgrad.no_grad():
                wanted = target(nbgrad.ones(3, 2))
            optimizer.zero_grad()
            mse_loss(net(nbgrad.ones(3, 2)), wanted).backward()
            optimizer.step()
    texts = [problem["text"].partition(":")[0] for problem in describe(graph)["problems"]]
    held = ["The last backward gave no gradient to Linear.weight (1, 2), Linear.bias (1,)"]
    assert texts == (held if learns else [])


def test_a_parameter_of_a_module_called_alone_bears_its_class() -> None:
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 1, bias=False), nbgrad.nn.Linear(2, 1, bias=False))
    (text,) = found(lambda: net[0](nbgrad.ones(3, 2)).detach() + net[1](nbgrad.ones(3, 2)))
    assert text.startswith("No gradient reached Linear.weight (1, 2): the result of linear is cut off by detach()")


def test_what_an_earlier_backward_reached_is_no_problem_of_a_later_one() -> None:
    x, w = (nbgrad.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    with nbgrad.AutogradGraph() as graph:
        (x * w).sum().backward()
        other = x.exp()
        (w * w).sum().backward()
        found = [problem["text"] for problem in describe(graph)["problems"]]
    assert other.requires_grad
    assert x.grad is not None
    assert found == []


@pytest.mark.parametrize("bad", [inf, nan])
@pytest.mark.parametrize("size", [2, 40])
def test_a_frozen_parameter_that_is_not_finite_is_named_where_nothing_is_recorded(bad: float, size: int) -> None:
    net = nbgrad.nn.Sequential(nbgrad.nn.Linear(size, size), nbgrad.nn.Linear(size, 1))
    net[0].requires_grad_(False).weight.data[0, 0] = bad
    (text,) = found(lambda: net(nbgrad.ones(99, size)))
    assert text.startswith(f"{'NaN' if isnan(bad) else 'Inf'} is in 0.weight ({size}, {size}), which is frozen: linear")
    with nbgrad.detect_anomaly(), pytest.raises(nbgrad.AnomalyError, match="'weight', an input, holds"):
        net(nbgrad.ones(99, size))
    net[0].requires_grad_(True)
    assert found(lambda: net(nbgrad.ones(99, size)))[0].endswith("begins here, in the forward of parameter (0.weight)")


@pytest.mark.parametrize("batch", [8, 500])
def test_a_buffer_of_a_frozen_part_that_is_not_finite_is_named(batch: int) -> None:
    net = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    net[:2].requires_grad_(False).eval()
    net[1].running_mean.data[2] = nan
    (text,) = found(lambda: net(nbgrad.ones(batch, 3)))
    assert text.startswith("NaN is in 1.running_mean (8,), which is a buffer: batch_norm at tests/widgets/")


def test_a_frozen_parameter_that_is_a_mask_is_meant() -> None:
    mask = nbgrad.nn.Parameter(torch.full((3, 3), -inf).triu(1), requires_grad=False)
    assert found(lambda: softmax(scores(1, 2, 3) + (mask * 1)[0], -1)) == []
    with nbgrad.detect_anomaly():
        softmax(scores(1, 2, 3) + mask[2], -1)


def _stepped(run: Callable[[nn.Sequential], nbgrad.Tensor], steps: int = 1, width: int = 3) -> list[str]:
    """The findings after ``steps`` steps of a network. ``run`` computes its loss."""
    net = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1))
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(steps):
            optimizer.zero_grad()
            run(net).backward()
            optimizer.step()
    assert not isfinite(sum(parameter.data.sum() for parameter in net.parameters()))
    return [problem["text"] for problem in describe(graph)["problems"]]


@pytest.mark.parametrize("width", [3, 500])
def test_what_a_step_with_a_bad_gradient_makes_of_parameters_is_not_where_it_begins(width: int) -> None:
    known = nbgrad.tensor([[nan, 1.0, 1.0]] * 5)
    (text,) = _stepped(lambda net: (net(nbgrad.ones(5, 3)) * 0).sum().sqrt(), width=width)
    assert text.startswith("Inf begins here, in the rule of sqrt")
    (text,) = _stepped(lambda net: net(known).sum(), width=width)
    assert text.startswith("NaN begins in the data: 5 of the 15 numbers of a constant (5, 3), which linear at ")
    (text,) = _stepped(lambda net: (-1 - net(nbgrad.ones(5, 3)).pow(2).sum()).sqrt(), width=width)
    assert text.startswith("NaN begins here, in the forward of sqrt")


@pytest.mark.parametrize("width", [3, 500])
def test_parameters_that_an_earlier_step_has_spoiled_are_where_it_begins(width: int) -> None:
    (text,) = _stepped(lambda net: (net(nbgrad.ones(5, 3)) * 0).sum().sqrt(), steps=3, width=width)
    assert text.startswith(f"NaN is in 0.weight ({width}, 3) and 3 others since the step after")
    assert "backward 1, whose loss was 0: it began in its backward, in the rule of sqrt at " in text


@pytest.mark.parametrize("size", [5, 500, 50_000])
def test_a_constant_that_is_gone_may_have_been_where_it_begins_and_not_the_parameters(size: int) -> None:
    (text,) = _stepped(lambda net: net(nbgrad.tensor([[nan, 1.0, 1.0]] * size) + 0).sum())
    if size < 50_000:  # so many numbers are kept
        assert text.startswith(f"NaN begins in the data: {size} of the {3 * size:,} numbers of a constant ({size}, 3)")
    else:
        assert text.startswith("NaN begins in its data: an input, which linear uses at tests/widgets/")
        assert "held it (50,000 of its 150,000 numbers are NaN)" in text


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("end", ["detach", "argmax", "no_grad"])
def test_where_a_path_was_cut_off_is_lit_for_what_is_not_drawn(end: str, steps: int) -> None:
    below, above = nn.Linear(4, 4), nn.Linear(4, 4)

    def cut(h: nbgrad.Tensor) -> nbgrad.Tensor:
        if end == "no_grad":
            with nbgrad.no_grad():
                return h * 2
        return h.detach() if end == "detach" else nn.functional.one_hot(h.argmax(1), 4).float()

    with nbgrad.AutogradGraph() as graph:
        for _ in range(steps):
            above(cut(below(nbgrad.ones(2, 4)))).sum().backward()
    described = describe(graph)
    (problem,) = [problem for problem in described["problems"] if problem["kind"] == "unreached"]
    (lit,) = [node for node in described["nodes"] if node["id"] == problem["node"]]
    assert lit["kind"] == "constant"
    assert [edge["target"] for edge in described["edges"] if edge["source"] == lit["id"]] == [
        node["id"] for node in described["nodes"] if node["label"][0] == "linear"
    ]
    assert [badge["text"] for badge in lit["badges"]] == [problem["text"]]


def test_a_network_that_is_cut_off_on_purpose_is_not_accused_if_no_optimizer_holds_it() -> None:
    """The target of Q-learning is such a network: a copy that is renewed now and then."""
    learns, target = nn.Linear(3, 2), nn.Linear(3, 2)
    optimizer = optim.SGD(learns.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            optimizer.zero_grad()
            wanted = target(nbgrad.ones(4, 3)).max(1)[0].detach()
            mse_loss(learns(nbgrad.ones(4, 3)).max(1)[0], wanted).backward()
            optimizer.step()
    assert [problem["text"] for problem in describe(graph)["problems"]] == []


def test_a_nan_that_an_anomaly_stopped_is_told_once() -> None:
    x = nbgrad.tensor([-1.0], requires_grad=True)
    with (
        contextlib.suppress(nbgrad.AnomalyError),
        nbgrad.AutogradGraph() as graph,
        nbgrad.detect_anomaly(),
    ):
        (x * 2).log()
    described = describe(graph)
    (note,) = described["notes"]
    assert note.count("log of a negative number") == 1
    (told,) = described["problems"]
    assert told["text"] in note
    assert told["text"].startswith("NaN begins here")
    assert [badge["kind"] for node in described["nodes"] for badge in node["badges"]] == ["nan"]
