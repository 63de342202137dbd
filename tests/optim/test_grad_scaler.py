"""GradScaler next to torch's: the same factor, the same steps taken and left out, the same numbers."""

import pytest
import torch

import nbgrad
from nbgrad import nn, optim

INFINITE = {3, 4, 8}
SETTINGS = {"init_scale": 1024.0, "growth_interval": 3}


def walk(lib, scaler, name="Adam", unscale=False, steps=12, **settings):
    """Losses, factors and parameters of a training under autocast, in which some gradients are infinite."""
    torch.manual_seed(0)
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 2))
    optimizer = getattr(lib.optim, name)(model.parameters(), lr=0.1, **settings)
    x = torch.randn(5, 3)
    found = []
    for step in range(steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            out = model(nbgrad.tensor(x) if lib is nbgrad else x)
        loss = (out.float() - 1).square().mean()
        scaler.scale(loss).backward()
        if step in INFINITE:
            model[0].bias.grad = model[0].bias.grad * float("inf")
        if unscale:
            scaler.unscale_(optimizer)
            lib.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        found.append([loss.item(), scaler.get_scale(), *(one.data.clone() for one in model.parameters())])
    return found


@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.parametrize(("name", "settings"), [("Adam", {}), ("SGD", {"momentum": 0.9}), ("AdamW", {"fused": True})])
def test_the_walk_is_torchs(name, settings, unscale):
    ours, theirs = optim.GradScaler("cpu", **SETTINGS), torch.amp.GradScaler("cpu", **SETTINGS)
    mine = walk(nbgrad, ours, name, unscale, **settings)
    yours = walk(torch, theirs, name, unscale, **settings)
    assert {scale for _, scale, *_ in mine} >= {512.0, 1024.0, 2048.0}
    for (loss, scale, *params), (their_loss, their_scale, *their_params) in zip(mine, yours, strict=True):
        assert scale == their_scale
        assert loss == pytest.approx(their_loss, rel=1e-6)
        for one, other in zip(params, their_params, strict=True):
            torch.testing.assert_close(one, other)
    assert ours.state_dict() == theirs.state_dict()


def test_a_step_with_an_infinite_gradient_is_left_out():
    found = walk(nbgrad, optim.GradScaler("cpu", **SETTINGS), unscale=True)
    for step in INFINITE:
        assert all(torch.equal(one, other) for one, other in zip(found[step][2:], found[step - 1][2:], strict=True))
    assert not torch.equal(found[1][2], found[0][2])


def test_a_scaler_goes_on_from_torchs_state():
    theirs = torch.amp.GradScaler("cpu", **SETTINGS)
    walk(torch, theirs, steps=5)
    ours = optim.GradScaler("cpu")
    ours.load_state_dict(theirs.state_dict())
    assert ours.get_scale() == theirs.get_scale()


def test_a_scaler_that_is_off_does_nothing():
    kinds = ((nbgrad, optim.GradScaler), (torch, torch.amp.GradScaler))
    ours, theirs = (walk(lib, kind("cpu", enabled=False), steps=3) for lib, kind in kinds)
    assert [loss for loss, *_ in ours] == pytest.approx([loss for loss, *_ in theirs])
    assert [scale for _, scale, *_ in ours] == [1.0] * 3


def test_several_losses_have_one_factor():
    scaler = optim.GradScaler("cpu", init_scale=4.0)
    weight = nn.Parameter([1.0, 2.0])
    first, second = scaler.scale([weight.sum(), (weight * weight).sum()])
    assert [first.item(), second.item()] == [12.0, 20.0]
    (first + second).backward()
    assert weight.grad.tolist() == [12.0, 20.0]


def test_what_is_torchs_is_refused():
    scaler = optim.GradScaler("cpu")
    with pytest.raises(TypeError, match=r"losses of nbgrad, got torch\.FloatTensor: .* torch\.amp\.GradScaler"):
        scaler.scale(torch.ones(()))
    weight = nn.Parameter([1.0])
    scaler.scale(weight.sum()).backward()
    theirs = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    with pytest.raises(TypeError, match=r"optimizers of nbgrad, got torch\.optim\.sgd\.SGD"):
        scaler.step(theirs)


def test_errors_are_torchs():
    for lib, kind in ((nbgrad, optim.GradScaler), (torch, torch.amp.GradScaler)):
        scaler = kind("cpu")
        weight = lib.tensor([1.0], requires_grad=True)
        optimizer = lib.optim.SGD([weight], lr=0.1)
        with pytest.raises(AssertionError, match="your script did not use"):
            scaler.step(optimizer)
        scaler.scale(weight.sum()).backward()
        scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError, match="has already been called"):
            scaler.unscale_(optimizer)
