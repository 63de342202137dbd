"""Single steps of recurrent networks, for loops of one's own."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import torch

from nbgrad.core.ops import gru_cell, lstm_cell, rnn_relu_cell, rnn_tanh_cell
from nbgrad.nn import init
from nbgrad.nn.block import of_shape
from nbgrad.nn.calling import misfit
from nbgrad.nn.module import Module
from nbgrad.nn.parameter import Parameter, uninitialized
from nbgrad.nn.recurrent import Device


class RNNCellBase(Module):
    """What single steps share: their weights."""

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih = uninitialized(gates, input_size, device=device, dtype=dtype)
        self.weight_hh = uninitialized(gates, hidden_size, device=device, dtype=dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, uninitialized(gates, device=device, dtype=dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform in ``±1 / sqrt(hidden_size)``."""
        bound = 1 / sqrt(self.hidden_size) if self.hidden_size else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, function: Callable[..., Any], input: Any, states: Sequence[Any] | None, count: int) -> Any:
        """One step from ``count`` states, zeros where none are given."""
        if input.ndim not in {1, 2}:
            raise misfit(ValueError(f"Expected input to be 1D or 2D, got {input.ndim}D instead"))
        if input.shape[-1] != self.input_size:
            raise misfit(
                RuntimeError(f"expected last dimension {self.input_size}, got {input.shape[-1]}, {of_shape(input)}")
            )
        shape = (*input.shape[:-1], self.hidden_size)
        if states is None:
            states = [torch.zeros(shape, dtype=input.dtype, device=input.device)] * count
        for state in states:
            if tuple(state.shape) != shape:
                raise misfit(RuntimeError(f"Expected hidden size {shape}, got {tuple(state.shape)}"))
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return function(input, states[0] if count == 1 else tuple(states), *weights)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else ", bias=False")


class RNNCell(RNNCellBase):
    """One step of an RNN.

    Shapes: input (N, I) or (I,), hx and output (N, H) or (H,); hx defaults to zeros.

    Raises:
        RuntimeError: when called, for an unknown ``nonlinearity``, or if input or state do not have these shapes.
    """

    __formula__ = r"\tanh(W_i x + b_i + W_h h + b_h)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        cells: dict[str, Callable[..., Any]] = {"tanh": rnn_tanh_cell, "relu": rnn_relu_cell}
        if self.nonlinearity not in cells:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(cells[self.nonlinearity], input, None if hx is None else (hx,), 1)

    def extra_repr(self) -> str:
        return super().extra_repr() + ("" if self.nonlinearity == "tanh" else f", nonlinearity={self.nonlinearity}")


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    Shapes: input (N, I) or (I,), hx a pair of (N, H) or (H,), zeros by default; output such a pair.
    """

    __formula__ = r"h' = o \odot \tanh c', \; c' = f \odot c + i \odot g"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        return self._step(lstm_cell, input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of a GRU.

    Shapes: input (N, I) or (I,), hx and output (N, H) or (H,); hx defaults to zeros.
    """

    __formula__ = r"(1 - z) \odot n + z \odot h"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Any, hx: Any = None) -> Any:
        return self._step(gru_cell, input, None if hx is None else (hx,), 1)
