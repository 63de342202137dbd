"""``nbgrad.testing``: programs that must pass, and faults that must be named, in nbgrad's classes and in torch's."""

import random
import re
import unittest
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad import testing

Step = Callable[[], Any]


@pytest.fixture(params=["torch", "nbgrad"])
def lib(request: pytest.FixtureRequest) -> SimpleNamespace:
    """The names of one dialect, and data for it."""
    torch.manual_seed(0)
    x, y = torch.randn(16, 4), torch.arange(16) % 3
    if request.param == "torch":
        return SimpleNamespace(
            nn=torch.nn, optim=torch.optim, F=torch.nn.functional, tensor=torch.as_tensor, x=x, y=y, lib=torch
        )
    make = nbgrad.tensor
    return SimpleNamespace(
        nn=nbgrad.nn, optim=nbgrad.optim, F=nbgrad.nn.functional, tensor=make, x=make(x), y=make(y), lib=nbgrad
    )


def network(lib: SimpleNamespace, cut: bool = False, norm: bool = False) -> Any:
    """A network of two layers whose first part, ``encoder``, can be cut off."""

    class Network(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.encoder = lib.nn.Sequential(
                lib.nn.Linear(4, 8, bias=not norm), *([lib.nn.BatchNorm1d(8)] if norm else [])
            )
            self.head = lib.nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            hidden = self.encoder(x).relu()
            return self.head(hidden.detach() if cut else hidden)

    return Network()


def training(lib: SimpleNamespace, model: Any, optimizer: Any = None, *, before: Step | None = None) -> Step:
    """A step of the training of ``model``."""
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1) if optimizer is None else optimizer

    def step() -> Any:
        optimizer.zero_grad()
        loss = lib.F.cross_entropy(model(lib.x), lib.y)
        loss.backward()
        if before is not None:
            before()
        optimizer.step()
        return loss

    return step


def refused(run: Callable[[], Any]) -> str:
    """The message of the AssertionError that ``run`` has to raise."""
    with pytest.raises(AssertionError) as info:
        run()
    return str(info.value)


# --- assert_all_learn ------------------------------------------------------------------------------------------------


def test_a_sound_training_passes(lib: SimpleNamespace) -> None:
    model = network(lib, norm=True)
    step = training(lib, model)
    testing.assert_all_learn(model, step)
    testing.assert_all_learn(model, step, steps=3)
    testing.assert_all_learn(dict(model.named_parameters()), step)
    testing.assert_all_learn(list(model.parameters()), step)
    testing.assert_sound(step)


def cut_off(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib, cut=True)
    return model, training(lib, model)


def not_held(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    return model, training(lib, model, lib.optim.SGD(model.head.parameters(), lr=0.1))


def at_rate_0(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    groups = [{"params": list(model.encoder.parameters()), "lr": 0.0}, {"params": list(model.head.parameters())}]
    return model, training(lib, model, lib.optim.SGD(groups, lr=0.1))


def frozen(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    model.encoder.requires_grad_(False)
    return model, training(lib, model)


def at_a_tiny_rate(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    return model.encoder, training(lib, model, lib.optim.SGD(model.parameters(), lr=1e-14))


def without_step(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    return model.encoder, lambda: lib.F.cross_entropy(model(lib.x), lib.y).backward()


def without_backward(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    return model.encoder, lambda: model(lib.x)


def cleared(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
    return model.encoder, training(lib, model, optimizer, before=optimizer.zero_grad)


def dead(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    with torch.no_grad(), nbgrad.no_grad():
        model.encoder[0].bias -= 100.0
    return model.encoder, training(lib, model)


def infinite(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        (model.encoder(lib.x) * 0).sqrt().sum().backward()
        optimizer.step()

    return model.encoder, step


def unused(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    model.encoder[0].extra = lib.nn.Linear(2, 2)
    return model, training(lib, model)


def in_no_grad(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        with lib.lib.no_grad():
            hidden = model.encoder(lib.x)
        lib.F.cross_entropy(model.head(hidden), lib.y).backward()
        optimizer.step()

    return model, step


LEARNING: dict[str, tuple[Callable[[SimpleNamespace], tuple[Any, Step]], str, str]] = {
    "cut off": (
        cut_off,
        r"encoder.0.weight \(8, 4\), encoder.0.bias \(8,\): got no gradient: .*detach",
        "detach()",
    ),
    "not held": (not_held, r"encoder.0.weight .*got a gradient, but did not change: SGD stepped, and no optim", "them"),
    "rate 0": (at_rate_0, r"encoder.0.weight .*the learning rate of its group in SGD is 0", "rate"),
    "frozen": (frozen, r"encoder.0.weight .*is frozen: requires_grad is False", "frozen"),
    "tiny rate": (at_a_tiny_rate, r"0.weight .*the update by SGD is lost in rounding: lr=1e-14, float32", "lr"),
    "no step": (without_step, r"0.weight .*did not change: no optimizer.step\(\) was called", "step"),
    "no backward": (without_backward, r"0.weight .*got no gradient: step\(\) ran no backward", "backward"),
    "cleared": (
        cleared,
        r"0.weight .*its gradient was not there, or not there any more, when SGD stepped",
        "[idle step]",
    ),
    "dead units": (dead, r"0.weight .*got a gradient that is 0 everywhere", "relu"),
    "infinite": (infinite, r"0.weight .*got a gradient with NaN or Inf", "[nan]"),
    "unused": (unused, r"encoder.0.extra.weight \(2, 2\), .*got no gradient: no op in this graph uses it", "forward()"),
    "no_grad": (
        in_no_grad,
        r"encoder.0.weight .*: used by (linear|encoder\(\)) inside no_grad",
        "no_grad()",
    ),
}
"""A fault; the line that names the tensors and the reason; and a word of the remedy or of the findings."""


@pytest.mark.parametrize("name", LEARNING)
def test_a_fault_is_named(lib: SimpleNamespace, name: str) -> None:
    make, words, more = LEARNING[name]
    model, step = make(lib)
    message = refused(lambda: testing.assert_all_learn(model, step))
    assert re.match(r"assert_all_learn: \d of \d parameters do not learn in one step\n", message)
    assert re.search(rf"^  {words}", message, re.MULTILINE), message
    assert more in message
    assert "head." not in message.partition("findings of the step")[0], "the sound part"


def test_a_bias_before_a_normalization_does_not_learn(lib: SimpleNamespace) -> None:
    model = network(lib, norm=True)
    model.encoder[0] = lib.nn.Linear(4, 8)
    with torch.no_grad(), nbgrad.no_grad():
        model.encoder[0].bias += 100.0
    message = refused(lambda: testing.assert_all_learn(model, training(lib, model)))
    assert "encoder.0.bias (8,): got a gradient, but did not change: the update by SGD is lost in rounding" in message
    assert "A bias before a normalization has no effect: make the layer with bias=False" in message


def test_a_factor_that_begins_at_0_learns_from_the_second_step_on(lib: SimpleNamespace) -> None:
    a, b = (lib.tensor(torch.ones(shape)).requires_grad_() for shape in ((4, 2), (2, 1)))
    with torch.no_grad(), nbgrad.no_grad():
        b *= 0.0
    adapter = {"down": a, "up": b}
    optimizer = lib.optim.SGD([a, b], lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        ((lib.x @ a @ b) - 1).square().mean().backward()
        optimizer.step()

    assert "down (4, 2): got a gradient that is 0 everywhere" in refused(
        lambda: testing.assert_all_learn(adapter, step)
    )
    with torch.no_grad(), nbgrad.no_grad():
        b *= 0.0
    testing.assert_all_learn(adapter, step, steps=2)


def test_parameters_that_are_to_stay_are_named_by_patterns(lib: SimpleNamespace) -> None:
    model, step = not_held(lib)
    testing.assert_all_learn(model, step, frozen="encoder.*")
    testing.assert_all_learn(model, step, frozen=["encoder.0.weight", "*.0.bias"])
    model = network(lib)
    message = refused(lambda: testing.assert_all_learn(model, training(lib, model), frozen=["encoder.*"]))
    assert message.startswith("assert_all_learn: 2 frozen ones change in one step\n  encoder.0.weight (8, 4), ")
    assert "changed, but is to be frozen: SGD holds it, and it got a gradient: call requires_grad_(False)" in message
    with pytest.raises(ValueError, match=r"no parameter has such a name; did you mean encoder.0.weight\?"):
        testing.assert_all_learn(model, step, frozen=["encoder.0.weigth"])


def test_all_learn_refuses_other_things(lib: SimpleNamespace) -> None:
    with pytest.raises(TypeError, match="takes a module, a dict of names and tensors, or tensors, and got int"):
        testing.assert_all_learn(3, print)
    with pytest.raises(TypeError, match="'a' is str"):
        testing.assert_all_learn({"a": "b"}, print)
    with pytest.raises(ValueError, match="ReLU has no parameters"):
        testing.assert_all_learn(lib.nn.ReLU(), print)
    with pytest.raises(ValueError, match="steps=0: it has to be 1 or more"):
        testing.assert_all_learn(network(lib), print, steps=0)
    assert refused(lambda: testing.assert_all_learn(network(lib), lambda: None, msg="mine")) == "mine"


def test_lazy_and_meta_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="'weight' has no numbers yet: call the model once"):
        testing.assert_all_learn(torch.nn.LazyLinear(3), print)
    with pytest.raises(ValueError, match="on the meta device"):
        testing.assert_frozen(torch.nn.Linear(2, 2, device="meta"), print)


def test_an_error_of_the_step_comes_through_and_nothing_is_left(lib: SimpleNamespace) -> None:
    model = network(lib)
    model.train()

    def step() -> None:
        model.eval()
        model(lib.x).sum().backward()
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        testing.assert_all_learn(model, step)
    assert model.training
    assert all(one.grad is None for one in model.parameters())
    model(lib.x).sum().backward()  # no hook of the assertion's is left


def test_grads_modes_and_random_numbers_are_left_as_they_were(lib: SimpleNamespace) -> None:
    model = network(lib)
    inner = training(lib, model)
    model(lib.x).sum().backward()
    model.head.eval()
    grads = [(one.grad, one.grad.clone()) for one in model.parameters()]

    def step() -> None:
        model.train()
        for one in model.parameters():
            one.grad *= 2
        inner()
        torch.rand(3), random.random(), np.random.rand()

    states = [torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()]
    for check in (
        lambda: testing.assert_all_learn(model, step),
        lambda: refused(lambda: testing.assert_frozen(model, step)),
        lambda: refused(lambda: testing.assert_all_learn(model, step, frozen="*")),
    ):
        check()
        assert (model.training, model.encoder.training, model.head.training) == (True, True, False)
        for one, (grad, before) in zip(model.parameters(), grads, strict=True):
            assert one.grad is grad
            assert bool((grad == before).all())
        assert torch.equal(torch.get_rng_state(), states[0])
        assert random.getstate() == states[1]
        assert (np.random.get_state()[1] == states[2]).all()


# --- assert_frozen ---------------------------------------------------------------------------------------------------


def test_a_frozen_part_passes(lib: SimpleNamespace) -> None:
    model, step = frozen(lib)
    testing.assert_frozen(model.encoder, step, steps=3)
    testing.assert_frozen(list(model.encoder.parameters()), step)
    model, step = not_held(lib)
    testing.assert_frozen(model.encoder, step)


def decayed(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)

    def step() -> None:
        optimizer.zero_grad(set_to_none=False)
        for one in model.encoder.parameters():
            one.grad = lib.tensor(torch.zeros(tuple(one.shape)))
        lib.F.cross_entropy(model.head(lib.tensor(torch.ones(16, 8))), lib.y).backward()
        optimizer.step()

    return model.encoder, step


def coasting(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    training(lib, model, optimizer)()

    def step() -> None:
        optimizer.zero_grad()
        for one in model.encoder.parameters():
            one.grad = lib.tensor(torch.zeros(tuple(one.shape)))
        optimizer.step()

    return model.encoder, step


def learning(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)
    return model.encoder, training(lib, model)


def with_statistics(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib, norm=True)
    model.encoder.requires_grad_(False)
    return model.encoder, training(lib, model)


def by_hand(lib: SimpleNamespace) -> tuple[Any, Step]:
    model = network(lib)

    def step() -> None:
        with torch.no_grad(), nbgrad.no_grad():
            model.encoder[0].weight *= 0.9

    return model.encoder, step


FROZEN: dict[str, tuple[Callable[[SimpleNamespace], tuple[Any, Step]], str]] = {
    "weight decay": (decayed, r"0.weight .*SGD holds it, and its weight decay is 0.1"),
    "momentum": (coasting, r"0.weight .*SGD holds it, and moves it by its momentum"),
    "it learns": (
        learning,
        r"0.weight \(8, 4\), 0.bias \(8,\): SGD holds it, and it got a gradient: call ",
    ),
    "batch norm": (
        with_statistics,
        r"1.running_mean .*: a buffer of 1 \(BatchNorm1d\), which is in train mode: ",
    ),
    "by hand": (by_hand, r"0.weight \(8, 4\): no optimizer that stepped holds it, so step\(\) changes it by itself"),
}


@pytest.mark.parametrize("name", FROZEN)
def test_what_moves_is_named(lib: SimpleNamespace, name: str) -> None:
    make, words = FROZEN[name]
    model, step = make(lib)
    message = refused(lambda: testing.assert_frozen(model, step))
    assert re.match(r"assert_frozen: \d of \d tensors change in one step\n", message)
    assert re.search(rf"^  {words}", message, re.MULTILINE), message


# --- assert_gradients_close ------------------------------------------------------------------------------------------


def a_function(lib: SimpleNamespace, **changes: Any) -> Callable[[Any], Any]:
    """A function of an input, with one setting that can be changed."""
    settings = {"eps": 1e-5, "dim": 1, "scale": 1.0, "relu": "relu", "detach": False, "mean": "mean", **changes}

    def function(x: Any) -> Any:
        hidden = lib.F.layer_norm(x, (4,), eps=settings["eps"])
        hidden = getattr(hidden, settings["relu"])()
        hidden = hidden * (hidden.detach() if settings["detach"] else hidden)
        chosen = hidden.softmax(settings["dim"])
        return getattr((chosen * settings["scale"]).square(), settings["mean"])()

    return function


PORTS: dict[str, tuple[dict[str, Any], str]] = {
    "eps": ({"eps": 1e-2}, "first difference: layer_norm, eps 0.01 | 1e-05"),
    "axis": ({"dim": 0}, "first difference: softmax, dim 0 | 1"),
    "scale": ({"scale": 2.0}, "first difference: mul, b 2.0 | 1.0"),
    "activation": ({"relu": "sigmoid"}, "first difference: sigmoid | relu"),
    "reduction": ({"mean": "sum"}, "first difference: sum | mean"),
    "detach": ({"detach": True}, "first difference of the backward: mul, gradient of "),
}


@pytest.mark.parametrize("name", PORTS)
def test_the_first_op_of_a_port_that_differs_is_named(lib: SimpleNamespace, name: str) -> None:
    changes, words = PORTS[name]
    reference = a_function(lib)
    testing.assert_gradients_close(a_function(lib), reference, lib.x)
    message = refused(lambda: testing.assert_gradients_close(a_function(lib, **changes), reference, lib.x))
    head, *rest = message.splitlines()
    assert re.fullmatch(r"assert_gradients_close: \d of the outputs, losses and gradients differ", head)
    assert any(line.startswith(words) for line in rest), message
    assert any(line.startswith("  gradient of input 0 (16, 4): off by ") for line in rest)


def test_modules_are_compared_by_the_names_of_their_parameters(lib: SimpleNamespace) -> None:
    port, reference = network(lib), network(lib)
    with pytest.raises(AssertionError, match=r"the parameters differ before the run: load the same numbers"):
        testing.assert_gradients_close(port, reference, lib.x)
    port.load_state_dict(reference.state_dict())
    testing.assert_gradients_close(port, reference, lib.x)
    testing.assert_gradients_close(port, reference, (lib.x,), loss=lambda out: lib.F.cross_entropy(out, lib.y))

    stack = lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.ReLU(), lib.nn.Linear(8, 3))
    names = {
        "0.weight": "encoder.0.weight",
        "0.bias": "encoder.0.bias",
        "2.weight": "head.weight",
        "2.bias": "head.bias",
    }
    stack.load_state_dict({name: reference.state_dict()[other] for name, other in names.items()})
    testing.assert_gradients_close(stack, reference, lib.x, names=names)
    testing.assert_gradients_close(stack, reference, lib.x, names=names.get)
    with pytest.raises(ValueError, match=re.escape(f"give names={names!r}")):
        testing.assert_gradients_close(stack, reference, lib.x)
    with pytest.raises(ValueError, match=r"the port has no parameter '0.wait'; did you mean 0.weight\?"):
        testing.assert_gradients_close(stack, reference, lib.x, names={"0.wait": "head.bias"})
    with pytest.raises(ValueError, match="have different shapes"):
        testing.assert_gradients_close(
            stack, reference, lib.x, names={**names, "0.weight": "head.weight", "2.weight": "encoder.0.weight"}
        )


def test_a_setting_of_a_layer_with_another_name_is_named(lib: SimpleNamespace) -> None:
    def stack(eps: float, names: tuple[str, str]) -> Any:
        model = lib.nn.Sequential()
        model.add_module(names[0], lib.nn.Linear(4, 8))
        model.add_module(names[1], lib.nn.LayerNorm(8, eps=eps))
        model.add_module("last", lib.nn.Tanh())
        return model

    port, reference = stack(1e-2, ("a", "n")), stack(1e-5, ("linear", "norm"))
    names = {f"{mine}.{part}": f"{other}.{part}" for mine, other in (("a", "linear"), ("n", "norm")) for part in PARTS}
    port.load_state_dict({mine: reference.state_dict()[other] for mine, other in names.items()})
    message = refused(lambda: testing.assert_gradients_close(port, reference, lib.x, names=names))
    assert re.search(r"^first difference: (n )?layer_norm( in n)?, eps 0.01 \| 1e-05$", message, re.MULTILINE), message


PARTS = ("weight", "bias")


def test_of_many_differences_the_first_are_named(lib: SimpleNamespace) -> None:
    found = [lib.nn.Sequential(*[lib.nn.Linear(4, 4) for _ in range(8)]) for _ in range(2)]
    message = refused(lambda: testing.assert_gradients_close(*found, lib.x))
    assert len(message.splitlines()) == 14
    assert message.endswith("\n  and 4 more")


def test_a_port_that_cuts_a_path_lacks_the_gradient(lib: SimpleNamespace) -> None:
    port, reference = network(lib, cut=True), network(lib)
    port.load_state_dict(reference.state_dict())
    message = refused(lambda: testing.assert_gradients_close(port, reference, lib.x))
    assert "gradient of encoder.0.weight: there is one in the reference, and none in the port" in message
    assert "gradient of head.weight" not in message


def test_a_factor_in_the_gradient_is_named(lib: SimpleNamespace) -> None:
    def port(x: Any) -> Any:
        return (x * x).sum()

    def reference(x: Any) -> Any:
        return (x * x.detach()).sum()

    message = refused(lambda: testing.assert_gradients_close(port, reference, lib.x))
    assert "gradient of input 0 (16, 4): off by 100% of its norm" in message
    assert "a factor 2 is too many" in message


def test_functions_give_their_parameters(lib: SimpleNamespace) -> None:
    w, v = (lib.tensor(torch.ones(4, 1)).requires_grad_() for _ in range(2))
    found = ({"w": w}, {"w": v})

    def port() -> Any:
        return (lib.x @ w).mean()

    def reference(factor: float = 1.0) -> Any:
        return (lib.x @ v).sum() / 16 * factor

    testing.assert_gradients_close(port, reference, parameters=found)
    message = refused(lambda: testing.assert_gradients_close(port, lambda: reference(1.5), parameters=found))
    assert "gradient of w (4, 1): off by 33.3% of its norm" in message
    assert (w.grad, v.grad) == (None, None)


def test_a_module_of_nbgrad_is_compared_with_torchs() -> None:
    torch.manual_seed(0)
    reference = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(), torch.nn.Tanh())
    port = nbgrad.from_torch(reference)
    x = torch.randn(16, 4)
    buffers = [one.clone() for one in reference.buffers()]
    testing.assert_gradients_close(port, reference, x)
    testing.assert_gradients_close(port, reference, nbgrad.tensor(x))
    assert all(torch.equal(one, before) for one, before in zip(reference.buffers(), buffers, strict=True))
    own = nbgrad.nn.Sequential(
        nbgrad.nn.Linear(4, 8), nbgrad.nn.BatchNorm1d(8, eps=0.1), nbgrad.nn.Dropout(), nbgrad.nn.Tanh()
    )
    own.load_state_dict(reference.state_dict())
    message = refused(lambda: testing.assert_gradients_close(own, reference, x))
    assert re.search(r"^first difference: .*batch_norm.*, eps 0.1 \| 1e-05$", message, re.MULTILINE), message


def test_numbers_that_are_not_compared_are_errors(lib: SimpleNamespace) -> None:
    def pair(x: Any) -> Any:
        return x, x

    with pytest.raises(TypeError, match="the port gives tuple: pass loss="):
        testing.assert_gradients_close(pair, pair, lib.x)
    testing.assert_gradients_close(pair, pair, lib.x, loss=lambda out: (out[0] * out[1]).sum())
    with pytest.raises(TypeError, match=r"loss gives a tensor of shape \(16, 4\), not a number"):
        testing.assert_gradients_close(pair, pair, lib.x, loss=lambda out: out[0])
    with pytest.raises(ValueError, match="needs no gradient: nothing is compared"):
        testing.assert_gradients_close(lambda x: x.detach(), lambda x: x, lib.x)
    with pytest.raises(ValueError, match="give both rtol and atol"):
        testing.assert_gradients_close(a_function(lib), a_function(lib), lib.x, rtol=0.1)
    testing.assert_gradients_close(a_function(lib, eps=1e-3), a_function(lib), lib.x, rtol=0.1, atol=0.1)
    own = refused(lambda: testing.assert_gradients_close(a_function(lib, eps=1.0), a_function(lib), lib.x, msg="mine"))
    assert own == "mine"


# --- assert_no_growth ------------------------------------------------------------------------------------------------


def test_a_training_does_not_grow(lib: SimpleNamespace) -> None:
    model = network(lib)
    losses: list[float] = []
    last: list[Any] = [None]
    recent: deque[Any] = deque(maxlen=3)
    inner = training(lib, model, lib.optim.Adam(model.parameters()))

    def step() -> None:
        last[0] = inner()
        losses.append(last[0].item())
        recent.append(last[0].detach())

    testing.assert_no_growth(step)


class Trainer:
    """Keeps what it should not."""

    def __init__(self, inner: Step) -> None:
        self.inner = inner
        self.history: dict[str, list[Any]] = {"loss": []}

    def step(self) -> None:
        self.history["loss"].append(self.inner())


def list_of_losses(inner: Step, lib: SimpleNamespace) -> Step:
    losses: list[Any] = []
    return lambda: losses.append(inner())


def list_of_numbers(inner: Step, lib: SimpleNamespace) -> Step:
    numbers: list[Any] = []
    return lambda: numbers.append(inner().detach())


def sum_of_losses(inner: Step, lib: SimpleNamespace) -> Step:
    total: Any = 0.0

    def step() -> None:
        nonlocal total
        total = total + inner()

    return step


def attribute(inner: Step, lib: SimpleNamespace) -> Step:
    return Trainer(inner).step


def longer(inner: Step, lib: SimpleNamespace) -> Step:
    curve: Any = lib.tensor(torch.zeros(1))

    def step() -> None:
        nonlocal curve
        curve = lib.lib.cat([curve, inner().detach().reshape(1)])

    return step


def cache(inner: Step, lib: SimpleNamespace) -> Step:
    seen: dict[int, Any] = {}

    def step() -> None:
        inner()
        seen[len(seen)] = lib.tensor(torch.randn(3))

    return step


GROWTH: dict[str, tuple[Callable[[Step, SimpleNamespace], Step], str]] = {
    "a list of losses": (
        list_of_losses,
        r"8 tensors of shape \(\) more, one in each step, made at .*the list losses",
    ),
    "a list of numbers": (
        list_of_numbers,
        r"8 tensors of shape \(\) more, .*made at .*detach.*held by the list numbers",
    ),
    "a sum": (sum_of_losses, r"still there: total, made at .*`total = total \+ inner\(\)`"),
    "an attribute": (attribute, r"8 tensors .*held by the list self.history\['loss'\], which has 11 elements"),
    "a longer tensor": (
        longer,
        r"tensors take 32 bytes more, 4 in the last step; one has shape \(12,\).*by curve",
    ),
    "a cache": (
        cache,
        r"8 tensors of shape \(3,\) more, one in each step, .*held by the dict seen, which has 11",
    ),
}


@pytest.mark.parametrize("name", GROWTH)
def test_growth_is_named(lib: SimpleNamespace, name: str) -> None:
    make, words = GROWTH[name]
    model = network(lib)
    step = make(training(lib, model), lib)
    message = refused(lambda: testing.assert_no_growth(step))
    assert message.startswith("assert_no_growth: each of 8 steps leaves more behind than the one before\n")
    assert re.search(rf"^  {words}", message, re.MULTILINE), message
    keeps_graphs = name in ("a list of losses", "a sum", "an attribute")
    assert ("[kept graphs]" in message) == keeps_graphs


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="it takes 4 steps or more, and a warm-up of 0 or more"):
        testing.assert_no_growth(print, steps=3)
    with pytest.raises(ValueError, match="warmup=-1"):
        testing.assert_no_growth(print, warmup=-1)


def test_a_store_that_is_full_after_the_warm_up_passes() -> None:
    store: deque[torch.Tensor] = deque(maxlen=6)

    def step() -> None:
        store.append(torch.zeros(3))

    assert "held by the deque store" in refused(lambda: testing.assert_no_growth(step, warmup=0, steps=4))
    testing.assert_no_growth(step, warmup=6)


# --- assert_sound ----------------------------------------------------------------------------------------------------


def test_an_unsound_step_has_its_lines_and_kinds(lib: SimpleNamespace) -> None:
    model = network(lib)

    def step() -> None:
        lib.F.cross_entropy(model(lib.x).softmax(1), lib.y).backward()

    message = refused(lambda: testing.assert_sound(step))
    assert message.startswith("assert_sound: nbgrad: loss input (1 error)\n  ")
    assert re.search(
        r"test_assertions.py:\d+: error: cross_entropy takes scores .* Leave out softmax. \[loss input\]$", message
    )
    testing.assert_sound(step, ignore="loss input")
    testing.assert_sound(step, ignore=["loss-input"])
    with pytest.raises(ValueError, match=r"there is no kind of findings 'los input'; did you mean loss input\?"):
        testing.assert_sound(step, ignore=["los input"])
    with pytest.raises(ValueError, match="fail_on='all': it has to be 'error' or 'warning'"):
        testing.assert_sound(step, fail_on="all")  # type: ignore[arg-type]  # what is tried

    def warns() -> None:
        lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.Linear(8, 1))(lib.x).square().mean().backward()

    testing.assert_sound(warns, fail_on="error")
    assert "warning: " in refused(lambda: testing.assert_sound(warns))


def test_programs_one_after_the_other_are_sound(lib: SimpleNamespace) -> None:
    def compared() -> None:
        one, other = network(lib), network(lib)
        other.load_state_dict(one.state_dict())
        losses = [lib.F.cross_entropy(model(lib.x), lib.y) for model in (one, other)]
        for loss in losses:
            loss.backward()
        testing.assert_close(one.head.weight.grad, other.head.weight.grad)

    def in_turn() -> None:
        kept = []
        for _ in range(5):
            x = lib.tensor(torch.ones(3)).requires_grad_()
            (x * x).sum().backward()
            kept.append(x)

    def cut_in_both() -> None:
        for _ in range(2):
            model = network(lib, cut=True)
            lib.F.cross_entropy(model(lib.x), lib.y).backward()

    testing.assert_sound(compared)
    testing.assert_sound(in_turn)
    assert "[unreached]" in refused(lambda: testing.assert_sound(cut_in_both))


class TestInUnittest(unittest.TestCase):
    """The assertions need no pytest."""

    def test_assertions(self) -> None:
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step() -> None:
            optimizer.zero_grad()
            (model(torch.randn(2, 4)) - 1).square().mean().backward()
            optimizer.step()

        testing.assert_all_learn(model, step)
        testing.assert_no_growth(step)
        with self.assertRaises(AssertionError):  # noqa: PT027  # a test of unittest
            testing.assert_frozen(model, step)


@pytest.fixture(autouse=True)
def _no_graph_is_left() -> Iterator[None]:
    yield
    assert torch._C._len_torch_function_stack() == 0
