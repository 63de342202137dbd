"""Python text of what a program calls and of its arguments, such that it means the same in a file of its own."""

import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from inspect import unwrap
from math import isfinite
from typing import Any

import torch

from nbgrad.core.symbolic.ir import ProgramStep, Value, name_of
from nbgrad.core.symbolic.naming import Names
from nbgrad.core.symbolic.numbers import Number
from nbgrad.core.symbolic.replay import OPERATORS

_BINARY = {
    **{f"__{name}__": sign for name, sign in (("add", "+"), ("sub", "-"), ("mul", "*"), ("matmul", "@"))},
    **{f"__{name}__": sign for name, sign in (("truediv", "/"), ("div", "/"), ("floordiv", "//"), ("mod", "%"))},
    **{f"__{name}__": sign for name, sign in (("pow", "**"), ("and", "&"), ("or", "|"), ("xor", "^"))},
    **{f"__{name}__": sign for name, sign in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="))},
    **{f"__{name}__": sign for name, sign in (("gt", ">"), ("ge", ">="), ("lshift", "<<"), ("rshift", ">>"))},
}
_SWAPPED = {f"__r{name[2:]}": sign for name, sign in _BINARY.items()}
_SWAPPED["rsub"] = "-"
_UNARY = {"neg": "-", "__neg__": "-", "__invert__": "~"}

_WIDTH = 110
"""The length from which on a call takes a line for each argument."""

_SETTING = re.compile(r"\['(\w+)'\](?:\[(\d+)\])?$")


class NoText(TypeError):
    """An argument cannot be written as Python text."""


class Expressions:
    """Writes calls and arguments, and collects what they need.

    Attributes:
        imports: the import statements and short names that the text needs.
        objects: what cannot be written, by the name that stands for it.
        settings: the settings of optimizers, each by its name: the expression that reads it, and its value.
    """

    def __init__(self, names: Names) -> None:
        self.imports: set[str] = {"import torch"}
        self.objects: dict[str, Any] = {}
        self.settings: dict[str, tuple[str, float]] = {}
        self._names = names
        self._values: dict[int, str] = {}
        self._objects: dict[int, str] = {}
        self._settings: dict[str, str] = {}
        self._inline: dict[int, str] = {}

    def name(self, value: Value) -> str:
        """The variable of a value."""
        known = self._values.get(id(value))
        if known is None:
            known = self._values[id(value)] = self._names.fresh(value.name or f"t{value.number}")
        return known

    def write_inline(self, value: Value, text: str) -> None:
        """Let ``text`` stand for a value."""
        self._inline[id(value)] = text

    def row(self, name: str, args: Sequence[Any], settings: dict[str, Any], hidden: bool) -> str:
        """A call of a row of the op table.

        Raises:
            NoText: an argument cannot be written.
        """
        parts = [self.literal(one, strict=True) for one in args]
        parts += [f"{key}={self.literal(one, strict=True)}" for key, one in settings.items()]
        self.imports.add("from nbgrad.extend import ops")
        return _call(f"ops.{name}" + (".forward" if hidden else ""), parts)

    def step(self, step: ProgramStep) -> str:
        """A call of a torch function, as a statement or as the right side of an assignment."""
        return self.operator(step) or self._plain(step)

    def of_row(self, step: ProgramStep, args: Sequence[Any]) -> str | None:
        """The operator or index that replaces a call of a row with these arguments, if ``step`` is its only step."""
        name = name_of(step.function)
        taken = step.args[:1] if name == "__getitem__" else step.args[::-1] if name in _SWAPPED else step.args
        known = name in OPERATORS or name in _BINARY or name in _SWAPPED or name in _UNARY or name == "__getitem__"
        same = len(args) == len(taken) and all(map(_is_same, args, taken))
        return self.operator(step) if known and same else None

    def operator(self, step: ProgramStep) -> str | None:  # noqa: PLR0911  # a case for each form
        """A call as an operator or an index; None if it is neither."""
        name, args = name_of(step.function), step.args
        if step.kwargs or not args or not isinstance(args[0], Value):
            return None
        function = step.function
        if getattr(function, "__name__", "") in ("__get__", "__set__"):  # of a property, as ``Tensor.T``
            target = f"{self.literal(args[0])}.{name}"
            return target if len(args) == 1 or function.__name__ == "__get__" else f"{target} = {self.literal(args[1])}"
        if len(args) == 1 and name in _UNARY:
            return f"{_UNARY[name]}{self.literal(args[0])}"
        if name in ("__getitem__", "__setitem__"):
            target = f"{self.literal(args[0])}[{self._index(args[1])}]"
            return target if name == "__getitem__" else f"{target} = {self.literal(args[2])}"
        if len(args) != 2 or isinstance(args[1], str):
            return None
        left, right = self._operand(args[0]), self._operand(args[1])
        if sign := OPERATORS.get(name) or _BINARY.get(name):
            return f"{left} {sign} {right}"
        if sign := _SWAPPED.get(name):
            return f"{right} {sign} {left}"
        return None

    def _operand(self, given: Any) -> str:
        text = self.literal(given)
        alone = text.isidentifier() or not (text.startswith("-") or isinstance(given, Number))
        return text if alone else f"({text})"

    def _index(self, given: Any) -> str:
        if type(given) is tuple and given:
            return ", ".join(map(self._index_part, given)) + ("," if len(given) == 1 else "")
        return self._index_part(given)

    def _index_part(self, given: Any) -> str:
        if not isinstance(given, slice):
            return self.literal(given)
        start, stop, step = ("" if one is None else self.literal(one) for one in (given.start, given.stop, given.step))
        return f"{start}:{stop}" + (f":{step}" if step else "")

    def _plain(self, step: ProgramStep) -> str:
        parts = [self.literal(one) for one in step.args]
        parts += [f"{key}={self.literal(one)}" for key, one in step.kwargs.items()]
        text = _text_of(step.function)
        if text is None:
            text = self._imported(step.function) or self._object(step.function, name_of(step.function))
        elif (
            text.startswith("torch.Tensor.")
            and step.args
            and isinstance(step.args[0], Value)
            and parts[0].isidentifier()
        ):
            return _call(f"{parts[0]}.{text.removeprefix('torch.Tensor.')}", parts[1:])
        return _call(self._shortened(text), parts)

    def _imported(self, function: Callable[..., Any]) -> str | None:
        """The name of a function of nbgrad that a rule calls, which the text imports; None if no module has it."""
        known = self._objects.get(id(function))
        if known is not None:
            return known
        module, name = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
        found = getattr(sys.modules.get(module), name, None)
        if not module.startswith("nbgrad.") or found is None or unwrap(found) is not unwrap(function):
            return None
        known = self._objects[id(function)] = self._names.fresh(name)
        self.imports.add(f"from {module} import {name}" + (f" as {known}" if known != name else ""))
        return known

    def _shortened(self, text: str) -> str:
        for prefix, short, statement in _SHORT:
            if text.startswith(f"{prefix}."):
                self.imports.add(statement)
                return short + text.removeprefix(prefix)
        return text

    def literal(self, given: Any, strict: bool = False) -> str:  # noqa: PLR0911  # a case for each type
        """An argument as Python text. One without text becomes an argument of the program, or an error if ``strict``.

        Raises:
            NoText: it has no text.
        """
        if isinstance(given, Value):
            return self._inline.get(id(given)) or self.name(given)
        if isinstance(given, Number):
            return self._number(given)
        if strict and isinstance(given, tuple) and type(given) not in (tuple, torch.Size):
            raise NoText(type(given))
        if isinstance(given, list):
            return f"[{', '.join(self.literal(one, strict) for one in given)}]"
        if isinstance(given, tuple):
            return f"({', '.join(self.literal(one, strict) for one in given)}{',' if len(given) == 1 else ''})"
        if isinstance(given, dict):
            return "{" + ", ".join(f"{plain(key)}: {self.literal(one, strict)}" for key, one in given.items()) + "}"
        if type(given) is slice:
            return f"slice({', '.join(self.literal(one, strict) for one in (given.start, given.stop, given.step))})"
        if (text := plain(given)) is not None:
            return text
        if strict:
            raise NoText(type(given))
        return self._object(given, type(given).__name__)

    def _object(self, given: Any, name: str) -> str:
        known = self._objects.get(id(given))
        if known is None:
            known = self._objects[id(given)] = self._names.fresh(name)
            self.objects[known] = given
        return known

    def _number(self, given: Number) -> str:
        text = given.text
        for setting, value in sorted(given.settings.items(), key=lambda one: -len(one[0])):
            name = self._settings.get(setting)
            if name is None:
                name = self._settings[setting] = self._names.fresh(name_of_setting(setting))
                self.settings[name] = (setting, value)
            text = text.replace(setting, name)
        return re.sub(r"(?<![\w.])(inf|nan)\b", r"torch.\1", text)


def name_of_setting(text: str) -> str:
    """A name for a setting of an optimizer: ``lr`` of ``Adam.param_groups[0]['lr']``."""
    found = _SETTING.search(text)
    return "_".join(part for part in found.groups() if part) if found else "setting"


_SHORT = (
    ("torch.nn.functional", "F", "import torch.nn.functional as F"),
    ("torch.ops.aten", "aten", "aten = torch.ops.aten"),
)
"""Long names, the short ones that stand for them, and the statements that make these."""


def plain(given: Any) -> str | None:  # noqa: PLR0911  # a case for each type
    """A constant as Python text; None if it has none."""
    if given is None or type(given) in (bool, int):
        return repr(given)
    if type(given) is str:
        text = repr(given)
        return text if '"' in text or "\\" in text else f'"{given}"'
    if given is Ellipsis:
        return "..."
    if isinstance(given, int):
        return repr(int(given))
    if isinstance(given, float):
        number = float(given)
        return repr(number) if isfinite(number) else f"{'-' if number < 0 else ''}torch.{repr(number).lstrip('-')}"
    if type(given) is complex:
        return repr(given) if isfinite(given.real) and isfinite(given.imag) else None
    if isinstance(given, torch.dtype | torch.layout | torch.memory_format):
        return str(given)
    if isinstance(given, torch.device):
        return f"torch.device({str(given)!r})"
    return None


def _call(function: str, parts: list[str]) -> str:
    text = f"{function}({', '.join(parts)})"
    if len(text) <= _WIDTH:
        return text
    return f"{function}(\n" + "".join(f"        {part},\n" for part in parts) + "    )"


@lru_cache(1)
def _public() -> dict[int, tuple[str, Any]]:
    """The functions in torch's public modules: for each the name by which a program calls it, by its id."""
    places = (
        ("torch", torch),
        ("torch.Tensor", torch.Tensor),
        ("torch.nn.functional", torch.nn.functional),
        ("torch.linalg", torch.linalg),
        ("torch.fft", torch.fft),
        ("torch.special", torch.special),
    )
    found: dict[int, tuple[str, Any]] = {}
    for path, place in places:
        for name in dir(place):
            one = getattr(place, name, None)
            if callable(one) and not isinstance(one, type):
                known = found.get(id(one))
                own = getattr(one, "__name__", "") == name
                if known is None or (own and known[0].startswith(f"{path}.")):
                    found[id(one)] = (f"{path}.{name}", one)
    return found


def _text_of(function: Callable[..., Any]) -> str | None:
    """The expression that gives a function of torch in any module; None if there is none."""
    if isinstance(function, torch._ops.OpOverload):
        return f"torch.ops.{function}"
    if isinstance(function, torch._ops.OpOverloadPacket):
        return f"torch.ops.{function!s}"
    known = _public().get(id(function))
    if known is not None and known[1] is function:
        return known[0]
    name = getattr(function, "__name__", "")
    for path in (
        "torch.Tensor",
        "torch",
        "torch._C._nn",
        "torch._C._linalg",
        "torch._C._fft",
        "torch._C._special",
        "torch._VF",
    ):
        if _at(f"{path}.{name}") is function:
            return f"{path}.{name}"
    path = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"
    return path if path.startswith("torch.") and _at(path) is function else None


def _at(path: str) -> Any:
    """The object at the attribute path; None if there is none."""
    found: Any = torch
    for name in path.split(".")[1:]:
        found = getattr(found, name, None)
    return found


def _is_same(one: Any, other: Any) -> bool:
    """Whether two arguments are one value, or equal numbers."""
    return one is other or (type(one) in (bool, int, float) and type(one) is type(other) and one == other)
