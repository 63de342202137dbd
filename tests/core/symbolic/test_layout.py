"""Channels last: which programs use this layout, which tensors are copied at its borders, and that the numbers stay."""

import re
import runpy
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch

import nbgrad
from benchmarks import networks
from nbgrad import nn
from nbgrad.core.symbolic.passes import layout
from nbgrad.symbolic import Program, Spec, trace
from tests.sweeps.layouts import check

functional = nn.functional
IMAGES = Spec((4, 8, 12, 12))


def copies(program: Program) -> list[str]:
    """The steps that copy images to another layout."""
    return [
        step.name
        for step in program.steps
        if step.name in ("contiguous", "clone") and len(step.results()[0].shape) == 4 and step.results()[0].shape[0] > 1
    ]


def rewrites(program: Program) -> int:
    return sum(one.rule == "channels last" for one in program.notes)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("seed", range(12))
def test_random_networks_of_images_stay_what_they_are(seed: int) -> None:
    check(Random(seed))


@pytest.mark.rotated(6)
def test_a_wrong_layout_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def mirrored(self: Any, step: Any) -> bool:
        """A wrong rule: use the first argument of an addition twice."""
        return step.name == "add" and self._elementwise(type(step)(step.function, (step.args[0],) * 2, {}, step.result))

    monkeypatch.setitem(layout._RULES, "add", mirrored)
    found = 0
    for seed in range(40):
        try:
            check(Random(seed))
        except AssertionError:
            found += 1
    assert found


def test_a_step_of_a_network_copies_images_at_its_borders_alone() -> None:
    step = networks.cnn(nbgrad)
    run = nbgrad.compile(step.cleared_after, backend="replay", level="reassociate")
    run()
    weights = 2  # the gradients of two weights
    assert len(copies(run.program)) == 2 + weights
    assert [one.name for one in run.program.steps].count("max_pool2d_with_indices_backward") == 2
    exact = nbgrad.compile(networks.cnn(nbgrad).cleared_after, backend="replay")
    exact()
    assert rewrites(run.program)
    assert not rewrites(exact.program)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_training_with_channels_last_has_the_losses_of_eager(momentum: float) -> None:
    def losses(compiled: bool) -> list[float]:
        nbgrad.manual_seed(0)
        net = nn.Sequential(
            *(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
            *(nn.Conv2d(8, 16, 3, padding=1), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 5)),
        )
        optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.05, momentum=momentum)
        x, y = nbgrad.randn(8, 3, 12, 12), nbgrad.tensor(torch.arange(8) % 5)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = nbgrad.compile(step, backend="replay", level="reassociate") if compiled else step
        found = [run(x, y).item() for _ in range(10)]
        assert not compiled or rewrites(run.program)
        return found

    assert losses(True) == pytest.approx(losses(False), rel=1e-4)


def chain(x: Any, v: Any, w: Any) -> Any:
    """A chain of convolutions. A result in its middle is returned too."""
    z = x
    for _ in range(8):
        z = functional.conv2d(z, v, padding=1).relu()
    return functional.conv2d(z, w, padding=1), z


WEIGHTS = (Spec((8, 8, 3, 3)), Spec((16, 8, 3, 3)))


def test_what_leaves_has_the_strides_that_it_had() -> None:
    program = trace(chain, IMAGES, *WEIGHTS)
    shorter = program.optimize("reassociate").check()
    assert rewrites(shorter)
    given = [torch.randn(one.shape) for one in (IMAGES, *WEIGHTS)]
    for one, right in zip(shorter(*given), program(*given), strict=True):
        torch.testing.assert_close(one.data, right.data, rtol=1e-4, atol=1e-5)
        assert one.data.stride() == right.data.stride()
        assert one.data.is_contiguous()


def test_one_convolution_is_left_alone() -> None:
    program = trace(lambda x, v: functional.conv2d(x, v).relu(), IMAGES, WEIGHTS[0])
    assert not rewrites(program.optimize("reassociate"))


def test_images_that_have_channels_last_are_not_copied() -> None:
    def function(v: Any, w: Any) -> Any:
        return functional.conv2d(functional.conv2d(x, v), w)

    x = nbgrad.tensor(torch.randn(4, 8, 12, 12).contiguous(memory_format=torch.channels_last))
    assert copies(trace(function, *WEIGHTS).optimize("reassociate")) == []


def test_images_that_the_function_changes_are_left_alone() -> None:
    held = nbgrad.randn(4, 8, 12, 12)

    def function(v: Any, w: Any) -> Any:
        y = functional.conv2d(functional.conv2d(held, v, padding=1).relu(), v)
        held.mul_(2.0)
        return y, functional.conv2d(functional.conv2d(held, v, padding=1).relu(), w)

    given = [torch.randn(one.shape) for one in WEIGHTS]
    before = held.data.clone()
    right = [one.data for one in function(*map(nbgrad.tensor, given))]
    held.data.copy_(before)
    for one, wanted in zip(trace(function, *WEIGHTS).optimize("reassociate")(*given), right, strict=True):
        torch.testing.assert_close(one.data, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("level", ["ops", "torch"])
def test_the_source_computes_with_channels_last_too(level: Any, tmp_path: Path) -> None:
    program = trace(chain, IMAGES, *WEIGHTS).optimize("reassociate")
    text = program.source(level)
    assert re.search(r"memory_format=torch\.channels_last", text)
    path = tmp_path / "source.py"
    path.write_text(text)
    given = [torch.randn(one.shape) for one in (IMAGES, *WEIGHTS)]
    found = runpy.run_path(str(path))[program.name](*given, **program.source_arguments(level))
    assert all(torch.equal(one, other.data) for one, other in zip(found, program(*given), strict=True))


def test_without_onednn_nothing_is_rewritten() -> None:
    program = trace(chain, IMAGES, *WEIGHTS)
    torch._C._set_mkldnn_enabled(False)
    try:
        assert not rewrites(program.optimize("reassociate"))
    finally:
        torch._C._set_mkldnn_enabled(True)
