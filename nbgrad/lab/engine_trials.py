"""A trial of one op of a student's engine: its value and the gradient of each input have to be torch's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import torch

from nbgrad.core.tensor.comparison import Deviation, NoNumbers, difference, numbers_of
from nbgrad.core.translation import translate
from nbgrad.drawing.caller import verdict
from nbgrad.drawing.part import GraphCycleError, UnreadableError
from nbgrad.lab import lesson_03
from nbgrad.lab.judges import slip
from nbgrad.lab.running import answering

RTOL, ATOL = 1e-5, 1e-7
"""The numbers of an engine in float64 may differ from torch's by rounding only."""


@dataclass(frozen=True)
class Trial:
    """One call that is compared with torch.

    Attributes:
        said: how a message names the call, as "x * y".
        settings: the values of the names in braces in ``said``.
        shapes: of the inputs, which are random numbers.
        yours: calls the student's op: it gets the module of the file and the inputs, as tensors of the student's.
        right: the same with torch's tensors.
        domain: changes the random numbers, such as ``abs`` for a logarithm.
        names: of the inputs in a message, where there are several.
        slips: usual wrong ops with torch's tensors, each with the kind and the sentence of its explanation.
        rules: the same for the gradient of the first input: functions of the incoming gradient and the inputs.
    """

    said: str
    shapes: tuple[tuple[int, ...], ...]
    yours: Callable[..., Any]
    right: Callable[..., torch.Tensor]
    domain: Callable[[Any], Any] = field(default=lambda numbers: numbers)
    settings: Mapping[str, Any] = field(default_factory=dict)
    names: Sequence[str] = ()
    slips: Sequence[tuple[Callable[..., torch.Tensor], str, str]] = ()
    rules: Sequence[tuple[Callable[..., torch.Tensor], str, str]] = ()

    def __call__(self, module: ModuleType) -> Deviation | None:
        """How the student's op differs from torch's; None if it does not."""
        rng = np.random.default_rng(0)
        arrays = [self.domain(rng.standard_normal(shape)) for shape in self.shapes]
        theirs = [torch.tensor(one, requires_grad=True) for one in arrays]
        wanted = self.right(*theirs)
        weights = rng.standard_normal(tuple(wanted.shape))
        (wanted * torch.tensor(weights)).sum().backward()  # type: ignore[no-untyped-call]
        said = translate(self.said, **self.settings)
        named = translate("{said} with {shapes}", said=said, shapes=shapes_text(self.shapes))
        of_array = tensor_class(module)
        with answering(named):
            inputs = [of_array(one.copy()) for one in arrays]
            value = self.yours(module, *inputs)
            if not isinstance(value, of_array):
                return Deviation(
                    "type", "{named} gives {kind}, where a Tensor is expected", named=named, kind=kind_text(value)
                )
            if (changed := of_inputs(named, inputs, arrays, self.names)) is not None:
                return changed
            if (found := compared(value.data, wanted)) is not None:
                known = slip(value.data, ((op(*theirs), kind, text) for op, kind, text in self.slips))
                found = known or with_cause(found, value)
                return Deviation(found.kind, "{named}: the value: {found}", named=named, found=found)
            try:
                total = (value * weights).sum()
                total.backward()
            except Exception:
                if (found := of_form(named, value, weights)) is not None:
                    return found
                raise
        if (wrong := of_gradients(named, inputs, theirs, self.names)) is not None:
            return (
                of_slope(named, value, weights)
                or _of_places(named, value, weights, theirs)
                or self._of_usual_rule(named, value, weights, theirs)
                or with_cause(wrong, total)
            )
        return of_rule(named, value, weights)

    def _of_usual_rule(self, named: str, value: Any, g: Any, theirs: Sequence[torch.Tensor]) -> Deviation | None:
        """The explanation of a rule that is one of the usual wrong ones."""
        rule = getattr(value, "rule", None)
        if rule is None or not self.rules:
            return None
        inputs = [one.detach() for one in theirs]
        with answering(named):
            given = rule(np.array(g, dtype=float))[0]
        found = slip(given, [(wrong(torch.tensor(g), *inputs), kind, text) for wrong, kind, text in self.rules])
        return found and Deviation(found.kind, "{named}: the gradient: {found}", named=named, found=found)


def of_inputs(named: str, inputs: Sequence[Any], before: Sequence[Any], names: Sequence[str]) -> Deviation | None:
    """The first input whose numbers an op has changed."""
    for at, (one, array) in enumerate(zip(inputs, before, strict=True)):
        if not np.array_equal(one.data, array):
            which = translate("its input") if len(inputs) == 1 else names[at]
            return Deviation(
                "changed", "{named} changes the numbers of {which}: make a new array", named=named, which=which
            )
    return None


def of_rule(named: str, value: Any, g: Any) -> Deviation | None:
    """The fault of a rule whose gradients are right: it changes its argument, or remembers a call."""
    rule = getattr(value, "rule", None)
    if rule is None:
        return None
    with answering(named):
        given = np.array(g, dtype=float)
        first = [np.array(one) for one in rule(given)]
        if not np.array_equal(given, g):
            text = "{named}: its rule changes g, which is the gradient of its result: make a new array"
            return Deviation("changed", text, named=named)
        again = [np.array(one) for one in rule(given)]
        if not all(np.array_equal(one, other) for one, other in zip(first, again, strict=True)):
            text = "{named}: its rule gives other gradients when it is called again: it changes an array that it keeps"
            return Deviation("changed", text, named=named)
    return None


def of_slope(named: str, value: Any, g: Any) -> Deviation | None:
    """Whether the rule of a result does not multiply ``g``: then each gradient below it is wrong."""
    rule = getattr(value, "rule", None)
    if rule is None:
        return None
    with answering(named):
        found = lesson_03.proportional(rule, g, list(rule(g * 1.0)))  # a rule may change its argument
    return found and Deviation(found.kind, "{named}: {found}", named=named, found=found)


def _of_places(named: str, value: Any, g: Any, theirs: Sequence[torch.Tensor]) -> Deviation | None:
    """Whether the rule of a result gives its two gradients in each other's place.

    It is asked itself: the weighted sum is a product of the student's, too, and so the gradients that arrive are not.
    """
    rule = getattr(value, "rule", None)
    if rule is None or len(theirs) != 2:
        return None
    with answering(named):
        given = rule(np.array(g, dtype=float))
    if any(compared(one, right.grad) for one, right in zip(given, reversed(theirs), strict=True)):
        return None
    text = "{named}: the two gradients of its rule have changed places"
    return Deviation("order", text, named=named)


def of_gradients(
    named: str, inputs: Sequence[Any], theirs: Sequence[torch.Tensor], names: Sequence[str]
) -> Deviation | None:
    for at, (yours, right) in enumerate(zip(inputs, theirs, strict=True)):
        which = translate("the gradient") if len(inputs) == 1 else translate("the gradient of {name}", name=names[at])
        gradient = getattr(yours, "grad", None)
        if gradient is None:
            return Deviation("zero", "{named}: {which} is None: no gradient arrives there", named=named, which=which)
        if (found := compared(gradient, right.grad)) is not None:
            found = _of_exchange(at, inputs, theirs, names) or found
            return Deviation(found.kind, "{named}: {which}: {found}", named=named, which=which, found=found)
    return None


def _of_exchange(
    at: int, inputs: Sequence[Any], theirs: Sequence[torch.Tensor], names: Sequence[str]
) -> Deviation | None:
    """The fault of a rule that gives the gradients of two inputs in each other's place."""
    for other in range(len(inputs)):
        places = ((at, other), (other, at))
        gradients = [(getattr(inputs[one], "grad", None), theirs[two].grad) for one, two in places]
        if other != at and all(got is not None and compared(got, right) is None for got, right in gradients):
            text = "it has changed places with that of {other}: a rule gives them in the order of the parents"
            return Deviation("order", text, other=names[other])
    return None


def of_form(named: str, value: Any, g: Any) -> Deviation | None:
    """The fault of an op whose parents are no tuple, or whose rule does not give an array for each of them."""
    rule, parents = getattr(value, "rule", None), getattr(value, "parents", None)
    if rule is None or parents is None:
        return None
    if not isinstance(parents, tuple | list):
        text = (
            "{named}: its parents are {kind}, and no tuple: the order is Tensor(value, parents, rule, name)"
            if callable(parents)
            else "{named}: its parents are {kind}, and no tuple. A tuple of one has a comma, (x,): without it, (x) is x"
        )
        return Deviation("type", text, named=named, kind=kind_text(parents))
    with answering(named):
        given = rule(np.array(g, dtype=float))
    if isinstance(given, tuple | list) and len(given) == len(parents):
        if not any(isinstance(one, type(value)) for one in given):
            return None
        text = "{named}: its rule gives Tensors, where arrays are expected: compute with the data of each Tensor"
        return Deviation("type", text, named=named)
    many = len(given) if isinstance(given, tuple | list) else kind_text(given)
    many = translate("an array") if isinstance(given, np.ndarray) else many
    text = "{named}: its rule gives {many}, where a tuple of {count} is expected: a gradient for each parent"
    return Deviation("type", text, named=named, many=many, count=len(parents))


def with_cause(found: Deviation, root: Any) -> Deviation:
    """``found``, with the cause that a picture of the graph of ``root`` names (``draw(root, against=True)``)."""
    try:
        first = verdict(root).first
    except (UnreadableError, GraphCycleError):
        return found
    if first is None or first.cause is None:
        return found
    return Deviation(found.kind, "{found}. {cause}", found=found, cause=first.cause)


def compared(given: Any, right: Any, whose: str | None = None) -> Deviation | None:
    """How numbers differ from torch's, or from others that have a name; with the first place where they do."""
    whose = whose or translate("torch's")
    try:
        found = difference(given, right, rtol=RTOL, atol=ATOL)
    except (NoNumbers, TypeError, RuntimeError) as error:
        return Deviation("type", "numbers are expected: {error}", error=error)
    if found is None:
        return None
    yours, wanted = numbers_of(given), numbers_of(right)
    if yours.shape != wanted.shape:
        return Deviation(
            found.kind,
            "{reason} (yours has shape {shape}, {whose} {wanted})",
            reason=found.text,
            shape=tuple(yours.shape),
            whose=whose,
            wanted=tuple(wanted.shape),
        )
    close = found.kind == "rounding"
    reason = translate("it is close, but rounding does not explain the difference") if close else found.text
    wrong = ~torch.isclose(yours.to(torch.float64), wanted.to(torch.float64), rtol=RTOL, atol=ATOL)
    place = tuple(int(one) for one in wrong.nonzero()[0])
    return Deviation(
        found.kind,
        "{reason}; {where}yours is {yours}, and {whose} {wanted}",
        reason=reason,
        where=translate("at {place} ", place=list(place)) if place else "",
        yours=f"{yours[place]:.{10 if close else 5}g}",
        whose=whose,
        wanted=f"{wanted[place]:.{10 if close else 5}g}",
    )


def shapes_text(shapes: Sequence[tuple[int, ...]]) -> str:
    word = "shape" if len(shapes) == 1 else "shapes"
    return translate("{word} {shapes}", word=word, shapes=translate(" and ").join(map(str, shapes)))


def kind_text(value: Any) -> str:
    if value is None:
        return translate("None: it has to end with return")
    return translate("a value of type {kind}", kind=type(value).__name__)


def tensor_class(module: ModuleType) -> Any:
    """The class ``Tensor`` of the package in which the module of a part lies."""
    return vars(module).get("Tensor") or import_module(f"{module.__package__}.tensor").Tensor
