"""Formulas with sums, products, powers and numbers as inputs: their values equal those of the ops and gradients."""

import math
from random import Random

import nbgrad
from nbgrad.core.dispatch.formula import formula_with, symbols
from nbgrad.core.dispatch.table import OPS
from tests.core.latex_values import UnknownError, value

CASES = 1000

ROWS = (
    *("abs", "add", "addcdiv", "addcmul", "asinh", "atan", "cos", "cosh", "deg2rad", "div", "exp", "exp2", "expm1"),
    *("hypot", "lerp", "log", "log1p", "logaddexp", "logit", "mul", "neg", "pow", "rad2deg", "reciprocal", "rsqrt"),
    *("sigmoid", "sin", "sinh", "softplus", "softsign", "special_entr", "sqrt", "sub", "tan", "tanh"),
    *("tanh_backward", "sigmoid_backward", "softsign_backward", "logit_backward"),
)
"""Rows whose formulas are arithmetic on one element of each input."""

LETTERS = {"p": 0.7, "q": 1.3, "r": 0.4, "x": 1.1, "y": 0.6, "a": 0.9, "b": 1.7, "h_{1}": 0.8, r"\theta": 1.2}

SHAPES = (
    *("{0}", "{0}", "{0} + {1}", "{0} - {1}", "-{0}", "2 {0}", r"{0} \, {1}", r"{0} \odot {1}", r"\frac{{{0}}}{{{1}}}"),
    *(
        "{0}^2",
        "{0}^{{{1}}}",
        "({0} + {1})",
        "({0} - {1}) {1}",
        r"\ln {0}",
        "e^{{{0}}}",
        r"\sqrt{{{0}}}",
        "|{0} - {1}|",
    ),
    *("{0} + 2 {1}", "-{0} + {1}", "2", "0.5", "-3", "2.5"),
)


def expression(random: Random, positive: bool) -> tuple[str, float]:
    """An expression as the name of an input, and its value."""
    while True:
        latex = random.choice(SHAPES).format(random.choice([*LETTERS]), random.choice([*LETTERS]))
        found = value(latex, LETTERS)
        if not positive or 0.05 < found < 0.95:
            return latex, found


def check(random: Random) -> None:
    """Name the inputs of one row. Compare the value of its formula, or of a rule's formula, with nbgrad's result."""
    row = OPS[random.choice(ROWS)]
    numeric = {"value": 0.5, "beta": 2.0} if row.name.startswith(("addc", "softplus")) else {}
    settings = {name: one for name, one in numeric.items() if name in row.defaults}
    given = {name: expression(random, positive=True) for name in row.inputs}
    tensors = [nbgrad.tensor(number, dtype=nbgrad.float64, requires_grad=True) for _, number in given.values()]
    out = row(*tensors, **settings)
    result, g = expression(random, positive=False)
    names = {name: latex for name, (latex, _) in given.items()} | {name: str(one) for name, one in settings.items()}
    names |= {"g_out": result, "out": "s"}
    gradients = nbgrad.grad(out, tensors, nbgrad.tensor(g, dtype=nbgrad.float64))
    values = LETTERS | {"s": out.item()}
    for rule, expected in ((None, out.item()), *zip(row.inputs, (one.item() for one in gradients), strict=True)):
        latex = formula_with(row, names, rule=rule)
        try:
            found = value(latex, values)
        except UnknownError as error:
            raise AssertionError(f"{row.name} for {rule} with {names}: {latex}: {error}") from error
        text = f"{row.name} for {rule} with {names}: {latex} is {found}, and not {expected}; symbols {symbols(row)}"
        assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12), text
