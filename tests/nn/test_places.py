"""Where the ops of a block come from: the user's line that calls the block, or the user's function that it calls."""

import inspect
from inspect import currentframe
from typing import Any

import pytest

import nbgrad
from nbgrad import nn
from nbgrad.nn import Module
from tests.nn.block_rows import ROWS, tensors
from tests.nn.loss_rows import LOSSES

TABLE = {**ROWS, **LOSSES}
FILE = __file__


def lines(call: Any) -> dict[str, int]:
    """For each op that ``call`` ran, the line of this file that it came from."""
    with nbgrad.AutogradGraph() as graph:
        held = call(nbgrad.tensor([[1.0, 2.0]], requires_grad=True))
        records = [record for record in graph.records if record.op is not None]
    assert held is not None
    assert {record.file for record in records} == {FILE}
    return {record.op.name: record.line for record in records}


def after(function: Any, text: str) -> int:
    """The line number of ``text`` in ``function``."""
    source, first = inspect.getsourcelines(function)
    return next(number for number, line in enumerate(source, first) if text in line)


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", TABLE)
def test_every_op_of_a_block_comes_from_the_line_that_called_it(name: str) -> None:
    block, frame = TABLE[name].make(nn).double(), currentframe()
    given = [
        nbgrad.tensor(value.detach(), requires_grad=value.requires_grad) for value in tensors(TABLE[name].inputs[0])
    ]
    assert frame is not None
    with nbgrad.AutogradGraph() as graph:
        line, held = frame.f_lineno, block(*given)
    places = {(record.file, record.line) for record in graph.records if record.op is not None}
    assert held is not None
    assert places <= {(FILE, line)} or block._runs_functions


def test_ops_of_the_users_own_come_from_their_lines_and_those_of_blocks_from_the_calls() -> None:
    class Net(Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(2, 2), nn.Tanh())

        def forward(self, x: Any) -> Any:
            x = self.layers(x)
            return x.exp()

    net = nn.Sequential(Net(), nn.Sigmoid())

    def call(x: Any) -> Any:
        return net(x).sum()

    inside = after(Net.forward, "self.layers(x)")
    assert lines(call) == {
        "linear": inside,
        "tanh": inside,
        "exp": inside + 1,
        "sigmoid": after(call, "net(x)"),
        "sum": after(call, "net(x)"),
    }


def cosine(x: Any) -> Any:
    """A function that the user gives to a block."""
    return x.cos()


def distance(x: Any, y: Any) -> Any:
    return (x - y).abs().sum(-1)


def test_functions_that_a_block_was_given_have_their_own_lines() -> None:
    layer = nn.TransformerEncoderLayer(2, 1, 4, activation=cosine)
    assert lines(layer)["cos"] == after(cosine, "x.cos()")
    loss = nn.TripletMarginWithDistanceLoss(distance_function=distance)
    assert lines(lambda x: loss(x, x + 1.0, x * 2.0))["abs"] == after(distance, "abs")


def test_a_hook_a_forward_of_its_own_and_a_subclass_have_their_own_lines() -> None:
    linear = nn.Linear(2, 2)

    def hook(_module: Any, _args: Any, out: Any) -> Any:
        return out.cos()

    def forward(x: Any) -> Any:
        return x.sin()

    def call(x: Any) -> Any:
        return linear(x)

    assert lines(call) == {"linear": after(call, "linear(x)")}
    handle = linear.register_forward_hook(hook)
    assert lines(call) == {"linear": after(call, "linear(x)"), "cos": after(hook, "out.cos()")}
    handle.remove()
    linear.forward = forward  # type: ignore[method-assign]
    assert lines(call) == {"sin": after(forward, "x.sin()")}

    class Twice(nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(x) * 2

    twice = Twice(2, 2)
    assert set(lines(twice).values()) == {after(Twice.forward, "* 2")}


class Cosine:
    """A forward that is no function."""

    def __call__(self, x: Any) -> Any:
        return x.cos()


def test_a_forward_in_a_switch_and_one_that_is_no_function_have_their_own_lines() -> None:
    class Switched(nn.Linear):
        @nbgrad.enable_grad()
        def forward(self, x: Any) -> Any:
            return x.sin()

    class Given(Module):
        forward = Cosine()

    assert lines(Switched(2, 2)) == {"sin": after(Switched, "x.sin()")}
    assert lines(Given()) == {"cos": after(Cosine, "x.cos()")}


def blocks() -> list[type[Module]]:
    """Every block that there is."""
    waiting, found = [Module], set()
    while waiting:
        for kind in waiting.pop().__subclasses__():
            if kind.__module__.startswith("nbgrad.") and kind not in found:
                found.add(kind)
                waiting.append(kind)
    return sorted(found, key=lambda kind: kind.__qualname__)


HANDED_ON = {
    "AveragedModel": "update_parameters() runs it",
    "MLP": "makes modules",
    "Transformer": "the layers run it",
}
"""Blocks whose forward does not call the given functions itself."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", blocks(), ids=lambda kind: kind.__qualname__)
def test_a_block_that_is_given_functions_says_so(kind: type[Module]) -> None:
    taken = [str(one.annotation) for one in inspect.signature(kind).parameters.values()]
    given = any("Callable" in one for one in taken) and kind.__name__ not in HANDED_ON
    assert kind._runs_functions == given
