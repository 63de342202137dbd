"""The capstones: digits, a text, five planted faults, and a method of a paper, on the student's own engine."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np

from nbgrad.core.tensor.comparison import Deviation
from nbgrad.core.translation import translate
from nbgrad.lab.engine import PACKAGE
from nbgrad.lab.exercise import Exercise
from nbgrad.lab.planted import COUNT, ORDER, function_with_the_fault
from nbgrad.lab.running import answering

POEM = """\
Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date;
Sometime too hot the eye of heaven shines,
And often is his gold complexion dimm'd;
And every fair from fair sometime declines,
By chance or nature's changing course untrimm'd;
But thy eternal summer shall not fade,
Nor lose possession of that fair thou ow'st;
Nor shall death brag thou wander'st in his shade,
When in eternal lines to time thou grow'st:
So long as men can breathe or eyes can see,
So long lives this, and this gives life to thee.
"""
"""Shakespeare's sonnet 18, which is in the public domain."""

_SHARE, _LOSS, _LENGTH = 0.95, 1.5, 32

_NOT_TRAINED = "the digits are read, but no op of your engine has run: train a network of mygrad"
_NOT_COMPUTED = (
    "the scores are good, but no op of your engine has run: give a GPT of mygrad, or a function that calls it"
)


@contextmanager
def _counting_ops() -> Iterator[Counter[str]]:
    """How many ops of the student's engine run in the block, by their names.

    Its files may have been imported again and again, and each time there is another class.
    """
    classes = [one for one in _classes(object) if _is_engine(one)]
    before = [vars(one).get("__init__") for one in classes]
    ran: Counter[str] = Counter()
    for one in classes:
        one.__init__ = _counted(one.__init__, ran)
    try:
        yield ran
    finally:
        for one, init in zip(classes, before, strict=True):
            if init is None:
                del one.__init__
            else:
                one.__init__ = init


def _classes(base: type) -> Iterator[Any]:
    one: Any
    for one in type.__subclasses__(base):
        yield one
        yield from _classes(one)


def _is_engine(one: type) -> bool:
    """Whether this is the Tensor of a student's engine: of its files, or of cells of a notebook."""
    module = one.__module__
    return one.__name__ == "Tensor" and (module == "__main__" or module.split(".")[-2:] == [PACKAGE, "tensor"])


def _counted(init: Callable[..., None], ran: Counter[str]) -> Callable[..., None]:
    @wraps(init)
    def counted(self: Any, *arguments: Any, **settings: Any) -> None:
        init(self, *arguments, **settings)
        if getattr(self, "parents", True):  # a leaf has none
            ran[str(getattr(self, "op", ""))] += 1

    return counted


# 16.1: digits.


def _reads_digits(answer: Any) -> Deviation | None:
    if not callable(answer):
        return Deviation("type", "a function is expected, learn(images, labels): give it without parentheses")
    try:
        digits = import_module("sklearn.datasets").load_digits()  # optional: pip install "nbgrad[lab]"
    except ImportError:
        return Deviation("type", 'the digits are a part of scikit-learn: pip install "nbgrad[lab]"')
    order = np.random.default_rng(16).permutation(len(digits.data))
    held_out, seen = order[:449], order[449:]
    images, labels = digits.data / 16, digits.target
    with answering("learn(images, labels)"), _counting_ops() as ran:
        read = answer(images[seen], labels[seen])
        if PACKAGE in type(read).__module__.split("."):
            return Deviation(
                "type",
                "learn gives the network itself: give a function that makes a Tensor of the images, and the digits of "
                "its scores",
            )
        if not callable(read):
            return Deviation(
                "type",
                translate("learn has to give a function that reads images, and not a {name}", name=type(read).__name__),
            )
        found = read(images[held_out])
        given = np.asarray(found if isinstance(found, np.ndarray) else getattr(found, "data", found))
    if given.shape != held_out.shape:
        wanted = translate("one digit for each of the {count} images", count=len(held_out))
        return Deviation(
            "shape",
            translate(
                "the function has to give {wanted}: it gives the shape {shape}", wanted=wanted, shape=given.shape
            ),
        )
    share = float((given == labels[held_out]).mean())
    if share >= _SHARE:
        return None if ran else Deviation("type", _NOT_TRAINED)
    return Deviation(
        "numbers",
        translate("{percent:.1f} % of the held out digits are read, and 95 % are asked for", percent=share * 100),
    )


# 16.2: a text.


def codes_of(text: str) -> "np.ndarray[Any, Any]":
    """The characters of a text as numbers: the places in the sorted list of those of the poem."""
    letters = sorted(set(POEM))
    return np.array([letters.index(letter) for letter in text])


def _loss_of(scores: Any, codes: "np.ndarray[Any, Any]") -> float:
    lowered = scores - scores.max(-1, keepdims=True)
    logs = lowered - np.log(np.exp(lowered).sum(-1, keepdims=True))
    return float(-np.take_along_axis(logs, codes[..., None], -1).mean())


def _scores(answer: Callable[..., Any], codes: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any] | Deviation":
    with answering(translate("gpt(codes) with codes of shape {shape}", shape=codes.shape)):
        given = answer(codes)
        found = np.asarray(getattr(given, "data", given), dtype=float)
    wanted = (*codes.shape, len(set(POEM)))
    if found.shape != wanted:
        return Deviation(
            "shape",
            translate("gpt(codes) gives the shape {shape}, and {wanted} is expected", shape=found.shape, wanted=wanted),
        )
    return found if np.isfinite(found).all() else Deviation("not finite", "the scores are not finite")


def _knows_the_poem(answer: Any) -> Deviation | None:
    if not callable(answer):
        return Deviation("type", "a function of codes is expected, such as your network: give it without parentheses")
    codes = codes_of(POEM)
    windows = np.stack([codes[at : at + _LENGTH + 1] for at in range(0, len(codes) - _LENGTH, 7)])
    before, after = windows[:, :-1], windows[:, 1:]
    with _counting_ops() as ran:
        scores = _scores(answer, before)
    if isinstance(scores, Deviation):
        return scores
    changed = before.copy()
    changed[:, _LENGTH // 2 :] = (changed[:, _LENGTH // 2 :] + 1) % len(set(POEM))
    others = _scores(answer, changed)
    if isinstance(others, Deviation):
        return others
    if not np.allclose(scores[:, : _LENGTH // 2], others[:, : _LENGTH // 2]):
        return Deviation("order", "it looks ahead: the scores of the first half change with the letters of the second")
    loss = _loss_of(scores, after)
    if loss <= _LOSS:
        return None if ran else Deviation("type", _NOT_COMPUTED)
    guessing = np.log(len(set(POEM)))
    more = ": it has learned nothing" if loss > guessing - 0.3 else ""
    return Deviation(
        "numbers",
        translate("the loss is {loss:.2f}, and at most {limit} is asked for{more}", loss=loss, limit=_LOSS, more=more),
    )


# 16.3: planted faults.


def _found(answer: Any) -> Deviation | None:
    if isinstance(answer, Mapping):
        answer = {int(one) if str(one).isdecimal() else one: name for one, name in answer.items()}
    if not isinstance(answer, Mapping) or set(answer) != set(range(1, COUNT + 1)):
        return Deviation(
            "type",
            translate("a dict is expected, with the name of a function for each engine from 1 to {total}", total=COUNT),
        )
    said = {number: getattr(name, "__name__", str(name)) for number, name in answer.items()}
    names = {number: name.strip().rpartition(".")[2].removesuffix("()") for number, name in said.items()}
    known = {function_with_the_fault(number) for number in names}
    for number, name in sorted(names.items()):
        if name == function_with_the_fault(number):
            continue
        right = sum(name == function_with_the_fault(each) for each, name in names.items())
        if name not in known:
            return Deviation(
                "element",
                translate(
                    "engine {number}: the fault is not in {name!r} ({right} of {total} are right)",
                    number=number,
                    name=name,
                    right=right,
                    total=COUNT,
                ),
            )
        return Deviation(
            "order",
            translate(
                "engine {number}: the fault is not in {name!r}, but that of another engine is "
                "({right} of {total} are right)",
                number=number,
                name=name,
                right=right,
                total=COUNT,
            ),
        )
    return None


# 16.4: a method of a paper.

_SHAPES = ((), (5,), (2, 3), (2, 1, 4))


def _method(answer: Any) -> Deviation | None:
    if not isinstance(answer, Mapping) or {"op", "formula"} - set(answer):
        return Deviation("type", "a dict with the names op and formula is expected")
    op, formula = answer["op"], answer["formula"]
    if not (callable(op) and callable(formula)):
        return Deviation("type", "op and formula have to be functions: give them without parentheses")
    if (known := _known(formula)) is not None:
        return known
    rng = np.random.default_rng(0)
    for shape in _SHAPES:
        numbers = rng.standard_normal(shape) * 2
        with answering(translate("op or formula with shape {shape}", shape=shape)):
            found = _of_one(op, formula, numbers)
        if found is not None:
            return found
    return None


_HAS: Mapping[str, Callable[[Any], Any]] = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "exp": np.exp}
"""The functions of one number that the engine has already."""


def _known(formula: Callable[..., Any]) -> Deviation | None:
    """Whether the engine has this activation already."""
    numbers = np.linspace(-8, 8, 17)
    with answering(translate("op or formula with shape {shape}", shape=numbers.shape)):
        found = np.asarray(formula(numbers), dtype=float)
    if found.shape != numbers.shape:
        return None
    name = next((name for name, op in _HAS.items() if np.allclose(found, op(numbers))), "")
    return Deviation("type", translate("your engine has {name} already: take another one", name=name)) if name else None


def _of_one(op: Callable[..., Any], formula: Callable[..., Any], numbers: Any) -> Deviation | None:
    module: Any = sys.modules.get(f"{PACKAGE}.tensor") or import_module(f"nbgrad.lab.{PACKAGE}.tensor")
    tensor = module.Tensor
    x, shape = tensor(numbers.copy()), np.shape(numbers)
    y, wanted = op(x), np.asarray(formula(numbers))
    if not isinstance(y, tensor):
        return Deviation(
            "type", translate("op gives a {name}, where a Tensor of mygrad is expected", name=type(y).__name__)
        )
    if y.data.shape != shape or wanted.shape != shape:
        return Deviation(
            "shape",
            translate(
                "with shape {shape}, op gives {of_op} and formula {of_formula}",
                shape=shape,
                of_op=y.data.shape,
                of_formula=wanted.shape,
            ),
        )
    if not np.allclose(y.data, wanted):
        return Deviation("numbers", translate("with shape {shape}, op and formula give different numbers", shape=shape))
    if tuple(y.parents) != (x,):
        return Deviation("type", "write it as one op with one rule: its only parent has to be its input")
    given = y.rule(np.ones(shape))
    if not isinstance(given, tuple | list) or len(given) != 1:
        return Deviation("type", "the rule of op has to give a tuple of one gradient, as (g * slope,)")
    g = np.cos(np.arange(numbers.size)).reshape(shape) + 2
    (y * g).sum().backward()
    slopes = (np.asarray(formula(numbers + 1e-5)) - np.asarray(formula(numbers - 1e-5))) / 2e-5
    if np.allclose(slopes, np.ravel(slopes)[0]) and np.size(slopes) > 1:
        return Deviation("zero", "the slope is the same everywhere: this is no activation")
    if x.grad is not None and slopes.any() and np.allclose(x.grad, slopes, atol=1e-6):
        return Deviation("factor", "the rule of op gives the slope alone: the incoming gradient g is missing")
    if x.grad is None or not np.allclose(x.grad, g * slopes, atol=1e-6):
        return Deviation(
            "factor",
            translate("with shape {shape}, the gradient of op is not the slope of formula, by nudging", shape=shape),
        )
    return None


EXERCISES = (
    Exercise(
        "16.1",
        "Digits, 95 % of them",
        "Write learn(images, labels): it trains a network of your own engine, and gives a function that reads "
        "images. images is an array of shape (N, 64), labels one of shape (N,). The function takes an array of shape "
        "(M, 64) and gives M digits. The check trains it on 1,348 digits, in at most 20 seconds, and holds 449 out. "
        "Give the function: learn.",
        _reads_digits,
        (
            "You have all of it in lesson 9: the network, Adam, and the loop.",
            "A network gives ten scores for each image. The digit is the place of the largest one: .data.argmax(1).",
            "If it reads about 90 %, train for more rounds, or with a smaller rate in the end.",
        ),
    ),
    Exercise(
        "16.2",
        "A poem",
        "Train a GPT of your own engine on POEM. Give a function gpt(codes): for codes of shape (N, 32) it gives the "
        "scores of the next character at each place, of shape (N, 32, number of characters), as a Tensor or an array. "
        f"Its loss on the poem has to be at most {_LOSS}.",
        _knows_the_poem,
        (
            "The network itself is such a function. Its length is 32, and its codes are those of codes_of.",
            "Draw 16 windows of 33 characters in each step: the first 32 are the input, the last 32 the targets.",
            "Two layers of width 48 with four heads and Adam with lr=0.003 need about 200 steps.",
        ),
    ),
    Exercise(
        "16.3",
        "Five planted faults",
        "planted(1) to planted(5) are engines with one fault each. Find the function in which it is: tanh, relu, "
        "matmul, softmax, unbroadcast, backward, or an operator such as __mul__. Give a dict from the numbers 1 to 5 "
        "to the names, as text.",
        _found,
        (
            "Draw the graph of program(planted(1)), and look for the first gradient that cannot be right.",
            "nbgrad.draw(loss, against=True) marks the first box that differs from nbgrad's own rules.",
            "A fault that many ops show is in a function that the engine calls for all of them.",
        ),
        ORDER,
    ),
    Exercise(
        "16.4",
        "A method of a paper",
        "Choose an activation of a paper that your engine does not have, such as SiLU, Mish or softplus. Give a dict: "
        "op is the function of a Tensor, as one op with its rule; formula is the same function of an array of numpy.",
        _method,
        (
            "Write the formula first, and its derivative on paper.",
            "op computes with x.data, and gives Tensor(value, (x,), rule, name): look at tanh in mygrad/ops.py.",
            "SiLU is x * s, where s is the sigmoid of x. Its slope is s + x * s * (1 - s).",
        ),
    ),
)
