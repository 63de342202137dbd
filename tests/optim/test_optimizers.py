"""Every optimizer walks where torch's walks, step for step, with each of its settings."""

import copy
import inspect
import pickle

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad import nn, optim
from tests.lacking import absent, case, parameters
from tests.nn.alike import same
from tests.optim.walks import Walk, both, move

DECAY = {"weight_decay": 0.1}
UP = {"maximize": True}
LOOP = {"foreach": False}
EACH = {"foreach": True}
FUSED = {"fused": True}
ALL = ({}, DECAY, UP, LOOP, EACH, {**DECAY, **UP, "lr": 0.05}, {"lr": torch.tensor(0.02, dtype=torch.float64)})
ADAMS = ({"betas": (0.5, 0.8)}, {"eps": 1e-3})
SETTINGS = {
    "SGD": (
        *ALL,
        {"momentum": 0.9},
        {"momentum": 0.9, "dampening": 0.5, **DECAY},
        {"momentum": 0.9, "nesterov": True, **UP},
        FUSED,
    ),
    "Adam": (*ALL, *ADAMS, {"amsgrad": True}, {"decoupled_weight_decay": True, **DECAY}, FUSED, {**FUSED, **DECAY}),
    "AdamW": (*ALL, *ADAMS, {"amsgrad": True}, {"amsgrad": True, **LOOP}, FUSED),
    "Adamax": (*ALL, *ADAMS),
    "NAdam": (*ALL, *ADAMS, {"momentum_decay": 0.1}, {"decoupled_weight_decay": True, **DECAY}),
    "RAdam": (*ALL, *ADAMS, {"decoupled_weight_decay": True, **DECAY}),
    "Adagrad": (*ALL, {"lr_decay": 0.1}, {"initial_accumulator_value": 0.5}, {"eps": 1e-2}, FUSED),
    "Adadelta": (*ALL, {"rho": 0.5}, {"eps": 1e-2}),
    "Adafactor": (*ALL, {"beta2_decay": -0.5}, {"eps": (1e-4, 1e-2)}, {"d": 1.5, "lr": 0.5}),
    "RMSprop": (*ALL, {"alpha": 0.5}, {"eps": 1e-2}, {"momentum": 0.9}, {"centered": True, "momentum": 0.5, **UP}),
    "Rprop": (
        *({}, UP, LOOP, EACH, {"lr": 0.1}),
        {"etas": (0.3, 1.5)},
        {"step_sizes": (1e-3, 0.1)},
    ),
    "ASGD": (*ALL, {"lambd": 0.1}, {"alpha": 0.5}, {"t0": 10}),
    "Muon": (
        *({}, {"lr": 0.05}, {"weight_decay": 0}, {"momentum": 0.5}, {"nesterov": False}),
        *({"adjust_lr_fn": "match_rms_adamw"}, {"ns_steps": 2, "ns_coefficients": (2.0, -1.5, 0.5)}, {"eps": 1e-2}),
    ),
}
CASES = [
    case(
        *(name, settings),
        reason=absent(torch.optim, name, settings),
        called="-".join([name, *(f"{key}={value}" for key, value in settings.items())]),
    )
    for name, several in SETTINGS.items()
    for settings in several
]
SEARCHES = [
    {"lr": 0.1},
    {"lr": 0.1, "history_size": 3, "max_iter": 5},
    {"line_search_fn": "strong_wolfe"},
    {"line_search_fn": "strong_wolfe", "max_eval": 4, "tolerance_grad": 1e-3, "tolerance_change": 1e-5},
    {"lr": 0.1, **UP},
    {"line_search_fn": "strong_wolfe", **UP},
]
OWN = {"lr": 0.03}
NAMES = [*SETTINGS, "LBFGS"]
COMPARED = {name: case(name, reason=absent(torch.optim, name)) for name in NAMES}
STEPPING = [one for name, one in COMPARED.items() if name != "LBFGS"]
USUAL = [one for name, one in COMPARED.items() if name not in {"Adafactor", "Muon", "LBFGS"}]
EXACT = {"rtol": 1e-12, "atol": 1e-12}


def settled(name):
    return {"lr": 0.1} if name == "LBFGS" else {}


def stepping(walk, name):
    return walk.search if name == "LBFGS" else walk.step


def same_walk(ours, theirs, steps=50, **tolerance):
    before = [param.data.clone() for param in ours.params]
    for number in range(steps):
        same(ours.step(number), theirs.step(number), tolerance)
    assert not any(torch.equal(one, param.data) for one, param in zip(before, ours.params, strict=True))


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_fifty_steps_are_torchs(name, settings):
    same_walk(*both(name, settings, OWN), **EXACT)


def test_fused_momentum_begins_for_all_at_once():
    """Torch's fused kernel refuses parameters if only some of them have a momentum yet."""
    same_walk(*both("SGD", {"momentum": 0.9, **FUSED}, late=None), **EXACT)


@pytest.mark.parametrize("name", STEPPING)
def test_fifty_steps_in_single_precision(name):
    same_walk(*both(name, {}, OWN, dtype=torch.float32))


@pytest.mark.parametrize("name", STEPPING)
def test_where_there_is_much_data_too(name):
    """With this much data, too, torch itself chooses the kernel."""
    shapes = ((300, 200), (400, 201), ()) if name != "Muon" else ((300, 200), (400, 201), (1, 1))
    same_walk(*both(name, {}, OWN, shapes=shapes), steps=5, **EXACT)


@pytest.mark.parametrize("name", USUAL)
@pytest.mark.parametrize("settings", [{}, UP, EACH], ids=str)
def test_complex_parameters(name, settings):
    same_walk(*both(name, settings, dtype=torch.complex128), **EXACT)


@pytest.mark.parametrize(
    "settings", [case(one, reason=absent(torch.optim, "LBFGS", one), called=str(one)) for one in SEARCHES]
)
def test_a_search_is_torchs(settings):
    ours, theirs = both("LBFGS", settings)
    first = ours.closure().item()
    for number in range(12):
        torch.testing.assert_close(ours.search(number), theirs.search(number), rtol=1e-10, atol=1e-10)
    assert abs(ours.closure().item()) < abs(first) / 2
    mine, yours = ours.optimizer.state_dict(), theirs.optimizer.state_dict()
    assert mine["state"][0]["func_evals"] == yours["state"][0]["func_evals"] > 12


@pytest.mark.parametrize("name", COMPARED.values())
def test_state_dict_is_torchs(name):
    ours, theirs = both(name, settled(name))
    for number in range(3):
        mine, yours = ours.optimizer.state_dict(), theirs.optimizer.state_dict()
        assert mine["param_groups"] == yours["param_groups"]
        assert [[*held] for held in mine["state"].values()] == [[*held] for held in yours["state"].values()]
        torch.testing.assert_close(mine["state"], yours["state"], rtol=1e-10, atol=1e-10)
        stepping(ours, name)(number)
        stepping(theirs, name)(number)
    assert repr(ours.optimizer) == repr(theirs.optimizer)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", COMPARED.values())
@pytest.mark.parametrize("there", ["ours to torch's", "torch's to ours", "ours to ours"])
def test_state_moves_in_midwalk(name, there):
    settings = settled(name)
    whole, first = both(name, settings)
    if there.startswith("ours"):
        first = both(name, settings)[0]
    other = {**settings, "lr": 0.7}
    second = both(name, other)[0] if there.endswith("ours") else both(name, other)[1]
    for number in range(25):
        expected, got = stepping(whole, name)(number), stepping(first, name)(number)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    move(first, second)
    for number in range(25, 50):
        expected, got = stepping(whole, name)(number), stepping(second, name)(number)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", COMPARED.values())
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "pickle"])
def test_a_copy_goes_on(name, copied):
    ours, theirs = both(name, settled(name))
    for number in range(5):
        stepping(ours, name)(number)
        stepping(theirs, name)(number)
    ours.optimizer = copied(ours.optimizer)
    ours.params = ours.optimizer.param_groups[0]["params"]
    for number in range(5, 10):
        torch.testing.assert_close(stepping(ours, name)(number), stepping(theirs, name)(number), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", COMPARED.values())
def test_signatures_are_torchs(name):
    theirs = getattr(torch.optim, name)
    assert parameters(getattr(optim, name), theirs) == parameters(theirs, theirs)


def test_every_optimizer_of_torch_is_here():
    torchs = {
        name
        for name, kind in vars(torch.optim).items()
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
    }
    assert {name for name in torchs if not hasattr(optim, name)} == {"SparseAdam"}
    assert {*NAMES, "Optimizer", "SparseAdam"} - {"Muon"} <= torchs <= {*NAMES, "Optimizer", "SparseAdam"}


BAD = {
    "lr": (-0.1, [name for name in NAMES if name != "Rprop"]),
    "weight_decay": (-0.1, [name for name in SETTINGS if name != "Rprop"]),
    "eps": (-0.1, ["Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop"]),
    "momentum": (-0.1, ["SGD", "RMSprop", "Muon"]),
    "betas": ((1.0, 0.9), ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]),
    "momentum_decay": (-0.1, ["NAdam"]),
    "lr_decay": (-0.1, ["Adagrad"]),
    "initial_accumulator_value": (-0.1, ["Adagrad"]),
    "rho": (1.1, ["Adadelta"]),
    "alpha": (-0.1, ["RMSprop"]),
    "etas": ((1.5, 1.2), ["Rprop"]),
    "d": (0.1, ["Adafactor"]),
    "beta2_decay": (0.1, ["Adafactor"]),
    "adjust_lr_fn": ("none", ["Muon"]),
    "nesterov": (True, ["SGD"]),
}


BAD_CASES = [
    case(name, key, value, reason=absent(torch.optim, name)) for key, (value, names) in BAD.items() for name in names
]


@pytest.mark.parametrize(("name", "key", "value"), BAD_CASES)
def test_a_setting_out_of_range_is_torchs_error(name, key, value):
    with pytest.raises(ValueError) as theirs:  # noqa: PT011  # the next line compares the whole message
        Walk(getattr(torch.optim, name), {key: value})
    with pytest.raises(ValueError) as ours:  # noqa: PT011
        Walk(getattr(optim, name), {key: value})
    assert str(ours.value) == str(theirs.value)


def numbered(name):
    """The settings of an optimizer that are one number or several, with their defaults."""
    settings = inspect.signature(getattr(torch.optim, name)).parameters.values()
    return {one.name: one.default for one in settings if type(one.default) in (int, float, tuple)}


@pytest.mark.parametrize(
    ("name", "key", "usual"),
    [(name, key, usual) for name in NAMES if not absent(torch.optim, name) for key, usual in numbered(name).items()],
)
def test_a_setting_of_another_kind_is_named_with_what_was_expected(name, key, usual):
    several, whole = isinstance(usual, tuple), key == "ns_steps"
    wanted = f"a tuple of {len(usual)} numbers" if several else "a whole number" if whole else "a number"
    more = [0.9, usual[:-1], (*usual[:-1], "0.5")] if several else [2.5, 2.0, torch.tensor(2.0)] if whole else []
    for wrong in ("0.1", None, {}, [0.1], *more):
        with pytest.raises(TypeError) as given:
            Walk(getattr(optim, name), {key: wrong})
        assert str(given.value).startswith(f"{name}({key}={wrong!r}): it has to be {wanted}, as ")
        assert f"{key}={usual!r}, which it is by default" in str(given.value)
    walk = Walk(
        getattr(optim, name), {key: list(usual) if several else np.int64(usual) if whole else np.float64(usual)}
    )
    before = walk.optimizer.state_dict()
    with pytest.raises(TypeError, match=rf"{name}\({key}='0.1'\): it has to be"):
        walk.optimizer.load_state_dict(
            {"state": {}, "param_groups": [{**group, key: "0.1"} for group in before["param_groups"]]}
        )
    if name != "LBFGS":
        with pytest.raises(TypeError, match=rf"{name}\({key}='0.1'\): it has to be"):
            walk.optimizer.add_param_group({"params": nn.Parameter(torch.ones(2, 2)), key: "0.1"})


def test_a_setting_that_is_nearly_a_number_is_written_out():
    weight = nn.Parameter([1.0])
    with pytest.raises(TypeError, match=r"SGD\(lr='1e-1'\): .*, but got str; write lr=0.1$"):
        optim.SGD([weight], lr="1e-1")
    with pytest.raises(TypeError, match=r"SGD\(lr=\[0.1\]\): .*, but got list; write lr=0.1$"):
        optim.SGD([weight], lr=[0.1])
    with pytest.raises(TypeError, match=r"SGD\(lr='fast'\): .*, but got str$"):
        optim.SGD([weight], lr="fast")
    with pytest.raises(TypeError, match=r"Adafactor\(eps=None\): .* as eps=\(None, 0.001\)"):
        optim.Adafactor([weight], eps=None)


@pytest.mark.parametrize("name", [COMPARED["Muon"]])
def test_a_number_of_iterations_is_whole(name):
    weight = nn.Parameter([[1.0]])
    with pytest.raises(TypeError, match=rf"{name}\(ns_steps=2.5\): it has to be a whole number, .*, but got float$"):
        getattr(optim, name)([weight], ns_steps=2.5)
    for wrong in (3.0, "3", np.float32(3)):
        with pytest.raises(TypeError, match=r": it has to be a whole number, as ns_steps=5, .*; write ns_steps=3$"):
            getattr(optim, name)([weight], ns_steps=wrong)


@pytest.mark.parametrize("name", STEPPING)
def test_sparse_gradients_are_refused_by_name(name):
    walk = both(name, {})[0]
    walk.params[0].grad = torch.ones(3, 2, dtype=torch.float64).to_sparse()
    with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
        walk.optimizer.step()


@pytest.mark.parametrize("name", USUAL)
def test_differentiable_is_refused_by_name(name):
    with pytest.raises(NotImplementedError, match=rf"{name}\(differentiable=True\)"):
        both(name, {"differentiable": True})


@pytest.mark.parametrize("name", [COMPARED["Muon"]])
def test_muon_is_for_matrices(name):
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        getattr(optim, name)([nn.Parameter([1.0])])


def test_an_optimizer_that_torch_has_not_yet_says_which_torch_it_takes(monkeypatch):
    monkeypatch.delattr(optim, "Muon", raising=False)
    with pytest.raises(
        AttributeError, match=r"Muon runs the step of torch\.optim\.Muon, which takes torch 2\.9 or newer"
    ):
        optim.Muon  # noqa: B018


def test_lbfgs_has_one_group():
    with pytest.raises(ValueError, match="LBFGS doesn't support per-parameter options"):
        optim.LBFGS([{"params": nn.Parameter([1.0])}, {"params": nn.Parameter([1.0])}])


def test_adamw_stays_adamw_when_it_loads_adam():
    adam, adamw = both("Adam", {})[0], both("AdamW", {})[0]
    move(adam, adamw)
    assert adamw.optimizer.param_groups[0]["decoupled_weight_decay"]


@pytest.mark.parametrize("name", COMPARED.values())
def test_a_step_leaves_nothing_at_the_data(name):
    walk = both(name, settled(name))[0]
    data = [param.data for param in walk.params]
    stepping(walk, name)(2)
    assert [one.grad for one in data] == [None] * 3
    assert all(param.data is one for param, one in zip(walk.params, data, strict=True))


class Changes(nbgrad.core.engine.observer.Observer):
    """Remembers each change of which it is notified."""

    def __init__(self):
        self.seen = []

    def on_change(self, changed, what):
        self.seen.append((len(changed), what))


@pytest.fixture
def told():
    observer = Changes()
    with nbgrad.core.engine.state.Switch(observers=(observer,)):
        yield observer.seen


def test_observers_are_told(told):
    both("Adam", {}, OWN)[0].step(2)
    assert told == [(2, "Adam.step()"), (1, "Adam.step()")]


def test_observers_see_each_evaluation(told):
    walk = both("LBFGS", {"lr": 0.1, "max_iter": 3})[0]
    walk.search(0)
    assert [what for _, what in told].count("LBFGS.step()") == 3
