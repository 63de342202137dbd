"""``Residual`` next to the same block in plain torch, with the same names and weights."""

import copy
from typing import Any

import pytest
import torch
from torch import nn as tnn

from nbgrad import nn
from tests.nn.alike import check
from tests.nn.networks import Residual

BLOCKS: dict[str, tuple[Any, Any]] = {
    "same shape": (nn.Residual(nn.Linear(4, 4)), Residual(tnn.Linear(4, 4))),
    "projection": (
        nn.Residual(nn.Linear(4, 3), nn.Linear(4, 3, bias=False)),
        Residual(tnn.Linear(4, 3), tnn.Linear(4, 3, bias=False)),
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_residual(name: str) -> None:
    ours, theirs = copy.deepcopy(BLOCKS[name])
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    check(
        ours.double(), theirs.double(), torch.randn(3, 4, dtype=torch.float64), tolerance={"rtol": 1e-9, "atol": 1e-11}
    )
