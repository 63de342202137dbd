"""How many rounds the running ``for`` loops of the user's code have left, as far as their lines and variables say it.

No code of the user's runs for that: it reads numbers, the variables of the loops, and the lengths of Python's own
collections, of tensors and of torch's loaders.
"""

import ast
import linecache
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch.utils.data import DataLoader

from nbgrad.core.engine.call_site import user_frame, user_frames, variables_of

_BARS = frozenset({"tqdm", "trange", "track", "progress_bar"})
"""Functions that show a bar and yield the items of their first argument, or the numbers of a range."""

_SIZED = (list, tuple, str, range, dict, set, frozenset, torch.Tensor, DataLoader)


class Rounds(NamedTuple):
    """The rounds of the innermost loop, while every loop around it is known.

    Attributes:
        length: how many there are.
        at: which of them runs, from 0; None where no variable counts them.
        outer: for each loop around it, which of its rounds runs.
        last: whether each loop around it is in its last round.
    """

    length: int
    at: int | None
    outer: tuple[int, ...]
    last: bool


def rounds() -> Rounds | None:
    """The rounds of the loops that run now; None without a loop, or where one of them is not known."""
    found: list[tuple[int, int | None]] = []
    for frame in user_frames(user_frame()):
        known = None
        for loop in _loops_at(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_firstlineno):
            if isinstance(loop, ast.While):
                return None
            known = known or {**frame.f_globals, **variables_of(frame)}
            one = _round(loop.iter, loop.target, known)
            if one is None or (found and one[1] is None):
                return None
            found.append(one)
    if not found:
        return None
    (length, at), *around = found
    return Rounds(length, at, tuple([at or 0 for _, at in around]), all(at == length - 1 for length, at in around))


def _round(items: ast.expr, target: ast.expr, known: Mapping[str, Any]) -> tuple[int, int | None] | None:
    """How many items there are, and the place of the one that ``target`` holds."""
    if not isinstance(items, ast.Call):
        return _of_items(items, known)
    name = items.func.id if isinstance(items.func, ast.Name) else getattr(items.func, "attr", None)
    if name in ("range", "trange"):
        return _of_range(items.args, target, known)
    if name == "enumerate" and items.args:
        return _of_count(items, target, known)
    return _round(items.args[0], target, known) if name in _BARS and items.args else None


def _of_range(written: list[ast.expr], target: ast.expr, known: Mapping[str, Any]) -> tuple[int, int | None] | None:
    numbers = _numbers(written, known)
    if not numbers or len(numbers) > 3 or numbers[2:] == [0]:
        return None
    there = range(*numbers)
    at = known.get(target.id) if isinstance(target, ast.Name) else None
    return len(there), there.index(at) if type(at) is int and at in there else None


def _of_count(items: ast.Call, target: ast.expr, known: Mapping[str, Any]) -> tuple[int, int | None] | None:
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2:
        return None
    inner = _round(items.args[0], target.elts[1], known)
    first = _numbers([*items.args[1:], *[one.value for one in items.keywords]], known)
    at = known.get(target.elts[0].id) if isinstance(target.elts[0], ast.Name) else None
    if inner is None or first is None or type(at) is not int:
        return inner
    return inner[0], at - sum(first)


def _of_items(items: ast.expr, known: Mapping[str, Any]) -> tuple[int, None] | None:
    if isinstance(items, ast.List | ast.Tuple):
        return len(items.elts), None
    held: Any = known.get(items.id) if isinstance(items, ast.Name) else None
    try:
        return (len(held), None) if type(held) in _SIZED else None
    except TypeError:  # a loader of a stream has no length
        return None


def _numbers(written: list[ast.expr], known: Mapping[str, Any]) -> list[int] | None:
    """The whole numbers of these expressions; None if one is not known."""
    found = [_number(one, known) for one in written]
    return None if None in found else [one for one in found if one is not None]


def _number(written: ast.expr, known: Mapping[str, Any]) -> int | None:
    match written:
        case ast.Constant(value=int() as value):
            return value
        case ast.Name(id=name):
            found = known.get(name)
            return found if type(found) is int else None
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
            held: Any = known.get(name)
            return len(held) if type(held) in _SIZED and type(held) is not DataLoader else None
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() as op, right=right):
            a, b = _number(left, known), _number(right, known)
            if a is None or b is None or (isinstance(op, ast.FloorDiv) and not b):
                return None
            return a + b if isinstance(op, ast.Add) else a - b if isinstance(op, ast.Sub) else _times(a, b, op)
    return None


def _times(a: int, b: int, op: ast.operator) -> int:
    return a * b if isinstance(op, ast.Mult) else a // b


@lru_cache(maxsize=64)
def _loops_at(file: str, line: int, first: int) -> tuple[ast.For | ast.While, ...]:
    """The loops around a line, the innermost first, in the function whose code begins at line ``first``."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(reversed(list(_around(tree, line, first))))


def _around(node: ast.AST, line: int, first: int) -> Iterator[ast.For | ast.While]:
    """The loops around the line, the outermost first."""
    for one in ast.iter_child_nodes(node):
        if not getattr(one, "lineno", line) <= line <= (getattr(one, "end_lineno", None) or line):
            continue
        if (
            isinstance(one, ast.For | ast.While)
            and one.lineno >= first
            and any(part.lineno <= line <= (part.end_lineno or line) for part in one.body)
        ):
            yield one
        yield from _around(one, line, first)
