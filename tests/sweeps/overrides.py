"""Every function that torch lets others override, on our tensors: result and gradient are torch's, or nbgrad raises.

The calls are samples of torch's op database, sometimes with torch's tensors in the place of some of ours. Others are
calls of all overridable functions, with made-up arguments.
"""

import warnings
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import torch
from torch.overrides import get_testing_overrides, resolve_name
from torch.utils._pytree import tree_leaves, tree_map

import nbgrad
from tests.core import opdb
from tests.core.opdb import drawn, resolved

CASES = 120

ERRORS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError, KeyError, ArithmeticError)

DIFFERENT = {
    "as_strided_scatter": "torch gives the input the gradient of the places that src has taken",
    "empty": "what is in the memory",
    "lowrank": "signs are free",
    "logical_": "in place torch passes the gradient on, as if the result were the input",
    "data_ptr": "another address",
    "__dlpack__": "another object",
    "__reduce_ex__": "another way to be rebuilt",
    "__repr__": "another text",
    "__hash__": "another object",
    "register_hook": "another object",
    "storage": "another object",
    "resize_as_": "a tensor of torch's stays one",
    "hinge_embedding_loss": "torch gives integers for integers",
    "matrix_power": "torch has a unit matrix of truth values",
    "multilabel_soft_margin_loss": "torch sums along another dimension where the weight has more than the input",
}
"""Parts of the names of functions that may differ from torch, and why."""

CONSTANT = (
    *("binomial", "floor_divide", "floordiv", "heaviside"),
    *(f"Tensor.{one}_" for one in ("eq", "ge", "greater", "greater_equal", "gt")),  # if the other operand broadcasts
    *(f"Tensor.{one}_" for one in ("le", "less", "less_equal", "lt", "ne", "not_equal")),
)
"""Functions whose result needs no gradient in nbgrad, but whose backward raises in torch."""

SAID = ("nbgrad", "'Tensor' object", "a 'Tensor'", "positional argument")
"""Texts in errors that are nbgrad's, or Python's for a call that fits no method of nbgrad."""

Call = tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def _tensor(random: Random, shape: tuple[int, ...], *, positive: bool = True) -> torch.Tensor:
    made = torch.rand(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(random.randrange(2**31)))
    return made * 0.8 + 0.1 if positive else made - 0.5


def _value(random: Random) -> Any:
    """An argument of some kind."""
    shape = random.choice([(3,), (3, 3), (2, 3, 3), (1, 1, 3, 3), ()])
    kinds: list[Callable[[], Any]] = [
        *[lambda: _tensor(random, shape, positive=random.random() < 0.8)] * 6,
        *[lambda: random.choice([0, 1, 2, -1])] * 4,
        lambda: random.choice([0.5, 1.0, 2.0]),
        lambda: random.choice([True, False, None]),
        lambda: torch.tensor(random.choices(range(3), k=3)),
        lambda: torch.randint(3, (3, 3), generator=torch.Generator().manual_seed(random.randrange(99))),
        lambda: _tensor(random, (3, 3)) > 0.5,
        lambda: [_tensor(random, (3, 3)), _tensor(random, (3, 3))],
        lambda: random.choice([(3, 3), [0], (1,), (9,), [1, 2]]),
        lambda: random.choice([torch.float32, torch.float64, torch.complex128]),
        lambda: torch.complex(_tensor(random, (3, 3)), _tensor(random, (3, 3))),
    ]
    return random.choice(kinds)()


@cache
def _overridable() -> list[tuple[str, Any]]:
    found = [(str(resolve_name(one) or getattr(one, "__qualname__", one)), one) for one in get_testing_overrides()]
    return sorted((name, one) for name, one in found if "__get__" not in name and "__set__" not in name)


@cache
def _entries() -> list[Any]:
    opdb.entries()  # imports torch's testing modules, which warn
    from torch.testing._internal.common_methods_invocations import op_db

    return [one for one in op_db if torch.float64 in one.dtypes and "sparse" not in one.name]


@cache
def _samples(number: int) -> list[Any]:
    entry = _entries()[number]
    try:
        return list(entry.sample_inputs("cpu", torch.float64, requires_grad=entry.supports_autograd))[:12]
    except ERRORS:
        return []


def _sampled(random: Random) -> Call | None:
    number = random.randrange(len(_entries()))
    entry, samples = _entries()[number], _samples(number)
    if not samples:
        return None
    sample = random.choice(samples)
    args = (sample.input, *sample.args)
    in_place = entry.inplace_variant
    if in_place is not None and hasattr(in_place, "__name__") and random.random() < 0.3:
        return f"{entry.name} in place", _method(in_place.__name__), args, sample.kwargs
    return entry.name, entry.get_op(), args, sample.kwargs


def _invented(random: Random) -> Call | None:
    name, function = random.choice(_overridable())
    args = tuple(_value(random) for _ in range(random.choice([1, 1, 2, 2, 2, 3, 3, 4])))
    if "Tensor" in getattr(function, "__qualname__", "").partition(".")[0]:
        return name, _method(function.__name__), args, {}
    return name, function, args, {}


def _method(name: str) -> Callable[..., Any]:
    def called(first: Any, *rest: Any, **settings: Any) -> Any:
        return getattr(first, name)(*rest, **settings)

    return called


def check(random: Random) -> None:
    """One call, of torch's tensors and of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's functions warn of much
        call = _sampled(random) if random.random() < 0.5 else None
        for _ in range(30):  # most functions refuse made-up arguments
            call = call or _invented(random)
            if call is not None and compared(random, *call):
                return
            call = None


def compared(random: Random, name: str, function: Callable[..., Any], args: Any, settings: Any) -> bool:
    """Compare one call. Return whether torch accepts it."""
    tensors = [one for one in tree_leaves((args, settings)) if isinstance(one, torch.Tensor)]
    if not tensors or any(one.layout != torch.strided for one in tensors) or any(part in name for part in DIFFERENT):
        return False
    keeps = random.random() < 0.3  # in some cases a part of the tensors stay torch's
    needs = {id(one): one.is_floating_point() and random.random() < 0.8 for one in tensors}
    stay = {id(one): keeps and not needs[id(one)] and random.random() < 0.5 for one in tensors}
    if all(stay.values()):
        return False
    if name.endswith(("_", "in place")):  # a changed torch tensor stays torch's, unless it gets a gradient
        stay[id(tensors[0])] = False
    theirs, ours = _Side(), _Side()
    given = tree_map(lambda one: theirs.torchs(one, needs), (args, settings))
    try:
        expected = theirs.run(function, *given)
    except ERRORS:
        return False
    if any(one is NotImplemented for one in expected):
        return False
    given = tree_map(lambda one: ours.nbgrads(one, needs, stay), (args, settings))
    try:
        found = ours.run(function, *given)
    except ERRORS as error:
        _check_said(name, error)
        return True
    _compare(name, expected, found, theirs, ours)
    return True


class _Side:
    """One of the two calls."""

    def __init__(self) -> None:
        self.leaves: list[Any] = []

    def torchs(self, value: Any, needs: dict[int, bool]) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        self.leaves.append(value.detach().clone().requires_grad_(needs[id(value)]))
        return self.leaves[-1] * 1 if needs[id(value)] else self.leaves[-1]

    def nbgrads(self, value: Any, needs: dict[int, bool], stay: dict[int, bool]) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if stay[id(value)]:
            self.leaves.append(None)
            return value.detach().clone()
        self.leaves.append(nbgrad.tensor(value.detach().clone(), requires_grad=needs[id(value)]))
        return self.leaves[-1] * 1 if needs[id(value)] else self.leaves[-1]

    def run(self, function: Callable[..., Any], args: Any, settings: Any) -> list[Any]:
        torch.manual_seed(0)
        return tree_leaves(function(*args, **settings))


def _check_said(name: str, error: BaseException) -> None:
    """Check that an error comes from nbgrad, or is Python's about a class that is not torch's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    if not place.startswith("nbgrad") and not any(part in str(error) for part in SAID):
        raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error


def _compare(name: str, expected: list[Any], found: list[Any], theirs: _Side, ours: _Side) -> None:
    assert len(found) == len(expected), f"{name}: {len(found)} results for {len(expected)}"
    ends = []
    for mine, yours in zip(found, expected, strict=True):
        if not isinstance(yours, torch.Tensor):
            assert not isinstance(mine, torch.Tensor | nbgrad.Tensor), f"{name}: a tensor for {yours!r}"
            assert type(mine) is type(yours), f"{name}: {mine!r} for {yours!r}"
            continue
        assert isinstance(mine, nbgrad.Tensor), f"{name}: {type(mine)} for a tensor"
        if yours.layout != torch.strided:
            return
        torch.testing.assert_close(resolved(mine.data), resolved(yours.detach()), equal_nan=True, msg=f"{name}: value")
        if any(part in name for part in CONSTANT):
            return
        assert yours.requires_grad or not mine.requires_grad, f"{name}: needs a gradient"
        if mine.requires_grad:
            ends.append((mine, yours))
        elif yours.requires_grad:
            assert not _has_gradient(yours, theirs), f"{name}: needs no gradient"
    _compare_gradients(name, ends, theirs, ours)


def _has_gradient(end: torch.Tensor, side: _Side) -> bool:
    """Whether torch has a gradient that is not zero, or cannot compute the gradient."""
    starts = [one for one in side.leaves if one.requires_grad]
    if not end.is_floating_point() and not end.is_complex():  # torch fails on its own mark
        return False
    try:
        found = torch.autograd.grad(end, starts, torch.ones_like(end), retain_graph=True, allow_unused=True)
    except ERRORS:
        return True
    return any(one is not None and bool(one.any()) for one in found)


def _compare_gradients(name: str, ends: list[tuple[Any, Any]], theirs: _Side, ours: _Side) -> None:
    starts = [(mine, yours) for mine, yours in zip(ours.leaves, theirs.leaves, strict=True) if yours.requires_grad]
    if not ends or not starts:
        return
    seeds = [drawn(yours.detach(), place) for place, (_, yours) in enumerate(ends)]
    try:
        expected = torch.autograd.grad([one for _, one in ends], [one for _, one in starts], seeds, allow_unused=True)
    except ERRORS:
        return
    try:
        found = nbgrad.grad(
            [one for one, _ in ends],
            [one for one, _ in starts],
            [nbgrad.tensor(one) for one in seeds],
            allow_unused=True,
        )
    except ERRORS as error:
        _check_said(f"{name}: backward", error)
        return
    for mine, yours, (_, start) in zip(found, expected, starts, strict=True):
        right = torch.zeros_like(start) if yours is None else yours
        got = torch.zeros_like(start) if mine is None else mine.data
        torch.testing.assert_close(resolved(got), resolved(right), equal_nan=True, msg=f"{name}: gradient")
