"""Indices of every kind: for reading, assignment and changes in place. Values, gradients and errors are torch's."""

import warnings
from collections import deque, namedtuple
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch

import nbgrad
from tests.core import rows
from tests.core.programs import OURS, TORCH, Library, plain

CASES = 2_000


class Whole:
    """An object with ``__index__``, such as an index of another library."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Ours(NamedTuple):
    """Stands in an index for a tensor of either library."""

    data: torch.Tensor


Pair = namedtuple("Pair", ("first", "second"))  # a tuple of another class


def check(random: Random) -> None:
    """Do the same with one index in both libraries."""
    shape = tuple(random.choice([0, 1, 2, 2, 3, 3, 4]) for _ in range(random.choice([0, 1, 2, 2, 3, 3, 4])))
    dtype = torch.complex128 if random.random() < 0.1 else torch.float64
    data = torch.randn(shape, dtype=dtype)
    index, other = _index(random, shape), _index(random, shape)
    name = random.choice(list(DONE))
    scale = random.choice([(), (), (1,), (1, 1), "full", "last"])
    wide = random.random() < 0.2
    text = f"{name} {shape} {index} {scale} {wide}" + f" {other}" * (name in TWICE)

    def value(picked: tuple[int, ...]) -> torch.Tensor:
        size = picked if scale == "full" else picked[-1:] if scale == "last" else scale
        draw = torch.Generator().manual_seed(3)
        return torch.randn((1,) * wide + tuple(size), generator=draw, dtype=dtype)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about lists of parts, and masks of bytes
        mine, yours = (_outcome(library, DONE[name], data, index, other, value) for library in (OURS, TORCH))
    if "put" in name and _has_a_truth(index):  # torch fails inside its code, or takes False for True
        assert isinstance(mine, TypeError), text
        return
    if "masked_fill_ only supports boolean masks" in str(yours):  # torch takes a mask of bytes for reading only
        return
    if isinstance(mine, IndexError) and "out of bounds" in str(mine) and not data.numel():  # torch does not look
        return
    assert isinstance(mine, Exception) == isinstance(yours, Exception), (text, mine, yours)
    if isinstance(mine, Exception):
        assert isinstance(mine, RuntimeError | IndexError | TypeError | ValueError), text
        return
    for what, a, b in zip(WHAT, mine, yours, strict=True):
        if a is None or b is None:  # a gradient that is None in one library may be zeros in the other
            assert not any(one is not None and bool(plain(one).any()) for one in (a, b)), (what, text)
        else:
            rows.close(plain(a), plain(b), f"{what}, {text}")


WHAT = ("result", "gradient of x", "gradient of the value", "second order of x", "second order of the value")


def _outcome(library: Library, done: Callable[..., Any], data: torch.Tensor, index: Any, other: Any, value: Any) -> Any:
    """The result and its gradients up to the second order, or the error."""
    x = library.ops.tensor(data.clone()).requires_grad_()
    index, other = _of(library, index), _of(library, other)
    try:
        picked = tuple(data[_of(TORCH, index)].shape)
    except Exception:  # after any error here, the real call below raises it again
        picked = ()
    given = library.ops.tensor(value(picked)).requires_grad_()
    try:
        out = done(library, x, given, index, other)
        out = out * out
        total = (out * out.detach()).sum()
        total = total.real if total.is_complex() else total
        first = library.grad(total, [x, given], create_graph=True, allow_unused=True)
        squares = [(one * one).sum() for one in first if one is not None and one.requires_grad]
        squares = [one.real if one.is_complex() else one for one in squares]
        again = [None, None]
        if squares:
            again = library.grad(sum(squares[1:], squares[0]), [x, given], allow_unused=True)
    except Exception as error:  # the caller compares it with the other library's result
        return error
    zero = [None if one is None else one.detach() * 0 for one in first]
    return out, *first, *[none if one is None else one for one, none in zip(again, zero, strict=True)]


def _has_a_truth(index: Any) -> bool:
    """Whether a part of the index is a tensor with a single truth value."""
    parts = [_of(TORCH, part) for part in index] if isinstance(index, list | tuple) else []
    kinds = (torch.bool, torch.uint8)
    return any(isinstance(part, torch.Tensor) and part.ndim == 0 and part.dtype in kinds for part in parts)


def _set(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


def _augmented(x: Any, index: Any, value: Any) -> Any:
    x[index] += value
    return x


def _changed(x: Any, index: Any, other: Any) -> Any:
    view = x[index]
    view[other] *= 3
    view.mul_(2)
    return x + view.sum()


def _put(x: Any, index: Any, value: Any, accumulate: bool) -> Any:
    return x.index_put_(index, value, accumulate)


DONE: dict[str, Callable[..., Any]] = {
    "read": lambda _, x, value, i, j: x[i],
    "read again": lambda _, x, value, i, j: x[i][j],
    "read by another": lambda lib, x, value, i, j: lib.ops.tensor(x.detach())[i] * value + x.sum(),
    "assign": lambda _, x, value, i, j: _set(x * 1, i, value),
    "assign a number": lambda _, x, value, i, j: _set(x * 1, i, 2.5),
    "assign twice": lambda _, x, value, i, j: _set(_set(x * 1, i, value), j, 3),
    "assign to a constant": lambda lib, x, value, i, j: _set(lib.ops.tensor(x.detach().clone()), i, value) * x,
    "augmented": lambda _, x, value, i, j: _augmented(x * 1, i, value),
    "change": lambda _, x, value, i, j: _changed(x * 1, i, j),
    "put": lambda _, x, value, i, j: _put(x * 1, i, value, False),
    "put and add": lambda _, x, value, i, j: _put(x * 1, i, value, True),
    "index_put": lambda lib, x, value, i, j: lib.ops.index_put(x, i, value),
}
TWICE = {"read again", "assign twice", "change"}


def _of(library: Library, index: Any) -> Any:
    """The index with tensors of one library."""
    if isinstance(index, Ours):
        return nbgrad.tensor(index.data) if library is OURS else index.data
    if isinstance(index, nbgrad.Tensor):
        return index if library is OURS else index.data
    if type(index) in (list, tuple):
        return type(index)(_of(library, one) for one in index)
    return index


def _index(random: Random, shape: tuple[int, ...]) -> Any:
    """A single part, or several parts in a tuple, list or other class; sometimes there is one part too many."""
    if random.random() < 0.25:
        return _part(random, shape[:1], shape)
    parts: list[Any] = []
    left = list(shape)
    for _ in range(random.choice([0, 1, 2, 2, 2, 3, 3, 4, 5])):
        parts.append(_part(random, tuple(left), shape))
        if left and random.random() < 0.9:
            left.pop(0)
    if random.random() < 0.1:
        return parts
    if len(parts) == 2 and random.random() < 0.1:
        return Pair(*parts)
    return tuple(parts)


def _part(random: Random, left: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    size = left[0] if left else 1
    kind = random.choice(list(PARTS))
    return PARTS[kind](random, size, left or shape)


def _number(random: Random, size: int) -> int:
    return random.randint(-size, max(size - 1, 0)) if random.random() < 0.97 else size + 1


def _numbers(random: Random, size: int) -> list[int]:
    return [_number(random, size) for _ in range(random.choice([0, 1, 2, 2, 3, 3]) if size else 0)]


def _same_length(random: Random, size: int) -> list[int]:
    """Two numbers. Several parts of the same length broadcast with each other."""
    return [_number(random, size), _number(random, size)]


def _mask(random: Random, size: int) -> list[bool]:
    return [random.random() < 0.5 for _ in range(size if random.random() < 0.97 else size + 1)]


def _slice(random: Random, size: int, make: Callable[[int], Any] = int) -> slice:
    def end() -> Any:
        return None if random.random() < 0.4 else make(random.randint(-size - 1, size + 1))

    step = random.choice([None, None, 1, 2, 3, -1 if random.random() < 0.1 else 1])
    return slice(end(), end(), None if step is None else make(step))


def _tensor(random: Random, values: Any, dtype: torch.dtype = torch.int64) -> Any:
    made = torch.tensor(values, dtype=dtype)
    return Ours(made) if random.random() < 0.6 else made


def _nested(random: Random, size: int) -> Any:
    numbers = [_same_length(random, size), _same_length(random, size)]
    return random.choice([list, tuple])([random.choice([list, tuple])(one) for one in numbers])


def _of_dimensions(random: Random, shape: tuple[int, ...]) -> Any:
    """A mask of several dimensions."""
    taken = shape[: random.randint(0, 3)]
    return _tensor(
        random, (torch.rand(taken) < 0.5).tolist() if 0 not in taken else torch.zeros(taken).tolist(), torch.bool
    )


PARTS: dict[str, Callable[[Random, int, tuple[int, ...]], Any]] = {
    "number": lambda r, n, s: _number(r, n),
    "number again": lambda r, n, s: _number(r, n),
    "slice": lambda r, n, s: _slice(r, n),
    "slice again": lambda r, n, s: _slice(r, n),
    "all": lambda r, n, s: slice(None),
    "slice of numpy": lambda r, n, s: _slice(r, n, np.int64),
    "slice of others": lambda r, n, s: _slice(r, n, Whole),
    "slice of tensors": lambda r, n, s: _slice(r, n, torch.tensor),
    "None": lambda r, n, s: None,
    "Ellipsis": lambda r, n, s: Ellipsis,
    "bool": lambda r, n, s: r.random() < 0.8,
    "list": lambda r, n, s: _numbers(r, n),
    "pair": lambda r, n, s: _same_length(r, n),
    "pair again": lambda r, n, s: tuple(_same_length(r, n)),
    "tuple": lambda r, n, s: tuple(_numbers(r, n)),
    "range": lambda r, n, s: range(*r.choice([(n,), (n - 1, -1, -1), (0, n, 2)])),
    "deque": lambda r, n, s: deque(_same_length(r, n)),
    "bytes": lambda r, n, s: bytearray(abs(one) for one in _numbers(r, n)),
    "array": lambda r, n, s: np.array(_numbers(r, n)).astype(r.choice([np.int64, np.int32, np.uint8, float])),
    "array pair": lambda r, n, s: np.array(_same_length(r, n)),
    "array of a number": lambda r, n, s: np.array(_number(r, n)),
    "array mask": lambda r, n, s: np.array(_mask(r, n), dtype=r.choice([bool, np.uint8])),
    "number of numpy": lambda r, n, s: r.choice([np.int64, np.int32, np.int8])(_number(r, n)),
    "truth of numpy": lambda r, n, s: np.bool_(r.random() < 0.5) if r.random() < 0.3 else _number(r, n),
    "other number": lambda r, n, s: Whole(_number(r, n)),
    "tensor": lambda r, n, s: _tensor(r, _numbers(r, n)),
    "tensor pair": lambda r, n, s: _tensor(r, _same_length(r, n)),
    "tensor of rank 2": lambda r, n, s: _tensor(r, [_same_length(r, n)] * 2),
    "tensor of 32 bits": lambda r, n, s: _tensor(r, _same_length(r, n), torch.int32),
    "tensor of a number": lambda r, n, s: _tensor(r, _number(r, n), r.choice([torch.int64, torch.int32])),
    "wrong tensor": lambda r, n, s: _tensor(r, [0.0, 0.0], r.choice([torch.float32, torch.int16])),
    "mask": lambda r, n, s: _tensor(r, _mask(r, n), torch.bool),
    "mask of bytes": lambda r, n, s: _tensor(r, _mask(r, n), torch.uint8),
    "mask of a truth": lambda r, n, s: _tensor(r, r.random() < 0.7, r.choice([torch.bool, torch.uint8])),
    "mask of dimensions": lambda r, n, s: _of_dimensions(r, s),
    "list mask": lambda r, n, s: _mask(r, n),
    "tuple mask": lambda r, n, s: tuple(_mask(r, n)),
    "nested": lambda r, n, s: _nested(r, n),
    "list of numpy": lambda r, n, s: [np.int64(one) for one in _same_length(r, n)],
    "list of tensors": lambda r, n, s: [_tensor(r, one) for one in _same_length(r, n)],
    "list of arrays": lambda r, n, s: [np.array(one) for one in (_same_length(r, n), _same_length(r, n))],
    "list of both": lambda r, n, s: [r.random() < 0.5, _number(r, n)],
    "list of floats": lambda r, n, s: [float(one) for one in _same_length(r, n)],
    "list of others": lambda r, n, s: [Whole(one) for one in _same_length(r, n)] if r.random() < 0.2 else [0, 0],
    "wrong": lambda r, n, s: (
        r.choice([1.0, "a", {0}, {0: 1}, 1j, b"\0", [None], [slice(None)], [[0], 1], object()])
        if r.random() < 0.2
        else slice(None)
    ),
}
