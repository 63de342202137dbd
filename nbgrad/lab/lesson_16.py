"""The capstones: digits, a text, five planted faults, and a method of a paper, on the student's own engine."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np

from nbgrad.core.tensor.comparison import Deviation
from nbgrad.core.translation import translate
from nbgrad.lab.engine import PACKAGE, PARTS
from nbgrad.lab.engine_trials import kind_text
from nbgrad.lab.exercise import Exercise
from nbgrad.lab.method import judge_method
from nbgrad.lab.planted import COUNT, ORDER, function_with_the_fault
from nbgrad.lab.running import Refused, answering

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

_NETWORK = (
    "learn gives the network itself: give a function that makes a Tensor of the images, and the digits of its scores"
)
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
    with _counting_ops() as ran:
        with answering("learn(images, labels)"):
            read = answer(images[seen].copy(), labels[seen].copy())
        if not callable(read):
            text = translate("learn has to give a function that reads images, and not {kind}", kind=kind_text(read))
            return Deviation("type", text)
        try:
            with answering("the function that learn gives"):
                given = _array(read(images[held_out].copy()))
        except Refused:
            if _is_of_engine(read):
                return Deviation("type", _NETWORK)
            raise
    return _of_digits(given, labels[held_out], read) or (None if ran else Deviation("type", _NOT_TRAINED))


def _array(found: Any) -> "np.ndarray[Any, Any]":
    given = np.asarray(found if isinstance(found, np.ndarray) else getattr(found, "data", found))
    return np.asarray(given.tolist()) if given.dtype == object else given


def _is_of_engine(read: Any) -> bool:
    return PACKAGE in type(read).__module__.split(".")


def _of_digits(given: "np.ndarray[Any, Any]", labels: "np.ndarray[Any, Any]", read: Any) -> Deviation | None:
    """How what a network reads differs from the digits; None where it reads enough of them."""
    if given.shape != labels.shape:
        wanted = translate("one digit for each of the {count} images", count=len(labels))
        return (
            Deviation("type", _NETWORK)
            if _is_of_engine(read)
            else Deviation(
                "shape",
                "the function has to give {wanted}: it gives the shape {shape}",
                wanted=wanted,
                shape=given.shape,
            )
        )
    strange = given != given.round() if given.dtype.kind == "f" else np.full(given.shape, given.dtype.kind not in "iu")
    if strange.any():
        text = "the function has to give whole numbers from 0 to 9: one that it gives is {one!r}"
        return Deviation("dtype", text, one=given[strange][0].item())
    share = float((given == labels).mean())
    if share >= _SHARE:
        return None
    for off, what in ((1, "too large by 1"), (-1, "too small by 1")):
        if (given == labels + off).mean() > _SHARE - 0.1:
            return Deviation("offset", "the digits are {what}: they begin at 0", what=translate(what))
    text = "{percent:.1f} % of the held out digits are read, and 95 % are asked for{more}"
    more = ": guessing reads 10 %" if share < 0.2 else ""
    return Deviation("numbers", text, percent=share * 100, more=translate(more))


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
        given = answer(codes.copy())
    if given is None:
        text = "{said} gives None: the function has to end with return"
        return Deviation("type", text, said="gpt(codes)")
    if isinstance(given, tuple):
        return Deviation("type", "gpt(codes) gives a tuple, where the scores alone are expected")
    with answering(translate("the scores of gpt(codes)")):
        found = np.asarray(getattr(given, "data", given), dtype=float)
    wanted = (*codes.shape, len(set(POEM)))
    if found.shape != wanted:
        return Deviation(
            "shape", "gpt(codes) gives the shape {shape}, and {wanted} is expected", shape=found.shape, wanted=wanted
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
    return _of_scores(scores, before, after) or Deviation("numbers", _far(loss))


def _far(loss: float) -> str:
    """How far a loss is from the one that is asked for, and from that of guessing."""
    guessing = float(np.log(len(set(POEM))))
    text = "" if loss < guessing - 0.3 else ": guessing has {guessing:.2f}"
    more = translate(text, guessing=guessing)
    return translate(
        "the loss is {loss:.2f}, and at most {limit} is asked for{more}", loss=loss, limit=_LOSS, more=more
    )


def _of_scores(scores: Any, before: "np.ndarray[Any, Any]", after: "np.ndarray[Any, Any]") -> Deviation | None:
    """Why the loss of scores is high, where other scores that are made of them have a low one."""
    if (scores >= 0).all() and np.allclose(scores.sum(-1), 1):
        if set(np.unique(scores)) <= {0.0, 1.0}:
            return Deviation("type", "it gives 1 for one character, and 0 for all others: the scores are expected")
        return Deviation("numbers", "these are probabilities: scores are expected, as they are before softmax")
    for factor in (-1, 10, 100, 0.1, 0.01):
        if _loss_of(scores * factor, after) <= _LOSS:
            text = "times {factor:g} these scores would be right"
            return Deviation("sign" if factor < 0 else "factor", text, factor=factor)
    if _loss_of(scores, before) <= _LOSS:
        return Deviation("order", "it gives the character that stands at each place, and not the next one")
    if _loss_of(scores[:, :-1], after[:, 1:]) <= _LOSS:
        return Deviation("order", "it gives the character after the next one: the targets begin one place too late")
    return None


# 16.3: planted faults.


def _found(answer: Any) -> Deviation | None:
    if isinstance(answer, Mapping):
        answer = {
            int(float(one)) if str(one).removesuffix(".0").isdecimal() else one: name for one, name in answer.items()
        }
    if not isinstance(answer, Mapping) or set(answer) != set(range(1, COUNT + 1)):
        return Deviation(
            "type", "a dict is expected, with the name of a function for each engine from 1 to {total}", total=COUNT
        )
    for number, name in answer.items():
        if not isinstance(name, str) and not hasattr(name, "__name__"):
            text = "engine {number}: the name of a function is expected, as text, and not {kind}"
            return Deviation("type", text, number=number, kind="None" if name is None else kind_text(name))
    names = {number: _plain(str(getattr(name, "__name__", name))) for number, name in answer.items()}
    known = {function_with_the_fault(number) for number in names}
    for number, name in sorted(names.items()):
        if name == function_with_the_fault(number):
            continue
        right = sum(name == function_with_the_fault(each) for each, name in names.items())
        if name not in known and name not in _functions():
            text = "engine {number}: no function of these engines is called {name!r}"
            return Deviation("element", text, number=number, name=name)
        if name not in known:
            return Deviation(
                "element",
                "engine {number}: the fault is not in {name!r} ({right} of {total} are right)",
                number=number,
                name=name,
                right=right,
                total=COUNT,
            )
        return Deviation(
            "order",
            "engine {number}: the fault is not in {name!r}, but that of another engine is "
            "({right} of {total} are right)",
            number=number,
            name=name,
            right=right,
            total=COUNT,
        )
    return None


def _plain(name: str) -> str:
    """The name of a function alone: of "planted(1).tanh" or "def tanh(x)", too. ``x @ w`` is matmul."""
    word = re.sub(r"\(.*?\)$", "", name.strip().strip("`'\"").removeprefix("def ").rstrip(":"))
    word = word.rpartition(".")[2].strip()
    found = next((one for one in _functions() if one.casefold() == word.casefold()), word)
    return "matmul" if found in ("__matmul__", "@") else found


def _functions() -> set[str]:
    """The names in the parts of an engine that is planted."""
    parts: list[Any] = [import_module(f"nbgrad.lab.{PACKAGE}.{name}") for name in list(PARTS.values())[:4]]
    return {name for one in (*parts, parts[1].Tensor) for name in vars(one)}


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
        judge_method,
        (
            "Write the formula first, and its derivative on paper.",
            "op computes with x.data, and gives Tensor(value, (x,), rule, name): look at tanh in mygrad/ops.py.",
            "SiLU is x * s, where s is the sigmoid of x. Its slope is s + x * s * (1 - s).",
        ),
    ),
)
