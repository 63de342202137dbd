"""An engine against nbgrad: right engines are right; of wrong ones the first wrong number and its cause are named."""

import math
from contextlib import suppress
from inspect import getsource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nbgrad
import nbgrad.testing
from nbgrad.drawing import EngineVerdict, verdict
from tests.drawing import programs
from tests.drawing.engines import MicrogradValue
from tests.drawing.planted import FIRST, LATER, Planted
from tests.drawing.shapes import SHAPES, as_lesson_3, as_micrograd, as_minitorch, as_needle
from tests.drawing.small_engine import Node, SmallEngine, topological

RIGHT = SmallEngine()
UNTOLD = {as_micrograd: {"getitem"}, as_lesson_3: {"getitem"}, as_minitorch: {"Getitem"}}
"""The ops whose arguments these engines do not tell."""


def run(engine: SmallEngine, program: Any) -> Any:
    with np.errstate(all="ignore"):
        root = program(engine)
    with np.errstate(all="ignore"), suppress(ValueError):  # a wrong forward may give shapes that no rule fits
        engine.go(root)
    return root


def differ(one: Any, other: Any) -> bool:
    a, b = (np.zeros(()) if each is None else np.asarray(each) for each in (one, other))
    return a.shape != b.shape or not np.allclose(a, b, equal_nan=True)


def first_wrong(planted: Planted) -> tuple[Any, int, str]:
    """The root of the wrong engine, and the first number in which it differs from the right one."""
    root, right = run(planted.engine, planted.program), run(RIGHT, planted.program)
    pairs = list(zip(topological(root), topological(right), strict=True))
    for at, (got, want) in enumerate(pairs):
        if differ(got.value, want.value):
            return root, at, "value"
    for at, (got, want) in reversed(list(enumerate(pairs))):
        if differ(got.gradient, want.gradient):
            return root, at, "gradient"
    raise AssertionError("the program does not show the fault")


def found(root: Any) -> tuple[str, str, str]:
    """The kind of the first wrong number, the words for its box, and the cause."""
    first = verdict(root).first
    assert first is not None
    return first.kind, first.box, first.cause or ""


# Right engines.


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shape", [None, *SHAPES], ids=lambda one: getattr(one, "__name__", "protocol"))
@pytest.mark.parametrize("program", programs.PROGRAMS, ids=lambda one: one.__name__)
def test_a_right_engine_is_right(program: Any, shape: Any) -> None:
    root = run(RIGHT, program)
    ops = sum(node.op is not None for node in topological(root))
    said = verdict(root if shape is None else shape(root))
    assert said.ok
    assert said.first is None
    unknown = {node.op for node in topological(root)} & {"getitem"} if shape in UNTOLD else set()
    assert {one.lower() for one in said.unknown} == unknown
    assert said.checked_values == ops - len(unknown)
    assert said.checked_gradients or unknown


def test_micrograd_is_right() -> None:
    x, w, b = (MicrogradValue(one) for one in (2.0, -3.0, 0.5))
    h = (x * w + b).relu()
    loss = (h + w**2 - x) * x * x
    loss.backward()
    said = verdict(loss)
    assert said.ok
    assert said.unchecked == ()


# Wrong engines.


@pytest.mark.sampled(4)
@pytest.mark.parametrize("planted", [*FIRST, *LATER], ids=lambda one: one.name)
def test_the_first_wrong_number_is_found_with_its_cause(planted: Planted) -> None:
    root, at, kind = first_wrong(planted)
    first = verdict(root).first
    assert first is not None
    assert (first.position, first.kind) == (at, kind)
    if planted.words is None:
        assert first.cause is None, "no usual fault gives this number"
    else:
        assert planted.words in (first.cause or "")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("shape", [as_lesson_3, as_needle], ids=lambda one: one.__name__)
@pytest.mark.parametrize("planted", FIRST, ids=lambda one: one.name)
def test_the_same_in_other_shapes(planted: Planted, shape: Any) -> None:
    root, at, kind = first_wrong(planted)
    first = verdict(shape(root)).first
    assert first is not None
    if planted.name == "softmax axis" and shape is as_lesson_3:
        assert first.kind == "gradient", "the axis is inferred from the value, so only the rule does not fit"
        return
    assert (first.position, first.kind) == (at, kind)
    assert (planted.words or "") in (first.cause or "")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("planted", [one for one in FIRST if one.name != "log_softmax"], ids=lambda one: one.name)
def test_gradients_of_leaves_alone(planted: Planted) -> None:
    root, _, kind = first_wrong(planted)
    said = verdict(as_minitorch(root))
    if planted.name in ("relu mask", "relu mask side", "softmax axis"):
        assert not said.ok
        return
    assert said.first is not None
    assert said.first.kind == kind
    if kind == "gradient":
        assert said.first.part.op is None
        assert "leaves only" in said.text


SLIPS = [
    ("self.grad += out.grad\n            other.grad", "self.grad = out.grad\n            other.grad", "not added"),
    ("self.grad += other.data * out.grad", "self.grad += other.data", "local derivative alone"),
    ("self.grad += other.data * out.grad", "self.grad += self.data * out.grad", "by the input itself"),
    ("other.grad += self.data * out.grad", "other.grad += out.grad", "local derivative is missing"),
    ("other.grad += self.data * out.grad", "pass", "adds nothing"),
    ("self.data ** (other - 1)", "self.data ** other", "does not lower the exponent"),
    ("other * self.data ** (other - 1)", "self.data ** (other - 1)", "lacks the factor n"),
    ("(out.data > 0) * out.grad", "out.grad", "local derivative is missing"),
    ("(out.data > 0) * out.grad", "(out.data <= 0) * out.grad", "where the input is negative"),
    ("max(0, self.data)", "max(0, -self.data)", "relu(-x)"),
    ("self.data * other.data, (self, other)", "self.data + other.data, (self, other)", "a + b"),
    ("in reversed(order)", "in order", "Only the inputs of the result"),
]
"""Slips in micrograd's source: the right code, the wrong code, and words of the cause."""


@pytest.mark.parametrize(("right", "wrong", "words"), SLIPS, ids=lambda one: one[:40])
def test_slips_in_micrograd(right: str, wrong: str, words: str) -> None:
    source = getsource(MicrogradValue)
    assert source.count(right) == 1
    space: dict[str, Any] = {"Any": Any}
    exec(source.replace(right, wrong), space)
    value = space["MicrogradValue"]
    x, w, b, v = value(-0.7), value(-3.1), value(0.3), value(1.6)
    h = ((x + w) * w + b).relu()
    off = (x * v + w * b).relu()
    loss = (h * v + x) ** 3 + h * x + off * v + x**2
    loss.backward()
    assert words in found(loss)[2]


def test_a_part_that_is_wrong_only_because_of_another_is_counted() -> None:
    root = run(SmallEngine().broken(backward={"tanh": lambda g, y, x: (g * (1 - y),)}), programs.layer)
    said = verdict(root)
    assert (said.others, said.consequences) == (0, 4)
    assert "4 more numbers are wrong because of that." in said.text


def test_two_faults_are_two() -> None:
    wrong = {"tanh": lambda g, y, x: (g * (1 - y),), "mul": lambda g, y, a, b: (g, g)}
    said = verdict(run(SmallEngine().broken(backward=wrong), programs.neuron))
    assert said.first is not None
    assert "`tanh`" in (said.first.cause or "")
    assert said.others == 4, "of both products, both inputs"


def test_gradients_that_were_not_reset() -> None:
    w, x = RIGHT.leaf(2.0, "w"), RIGHT.leaf(-3.0, "x")
    for _ in range(3):
        loss = (w * x).tanh() + w
        RIGHT.go(loss)
    assert found(loss) == ("gradient", "`x`", (
        "It is 3 times the right one: the gradients of 3 backwards were added. "
        "Set the gradients of the leaves to 0 before each."
    ))  # fmt: skip


def test_gradients_of_an_earlier_step_are_left_over() -> None:
    w, x, b = (RIGHT.leaf(value, name) for value, name in ((2.0, "w"), (-3.0, "x"), (0.5, "b")))
    for _ in range(2):
        loss = ((w * x + b) * b).tanh() + w
        RIGHT.go(loss)
        w.value = w.value - 0.3 * w.gradient
    w.value = w.value + 0.3 * w.gradient
    assert "All compared" not in verdict(loss).text
    assert (
        "those of all 3 leaves are not: they may still have held the gradients of an earlier backward"
        in (found(loss)[2])
    )


def test_what_one_argument_of_a_rule_explains_is_not_left_over() -> None:
    odd = {"mul": lambda g, y, a, b: (g * b, g * np.sin(7.3 * a) + 0.11)}
    cause = found(run(SmallEngine().broken(backward=odd), programs.neuron))[2]
    assert "earlier backward" not in cause
    w, x = SmallEngine().broken(backward=odd).leaf(2.0, "w"), 1.5
    engine = w.engine
    loss = (engine.leaf(x, "x") * w).tanh() * w
    engine.go(loss)
    assert "earlier backward" not in found(loss)[2]


def test_leaves_that_a_step_has_moved() -> None:
    root = run(RIGHT, programs.network)
    for node in topological(root):
        if node.name in ("w", "b", "v"):
            node.value = node.value - 0.05 * node.gradient
    kind, _, cause = found(root)
    assert kind == "value"
    assert "before a step of the rate 0.05" in cause


def test_the_walk_that_reaches_no_leaf() -> None:
    x = RIGHT.leaf(0.5, "x")
    root = (x * x).tanh()
    root.gradient = np.ones(())
    kind, box, _ = found(root)
    assert (kind, box) == ("gradient", "`mul`, part 2 of 3,")


def test_a_leaf_without_a_gradient_is_said() -> None:
    root = run(RIGHT, programs.neuron)
    next(node for node in topological(root) if node.name == "b").gradient = None
    said = verdict(root)
    assert said.ok
    assert "There is no gradient at `b`" in said.text


def test_no_seed() -> None:
    a, b = Node(RIGHT, np.array(2.0)), Node(RIGHT, np.array(3.0))
    root = a * b
    for node, gradient in ((a, 3.0), (b, 2.0), (root, 0.0)):
        node.gradient = np.array(gradient)
    said = verdict(root)
    assert said.ok
    assert said.checked_gradients == 2, "engines may hand the 1 on without keeping it"


# Things that cannot be compared are said.


def test_an_op_that_nbgrad_does_not_know() -> None:
    engine = SmallEngine().broken(forward={"wobble": lambda x: x * 3}, backward={"wobble": lambda g, y, x: (g * 5,)})
    x = engine.leaf(2.0, "x")
    root = x.tanh().wobble().exp()
    engine.go(root)
    said = verdict(root)
    assert said.ok
    assert said.unknown == ("wobble",)
    assert "`wobble` is taken as it is, with its gradients: nbgrad does not know this op." in said.text
    assert (said.checked_values, said.checked_gradients) == (2, 2), "of tanh the gradient is not known"


def test_no_backward() -> None:
    said = verdict(programs.neuron(RIGHT))
    assert said.ok
    assert not said.has_gradients
    assert "run the backward first" in said.text


def test_older_gradients_of_leaves_are_no_backward() -> None:
    x = RIGHT.leaf(0.5, "x")
    RIGHT.go((x * x).tanh())
    root = (x * x).exp()
    for node in (root, *root.parents):
        node.gradient = np.zeros(())
    said = verdict(root)
    assert said.ok
    assert not said.has_gradients


def test_an_exponent_that_is_not_told_is_inferred() -> None:
    x = RIGHT.leaf(1.7)
    root = RIGHT.run("pow", x, exponent=3)
    RIGHT.go(root)
    root.settings = {}
    assert "its exponent, 3, is inferred from the number" in verdict(root).text


@pytest.mark.parametrize("slope", [0.0, 0.3, 1.0])
def test_every_slope_at_a_kink_is_right(slope: float) -> None:
    engine = SmallEngine().broken(backward={"relu": lambda g, y, x: (g * np.where(x == 0, slope, x > 0),)})
    x = engine.leaf([-1.0, 0.0, 2.0])
    root = x.relu().sum()
    engine.go(root)
    assert verdict(root).ok


def test_equal_largest_numbers() -> None:
    x = RIGHT.leaf([[1.0, 2.0, 2.0], [2.0, 2.0, 2.0]])
    root = x.max(axis=1).sum()
    RIGHT.go(root)
    assert verdict(root).ok, "this engine gives the whole gradient to each"
    x.gradient = np.array([[0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    assert verdict(root).ok


def test_a_wrong_slope_beside_a_kink_is_wrong() -> None:
    engine = SmallEngine().broken(backward={"relu": lambda g, y, x: (g * (x >= 0) * 0.5,)})
    x = engine.leaf([-1.0, 0.0, 2.0])
    root = x.relu().sum()
    engine.go(root)
    assert not verdict(root).ok


def test_nan_is_right_where_nbgrad_has_it() -> None:
    with np.errstate(all="ignore"):
        x = RIGHT.leaf([-1.0, 4.0])
        root = x.sqrt().sum()
        RIGHT.go(root)
    assert verdict(root).ok


# Where it is offered.


def broken() -> Any:
    return run(SmallEngine().broken(accumulate=lambda held, g: g), programs.shared)


def test_nothing_is_recorded_and_no_setting_changes() -> None:
    root = broken()
    with nbgrad.AutogradGraph() as graph, nbgrad.no_grad():
        assert verdict(root).first is not None
        assert not nbgrad.is_grad_enabled()
    assert graph.records == []


def test_the_picture_marks_the_first_wrong_number() -> None:
    root = broken()
    graph = nbgrad.draw(root, against=True)
    (one,) = [one for one in graph.findings() if one.kind == "wrong number"]
    said = verdict(root)
    assert said.first is not None
    assert one.id == graph.ids[id(said.first.part.source)]
    assert one.text == said.head
    assert one.severity == "error"
    assert "! The gradient of" in str(graph)
    assert str(graph.checkup()["errors"]).startswith("errors: 1 found (wrong number); 4 ops")


def test_a_saved_picture_has_the_finding(tmp_path: Path) -> None:
    graph = nbgrad.draw(broken(), against=True)
    graph.save(str(tmp_path / "wrong.nbgrad"))
    assert nbgrad.load(tmp_path / "wrong.nbgrad").findings() == graph.findings()


def test_the_check_of_a_right_engine_is_sound() -> None:
    root = run(RIGHT, programs.neuron)
    check = nbgrad.draw(root, against=True).checkup()["errors"]
    assert check.state == "sound"
    assert check.looked.endswith("; 5 values and 9 gradients were compared with nbgrad's")
    assert "compared" not in nbgrad.draw(root).checkup()["errors"].looked


def test_names_of_variables() -> None:
    class Value:
        def __init__(self, data: float, parents: Any = (), rule: Any = None) -> None:
            self.data, self.parents, self.rule, self.grad = data, parents, rule, 0.0

        def tanh(self) -> "Value":
            return Value(math.tanh(self.data), (self,), lambda g: (g,))

    weight = Value(0.5)
    result = weight.tanh()
    result.grad, weight.grad = 1.0, 1.0
    first = verdict(result).first
    assert first is not None
    assert (first.kind, first.box, first.cause) == (
        "gradient", "`weight`",
        "The rule of `tanh` passes the gradient of the result on as it is: the local derivative is missing.",
    )  # fmt: skip


def test_assert_engine_correct() -> None:
    nbgrad.testing.assert_engine_correct(run(RIGHT, programs.classifier))
    with pytest.raises(AssertionError, match=r"^assert_engine_correct: The gradient of .* not added"):
        nbgrad.testing.assert_engine_correct(broken())
    with pytest.raises(AssertionError, match=r"^mine$"):
        nbgrad.testing.assert_engine_correct(broken(), msg="mine")


def test_assert_engine_correct_does_not_pass_what_it_cannot_check() -> None:
    root = as_lesson_3(run(RIGHT, programs.classifier))
    with pytest.raises(AssertionError, match=r"pass given=\['getitem'\]"):
        nbgrad.testing.assert_engine_correct(root)
    nbgrad.testing.assert_engine_correct(root, given=["getitem"])


def test_assert_engine_correct_wants_gradients() -> None:
    root = programs.neuron(RIGHT)
    with pytest.raises(AssertionError, match=r"pass gradients=False\."):
        nbgrad.testing.assert_engine_correct(root)
    nbgrad.testing.assert_engine_correct(root, gradients=False)


def test_numbers_that_differ_late_are_told_with_more_digits() -> None:
    half, two = MicrogradValue(0.5), MicrogradValue(2.0)
    product = half * two
    product.data += 4e-6  # as a logarithm of x + 1e-6, in place of x
    assert "is 1.000004; nbgrad has 1, for the same inputs" in verdict(product).text


def test_a_verdict_is_true_if_nothing_differs() -> None:
    said = verdict(run(RIGHT, programs.square))
    assert isinstance(said, EngineVerdict)
    assert said
    assert str(said) == "All compared numbers are right: 1 value and 1 gradient."
