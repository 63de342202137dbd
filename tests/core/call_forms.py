"""All forms in which torch accepts a call: arguments by position or by name, numpy's names and numbers, lists.

The forms come from torch's own parser. nbgrad has no list of them.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from inspect import Parameter, signature
from typing import Any

import numpy as np
import torch
from torch.overrides import get_testing_overrides
from torch.utils._pytree import tree_leaves, tree_map

import nbgrad
from tests.core import opdb
from tests.core.closeness import SINGLE

NUMPYS = {"dim": ("axis",), "keepdim": ("keepdims",), "input": ("x", "a", "x1"), "other": ("x2",)}
"""numpy's names of arguments, which torch's parser takes."""


@dataclass(frozen=True)
class Call:
    """The arguments of a call, the first of which is a tensor.

    Attributes:
        args: by position.
        settings: by name.
        names: what torch calls the arguments, in order.
        form: how the call was changed.
        same: whether it means the same as the unchanged call.
    """

    args: tuple[Any, ...]
    settings: dict[str, Any]
    names: tuple[str, ...]
    form: str = ""
    same: bool = True

    def as_form(self, form: str, **changes: Any) -> "Call":
        """The call with these changes; ``form`` is added to its description."""
        return replace(self, form=f"{self.form}, {form}".lstrip(", "), **changes)

    def by_name(self, first: int) -> "Call":
        """The call with the arguments from position ``first`` on by name."""
        settings = dict(zip(self.names[first:], self.args[first:], strict=False)) | self.settings
        return self.as_form(f"by name from {first} on", args=self.args[:first], settings=settings)

    def by_position(self) -> "Call":
        """The call with as many arguments by position as possible."""
        args, settings = list(self.args), dict(self.settings)
        for name in self.names[len(args) :]:
            if name not in settings:
                break
            args.append(settings.pop(name))
        return self.as_form("by position", args=tuple(args), settings=settings)

    def numpys(self) -> Iterator["Call"]:
        """The call with each of numpy's names instead of torch's name, and with all of numpy's names."""
        there = {name: others for name, others in NUMPYS.items() if name in self.settings}
        chosen = [{name: other} for name, others in there.items() for other in others]
        together = [{name: others[0] for name, others in there.items()}] if len(there) > 1 else []
        for names in [*chosen, *together]:
            settings = {names.get(name, name): value for name, value in self.settings.items()}
            yield self.as_form(" and ".join(f"{name} as {other}" for name, other in names.items()), settings=settings)

    def changed(self, form: str, change: Callable[[Any], Any]) -> Iterator["Call"]:
        """For each argument that ``change`` applies to, the call with this argument written in another way."""
        for place, value in enumerate(self.args[1:], 1):
            other = change(value)
            if other is not None:
                yield self.as_form(f"{form} for {place}", args=(*self.args[:place], other, *self.args[place + 1 :]))
        for name, value in self.settings.items():
            other = change(value)
            if other is not None:
                yield self.as_form(f"{form} for {name}", settings={**self.settings, name: other})

    def with_setting(self, name: str, value: Any, *, same: bool) -> "Call":
        """The call with one more setting."""
        return self.as_form(f"{name}={value}", settings={**self.settings, name: value}, same=same)


def _is_sizes(value: Any) -> bool:
    return type(value) in (tuple, list) and bool(value) and all(type(one) is int for one in value)


def _numpy(value: Any) -> Any:
    if _is_sizes(value):
        return type(value)(np.int64(one) for one in value)
    return {int: np.int64, float: np.float64}.get(type(value), lambda _: None)(value)


def _smaller(value: Any) -> Any:
    return {bool: np.bool_, int: np.int32, float: np.float32}.get(type(value), lambda _: None)(value)


def _other_list(value: Any) -> Any:
    return list(value) if type(value) is tuple else tuple(value) if type(value) is list else None


def _whole(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else None


VALUES: dict[str, Callable[[Any], Any]] = {
    "numpy's number": _numpy,
    "numpy's smaller number": _smaller,
    "list or tuple": _other_list,
    "torch.Size": lambda value: torch.Size(value) if _is_sizes(value) else None,
    "a tuple of one": lambda value: (value,) if type(value) is int else None,
    "the one of a tuple": lambda value: value[0] if _is_sizes(value) and len(value) == 1 else None,
    "array": lambda value: np.array(value) if _is_sizes(value) else None,
    "number in a tensor": lambda value: torch.tensor(value) if type(value) in (int, float) else None,
    "whole number": _whole,
}
"""Functions that write a value in another way. They return None if they do not apply to it."""


def forms(call: Call, defaults: dict[str, Any]) -> Iterator[Call]:
    """All forms of a call. torch refuses some of them.

    Args:
        call: as it is.
        defaults: what torch takes for the arguments that are left out.
    """
    yield call
    ways = [call, call.by_position()]
    if len(call.args) <= len(call.names):  # not for a function that takes a list of any length by position
        ways += [call.by_name(first) for first in range(len(call.args))]
    yield from ways[1:]
    for one in ways:
        yield from one.numpys()
        for form, change in VALUES.items():
            yield from one.changed(form, change)
    given = {*call.names[: len(call.args)], *call.settings}
    for name, value in {"out": None, **defaults}.items():
        if name not in given:
            yield call.with_setting(name, value, same=True)
    if "dtype" in defaults and "dtype" not in given:
        yield call.with_setting("dtype", torch.float32, same=False)


@cache
def _overrides() -> dict[Any, Any]:
    return get_testing_overrides()


def _names(parameters: list[Parameter]) -> tuple[str, ...]:
    """The names of the positional parameters, up to one that takes any number of values."""
    names = []
    for one in parameters:
        if one.kind is not Parameter.POSITIONAL_OR_KEYWORD:
            break
        names.append(one.name)
    return tuple(names)


def signatures(function: Any, name: str) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """For each overload of torch's ``function`` the names of its arguments, and the defaults of some."""
    with suppress(TypeError, ValueError):
        parameters = list(signature(function).parameters.values())
        if names := _names(parameters):
            yield names, {one.name: one.default for one in parameters if one.default is not Parameter.empty}
            return  # a Python function: the kernel with its name may have another order
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
    for schema in schemas:
        if "out" not in schema.overload_name:
            names = tuple("input" if one.name == "self" else one.name for one in schema.arguments if not one.kwarg_only)
            yield names, {one.name: one.default_value for one in schema.arguments if one.has_default_value()}
    if not schemas and function in _overrides():
        yield _names(list(signature(_overrides()[function]).parameters.values())), {}


def function_of(library: Any, name: str) -> Any:
    """The function ``name`` of ``library``, such as ``linalg.det``; None if it is not there."""
    for part in name.split("."):
        library = getattr(library, part, None)
    return library


def doors(entry: Any) -> dict[str, tuple[Callable[..., Any], Callable[..., Any]]]:
    """The ways to call an op in torch and in nbgrad: our function, torch's function on our tensors, and the method."""
    theirs, ours = function_of(torch, entry.name), function_of(nbgrad, entry.name)
    found = {}
    if theirs is entry.op:  # otherwise the samples are for a Python function around it
        found["torch's"] = (theirs, theirs)
        if callable(ours):
            found["function"] = (theirs, ours)
    if entry.method_variant is not None and hasattr(torch.Tensor, entry.name):

        def method(tensor: Any, *args: Any, **settings: Any) -> Any:
            return getattr(tensor, entry.name)(*args, **settings)

        found["method"] = (method, method)
    return found


def calls(entry: Any, sample: Any) -> Iterator[Call]:
    """All forms of the sample's call, for each overload of torch's function."""
    name = entry.aten_name or entry.name.replace(".", "_")
    for names, defaults in signatures(function_of(torch, entry.name), name):
        yield from forms(Call((sample.input, *sample.args), dict(sample.kwargs), names), defaults)


def outcome(library: opdb.Library, function: Callable[..., Any], call: Call) -> list[Any]:
    """The result of the call in a library, and the gradients of its arguments. Raises what the call raises."""
    made: dict[int, Any] = {}

    def convert(value: Any) -> Any:
        return made.setdefault(id(value), library.make(value)) if isinstance(value, torch.Tensor) else value

    args, settings = tree_map(convert, (call.args, call.settings))
    torch.manual_seed(0)
    leaves = tree_leaves(function(*args, **settings))
    ends = [one for one in leaves if isinstance(one, library.kind) and one.requires_grad]
    inputs = [one for one in made.values() if one.requires_grad]
    values = [opdb.resolved(library.raw(one)) if isinstance(one, library.kind) else one for one in leaves]
    if not ends or not inputs:
        return values
    starts = [library.make(opdb.drawn(library.raw(end), 2)) for end in ends]
    grads = library.grad(ends, inputs, starts, allow_unused=True)
    return values + [
        torch.zeros_like(library.raw(one)) if grad is None else opdb.resolved(library.raw(grad))
        for one, grad in zip(inputs, grads, strict=True)
    ]


def difference(both: tuple[Callable[..., Any], Callable[..., Any]], call: Call, plain: Call) -> str:
    """How nbgrad differs from torch in one call; empty if it does not.

    nbgrad may accept a form that torch's parser refuses, if the result is that of the unchanged call.
    """
    theirs, ours = both
    refused = None
    try:
        expected = outcome(opdb.TORCH, theirs, call)
    except Exception as error:  # torch's parser, or the op itself
        refused = error
        if not call.same:
            expected = []
        else:
            try:
                expected = outcome(opdb.TORCH, theirs, plain)
            except Exception:
                return ""  # torch has no such call
    try:
        found = outcome(opdb.NBGRAD, ours, call)
    except Exception as error:
        return "" if refused is not None else f"{type(error).__name__}: {opdb.one_line(error)}"
    if refused is not None and not call.same:
        return f"torch refuses it: {opdb.one_line(refused)}"
    try:
        single = any(one is torch.float32 for one in tree_leaves((call.args, call.settings)))
        opdb.close(found, expected, SINGLE if single else None)
    except AssertionError as error:
        return opdb.one_line(error)
    return ""
