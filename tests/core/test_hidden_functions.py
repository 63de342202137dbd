"""Functions that torch does not document but models call: grouped products, weight norm, ``out=``, attributes."""

import copy
from typing import Any

import pytest
import torch
from torch import nn as tnn

import nbgrad
from tests.core.programs import Library, Program, agree
from tests.lacking import absent

CASES: dict[str, tuple[Any, Any, Any]] = {
    "rows": ((12, 8), (3, 8, 4), [2, 5, 12]),
    "an empty group": ((12, 8), (3, 8, 4), [2, 2, 12]),
    "columns": ((3, 4, 8), (8, 12), [4, 8, 12]),
    "inner": ((4, 12), (12, 8), [4, 8, 12]),
    "batches": ((3, 4, 8), (3, 8, 4), None),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("public", [False, True])
def test_grouped_products_are_torchs(case: str, public: bool) -> None:
    place, name = (torch.nn.functional, "grouped_mm") if public else (torch, "_grouped_mm")
    if reason := absent(place, name):
        pytest.skip(reason)
    function: Any = getattr(place, name)
    shapes, groups = CASES[case][:2], CASES[case][2]
    torch.manual_seed(0)
    data = [torch.randn(shape) for shape in shapes]
    offs = None if groups is None else torch.tensor(groups, dtype=torch.int32)
    theirs = [one.clone().requires_grad_() for one in data]
    ours = [nbgrad.tensor(one, requires_grad=True) for one in data]
    try:
        expected = function(*theirs, offs=offs)
    except RuntimeError as error:  # the kernel asks for rows of 16 bytes
        pytest.skip(str(error))
    found = function(*ours, offs=offs)
    torch.testing.assert_close(found.data, expected.detach())
    weights = torch.randn(expected.shape)
    (expected * weights).sum().backward()
    (found * weights).sum().backward()
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.grad is not None
        torch.testing.assert_close(mine.grad.data, yours.grad)


@pytest.mark.skipif(bool(absent(torch, "_grouped_mm")), reason=absent(torch, "_grouped_mm"))
def test_grouped_products_may_leave_rows_out_and_be_differentiated_twice() -> None:
    x = nbgrad.tensor(torch.randn(6, 3, dtype=torch.float64), requires_grad=True)
    w = nbgrad.tensor(torch.randn(2, 3, 4, dtype=torch.float64), requires_grad=True)
    offs = torch.tensor([1, 4], dtype=torch.int32)
    y = torch._grouped_mm(x, w, offs)  # type: ignore[call-overload]
    assert y[4:].tolist() == [[0.0] * 4] * 2
    assert nbgrad.gradgradcheck(lambda a, b: torch._grouped_mm(a, b, offs=offs), (x, w))
    with pytest.raises(NotImplementedError, match="takes no bias"):
        torch._grouped_mm(x, w, offs, y)
    with pytest.raises(NotImplementedError, match=r"takes no out_dtype: write \.to\("):
        torch._grouped_mm(x, w, offs, out_dtype=torch.float32)
    with pytest.raises(RuntimeError, match="takes offs="):
        torch._grouped_mm(x, w)


def weight_norm(lib: Library) -> tuple[Any, ...]:
    found = []
    for dim, shape in ((0, (2, 1, 1)), (1, (1, 3, 1)), (2, (1, 1, 4)), (-1, ())):
        v = lib.leaf(torch.arange(24.0).reshape(2, 3, 4).cos().tolist())
        g = lib.leaf(torch.ones(shape).mul(2.5).tolist())
        w = torch._weight_norm(v, g, dim)
        (w * w * w).sum().backward()
        found += [w, v.grad, g.grad, torch.norm_except_dim(v, 2, dim)]
    return tuple(found)


def with_out(lib: Library) -> tuple[Any, ...]:
    x, out, more = lib.leaf(1.0, 2.0), lib.constant(0.0, 0.0), torch.zeros(2, dtype=torch.float64)
    values, places = torch.zeros(1, dtype=torch.float64), torch.zeros(1, dtype=torch.long)
    with torch.no_grad():
        same = torch.exp(x, out=out)
        also = torch.mul(x, x, out=more)
        torch.topk(x, 1, out=(values, places))
    torch.add(x.detach(), 1, out=more)
    return out, more, same is out, also is more, values, places, out.requires_grad


@pytest.mark.parametrize("program", [weight_norm, with_out])
def test_the_program_is_torchs(program: Program) -> None:
    agree(program)


def test_a_value_saved_is_not_overwritten_by_out_in_silence() -> None:
    x, out = nbgrad.tensor([1.0, 2.0], requires_grad=True), nbgrad.tensor([3.0, 4.0])
    y = x * out
    with torch.no_grad():
        torch.exp(x, out=out)
    with pytest.raises(RuntimeError, match="in-place"):
        y.sum().backward()
    with pytest.raises(NotImplementedError, match="takes no out= on an nbgrad tensor"):
        torch.exp(x, out=out)


def test_flex_attention_says_what_to_do() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    q = nbgrad.tensor(torch.randn(1, 2, 16, 16), requires_grad=True)
    assert q.is_nested is False
    with pytest.raises(TypeError, match=r"call scaled_dot_product_attention .* or leave the model in torch"):
        flex_attention(q, q, q)


# Attributes.


def attributes(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = x * 2
    y.orig, x.tag, y.count = x, "first", 0
    y.count += 1
    found = [y.orig is x, x.tag, y.count, hasattr(y, "other"), hasattr(y.detach(), "orig"), vars(y)["count"]]
    copied = copy.deepcopy(x)
    found.append(copied.tag)
    del y.count
    found += [hasattr(y, "count"), getattr(y, "count", "none"), hasattr(y.view(2), "orig")]
    y.mul_(2)
    return *found, y.orig is x


def test_attributes_are_torchs() -> None:
    agree(attributes)


def test_attributes_of_parameters_and_buffers_come_along() -> None:
    theirs = tnn.BatchNorm1d(3)
    theirs.weight.no_decay, theirs.running_mean.role = True, "mean"
    ours = nbgrad.from_torch(theirs)
    assert ours.weight.no_decay is True
    assert ours.running_mean.role == "mean"
    assert not hasattr(ours.bias, "no_decay")


def test_an_attribute_that_only_torchs_tensors_have_says_so() -> None:
    x = nbgrad.tensor([1.0])
    with pytest.raises(AttributeError, match=r"no attribute 'grad_dtype', which torch's tensors have.*t\.data\.grad_d"):
        x.grad_dtype  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'Tensor' object has no attribute 'nothing'$"):
        x.nothing  # noqa: B018
