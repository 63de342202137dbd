"""Answers to the exercises of lesson 13, right ones in several forms and the usual wrong ones."""

from typing import Any

import torch

DIAGNOSES = dict(
    zip(
        "abcdefghijkl",
        (
            "accumulated gradients",
            "no optimizer",
            "saturated",
            "loss input",
            "unreached",
            "vanishing",
            "divergence",
            "nan",
            "broadcast",
            "unregistered",
            "eval mode",
            "no step",
        ),
        strict=True,
    )
)


def silent(net: Any, *, zeros: bool = True, frozen: bool = False) -> list[str]:
    return [
        name
        for name, one in net.named_parameters()
        if (one.requires_grad or frozen) and (one.grad is None or (zeros and not one.grad.any()))
    ]


def learning(net: Any) -> list[str]:
    return [name for name, _ in net.named_parameters() if name not in silent(net)]


def first_bad(net: Any, x: Any, *, test: Any = torch.isfinite, shift: int = 0) -> int | None:
    for number, layer in enumerate(net, shift):
        x = layer(x)
        if not test(x).all():
            return number
    return None


def not_fed(net: Any, x: Any) -> int | None:
    """Gives every layer the input of the first layer."""
    return next((number for number, layer in enumerate(net) if not torch.isfinite(layer(x)).all()), None)


def some_zero(parameter: Any) -> bool:
    return parameter.grad is None or bool((parameter.grad == 0).any())


def zero_sum(parameter: Any) -> bool:
    return parameter.grad is None or not parameter.grad.sum()


def last_bad(net: Any, x: Any) -> int | None:
    found = None
    for number, layer in enumerate(net):
        x = layer(x)
        if not torch.isfinite(x).all():
            found = number
    return found


RIGHT: dict[str, list[Any]] = {
    "13.1": [
        DIAGNOSES,
        DIAGNOSES | {"g": "NaN"},
        DIAGNOSES | {"b": "no_optimizer", "d": "loss-input."},
        {name: f" {one} " for name, one in DIAGNOSES.items()},
    ],
    "13.2": [silent, lambda net: set(silent(net)), lambda net: tuple(silent(net))],
    "13.3": [first_bad, lambda net, x: first_bad(net, x, test=lambda one: one.abs() < float("inf"))],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "13.1": [
        (DIAGNOSES | {"a": "no step", "l": "accumulated gradients"}, "order", "the diagnoses of a and l"),
        (DIAGNOSES | {"h": "vanishing"}, "element", "1 of 12 is wrong: look again at h"),
        (DIAGNOSES | {"h": "vanishing", "b": "nan"}, "numbers", "2 of 12 are wrong: look again at b, h"),
        (dict.fromkeys(DIAGNOSES, "nan"), "numbers", "every patient got the same diagnosis"),
        (DIAGNOSES | {"a": "tired"}, "type", "'tired' is no diagnosis"),
        (DIAGNOSES | {"b": "no optimiser"}, "type", "did you mean no optimizer?"),
        (
            DIAGNOSES | {"j": "no optimizer"},
            "element",
            "About j: some parameters are in no optimizer, and that has a reason",
        ),
        (DIAGNOSES | {"f": "saturated"}, "element", "About f: no gradient is 0. Compare it from layer to layer"),
        (DIAGNOSES | {"e": "no step"}, "element", "About e: some parameters do move"),
        (DIAGNOSES | {"c": "unreached"}, "element", "About c: the first layer has a gradient of 0"),
        ({"a": "nan"}, "shape", "a diagnosis of b, c"),
        ("nan", "type", "a dict is expected"),
    ],
    "13.2": [
        (lambda net: silent(net, zeros=False), "zero", "with a dead layer: a gradient that is 0 everywhere"),
        (lambda net: silent(net, frozen=True), "element", "a parameter that is frozen"),
        (learning, "order", "these are the parameters that did get a gradient"),
        (
            lambda net: [name for name in silent(net, frozen=True) if name.startswith("1")],
            "element",
            "of 2 names 2 are missing",
        ),
        (
            lambda net: [name for name, one in net.named_parameters() if one.requires_grad and some_zero(one)],
            "element",
            "one of two units is dead: some of these learn",
        ),
        (
            lambda net: [name for name, one in net.named_parameters() if one.requires_grad and zero_sum(one)],
            "element",
            "one of two units is dead: some of these learn",
        ),
        (lambda net: list(net.parameters()), "type", "a value of type Parameter is no name of a parameter"),
        (lambda net: "1.weight", "type", "a list of names is expected: it gives str"),
        (lambda net: print(end=""), "type", "a list of names is expected: does the function end with return?"),
        (
            lambda net: [name for name, one in net.named_parameters() if not one.grad.any()],
            "raised",
            "check for None first",
        ),
    ],
    "13.3": [
        (lambda net, x: first_bad(net, x, shift=1), "shifted", "one layer too far"),
        (last_bad, "order", "that is the last bad layer"),
        (lambda net, x: first_bad(net, x, test=lambda one: ~one.isnan()), "not finite", "Inf counts"),
        (
            lambda net, x: first_bad(net, x, test=lambda one: one.isfinite().any()),
            "element",
            "one number that is NaN is enough",
        ),
        (not_fed, "not finite", "does each layer get the result of the one before it"),
        (lambda net, x: print(end=""), "not finite", "the function gives None: no layer is bad. Does it return"),
        (lambda net, x: True, "type", "the number of a layer is expected, and not a bool"),
        (lambda net, x: net[1], "type", "the number of a layer is expected"),
        (lambda net, x: first_bad(net, x) or 0, "type", "None is expected"),
        (lambda net: 0, "raised", "raised TypeError"),
    ],
}
