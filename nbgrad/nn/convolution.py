"""Convolutions: the same small filter at every place of a signal, an image or a volume."""

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any, ClassVar

import torch

from nbgrad.core import ops
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn import init
from nbgrad.nn.adopted import adopting, showing
from nbgrad.nn.function_block import Size, formula_of, of_shape, repeated, wrong_rank
from nbgrad.nn.module.lazy import Lazy
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Device, DType, Parameter, uninitialized

_MODES = ("zeros", "reflect", "replicate", "circular")

_output_padding: Any = torch.nn.modules.conv._ConvTransposeNd._output_padding


class _ConvNd(Module):
    """The shared parts of all convolutions: the weights, their initial values, and their ``repr``."""

    _function: ClassVar[Callable[..., Any]]
    _spatial: ClassVar[int]
    _transposed: ClassVar[bool] = False

    padding: str | tuple[int, ...]
    bias: Parameter | None

    def __init_subclass__(cls, function: Callable[..., Any] | None = None, spatial: int = 0, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if function is not None:
            cls._function = staticmethod(function)
            cls._spatial = spatial
            cls.__formula__ = formula_of(function)

    def _set(
        self,
        *,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size,
        padding: Size | str,
        dilation: Size,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device,
        dtype: DType,
        output_padding: Size = 0,
    ) -> None:
        """Take the arguments of a constructor."""
        super().__init__()
        _check_groups(in_channels, out_channels, groups)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = repeated(kernel_size, self._spatial)
        self.stride = repeated(stride, self._spatial)
        self.padding = padding if isinstance(padding, str) else repeated(padding, self._spatial)
        self.dilation = repeated(dilation, self._spatial)
        self.transposed = self._transposed
        self.output_padding = repeated(output_padding, self._spatial)
        self.groups = groups
        self.padding_mode = padding_mode
        _check_padding(self.padding, self.stride, padding_mode)
        self.weight = uninitialized(*self._weight_shape(), device=device, dtype=dtype)
        self.register_parameter("bias", uninitialized(out_channels, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self.out_channels, self.in_channels
        if self._transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform in ``±1 / sqrt(fan in)``."""
        init.kaiming_uniform_(self.weight, a=sqrt(5))
        if self.bias is not None:
            fan_in = prod(self.weight.shape[1:])
            bound = 1 / sqrt(fan_in) if fan_in else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Any:
        padding = self.padding
        if self.padding_mode != "zeros":
            input = ops.pad(input, _around(padding, self.kernel_size, self.dilation), mode=self.padding_mode)
            padding = 0  # type: ignore[assignment]  # it is there already
        return self._function(
            input,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    def _misfit(self, input: Tensor) -> str | None:
        wrong = wrong_rank(input, (self._spatial + 1, self._spatial + 2))
        channels = None if wrong else input.shape[-self._spatial - 1]
        if wrong or channels == self.in_channels:
            return wrong
        return f"expected {self.in_channels} channels, got {channels}, {of_shape(input)}"

    extra_repr = showing(torch.nn.Conv1d)


def _check_groups(in_channels: int, out_channels: int, groups: int) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups:
        raise ValueError("out_channels must be divisible by groups")


def _check_padding(padding: str | tuple[int, ...], stride: tuple[int, ...], mode: str) -> None:
    if isinstance(padding, str) and padding not in {"same", "valid"}:
        raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
    if padding == "same" and any(step != 1 for step in stride):
        raise ValueError("padding='same' is not supported for strided convolutions")
    if mode not in _MODES:
        raise ValueError(f"padding_mode must be one of {_MODES}, but got padding_mode={mode!r}")


def _around(padding: str | tuple[int, ...], kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[int, ...]:
    """The argument of ``pad``, last dimension first, as in torch: a pair of numbers for each number of the padding."""
    if not isinstance(padding, str):
        return tuple(side for one in reversed(padding) for side in (one, one))
    if padding == "valid":
        return (0, 0) * len(kernel_size)
    totals = [gap * (size - 1) for gap, size in zip(dilation[::-1], kernel_size[::-1], strict=False)]
    return tuple(side for total in totals for side in (total // 2, total - total // 2))


class Conv1d(_ConvNd, function=ops.conv1d, spatial=1):
    """Slides filters over signals: each output is a weighted sum of the elements under a filter (LeCun et al. 1989).

    Shapes: input (N, in_channels, L) or (in_channels, L), output (N, out_channels, M) or (out_channels, M), where
    kernel_size, stride, padding and dilation determine M; weight (out_channels, in_channels / groups, kernel_size).

    Args:
        in_channels: how many numbers the input has at each place.
        out_channels: how many filters there are.
        kernel_size: how long a filter is.
        stride: by how much it moves.
        padding: how much is added at both ends; "valid" is 0, "same" as much as keeps the length.
        dilation: the distance between the places that a filter sees.
        groups: into how many parts the channels are divided, each with filters of its own.
        bias: whether it learns a bias.
        padding_mode: the kind of padding: "zeros", "reflect", "replicate" or "circular".
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        ValueError: ``groups`` does not divide the channels, or the padding is unknown.
        RuntimeError: when called, if the rank or the number of channels of the input is wrong.
    """

    @adopting(torch.nn.Conv1d)
    def __init__(self, **given: Any) -> None:
        self._set(**given)


class Conv2d(_ConvNd, function=ops.conv2d, spatial=2):
    """Slides filters over images (LeCun et al. 1989). The arguments are those of ``Conv1d``, numbers or pairs.

    Shapes: input (N, in_channels, H, W) or (in_channels, H, W), output with out_channels, and with a height and width
    that kernel_size, stride, padding and dilation determine; weight (out_channels, in_channels / groups, *kernel_size).
    """

    @adopting(torch.nn.Conv2d)
    def __init__(self, **given: Any) -> None:
        self._set(**given)


class Conv3d(_ConvNd, function=ops.conv3d, spatial=3):
    """Slides filters over volumes or films. The arguments are those of ``Conv1d``, numbers or triples.

    Shapes: input (N, in_channels, D, H, W) or (in_channels, D, H, W), output with out_channels, and with a size that
    kernel_size, stride, padding and dilation determine; weight (out_channels, in_channels / groups, *kernel_size).
    """

    @adopting(torch.nn.Conv3d)
    def __init__(self, **given: Any) -> None:
        self._set(**given)


class _ConvTranspose(_ConvNd):
    _transposed = True
    padding: tuple[int, ...]

    def _set(self, **given: Any) -> None:
        if given["padding_mode"] != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super()._set(**given)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Any:
        # An input of one size may give outputs of several sizes: torch's method reads sizes and settings alone.
        sizes = (self.stride, self.padding, self.kernel_size, self._spatial, self.dilation)
        extra = _output_padding(self, input, output_size and list(output_size), *sizes)
        return self._function(
            input,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            output_padding=extra,
            groups=self.groups,
            dilation=self.dilation,
        )


class ConvTranspose1d(_ConvTranspose, function=ops.conv_transpose1d, spatial=1):
    """The gradient of a ``Conv1d`` with respect to its input, as a layer: it makes signals longer.

    Shapes: input (N, in_channels, L) or (in_channels, L), output (N, out_channels, M) or (out_channels, M), where M is
    the length that a ``Conv1d`` shortens to L; weight (in_channels, out_channels / groups, kernel_size).

    Args:
        in_channels: how many numbers the input has at each place.
        out_channels: how many the output has.
        kernel_size: how long a filter is.
        stride: by how much the output moves for one step in the input.
        padding: how much is cut off at both ends.
        output_padding: how much is added at one end; or call it with ``output_size=``.
        groups: into how many parts the channels are divided, each with filters of its own.
        bias: whether it learns a bias.
        dilation: the distance between the places that a filter reaches.
        padding_mode: "zeros".
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        ValueError: ``groups`` does not divide the channels, or ``padding_mode`` is not "zeros"; when called, if
            ``output_size`` is not possible.
        RuntimeError: when called, if the rank or the number of channels of the input is wrong.
    """

    @adopting(torch.nn.ConvTranspose1d)
    def __init__(self, **given: Any) -> None:
        self._set(**given)


class ConvTranspose2d(_ConvTranspose, function=ops.conv_transpose2d, spatial=2):
    """Makes images larger (Zeiler et al. 2010). The arguments are those of ``ConvTranspose1d``, numbers or pairs.

    Shapes: input (N, in_channels, H, W) or (in_channels, H, W), output with out_channels and the size that a ``Conv2d``
    reduces to (H, W); weight (in_channels, out_channels / groups, *kernel_size).
    """

    @adopting(torch.nn.ConvTranspose2d)
    def __init__(self, **given: Any) -> None:
        self._set(**given)


class ConvTranspose3d(_ConvTranspose, function=ops.conv_transpose3d, spatial=3):
    """Makes volumes larger. The arguments are those of ``ConvTranspose1d``, numbers or triples.

    Shapes: input (N, in_channels, D, H, W) or (in_channels, D, H, W), output with out_channels and the size that a
    ``Conv3d`` reduces to (D, H, W); weight (in_channels, out_channels / groups, *kernel_size).
    """

    @adopting(torch.nn.ConvTranspose3d)
    def __init__(self, **given: Any) -> None:
        self._set(**given)


class _LazyConv(Lazy, _ConvNd):
    def _learn(self, input: Tensor) -> dict[str, tuple[int, ...]]:
        if wrong := wrong_rank(input, (self._spatial + 1, self._spatial + 2)):
            raise RuntimeError(f"{type(self).__name__}: {wrong}")
        self.in_channels = input.shape[-self._spatial - 1]
        _check_groups(self.in_channels, self.out_channels, self.groups)
        return {"weight": self._weight_shape(), "bias": (self.out_channels,)}


class LazyConv1d(_LazyConv, Conv1d, becomes=Conv1d):
    """A ``Conv1d`` that takes ``in_channels`` from its first input; its other arguments are the same."""


class LazyConv2d(_LazyConv, Conv2d, becomes=Conv2d):
    """A ``Conv2d`` that takes ``in_channels`` from its first input; its other arguments are the same."""


class LazyConv3d(_LazyConv, Conv3d, becomes=Conv3d):
    """A ``Conv3d`` that takes ``in_channels`` from its first input; its other arguments are the same."""


class LazyConvTranspose1d(_LazyConv, ConvTranspose1d, becomes=ConvTranspose1d):
    """A ``ConvTranspose1d`` that takes ``in_channels`` from the first input that it is called on."""


class LazyConvTranspose2d(_LazyConv, ConvTranspose2d, becomes=ConvTranspose2d):
    """A ``ConvTranspose2d`` that takes ``in_channels`` from the first input that it is called on."""


class LazyConvTranspose3d(_LazyConv, ConvTranspose3d, becomes=ConvTranspose3d):
    """A ``ConvTranspose3d`` that takes ``in_channels`` from the first input that it is called on."""
