"""Weights in a file of safetensors: nothing but names, shapes and numbers, so that reading it runs no code.

The package ``safetensors`` is needed only here: ``pip install safetensors``.
"""

from collections.abc import Collection, Mapping
from itertools import pairwise
from os import PathLike, fspath
from typing import Any

import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.core.files import replace_file
from nbgrad.nn.module.module import Module
from nbgrad.nn.module.state_dict import IncompatibleKeys


def save_safetensors(
    model: Module | Mapping[str, Any], path: str | PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write the parameters and persistent buffers of a model to a file, under torch's keys.

    A tensor with several names is written once, under the first; the file's metadata say which others it has, as
    ``safetensors.torch.save_model`` does. A file that is there already stays until the new one is complete.

    Args:
        model: a module, or a ``state_dict``.
        path: the file.
        metadata: texts by name to write along.

    Raises:
        ModuleNotFoundError: safetensors is not installed.
        ValueError: tensors share a part of their memory but are not the same, or ``metadata`` has a name of a tensor.
    """
    from safetensors.torch import save_file

    state: Mapping[str, Any] = model if isinstance(model, Mapping) else model.state_dict()
    kept: dict[str, torch.Tensor] = {}
    first: dict[Any, str] = {}
    others: dict[str, str] = {}
    for name, value in state.items():
        data = raw_of(value)
        if not isinstance(data, torch.Tensor):
            raise ValueError(f"a file of safetensors holds tensors only, and {name} is {torch.typename(data)}")
        place = (data.data_ptr(), data.shape, data.stride(), data.dtype, str(data.device))
        if data.numel() and place in first:
            others[name] = first[place]
            continue
        first[place] = name
        kept[name] = data.detach().contiguous()
    if taken := [name for name in metadata or () if name in state]:
        raise ValueError(
            f"metadata may not have the name of a tensor, as {taken[0]!r}: nbgrad uses such entries for tied tensors"
        )
    _check_apart(kept)
    facts = {"format": "pt", **others, **(metadata or {})}
    replace_file(path, lambda file: save_file(kept, file, facts))


def load_safetensors(model: Module, path: str | PathLike[str], strict: bool = True) -> IncompatibleKeys:
    """Copy the values in a file into the parameters and buffers of ``model``, which stay the same objects.

    Args:
        model: a module.
        path: a file by ``save_safetensors``, or by ``safetensors.torch`` from a torch model of the same structure.
        strict: raise if a key is missing or unexpected, instead of reporting it.

    Returns:
        The keys that are missing and unexpected, as ``load_state_dict`` does.

    Raises:
        ModuleNotFoundError: safetensors is not installed.
        ValueError: the file is no file of safetensors, or is damaged.
        RuntimeError: keys or shapes do not match; nothing has been loaded.
    """
    return model.load_state_dict(read_safetensors(path, model.state_dict()), strict=strict)


def read_safetensors(path: str | PathLike[str], wanted: Collection[str] = ()) -> dict[str, torch.Tensor]:
    """The tensors in a file by name, and those of the ``wanted`` that were written under another of their names.

    The metadata say which these are. They also hold the user's texts, so an entry that names no tensor is no error.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # it is no dict
            others = file.metadata() or {}
    except (SafetensorError, OverflowError) as error:
        raise ValueError(f"{fspath(path)} is no file of safetensors, or is damaged: {error}") from None
    for name in wanted:
        if name not in tensors and others.get(name) in tensors:
            tensors[name] = tensors[others[name]]
    return tensors


def _check_apart(tensors: Mapping[str, torch.Tensor]) -> None:
    """Raise if different tensors share memory: after loading they would not share it any more."""
    spans = sorted(
        (one.data_ptr(), one.data_ptr() + one.numel() * one.element_size(), name)
        for name, one in tensors.items()
        if one.numel()
    )
    for (_, end, name), (begin, _, other) in pairwise(spans):
        if begin < end:
            raise ValueError(f"{name} and {other} share memory but are not the same: save a clone of one of them")
