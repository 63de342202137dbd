"""Indexing, scattering and sorting beyond the tests of every row: torch's forms of a call, and composites."""

import warnings
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from tests.core.both import same
from tests.lacking import need

F64 = torch.float64
X = torch.tensor([[0.5, -1.5, 2.0, 0.25], [1.0, 3.0, -0.5, -2.0], [0.75, 1.25, -1.0, 2.5]], dtype=F64)
S = torch.tensor([[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]], dtype=F64)
I = torch.tensor([[0, 3], [2, 1], [3, 0]])  # noqa: E741  # short, as it is in every call
R = torch.tensor([2, 0])

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "gather": lambda x, s: torch.gather(x, 1, I),
    "gather by name": lambda x, s: x.gather(dim=1, index=I),
    "scatter": lambda x, s: torch.scatter(x, 1, I, s),
    "scatter a number": lambda x, s: x.scatter(1, I, 2.5),
    "scatter value": lambda x, s: x.scatter(1, I, value=2.5),
    "scatter_add": lambda x, s: torch.scatter_add(x, 1, I, s),
    "scatter_reduce": lambda x, s: x.scatter_reduce(1, I, s, "mean", include_self=False),
    "scatter_reduce by name": lambda x, s: torch.scatter_reduce(x, 1, I, src=s, reduce="amax"),
    "index_select": lambda x, s: torch.index_select(x, 0, R),
    "index_add": lambda x, s: x.index_add(1, R, s, alpha=3),
    "index_copy": lambda x, s: torch.index_copy(x, 1, R, s),
    "index_fill": lambda x, s: x.index_fill(0, R, 1.5),
    "index_fill by a tensor": lambda x, s: torch.index_fill(x, 1, R, s[0, 0]),
    "index_put": lambda x, s: torch.index_put(x, (R, R), s[0]),
    "index_put accumulate": lambda x, s: x.index_put((R[[0, 0]],), x[0], accumulate=True),
    "index_reduce": lambda x, s: x.index_reduce(1, R, s, "prod", include_self=False),
    "take": lambda x, s: torch.take(x, I),
    "put": lambda x, s: x.put(I, s),
    "put accumulate": lambda x, s: x.put(I[[0, 0, 0]], s, accumulate=True),
    "take_along_dim": lambda x, s: torch.take_along_dim(x, I[:1], dim=1),
    "take_along_dim flat": lambda x, s: x.take_along_dim(I),
    "take_along_dim from the end": lambda x, s: x.take_along_dim(-1 - I, 1),
    "masked_select": lambda x, s: torch.masked_select(x, X > 0),
    "masked_select stretched": lambda x, s: x.masked_select(torch.tensor([True, False, True, True])),
    "masked_scatter": lambda x, s: x.masked_scatter(X > 1.5, s),
    "sort": lambda x, s: torch.sort(x, 1, True).values,
    "sort stable": lambda x, s: x.sort(dim=0, stable=True).values,
    "msort": lambda x, s: torch.msort(x),
    "topk": lambda x, s: x.topk(2, 1).values,
    "topk smallest": lambda x, s: torch.topk(x, 2, dim=0, largest=False).values,
    "kthvalue": lambda x, s: x.kthvalue(2, 1, True).values,
    "select_scatter": lambda x, s: torch.select_scatter(x, s[:, 0], 1, -1),
    "slice_scatter": lambda x, s: x.slice_scatter(s, 1, 0, 4, 2),
    "diagonal_scatter": lambda x, s: x.diagonal_scatter(s[:, 1], 1),
    "scatter_": lambda x, s: (x * 1).scatter_(1, I, s),
    "scatter_ a number": lambda x, s: (x * 1).scatter_(1, I, 3.0),
    "scatter_add_": lambda x, s: (x * 1).scatter_add_(1, I, s),
    "scatter_reduce_": lambda x, s: (x * 1).scatter_reduce_(1, I, s, "amin"),
    "index_add_": lambda x, s: (x * 1).index_add_(1, R, s, alpha=-2),
    "index_copy_": lambda x, s: (x * 1).index_copy_(1, R, s),
    "index_fill_": lambda x, s: (x * 1).index_fill_(1, R, s[1, 1]),
    "index_put_": lambda x, s: (x * 1).index_put_((R, R), s[0], accumulate=True),
    "index_reduce_": lambda x, s: (x * 1).index_reduce_(1, R, s, "mean"),
    "put_": lambda x, s: (x * 1).put_(I, s),
    "masked_scatter_": lambda x, s: (x * 1).masked_scatter_(X > 1.5, s),
}


@pytest.mark.filterwarnings("ignore:index_reduce")  # torch says that its function is in beta
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_is_torchs_in_value_gradient_and_second_order(call: Callable[[Any, Any], Any]) -> None:
    if call is CALLS["take_along_dim from the end"]:
        need("indices from the end")
    same(call, X, S)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", [name for name in CALLS if "_ " in f"{name} "])
def test_a_change_in_place_of_a_view_reaches_its_base(name: str) -> None:
    def program(x: Any, s: Any) -> Any:
        whole = torch.stack([X, X]) * 0 + x
        CALLS[name](_Untouched(whole[1]), s)
        return whole

    same(program, X, S)


class _Untouched:
    """Stands for ``x`` in a call. Its ``x * 1`` is the tensor itself: the call then changes this tensor, not a copy."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __mul__(self, _: int) -> Any:
        return self.held


@pytest.mark.filterwarnings("ignore:The reduce argument of torch.scatter")
@pytest.mark.parametrize("reduce", ["add", "multiply"])
@pytest.mark.parametrize("src", ["tensor", "number"])
def test_a_scatter_that_reduces_has_torchs_value_and_a_gradient(reduce: str, src: str) -> None:
    values = S if src == "tensor" else torch.full_like(S, 2.5)
    given = S if src == "tensor" else 2.5
    x: Any = nbgrad.tensor(X, requires_grad=True)
    out = x.scatter(1, I, given, reduce=reduce)
    assert torch.equal(out.data, X.scatter(1, I, given, reduce=reduce))
    assert torch.equal((x * 1).scatter_(1, I, given, reduce=reduce).data, out.data)
    slope: Any = nbgrad.grad(out.sum(), [x])[0]
    factor = torch.ones_like(X).scatter(1, I, values)  # torch has no gradient for this
    torch.testing.assert_close(slope.data, factor if reduce == "multiply" else torch.ones_like(X))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_what_a_scattered_reduction_gives_is_torchs_with_ties_and_repeats(reduce: str, include_self: bool) -> None:
    index = torch.tensor([1, 1, 0, 1])

    def call(x: Any, s: Any) -> Any:
        return x.scatter_reduce(0, index, s, reduce, include_self=include_self)

    same(call, torch.tensor([1.0, 2.0, 3.0], dtype=F64), torch.tensor([2.0, 2.0, 0.5, -1.0], dtype=F64))


def test_a_product_with_several_zeros_at_one_place_has_one_derivative_and_says_that_it_has_no_second() -> None:
    x, index = torch.tensor([2.0, 3.0], dtype=F64), torch.tensor([0, 0, 1])
    values = torch.tensor([0.0, 0.0, 4.0], dtype=F64)
    theirs = values.clone().requires_grad_()
    (expected,) = torch.autograd.grad(x.scatter_reduce(0, index, theirs, "prod").sum(), [theirs])
    ours = nbgrad.tensor(values, requires_grad=True)
    given: Any = nbgrad.tensor(x)
    out = given.scatter_reduce(0, index, ours, "prod").sum()
    slope: Any = nbgrad.grad(out, [ours], retain_graph=True)[0]
    assert torch.equal(slope.data, expected)
    with pytest.raises(NotImplementedError, match="several zeros"):
        nbgrad.grad(out, [ours], create_graph=True)


def test_a_source_larger_than_its_index_gets_zeros_where_it_is_not_used() -> None:
    index = torch.tensor([[1], [0]])
    for name in ("scatter", "scatter_add"):
        x, src = nbgrad.tensor(X, requires_grad=True), nbgrad.tensor(X * 2, requires_grad=True)
        out = getattr(x, name)(1, index, src)
        assert torch.equal(out.data, getattr(X, name)(1, index, X * 2))
        slope: Any = nbgrad.grad(out.sum(), [src])[0]
        used = torch.zeros_like(X)
        used[:2, :1] = 1
        assert torch.equal(slope.data, used), name


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x: x.gather(1, I, sparse_grad=True), NotImplementedError, "sparse_grad"),
        (lambda x: x.scatter(1, I), TypeError, "src or value"),
        (lambda x: x.scatter(1, I, 1.0, reduce="max"), RuntimeError, "'max'"),
        (lambda x: x.masked_select(I), RuntimeError, "bool"),
        (lambda x: x.take_along_dim(R, 1), RuntimeError, "as many dimensions"),
        (lambda x: x.index_select(0, torch.tensor([9])), IndexError, "index_select"),
    ],
)
def test_a_wrong_call_says_so(call: Callable[[Any], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call(nbgrad.tensor(X))


# Ops without a gradient.

PLAIN: dict[str, Callable[[Any], Any]] = {
    "argsort": lambda x: x.argsort(1, descending=True),
    "argsort stable": lambda x: torch.argsort(x, dim=0, stable=True),
    "nonzero": lambda x: torch.nonzero(x > 0),
    "nonzero as_tuple": lambda x: (x > 0).nonzero(as_tuple=True),
    "argwhere": lambda x: torch.argwhere(x > 0),
    "isin": lambda x: torch.isin(x, torch.tensor([0.5, 3.0], dtype=F64)),
    "isin invert": lambda x: torch.isin(x, 0.5, invert=True),
    "searchsorted": lambda x: torch.searchsorted(torch.tensor([-1.0, 0.5, 1.0], dtype=F64), x, right=True),
    "searchsorted sorter": lambda x: torch.searchsorted(x[0], x[1, 0], sorter=X[0].argsort()),
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-1.0, 0.5, 1.0], dtype=F64)),
    "unique": lambda x: torch.unique(x > 0),
    "unique with all": lambda x: (x > 0).unique(return_inverse=True, return_counts=True, dim=0),
    "unique_consecutive": lambda x: torch.unique_consecutive(x > 0, return_counts=True),
}


@pytest.mark.parametrize("call", PLAIN.values(), ids=PLAIN)
def test_what_has_no_gradient_has_torchs_value(call: Callable[[Any], Any]) -> None:
    expected, got = call(X), call(nbgrad.tensor(X, requires_grad=True))
    expected, got = (one if isinstance(one, tuple) else (one,) for one in (expected, got))
    for yours, mine in zip(expected, got, strict=True):
        assert type(mine) is nbgrad.Tensor
        assert not mine.requires_grad
        assert torch.equal(mine.data, yours)


def test_a_mask_picks_without_adding_up() -> None:
    """A mask picks no element twice, alone or with another mask: its gradient is written, not added."""
    rows, cols = torch.tensor([True, False, True]), torch.tensor([True, False, False, True])
    same(lambda x: x[X > 0], X)
    same(lambda x: x[rows, cols], X)
    same(lambda x: x[rows, R], X)
    same(lambda x: x[rows.to(torch.int64), R[[0, 0, 1]]], X)


INDICES: dict[str, Any] = {
    "tuples": ((0, 1), (2, 3)),
    "a number and a tuple": (1, (2, 3)),
    "a tuple with repeats": (slice(None), (0, 0, 0)),
    "a tuple of truth values": ((True, False, True),),
    "a range": range(2, -1, -1),
    "a deque": deque([0, 2]),
    "arrays": (np.array([0, 2]), np.array([True, False, True, False])),
    "an array of a number": (np.array(1), slice(None), [0, 1]),
    "numbers of numpy": (np.int64(1), slice(np.int32(0), np.int64(2))),
    "a tensor of a number": (torch.tensor(1), slice(None), torch.tensor([0, 1])),
    "tensors in a slice": slice(torch.tensor(0), torch.tensor(2)),
    "numbers that are floats": [1.0, 2.0],
    "a truth value": (True, [0, 1]),
    "two Ellipses": (..., [0, 1], ...),
    "nothing": ([],),
    "an empty tuple": ((),),
    "tensors in a list": ([torch.tensor(0), 2],),
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_an_index_of_any_kind_has_torchs_value_and_gradients(index: Any) -> None:
    x = torch.arange(24, dtype=F64).reshape(3, 4, 2) / 7

    def assigned(x: Any, v: Any) -> Any:
        x = x * 1
        x[index] = v
        return x

    def augmented(x: Any, v: Any) -> Any:
        x = x * 1
        x[index] *= v
        return x

    for program in (lambda x, v: x[index] * v, assigned, augmented):
        same(program, x, torch.tensor(0.7, dtype=F64))


def test_a_position_by_itself_is_a_view_that_changes_its_base() -> None:
    def program(x: Any) -> Any:
        x = x * 1
        x[torch.tensor(1)].mul_(3)
        x[np.array(0)].mul_(5)
        return x

    same(program, X)


LISTS = [
    [slice(0, 2), [0, 1]],
    [None, 0],
    [Ellipsis, 0],
    [[0, 1], [1, 1]],
    [torch.tensor([0, 1]), torch.tensor([0, 1])],
    [torch.tensor(1), 0],
    [np.array([0, 1]), slice(None)],
]


@pytest.mark.parametrize("index", LISTS, ids=str)
def test_a_list_of_parts_is_a_tuple_of_them_as_torch_reads_it_and_warns(index: list[Any]) -> None:
    with pytest.warns(UserWarning, match=r"write x\[tuple\(index\)\]"):
        got: Any = nbgrad.tensor(X)[index]
    assert torch.equal(got.data, X[tuple(index)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(?s).*tuple")
        same(lambda x: x[index], X)


def test_a_mask_of_bytes_is_one_of_truth_values_with_a_warning() -> None:
    mask: Any = torch.tensor([1, 0, 2], dtype=torch.uint8)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "indexing with dtype torch.uint8|a tensor of bytes")
        same(lambda x: x[mask], X)
        same(lambda x: (x * 1).index_put_((mask,), x[:2]), X)
    with pytest.warns(UserWarning, match=r"mask\.bool\(\)"):
        nbgrad.tensor(X)[mask] = 0.0


@pytest.mark.parametrize(
    ("index", "kind", "words"),
    [
        (np.bool_(True), IndexError, "getitem.*truth values"),
        (slice(0.5, None), TypeError, "getitem.*slice.*float"),
        (1.5, IndexError, "getitem.*float"),
        ("a", TypeError, "getitem.*str"),
        ({0}, IndexError, "getitem.*set"),
        (torch.tensor([0.5]), IndexError, "getitem"),
        ([slice(None)] * 33, RuntimeError, "getitem"),
        (3, IndexError, "getitem.*out of bounds"),
    ],
)
def test_what_is_no_index_is_refused_by_name(index: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        nbgrad.tensor(X)[index]
    with pytest.raises(kind, match=words.replace("getitem", "setitem")):
        nbgrad.tensor(X)[index] = 0.0


@pytest.mark.parametrize(
    "indices", [R, [], (None, R), ([0, 1],), (1,), (np.array([0]),), (torch.tensor(True), R)], ids=str
)
def test_index_put_takes_a_tuple_of_tensors(indices: Any) -> None:
    with pytest.raises(TypeError, match=r"index_put.*takes as indices a tuple"):
        nbgrad.tensor(X).index_put(indices, 0.0)
    for single in ((torch.tensor(1), torch.tensor([0, 2])), [torch.tensor(1)], (X > 1,)):
        same(lambda x, single=single: (x * 1).index_put_(single, x.sum()), X)
