"""Padding: elements are added at the ends of a signal or the sides of an image or volume; negative numbers cut off.

Shapes: input (N, C, ...) or (C, ...), with one, two or three dimensions more; output the same with larger ones.

A ``padding`` is one number for all sides, or a pair for each dimension, the last dimension first: (left, right, top,
bottom, front, back).
"""

from typing import Any, ClassVar

import torch

from nbgrad.core.ops import pad
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.function_block import Block, repeated

_FORMULAS = {
    "circular": r"x_{(i - l) \bmod n}",
    "constant": r"x \text{ in a frame of } v",
    "reflect": r"x_{|i - l|}",
    "replicate": r"x_{\min(\max(i - l, 0), n - 1)}",
}


class _Pad(Block, function=pad, torchs=torch.nn.ReflectionPad1d):
    """The base of the paddings; ``rank`` is the number of dimensions that they pad."""

    _rank: ClassVar[int]
    _mode: ClassVar[str]

    def __init_subclass__(cls, rank: int = 0, mode: str = "", **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if mode:
            cls._mode, cls.__formula__ = mode, vars(cls).get("__formula__") or _FORMULAS[mode]
        if rank:
            cls._rank = rank
            cls._dims = (rank + 1, rank + 2) if cls._mode != "constant" else ()

    def _adjust(self, given: dict[str, Any]) -> None:
        given["padding"] = repeated(given["padding"], 2 * self._rank)

    def forward(self, input: Tensor) -> Any:
        if self._mode == "circular" and input.ndim not in self._dims:
            expected = " or ".join(f"{rank}D" for rank in self._dims)
            raise ValueError(f"expected {expected} input (got {input.ndim}D input)")
        return pad(input, self.padding, self._mode)


class _ConstantPad(_Pad, mode="constant", torchs=torch.nn.ConstantPad1d):
    def forward(self, input: Tensor) -> Any:
        return pad(input, self.padding, self._mode, self.value)


class ConstantPad1d(_ConstantPad, rank=1):
    """Adds ``value`` at both ends."""


class ConstantPad2d(_ConstantPad, rank=2):
    """Adds ``value`` at all sides."""


class ConstantPad3d(_ConstantPad, rank=3):
    """Adds ``value`` at all sides."""


class _ZeroPad(_Pad, mode="constant"):
    __formula__ = r"x \text{ in a frame of } 0"

    value: ClassVar[float] = 0.0

    def forward(self, input: Tensor) -> Any:
        return pad(input, self.padding, self._mode, self.value)


class ZeroPad1d(_ZeroPad, rank=1):
    """Adds zeros at both ends."""


class ZeroPad2d(_ZeroPad, rank=2):
    """Adds zeros at all sides."""


class ZeroPad3d(_ZeroPad, rank=3):
    """Adds zeros at all sides."""


class ReflectionPad1d(_Pad, rank=1, mode="reflect"):
    """Adds the mirror image of the input at both ends, without the number at the end itself."""


class ReflectionPad2d(_Pad, rank=2, mode="reflect"):
    """Adds the mirror image of the input at all sides, without the numbers at the side itself."""


class ReflectionPad3d(_Pad, rank=3, mode="reflect"):
    """Adds the mirror image of the input at all sides, without the numbers at the side itself."""


class ReplicationPad1d(_Pad, rank=1, mode="replicate"):
    """Repeats the numbers at both ends."""


class ReplicationPad2d(_Pad, rank=2, mode="replicate"):
    """Repeats the numbers at all sides."""


class ReplicationPad3d(_Pad, rank=3, mode="replicate"):
    """Repeats the numbers at all sides."""


class CircularPad1d(_Pad, rank=1, mode="circular"):
    """Continues each end with the elements of the other end."""


class CircularPad2d(_Pad, rank=2, mode="circular"):
    """Continues each side with the elements of the opposite side."""


class CircularPad3d(_Pad, rank=3, mode="circular"):
    """Continues each side with the elements of the opposite side."""
