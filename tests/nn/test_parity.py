"""The public names of torch.nn and torch.optim: each is here as torch has it, or tools/write_parity.py says why not."""

import inspect

import pytest
import torch
from latex2mathml.converter import convert

from nbgrad import nn, optim
from tests.lacking import case, parameters, unsaid
from tools.write_parity import MISSING, MODULES, names

THEIRS = [name for name, kind in vars(torch.nn).items() if inspect.isclass(kind)]
C_LIKE = {"Module", "GRU", "LSTM", "RNN"}  # torch's take (*args, **kwargs)


EVERY = [(theirs, name) for theirs in MODULES for name in names(theirs)]


def test_every_name_is_here_or_has_a_reason():
    missing = {name for theirs, name in EVERY if not hasattr(MODULES[theirs], name)}
    assert missing == MISSING.keys() & {name for _, name in EVERY}
    assert len(missing) <= 0.05 * len(EVERY)


def test_what_is_here_is_made_for_our_tensors():
    ours = {name: getattr(nn, name) for name in names(torch.nn) if hasattr(nn, name)}
    assert not [name for name, kind in ours.items() if kind is getattr(torch.nn, name)]
    ours = {name: getattr(optim, name) for name in names(torch.optim) if hasattr(optim, name)}
    assert not [name for name, kind in ours.items() if kind is getattr(torch.optim, name)]


BLOCKS = [
    name
    for name in THEIRS
    if hasattr(nn, name) and issubclass(getattr(torch.nn, name), torch.nn.Module) and name not in C_LIKE
]


@pytest.mark.parametrize("name", BLOCKS)
def test_the_constructor_is_torchs(name):
    theirs = getattr(torch.nn, name)
    assert parameters(getattr(nn, name), theirs) == parameters(theirs, theirs)


@pytest.mark.parametrize("name", BLOCKS)
def test_the_first_line_of_the_docstring_says_what_it_is(name):
    first = inspect.getdoc(getattr(nn, name)).splitlines()[0]
    assert first.endswith((".", ":"))


HOLDERS = {"Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "RNNBase", "RNNCellBase"}
FORMULAS = {
    name: kind.__formula__
    for name, kind in vars(nn).items()
    if inspect.isclass(kind) and issubclass(kind, nn.Module) and name not in HOLDERS
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_block_has_a_formula_that_can_be_drawn(name):
    assert convert(FORMULAS[name]).startswith("<math")
    assert FORMULAS[name].count("{") == FORMULAS[name].count("}")


ERRORS = {
    "groups": lambda n: n.Conv1d(4, 6, 3, groups=3),
    "no groups": lambda n: n.Conv1d(4, 6, 3, groups=0),
    "groups of outputs": lambda n: n.Conv1d(4, 6, 3, groups=4),
    "padding string": lambda n: n.Conv2d(4, 6, 3, padding="full"),
    "same with stride": lambda n: n.Conv2d(4, 6, 3, stride=2, padding="same"),
    "padding mode": lambda n: n.Conv2d(4, 6, 3, padding_mode="mirror"),
    "transposed padding mode": lambda n: n.ConvTranspose2d(4, 6, 3, padding_mode="reflect"),
    "dropout": lambda n: n.Dropout(1.5),
    "negative dropout": lambda n: n.AlphaDropout(-0.1),
    "groups of channels": lambda n: n.GroupNorm(4, 6),
    "bilinear of nothing": lambda n: n.Bilinear(0, 2, 3),
    "unflatten a number": lambda n: n.Unflatten(1, 6),
    "unflatten floats": lambda n: n.Unflatten(1, (2.0, 3)),
    "empty range": lambda n: n.Hardtanh(1.0, 1.0),
    "fractional, nothing": lambda n: n.FractionalMaxPool2d(2),
    "fractional, both": lambda n: n.FractionalMaxPool2d(2, output_size=2, output_ratio=0.5),
    "fractional, ratio": lambda n: n.FractionalMaxPool3d(2, output_ratio=1.5),
    "fractional, kernel": lambda n: n.FractionalMaxPool3d(0, output_size=2),
    "padding index": lambda n: n.Embedding(5, 2, padding_idx=5),
    "negative padding index": lambda n: n.EmbeddingBag(5, 2, padding_idx=-6),
    "weight's shape": lambda n: n.Embedding(5, 2, _weight=torch.ones(2, 5)),
    "pretrained": lambda n: n.Embedding.from_pretrained(torch.ones(5)),
    "margin": lambda n: n.TripletMarginLoss(margin=0),
    "margin with distance": lambda n: n.TripletMarginWithDistanceLoss(margin=-1.0),
    "p": lambda n: n.MultiMarginLoss(p=3),
    "no cutoffs": lambda n: n.AdaptiveLogSoftmaxWithLoss(4, 5, []),
    "cutoffs": lambda n: n.AdaptiveLogSoftmaxWithLoss(4, 5, [2, 2]),
    "last cutoff": lambda n: n.AdaptiveLogSoftmaxWithLoss(4, 5, [2, 5]),
    "missing argument": lambda n: n.Linear(3),
    "missing setting": lambda n: n.ConstantPad1d(1),
    "unknown setting": lambda n: n.ELU(beta=1.0),
    "add": lambda n: n.Sequential() + n.ReLU(),
    "times zero": lambda n: n.Sequential(n.ReLU()) * 0,
    "times a half": lambda n: n.Sequential(n.ReLU()) * 0.5,
    "insert far off": lambda n: n.Sequential(n.ReLU()).insert(3, n.ReLU()),
    "list of numbers": lambda n: n.ModuleList([1]),
    "extend by a number": lambda n: n.ModuleList().extend(1),
    "index": lambda n: n.ModuleList([n.ReLU()])[1],
    "key": lambda n: n.ModuleDict({"a": n.ReLU()})["b"],
    "dict of a number": lambda n: n.ModuleDict(1),
    "dict of triples": lambda n: n.ModuleDict([("a", n.ReLU(), 1)]),
    "parameter key": lambda n: n.ParameterDict()[1],
    "call a list": lambda n: n.ParameterList()(1),
    "call a dict": lambda n: n.ParameterDict()(1),
    "train(1)": lambda n: n.ReLU().train(1),
    "submodule": lambda n: n.Sequential(n.ReLU()).get_submodule("0.a"),
    "parameter": lambda n: n.Sequential(n.Linear(2, 2)).get_parameter("0.scale"),
    "buffer": lambda n: n.Sequential(n.Linear(2, 2)).get_buffer("0.weight"),
    "set nothing": lambda n: n.Sequential(n.ReLU()).set_submodule("", n.ReLU()),
}


LATER = {
    "bilinear of nothing": unsaid(torch.nn.Bilinear, "must be > 0"),
    "fractional, kernel": unsaid(torch.nn.FractionalMaxPool3d, "must be greater than 0"),
}
"""Why the oldest supported torch lacks these errors: later versions added them."""


@pytest.mark.parametrize("make", [case(ERRORS[name], reason=LATER.get(name, ""), called=name) for name in ERRORS])
def test_errors_are_torchs(make):
    with pytest.raises(Exception) as theirs:  # noqa: PT011
        make(torch.nn)
    with pytest.raises(theirs.type):
        make(nn)
