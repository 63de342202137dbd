"""The transformer: attention and a small network for each position, layer on layer (Vaswani et al. 2017)."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any, ClassVar

import torch

from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.state import current
from nbgrad.nn import init
from nbgrad.nn.adopted import adopting
from nbgrad.nn.attention import MultiheadAttention
from nbgrad.nn.containers import ModuleList
from nbgrad.nn.dropout import Dropout
from nbgrad.nn.functional import gelu, relu
from nbgrad.nn.linear import Linear
from nbgrad.nn.module.call import misfit
from nbgrad.nn.module.module import Module
from nbgrad.nn.normalization import LayerNorm
from nbgrad.nn.parameter import Device

Activation = str | Callable[[Any], Any]
_torchs: Any = torch.nn  # the types of its arguments are those of torch's tensors


def _activation(activation: Activation) -> Callable[[Any], Any]:
    """The function by that name, or the function itself."""
    if activation is torch.nn.functional.relu:  # the default of torch's constructors
        return relu
    if not isinstance(activation, str):
        return activation
    if activation not in {"relu", "gelu"}:
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return relu if activation == "relu" else gelu


def _copies(module: Module, count: int) -> ModuleList:
    return ModuleList([deepcopy(module) for _ in range(count)])


def _is_causal(mask: Any, is_causal: bool | None, length: int) -> bool:
    """Whether the mask lets no position see a later one: ``is_causal`` says so; if it is None, the mask is checked."""
    if is_causal is not None or mask is None:
        return bool(is_causal)
    tracer = current().tracer
    if tracer is not None:
        remedy = "Say is_causal=True or is_causal=False, or let the function find the mask outside of itself"
        return bool(tracer.asked(mask, partial(_looks_causal, length=length), remedy))
    return _looks_causal(raw_of(mask), length)


def _looks_causal(given: torch.Tensor, length: int) -> bool:
    if not given.dtype.is_floating_point:
        given = torch.zeros(given.shape, device=given.device).masked_fill_(given, float("-inf"))
    causal = Transformer.generate_square_subsequent_mask(length, given.device, given.dtype)
    return given.shape == causal.shape and bool((given == causal).all())


class _Layer(Module):
    """The base of encoder and decoder layers: attention, then a network for each position, with skips and norms."""

    _attentions: ClassVar[tuple[str, ...]] = ("self_attn",)
    _runs_functions = True  # the activation

    @adopting(_torchs.TransformerEncoderLayer)
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        **made: Any,
    ) -> None:
        super().__init__()
        for name in self._attentions:
            self.register_module(name, MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **made))
        self.linear1 = Linear(d_model, dim_feedforward, **made)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **made)
        self.norm_first = norm_first
        numbers = range(1, len(self._attentions) + 2)
        for number in numbers:
            self.register_module(f"norm{number}", LayerNorm(d_model, eps=layer_norm_eps, **made))
        for number in numbers:
            self.register_module(f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)

    def _run(self, x: Any, *seen: tuple[Any, ...]) -> Any:
        """Attention to each of ``seen``, a sequence (None: ``x`` itself) with its masks, then the network."""
        steps: list[Callable[[Any], Any]] = [
            partial(self._attend, name, *one) for name, one in zip(self._attentions, seen, strict=True)
        ]
        for number, step in enumerate([*steps, self._feed], 1):
            norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
            x = x + dropout(step(norm(x))) if self.norm_first else norm(x + dropout(step(x)))
        return x

    def _attend(self, name: str, memory: Any, mask: Any, padding: Any, is_causal: bool, x: Any) -> Any:
        keys = x if memory is None else memory
        masks = {"attn_mask": mask, "key_padding_mask": padding, "is_causal": is_causal}
        return getattr(self, name)(x, keys, keys, need_weights=False, **masks)[0]

    def _feed(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then a network of two layers for each position, each with a skip and a norm.

    Shapes: src (L, N, E), (N, L, E) with ``batch_first``, or (L, E); output as src.

    Args:
        d_model: E, the features of a position.
        nhead: the heads of attention.
        dim_feedforward: the features between the two layers.
        dropout: the probability that a number is dropped in training.
        activation: "relu", "gelu" or a function, between the two layers.
        layer_norm_eps: the number that the norms add to a variance.
        batch_first: whether the first dimension counts sequences.
        norm_first: whether the norms come before attention and network, which keeps gradients even in deep stacks
            (Xiong et al. 2020, https://arxiv.org/abs/2002.04745), or after the skips.
        bias: whether linear layers and norms learn biases.
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.
    """

    __formula__ = r"n_2(x' + f(x')), \; x' = n_1(x + a(x))"

    def forward(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Any:
        return self._run(src, (None, src_mask, src_key_padding_mask, is_causal))


class TransformerEncoder(Module):
    """A stack of encoder layers, which begin as copies of one.

    Shapes: as the layer's.

    Args:
        encoder_layer: the layer to copy.
        num_layers: how many there are.
        norm: a last norm, or None.
        enable_nested_tensor: accepted as in torch, without effect: padded positions are always computed.
        mask_check: accepted as in torch, without effect.
    """

    __formula__ = r"f_n(\dots f_1(x))"

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None
    ) -> Any:
        causal = _is_causal(mask, is_causal, _length(src, self.layers))
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself and to the encoder's output, then a network for each position.

    Shapes: tgt (T, N, E) and memory (S, N, E); with ``batch_first`` (N, T, E) and (N, S, E); without a batch (T, E) and
    (S, E). Output as tgt.

    Args are those of TransformerEncoderLayer.
    """

    __formula__ = r"n_3(x'' + f(x'')), \; x'' = n_2(x' + a(x', y)), \; x' = n_1(x + a(x))"

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        to_itself = (None, tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        return self._run(tgt, to_itself, (memory, memory_mask, memory_key_padding_mask, memory_is_causal))


class TransformerDecoder(Module):
    """A stack of decoder layers, which begin as copies of one.

    Shapes: as the layer's.

    Args:
        decoder_layer: the layer to copy.
        num_layers: how many there are.
        norm: a last norm, or None.
    """

    __formula__ = r"f_n(\dots f_1(x, y) \dots, y)"

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        causal = _is_causal(tgt_mask, tgt_is_causal, _length(tgt, self.layers))
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks, tgt_is_causal=causal, memory_is_causal=memory_is_causal)
        return tgt if self.norm is None else self.norm(tgt)


def _length(sequence: Any, layers: ModuleList) -> int:
    """How many positions there are."""
    batch_first = len(layers) and getattr(getattr(layers[0], "self_attn", None), "batch_first", False)
    return int(sequence.shape[1 if batch_first and sequence.ndim == 3 else 0])


class Transformer(Module):
    """An encoder that reads one sequence and a decoder that writes another: made for translation.

    Shapes: src (S, N, E) and tgt (T, N, E); with ``batch_first`` (N, S, E) and (N, T, E); without a batch (S, E) and
    (T, E). Output as tgt.

    Args:
        d_model: E, the features of a position.
        nhead: the heads of attention.
        num_encoder_layers: how many layers the encoder has.
        num_decoder_layers: how many the decoder has.
        dim_feedforward: the features between the two layers of the network for each position.
        dropout: the probability that a number is dropped in training.
        activation: "relu", "gelu" or a function.
        custom_encoder: an encoder that replaces the default one.
        custom_decoder: a decoder that replaces the default one.
        layer_norm_eps: the number that the norms add to a variance.
        batch_first: whether the first dimension counts sequences.
        norm_first: whether the norms come before attention and network.
        bias: whether linear layers and norms learn biases.
        device: where the parameters live; default: the device of the active graph, else torch's default device.
        dtype: their element type; default: torch's default.

    Raises:
        RuntimeError: when called, if the shapes of src and tgt do not match.
    """

    __formula__ = r"\operatorname{decode}(y, \operatorname{encode}(x))"

    @adopting(_torchs.Transformer)
    def __init__(
        self,
        num_encoder_layers: int,
        num_decoder_layers: int,
        custom_encoder: Module | None,
        custom_decoder: Module | None,
        **layer: Any,
    ) -> None:
        super().__init__()
        self.d_model: int = layer["d_model"]
        self.nhead: int = layer["nhead"]
        self.batch_first: bool = layer["batch_first"]
        norm = partial(
            LayerNorm,
            self.d_model,
            layer["layer_norm_eps"],
            **{name: layer[name] for name in ("bias", "device", "dtype")},
        )
        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(**layer), num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(**layer), num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        counts = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[counts] != tgt.shape[counts]:
            raise misfit(RuntimeError("the batch number of src and tgt must be equal"))
        if not src.shape[-1] == tgt.shape[-1] == self.d_model:
            raise misfit(RuntimeError("the feature number of src and tgt must be equal to d_model"))
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        masks = (tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return self.decoder(tgt, memory, *masks, tgt_is_causal=tgt_is_causal, memory_is_causal=memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Device = None, dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """The mask that lets no position see a later one: minus infinity above the diagonal, 0 elsewhere."""
        return torch.full((sz, sz), float("-inf"), device=device, dtype=dtype).triu(1)
