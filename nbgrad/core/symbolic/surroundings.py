"""``Surroundings``: the variables and objects around a function on which a trace of it depends."""

import dis
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from decimal import Decimal
from functools import partial, partialmethod
from numbers import Number
from operator import __all__ as operators, is_
from types import BuiltinMethodType, CodeType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.engine.call_site import in_library
from nbgrad.core.engine.node import TensorBase
from nbgrad.core.engine.user_names import is_module

_COMPARED = (Number, np.generic, str, bytes, type(None), torch.Size, torch.device, range, slice)
"""The types whose values are compared. Any other value has to be the same object."""

_BY_TEXT = (float, complex, np.inexact, Decimal)
"""The types of numbers that may be equal and still differ, as 0.0 and -0.0, or unequal to themselves, as NaN."""

_CALLED_BY_PYTHON = frozenset(
    {
        *(f"__{name.strip('_')}__" for name in operators if name not in ("eq", "ne")),
        *("__bool__", "__call__", "__enter__", "__exit__", "__iter__", "__len__", "__getattr__", "forward"),
    }
)
"""Methods that code runs without naming them."""

_OPERATORS = _CALLED_BY_PYTHON - {"forward", "__call__"}
_HEAP_TYPE = 1 << 9

_NOT_FOLLOWED = (TensorBase, torch.Tensor, torch.optim.Optimizer, np.ndarray, FunctionType, MethodType)
"""Attributes of these are not looked at: other code compares tensors, optimizers and arrays, and reads functions."""

_GONE: Any = object()
_MOST = 10_000


class Sight(NamedTuple):
    """Something that a function finds around it.

    Attributes:
        name: how the function's code calls it, such as "config.scale".
        value: what it was.
    """

    name: str
    value: Any


class Surroundings:
    """The objects that a function, and the functions and modules that it calls, use from outside.

    These are global variables and those of functions around, and what can be read from them: attributes whose names are
    in the code, and entries of lists, tuples, dicts and sets. The code of libraries is not looked at, but its objects
    are, if the function holds them.

    Args:
        function: the function.
        modules: modules that it is known to call, and optimizers.

    Attributes:
        seen: all that was found, each object once.
    """

    def __init__(self, function: Any, modules: Iterable[Any] = ()) -> None:
        self.seen: list[Sight] = []
        self._watched: list[tuple[Callable[[Any, Any], Any], Any, str, Any]] = []
        self._entries: list[tuple[Any, str, list[Any]]] = []
        self._arrays: list[tuple[str, Any]] = []
        self._numbers: list[Any] = []
        self._codes: list[tuple[FunctionType, CodeType]] = []
        self._kinds: list[tuple[Any, type]] = []
        self._hooks: list[tuple[str, Mapping[Any, Any], list[Any]]] = []
        self._attributes = set(_CALLED_BY_PYTHON)
        self._asked: set[str] = set()
        self._all_of = False
        self._functions: dict[int, FunctionType] = {}
        self._objects: dict[int, Sight] = {}
        self._read: set[tuple[Any, ...]] = set()
        self._look(getattr(function, "__name__", type(function).__name__), function)
        for module in modules:
            self._look(type(module).__name__, module)
        self._complete()

    def keep_numbers(self) -> None:
        """Copy the numbers of the arrays of numpy that were found: ``change`` compares them."""
        self._numbers = [array.copy() for _, array in self._arrays]

    def change(self) -> str | None:
        """Why a trace does not hold any more; None if it does. Ask after ``keep_numbers``."""
        for read, key, name, value in self._watched:
            now = read(key, _GONE)
            if now is not value and differs(now, value):
                return change_of(name, now, value)
        for container, name, entries in self._entries:
            listed = _listed(container)
            if not all(map(is_, listed, entries)) or len(listed) != len(entries):
                changed = _changed_entry(container, name, listed, entries)
                if changed is not None:
                    return changed
        return self._other_code() or (self._other_numbers() if self._arrays else None)

    def _other_code(self) -> str | None:
        for function, code in self._codes:
            if function.__code__ is not code:
                return f"the function {function.__name__} has another code"
        for name, hooks, before in self._hooks:
            if (hooks or before) and list(hooks.items()) != before:
                return f"a hook was added to {name}, or taken from it"
        for owner, kind in self._kinds:
            if owner.__class__ is not kind:
                return f"an object of {kind.__name__} is one of {owner.__class__.__name__} now"
        return None

    def _other_numbers(self) -> str | None:
        for (name, array), numbers in zip(self._arrays, self._numbers, strict=True):
            same = np.array_equal(array, numbers, equal_nan=array.dtype.kind in "fc")
            if not same or (array.dtype.kind in "fc" and not _same_signs(array, numbers)):
                return f"the array {name} has other numbers: make it a tensor, whose numbers are read anew"
        return None

    def modules(self) -> list[Any]:
        """The modules of nbgrad that were found, with those inside of them."""
        found = (one.value for one in self.seen if _is_ours(one.value))
        return list({id(inner): inner for outer in found for inner in outer.modules()}.values())

    # ------------------------------------------------------------------------------------------- looking around

    def _complete(self) -> None:
        """Follow the objects found by the attributes that the code names, until nothing new is found.

        An attribute may lead to a method, whose code names others.
        """
        followed = 0, 0
        while followed != (len(self._objects), len(self._attributes)):
            followed = len(self._objects), len(self._attributes)
            for one in list(self._objects.values()):
                self._follow(one)

    def _look(self, name: str, value: Any) -> None:
        """See something for the first time, or again."""
        if isinstance(value, _COMPARED) or value is _GONE or id(value) in self._objects:
            return
        if len(self._objects) > _MOST:
            raise RuntimeError(
                f"the function uses {name}, and more than {_MOST} objects around it, which a program would compare in "
                "each call: give the function what it needs as arguments"
            )
        self._objects[id(value)] = sight = Sight(name, value)
        self.seen.append(sight)
        for function in _functions_of(value):
            self._scan(function)
        if isinstance(value, MethodType | BuiltinMethodType) and not isinstance(value.__self__, ModuleType):
            self._look(name.rpartition(".")[0] or type(value.__self__).__name__, value.__self__)
        elif isinstance(value, partial | partialmethod):
            self._contain(f"{name}.args", value.args)
            self._contain(f"{name}.keywords", value.keywords)
        elif isinstance(value, np.ndarray):
            self._arrays.append((name, value))
        elif is_module(value):
            for module in value.modules():
                self._look(type(module).__name__, module)
        elif isinstance(value, Mapping | Sequence | Set):
            self._contain(name, value)

    def _contain(self, name: str, container: Any) -> None:
        """Look at the entries of a container."""
        entries = _listed(container)
        if not entries and isinstance(container, tuple):
            return  # it stays empty
        self._entries.append((container, name, entries))
        keys = [*container] if isinstance(container, Mapping) else range(len(entries))
        values = entries[-len(keys) :] if keys else ()
        for key, value in zip(keys, values, strict=True):
            self._look(f"{name}[{key!r}]", value)

    def _scan(self, function: FunctionType) -> None:
        """Look at the variables from around a function, and note the attributes that its code names."""
        if id(function) in self._functions or in_library(function.__code__.co_filename):
            return
        self._functions[id(function)] = function
        self._codes.append((function, function.__code__))
        space = function.__globals__
        if _by_text(function.__code__, {"globals"}, self._asked):
            self._contain("globals()", space)
        self._all_of |= _by_text(function.__code__, {"vars", "__dict__"}, self._asked)
        self._attributes |= self._asked
        named = [name for name in self._asked if name in space or "globals" in function.__code__.co_names]
        for name in (*_global_names(function.__code__, self._attributes), *named):
            self._variable(space, space, name, name, space.get(name, _GONE))  # it may come to hide a builtin function
        defaults = f"the defaults of {function.__name__}"
        for asked, held in (("argcount", "__defaults__"), ("kwonlyargcount", "__kwdefaults__")):
            if getattr(function.__code__, f"co_{asked}"):
                self._watched.append((partial(getattr, function), held, defaults, getattr(function, held)))
        self._contain(defaults, function.__defaults__ or ())
        self._contain(defaults, function.__kwdefaults__ or ())
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            value = _content(cell, None, _GONE)
            if value is not _GONE and (id(cell), None) not in self._read:
                self._read.add((id(cell), None))
                self._watch(partial(_content, cell), None, name, value)

    def _watch(self, read: Callable[[Any, Any], Any], key: Any, name: str, value: Any) -> None:
        """Compare in each call what ``read(key, default)`` gives."""
        self._watched.append((read, key, name, value))
        self._look(name, value)

    def _variable(self, owner: Any, space: Mapping[str, Any], key: str, name: str, value: Any) -> None:
        """Compare ``space[key]``, which belongs to ``owner``, in each call."""
        if (id(owner), key) not in self._read:
            self._read.add((id(owner), key))
            self._watch(space.get, key, name, value)

    def _follow(self, sight: Sight) -> None:
        """Look at the attributes of an object that the code names."""
        name, value = sight
        if isinstance(value, torch.optim.Optimizer):
            self._methods_of(value, name)
        if isinstance(value, _NOT_FOLLOWED):
            return
        if isinstance(value, ModuleType):
            if is_library(value):
                self._functions_in(value, value.__dict__, name)
            else:
                self._attributes_in(value.__dict__, name)
        elif isinstance(value, type):
            for kind in value.__mro__:
                self._class_attributes(kind, name)
        else:
            self._follow_object(name, value)

    def _follow_object(self, name: str, value: Any) -> None:
        """The same for an object that is no class and no module of Python's."""
        own = getattr(value, "__dict__", {})
        ours = _is_ours(value)
        self._keep_kind(value)
        if is_module(value) and not ours:
            self._settings_of(own, name)
        self._attributes_in(own, name, counted=ours)
        if not is_module(value) and isinstance(own, dict):
            for key in self._asked:
                if key not in own and not hasattr(type(value), key):
                    self._variable(own, own, key, f"{name}.{key}", _GONE)  # it may come to have it
            if self._all_of and (id(own), None) not in self._read:
                self._read.add((id(own), None))
                self._contain(f"vars({name})", own)
        self._classes_of(name, value)
        if hasattr(type(value), "__getattr__") and not is_module(value):
            for key in self._attributes - _CALLED_BY_PYTHON:
                if key not in own and not hasattr(type(value), key):
                    self._compute(value, key, name)

    def _keep_kind(self, value: Any) -> None:
        """Compare the class of an object, unless a module of nbgrad's counts the changes of it."""
        if not _is_ours(value) and hasattr(value, "__dict__") and (id(value), "__class__") not in self._read:
            self._read.add((id(value), "__class__"))
            self._kinds.append((value, type(value)))

    def _methods_of(self, optimizer: Any, name: str) -> None:
        """Compare the methods of an optimizer that the code names, and those that they call."""
        own = vars(optimizer)
        if (id(optimizer), "hooks") not in self._read:
            self._read.add((id(optimizer), "hooks"))
            for hooks in (optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks):
                self._hooks.append((name, hooks, list(hooks.items())))
        for key in self._attributes - _CALLED_BY_PYTHON | {"update"}:
            if self._resolve(type(optimizer), key):
                self._variable(own, own, key, f"{name}.{key}", own.get(key, _GONE))

    def _classes_of(self, name: str, value: Any) -> None:
        """Look at the classes of an object, and at their methods that the code names."""
        for kind in type(value).__mro__:
            self._class_attributes(kind, name, value)
            if kind.__flags__ & _HEAP_TYPE:  # others cannot be changed
                for key in (self._attributes - _OPERATORS).intersection(kind.__dict__):
                    self._resolve(type(value), key)

    def _resolve(self, kind: type, key: str) -> bool:
        """Compare a method or property of a class, its own or that of a base. Whether there is one."""
        value = next((vars(one)[key] for one in kind.__mro__ if key in vars(one)), None)
        if not isinstance(value, FunctionType | property):
            return False
        if (id(kind), key, "resolved") not in self._read:
            self._read.add((id(kind), key, "resolved"))
            self._watched.append((partial(getattr, kind), key, f"{kind.__name__}.{key}", value))
        return True

    def _functions_in(self, owner: Any, space: Mapping[str, Any], name: str) -> None:
        """Compare functions of a library that the code names: a user may replace one."""
        for key in (self._attributes - _OPERATORS).intersection(space):
            if isinstance(space[key], ModuleType):
                self._look(f"{name}.{key}", space[key])
            elif callable(space[key]) and (id(owner), key) not in self._read:
                self._read.add((id(owner), key))
                self._watched.append((space.get, key, f"{name}.{key}", space[key]))

    def _attributes_in(self, space: dict[str, Any], name: str, counted: bool = False) -> None:
        """Look at the attributes in ``space``. If their changes are ``counted``, none is compared."""
        for key in self._attributes.intersection(space):
            if counted:
                self._look(f"{name}.{key}", space[key])
            else:
                self._variable(space, space, key, f"{name}.{key}", space[key])

    def _settings_of(self, space: dict[str, Any], name: str) -> None:
        """Look at all settings of a module of torch's, whose own code reads them."""
        for key, value in space.items():
            if isinstance(value, _COMPARED):
                self._variable(space, space, key, f"{name}.{key}", value)

    def _class_attributes(self, kind: type, name: str, owner: Any = None) -> None:
        """Look at the attributes of a class of the user's, and at the methods that the code names.

        Args:
            kind: the class.
            name: of what has the attributes.
            owner: the object of that class; None for the class itself.
        """
        if is_library(sys.modules.get(kind.__module__)):
            return
        for key in self._attributes.intersection(kind.__dict__):
            value = kind.__dict__[key]
            if not isinstance(value, MemberDescriptorType):
                inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
                own = getattr(owner, "__dict__", None)
                if own is not None and key not in own and not (_is_ours(owner) or hasattr(value, "__set__")):
                    self._variable(own, own, key, f"{name}.{key}", _GONE)  # the object may come to hide it
                self._variable(kind, kind.__dict__, key, f"{kind.__name__}.{key}", value)
                self._look(f"{kind.__name__}.{key}", inner)
            elif owner is not None:
                self._compute(owner, key, name)

    def _compute(self, owner: Any, key: str, name: str) -> None:
        """Look at an attribute that lies in no dict: one of ``__slots__``, or of ``__getattr__``."""
        if (id(owner), key) not in self._read:
            self._read.add((id(owner), key))
            value = _attribute(owner, key, _GONE)
            self._watch(partial(_attribute, owner), key, f"{name}.{key}", value)


def _is_ours(given: Any) -> bool:
    """Whether it is a module of nbgrad's, which counts changes of its attributes."""
    return is_module(given) and not isinstance(given, torch.nn.Module)


def _functions_of(given: Any) -> Iterator[FunctionType]:
    """The functions that a call of something runs, as far as they are written in Python."""
    made: list[Any] = [given]
    if is_module(given):
        made = [getattr(type(given), "forward", None)]
    elif isinstance(given, property):
        made = [given.fget]
    elif isinstance(given, partial | partialmethod):
        made = [given.func]
    elif isinstance(given, type):
        made = [given.__dict__.get("__init__")]
    while made:
        one = made.pop()
        one = one.__func__ if isinstance(one, MethodType | classmethod | staticmethod) else one
        if isinstance(one, FunctionType):
            yield one
        if (inner := getattr(one, "__wrapped__", None)) is not None:
            made.append(inner)


_VARIABLE_STEPS = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
_ATTRIBUTE_STEPS = ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "STORE_ATTR", "DELETE_ATTR")
"""Instructions of Python. A program does not store what the function stores: it holds while that is there already."""


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of all functions inside of it."""
    yield code
    for one in reversed(code.co_consts):
        if isinstance(one, CodeType):
            yield from codes_in(one)


def _global_names(code: CodeType, attributes: set[str]) -> list[str]:
    """The global variables that a function uses. The attributes that it names are added to ``attributes``."""
    names: dict[str, None] = {}
    for one in codes_in(code):
        for step in dis.get_instructions(one):
            if step.opname in _VARIABLE_STEPS:
                names[step.argval] = None
            elif step.opname in _ATTRIBUTE_STEPS:
                attributes.add(step.argval)
    return list(names)


def _by_text(code: CodeType, dicts: set[str], asked: set[str]) -> bool:
    """Whether code looks into ``vars(...)`` or the like in another way than by a text that stands in it.

    Args:
        code: of a function, with the functions inside of it.
        dicts: the names of what gives variables as a dict.
        asked: the texts that may be names are added.
    """
    found = False
    for one in codes_in(code):
        if not _TEXTUAL.isdisjoint(one.co_names):
            asked.update(name for name in one.co_consts if isinstance(name, str) and name.isidentifier())
        if dicts.isdisjoint(one.co_names):
            continue
        steps = [step for step in dis.get_instructions(one) if step.opname not in ("CACHE", "PUSH_NULL", "PRECALL")]
        for place, step in enumerate(steps):
            if step.argval in dicts and step.opname.startswith("LOAD_"):
                found |= not _takes_text(steps[place:])
    return found


def _takes_text(steps: list[dis.Instruction]) -> bool:
    """Whether the first of these instructions gives a dict, of which the next ones take the entry of a text."""
    rest = steps[1:]
    if steps[0].argval != "__dict__":  # a function, whose argument comes first
        calls = (at for at, step in enumerate(rest) if step.opname.startswith("CALL"))
        rest = rest[next(calls, len(rest)) + 1 :]
    ends: tuple[str, ...] = ("BINARY_SUBSCR",)
    if rest and rest[0].argval == "get":
        del rest[0]
        ends = ("CALL", "LOAD_")  # that of a default follows
    if len(rest) < 2 or rest[0].opname != "LOAD_CONST" or not isinstance(rest[0].argval, str):
        return False
    return rest[1].opname.startswith(ends) or rest[1].argrepr == "[]"


_TEXTUAL = frozenset(("getattr", "hasattr", "vars", "globals", "__dict__", "attrgetter", "eval", "exec"))
"""Functions that take the name of a variable or attribute as a text, and the attribute that does."""


def is_library(module: Any) -> bool:
    """Whether a module of Python's is part of a library."""
    file = getattr(module, "__file__", None)
    if file is None:
        return getattr(module, "__name__", "") in sys.builtin_module_names
    return in_library(file)


def _content(cell: Any, _: None, default: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return default


def _listed(container: Any) -> list[Any]:
    """The entries of a container, of a dict its keys and then its values."""
    return [*container, *container.values()] if isinstance(container, Mapping) else [*container]


def _attribute(owner: Any, key: str, default: Any) -> Any:
    try:
        return getattr(owner, key)
    except Exception:  # a ``__getattr__`` of the user's may raise anything
        return default


def _same_signs(one: Any, other: Any) -> bool:
    """Whether the zeros of two equal arrays have the same signs."""
    return np.array_equal(np.signbit(one.real), np.signbit(other.real)) and np.array_equal(
        np.signbit(one.imag), np.signbit(other.imag)
    )


def differs(now: Any, value: Any) -> bool:
    """Whether two objects differ: they are not the same object, nor equal values of a type that is compared."""
    if now is value:
        return False
    if type(now) is not type(value):
        return True
    if isinstance(value, _BY_TEXT):
        return repr(now) != repr(value)
    if isinstance(value, _COMPARED):
        return bool(now != value)
    return type(value) is not tuple or len(now) != len(value) or any(map(differs, now, value))


def change_of(name: str, now: Any, value: Any) -> str:
    """The change, as a reason for another trace."""
    if now is _GONE:
        return f"{name} is gone"
    if isinstance(value, _COMPARED) and isinstance(now, _COMPARED):
        return f"{name} is {now!r}, was {value!r}: give the function a tensor to have one program for both"
    return f"{name} is another {type(now).__name__}"


def _changed_entry(container: Any, name: str, listed: list[Any], entries: list[Any]) -> str | None:
    """The change of the first entry that has changed, as a reason; None if all are equal to the old ones."""
    if len(listed) != len(entries):
        return f"{name} has another number of entries"
    keys = len(listed) // 2 if isinstance(container, Mapping) else 0
    for position, (now, value) in enumerate(zip(listed, entries, strict=True)):
        if differs(now, value):
            if position < keys:
                return f"{name} has other keys"
            return change_of(f"{name}[{listed[position - keys] if keys else position!r}]", now, value)
    return None
