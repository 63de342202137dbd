"""Other forms of the calls in torch's op database: result and gradient are torch's, or both libraries raise."""

from functools import cache
from random import Random
from typing import Any

import torch

from tests.core import call_forms, opdb

CASES = 150

EXCEPT: dict[str, tuple[str, ...]] = {
    "__getitem__": ("list or tuple",),
    **dict.fromkeys(("dsplit", "hsplit", "tensor_split", "vsplit"), ("a tuple of one", "the one of a tuple")),
    "combinations": ("number in a tensor",),
    "expand_copy": ("implicit=False",),
    "expand": ("implicit=False",),
    "fft.fftshift": ("number in a tensor",),
    "fft.ifftshift": ("number in a tensor",),
    "lu": ("out=None",),
    "masked.std": ("number in a tensor",),
    "masked.var": ("number in a tensor",),
    "nn.functional.alpha_dropout": ("number in a tensor",),
    "nn.functional.dropout": ("number in a tensor",),
    "nn.functional.feature_alpha_dropout": ("number in a tensor",),
    "nn.functional.fractional_max_pool2d": ("number in a tensor",),
    "nn.functional.fractional_max_pool3d": ("number in a tensor",),
    "nn.functional.interpolate": ("number in a tensor",),
    "nn.functional.max_unpool1d": ("array",),
    "nn.functional.max_unpool2d": ("array",),
    "nn.functional.max_unpool3d": ("array",),
    "nn.functional.multi_head_attention_forward": ("number in a tensor",),
    "nn.functional.scaled_dot_product_attention": ("number in a tensor",),
}
"""Forms that mean something else, or that torch accepts only by chance, such as sizes in tensors."""

GAUGE = ("linalg.svd", "svd")
"""Entries whose gradients in torch depend on a choice of the kernel. nbgrad refuses to compute these gradients."""


@cache
def _entries() -> list[Any]:
    """The entries that agree with torch in their usual form."""
    agreed = set(opdb.read_agreed())
    return [entry for name, entry in sorted(opdb.entries().items()) if name in agreed]


@cache
def _samples(name: str) -> list[Any]:
    return opdb.samples_of(opdb.entries()[name], torch.float64)


def check(random: Random) -> None:
    """Compare one sample of one entry, in one form and by one way to call it."""
    entry = random.choice(_entries())
    if entry.name in GAUGE:
        return
    samples, doors = _samples(entry.full_name), call_forms.doors(entry)
    if not samples or not doors:
        return
    sample, door = random.choice(samples), random.choice(sorted(doors))
    found = list(call_forms.calls(entry, sample))
    if not found:
        return
    call = random.choice(found)
    if any(form in call.form for form in EXCEPT.get(entry.name, ())):
        return
    wrong = call_forms.difference(doors[door], call, found[0])
    assert not wrong, f"{entry.full_name}, {door}, {call.form}: {wrong}"
