"""Pickles that an earlier version wrote are read by this one: tensors, parameters, modules, optimizers, functions."""

import lzma
import pickle
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from nbgrad.nn import functional

FILES = sorted(Path(__file__).with_name("pickles").glob("*.pickle.xz"))
"""The files, one for each version. Each maps a name to the pickled bytes."""


def written(kind: str) -> list[Any]:
    """The pickles of a kind, with their names."""
    return [
        pytest.param(data, id=f"{file.name.removesuffix('.pickle.xz')}-{name}")
        for file in FILES
        for name, data in pickle.loads(lzma.decompress(file.read_bytes())).items()
        if name.partition(".")[0] == kind
    ]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("data", written("module"))
def test_a_module_is_read_and_works(data: bytes) -> None:
    module = pickle.loads(data)
    assert isinstance(module, nn.Module)
    twin = pickle.loads(pickle.dumps(module))
    assert type(twin) is type(module) is getattr(nn, type(module).__name__, type(module))
    theirs, ours = module.state_dict(), twin.state_dict()
    assert theirs.keys() == ours.keys()
    assert repr(twin) == repr(module)
    module.zero_grad()


@pytest.mark.parametrize("data", written("function"))
def test_a_function_is_the_one_that_has_its_name(data: bytes) -> None:
    function = pickle.loads(data)
    assert callable(function)
    places = (nbgrad, functional, nbgrad.linalg, nbgrad.fft, nbgrad.special)
    assert any(getattr(place, name, None) is function for place in places for name in vars(place))


def test_tensors_and_parameters_are_read() -> None:
    for file in FILES:
        held = pickle.loads(lzma.decompress(file.read_bytes()))
        read = {name: pickle.loads(held[name]) for name in ("tensor", "tensor.named", "parameter", "buffer")}
        assert read["tensor"].tolist() == [1.0, 2.0]
        named = read["tensor.named"]
        assert (named.name, named.requires_grad, named.tolist()) == ("weights", True, [[1.0, 2.0], [3.0, 4.0]])
        (named * named).sum().backward()
        assert named.grad.tolist() == [[2.0, 4.0], [6.0, 8.0]]
        assert isinstance(read["parameter"], nn.Parameter)
        assert isinstance(read["buffer"], nn.Buffer)
        assert isinstance(pickle.loads(held["uninitialized"]), nn.UninitializedParameter)
        assert list(pickle.loads(held["state"])) == ["weight", "bias"]
        assert pickle.loads(held["packed"]).data.tolist() == [1.0, 3.0, 2.0]
        assert isinstance(torch.load(BytesIO(held["saved.module"]), weights_only=False), nn.Linear)
        for name in ("SGD", "Adam", "LBFGS"):
            assert isinstance(pickle.loads(held[f"optimizer.{name}"]), getattr(optim, name))


def public() -> Iterator[Any]:
    """Every public function, once."""
    seen = set()
    for place in (nbgrad, functional, nbgrad.linalg, nbgrad.fft, nbgrad.special):
        for name, value in vars(place).items():
            here = callable(value) and not isinstance(value, type) and not name.startswith("_")
            if here and type(value).__module__.startswith(("nbgrad", "builtins")) and id(value) not in seen:
                seen.add(id(value))
                yield pytest.param(value, id=f"{place.__name__}.{name}")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("function", list(public()))
def test_every_function_can_be_pickled(function: Any) -> None:
    assert pickle.loads(pickle.dumps(function)) is function
