"""What a forward or a rule calls, where it does no more than that: a frame of Python is a tenth of a small op."""

import operator
from collections.abc import Callable
from inspect import Parameter, signature
from operator import attrgetter
from types import CodeType
from typing import Any

import torch


def direct(forward: Callable[..., Any]) -> Callable[..., Any]:
    """What ``forward`` calls if its whole body is ``return torch.f(a, b)``, else ``forward`` itself.

    Settings, handed on as in ``torch.add(a, b, alpha=alpha)`` or ``torch.sum(x, dim, keepdim, dtype=dtype)``, are left
    out: the answer is for calls without settings.
    """
    code = getattr(forward, "__code__", None)
    if code is None or code.co_names[:1] != ("torch",):
        return forward
    called = ".".join(code.co_names[1:])
    parameters = signature(forward).parameters.values()
    inputs = [p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    settings = [p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
    without = any(p.kind is Parameter.KEYWORD_ONLY and p.default is Parameter.empty for p in parameters)
    if without or len(inputs) + len(settings) < len(parameters):
        return forward  # it can't be called without settings, or takes a list
    taken = ", ".join([*inputs, *(["*", *settings] if settings else [])])
    for first in range(len(settings) + 1):  # how many of the settings are handed on by their position
        handed = [*inputs, *settings[:first], *(f"{name}={name}" for name in settings[first:])]
        # The two are compared as Python compiled them, so that nothing here depends on how it does.
        only = _compiled(f"import torch\ndef only({taken}): return torch.{called}({', '.join(handed)})")
        if _what(code) == _what(only.__code__):
            function: Callable[..., Any] = attrgetter(called)(torch)
            return function
    return forward


def _compiled(source: str) -> Callable[..., Any]:
    names: dict[str, Any] = {}
    exec(source, names)  # nothing in it but names of a function that is there
    only: Callable[..., Any] = names["only"]
    return only


def _what(code: CodeType) -> tuple[object, ...]:
    """What a function does, whatever it is called and says of itself."""
    return code.co_code, code.co_names, code.co_varnames, code.co_consts[1:]


def direct_rule(rule: Callable[..., Any]) -> Callable[..., Any] | None:
    """The operator that ``rule`` is if its whole body is ``return g * b`` or the like, else ``rule`` itself.

    None stands for ``return g``: the gradient is handed on as it is.
    """
    code = getattr(rule, "__code__", None)
    return _OPERATORS.get(code.co_code, rule) if code is not None else rule


_OPERATORS: dict[bytes, Callable[..., Any] | None] = {
    (lambda g: g).__code__.co_code: None,
    (lambda g: -g).__code__.co_code: operator.neg,
    (lambda g, x: g * x).__code__.co_code: operator.mul,
    (lambda g, x: g / x).__code__.co_code: operator.truediv,
}
"""By the code of a function that does nothing but to apply it: names of parameters are not part of that."""
