"""The exercises of lesson 13: a clinic for networks."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch

from nbgrad.core.suggestions import kind_of, nearest
from nbgrad.core.tensor.comparison import Deviation
from nbgrad.core.tensor.tensor import tensor
from nbgrad.core.translation import translate
from nbgrad.lab import clinic
from nbgrad.lab.exercise import Exercise
from nbgrad.lab.judges import needs_function, number_of, truth_of
from nbgrad.lab.running import attempt
from nbgrad.nn.containers import Sequential
from nbgrad.nn.linear import Linear
from nbgrad.nn.normalization import LayerNorm

KINDS = {
    "accumulated gradients", "broadcast", "divergence", "eval mode", "loss input", "nan", "no optimizer", "no step",
    "saturated", "unreached", "unregistered", "vanishing",
}  # fmt: skip
"""The diagnoses that there are, in the words of the findings."""


# 13.1: diagnose.


def _diagnosed(answer: Any) -> Deviation | None:
    if not isinstance(answer, Mapping):
        return Deviation("type", "a dict is expected: a diagnosis for each letter, as {'a': 'nan', 'b': ...}")
    answer = {str(letter).strip().lower(): diagnosis for letter, diagnosis in answer.items()}
    letters = clinic.names()
    if lacking := [letter for letter in letters if letter not in answer]:
        return Deviation("shape", "the answer lacks a diagnosis of {names}", names=", ".join(lacking))
    said = {letter: " ".join(re.sub(r"[_.-]", " ", str(answer[letter])).lower().split()) for letter in letters}
    if unknown := sorted(set(said.values()) - KINDS):
        meant = nearest(unknown[0], KINDS)
        return Deviation(
            "type",
            "{unknown!r} is no diagnosis: there are {names}{meant}",
            unknown=unknown[0][:40],
            names=", ".join(sorted(KINDS)),
            meant=meant,
        )
    has = {letter: clinic.admit(letter).findings & KINDS for letter in letters}
    wrong = [letter for letter in letters if said[letter] not in has[letter]]
    if not wrong:
        return None
    for one in wrong:
        for other in wrong:
            if one < other and said[one] in has[other] and said[other] in has[one]:
                return Deviation(
                    "order", "the diagnoses of {one} and {other} have changed places", one=one, other=other
                )
    if len(set(said.values())) == 1:
        return Deviation("numbers", "every patient got the same diagnosis: they have different faults")
    kind = "element" if len(wrong) == 1 else "numbers"
    text = translate(
        "{count} of {total} {verb} wrong: look again at {names}",
        count=len(wrong),
        total=len(letters),
        verb=translate("is") if len(wrong) == 1 else translate("are"),
        names=", ".join(wrong),
    )
    symptoms = (f"{letter}: {translate(_AGAINST[said[letter], one])}" for letter in wrong for one in has[letter]
                if (said[letter], one) in _AGAINST)  # fmt: skip
    seen = next(symptoms, "")
    return Deviation(kind, translate("{reason}. About {seen}", reason=text, seen=seen) if seen else text)


_AGAINST = {
    ("no optimizer", "unregistered"): "some parameters are in no optimizer, and that has a reason. Where does the "
    "optimizer get its parameters from?",
    ("no optimizer", "no step"): "the optimizer holds every parameter",
    ("no optimizer", "unreached"): "the optimizer holds every parameter. Do all of them get a gradient?",
    ("no step", "no optimizer"): "some parameters do move",
    ("no step", "unregistered"): "some parameters do move",
    ("no step", "unreached"): "some parameters do move",
    ("unreached", "no optimizer"): "every parameter gets a gradient",
    ("unreached", "unregistered"): "every parameter gets a gradient",
    ("unreached", "saturated"): "the first layer has a gradient of 0: without a path it would have none",
    ("vanishing", "saturated"): "the gradient is 0 at once, and does not shrink from layer to layer",
    ("saturated", "vanishing"): "no gradient is 0. Compare it from layer to layer",
    ("divergence", "nan"): "the loss does not grow before it is NaN",
}  # fmt: skip
"""The facts against a diagnosis, by the diagnosis that was given and the one that is right."""


# 13.2: parameters without a gradient. Any network with named_parameters is a case, torch's too.


def _networks() -> list[tuple[str, Any, Callable[[Any], None], list[str]]]:
    own = Sequential(Linear(3, 4), LayerNorm(4), Linear(4, 2))
    own[2].weight.requires_grad_(False)
    modules = torch.nn.ModuleDict({"used": torch.nn.Linear(3, 2), "idle": torch.nn.Linear(3, 2)})
    dead = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    with torch.no_grad():
        dead[0].bias.fill_(-100)  # type: ignore[operator]

    half = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2))
    with torch.no_grad():
        half[0].weight.fill_(1)  # type: ignore[operator]
        half[0].bias.copy_(torch.tensor([-100.0, 1.0]))  # type: ignore[operator]

    small = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))

    def through_small(net: Any) -> None:
        (net(torch.ones(5, 3)).sum() * 1e-9).backward()

    def through_own(net: Any) -> None:
        net[2](net[0](tensor(torch.ones(5, 3)))).sum().backward()

    def through_used(net: Any) -> None:
        net["used"](torch.ones(5, 3)).sum().backward()

    def through_dead(net: Any) -> None:
        net(torch.ones(5, 3)).sum().backward()

    def through_half(net: Any) -> None:
        scores = net(torch.ones(5, 3))
        (scores[:, 0] - scores[:, 1]).sum().backward()  # so that the gradients of the last layer have the sum 0

    return [
        ("a network that leaves a layer out", own, through_own, ["1.weight", "1.bias"]),
        ("a torch network with an idle layer", modules, through_used, ["idle.weight", "idle.bias"]),
        ("a torch network with a dead layer", dead, through_dead, ["0.weight", "0.bias", "2.weight"]),
        ("a torch network with small gradients", small, through_small, []),
        ("a torch network in which one of two units is dead", half, through_half, []),
    ]


def _silent(answer: Any) -> Deviation | None:
    needs_function(answer, "silent(net)")
    for text, net, learn, right in _networks():
        learn(net)
        frozen = {name for name, one in net.named_parameters() if not one.requires_grad}
        given = attempt(translate("silent of {reason}", reason=translate(text)), answer, net)
        if not isinstance(given, list | tuple | set):
            why = (
                translate("does the function end with return?")
                if given is None
                else translate("it gives {kind}", kind=kind_of(given))
            )
            return Deviation("type", "a list of names is expected: {why}", why=why)
        if (found := _of_names(list(given), right, net, frozen)) is not None:
            return Deviation(found.kind, "silent of {reason}: {found}", reason=translate(text), found=found)
    return None


def _of_names(names: list[Any], right: list[str], net: Any, frozen: set[str]) -> Deviation | None:
    parameters = dict(net.named_parameters())
    if strangers := [one for one in names if not isinstance(one, str) or one not in parameters]:
        what = (
            repr(strangers[0][:40])
            if isinstance(strangers[0], str)
            else translate("a value of type {kind}", kind=kind_of(strangers[0]))
        )
        return Deviation("type", "{what} is no name of a parameter: named_parameters() gives them", what=what)
    given = set(names)
    if given == set(right):
        return None
    if given == set(parameters) - set(right):
        return Deviation("order", "these are the parameters that did get a gradient")
    zeros = {name for name in right if parameters[name].grad is not None}
    if zeros and given == set(right) - zeros:
        return Deviation("zero", "a gradient that is 0 everywhere is none, too: such a parameter learns nothing")
    if given == set(right) | frozen:
        return Deviation("element", "a parameter that is frozen, with requires_grad=False, is meant to get none")
    if given - set(right) and not set(right) - given:
        return Deviation(
            "element",
            "some of these learn: a gradient counts as none only if all its numbers are 0. One number that is not 0 is "
            "enough to learn, even if the sum of all is 0",
        )
    missing, many = set(right) - given, given - set(right)
    counts = ((len(missing), "missing"), (len(many), "too many"))
    text = translate(", and ").join(
        translate(
            "{count} {verb} {what}",
            count=count,
            verb=translate("is") if count == 1 else translate("are"),
            what=translate(what),
        )
        for count, what in counts
        if count
    )
    return Deviation("element", "of {count} names {reason}", count=len(right), reason=text)


# 13.3: where a NaN begins, in a torch network.


class _Root(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sqrt()


class _RootOfFirst(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x[:, :1].sqrt(), x[:, 1:]], 1)


class _Inverse(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 1 / x


class _Log(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.log()


def _sick() -> list[tuple[str, Any, torch.Tensor, int | None]]:
    nets, relu, tanh = torch.nn.Sequential, torch.nn.ReLU, torch.nn.Tanh
    return [
        ("a root in the middle", nets(_minus(), _Root(), tanh(), _minus()), torch.ones(2, 3), 1),
        ("a root of one number in three", nets(_minus(), tanh(), _RootOfFirst(), _minus()), torch.ones(2, 3), 2),
        ("an infinity that tanh hides", nets(_minus(), relu(), _Inverse(), tanh(), _minus()), torch.ones(2, 3), 2),
        ("a logarithm whose infinity tanh hides", nets(_minus(), relu(), _Log(), tanh()), torch.ones(2, 3), 2),
        ("a root of one row in two", nets(_minus(), _Root(), tanh()), torch.tensor([[-1.0] * 3, [1.0] * 3]), 1),
        ("an input that is NaN already", nets(_minus(), tanh()), torch.full((2, 3), float("nan")), 0),
        ("a healthy network", nets(_minus(), tanh(), _minus()), torch.ones(2, 3), None),
        ("a healthy network with large numbers", nets(_minus(), _minus(), tanh()), torch.full((2, 3), 1e9), None),
    ]


def _minus() -> torch.nn.Linear:
    linear = torch.nn.Linear(3, 3)
    with torch.no_grad():
        linear.weight.copy_(-torch.eye(3))
        linear.bias.zero_()
    return linear


def _first(answer: Any) -> Deviation | None:
    needs_function(answer, "first_bad(net, x)")
    for text, net, x, right in _sick():
        given = attempt(translate("first_bad of {reason}", reason=translate(text)), answer, net, x)
        place = None if given is None else number_of(given)
        if given is not None and (place is None or isinstance(given, str) or truth_of(given) is not None):
            return Deviation("type", "the number of a layer is expected, and not a {kind}", kind=kind_of(given))
        if place != right:
            return _about_place(text, place, right, len(net))
    return None


def _about_place(text: str, given: float | None, right: int | None, count: int) -> Deviation:
    if right is None:
        return Deviation("type", "{reason} has no bad layer: None is expected", reason=translate(text))
    if given is None:
        what = (
            "the function gives None: no layer is bad. Does it return the number, does each layer get the result of "
            "the one before it, and does the loop reach them all?"
        )
        what = "one number that is NaN is enough" if "one number" in text else what
        what = "look at all rows: one row that is NaN is enough" if "one row" in text else what
        what = "Inf counts, and not NaN alone" if "infinity" in text else what
        what = "minus infinity counts, too" if "logarithm" in text else what
        return Deviation("not finite", "{reason}: {what}", reason=translate(text), what=translate(what))
    if "one number" in text and given > right:
        return Deviation(
            "element",
            "{reason}: one number that is NaN is enough. One layer later all numbers are NaN",
            reason=translate(text),
        )
    if given == right + 1:
        return Deviation(
            "shifted",
            "{reason}: it is one layer too far: layers are counted from 0, and a layer is bad if its own result is",
            reason=translate(text),
        )
    if given == count - 1:
        return Deviation(
            "order", "{reason}: that is the last bad layer: the first one is asked for", reason=translate(text)
        )
    return Deviation("numbers", "{reason}: it begins in another layer", reason=translate(text))


EXERCISES = (
    Exercise(
        "13.1",
        "Twelve diagnoses",
        "Give a diagnosis for each of the patients a to l: a dict from the letter to one of these words: "
        f"{', '.join(sorted(KINDS))}.",
        _diagnosed,
        (
            "Look at the loss first: does it fall, stay, grow, or is it NaN? Then at the gradients and the updates.",
            "A parameter with a gradient and no update belongs to no optimizer, or there is no step. A parameter "
            "without a gradient was not reached, or the model does not know it.",
            "clinic.admit('a').source shows the code. Only then look at the findings: clinic.admit('a').graph.",
        ),
        numbers=clinic.LETTERS,
    ),
    Exercise(
        "13.2",
        "Who gets no gradient?",
        "Write silent(net): the list of the names of all parameters that learn nothing from the last backward, "
        "although "
        "they require a gradient: their .grad is None, or 0 everywhere. It has to work for torch's modules as well.",
        _silent,
        (
            "named_parameters() gives pairs of a name and a parameter, in nbgrad as in torch.",
            "A frozen parameter has requires_grad=False: leave it out.",
            "parameter.grad is None or not parameter.grad.any()",
        ),
    ),
    Exercise(
        "13.3",
        "Where does it begin?",
        "Write first_bad(net, x) for a torch.nn.Sequential: the number of the first layer, from 0, whose result "
        "has a NaN "
        "or an Inf; None if there is none.",
        _first,
        (
            "A Sequential can be iterated: for number, layer in enumerate(net).",
            "Feed the result of each layer to the next one, and look at it in between.",
            "torch.isfinite(x).all() is False for a NaN and for an Inf.",
        ),
    ),
)
