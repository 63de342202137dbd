"""What a forward or a rule calls, where it does no more than that: a frame of Python is a tenth of a small op."""

import operator
from collections.abc import Callable
from inspect import Parameter, signature
from operator import attrgetter
from typing import Any

import torch


def direct(forward: Callable[..., Any]) -> Callable[..., Any]:
    """What ``forward`` calls if its whole body is ``return torch.f(a, b)``, else ``forward`` itself.

    Settings, handed on by their names as in ``torch.add(a, b, alpha=alpha)``, are left out: the answer is for calls
    without settings.
    """
    code = getattr(forward, "__code__", None)
    if code is None or code.co_names[:1] != ("torch",):
        return forward
    called = ".".join(code.co_names[1:])
    parameters = signature(forward).parameters.values()
    if any(p.kind not in {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY} for p in parameters):
        return forward
    handed = [p.name if p.kind is Parameter.POSITIONAL_OR_KEYWORD else f"{p.name}={p.name}" for p in parameters]
    taken = [p.name for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
    if settings := [p.name for p in parameters if p.kind is Parameter.KEYWORD_ONLY]:
        taken += ["*", *settings]
    only: dict[str, Any] = {}
    # The two are compared as Python compiled them, so that nothing here depends on how it does.
    source = f"import torch\ndef only({', '.join(taken)}): return torch.{called}({', '.join(handed)})"
    exec(source, only)  # nothing in it but names of a function that is there
    same = only["only"].__code__
    what = (code.co_code, code.co_names, code.co_varnames, code.co_consts[1:])
    if what != (same.co_code, same.co_names, same.co_varnames, same.co_consts[1:]):
        return forward
    function: Callable[..., Any] = attrgetter(called)(torch)
    return function


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
