"""Recurrent networks: layers that run over a sequence, and cells that make one step."""

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from math import sqrt
from typing import Any

import torch

from nbgrad.core.ops import gru, gru_cell, lstm, lstm_cell, rnn_relu, rnn_relu_cell, rnn_tanh, rnn_tanh_cell
from nbgrad.nn import init
from nbgrad.nn.adopted import adopting, showing
from nbgrad.nn.function_block import of_shape
from nbgrad.nn.module.call import misfit
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Device, DType, Parameter, uninitialized
from nbgrad.nn.utils.rnn import PackedSequence, in_order

_KINDS: dict[str, tuple[int, Callable[..., Any]]] = {
    "RNN_TANH": (1, rnn_tanh),
    "RNN_RELU": (1, rnn_relu),
    "LSTM": (4, lstm),
    "GRU": (3, gru),
}
"""The number of gates of each kind, and its op over a sequence."""


class _Recurrent(Module):
    """The part that layers and cells share: the size of an input, and how the weights begin."""

    input_size: int
    hidden_size: int

    def reset_parameters(self) -> None:
        """Draw new initial values, uniform in ``±1 / sqrt(hidden_size)``."""
        bound = 1 / sqrt(self.hidden_size) if self.hidden_size else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check_features(self, input: Any) -> None:
        if input.shape[-1] != self.input_size:
            raise misfit(
                RuntimeError(f"expected last dimension {self.input_size}, got {input.shape[-1]}, {of_shape(input)}")
            )


# Layers over a sequence.


class RNNBase(_Recurrent):
    """The base of recurrent networks: their weights, layer by layer and direction by direction."""

    weight_ih_l0: Parameter

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        _check_sizes(input_size, hidden_size, num_layers, proj_size)
        _check_settings(bias, batch_first, dropout, num_layers)
        if mode not in _KINDS:
            raise ValueError(f"Unrecognized RNN mode: {mode}")
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        for level in range(num_layers):
            for names in self._names(level):
                for name, shape in zip(names, self._shapes(level), strict=True):
                    setattr(self, name, uninitialized(*shape, device=device, dtype=dtype))
        self.reset_parameters()

    @property
    def _size(self) -> int:
        """The size of the state that is passed on and returned."""
        return self.proj_size or self.hidden_size

    def _names(self, level: int) -> list[list[str]]:
        """The names of the weights of one layer, for each direction."""
        return _names(level, bool(self.bias), bool(self.proj_size), bool(self.bidirectional))

    def _shapes(self, level: int) -> list[tuple[int, ...]]:
        gates = _KINDS[self.mode][0] * self.hidden_size
        inputs = self._size * (1 + self.bidirectional) if level else self.input_size
        biases = [(gates,), (gates,)] if self.bias else []
        projection = [(self.proj_size, self.hidden_size)] if self.proj_size else []
        return [(gates, inputs), (gates, self._size), *biases, *projection]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights of each layer and direction."""
        every = [names for level in range(self.num_layers) for names in self._names(level)]
        return [[getattr(self, name) for name in names] for names in every]

    def flatten_parameters(self) -> None:
        """Do nothing. cuDNN needs the weights next to each other in memory; nbgrad's ops do not."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence | torch.nn.utils.rnn.PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in {2, 3}:
            raise misfit(ValueError(f"Expected input to be 2D or 3D, got {input.ndim}D instead"))
        self._check_input(input)
        batch = None if input.ndim == 2 else input.shape[0 if self.batch_first else 1]
        states = self._states(hx, batch, input)
        turned = self.batch_first and batch is not None
        if self.mode != "LSTM":
            return self._over(input, states, turned)
        out, last = self._over(input.transpose(0, 1) if turned else input, states)
        return (out.transpose(0, 1) if turned else out), last

    def _forward_packed(self, input: Any, hx: Any) -> Any:
        data, sizes, order, back = input
        if data.ndim != 2:
            raise misfit(RuntimeError(f"input must have 2 dimensions, got {data.ndim}"))
        self._check_input(data)
        if hx is not None:
            hx = tuple(in_order(state, order) for state in hx) if self.mode == "LSTM" else in_order(hx, order)
        out, last = self._over(data, self._states(hx, int(sizes[0]), data), sizes=sizes)
        last = tuple(in_order(state, back) for state in last) if self.mode == "LSTM" else in_order(last, back)
        return type(input)(out, sizes, order, back), last

    def _over(self, input: Any, states: tuple[Any, ...], *batch_first: bool, sizes: Any = None) -> tuple[Any, Any]:
        """All layers over a sequence, or over packed ones of such ``sizes``: the outputs, and the last states."""
        several = self.mode == "LSTM"
        inputs = (input,) if sizes is None else (input, sizes)
        weights = [weight for layer in self.all_weights for weight in layer]
        settings = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        out, *last = _KINDS[self.mode][1](*inputs, states if several else states[0], weights, *settings, *batch_first)
        return out, tuple(last) if several else last[0]

    def _check_input(self, input: Any) -> None:
        weight = self.weight_ih_l0
        self._check_features(input)
        if input.dtype != weight.dtype and not torch._C._is_any_autocast_enabled():
            raise ValueError(
                f"input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: model.to({input.dtype})"
            )

    def _states(self, hx: Any, batch: int | None, input: Any) -> tuple[Any, ...]:
        """The first states, zeros where none are given; ``batch`` is None for a single sequence."""
        layers = self.num_layers * (1 + self.bidirectional)
        sizes = (self._size, self.hidden_size) if self.mode == "LSTM" else (self._size,)
        shapes = [(layers, size) if batch is None else (layers, batch, size) for size in sizes]
        if hx is None:
            zeros = [torch.zeros(shape, dtype=input.dtype, device=input.device) for shape in shapes]
            return tuple(zeros) if batch is None else tuple([one.unbind(0) for one in zeros])
        states = tuple(hx) if self.mode == "LSTM" else (hx,)
        for at, (state, shape) in enumerate(zip(states, shapes, strict=True)):
            if state.ndim != len(shape):
                kind = "unbatched 2-D" if batch is None else "batched 3-D"
                wrong = f"For {kind} input, hx should also be {len(shape)}-D but got {state.ndim}-D tensor"
                raise misfit(RuntimeError(wrong))
            if tuple(state.shape) != shape:
                which = f"hidden[{at}]" if self.mode == "LSTM" else "hidden"
                raise misfit(RuntimeError(f"Expected {which} size {shape}, got {list(state.shape)}"))
        return states

    extra_repr = showing(torch.nn.RNNBase)


@cache  # every forward asks
def _names(level: int, biased: bool, projected: bool, both: bool) -> list[list[str]]:
    stems = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if biased else [])]
    stems += ["weight_hr"] if projected else []
    return [[f"{stem}_l{level}{end}" for stem in stems] for end in (("", "_reverse") if both else ("",))]


def _check_sizes(input_size: Any, hidden_size: Any, num_layers: int, proj_size: int) -> None:
    for name, size in (("input_size", input_size), ("hidden_size", hidden_size)):
        if not isinstance(size, int):
            raise TypeError(f"{name} should be of type int, got: {type(size).__name__}")
        if size <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


def _check_settings(bias: Any, batch_first: Any, dropout: Any, num_layers: int) -> None:
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout <= 1:
        raise ValueError("dropout should be a number in range [0, 1]: the probability of an element being zeroed")
    if dropout and num_layers == 1:
        warnings.warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers "
            f"greater than 1, but got dropout={dropout} and num_layers={num_layers}",
            stacklevel=4,
        )
    for name, value in (("bias", bias), ("batch_first", batch_first)):
        if not isinstance(value, bool):
            raise TypeError(f"{name} should be of type bool, got: {type(value).__name__}")


class RNN(RNNBase):
    """A recurrent network: each state is made of the input and the state before (Elman 1990).

    Shapes: input (T, N, I), (N, T, I) with ``batch_first``, (T, I) or packed; hx (layers * directions, N, H); outputs
    (T, N, directions * H), the states of the last layer, and the last states, as hx.

    Args:
        input_size: I, the features of an input.
        hidden_size: H, the features of a state.
        num_layers: how many layers stand on top of each other.
        nonlinearity: "tanh" or "relu".
        bias: whether it learns biases.
        batch_first: whether the first dimension of input and output counts sequences.
        dropout: the probability that a number is dropped between layers in training.
        bidirectional: whether a second network reads the sequence from its end.
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        ValueError: the value of a setting is not allowed.
        RuntimeError: when called, if input or states do not have these shapes.
    """

    __formula__ = r"h_t = \tanh(W_i x_t + b_i + W_h h_{t - 1} + b_h)"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        if nonlinearity not in {"tanh", "relu"}:
            raise ValueError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        settings = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__(f"RNN_{nonlinearity.upper()}", input_size, hidden_size, *settings)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory: gates say what a cell forgets, takes in and shows (Hochreiter and Schmidhuber 1997).

    Shapes: as RNN, but hx and the second result are pairs ``(states, cells)``, both (layers * directions, N, H). With
    ``proj_size`` P, states and outputs have P features, and cells have H (Sak et al. 2014,
    https://arxiv.org/abs/1402.1128).

    Args and errors are those of RNN, but for ``nonlinearity``; proj_size: the features that a state is projected to, 0
    for no projection.
    """

    __formula__ = r"h_t = o_t \odot \tanh c_t, \; c_t = f_t \odot c_{t - 1} + i_t \odot g_t"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        settings = (num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype)
        super().__init__("LSTM", input_size, hidden_size, *settings)


class GRU(RNNBase):
    """Gated recurrent units: two gates and one state (Cho et al. 2014, https://arxiv.org/abs/1406.1078).

    Shapes, args and errors are those of RNN, but for ``nonlinearity``.
    """

    __formula__ = r"h_t = (1 - z_t) \odot n_t + z_t \odot h_{t - 1}"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        settings = (num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        super().__init__("GRU", input_size, hidden_size, *settings)


# Cells: one step.


class RNNCellBase(_Recurrent):
    """The base of cells: their weights."""

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    @adopting(torch.nn.RNNCellBase)
    def __init__(
        self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Device, dtype: DType
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

    def _step(self, function: Callable[..., Any], input: Any, states: Sequence[Any] | None, count: int) -> Any:
        """One step from ``count`` states, zeros where none are given."""
        if input.ndim not in {1, 2}:
            raise misfit(ValueError(f"Expected input to be 1D or 2D, got {input.ndim}D instead"))
        self._check_features(input)
        shape = (*input.shape[:-1], self.hidden_size)
        if states is None:
            states = [torch.zeros(shape, dtype=input.dtype, device=input.device)] * count
        for state in states:
            if tuple(state.shape) != shape:
                raise misfit(RuntimeError(f"Expected hidden size {shape}, got {tuple(state.shape)}"))
        weights = (self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return function(input, states[0] if count == 1 else tuple(states), *weights)

    extra_repr = showing(torch.nn.RNNCellBase)


class RNNCell(RNNCellBase):
    """One step of an RNN.

    Shapes: input (N, I) or (I,), hx and output (N, H) or (H,); hx defaults to zeros.

    Raises:
        RuntimeError: when called, for an unknown ``nonlinearity``, or if input or state do not have these shapes.
    """

    __formula__ = r"\tanh(W_i x + b_i + W_h h + b_h)"

    @adopting(torch.nn.RNNCell)
    def __init__(self, nonlinearity: str, **given: Any) -> None:
        super().__init__(num_chunks=1, **given)
        self.nonlinearity = nonlinearity

    def forward(self, input: Any, hx: Any = None) -> Any:
        cells: dict[str, Callable[..., Any]] = {"tanh": rnn_tanh_cell, "relu": rnn_relu_cell}
        if self.nonlinearity not in cells:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(cells[self.nonlinearity], input, None if hx is None else (hx,), 1)


class LSTMCell(RNNCellBase):
    """One step of an LSTM.

    Shapes: input (N, I) or (I,), hx a pair of (N, H) or (H,), zeros by default; output such a pair.
    """

    __formula__ = r"h' = o \odot \tanh c', \; c' = f \odot c + i \odot g"

    @adopting(torch.nn.LSTMCell)
    def __init__(self, **given: Any) -> None:
        super().__init__(num_chunks=4, **given)

    def forward(self, input: Any, hx: Any = None) -> Any:
        return self._step(lstm_cell, input, hx, 2)


class GRUCell(RNNCellBase):
    """One step of a GRU.

    Shapes: input (N, I) or (I,), hx and output (N, H) or (H,); hx defaults to zeros.
    """

    __formula__ = r"(1 - z) \odot n + z \odot h"

    @adopting(torch.nn.GRUCell)
    def __init__(self, **given: Any) -> None:
        super().__init__(num_chunks=3, **given)

    def forward(self, input: Any, hx: Any = None) -> Any:
        return self._step(gru_cell, input, None if hx is None else (hx,), 1)
