"""The judge of a method of a paper: an op of the student's engine with its rule, beside its formula in numpy."""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.comparison import Deviation, difference
from nbgrad.core.translation import translate
from nbgrad.lab.engine import PACKAGE
from nbgrad.lab.engine_trials import kind_text, of_form, of_inputs, of_rule, of_slope, shapes_text
from nbgrad.lab.running import Refused, answering, attempt

Array = np.ndarray[Any, Any]

_SHAPES = ((11,), (), (2, 3), (2, 1, 4))
"""Many numbers come first: of a single one, each wrong slope is a constant factor."""


def judge_method(answer: Any) -> Deviation | None:
    """How an op, its rule and its formula do not belong together; None if they do.

    Args:
        answer: a dict with ``op``, a function of a Tensor, and ``formula``, the same of an array.
    """
    if not isinstance(answer, Mapping) or {"op", "formula"} - set(answer):
        return Deviation("type", "a dict with the names op and formula is expected")
    op, formula = answer["op"], answer["formula"]
    if not (callable(op) and callable(formula)):
        return Deviation("type", "op and formula have to be functions: give them without parentheses")
    if (known := _known(formula)) is not None:
        return known
    rng = np.random.default_rng(0)
    for shape in _SHAPES:
        numbers = np.asarray(rng.standard_normal(shape) * 2)
        if (found := _of_values(op, formula, numbers)) is not None:
            return found
    return None


_HAS: Mapping[str, Callable[[Any], Any]] = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "exp": np.exp}
"""The functions of one number that the engine has already."""


def _known(formula: Callable[..., Any]) -> Deviation | None:
    """Whether the engine has this activation already, or it is none."""
    numbers = np.linspace(-8, 8, 33)
    found = _of_formula(formula, numbers)
    if found.shape != numbers.shape:
        return None
    if np.allclose(np.diff(found, 2), 0, atol=1e-5):
        return Deviation("zero", "the slope is the same everywhere: this is no activation")
    name = next((name for name, op in _HAS.items() if np.allclose(found, op(numbers))), "")
    return Deviation("type", "your engine has {name} already: take another one", name=name) if name else None


def _named(said: str, numbers: Array) -> str:
    return translate("{said} with {shapes}", said=said, shapes=shapes_text((numbers.shape,)))


def _of_formula(formula: Callable[..., Any], numbers: Array) -> Array:
    """Return the values of the formula for some numbers, which it may change.

    Raises:
        Refused: no numbers, or an error.
    """
    said = _named("formula", numbers)
    found = attempt(said, formula, numbers.copy())
    if found is None:
        text = translate("{said} gives None: the function has to end with return", said=said)
        raise Refused(Deviation("type", text))
    with answering(said):
        given = np.asarray(found)
        return given if given.dtype == np.float32 else given.astype(float)


def _of_values(op: Callable[..., Any], formula: Callable[..., Any], numbers: Array) -> Deviation | None:
    module: Any = sys.modules.get(f"{PACKAGE}.tensor") or import_module(f"nbgrad.lab.{PACKAGE}.tensor")
    tensor, named, shape = module.Tensor, _named("op", numbers), numbers.shape
    x = tensor(numbers.copy())
    y, wanted = attempt(named, op, x), _of_formula(formula, numbers)
    if not isinstance(y, tensor):
        text = "op gives {kind}, where a Tensor of mygrad is expected"
        return Deviation("type", text, kind=kind_text(y))
    if (changed := of_inputs(named, [x], [numbers], ("x",))) is not None:
        return changed
    if y.data.shape != shape or wanted.shape != shape:
        text = "with shape {shape}, op gives {of_op} and formula {of_formula}"
        return Deviation("shape", text, shape=shape, of_op=y.data.shape, of_formula=wanted.shape)
    if not np.isfinite(wanted).all():
        text = "formula gives NaN or infinity for some numbers of size 5 or less: an activation takes any number"
        return Deviation("not finite", text)
    if not np.allclose(y.data, wanted, atol=_tolerance(wanted)):
        text = "with shape {shape}, op and formula give different numbers"
        if not np.array_equal(y.data, attempt(named, op, tensor(numbers.copy())).data):
            text = "with shape {shape}, op gives other numbers in each call"
        return Deviation("numbers", text, shape=shape)
    return _of_one_op(named, x, y) or _of_gradient(named, formula, x, y)


def _tolerance(found: Array) -> float:
    """How far numbers may be off: a formula may compute with single precision, as torch does."""
    return 1e-5 if found.dtype == np.float32 else 1e-8


def _of_one_op(named: str, x: Any, y: Any) -> Deviation | None:
    """How a result is not that of one op with one rule."""
    g = np.ones(x.data.shape)
    if y.rule is not None and not callable(y.rule):
        text = "its rule is a {kind}: a function of g is expected, such as lambda g: (...)"
        return Deviation("type", text, kind=kind_of(y.rule))
    if isinstance(y.parents, tuple | list) and tuple(y.parents) != (x,):
        return Deviation("type", "write it as one op with one rule: its only parent has to be its input")
    if y.rule is None:
        return Deviation("type", "it has no rule")
    if (found := of_form(named, y, g)) is not None:
        return found
    given = np.shape(attempt(translate("the rule of {op}", op="op"), y.rule, g)[0])
    if given == x.data.shape:
        return None
    text = "the rule of op gives a gradient of shape {given}, for an input of shape {shape}"
    return Deviation("shape", text, given=given, shape=x.data.shape)


def _of_gradient(named: str, formula: Callable[..., Any], x: Any, y: Any) -> Deviation | None:
    """How the gradient by the rule differs from the slope of the formula."""
    g = np.cos(np.arange(x.data.size)).reshape(x.data.shape) + 2
    if (found := of_rule(named, y, g) or of_slope(named, y, g)) is not None:
        return found
    with answering(translate("the backward through op")):
        (y * g).sum().backward()
    single = _of_formula(formula, x.data).dtype == np.float32
    nudge = 1e-2 if single else 1e-5
    slopes = (_of_formula(formula, x.data + nudge) - _of_formula(formula, x.data - nudge)) / (2 * nudge)
    near = partial(np.isclose, atol=1e-3 if single else 1e-6)
    wanted, given = g * slopes, x.grad
    if given is not None and near(given, wanted).all():
        return None
    said = translate(
        "with shape {shape}, the gradient of op is not the slope of formula, by nudging", shape=x.data.shape
    )
    if given is None:
        return Deviation("zero", said)
    kind, why = _cause(x.data, given, wanted, g, near)
    return Deviation(kind, translate("{said}: {why}", said=said, why=why) if why else said)


def _cause(x: Array, given: Array, wanted: Array, g: Array, near: Callable[..., Any]) -> tuple[str, str]:
    """The kind of a wrong gradient, and what else is to be said of it."""
    if near(given, g).all():
        return "numbers", translate("its rule passes g on as it is")
    wrong = ~near(given, wanted)
    for side, what in (
        (x > 0, "it is right for positive x, and wrong for negative x"),
        (x < 0, "it is right for negative x, and wrong for positive x"),
    ):
        if side.any() and not (wrong & side).any():
            return "element", translate(what)
    found = difference(given, wanted)
    return ("rounding", "") if found is None else (found.kind, str(found))
