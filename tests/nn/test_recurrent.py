"""Recurrent blocks next to torch's, over every option, and packed sequences."""

from itertools import product

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn.utils import rnn as ours_rnn
from tests.lacking import case, unsaid
from tests.nn.alike import check, each, matched, same

theirs_rnn = torch.nn.utils.rnn

OPTIONS = {
    "plain": {},
    "three layers": {"num_layers": 3},
    "without bias": {"bias": False},
    "both directions": {"bidirectional": True},
    "batch first": {"batch_first": True},
    "all": {"num_layers": 2, "bias": False, "bidirectional": True, "batch_first": True},
    "dropout": {"num_layers": 3, "dropout": 0.4, "bidirectional": True},
}
KINDS = {
    "RNN": {},
    "relu": {"nonlinearity": "relu"},
    "LSTM": {},
    "projected": {"proj_size": 2},
    "GRU": {},
}


def maker(kind, **options):
    name = {"relu": "RNN", "projected": "LSTM"}.get(kind, kind)
    return lambda lib: getattr(lib, name)(3, 4, **KINDS[kind], **options)


def states(kind, layers, batch, dtype=torch.float64):
    """Random first states; ``batch`` is None for one sequence alone."""
    sizes = {"LSTM": (4, 4), "projected": (2, 4)}.get(kind, (4,))
    made = tuple(torch.randn(layers, *(() if batch is None else (batch,)), size, dtype=dtype) for size in sizes)
    return made if len(made) == 2 else made[0]


def layers(options):
    return options.get("num_layers", 1) * (1 + options.get("bidirectional", False))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_sequences(kind, options, training):
    ours, theirs = (block.train(training) for block in matched(maker(kind, **OPTIONS[options])))
    assert repr(ours) == repr(theirs)
    first = OPTIONS[options].get("batch_first")
    x = torch.randn((2, 5, 3) if first else (5, 2, 3), dtype=torch.float64)
    check(ours, theirs, x)
    check(ours, theirs, x, states(kind, layers(OPTIONS[options]), 2))
    check(ours, theirs, x[:, 0] if not first else x[0])
    check(ours, theirs, x[:, 0] if not first else x[0], states(kind, layers(OPTIONS[options]), None))


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_non_contiguous_inputs_in_single_precision(kind, batch_first):
    ours, theirs = matched(maker(kind, num_layers=2, batch_first=batch_first), torch.float32)
    x = torch.randn(3, 2, 5).transpose(0, 2)
    hx = states(kind, 2, 5 if batch_first else 2, torch.float32)
    turned = each(hx, lambda one: one.transpose(0, 1).contiguous().transpose(0, 1))
    check(ours, theirs, x, turned, tolerance={"rtol": 1.3e-6, "atol": 1e-5})


@pytest.mark.sampled(8)
@pytest.mark.parametrize("lengths", [[5, 3, 3, 1], [4, 4], [1], [3, 5, 1, 3]])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(kind, options, lengths):
    chosen = OPTIONS[options]
    ours, theirs = matched(maker(kind, **chosen))
    sequences = [torch.randn(length, 3, dtype=torch.float64) for length in lengths]
    packed = theirs_rnn.pack_sequence(sequences, enforce_sorted=False)
    for given in ([], [states(kind, layers(chosen), len(lengths))]):
        out, _ = check(ours, theirs, packed, *given)
        assert isinstance(out, ours_rnn.PackedSequence)
        assert torch.equal(out.batch_sizes, packed.batch_sizes)
        assert torch.equal(out.unsorted_indices, packed.unsorted_indices)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 3)])
def test_cells(kind, bias, shape):
    ours, theirs = matched(lambda lib: getattr(lib, f"{kind}Cell")(3, 4, bias))
    assert repr(ours) == repr(theirs)
    x = torch.randn(shape, dtype=torch.float64)
    given = tuple(torch.randn(*shape[:-1], 4, dtype=torch.float64) for _ in range(2))
    check(ours, theirs, x)
    check(ours, theirs, x, given if kind == "LSTM" else given[0])


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_cells_without_features(kind):
    ours, theirs = matched(lambda lib: getattr(lib, f"{kind}Cell")(3, 0))
    given = tuple(torch.zeros(2, 0, dtype=torch.float64) for _ in range(2))
    check(ours, theirs, torch.randn(2, 3, dtype=torch.float64), given if kind == "LSTM" else given[0])


def test_the_cell_with_relu():
    ours, theirs = matched(lambda lib: lib.RNNCell(3, 4, nonlinearity="relu"))
    assert repr(ours) == repr(theirs)
    check(ours, theirs, torch.randn(2, 3, dtype=torch.float64))


LENGTHS = [([4, 2, 1], True), ([2, 4, 1], False), ([3, 3], True)]


@pytest.mark.parametrize(("lengths", "in_order"), LENGTHS)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("rest", [(), (2,), (2, 3)])
def test_packing_and_padding(lengths, in_order, batch_first, rest):
    batch = (len(lengths), 4) if batch_first else (4, len(lengths))
    padded = torch.randn(*batch, *rest, dtype=torch.float64)
    results = []
    for lib, x in ((ours_rnn, nbgrad.tensor(padded, requires_grad=True)), (theirs_rnn, padded.requires_grad_())):
        pack = lib.pack_padded_sequence(x, torch.tensor(lengths), batch_first, in_order)
        torch.manual_seed(2)
        back, sizes = lib.pad_packed_sequence(pack, batch_first, padding_value=-1.0, total_length=5)
        (back * torch.randn(back.shape, dtype=torch.float64)).sum().backward()
        results.append((pack, back, sizes, x.grad, lib.unpack_sequence(pack)))
    (pack, back, sizes, grad, parts), (their_pack, their_back, their_sizes, their_grad, their_parts) = results
    same([pack.data, back, grad, *parts], [their_pack.data, their_back, their_grad, *their_parts], {})
    for mine, yours in zip([*pack[1:], sizes], [*their_pack[1:], their_sizes], strict=True):
        assert mine is yours is None or torch.equal(mine, yours)


@pytest.mark.parametrize("settings", list(product([True, False], [0.0, 2.5], ["left", "right"])))
def test_padding_of_sequences(settings):
    sequences = [torch.randn(length, 2) for length in (2, 4, 1)]
    mine = ours_rnn.pad_sequence([nbgrad.tensor(one) for one in sequences], *settings)
    assert torch.equal(mine.data, theirs_rnn.pad_sequence(sequences, *settings))
    first = settings[0]
    if settings[2] == "right":
        parts = ours_rnn.unpad_sequence(mine, torch.tensor([2, 4, 1]), first)
        same(parts, sequences, {})


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_torchs_own_functions_pack_and_pad_our_tensors(kind):
    """A torch network that packs its batch runs on our tensors after its recurrent block was converted."""

    class Reader(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = getattr(torch.nn, kind)(3, 4, batch_first=True, bidirectional=True).double()

        def forward(self, x, lengths):
            pack = theirs_rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            out, _ = self.inner(pack)
            assert isinstance(out, theirs_rnn.PackedSequence)
            return theirs_rnn.pad_packed_sequence(out, batch_first=True, padding_value=-1.0, total_length=6)[0]

    theirs = Reader()
    ours = nbgrad.from_torch(theirs)
    assert isinstance(ours.inner, nn.RNNBase)
    results = []
    for block, x in ((ours, nbgrad.tensor(X, requires_grad=True)), (theirs, X.clone().requires_grad_())):
        out = block(x, [2, 5, 1])
        (out * out).sum().backward()
        results.append([out, x.grad, *(one.grad for one in block.parameters())])
    same(*results, {})


X = torch.randn(3, 5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(4))


def test_torchs_own_functions_pad_a_list_of_our_tensors():
    several = [nbgrad.tensor(X[0]), nbgrad.tensor(X[1, :2], requires_grad=True)]
    padded = theirs_rnn.pad_sequence(several, batch_first=True, padding_side="left")
    padded.sum().backward()
    assert torch.equal(padded.data, theirs_rnn.pad_sequence([X[0], X[1, :2]], batch_first=True, padding_side="left"))
    assert several[1].grad.tolist() == [[1.0] * 3] * 2
    pack = theirs_rnn.pack_sequence(several)
    assert pack.batch_sizes.tolist() == [2, 2, 1, 1, 1]
    assert pack.data.requires_grad


def test_a_packed_batch_changes_its_type():
    pack = ours_rnn.pack_sequence([nbgrad.tensor([1.0, 2.0]), nbgrad.tensor([3.0])])
    assert pack.double().data.dtype is torch.float64
    assert pack.half().float().cpu().data.tolist() == [1.0, 3.0, 2.0]
    assert not pack.is_cuda


BAD_LENGTHS = {
    "enforce_sorted=False": [1, 3],
    "greater than 0": [2, 0],
    "equal to batch_size, but got 3": [2, 1, 1],
    "above the 3 steps": [4, 1],
}


@pytest.mark.parametrize("message", BAD_LENGTHS)
def test_lengths_that_do_not_fit(message):
    with pytest.raises(RuntimeError, match=message):
        ours_rnn.pack_padded_sequence(nbgrad.tensor(torch.ones(3, 2)), BAD_LENGTHS[message])


def test_a_total_length_that_is_too_small():
    pack = ours_rnn.pack_sequence([nbgrad.tensor([1.0, 2.0])])
    with pytest.raises(ValueError, match="total_length=1 and max sequence length being 2"):
        ours_rnn.pad_packed_sequence(pack, total_length=1)


BAD_SETTINGS = [
    ({"dropout": 1.5}, ValueError, "number in range"),
    ({"dropout": True}, ValueError, "number in range"),
    ({"num_layers": 0}, ValueError, "num_layers must be greater than zero"),
    ({"hidden_size": 0}, ValueError, "hidden_size must be greater than zero"),
    ({"input_size": 2.0}, TypeError, "input_size should be of type int, got: float"),
    ({"bias": 1}, TypeError, "bias should be of type bool, got: int"),
    ({"proj_size": 4}, ValueError, "proj_size has to be smaller"),
    ({"proj_size": -1}, ValueError, "proj_size should be a positive integer"),
]


# Newer torch versions check the type of a setting. All of them check the numbers.
BAD_CASES = [
    case(
        *(lib, settings, kind, message),
        reason=unsaid(torch.nn.RNNBase, message.partition(",")[0]) if lib is torch.nn and kind is TypeError else "",
        called=f"{called}-{message}",
    )
    for called, lib in (("ours", nn), ("torch", torch.nn))
    for settings, kind, message in BAD_SETTINGS
]


@pytest.mark.parametrize(("lib", "settings", "kind", "message"), BAD_CASES)
def test_settings_that_cannot_be(lib, settings, kind, message):
    with pytest.raises(kind, match=message):
        lib.LSTM(**{"input_size": 3, "hidden_size": 4, **settings})


@pytest.mark.parametrize("lib", [nn, torch.nn], ids=["ours", "torch"])
def test_an_unknown_nonlinearity_and_dropout_without_effect(lib):
    with pytest.raises(ValueError, match="Unknown nonlinearity 'gelu'"):
        lib.RNN(3, 4, nonlinearity="gelu")
    with pytest.warns(UserWarning, match="non-zero dropout expects num_layers greater than 1"):
        lib.GRU(3, 4, dropout=0.5)


def test_shapes_that_do_not_fit():
    lstm, gru = nn.LSTM(3, 4), nn.GRU(3, 4)
    x = nbgrad.tensor(torch.ones(5, 2, 3))
    with pytest.raises(RuntimeError, match=r"^GRU\(3, 4\): expected last dimension 3, got 2, in an input of"):
        gru(nbgrad.tensor(torch.ones(5, 2, 2)))
    with pytest.raises(ValueError, match="Expected input to be 2D or 3D, got 1D"):
        gru(nbgrad.tensor(torch.ones(3)))
    with pytest.raises(ValueError, match="does not match weight dtype"):
        gru(x.double())
    with pytest.raises(RuntimeError, match=r"Expected hidden size \(1, 2, 4\), got \[1, 1, 4\]"):
        gru(x, torch.zeros(1, 1, 4))
    with pytest.raises(RuntimeError, match=r"Expected hidden\[1\] size \(1, 2, 4\)"):
        lstm(x, (torch.zeros(1, 2, 4), torch.zeros(1, 2, 3)))
    with pytest.raises(RuntimeError, match="hx should also be 3-D but got 2-D"):
        gru(x, torch.zeros(1, 4))
    with pytest.raises(RuntimeError, match=r"^GRUCell\(3, 4\): expected last dimension 3, got 4, in"):
        nn.GRUCell(3, 4)(nbgrad.tensor(torch.ones(2, 4)))
