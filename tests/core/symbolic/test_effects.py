"""Effects of a compiled step beside its program are refused with their line, and all is as before."""

import logging
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

import nbgrad
from nbgrad import nn
from nbgrad.core.symbolic.errors import TraceError
from tests.sweeps import effects

X = torch.tensor([[1.0, 3.0]])
COUNT = 0


class Slots:
    """An object without a ``__dict__``."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class World:
    """All that the effects change."""

    total = 0

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = nn.Linear(2, 1)
        self.opt = nbgrad.optim.SGD(self.net.parameters(), lr=0.05)
        self.schedule = nbgrad.optim.lr_scheduler.StepLR(self.opt, 5)
        self.count, self.losses, self.table = 0, list[Any](), {"count": 0}
        self.names, self.ring, self.numbers = {"a"}, deque([1, 2]), np.zeros(2)
        self.inner, self.slots = SimpleNamespace(count=0), Slots()
        self.cache: Any = None

    def train(self, x: Any) -> Any:
        self.opt.zero_grad()
        loss = self.net(x).square().mean()
        loss.backward()
        self.opt.step()
        return loss

    def told(self) -> list[Any]:
        values = (self.count, self.losses, self.table, self.names, self.ring, self.numbers.tolist(), self.inner.count)
        process = (os.environ.get("NBGRAD_EFFECTS"), torch.get_default_dtype(), torch.is_grad_enabled(), COUNT)
        group = self.opt.param_groups[0]["lr"], len(self.opt.param_groups), len(self.net._forward_hooks)
        owned = self.schedule.last_epoch, self.slots.count, World.total, self.net.training, self.net.weight.tolist()
        return [repr(one) for one in (*values, *process, *group, *owned)]


def counts_in_a_global(w: World) -> None:
    global COUNT  # noqa: PLW0603  # as users do
    COUNT += 1


def fails(w: World) -> None:
    w.count += 1
    w.net.weight[w.net.weight > 0].sum()


REFUSED: dict[str, tuple[Callable[[World], Any], str]] = {
    "an attribute": (lambda w: setattr(w, "count", w.count + 1), r"changes w\.count from 0 to 1.* count\.add_\(1\)"),
    "an attribute inside": (lambda w: setattr(w.inner, "count", 1), r"changes w\.inner\.count from 0 to 1"),
    "a slot": (lambda w: setattr(w.slots, "count", 1), r"changes w\.slots\.count from 0 to 1"),
    "a class": (lambda w: setattr(World, "total", 1), r"changes World\.total from 0 to 1"),
    "a list": (lambda w: w.losses.append(1), r"changes w\.losses.* Return what is kept there"),
    "a dict": (lambda w: w.table.update(count=1), r"changes w\.table\['count'\] from 0 to 1"),
    "a set": (lambda w: w.names.add("b"), r"changes w\.names"),
    "a deque": (lambda w: w.ring.rotate(), r"changes w\.ring\[0\] from 1 to 2"),
    "an array": (lambda w: w.numbers.__setitem__(0, 1), r"changes w\.numbers"),
    "a global": (counts_in_a_global, r"changes COUNT from 0 to 1"),
    "a scheduler": (lambda w: w.schedule.step(), r"scheduler\.step\(\) after the compiled step"),
    "a rate": (lambda w: w.opt.param_groups[0].update(lr=0.1), r"SGD\.param_groups\[0\]\['lr'\]"),
    "a group": (lambda w: w.opt.add_param_group({"params": [nbgrad.ones(1, requires_grad=True)]}), "param_groups"),
    "a mode": (lambda w: w.net.eval(), r"net\.training from True to False.* Call net\.train\(\) or net\.eval"),
    "a hook of a tensor": (lambda w: w.net.weight.register_hook(lambda g: g), "changes the hooks of .*weight"),
    "a hook of a module": (lambda w: w.net.register_forward_hook(lambda *_: None), "hook.* Register hooks once"),
    "a print": (lambda w: print("step"), r"the function prints, .* print or log it after the call"),
    "a write": (lambda w: sys.stderr.write("step"), r"the function writes to sys\.stderr"),
    "a message": (lambda w: logging.getLogger("effects").error("step"), "the function logs a message"),
    "a warning": (lambda w: warnings.warn("step", stacklevel=1), "the function gives a warning"),
    "a variable of the environment": (lambda w: os.environ.update(NBGRAD_EFFECTS="1"), r"changes os\.environ"),
    "a default type": (lambda w: torch.set_default_dtype(torch.float64), "changes torch's default type"),
    "a grad mode": (lambda w: torch.set_grad_enabled(False), "changes torch's grad mode"),
    "a thread": (lambda w: Thread(target=print).start(), "the function starts a thread"),
    "an error of the trace": (fails, "x\\[mask\\]|asks for|depends on numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_effect_is_refused_and_taken_back(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    act, reason = REFUSED[name]
    w = World()

    def step(x: Any) -> Any:
        loss = w.train(x)
        act(w)
        return loss

    before, compiled = w.told(), nbgrad.compile(step)
    for _ in range(2):
        with pytest.raises(TraceError, match=rf"(?s)^tests/core/symbolic/test_effects\.py:\d+, `.*(?:{reason})"):
            compiled(nbgrad.tensor(X))
        assert w.told() == before
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "")


def test_the_line_is_that_of_the_effect() -> None:
    w = World()

    def helper() -> None:
        w.count += 1

    def step(x: Any) -> Any:
        loss = w.train(x)
        helper()
        return loss

    with pytest.raises(TraceError, match=r"`w\.count \+= 1`: "):
        nbgrad.compile(step)(nbgrad.tensor(X))


@pytest.mark.parametrize(("act", "reason"), [(print, "prints"), (lambda w: w.losses.append(1), "changes w.losses")])
def test_an_effect_in_the_backward_of_a_loss_is_refused(act: Callable[[Any], Any], reason: str) -> None:
    w = World()

    def loss(x: Any) -> Any:
        out = w.net(x)
        out.register_hook(lambda g: act(w))
        return out.sum()

    with pytest.raises(TraceError, match=f"the function {reason}"):
        nbgrad.compile(loss)(nbgrad.tensor(X))
    assert w.losses == []


def test_a_file_is_not_emptied(tmp_path: Path) -> None:
    path = tmp_path / "losses.txt"
    path.write_text("kept")
    with pytest.raises(TraceError, match="opens a file"):
        nbgrad.compile(lambda x: x * path.open("w").write("1"))(nbgrad.tensor(X))
    assert path.read_text() == "kept"


def test_what_a_first_call_sets_once_is_fine() -> None:
    w = World()

    def step(x: Any) -> Any:
        if w.cache is None:
            w.cache = nbgrad.ones(2) * 2
        return (w.net(x * w.cache)).sum()

    compiled = nbgrad.compile(step)
    for _ in range(3):
        assert compiled(nbgrad.tensor(X)).item() == step(nbgrad.tensor(X)).item()
    assert compiled.reasons[0].startswith("first call: ran without a program, because the function sets w.cache")
    assert len(compiled.reasons) == 2
    w.cache = None
    compiled(nbgrad.tensor(X))
    assert w.cache is not None


def test_what_is_set_in_each_call_is_refused_the_second_time() -> None:
    w = World()

    def step(x: Any) -> Any:
        w.table[f"step {len(w.table)}"] = 1
        return x * 2

    compiled = nbgrad.compile(step)
    compiled(nbgrad.tensor(X))
    with pytest.raises(TraceError, match=r"sets w\.table\['step 2'\]"):
        compiled(nbgrad.tensor(X))
    assert list(w.table) == ["count", "step 1"]


def test_a_store_of_what_is_there_is_fine_until_it_is_not() -> None:
    w = World()

    def step(x: Any) -> Any:
        w.count = x.shape[0]
        return x * 2

    w.count = 1
    compiled = nbgrad.compile(step)
    compiled(nbgrad.tensor(X))
    w.count = 5
    with pytest.raises(TraceError, match=r"changes w\.count from 5 to 1"):
        compiled(nbgrad.tensor(X))


def test_an_optimizer_without_state_counts_once() -> None:
    w = World()
    opt = nbgrad.optim.Adam(w.net.parameters(), lr=0.1)

    def step(x: Any) -> Any:
        w.count += 1
        w.net(x).sum().backward()
        opt.step()
        return x * 1

    compiled = nbgrad.compile(step)
    compiled(nbgrad.tensor(X))
    assert w.count == 1
    with pytest.raises(TraceError, match=r"changes w\.count from 1 to 2"):
        compiled(nbgrad.tensor(X))
    assert w.count == 1


class Doubled(nn.Linear):
    """A linear layer of another class."""

    def forward(self, x: Any) -> Any:
        return super().forward(x) * 2


def twice(w: World) -> None:
    old = w.opt.step
    setattr(w.opt, "step", lambda: (old(), old()))  # noqa: B010


def doubled(p: Any) -> None:
    p.grad.data.mul_(2)


CHANGES: dict[str, tuple[Callable[[World], Any], str]] = {
    "a hook of a tensor": (lambda w: w.net.weight.register_hook(lambda g: g * 2), "a hook was added to a tensor"),
    "a hook after .grad": (lambda w: w.net.weight.register_post_accumulate_grad_hook(doubled), "a hook was added to a"),
    "a hook of the optimizer": (
        lambda w: w.opt.register_step_pre_hook(lambda opt, *_: doubled(w.net.weight)),
        "a hook was added to SGD",
    ),
    "a step": (twice, "SGD.step is another function"),
    "a class": (lambda w: setattr(w.net, "__class__", Doubled), "Doubled.__class__ is another type"),
    "a scheduler": (lambda w: nbgrad.optim.lr_scheduler.StepLR(w.opt, 1), ""),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_decides_how_a_step_runs_is_compared(name: str) -> None:
    change, reason = CHANGES[name]
    found = []
    for compiles in (False, True):
        w = World()
        run: Any = nbgrad.compile(w.train) if compiles else w.train
        losses = [run(nbgrad.tensor(X)).item() for _ in range(2)]
        change(w)
        losses += [run(nbgrad.tensor(X)).item() for _ in range(3)]
        found.append(losses)
    assert found[0] == found[1]
    assert run.reasons[-1].startswith(reason)
    assert len(run.reasons) == 2 if reason else True


def test_a_hook_of_all_optimizers_is_compared() -> None:
    w = World()
    run = nbgrad.compile(w.train)
    run(nbgrad.tensor(X))

    def clear(*_: Any) -> None:
        w.net.weight.data.mul_(0)

    handle = register_optimizer_step_post_hook(clear)
    try:
        run(nbgrad.tensor(X))
        assert w.net.weight.tolist() == [[0.0, 0.0]]
    finally:
        handle.remove()


def test_a_method_of_a_library_that_is_replaced_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    w = World()
    compiled = nbgrad.compile(w.net)
    before = compiled(nbgrad.tensor(X)).item()
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x, old=nn.Linear.forward: old(self, x) * 2)
    assert compiled(nbgrad.tensor(X)).item() == before * 2


@pytest.mark.parametrize("seed", range(6))
def test_random_steps_that_do_more_than_train(seed: int) -> None:
    effects.check(Random(seed))
