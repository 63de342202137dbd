"""Answers to the capstones: right ones, and the usual wrong ones."""

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from nbgrad.lab.lesson_16 import POEM, codes_of
from nbgrad.lab.planted import COUNT, function_with_the_fault
from tests.course.answers_engine import REFERENCE

LETTERS = len(set(POEM))
CODES = codes_of(POEM)


def learn(images: Any, labels: Any, rounds: int = 15) -> Any:
    """The model solution, with the reference parts."""
    modules, losses, optim, tensor = (
        import_module(f"{REFERENCE}.{part}") for part in ("modules", "losses", "optim", "tensor")
    )
    rng = np.random.default_rng(0)
    network = modules.Sequential(modules.Linear(64, 48, rng), modules.ReLU(), modules.Linear(48, 10, rng))
    optimizer = optim.Adam(network.parameters(), lr=0.005)
    for _ in range(rounds):
        for batch in np.array_split(rng.permutation(len(images)), len(images) // 32):
            loss = losses.cross_entropy(network(tensor.Tensor(images[batch])), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return lambda images: network(tensor.Tensor(images)).data.argmax(1)


def nearest(images: Any, labels: Any) -> Any:
    """Another method: the digit of the nearest image."""
    return lambda new: labels[((new[:, None] - images[None]) ** 2).sum(-1).argmin(1)]


def by_heart(codes: Any, *, history: int = 4, shift: int = 0) -> Any:
    """Counts of the characters that follow the last few ones in the poem."""
    scores = np.zeros((*codes.shape, LETTERS))
    for row, text in enumerate(codes):
        for place in range(len(text)):
            end = min(place + shift + 1, len(text))
            scores[row, place] = FOLLOWING.get(tuple(text[max(0, end - history) : end]), 0)
    return np.log(scores + 0.01)


def of_table(codes: Any) -> Any:
    """The same on the engine: the counts are the weights of an embedding, which looks up the last few characters."""
    sequence, tensor = (import_module(f"{REFERENCE}.{part}") for part in ("sequence", "tensor"))
    found = by_heart(codes)
    return sequence.take(tensor.Tensor(found.reshape(-1, LETTERS)), np.arange(codes.size).reshape(codes.shape))


def following() -> dict[tuple[int, ...], Any]:
    counts: dict[tuple[int, ...], Any] = {}
    for length in range(1, 5):
        for at in range(length, len(CODES)):
            counts.setdefault(tuple(CODES[at - length : at]), np.zeros(LETTERS))[CODES[at]] += 1
    return counts


FOLLOWING = following()
FOUND = {number: function_with_the_fault(number) for number in range(1, COUNT + 1)}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def silu(x: Any, factor: float = 1.0) -> Any:
    s = sigmoid(x.data)
    slope = factor * (s + x.data * s * (1 - s))
    return type(x)(x.data * s, (x,), lambda g: (g * slope,), "silu")


def of_parts(x: Any) -> Any:
    return x * 0.5 + x * x


def elu(x: Any, below: float = 1.0) -> Any:
    small = np.exp(np.minimum(x.data, 0))
    slope = np.where(x.data > 0, 1, below * small)
    return type(x)(np.where(x.data > 0, x.data, small - 1), (x,), lambda g: (g * slope,), "elu")


def scaled(x: Any) -> Any:
    """SiLU that changes its input."""
    y = silu(x)
    x.data *= 2
    return y


def in_place(g: Any, x: Any, s: Any) -> Any:
    """A rule of SiLU that changes the incoming gradient."""
    g *= s + x * s * (1 - s)
    return (g.copy(),)


def probabilities(scores: Any) -> Any:
    e = np.exp(scores)
    return e / e.sum(-1, keepdims=True)


def mish(x: Any) -> Any:
    t, s = np.tanh(np.log1p(np.exp(x.data))), sigmoid(x.data)
    return type(x)(x.data * t, (x,), lambda g: (g * (t + x.data * (1 - t * t) * s),), "mish")


def with_rule(rule: Any) -> dict[str, Any]:
    """SiLU with a rule of its own, which gets the gradient, the input and its sigmoid."""

    def op(x: Any) -> Any:
        s = sigmoid(x.data)
        return type(x)(x.data * s, (x,), rule and (lambda g: rule(g, x.data, s)), "silu")

    return {"op": op, "formula": SILU["formula"]}


def by_name(name: str) -> Any:
    """A function of this name."""

    def function(x: Any) -> Any:
        return x

    function.__name__ = name
    return function


def network(seed: int) -> Any:
    return import_module(f"{REFERENCE}.modules").Linear(64, 10, np.random.default_rng(seed))


def with_op(name: str, formula: Any) -> dict[str, Any]:
    return {"op": getattr(import_module(f"{REFERENCE}.ops"), name), "formula": formula}


def flat(x: Any) -> Any:
    return type(x)(0 * x.data + 1, (x,), lambda g: (0 * g,), "flat")


def all_at_once(images: Any, labels: Any) -> Any:
    """Every step takes all images; the digits come as a list."""
    modules, losses, optim, tensor = (
        import_module(f"{REFERENCE}.{part}") for part in ("modules", "losses", "optim", "tensor")
    )
    rng = np.random.default_rng(0)
    network = modules.Sequential(modules.Linear(64, 32, rng), modules.ReLU(), modules.Linear(32, 10, rng))
    optimizer = optim.Adam(network.parameters(), lr=0.01)
    for _ in range(200):
        loss = losses.cross_entropy(network(tensor.Tensor(images)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return lambda images: [int(one.argmax()) for one in network(tensor.Tensor(images)).data]


def windows(rng: Any) -> Any:
    """Sixteen pieces of the poem, each with the character after it."""
    return np.stack([CODES[at : at + 33] for at in rng.integers(0, len(CODES) - 33, 16)])


@cache
def trained() -> Any:
    """A small GPT of the reference engine that has learned the poem."""
    attention, losses, optim = (import_module(f"{REFERENCE}.{part}") for part in ("attention", "losses", "optim"))
    rng = np.random.default_rng(0)
    network = attention.GPT(LETTERS, 32, 32, rng)
    optimizer = optim.Adam(network.parameters(), lr=0.01)
    for _ in range(150):
        some = windows(rng)
        loss = losses.cross_entropy(network(some[:, :-1]), some[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return network


SILU = {"op": silu, "formula": lambda x: x * sigmoid(x)}
SOFTPLUS = {
    "op": lambda x: type(x)(np.log1p(np.exp(x.data)), (x,), lambda g: (g * sigmoid(x.data),), "softplus"),
    "formula": lambda x: np.log1p(np.exp(x)),
}

ELU = {"op": elu, "formula": lambda x: np.where(x > 0, x, np.exp(x) - 1)}
LARGE = {
    "op": lambda x: type(x)(np.clip(x.data, -6, 6), (x,), lambda g: (g * (abs(x.data) < 6),), "hardtanh"),
    "formula": lambda x: np.clip(x, -6, 6),
}
"""Its slope is 1 for all numbers of usual size."""
RNG = np.random.default_rng(0)

RIGHT: dict[str, list[Any]] = {
    "16.1": [learn, all_at_once],
    "16.2": [of_table],
    "16.3": [FOUND, {number: by_name(name) for number, name in FOUND.items()},
             {number: f"{name}()" for number, name in FOUND.items()},
             {str(number): f"planted({number}).{name}" for number, name in FOUND.items()}],
    "16.4": [SILU, SOFTPLUS, ELU, SILU | {"formula": lambda x: np.float32(x * sigmoid(x))}, LARGE,
             {"op": mish, "formula": lambda x: x * np.tanh(np.log1p(np.exp(x)))}],
}  # fmt: skip

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "16.1": [
        (nearest, "type", "no op of your engine has run: train a network of mygrad"),
        (lambda images, labels: network(0), "type", "learn gives the network itself"),
        (lambda images, labels: learn(images, labels, 0), "numbers", "of the held out digits are read, and 95"),
        (lambda images, labels: learn(images[:100], labels[:100]), "numbers", "of the held out digits are read"),
        (
            lambda images, labels: labels,
            "type",
            "learn has to give a function that reads images, and not a value of type ndarray",
        ),
        (lambda images, labels: lambda new: new @ np.ones((64, 10)), "shape", "it gives the shape (449, 10)"),
        (lambda images, labels: lambda new: new @ np.ones(64) > 0, "dtype", "one that it gives is True"),
        (
            lambda images, labels: lambda new: nearest(images, labels)(new) + 1,
            "offset",
            "the digits are too large by 1",
        ),
        (lambda images, labels: lambda new: new @ np.ones(64) / 7, "dtype", "has to give whole numbers from 0 to 9"),
        (lambda images, labels: lambda: labels, "raised", "the function that learn gives raised TypeError"),
        (lambda images: images, "raised", "learn(images, labels) raised TypeError"),
        (7, "type", "a function is expected, learn(images, labels)"),
    ],
    "16.2": [
        (by_heart, "type", "no op of your engine has run: give a GPT of mygrad"),
        (
            lambda codes: np.zeros((*codes.shape, LETTERS)),
            "numbers",
            "is asked for: guessing has 3.69",
        ),
        (lambda codes: by_heart(codes, history=1), "numbers", "and at most 1.5 is asked for"),
        (lambda codes: by_heart(codes, shift=1), "order", "it looks ahead"),
        (lambda codes: by_heart(codes)[:, -1], "shape", f"and (85, 32, {LETTERS}) is expected"),
        (lambda codes: by_heart(codes) * np.nan, "not finite", "the scores are not finite"),
        (lambda codes: -by_heart(codes), "sign", "times -1 these scores would be right"),
        (lambda codes: by_heart(codes) / 20, "factor", "times 100 these scores would be right"),
        (lambda codes: probabilities(by_heart(codes)), "numbers", "these are probabilities: scores are expected"),
        (lambda codes: 20 * np.eye(LETTERS)[codes], "order", "the character that stands at each place"),
        (
            lambda codes: np.eye(LETTERS)[by_heart(codes).argmax(-1)],
            "type",
            "1 for one character, and 0 for all others",
        ),
        (lambda codes: (by_heart(codes), 0.5), "type", "gives a tuple, where the scores alone are expected"),
        (lambda codes: print(end=""), "type", "gpt(codes) gives None: the function has to end with return"),
        (lambda codes: codes.missing, "raised", "raised AttributeError"),
        ("Shall I", "type", "a function of codes is expected"),
    ],
    "16.3": [
        (FOUND | {1: "relu"}, "element", "engine 1: the fault is not in 'relu' (4 of 5 are right)"),
        (FOUND | {2: FOUND[3]}, "order", "engine 2: the fault is not in 'unbroadcast', but that of another engine is"),
        (FOUND | {1: "matmul"}, "order", "engine 1: the fault is not in 'matmul', but that of another engine is"),
        (FOUND | {6: "tanh"}, "type", "a dict is expected"),
        ({1: "tanh"}, "type", "a dict is expected"),
        (list(FOUND.values()), "type", "a dict is expected"),
        (dict.fromkeys(FOUND), "type", "engine 1: the name of a function is expected, as text, and not None"),
        (FOUND | {2: "backwards"}, "element", "engine 2: no function of these engines is called 'backwards'"),
    ],
    "16.4": [
        (with_op("relu", lambda x: np.maximum(x, 0)), "type", "your engine has relu already"),
        (with_op("tanh", np.tanh), "type", "your engine has tanh already"),
        (SILU | {"formula": lambda x: 0 * x + 1, "op": flat}, "zero", "the slope is the same everywhere"),
        (
            SILU | {"op": lambda x: silu(x, 2.0)},
            "factor",
            "the gradient of op is not the slope of formula",
        ),
        (with_rule(lambda g, x, s: (s + x * s * (1 - s),)), "factor", "its rule forgets the incoming gradient g"),
        (with_rule(lambda g, x, s: g * (s + x * s * (1 - s))), "type", "its rule gives an array, where a tuple of 1"),
        (with_rule(lambda g, x, s: (g * s,)), "numbers", "the gradient of op is not the slope of formula"),
        (with_rule(lambda g, x, s: (g,)), "numbers", "its rule passes g on as it is"),
        (with_rule(lambda g, x, s: (g.sum(),)), "shape", "the rule of op gives a gradient of shape ()"),
        (with_rule(in_place), "changed", "its rule changes g, which is the gradient of its result"),
        (with_rule(None), "type", "it has no rule"),
        (with_rule(lambda g, x, s: (-g * (s + x * s * (1 - s)),)), "sign", "the sign of every element is wrong"),
        (ELU | {"op": lambda x: elu(x, below=0.0)}, "element", "it is right for positive x, and wrong for negative x"),
        (
            SILU | {"op": lambda x: silu(type(x)(x.data + RNG.random()))},
            "numbers",
            "op gives other numbers in each call",
        ),
        (SILU | {"op": scaled}, "changed", "changes the numbers of its input"),
        ({"op": silu, "formula": lambda x: x.data * 2}, "raised", "compute with the array itself"),
        (SILU | {"formula": np.sqrt}, "not finite", "formula gives NaN or infinity"),
        ((silu, SILU["formula"]), "type", "a dict with the names op and formula is expected"),
        (SILU | {"formula": sigmoid}, "numbers", "op and formula give different numbers"),
        ({"op": of_parts, "formula": lambda x: x * 0.5 + x * x}, "type", "write it as one op with one rule"),
        (SILU | {"op": lambda x: x.data}, "type", "where a Tensor of mygrad is expected"),
        (SILU | {"op": 3}, "type", "op and formula have to be functions"),
        ({"op": silu}, "type", "a dict with the names op and formula is expected"),
        (SILU | {"formula": lambda x: x.nothing}, "raised", "raised AttributeError"),
        (
            SILU | {"formula": lambda x: np.sum(x * sigmoid(x))},
            "shape",
            "op gives (11,) and formula ()",
        ),
    ],
}
