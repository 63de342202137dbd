"""``isinstance(t, torch.Tensor)`` is true for our tensors, in code that was written for torch's.

Such code calls ``isinstance`` before it uses an object as a tensor. If the type of the object says no, Python asks the
object for its ``__class__``, and our tensors answer with torch's. nbgrad itself, and torch where it needs a tensor of
its own, get the true class: for them, an instance of ``torch.Tensor`` has to be a real one.

Torch's parts in C++ ask in the same way, and then read the memory of a tensor of their own, which ours do not have. So
our tensors answer with torch's class only to a call of ``isinstance`` in Python. The bytecode of the call says
for which classes it asks.
"""

import builtins
import types
from collections.abc import Callable
from dis import Instruction, get_instructions
from functools import partial
from sys import _getframe
from types import CodeType, FrameType
from typing import Any
from weakref import ref

import torch

_TRUE: Any = object.__dict__["__class__"]
"""Where Python keeps the class of an object."""

_BY_DEVICE: Any = type(torch.FloatTensor)
"""The class of ``torch.FloatTensor`` and the like. They are written in C++, and read the memory of what they get."""


_ANSWER = {("torch", "is_tensor"), ("torch._jit_internal", "_isinstance"), ("torch._jit_internal", "container_checker")}
"""Functions of torch's that answer the question for others: ``torch.is_tensor`` and ``torch.jit.isinstance``."""


class _Answer:
    """The attribute ``__class__`` of a class of ours: torch's class for code that asks for it, else the true one."""

    def __init__(self, theirs: type) -> None:
        self.theirs = theirs

    def __get__(self, one: Any, kind: type) -> Any:
        frame = _getframe(1)
        if frame.f_globals.get("__name__", "").startswith("nbgrad."):  # most often: it should cost little
            return kind
        return self.theirs if _asks(frame) else kind

    def __set__(self, one: Any, kind: type) -> None:
        _TRUE.__set__(one, kind)


def _asks(frame: FrameType) -> bool:
    """Whether the frame runs ``isinstance``, with classes that ours may pass for, in code that does not know ours."""
    asker: str = frame.f_globals.get("__name__", "")
    if not asker.startswith(("torch", "nbgrad")):
        return _calls_isinstance(frame)
    if asker == "torch.nn.parameter" and frame.f_code.co_name == "__instancecheck__":  # a call of isinstance runs it
        behind = frame.f_back
        return behind is not None and not _is_torchs(behind) and _calls_isinstance(behind)
    if (asker, frame.f_code.co_name) in _ANSWER:
        behind = frame.f_back
        while behind is not None and behind.f_globals.get("__name__") in {"torch.jit", "torch._jit_internal"}:
            behind = behind.f_back
        return behind is not None and not _is_torchs(behind) and _calls_isinstance(frame)
    return not _is_torchs(frame) and _calls_isinstance(frame)


def _is_torchs(frame: FrameType) -> bool:
    """Whether the frame runs code of torch's that takes no tensor but its own, or of nbgrad's."""
    package, _, rest = frame.f_globals.get("__name__", "").partition(".")
    return package == "nbgrad" or (package == "torch" and not rest.startswith("distributions"))


_Read = Callable[[FrameType], Any]

_sites: dict[tuple[int, int], tuple[ref[CodeType], _Read | None]] = {}
"""By the id of the code and the place in it: whether ``isinstance`` is called there, and how its classes are found."""


def _calls_isinstance(frame: FrameType) -> bool:
    code, place = frame.f_code, frame.f_lasti
    known = _sites.get((id(code), place))
    if known is None or known[0]() is not code:
        known = _sites[id(code), place] = ref(code), _classes_at(code, place)
    read = known[1]
    if read is None or frame.f_globals.get("isinstance", isinstance) is not isinstance:
        return False
    try:
        classes = read(frame)
    except (AttributeError, KeyError, TypeError):
        return False
    return _may_pass(classes)


def _may_pass(classes: Any) -> bool:
    if isinstance(classes, tuple):
        return all(map(_may_pass, classes))
    if isinstance(classes, types.UnionType):
        return all(map(_may_pass, classes.__args__))
    return isinstance(classes, type) and not isinstance(classes, _BY_DEVICE)


def _classes_at(code: CodeType, place: int) -> _Read | None:
    """How to find the second argument of the ``isinstance`` that is called there; None where another thing is done."""
    before: list[Instruction] = []
    for one in get_instructions(code):
        if one.offset == place:
            break
        before.append(one)
    else:
        return None
    if one.opname not in {"CALL", "PRECALL"} or one.arg != 2 or one.positions is None:
        return None
    begins = one.positions[0], one.positions[2]
    if None in begins:
        return None
    named = any(
        was.argval == "isinstance"
        and was.opname.startswith("LOAD_")
        and was.positions is not None
        and (was.positions[0], was.positions[2]) == begins
        for was in before
    )
    return _reader(before) if named else None


_SILENT = {"CACHE", "EXTENDED_ARG", "KW_NAMES", "NOP", "PRECALL", "PUSH_NULL", "RESUME"}
"""Instructions that put no value on the stack."""


def _reader(before: list[Instruction]) -> _Read | None:
    """Remove the instructions from ``before`` that put a value on top of the stack; return a function that gives it."""
    while before and before[-1].opname in _SILENT:
        before.pop()
    if not before:
        return None
    one = before.pop()
    name, what = one.opname, one.argval
    read: _Read | None = None
    if name == "LOAD_CONST":
        read = partial(_constant, what)
    elif name in {"LOAD_GLOBAL", "LOAD_NAME"}:
        read = partial(_named, what)
    elif name.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")):
        names = what if isinstance(what, tuple) else (what,)  # one instruction may load two
        before.extend(one._replace(opname="LOAD_FAST", argval=other) for other in names[:-1])
        read = partial(_local, names[-1])
    elif name == "LOAD_ATTR" and (owner := _reader(before)):
        read = partial(_attribute, owner, what)
    elif name == "BUILD_TUPLE":
        read = _all_of(tuple, [_reader(before) for _ in range(one.arg or 0)][::-1])
    elif name == "BINARY_OP" and one.argrepr == "|":
        read = _all_of(_union, [_reader(before), _reader(before)][::-1])
    return read


def _constant(value: Any, _frame: FrameType) -> Any:
    return value


def _local(name: str, frame: FrameType) -> Any:
    return frame.f_locals[name]


def _attribute(owner: _Read, name: str, frame: FrameType) -> Any:
    return getattr(owner(frame), name)


def _all_of(make: Callable[[list[Any]], Any], parts: list[_Read | None]) -> _Read | None:
    known = [part for part in parts if part is not None]
    return (lambda frame: make([part(frame) for part in known])) if len(known) == len(parts) else None


def _union(two: list[Any]) -> Any:
    return two[0] | two[1]


def _named(name: str, frame: FrameType) -> Any:
    for names in (frame.f_locals if frame.f_code.co_name == "<module>" else {}, frame.f_globals, vars(builtins)):
        if name in names:
            return names[name]
    raise KeyError(name)


class LikeTorchs:
    """A base of ``Tensor`` that defines ``__class__``: Python itself uses that name in a class that calls super()."""

    __slots__ = ()
    __class__: Any = _Answer(torch.Tensor)


class LikeTorchsParameters:
    """The same for ``Parameter``."""

    __slots__ = ()
    __class__: Any = _Answer(torch.nn.Parameter)
