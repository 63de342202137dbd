"""The parameters that an assertion is about, by name; and what it leaves as it was."""

import random
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import torch

from nbgrad.core.backend.randomness import random_state, set_random_state
from nbgrad.core.engine.node import raw_of
from nbgrad.core.graph.unreached import named_tensors
from nbgrad.core.suggestions import kind_of

Named = dict[str, Any]
"""Tensors by name, of nbgrad's or of torch's."""


def named_parameters(asks: str, given: Any) -> Named:
    """The parameters of a module; or the tensors of a dict, of pairs of name and tensor, or of a list.

    Raises:
        TypeError: ``given`` is none of these.
        ValueError: there is no parameter, or one has no numbers yet.
    """
    what = f"{asks}: takes a module, a dict of names and tensors, or tensors"
    if not (hasattr(given, "named_parameters") or isinstance(given, Iterable) or is_tensor(given)):
        raise TypeError(f"{what}, and got {kind_of(given)}")
    try:
        pairs = named_tensors(given)
    except (TypeError, ValueError):
        raise TypeError(f"{what}, and got {kind_of(given)} of something else") from None
    found: Named = {str(name or f"tensor {at}"): tensor for at, (name, tensor) in enumerate(pairs)}
    for name, tensor in found.items():
        if not is_tensor(tensor):
            raise TypeError(f"{what}, and {name!r} is {kind_of(tensor)}")
        if torch.nn.parameter.is_lazy(tensor):
            raise ValueError(f"{asks}: {name!r} has no numbers yet: call the model once before")
        if tensor.is_meta:
            raise ValueError(f"{asks}: {name!r} is on the meta device, which has no numbers: give it memory before")
    if not found:
        raise ValueError(f"{asks}: {kind_of(given)} has no parameters")
    return found


def is_tensor(value: Any) -> bool:
    """Whether ``value`` is a tensor of nbgrad's or of torch's."""
    return isinstance(raw_of(value), torch.Tensor)


def described(name: str, tensor: Any) -> str:
    """The name and the shape, as findings write them."""
    return f"{name} {tuple(tensor.shape)}"


def numbers(tensor: Any) -> torch.Tensor:
    """A copy of the numbers of a tensor."""
    raw: torch.Tensor = raw_of(tensor)
    return raw.detach().clone()


def same(one: Any, other: torch.Tensor) -> bool:
    """Whether all numbers are equal; NaN equals NaN."""
    now = raw_of(one).detach()
    if now.shape != other.shape or now.dtype != other.dtype:
        return False
    other = other.to(now.device)
    return bool(torch.equal(now, other) or ((now == other) | ((now != now) & (other != other))).all())  # noqa: PLR0124


@contextmanager
def preserved(
    models: Iterable[Any], parameters: Iterable[Any], *, buffers: bool = False
) -> Generator[None, None, None]:
    """Leave behind every ``.grad``, the states of the random number generators and the training modes as they are now.

    Args:
        models: the modules whose modes are left; anything else is passed over.
        parameters: the tensors whose ``.grad`` is left.
        buffers: whether the buffers of the models keep their numbers, too.
    """
    kept = [(one, one.grad, None if one.grad is None else numbers(one.grad)) for one in parameters if one.is_leaf]
    inside = [part for model in models if hasattr(model, "modules") for part in model.modules()]
    modes = [(part, part.training) for part in inside]
    held = [(one, numbers(one)) for part in inside for one in part.buffers(recurse=False)] if buffers else []
    devices = [torch.device("cuda", one) for one in range(torch.cuda.device_count())]
    state = random_state(devices if torch.cuda.is_initialized() else ())  # type: ignore[no-untyped-call]  # in torch
    plain, numpy = random.getstate(), sys.modules.get("numpy")
    arrays = None if numpy is None else numpy.random.get_state()
    try:
        yield
    finally:
        for tensor, grad, before in kept:
            tensor.grad = grad
            if before is not None and not same(grad, before):
                raw_of(grad).copy_(before)
        for part, mode in modes:
            part.training = mode
        with torch.no_grad():
            for one, before in held:
                if not same(one, before):
                    raw_of(one).copy_(before)
        set_random_state(state)
        random.setstate(plain)
        if numpy is not None and arrays is not None:
            numpy.random.set_state(arrays)
