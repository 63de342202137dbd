"""einops on our tensors and in converted models: values and gradients are torch's."""

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn as tnn

import nbgrad
from tests.core.programs import Library, Program, agree

einops = pytest.importorskip("einops", reason="einops is not installed: `make setup` installs it")

DATA = torch.arange(24, dtype=torch.float64).reshape(2, 3, 4).sin().tolist()


def rearranged(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(DATA)
    y = einops.rearrange(x, "b (h w) c -> (b c) h w", h=3)
    z = einops.rearrange([x, x * 2], "n b h c -> b h (n c)")
    (y.exp().sum() + (z * z).sum()).backward()
    return y, z, x.grad


def reduced(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(DATA)
    found = [
        einops.reduce(x, "b h c -> b c", "mean"),
        einops.reduce(x, "b (h 3) (c 2) -> c b", "max"),
        einops.reduce(x, "b h c -> h", "min"),
        einops.reduce(x, "b h c -> () h c", "sum"),
        einops.reduce(x, "b h c -> b 1", "prod"),
        einops.reduce(x, "b h c -> b h", torch.logsumexp),
    ]
    sum((one * one).sum() for one in found).backward()
    return *found, x.grad


def repeated(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(DATA)
    y = einops.repeat(x, "b h c -> b (h 2) c 3")
    (y * y).sum().backward()
    return y, x.grad


def summed(lib: Library) -> tuple[Any, ...]:
    x, w = lib.leaf(DATA), lib.leaf(DATA)
    y = einops.einsum(x, w, "b h c, b k c -> b h k")
    (y * y).sum().backward()
    return y, x.grad, w.grad


def packed(lib: Library) -> tuple[Any, ...]:
    x, w = lib.leaf(DATA), lib.leaf(DATA)
    y, shapes = einops.pack([x, (w * 2)[:, 0]], "b * c")
    first, last = einops.unpack(y * y, shapes, "b * c")
    (first.sum() + 3 * last.sum()).backward()
    return y, first, last, x.grad, w.grad, [tuple(shape) for shape in shapes]


def asked(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(DATA)
    return einops.parse_shape(x, "b _ c"), einops.asnumpy(x).tolist()


@pytest.mark.parametrize("program", [rearranged, reduced, repeated, summed, packed, asked])
def test_the_program_is_torchs(program: Program) -> None:
    agree(program)


def test_layers_of_einops_in_a_converted_model() -> None:
    from einops.layers.torch import EinMix, Rearrange, Reduce

    torch.manual_seed(0)
    theirs = tnn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2),
        EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=12, d=5),
        Reduce("b t d -> b d", "max"),
    )
    ours = nbgrad.from_torch(theirs)
    x = torch.randn(2, 3, 4, 4)
    expected, found = theirs(x), ours(nbgrad.tensor(x))
    torch.testing.assert_close(found.data, expected.detach())
    expected.square().sum().backward()
    found.square().sum().backward()
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.data, yours.grad)


@pytest.mark.rotated(6)
@pytest.mark.parametrize("first", ["nbgrad", "einops"])
def test_either_may_be_imported_first(first: str) -> None:
    second = "einops" if first == "nbgrad" else "nbgrad"
    program = (
        f"import sys, {first}\n"
        f"assert ({second!r} in sys.modules) is False\n"
        f"import {second}, einops, nbgrad\n"
        "x = nbgrad.ones(2, 3, requires_grad=True)\n"
        "y = einops.rearrange(x, 'a b -> b a')\n"
        "assert isinstance(y, nbgrad.Tensor) and y.shape == (3, 2) and y.requires_grad\n"
        "assert not any('nbgrad.core.interop.einops_backend' == type(one).__module__ for one in sys.meta_path)\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)
