"""Transformer blocks next to torch's, over every option and mask."""

import pytest
import torch

import nbgrad
from nbgrad import nn
from tests.nn.alike import check, matched

OPTIONS = {
    "plain": {},
    "batch first": {"batch_first": True},
    "norm first": {"norm_first": True},
    "gelu": {"activation": "gelu"},
    "without dropout": {"dropout": 0.0},
    "all": {
        "bias": False, "norm_first": True, "batch_first": True, "layer_norm_eps": 0.1,
        "activation": torch.nn.functional.silu,
    },
}  # fmt: skip
SIZES = {"d_model": 6, "nhead": 2, "dim_feedforward": 7}
LENGTH, KEYS, BATCH = 4, 3, 2
CAUSAL = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH, dtype=torch.float64)
PADDING = torch.tensor([[False, False, True, True], [False, True, False, False]])
ENCODER_MASKS = {
    "none": {},
    "causal": {"mask": CAUSAL},
    "causal by booleans": {"mask": CAUSAL < 0},
    "some": {"mask": torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(4, 4)},
    "padding": {"src_key_padding_mask": PADDING},
    "both": {"mask": CAUSAL < 0, "src_key_padding_mask": PADDING},
    "by hint": {"mask": CAUSAL, "is_causal": True},
}
# torch warns about encoders that cannot use its fast kernels for padding; nbgrad never warns.
pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")


def sequence(name, length, batch=BATCH):
    shape = (length,) if batch is None else (batch, length) if OPTIONS[name].get("batch_first") else (length, batch)
    return torch.randn(*shape, 6, dtype=torch.float64)


def encoder(lib, **options):
    layer = lib.TransformerEncoderLayer(**SIZES, **options)
    return lib.TransformerEncoder(layer, 2, lib.LayerNorm(6))


def decoder(lib, **options):
    layer = lib.TransformerDecoderLayer(**SIZES, **options)
    return lib.TransformerDecoder(layer, 2, lib.LayerNorm(6))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("mask", ENCODER_MASKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_encoders(name, mask, training):
    ours, theirs = (one.train(training) for one in matched(lambda lib: encoder(lib, **OPTIONS[name])))
    check(ours, theirs, sequence(name, LENGTH), **ENCODER_MASKS[mask])


@pytest.mark.parametrize("name", OPTIONS)
def test_one_sequence_and_one_layer(name):
    ours, theirs = matched(lambda lib: lib.TransformerEncoderLayer(**SIZES, **OPTIONS[name]))
    check(ours, theirs, sequence(name, LENGTH, None), src_mask=CAUSAL)
    check(ours, theirs, sequence(name, LENGTH))


DECODER_MASKS = {
    "none": {},
    "causal": {"tgt_mask": CAUSAL},
    "memory": {"memory_mask": torch.tensor([[False, True, False]] * 4)},
    "all": {
        "tgt_mask": CAUSAL < 0,
        "memory_mask": torch.tensor([[False, True, False]] * 4),
        "tgt_key_padding_mask": torch.tensor([[False, False, False, True], [False, True, False, False]]),
        "memory_key_padding_mask": torch.tensor([[False, False, True], [False, False, False]]),
    },
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("mask", DECODER_MASKS)
@pytest.mark.parametrize("name", OPTIONS)
def test_decoders(name, mask, training):
    ours, theirs = (one.train(training) for one in matched(lambda lib: decoder(lib, **OPTIONS[name])))
    check(ours, theirs, sequence(name, LENGTH), sequence(name, KEYS), **DECODER_MASKS[mask])


@pytest.mark.parametrize("batch", [BATCH, None])
@pytest.mark.parametrize("name", OPTIONS)
def test_the_whole(name, batch):
    ours, theirs = matched(
        lambda lib: lib.Transformer(**SIZES, num_encoder_layers=2, num_decoder_layers=1, **OPTIONS[name])
    )
    check(ours, theirs, sequence(name, KEYS, batch), sequence(name, LENGTH, batch), tgt_mask=CAUSAL)


def test_single_precision():
    ours, theirs = matched(encoder, torch.float32)
    check(ours, theirs, torch.randn(6, 2, 4).transpose(0, 2), tolerance={"rtol": 1.3e-6, "atol": 1e-5})


def test_custom_parts():
    class Sum(nn.Module):
        def forward(self, first, *others, **masks):
            return first + sum(one for one in others if one is not None)

    model = nn.Transformer(6, 2, custom_encoder=Sum(), custom_decoder=Sum())
    assert list(model.parameters()) == []
    one = nbgrad.tensor(torch.ones(2, 1, 6))
    assert model(one, one).tolist() == [[[2.0] * 6]] * 2


def test_the_mask_that_is_causal():
    ours, theirs = (lib.Transformer.generate_square_subsequent_mask for lib in (nn, torch.nn))
    assert torch.equal(ours(3), theirs(3))
    assert ours(3, dtype=torch.float64).dtype is torch.float64


@pytest.mark.parametrize("lib", [nn, torch.nn], ids=["ours", "torch"])
def test_what_does_not_fit(lib):
    tensor = nbgrad.tensor if lib is nn else torch.Tensor
    model = lib.Transformer(**SIZES, num_encoder_layers=1, num_decoder_layers=1)
    with pytest.raises(RuntimeError, match="the batch number of src and tgt must be equal"):
        model(tensor(torch.ones(3, 2, 6)), tensor(torch.ones(3, 1, 6)))
    with pytest.raises(RuntimeError, match="the feature number of src and tgt must be equal to d_model"):
        model(tensor(torch.ones(3, 2, 6)), tensor(torch.ones(3, 2, 5)))
    with pytest.raises(RuntimeError, match="activation should be relu/gelu, not swish"):
        lib.TransformerEncoderLayer(6, 2, activation="swish")
