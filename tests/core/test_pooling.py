"""Pooling, resampling, Fourier transforms: torch's names and arguments. Other tests cover the rows."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core import ops
from tests.lacking import need

functional = torch.nn.functional


def double(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "max_pool2d": lambda lib, x: lib.max_pool2d(x, 2),
    "max_pool2d and indices": lambda lib, x: lib.max_pool2d(x, 2, return_indices=True)[0],
    "adaptive_max_pool2d": lambda lib, x: lib.adaptive_max_pool2d(x, (2, None)),
    "lp_pool2d": lambda lib, x: lib.lp_pool2d(x.abs(), 3.0, 2),
    "lp_pool2d of inf": lambda lib, x: lib.lp_pool2d(x, float("inf"), 2),
    "max_unpool2d": lambda lib, x: lib.max_unpool2d(*lib.max_pool2d(x, 2, return_indices=True), 2, output_size=(4, 5)),
    "interpolate by factor": lambda lib, x: lib.interpolate(x, scale_factor=(1.6, 0.7), mode="bilinear"),
    "interpolate recomputed": lambda lib, x: lib.interpolate(
        x, scale_factor=1.6, mode="bicubic", recompute_scale_factor=True
    ),
    "interpolate by area": lambda lib, x: lib.interpolate(x, scale_factor=0.6, mode="area"),
    "affine_grid": lambda lib, x: lib.affine_grid(x[0, :, :2, :3], (2, 1, 3, 4), align_corners=False),
}


@pytest.mark.parametrize("how", ["ours", "torch's"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_means_what_it_means_in_torch(name: str, how: str) -> None:
    if name == "lp_pool2d of inf":
        need("lp_pool of inf")
    raw = double(2, 2, 4, 5)
    theirs, ours = raw.clone().requires_grad_(), nbgrad.tensor(raw, requires_grad=True)
    expected, got = CALLS[name](functional, theirs), CALLS[name](ops if how == "ours" else functional, ours)
    torch.testing.assert_close(got.data, expected.detach())
    seed = double(*expected.shape)
    expected.backward(seed)
    got.backward(seed)
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad.data, theirs.grad)


LARGEST: dict[str, Callable[[Any, Any], Any]] = {
    "max_pool1d": lambda lib, x: lib.max_pool1d(x.flatten(-2), 2, return_indices=True),
    "max_pool2d": lambda lib, x: lib.max_pool2d(x, 2, return_indices=True),
    "max_pool2d padded": lambda lib, x: lib.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
    "max_pool2d dilated": lambda lib, x: lib.max_pool2d(x, (3, 2), 1, 0, 2, return_indices=True),
    "max_pool3d": lambda lib, x: lib.max_pool3d(x.unflatten(-2, (3, -1)), 3, 2, 1, return_indices=True),
    "adaptive_max_pool2d": lambda lib, x: lib.adaptive_max_pool2d(x, (5, 1), return_indices=True),
    "adaptive_max_pool2d to a point": lambda lib, x: lib.adaptive_max_pool2d(x, 1, return_indices=True),
}
"""Max pooling rows that copy a large input to another layout, on which torch's kernels are faster."""

LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda x: x,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(2, 3),
    "few channels": lambda x: x[:, :1].contiguous(),
    "no batch": lambda x: x[0],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", LARGEST)
def test_of_many_channels_the_largest_is_torchs_to_the_bit(name: str, dtype: torch.dtype, layout: str) -> None:
    """Values, indices, strides and gradients. For ties, NaN and a window of -inf, torch's order decides."""
    raw = torch.randint(-3, 4, (2, 18, 24, 24), generator=torch.Generator().manual_seed(0)).to(dtype)
    raw[0, 3, :8], raw[1, 4, 2, 3:5], raw[1, 5, 4:8, 4:8] = -torch.inf, torch.nan, torch.nan
    call, laid_out = LARGEST[name], LAYOUTS[layout](raw)
    theirs, ours = laid_out.clone().requires_grad_(), nbgrad.tensor(laid_out, requires_grad=True)
    expected, got = call(functional, theirs), call(ops, ours)
    for one, other in zip(expected, got, strict=True):
        torch.testing.assert_close(other.data, one.detach(), rtol=0, atol=0, equal_nan=True, check_stride=True)
    expected[0].sum().backward()
    got[0].sum().backward()
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad.data, theirs.grad, rtol=0, atol=0)


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_windows_are_at_torchs_places(rank: int) -> None:
    x = double(1, 2, *(6,) * rank)
    results = []
    for lib, given in ((functional, x), (ops, nbgrad.tensor(x))):
        torch.manual_seed(0)
        results.append(getattr(lib, f"fractional_max_pool{rank}d")(given, 2, output_ratio=(0.5,) * rank))
    torch.testing.assert_close(results[1].data, results[0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (ops.interpolate, "one of size and scale_factor"),
        (lambda x: ops.interpolate(x, 3, mode="linear"), "not for an input of 4 dimensions"),
        (lambda x: ops.interpolate(x, 3, align_corners=True), "no align_corners"),
        (lambda x: ops.interpolate(x, 3, antialias=True), "no antialias"),
        (lambda x: ops.interpolate(x, (3,)), "one number for each of 2"),
        (lambda x: ops.fractional_max_pool2d(x, 2), "output_size or output_ratio"),
        (lambda x: ops.max_unpool2d(x, torch.zeros(x.shape, dtype=torch.int64), 2, output_size=(3, 3)), "a stride of"),
        (lambda x: ops.max_unpool1d(x, torch.zeros(x.shape, dtype=torch.int64), 2), "takes 2 or 3 dimensions"),
        (lambda x: ops.max_unpool2d(x, torch.zeros(x.shape, dtype=torch.int64), 1, 1, 3), r"the size \[-2, -2\]"),
        (lambda x: ops.max_unpool2d(x, torch.zeros(x.shape, dtype=torch.int64), (2, 2, 2)), "each of 2 dimensions"),
        (lambda x: ops.max_pool1d(x[0], (2, 3)), "each of 1 dimensions"),
        (lambda x: ops.max_pool1d(x[0], 2, padding=(0, 1)), "each of 1 dimensions"),
        (lambda x: ops.max_pool2d(x, 2, 0), "stride should not be zero"),
        (lambda x: ops.lp_pool2d(x, 2.0, 2, 0), "stride should not be zero"),
        (lambda x: ops.avg_pool2d(x, kernel_size=2, stride=0), "stride should not be zero"),
        (lambda x: nbgrad.fft.fft(x, norm="all"), "no norm 'all'"),
        (lambda x: nbgrad.fft.fft(x, out=x), "out="),
        (lambda x: nbgrad.fft.fftn(x, dim=(0, 0)), "twice"),
        (lambda x: nbgrad.fft.rfft(nbgrad.fft.fft(x)), "real numbers"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises((ValueError, RuntimeError, NotImplementedError), match=words):
        call(nbgrad.tensor(double(1, 2, 4, 4)))


@pytest.mark.parametrize("name", [name for name in nbgrad.fft.__all__ if not name.endswith("freq")])
def test_every_transform_is_torchs_and_reached_through_torch(name: str) -> None:
    x = double(3, 4)
    expected = getattr(torch.fft, name)(x)
    ours = nbgrad.tensor(x, requires_grad=True)
    for got in (getattr(nbgrad.fft, name)(ours), getattr(torch.fft, name)(ours)):
        torch.testing.assert_close(got.data.resolve_conj(), expected.resolve_conj())
        assert got.requires_grad
