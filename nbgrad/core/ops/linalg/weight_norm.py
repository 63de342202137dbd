"""A weight as lengths times directions: torch's ``weight_norm`` computes it from both before each forward."""

from typing import Any

from nbgrad.core.ops.linalg.matrix_functions import norm


def norm_except_dim(v: Any, pow: float = 2, dim: int = 0) -> Any:
    """The length of each slice of ``v`` along ``dim``, in a shape that broadcasts with ``v``; -1: of the whole."""
    if dim == -1:
        return norm(v, pow)
    first = v.transpose(0, dim)
    lengths = norm(first.reshape(len(first), -1), pow, 1)
    return lengths.reshape(-1, *[1] * (v.ndim - 1)).transpose(0, dim)


def weight_norm(v: Any, g: Any, dim: int = 0) -> Any:
    """``v`` with the lengths ``g`` in place of its own; see ``norm_except_dim``."""
    return v * (g / norm_except_dim(v, 2, dim))
