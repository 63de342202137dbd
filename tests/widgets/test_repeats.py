"""Module calls that repeat, one by one or in a cycle, are one box."""

import random
from collections.abc import Callable
from string import ascii_lowercase
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.outline import Outline
from nbgrad.widgets.description.repeats import LONGEST
from nbgrad.widgets.description.schema import Description, Node
from nbgrad.widgets.description.stage import STAGE
from nbgrad.widgets.folding.apply import NODES
from nbgrad.widgets.folding.choose import Folding, first_folding
from nbgrad.widgets.pipeline import drawable, lay_out, whole
from tests.widgets import graphs
from tests.widgets.test_first_look import cells, folded, trained
from tests.work import lines

WIDE = 8
LAYERS = {
    "i": lambda: nn.Linear(5, WIDE),
    "L": lambda: nn.Linear(WIDE, WIDE),
    "o": lambda: nn.Linear(WIDE, 3),
    "R": nn.ReLU,
    "T": nn.Tanh,
    "G": nn.GELU,
    "N": lambda: nn.LayerNorm(WIDE),
    "S": lambda: nn.Sequential(nn.Linear(WIDE, WIDE), nn.ReLU()),
}


def net(letters: str) -> Description:
    """A sequence of layers. Each letter stands for a layer."""
    return trained(nn.Sequential(*[LAYERS[letter]() for letter in letters]), 2, 5 if letters[0] == "i" else WIDE)


def found(description: Description) -> list[list[list[str]]]:
    """The runs. For each repetition of a run, the names of its calls."""
    names = {scope["id"]: scope["label"].partition(" (")[0] for scope in description["scopes"]}
    return [
        [[names[call] for call in calls] for calls in run]
        for run in [one.cycles for one in Outline.of(description).runs]
    ]


def heads(description: Description) -> list[str]:
    return [node["label"][0] for node in folded(description)]


def box(description: Description) -> Node:
    """The box that stands for a run."""
    (found,) = [node for node in folded(description) if len(node["holds"]) > 1]
    return found


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("LRLRLR", [(0, 2, 3)]),
        ("LRLRL", [(0, 2, 2)]),
        ("LLLL", [(0, 1, 4)]),
        ("LLLLL", [(0, 1, 5)]),
        ("LNRTLNRT", [(0, 4, 2)]),
        ("iRLRLRo", [(2, 2, 2)]),
        ("iNRLNRLNRo", [(3, 3, 2)]),
        ("LRLRo", [(0, 2, 2)]),
        ("iNLRLR", [(2, 2, 2)]),
        ("LLRLLR", [(0, 3, 2)]),
        ("LLLTT", [(0, 1, 3), (3, 1, 2)]),
        ("LRLRTLLL", [(0, 2, 2), (5, 1, 3)]),
        ("LRLRGLTLT", [(0, 2, 2), (5, 2, 2)]),
        ("LRTLTR", []),
        ("LR", []),
        ("L", []),
        ("SRSR", [(0, 2, 2)]),
        ("LRTGLNTRGLNN" * 2, [(0, 12, 2)]),
    ],
)
def test_what_repeats_is_a_run_of_the_shortest_cycle(letters: str, expected: list[tuple[int, int, int]]) -> None:
    cycles = [
        [[str(at) for at in range(begin + of * period, begin + (of + 1) * period)] for of in range(times)]
        for begin, period, times in expected
    ]
    assert found(net(letters)) == cycles


def test_a_cycle_with_an_op_in_between_is_no_run() -> None:
    layers = nn.ModuleList([layer for _ in range(4) for layer in (nn.Linear(WIDE, WIDE), nn.ReLU())])

    def run(x: nbgrad.Tensor) -> nbgrad.Tensor:
        for at, layer in enumerate(layers):
            x = layer(x) * 2 if at == 3 else layer(x)
        return x

    assert [len(one) for one in found(trained(run, 2, WIDE))] == [2, 2]


@pytest.mark.parametrize(
    ("letters", "label"),
    [
        ("i" + "R" + "LR" * 24 + "o", "Linear, ReLU × 24"),
        ("LR" * 24, "Linear, ReLU × 22"),
        ("LR" * 24 + "L", "Linear, ReLU × 23"),
        ("LNGT" * 20 + "o", "Linear, LayerNorm, GELU, Tanh × 19"),
        ("LNR" * 20 + "o", "Linear, LayerNorm, ReLU × 19"),
        ("LNGTLRNGTT" * 10, "Linear, LayerNorm, GELU, Tanh and 6 more × 9"),
        ("L" * 80, "Linear × 78"),
    ],
)
def test_a_cycle_of_layers_is_one_box(letters: str, label: str) -> None:
    described = net(letters)
    picture = lay_out(described)
    assert box(picture["description"])["label"][0] == label
    assert STAGE.fits(picture["layout"])


def test_a_name_that_is_too_long_leaves_room_for_how_often() -> None:
    class AnUnusuallyLongNameOfAClassThatAUserMayHave(nn.ReLU):
        pass

    long = AnUnusuallyLongNameOfAClassThatAUserMayHave
    layers = [layer for _ in range(30) for layer in (long(), nn.Linear(WIDE, WIDE), nn.Tanh())]
    head = box(drawable(trained(nn.Sequential(nn.Linear(5, WIDE), *layers, nn.Linear(WIDE, 3)), 2, 5), NODES))["label"][
        0
    ]
    assert head.startswith("AnUnusuallyLongName")
    assert head.endswith("… and 2 more × 30")
    assert len(head) == 44


def test_a_box_tells_of_each_in_a_cycle() -> None:
    folds = box(drawable(net("iR" + "LR" * 24 + "o"), NODES))
    details = {row["term"]: row["text"] for row in folds["details"]}
    assert folds["label"][1] == "2 … 49"
    assert details["Each of them"] == "Linear: 1 op, 2 parameters (72)\nReLU: 1 op"
    assert details["Folded"] == "48 ops, 48 tensors"


def test_a_cycle_unfolds_into_its_calls_and_those_into_ops() -> None:
    described = net("iR" + "LR" * 24 + "o")
    folding = first_folding(described, NODES)
    folding = folding.toggled(described, box(drawable(described, NODES, folding))["holds"], NODES)
    drawn = drawable(described, NODES, folding)
    linears = [node["about"] for node in drawn["nodes"] if node["op"] == "linear"]
    assert linears == [f"· {at} (Linear)" for at in [0, *range(2, 50, 2), 50]], "a call of one op is open"
    assert sum(node["op"] == "relu" for node in drawn["nodes"]) == 25
    while boxes := folded(drawn := drawable(described, NODES, folding)):
        folding = folding.toggled(described, boxes[0]["holds"], NODES)
    assert len(drawn["nodes"]) == len(described["nodes"])


def test_around_an_open_call_whole_cycles_are_boxes() -> None:
    described = net("LR" * 8 + "o")
    calls = [call for run in Outline.of(described).runs for cycle in run.cycles for call in cycle]
    for at, call in enumerate(calls):
        drawn = drawable(described, NODES, Folding(closed=frozenset(calls) - {call}))
        before, after = at // 2, 7 - at // 2
        expected = [f"Linear, ReLU × {many}" for many in (before, after) if many > 1]
        assert [head for head in heads(drawn) if "×" in head] == expected


@pytest.mark.parametrize("bad", [0, 7, 22])
def test_a_problem_in_a_cycle_is_seen(bad: int) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(*[LAYERS[letter]() for letter in "LR" * 24])
    layers[2 * bad].weight.data[0, 0] = float("nan")
    described = trained(layers, 2, WIDE)
    drawn = drawable(described, NODES)
    about = {problem["node"] for problem in described["problems"]}
    assert about
    assert about <= {node["id"] for node in drawn["nodes"]}


def test_a_page_folds_no_call_of_one_node() -> None:
    described = net("iR" + "LR" * 24 + "o")
    picture = whole(described)
    inside = [node["scope"] for node in picture["description"]["nodes"]]
    assert picture["folded"]
    assert all(inside.count(scope) > 1 for scope in picture["folded"])


def test_long_rows_take_no_longer_than_their_length() -> None:
    short, long = (calls("ab" * (many // 2 - 4) + "cd" * 4) for many in (1_000, 4_000))
    assert [len(run.cycles) for run in Outline.of(long).runs] == [4_000 // 2 - 4, 4]
    assert lines(lambda: Outline.of(long).runs) < 4 * lines(lambda: Outline.of(short).runs) * 1.5


def calls(letters: str) -> Description:
    """A chain of ops. Each op is in a call of a class named by its letter, and all read the same constant."""
    with nbgrad.AutogradGraph("calls") as graph:
        (nbgrad.tensor([1.0], requires_grad=True) * nbgrad.tensor([2.0])).sum().backward()
        described = describe(graph)
    op = next(node for node in described["nodes"] if node["op"] == "mul")
    given = next(node for node in described["nodes"] if node["kind"] == "constant")
    edge = next(edge for edge in described["edges"] if edge["source"] == given["id"])
    ops: list[Node] = [{**op, "id": f"n{at}", "scope": f"s{at}"} for at in range(len(letters))]
    described["nodes"] = [{**given, "id": "given"}, *ops]
    described["edges"] = [
        {**edge, "id": f"e{at}", "source": "given", "target": node["id"]} for at, node in enumerate(ops)
    ]
    described["scopes"] = [graphs.frame(f"s{at}", f"{at} ({letter})", like=letter) for at, letter in enumerate(letters)]
    return described


CELLS = [nn.RNNCell, nn.LSTMCell, nn.GRUCell]


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("steps", [12, 30, 100])
def test_steps_of_a_recurrent_cell_are_one_box(kind: Any, steps: int) -> None:
    described = cells(steps, kind)
    picture = lay_out(described)
    drawn = picture["description"]
    folds = box(drawn)
    assert folds["label"] == [f"{kind.__name__} × {steps - 1}", "(2, 4)"], "it has no name"
    assert {row["term"]: row["text"] for row in folds["details"]}["Folded"] == f"{counted(steps - 1)}"
    rows = [node["id"].partition(".")[0] for node in drawn["nodes"] if node["kind"] == "parameter"]
    assert [rows.count(one) for one in {*rows}] == [2] * 4, "the first one shows what it learns, and so do the others"
    assert STAGE.fits(picture["layout"])
    opened = first_folding(described, NODES).toggled(described, folds["holds"], NODES)
    unfolded = drawable(described, NODES, opened)
    assert len({node["id"].partition(".")[0] for node in unfolded["nodes"]}) == len(described["nodes"])


def counted(steps: int) -> str:
    return f"{steps} ops, {steps} tensors"


class Reader(nn.Module):
    """A cell that reads a sentence. ``given`` makes its input at each step."""

    def __init__(self, given: Callable[[Any, nbgrad.Tensor, Any, int], nbgrad.Tensor]) -> None:
        super().__init__()
        self.words, self.cell, self.head = nn.Embedding(9, 4), nn.GRUCell(4, 4), nn.Linear(4, 4)
        self.given = given

    def forward(self, tokens: nbgrad.Tensor) -> nbgrad.Tensor:
        sentence, state, states = self.words(tokens), None, []
        for step in range(tokens.shape[1]):
            state = self.cell(self.given(self, sentence, state, step), state)
            states.append(state)
        return nbgrad.stack(states)


def read(given: Callable[[Any, nbgrad.Tensor, Any, int], nbgrad.Tensor], steps: int = 20) -> Description:
    return trained(Reader(given), 2, steps, tokens=True)


@pytest.mark.parametrize(
    ("given", "ops"),
    [
        (lambda _self, sentence, _state, step: sentence[:, step], 1),
        (lambda _self, sentence, _state, step: (sentence[:, step] * 2).tanh(), 3),
    ],
)
def test_what_each_step_is_given_of_its_own_is_in_the_box(given: Any, ops: int) -> None:
    drawn = drawable(read(given), NODES)
    folds = box(drawn)
    assert folds["label"] == ["GRUCell × 19", "cell, 19 calls"]
    assert {row["term"]: row["text"] for row in folds["details"]}["Folded"].startswith(f"{19 * (ops + 1)} ops")
    assert sum(node["op"] == "getitem" for node in drawn["nodes"]) == 1, "that of the first step"


def test_what_one_step_alone_is_given_is_seen() -> None:
    described = read(lambda _, sentence, __, step: sentence[:, step].exp() if step == 9 else sentence[:, step])
    closed = frozenset(call for run in Outline.of(described).runs for cycle in run.cycles for call in cycle)
    drawn = drawable(described, NODES, Folding(closed))
    assert box(drawn)["label"][0] == "GRUCell × 19"
    assert sum(node["op"] == "exp" for node in drawn["nodes"]) == 1


@pytest.mark.parametrize(
    ("given", "label", "ops"),
    [
        (
            lambda _self, sentence, state, step: sentence[:, step] if state is None else sentence[:, step] + state,
            "add, GRUCell × 19",
            3,
        ),
        (lambda _self, sentence, state, _step: sentence[:, 0] if state is None else state * 2, "mul, GRUCell × 19", 2),
    ],
)
def test_what_is_made_of_the_step_before_is_a_part_of_the_step(given: Any, label: str, ops: int) -> None:
    described = read(given)
    folds = box(drawable(described, NODES))
    details = {row["term"]: row["text"] for row in folds["details"]}
    assert folds["label"] == [label, "cell, 19 calls"]
    assert details["Each of them"].splitlines()[0] == f"{label.partition(',')[0]}: 1 op"
    assert details["Folded"].startswith(f"{19 * ops} ops")


def test_what_several_read_is_beside_the_box() -> None:
    beside: list[nbgrad.Tensor] = []

    def given(_: Any, sentence: nbgrad.Tensor, __: Any, step: int) -> nbgrad.Tensor:
        beside.append(sentence[:, step])
        return beside[-1]

    def reading(tokens: nbgrad.Tensor) -> nbgrad.Tensor:
        return Reader(given)(tokens) + nbgrad.stack(beside)

    described = trained(reading, 2, 20, tokens=True)
    closed = frozenset(call for run in Outline.of(described).runs for cycle in run.cycles for call in cycle)
    drawn = drawable(described, NODES, Folding(closed))
    assert box(drawn)["label"][0] == "GRUCell × 19"
    assert sum(node["op"] == "getitem" for node in drawn["nodes"]) == 20


def test_a_problem_in_what_a_step_is_given_is_seen() -> None:
    def given(_: Any, sentence: nbgrad.Tensor, __: Any, step: int) -> nbgrad.Tensor:
        return sentence[:, step] * nbgrad.tensor(float("nan") if step == 9 else 1.0)

    described = read(given)
    drawn = drawable(described, NODES)
    about = described["problems"][0]["node"]
    (product,) = [edge["target"] for edge in described["edges"] if edge["source"] == about]
    assert product in {node["id"] for node in described["nodes"] if node["op"] == "mul"}
    assert {about, product} <= {node["id"] for node in drawn["nodes"]}
    boxes = [node["label"][0] for node in folded(drawn)]
    assert boxes == ["GRUCell × 8", "GRUCell × 10"], "the step in question is open"


def test_layers_of_a_step_are_a_cycle() -> None:
    described = read(lambda self, sentence, _state, step: self.head(sentence[:, step]))
    drawn = drawable(described, NODES)
    assert box(drawn)["label"] == ["Linear, GRUCell × 19", "head … cell"]


def test_the_data_of_a_network_is_seen() -> None:
    described = net("LR" * 24)
    closed = frozenset(call for run in Outline.of(described).runs for cycle in run.cycles for call in cycle)
    (given, whole, *_) = drawable(described, NODES, Folding(closed))["nodes"]
    assert (given["label"][1], whole["label"][0]) == (f"(2, {WIDE})", "Linear, ReLU × 24")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(60))
def test_no_box_has_a_way_out_and_in_again(seed: int) -> None:
    """Random loops of calls and ops. In the drawing, every input of a box stands before the box."""
    choose = random.Random(seed)
    layers = nn.ModuleList([choose.choice([nn.Linear(4, 4), nn.ReLU(), nn.Tanh()]) for _ in range(3)])
    body = [(choose.randrange(6), choose.randrange(8), choose.randrange(8)) for _ in range(choose.randrange(1, 5))]

    def run(x: nbgrad.Tensor) -> nbgrad.Tensor:
        made = [x, nbgrad.tensor(torch.ones(2, 4), requires_grad=True) * x]
        for step in range(12):
            for what, one, other in body:
                a, b = (made[-1 - one % len(made)], made[-1 - other % len(made)])
                if choose.random() < 0.03:
                    made.append(a + b)
                elif what == 3:
                    made.append(made[0] * step)
                elif what == 4:
                    made.append(made[1] * 2)
                elif what == 5:
                    made.append(a * b)
                else:
                    made.append(layers[what](a))
            made[2:-8] = []
        return sum(made[1:], made[0])

    described = trained(run, 2, 4)
    calls = [call for run in Outline.of(described).runs for cycle in run.cycles for call in cycle]
    for folding in (Folding(frozenset(calls)), Folding(frozenset(calls[5:])), first_folding(described, NODES)):
        drawn = drawable(described, 1_000, folding)
        place = {node["id"]: at for at, node in enumerate(drawn["nodes"])}
        assert all(place[edge["source"]] < place[edge["target"]] for edge in drawn["edges"])


def test_cycles_that_are_too_long_are_none() -> None:
    letters = ascii_lowercase
    assert found(calls(letters[:LONGEST] * 2)) != []
    assert found(calls(letters[: LONGEST + 1] * 2)) == []
