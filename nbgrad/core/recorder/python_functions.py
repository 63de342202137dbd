"""Torch's functions that are written in Python, such as ``cross_entropy``: recorded without a frame more.

Such a function asks ``has_torch_function`` first. With a mode on the stack the answer is yes, and torch then runs the
function a second time, inside of the mode. So warnings and tracebacks show other lines than without a recorder, and
modules leave their fast paths. While a graph is open, torch therefore asks the functions of this module: they say no if
only the recorder's mode asks for the call.

The recorder then sees the calls inside of the function. If the function is a row of the op table, it is one op: the
call whose result the function returns is recorded under the name of the function, with its arguments, and the calls
before are left out.
"""

import dis
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from inspect import CO_VARARGS
from threading import get_ident
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import torch

from nbgrad.core.backend.function_mode import mute, put_back, recorder, take_off, unmute
from nbgrad.core.compilation import compiled
from nbgrad.core.engine.clock import CLOCKS
from nbgrad.core.engine.faults import taken
from nbgrad.core.engine.state import current
from nbgrad.core.recorder.functions import ASKS, OP, Called, called

_asks: Any = torch._C._has_torch_function
_asks_unary: Any = torch._C._has_torch_function_unary
_asks_variadic: Any = torch._C._has_torch_function_variadic
_are_modes_on: Any = torch._C._is_torch_function_mode_enabled

_UP = 0 if compiled() else 1
"""How many frames of this module's functions stand on Python's stack: compiled functions have none."""

MODULES = (
    *("torch.overrides", "torch.functional", "torch._tensor", "torch.autograd", "torch._lowrank", "torch._lobpcg"),
    *("torch.nn.functional", "torch.nn.init", "torch.distributed.distributed_c10d", "torch._prims"),
    "torch.utils.backend_registration",
)
"""Torch's modules that ask, if they are imported; ``torch.jit._script`` only names the functions."""


class RunningFunction:
    """A function of torch's in Python that has begun, and is one op.

    Attributes:
        frame: Python's ``id()`` of its frame. It is a number, so that the frame lives no longer than without it.
        code: the code of the function.
        known: the facts about the function.
        args, kwargs: what it was called with.
    """

    __slots__ = ("args", "code", "frame", "known", "kwargs")

    frame: int
    code: CodeType
    known: Called
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


RUNNING: dict[int, RunningFunction] = {}
"""The function that has begun, by thread."""

_again: dict[int, CodeType] = {}
"""By thread, the code of the function that a mode of the recorder's runs now: it asks once, and the answer is no."""

OUTSIDE, INSIDE, RETURNS = 0, 1, 2


def has_torch_function(args: Any) -> bool:
    """Torch's ``has_torch_function``, which does not see the recorder."""
    return _answer(_asks, (args,), _UP + 1)


def has_torch_function_unary(tensor: Any) -> bool:
    """Torch's ``has_torch_function_unary``, which does not see the recorder."""
    return _answer(_asks_unary, (tensor,), _UP + 1)


def has_torch_function_variadic(*args: Any) -> bool:
    """Torch's ``has_torch_function_variadic``, which does not see the recorder."""
    return _answer(_asks_variadic, args, _UP + 1)


ANSWERS = {
    _asks: has_torch_function,
    _asks_unary: has_torch_function_unary,
    _asks_variadic: has_torch_function_variadic,
}
"""By torch's own function, the one that answers in its place."""


def _answer(ask: Callable[..., bool], args: tuple[Any, ...], up: int) -> bool:
    if recorder.mode is None or not _are_modes_on():
        return ask(*args)
    frame = sys._getframe(up if _UP else 0)
    code = frame.f_code
    running: RunningFunction | None = RUNNING.get(get_ident()) if RUNNING else None
    if running is not None and running.frame == id(frame):
        del RUNNING[get_ident()]  # that frame has ended, and this one has got its place in memory
    if _again and _again.get(get_ident()) is code:
        del _again[get_ident()]
        return False
    depth = take_off()
    if not depth:
        return ask(*args)
    try:
        others = ask(*args)
    finally:
        put_back(depth)
    if not others:
        try:
            _note(frame, code)
        except Exception as error:
            if not taken(current().observers, error, code.co_name):
                raise
    return others


def ask_no_more(function: Any) -> None:
    """``function``, one of torch's in Python, is about to run: when it asks for overrides, the answer is no."""
    _again[get_ident()] = function.__code__


def asked() -> None:
    """The function has run, whether it has asked or not."""
    _again.pop(get_ident(), None)


def _note(frame: Any, code: Any) -> None:
    """The function of ``frame`` has begun; remember it if it is one op and no part of another one."""
    thread = get_ident()
    running: RunningFunction | None = RUNNING.get(thread)
    if running is not None:
        if _depth(frame, running) >= 0:
            return
        del RUNNING[thread]
    function = _python_function(frame, code)
    if function is None:
        return
    running = RunningFunction.__new__(RunningFunction)
    running.frame, running.code, running.known = id(frame), code, function.known
    values = frame.f_locals
    running.args = tuple([values[name] for name in function.needed])
    if function.rest:
        running.args += tuple(values[function.rest])
    running.kwargs = {name: values[name] for name in function.more}
    RUNNING[thread] = running
    if CLOCKS:
        guard = mute()
        try:
            for clock in CLOCKS.intersection(current().observers):
                clock.on_begin(running.args)
        finally:
            unmute(guard)


def where(up: int) -> int:
    """Where the call that torch makes now stands; the code that makes it is ``up`` frames above.

    Returns:
        ``OUTSIDE`` of a function that is one op; ``INSIDE`` of it; or ``RETURNS``, if the function returns its result.
        If it is outside, the function has ended.
    """
    thread = get_ident()
    running: RunningFunction | None = RUNNING.get(thread)
    if running is None:
        return OUTSIDE
    frame: Any = sys._getframe(up if _UP else 0)
    depth = _depth(frame, running)
    if depth < 0:
        del RUNNING[thread]
        return OUTSIDE
    for _ in range(depth + 1):
        if frame.f_lasti not in _returning(frame.f_code):
            return INSIDE
        frame = frame.f_back
    return RETURNS


def returned() -> RunningFunction:
    """The function whose result the running call is; it has ended."""
    return RUNNING.pop(get_ident())


_DEEPEST = 6
"""A function of torch's that is one op calls others of torch's in Python, not deeper than this."""


def _depth(frame: Any, running: RunningFunction) -> int:
    """How many frames ``frame`` is inside of the one of ``running``; -1 if it is not inside."""
    for depth in range(_DEEPEST):
        if frame is None:
            return -1
        if id(frame) == running.frame and frame.f_code is running.code:
            return depth
        frame = frame.f_back
    return -1


class PythonFunction(NamedTuple):
    """A function of torch's in Python that is one op.

    Attributes:
        known: the facts about the function.
        needed: the names of the arguments that it needs, which torch itself passes on by position.
        more: the names of those with a default, which torch passes on by name.
        rest: the name of all further arguments by position; "" if it takes none.
    """

    known: Called
    needed: tuple[str, ...]
    more: tuple[str, ...] = ()
    rest: str = ""


def _python_function(frame: FrameType, code: CodeType) -> PythonFunction | None:
    """The function that runs in ``frame``, if it is one op."""
    if code is _WRAPPED:  # one code for all operators whose first operand is no tensor
        function = frame.f_locals["f"]
        if type(function) is not FunctionType:
            return None  # the method of C that it calls is the op
        return _wrapped(function)
    return _by_code().get(code)


_WRAPPED: Any = getattr(torch.Tensor.__rsub__, "__code__", None)


@cache
def _wrapped(function: FunctionType) -> PythonFunction | None:
    known = called(getattr(torch.Tensor, function.__name__))
    is_row = known.kind == OP and known.row is not None
    return PythonFunction(known, needed=("self",), rest="args") if is_row else None


@cache
def _by_code() -> dict[CodeType, PythonFunction]:
    """By code, the functions of torch's in Python that are rows of the op table."""
    found: dict[CodeType, PythonFunction] = {}
    for function in _functions():
        known = called(function)
        code = function.__code__
        if known.kind != OP or known.row is None or code in found or not _returning(code):
            continue
        count = code.co_argcount
        needed = count - len(function.__defaults__ or ())
        names = code.co_varnames
        more = count + code.co_kwonlyargcount
        rest = names[more] if code.co_flags & CO_VARARGS else ""
        found[code] = PythonFunction(known, names[:needed], names[needed:more], rest)
    return found


def _functions() -> Iterator[FunctionType]:
    for module in (*map(import_module, ("torch.nn.functional", "torch.functional")), torch.Tensor):
        for name in dir(module):
            function = getattr(module, name, None)
            if type(function) is FunctionType and not ASKS.isdisjoint(function.__code__.co_names):
                yield function


@cache
def _returning(code: CodeType) -> frozenset[int]:
    """The places in ``code`` of the instructions whose result the function returns, as ``f_lasti`` gives them."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _IDLE]
    at = {step.offset: number for number, step in enumerate(steps)}
    return frozenset(step.offset for number, step in enumerate(steps) if _returns(steps, number + 1, at))


_IDLE = {"NOP", "CACHE", "RESUME", "EXTENDED_ARG", "PRECALL"}


def _returns(steps: list[dis.Instruction], number: int, at: dict[int, int]) -> bool:
    """Whether the value on the stack before step ``number`` is returned: at once, or by way of one variable."""
    held = ""  # the variable that holds it; "" while it is on the stack
    for _ in range(8):
        if number >= len(steps):
            return False
        step = steps[number]
        number += 1
        if step.opname == "RETURN_VALUE":
            return not held
        if step.opname.startswith("JUMP_FORWARD"):
            number = at.get(step.argval, len(steps))
        elif step.opname == "UNPACK_SEQUENCE" and not held:  # only the first is returned
            if any(other.opname != "STORE_FAST" for other in steps[number : number + step.argval]):
                return False
            held = steps[number].argval
            number += step.argval
        elif step.opname == "STORE_FAST" and not held:
            held = step.argval
        elif step.opname.startswith("LOAD_FAST") and held == step.argval:
            held = ""
        elif step.opname == "STORE_FAST_LOAD_FAST" and step.argval == (step.argval[0], step.argval[0]):
            pass
        else:
            return False
    return False
