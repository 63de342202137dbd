"""Statistics and checks of tensors in every layout: computed in pieces, they equal those of the whole tensor."""

import math
from random import Random
from unittest.mock import patch

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool2d

from nbgrad.core.backend import chunks
from nbgrad.core.graph import nonfinite
from nbgrad.widgets import tensor_lookup
from nbgrad.widgets.description.tensor_summary import tiled
from tests.core.whole import check_finite, check_statistics

CASES = 60

DTYPES = [
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128),
    *(torch.int64, torch.int8, torch.uint8, torch.bool),
]
SIZES = [1, 1, 2, 3, 5, 17, 40, 130]


def check(random: Random) -> None:
    """One tensor, and pieces of one size."""
    data = made(random)
    piece = max(random.choice([1, 2, 7, 64, 1000]), data.numel() // 40)
    with patch.object(chunks, "PIECE", piece):
        found = list(chunks.pieces(data))
        assert all(0 < one.numel() <= piece for one in found)
        assert torch.cat([data.new_empty(0), *[one.reshape(-1) for one in found]]).equal(data.reshape(-1)) or (
            not nonfinite.finite(data)
        )
        check_statistics(data)
        if data.dtype.is_floating_point or data.dtype.is_complex:
            check_finite(data)
    with patch.object(tensor_lookup, "_TOGETHER", max(piece, data.numel() // tensor_lookup.SIDE)):
        check_map(data)


def made(random: Random) -> torch.Tensor:
    """A tensor of some type and layout, perhaps with numbers that are not finite."""
    shape = [random.choice(SIZES) for _ in range(random.randint(1, 5))]
    while math.prod(shape) > 10_000:
        shape[random.randrange(len(shape))] = 1
    dtype = random.choice(DTYPES)
    data = (torch.randn(shape, generator=torch.Generator().manual_seed(random.randrange(1 << 30))) * 9).to(dtype)
    if dtype.is_floating_point or dtype.is_complex:
        for value in random.choice([(), (), (math.nan,), (math.inf, -math.inf), (math.nan, math.inf)]):
            data.view(-1)[random.randrange(data.numel())] = value
    if random.random() < 0.5:
        data = data.permute(random.sample(range(data.ndim), data.ndim))
    if random.random() < 0.3:
        dim = random.randrange(data.ndim)
        data = data.narrow(dim, 0, 1).expand(*data.shape)
    if random.random() < 0.3:
        data = data[..., :: random.choice([1, 2, 3])]
    if dtype.is_complex and random.random() < 0.5:
        data = data.conj()
        data = data.imag if random.random() < 0.3 else data
    return data


def check_map(data: torch.Tensor) -> None:
    """The map of a large tensor equals the pooled table of all its numbers."""
    whole = (data.abs() if data.is_complex() else data).float()
    table = torch.from_numpy(tiled(np.ascontiguousarray(whole.resolve_neg().numpy())))
    wanted = adaptive_avg_pool2d(table[None], tuple(min(side, tensor_lookup.SIDE) for side in table.shape))[0]
    torch.testing.assert_close(tensor_lookup._NumberTable(data).map(), wanted, rtol=1e-4, atol=1e-4, equal_nan=True)
