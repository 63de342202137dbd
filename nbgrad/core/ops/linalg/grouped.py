"""Matrix products of groups of different sizes, as in a mixture of experts: torch's ``grouped_mm``."""

from itertools import pairwise
from typing import Any

import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.core.ops.linalg.matmul import bmm, mm
from nbgrad.core.ops.shape.joining import cat, stack
from nbgrad.core.ops.shape.splitting import split, unbind


def grouped_mm(mat_a: Any, mat_b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """One matrix product for each group.

    Shapes, with G groups that end at ``offs`` (G,) along the dimension in parentheses:

    - (M) x K and G x K x N: M x N, each expert on its rows;
    - G x M x K and K x (N): M x N;
    - M x (K) and (K) x N: G x M x N, as in the gradient of the weights in the first case;
    - G x M x K and G x K x N, without ``offs``: G x M x N.

    The part of the result behind the last group is zero.

    Raises:
        NotImplementedError: with ``bias``, which torch does not have either, or another ``out_dtype``.
        RuntimeError: ``offs`` is missing or not wanted.
    """
    if bias is not None:
        raise NotImplementedError("grouped_mm on nbgrad tensors takes no bias: add it to the result")
    if out_dtype not in (None, mat_a.dtype):
        raise NotImplementedError(f"grouped_mm on nbgrad tensors takes no out_dtype: write .to({out_dtype}) behind it")
    if (offs is None) != (mat_a.ndim == mat_b.ndim == 3):
        raise RuntimeError("grouped_mm takes offs=, where each group ends, if one of its matrices has two dimensions")
    if offs is None:
        return bmm(mat_a, mat_b)
    sizes = [end - start for start, end in pairwise([0, *raw_of(offs).tolist()])]
    if mat_a.ndim == mat_b.ndim == 2:
        return stack([mm(a, b) for a, b in zip(_groups(mat_a, sizes, 1), _groups(mat_b, sizes, 0), strict=True)])
    if mat_a.ndim == 2:
        products = [mm(a, b) for a, b in zip(_groups(mat_a, sizes, 0), unbind(mat_b), strict=True)]
        return _filled_up(products, mat_a.shape[0] - sum(sizes), 0)
    products = [mm(a, b) for a, b in zip(unbind(mat_a), _groups(mat_b, sizes, 1), strict=True)]
    return _filled_up(products, mat_b.shape[1] - sum(sizes), 1)


def _groups(matrix: Any, sizes: list[int], dim: int) -> list[Any]:
    """The parts of ``matrix`` along ``dim``, without the elements behind the last part."""
    rest = matrix.shape[dim] - sum(sizes)
    return list(split(matrix, [*sizes, rest], dim=dim))[: len(sizes)]


def _filled_up(products: list[Any], rest: int, dim: int) -> Any:
    if rest:
        first = raw_of(products[0])
        shape = [rest if place == dim else size for place, size in enumerate(first.shape)]
        products.append(torch.zeros(shape, dtype=first.dtype, device=first.device))
    return cat(products, dim=dim)
