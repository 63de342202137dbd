"""How the code of an answer runs: what it raises, how long it may take, and what of the student's it may not change."""

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from ctypes import c_ulong, py_object, pythonapi
from textwrap import shorten
from threading import Event, Lock, Thread, get_ident
from time import monotonic, process_time
from traceback import walk_tb
from types import FrameType
from typing import Any
from warnings import catch_warnings

import numpy as np
import torch

from nbgrad.core.engine.call_site import in_library
from nbgrad.core.engine.faults import RAISES
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch
from nbgrad.core.tensor.comparison import Deviation
from nbgrad.core.translation import translate

PATIENCE = 20.0
"""Seconds after which code of an answer that still runs is stopped."""

_BUSY = 0.5
"""The part of this time for which Python has to have computed: where others compute, too, a sound answer is slow."""

_LONGEST = 6
"""How many times as long an answer may take that computes less, such as one that sleeps."""

_AGAIN = 0.005
"""Seconds until it is looked at once more: it may run a function of a library, or has caught the error."""

_ANYWHERE = 20.0
"""Seconds after which it is stopped in a library, too."""

_SEED = 61


class Endless(BaseException):
    """Code of an answer has not ended. It is no ``Exception``: ``except Exception`` in a loop does not catch it.

    A bare ``except`` does. So the next line of the answer that begins raises the error once more: that is the first
    line of the handler, and no loop around it catches what a handler raises.
    """

    def __init__(self) -> None:
        super().__init__()
        sys.settrace(_stopping)
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename != __file__:
            if not in_library(frame.f_code.co_filename):
                frame.f_trace = _stopping
            frame = frame.f_back


def _stopping(frame: FrameType, event: str, _: Any) -> Any:
    if in_library(frame.f_code.co_filename):
        return None
    if event == "line":
        raise Endless
    return _stopping


class Refused(Exception):
    """An answer is wrong, and nothing more is to be judged.

    Attributes:
        deviation: how it is wrong.
    """

    def __init__(self, deviation: Deviation) -> None:
        super().__init__(deviation.text)
        self.deviation = deviation


RAISED = (Exception, SystemExit, GeneratorExit, Endless)
"""All that the code of an answer may raise."""


@contextmanager
def answering(said: str) -> Iterator[None]:
    """A context in which every error is the fault of the answer, whose code runs there.

    Args:
        said: how a message names what runs.

    Raises:
        Refused: it has raised an error, has ended Python, or did not end.
    """
    try:
        yield
    except Refused:
        raise
    except RAISED as error:
        raise Refused(raised(said, error)) from None


def attempt(said: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of the student's, and return its result.

    Args:
        said: how a message names the call.
        function: the student's.
        arguments: of the call.

    Raises:
        Refused: it has raised an error, has ended Python, or did not end.
    """
    try:
        with catch_warnings(action="ignore"):  # such as one about shapes: the reason says more
            return function(*arguments)
    except Refused:
        raise
    except RAISED as error:
        found = raised(said, error)
        itself = isinstance(error, TypeError) and error.__traceback__ is not None and not error.__traceback__.tb_next
        more = ". Which parameters does the task name, and in which order?" if itself else ""
        raise Refused(Deviation(found.kind, f"{found}{translate(more)}")) from None


def by_hand(said: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """``attempt``, of a function that has to work a gradient out: no engine may compute it.

    A backward finds no history. What switches the recording on again, or does without it, is seen when it runs.

    Raises:
        Refused: as ``attempt``, or nbgrad or torch computes a gradient in the function.
    """
    engines = _EngineWatch()
    try:
        with Switch(grad_enabled=False, observers=(engines,)), torch.no_grad(), engines.watching():
            result = attempt(said, function, *arguments)
        if not engines.ran:
            return result
    except Refused as error:
        if "backward" not in str(error.deviation) and "grad" not in str(error.deviation):
            raise
        try:
            attempt(said, function, *arguments)
        except Refused as again:
            if not str(again.__context__).startswith(_NO_HISTORY):
                raise
    text = "{said} calls backward or grad: work the gradients out by hand"
    raise Refused(Deviation("type", text, said=translate(said)))


_NO_HISTORY = ("grad(): ", "backward() ", "element 0")
"""How the errors of nbgrad and torch begin where a backward finds no history: an argument has none."""


class _EngineWatch(Observer):
    """Sees whether nbgrad or torch computes a gradient, backwards or forwards.

    Attributes:
        ran: whether one of them did.
    """

    def __init__(self) -> None:
        self.ran = False

    def on_backward_begin(self, roots: Any) -> None:  # noqa: ARG002
        self.ran = True

    @contextmanager
    def watching(self) -> Iterator[None]:
        """A context in which calls of torch's functions are seen; not where a profiler sees them already."""
        if sys.getprofile() is not None:
            yield
            return
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _see(self, _: FrameType, event: str, called: Any) -> None:
        self.ran |= event == "c_call" and getattr(called, "__name__", None) in _ENGINES


_ENGINES = frozenset(["run_backward", "_grad_increment_nesting", "_enter_dual_level"])
"""The functions in C with which each way to a gradient begins in torch: a backward, torch.func, and forward mode."""

_ONE_OF_A_TUPLE = ". A tuple is here in the place of its element: (x,) = takes the only one out"

_OF_AN_ARRAY = ". An array has it: that of a tensor x is x.data"

_ADVICE: tuple[tuple[type[BaseException], str, str], ...] = (
    (UnboundLocalError, "", ". A line uses this name before another line sets it"),
    (AttributeError, "'NoneType'", ". A value is None here: check for None first"),
    (TypeError, "'NoneType'", ". A value is None here: it was never set, or a function gives no result"),
    (TypeError, "'method'", ". The parentheses behind its name are missing"),
    (
        TypeError,
        "0-dimensional",
        ". It is an array of several numbers: the functions of math take one number, those of numpy take an array",
    ),
    (TypeError, "for ^", ". A power is written with **"),
    (AttributeError, "'tuple'", _ONE_OF_A_TUPLE),
    (TypeError, "'tuple'", _ONE_OF_A_TUPLE),
    (
        TypeError,
        "'function'",
        ". A function is here in the place of a number: is it called, with ( ), and are the arguments in order?",
    ),
    (TypeError, "'keepdim'", ". numpy calls it keepdims"),
    *((AttributeError, f"'Tensor' object has no attribute '{name}'", _OF_AN_ARRAY) for name in ("shape", "ndim", "T")),
    (TypeError, "ufuncs", ". np computes with arrays: that of a tensor x is x.data"),
    (TypeError, "memoryview", ". The data of an array of numpy is no array: compute with the array itself"),
    (TypeError, "'numpy.ndarray' and 'Tensor'", ". Make a tensor of the array first"),
    (TypeError, "'Value' and 'Value'", ". Is the method of this operator there, such as __mul__ for *?"),
    (TypeError, "'Value'", ". Compute with the number of a Value, which is its data: other.data"),
    (TypeError, "not Value", ". Compute with the number of a Value, which is its data: self.data"),
    (
        ValueError,
        "scalars",
        ". It is a tensor of several numbers: the functions of math take one number. x.exp() takes a tensor",
    ),
    (
        ValueError,
        "ambiguous",
        ". It is an array of several numbers: np.maximum(x, 0) compares each of them with 0",
    ),
)
"""Advice that follows the message of an error: its class, a part of the message, and the sentence."""


_OPERATORS = frozenset(["__add__", "__sub__", "__mul__", "__truediv__", "__pow__", "__matmul__", "__neg__"])


def raised(said: str, error: BaseException) -> Deviation:
    """The explanation for a student's function that raised an error.

    Args:
        said: how the message names the call.
        error: what it raised.
    """
    if isinstance(error, Endless):
        return Deviation(
            "raised",
            "{said} does not end: it was stopped after {seconds:g} seconds or more. Does the condition of a loop "
            "change? A function such as sum gives a new tensor, and leaves the old one as it is",
            said=said,
            seconds=PATIENCE,
        )
    if isinstance(error, SystemExit):
        return Deviation("raised", "{said} ends Python, with exit or SystemExit: return the result instead", said=said)
    name = type(error).__name__
    if isinstance(error, RecursionError):
        text = (
            "an operator such as * calls itself again and again: inside of it, compute with the data, as in self.data"
            if any(frame.f_code.co_name in _OPERATORS for frame, _ in walk_tb(error.__traceback__))
            else "it calls itself again and again. In which case does it end without a further call?"
        )
        return Deviation("raised", "{said} raised {name}: {reason}", said=said, name=name, reason=translate(text))
    try:
        text = shorten(str(error).strip().partition("\n")[0], 400, placeholder=" …")
    except Exception:  # the class of the error is the student's, too
        text = ""
    more = next((advice for kind, part, advice in _ADVICE if isinstance(error, kind) and part in text), "")
    return Deviation(
        "raised",
        "{said} raised {name}{message}{more}",
        said=translate(said),
        name=name,
        message=text and f": {text}",
        more=translate(more),
    )


def unjudged(error: BaseException) -> Deviation:
    """The explanation for an answer in which the judge itself has failed.

    An object of the student's may raise an error wherever it is looked at, in ``__eq__`` or ``__len__``.

    Raises:
        BaseException: ``error``, if none of the student's code has raised it, and ``NBGRAD_STRICT`` asks for it.
    """
    if not all(in_library(frame.f_code.co_filename) for frame, _ in walk_tb(error.__traceback__)):
        return raised("an object of the answer", error)
    if os.environ.get(RAISES):
        raise error
    found = raised("the check", error)
    return Deviation("type", "the answer cannot be read: {found}. Give it in the form that the task names", found=found)


@contextmanager
def patience() -> Iterator[None]:
    """Raise ``Endless`` in a block that takes longer than ``PATIENCE``; not where a debugger traces.

    Another thread asks Python to raise it. So this works in every thread and on every system, where signals reach the
    main thread only, and in a loop of one line. A single call into C, as ``sum`` of an endless iterator, ends by itself
    or not at all.
    """
    if sys.gettrace() is not None:
        yield
        return
    outer, limit = _Limit.current, _Limit()
    _Limit.current = limit
    try:
        with limit.here():
            yield
    finally:
        limit.ended.set()
        _Limit.current = outer


class _Limit:
    """The time limit of one check, for all threads in which code of the answer runs."""

    current: "_Limit | None" = None

    def __init__(self) -> None:
        self.ended = Event()
        self._lock = Lock()
        self._threads: set[int] = set()
        self._asked: set[int] = set()  # threads that were asked to raise
        Thread(target=self._watch, name="nbgrad-patience", daemon=True).start()

    @contextmanager
    def here(self) -> Iterator[None]:
        """The limit holds for this thread inside of the block."""
        own = get_ident()
        with self._lock:
            self._threads.add(own)
        try:
            yield
        finally:
            _uninterrupted(lambda: self._leave(own))

    def _leave(self, own: int) -> None:
        sys.settrace(None)
        with self._lock:
            self._threads.discard(own)
        if own in self._asked:
            # The error may wait, or be raised already. To take it back would leave a sign in Python that a thread has
            # to raise something: it is only taken down when one does, and with it a function that is traced never ends.
            try:
                _raise_in(own, Endless)
                while True:
                    pass
            finally:
                self._asked.discard(own)

    def _watch(self) -> None:
        since, began = monotonic(), process_time()
        if self.ended.wait(PATIENCE):
            return
        while process_time() < began + _BUSY * PATIENCE and monotonic() < since + _LONGEST * PATIENCE:
            if self.ended.wait(PATIENCE / 20):
                return
        since = monotonic()
        while not self.ended.wait(_AGAIN):
            anywhere = monotonic() > since + _ANYWHERE
            with self._lock:
                frames = sys._current_frames()
                for one in self._threads:
                    if anywhere or _may_stop(frames[one]):
                        self._asked.add(one)
                        _raise_in(one, Endless)


def _may_stop(frame: FrameType | None) -> bool:
    """Whether a thread that runs this frame may be stopped: a library in the middle of its work could be left broken.

    A module that is imported runs code without a file, too, as that of a named tuple.
    """
    if frame is None or in_library(frame.f_code.co_filename):
        return False
    while frame is not None and frame.f_code.co_filename != __file__:
        if "importlib" in frame.f_code.co_filename:
            return False
        frame = frame.f_back
    return True


def _uninterrupted(call: Callable[[], None]) -> None:
    """Call until it is through: the error may be raised in here, too."""
    while True:
        try:
            return call()
        except Endless:
            continue


def _raise_in(thread: int, error: type[BaseException]) -> None:
    """Let a thread raise an error at its next line, in the place of one that it has not raised yet."""
    pythonapi.PyThreadState_SetAsyncExc(c_ulong(thread), py_object(error))


@contextmanager
def in_a_thread() -> Iterator[None]:
    """The time limit of the check that started this thread holds in the block, too."""
    with nullcontext() if _Limit.current is None else _Limit.current.here():
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """The same numbers in each check, and afterwards the student's settings as they were.

    Inside, random numbers begin with one seed, new tensors have double precision, and gradients are on, whatever the
    cells before have set. A graph that records the cell does not see the check.
    """
    kept = (random.getstate(), np.random.get_state(), torch.get_rng_state(), torch.get_default_dtype())
    cuda = torch.cuda.get_rng_state_all() if _has_cuda() else []
    depth, streams = sys.getrecursionlimit(), (sys.stdout, sys.stderr)
    try:
        _seed()
        torch.set_default_dtype(torch.float64)
        with Switch(grad_enabled=True, inference=False, observers=(), scope=None, device=None):
            yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])
        torch.set_rng_state(kept[2])
        torch.set_default_dtype(kept[3])
        if cuda:
            torch.cuda.set_rng_state_all(cuda)
        sys.setrecursionlimit(depth)
        sys.stdout, sys.stderr = streams


def _seed() -> None:
    random.seed(_SEED)
    np.random.seed(_SEED)
    torch.default_generator.manual_seed(_SEED)
    if _has_cuda():
        torch.cuda.manual_seed_all(_SEED)


def _has_cuda() -> bool:
    """Whether a card is in use: to ask for its random numbers would start it."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
