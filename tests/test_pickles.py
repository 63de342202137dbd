"""Every public function can be pickled: a pickle holds its name, by which it is found again."""

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import nbgrad
from nbgrad.nn import functional


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
