"""The exercises of lesson 3: an engine of one's own."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.core.functional.grad import grad
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.comparison import Deviation, difference, numbers_of
from nbgrad.core.tensor.tensor import tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise
from nbgrad.lab.judges import is_near, needs_function, truth_of
from nbgrad.lab.running import attempt

# 3.1: the ops of Value. What they give, and what their rules give, is compared with nbgrad's own.

_OPS: tuple[tuple[str, Callable[..., Any], tuple[float, ...]], ...] = (
    ("a + b", lambda a, b: a + b, (2.0, -3.0)),
    ("a * b", lambda a, b: a * b, (2.0, -3.0)),
    ("a.tanh()", lambda a: a.tanh(), (0.7,)),
    ("a.tanh()", lambda a: a.tanh(), (-1.5,)),
)
_INCOMING = 0.5
"""The gradient that a rule is called with: not 1, so that a rule which forgets it is seen."""


def _values(answer: Any) -> Deviation | None:
    if not isinstance(answer, type):
        return Deviation("type", "the class is expected: Value, without parentheses behind it")
    return of_ops(answer, _OPS)


def of_ops(cls: type, ops: "Sequence[tuple[str, Callable[..., Any], tuple[float, ...]]]") -> Deviation | None:
    """Whether ops give values of this class with the right numbers, parents and rules.

    Args:
        cls: the student's ``Value``.
        ops: of each the text, the function, and the numbers that it is tried with.
    """
    for text, op, at in ops:
        inputs = [attempt(f"{cls.__name__}({one:g})", cls, one) for one in at]
        result = attempt(text, op, *inputs)
        if (found := _of_op(cls, inputs, result)) is not None or (found := _of_rule(text, result, op, at)) is not None:
            return Deviation(found.kind, "{reason}: {found}", reason=text, found=found)
    return None


def _of_op(cls: type, inputs: list[Any], result: Any) -> Deviation | None:
    """Whether the result of an op is a value that knows where it comes from."""
    if not isinstance(result, cls):
        kind = type(result).__name__
        if kind == cls.__name__:
            text = "it gives a value of another class that is called {name}, too: hand in the class that it makes"
            return Deviation("type", text, name=kind)
        what = (
            translate("None: the method has to end with return")
            if result is None
            else translate("a value of type {kind}", kind=kind)
        )
        return Deviation("type", "it gives {what}, where a {name} is expected", what=what, name=cls.__name__)
    if any(result is one for one in inputs):
        return Deviation("type", "it gives its input back: make a new Value, whose parent is the input")
    parents = getattr(result, "parents", ())
    if not isinstance(parents, tuple | list):
        comma = ". A tuple of one value has a comma, (self,): without it, (self) is self" if len(inputs) == 1 else ""
        return Deviation(
            "type", "its parents are {kind}, and no tuple{comma}", kind=kind_of(parents), comma=translate(comma)
        )
    if any(isinstance(one, int | float) for one in parents):
        return Deviation("type", "its parents are numbers: give the Values themselves, self and other")
    if len(parents) != len(inputs) or any(one is not other for one, other in zip(parents, inputs, strict=True)):
        text = "its parents have to be the {count} inputs, in their order"
        if len(inputs) == 1:
            text = "its only parent has to be its input: (self,)"
        return Deviation("shape", text, count=len(inputs))
    rule = getattr(result, "rule", None)
    if rule is None:
        return Deviation("type", "it has no rule")
    text = "its rule is a {kind}: a function of g is expected, such as lambda g: (...)"
    return None if callable(rule) else Deviation("type", text, kind=kind_of(rule))


def _of_rule(text: str, result: Any, op: Callable[..., Any], at: Sequence[float]) -> Deviation | None:
    leaves = [tensor(one, requires_grad=True) for one in at]
    value = op(*leaves)
    if (found := difference(getattr(result, "data", None), value)) is not None:
        return Deviation(found.kind, "the data: {found}", found=found)
    given = attempt(translate("the rule of {op}", op=text), result.rule, _INCOMING)
    right = [float(numbers_of(one)) * _INCOMING for one in grad(value, leaves)]
    if not isinstance(given, tuple | list) or len(given) != len(right):
        text = (
            "its rule has to give 1 gradient, as a tuple of one: with a comma, (g * slope,)"
            if len(right) == 1
            else "its rule has to give {count} gradients, as a tuple"
        )
        return Deviation("shape", text, count=len(right))
    if any(right) and is_near(given, [0.0] * len(right)):
        text = (
            "its rule gives 0 for a positive value: there its slope is 1"
            if text == "a.relu()"
            else "its rule gives 0: does it multiply g, or a grad, which is 0 before the backward?"
        )
        return Deviation("zero", text)
    if any(right) and is_near(given, [one / _INCOMING for one in right]):
        return Deviation("factor", "its rule forgets the incoming gradient g: it gives the local slope alone")
    if len(right) == 2 and right[0] != right[1] and is_near(given, right[::-1]):
        return Deviation("order", "the two gradients of its rule have changed places")
    if text == "a * b" and is_near(given, [_INCOMING, _INCOMING]):
        return Deviation("numbers", "that is the rule of a sum: a product hands on g times the other factor")
    if text == "a.relu()" and not any(right) and is_near(given, [_INCOMING]):
        return Deviation("numbers", "its rule hands g on for a negative value: there its slope is 0")
    if text == "a.tanh()" and is_near(given, [_INCOMING * (1 - at[0] ** 2)]):
        return Deviation("numbers", "its rule squares the input: the slope of tanh is 1 minus the square of its result")
    if (told := proportional(result.rule, _INCOMING, given)) is not None:
        return told
    found = difference(list(given), right)
    return None if found is None else Deviation(found.kind, "what its rule gives: {found}", found=found)


def proportional(rule: Callable[[Any], Any], g: Any, given: Sequence[Any]) -> Deviation | None:
    """Whether a rule multiplies the incoming gradient, as each rule has to; None if it does.

    Args:
        rule: of the student's.
        g: the incoming gradient.
        given: what the rule gives for it.
    """
    double = attempt("its rule", rule, 2 * g)
    if any(is_near(two, one) and not is_near(one, 0 * numbers_of(one)) for one, two in zip(given, double, strict=True)):
        return Deviation("factor", "its rule forgets the incoming gradient g: it gives the local slope alone")
    if all(difference(two, 2 * numbers_of(one)) is None for one, two in zip(given, double, strict=True)):
        return None
    return Deviation("factor", "its rule does not multiply g by a slope: for twice the g it has to give twice as much")


# 3.2: a topological order.


class Node:
    """A value of a graph to be ordered: it has parents, and its number is that of all others."""

    def __init__(self, name: str, *parents: "Node") -> None:
        self.name, self.parents, self.data = name, parents, 1.0

    def __repr__(self) -> str:
        return str(self.name)  # a student may make one, with any name


def _graphs() -> list[tuple[str, list[Node]]]:
    a, b = Node("a"), Node("b")
    c = Node("c", a, b)
    d = Node("d", c)
    chain = [a, b, c, d]
    x = Node("x")
    y = Node("y", x)
    z = Node("z", x, y)
    short = [x, y, z]
    t = Node("t")
    square = Node("square", t, t)
    power = Node("power", t)
    total = Node("total", square, power)
    rng, layers = random.Random(3), [Node("n0"), Node("n1")]
    for number in range(2, 14):
        layers.append(Node(f"n{number}", layers[-1], rng.choice(layers)))
    return [
        ("a chain", chain),
        ("a shortcut around y", short),
        ("t used three times", [t, square, power, total]),
        ("a random graph", layers),
    ]


def _orders(answer: Any) -> Deviation | None:
    needs_function(answer, "topological(root)")
    for text, nodes in _graphs():
        root, needed = nodes[-1], _above(nodes[-1])
        before = {one: one.parents for one in needed}
        given = attempt(translate("topological for {reason}", reason=translate(text)), answer, root)
        if any(one.parents is not parents for one, parents in before.items()):
            changed = "topological for {reason} changes the parents of a value: the backward needs them after it"
            return Deviation("changed", changed, reason=translate(text))
        if given is None:
            return Deviation(
                "type", "a list of values is expected: does the function end with return? reverse gives None"
            )
        if not isinstance(given, list | tuple):
            text = "it gives a {kind}, where a list is expected: append the values to a list, in their order"
            return Deviation("type", text, kind=kind_of(given))
        if (found := _of_order(list(given), needed)) is not None:
            return Deviation(found.kind, "topological for {reason}: {found}", reason=translate(text), found=found)
    return None


def _above(root: Node) -> set[Node]:
    return {root}.union(*map(_above, root.parents))


def _of_order(given: list[Any], needed: set[Node]) -> Deviation | None:
    if strange := [one for one in given if not isinstance(one, Node)]:
        one = strange[0]
        what = (
            "a name"
            if isinstance(one, str)
            else "None"
            if one is None
            else translate("a value of type {kind}", kind=kind_of(one))
        )
        return Deviation(
            "type", "{what} is in the list: give the values themselves, root and its parents", what=translate(what)
        )
    if strangers := [one for one in given if one not in needed]:
        return Deviation(
            "element",
            "{strangers} is in the list, and root does not depend on it: is the list empty "
            "at the beginning of each call?",
            strangers=strangers[0],
        )
    if len(set(map(id, given))) < len(given):
        twice = next(one for at, one in enumerate(given) if one in given[:at])
        return Deviation(
            "element", "{twice} is in the list more than once: remember which values were visited", twice=twice
        )
    if len(given) < len(needed):
        missing = sorted(repr(one) for one in needed - set(given))
        return Deviation(
            "shape", "the answer lacks {names}: each value that the root depends on is needed", names=", ".join(missing)
        )
    place = {one: at for at, one in enumerate(given)}
    wrong = [(one, parent) for one in given for parent in one.parents if place[parent] > place[one]]
    if not wrong:
        return None
    if all(place[parent] > place[one] for one in given for parent in one.parents):
        return Deviation("order", "the list is turned around: the root comes last, and each value after its parents")
    return Deviation(
        "order",
        "{wrong} comes before {parent}, which is its parent: add a value to the list only after all of its parents",
        wrong=wrong[0][0],
        parent=wrong[0][1],
    )


# 3.3: a random check.

_TRIES = 12
"""How often each claim is judged: a function that looks at too few points is right only sometimes."""

_CLAIMS: tuple[tuple[str, str, Callable[[float], float], Callable[[float], float], bool], ...] = (
    ("x * x", "2 * x", lambda x: x * x, lambda x: 2 * x, True),
    ("tanh(x)", "1 - tanh(x) ** 2", math.tanh, lambda x: 1 - math.tanh(x) ** 2, True),
    ("exp(x)", "exp(x)", math.exp, math.exp, True),
    ("1000 * x", "1000", lambda x: 1000 * x, lambda _: 1000.0, True),
    ("x * x", "x", lambda x: x * x, lambda x: x, False),
    ("x ** 3", "-3 * x * x", lambda x: x**3, lambda x: -3 * x * x, False),
    ("tanh(x)", "1 - tanh(x)", math.tanh, lambda x: 1 - math.tanh(x), False),
    ("sin(x)", "1.02 * cos(x)", math.sin, lambda x: 1.02 * math.cos(x), False),
    ("abs(x)", "1", abs, lambda _: 1.0, False),
    ("x * abs(x)", "2 * x", lambda x: x * abs(x), lambda x: 2 * x, False),
    ("max(x, 0)", "0", lambda x: max(x, 0.0), lambda _: 0.0, False),
    ("sin(x)", "cos(x) + 0.02 * x", math.sin, lambda x: math.cos(x) + 0.02 * x, False),
    ("x * x", "2 * x + sin(pi * x)", lambda x: x * x, lambda x: 2 * x + math.sin(math.pi * x), False),
)


def _checker(answer: Any) -> Deviation | None:
    needs_function(answer, "is_right(function, slope)")
    for text, of, function, slope, right in _CLAIMS:
        claim = translate("{function} with {slope}", function=text, slope=of)
        said = translate("is_right for {claim}", claim=claim)
        verdicts = [truth_of(attempt(said, answer, function, slope)) for _ in range(_TRIES)]
        if None in verdicts:
            return Deviation("type", "True or False is expected: does the function end with return?")
        if any(verdict is not right for verdict in verdicts):
            told = _told_otherwise(answer) if right else None
            return told or _misjudged(claim, of, sum(map(bool, verdicts)), right=right)
    return None


def _told_otherwise(answer: Any) -> Deviation | None:
    """Why a right slope is refused, where another one is accepted in its place, or none is."""

    def accepts(slope: Callable[[float], float]) -> bool:
        return bool(truth_of(attempt("is_right", answer, lambda x: x * x, slope)))

    accepted = [what for factor, what in _FACTORS if accepts(lambda x, factor=factor: 2 * x * factor)]  # type: ignore[misc]
    if len(accepted) == len(_FACTORS):
        return Deviation("sign", "it accepts wrong slopes, and refuses right ones: True stands for a right slope")
    if len(accepted) != 1:
        return None
    text = "it accepts {what} the slope of x * x, and refuses the slope: how does it compute the nudged one?"
    return Deviation("factor", text, what=translate(accepted[0]))


_FACTORS = ((2, "twice"), (0.5, "half of"), (-1, "minus"))


def _misjudged(claim: str, of: str, many: int, *, right: bool) -> Deviation:
    """The explanation for a wrong verdict on a claim, which ``many`` of the calls called right."""
    if right:
        return Deviation(
            "rounding",
            "it refuses {claim}, which is right. Is the nudge small, and is a small error allowed, in proportion "
            "to the slope? A nudged slope never agrees with a formula in the last digits",
            claim=claim,
        )
    if "pi" in of:
        text = "it accepts {claim}, which is wrong except at whole numbers: draw numbers between them, too"
        return Deviation("element", text, claim=claim)
    if "0.02" in of:
        text = "it accepts {claim}, which is wrong: do errors of both signs cancel? Judge each point alone"
        return Deviation("element", text, claim=claim)
    if many < _TRIES:
        return Deviation(
            "element",
            "it accepts {claim}, which is wrong, in {many} of {tries} calls: a wrong slope may agree at some x. "
            "Draw 20 random points, and refuse it if one of them disagrees",
            claim=claim,
            many=many,
            tries=_TRIES,
        )
    if claim.startswith(("abs", "max", "x * abs")):
        return Deviation(
            "element",
            "it accepts {claim}, which is wrong for half of all x: draw random points of both signs, and several "
            "of them",
            claim=claim,
        )
    if "1.02" in of:
        return Deviation(
            "rounding", "it accepts {claim}, which is 2 % off: an error by nudging is much smaller", claim=claim
        )
    return Deviation("numbers", "it accepts {claim}, which is wrong", claim=claim)


EXERCISES = (
    Exercise(
        "3.1",
        "The ops of Value",
        "Complete the class Value: a + b, a * b and a.tanh() give a new Value. The new Value has its data, its "
        "parents and its rule. parents is the tuple of the inputs. rule is a function that takes the incoming "
        "gradient g, and gives a tuple with one gradient for each parent. __add__ is there as an example. Give the "
        "class: Value.",
        _values,
        (
            "Look at __add__: what does it give to Value(...) besides the data?",
            "The rules are those of exercise 2.2: a product gives g times the other factor.",
            "tanh has one parent, so parents is (self,). Its rule gives a tuple of one: (g * slope,). Compute the "
            "value first.",
        ),
    ),
    Exercise(
        "3.2",
        "A topological order",
        "Write topological(root): the list of all values that root depends on, each once, each after its parents, and "
        "root as the last one. A value has the attribute parents.",
        _orders,
        (
            "Which value can be put into the list first? One that has no parents.",
            "Write an inner function visit(value): it visits the parents, and only then appends the value.",
            "If two ways lead to a value, your function visits it twice. Keep a set of the values that are done.",
        ),
    ),
    Exercise(
        "3.3",
        "A random check",
        "Write is_right(function, slope): True if slope(x) is the slope of function(x) for numbers x, False if not. "
        "Compare it with nudges at random points.",
        _checker,
        (
            "You wrote the nudge in exercise 1.2.",
            "One point is not enough: a slope may be right for positive x only. random.uniform(-2, 2), 20 times.",
            "Call them equal if the difference is below a thousandth of 1 + abs(slope(x)).",
        ),
    ),
)
