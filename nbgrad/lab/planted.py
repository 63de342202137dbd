"""Engines with a planted fault: the reference parts of ``mygrad``, each with one mistake of a usual kind."""

import sys
from itertools import permutations
from types import ModuleType, SimpleNamespace

from nbgrad.lab.engine import PARTS, reference
from nbgrad.lab.exercise import OwnNumbers

_FAULTS: tuple[tuple[str, str, str, str], ...] = (
    ("ops", "lambda g: (g * (1 - y * y),)", "lambda g: (g * (1 - y),)", "tanh"),
    ("tensor", "share if parent.grad is None else parent.grad + share", "share", "backward"),
    ("tensor", "gradient.sum(ones, keepdims=True)", "gradient.mean(ones, keepdims=True)", "unbroadcast"),
    ("ops", "(g @ turned_b, turned_a @ g)", "(g @ b.data, turned_a @ g)", "matmul"),
    ("losses", "p * (g - (g * p).sum(-1, keepdims=True))", "p * g", "softmax"),
)
"""The part, its text, the text with the fault, and the name of the function that has it."""

COUNT = len(_FAULTS)

ORDER = OwnNumbers("16.3", {"order": tuple(permutations(range(COUNT)))})
"""Which engine has which fault: each student has an order of the own."""


def _fault(number: int) -> tuple[str, str, str, str]:
    return _FAULTS[ORDER()["order"][number - 1]]


def function_with_the_fault(number: int) -> str:
    """The name of the function in which the fault of this engine is."""
    return _fault(number)[3]


def planted(number: int) -> SimpleNamespace:
    """An engine with one fault, which depends on the student: ``Tensor``, ``matmul``, ``tanh``, ``relu``, ``softmax``.

    Args:
        number: of the engine, from 1 to 5.

    Raises:
        ValueError: there is no such engine.
    """
    if number not in range(1, COUNT + 1):
        raise ValueError(f"planted({number!r}): the engines have the numbers 1 to {COUNT}")
    part, right, wrong, _ = _fault(number)
    package = f"planted_{number}"
    modules = {"": _module(package, "")}
    for name in list(PARTS.values())[:4]:
        source = reference(name)
        modules[name] = _module(f"{package}.{name}", source.replace(right, wrong) if name == part else source)
    return SimpleNamespace(
        Tensor=modules["tensor"].Tensor,
        matmul=modules["ops"].matmul,
        tanh=modules["ops"].tanh,
        relu=modules["ops"].relu,
        softmax=modules["losses"].softmax,
    )


def _module(name: str, source: str) -> ModuleType:
    """A module that other modules of its package can import."""
    module = ModuleType(name)
    module.__dict__.update(__package__=name.partition(".")[0], __path__=[])
    sys.modules[name] = module
    exec(compile(source, f"<{name.replace('.', '/')}.py>", "exec"), vars(module))
    return module
