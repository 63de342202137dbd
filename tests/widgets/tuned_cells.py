"""More networks as people write them, on which the picture is improved: each has shown something that others do not.

They are written as those of ``cells``.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812  # as people write it
from torch import nn


def shared_encoder() -> None:
    """An encoder that is called four times: gradients come back to folded boxes that stand close together."""
    encoder = nn.Sequential(nn.Linear(24, 48), nn.GELU(), nn.Linear(48, 16))
    projector = nn.Linear(16, 8)
    anchor, positive, negative, other = torch.randn(4, 20, 24)
    kept: list[torch.Tensor] = []
    encoder.register_forward_hook(lambda _module, _taken, made: kept.append(made))
    projector.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
    # %%
    za, zp, zn, zo = (F.normalize(projector(encoder(one)), dim=1) for one in (anchor, positive, negative, other))
    similarities = torch.stack([(za * one).sum(dim=1) for one in (zp, zn, zo)], dim=1) / 0.07
    contrastive = F.cross_entropy(similarities, torch.zeros(20, dtype=torch.long))
    loss = contrastive + 0.01 * sum(hidden.square().mean() for hidden in kept)
    loss.backward()


def kalman_filter() -> None:
    """Matrices through three steps: names of many ops on few lines, and no module."""
    transition = torch.tensor([[1.0, 0.1], [0.0, 1.0]], requires_grad=True)
    log_q, log_r = torch.zeros(2, requires_grad=True), torch.zeros(1, requires_grad=True)
    seen_through = torch.tensor([[1.0, 0.0]])
    seen = torch.randn(3, 1)
    # %%
    mean, spread = torch.zeros(2), torch.eye(2)
    loss = torch.zeros(())
    for z in seen:
        mean, spread = transition @ mean, transition @ spread @ transition.T + torch.diag(log_q.exp())
        noise = seen_through @ spread @ seen_through.T + log_r.exp()
        gain = torch.linalg.solve(noise, seen_through @ spread).T
        error = z - seen_through @ mean
        loss = loss + 0.5 * (error @ torch.linalg.solve(noise, error) + torch.logdet(noise))
        mean, spread = mean + gain @ error, spread - gain @ seen_through @ spread
    loss.backward()


def scalar_program() -> None:
    """Numbers alone: each box says its value, also in one line, and a what-if changes them all."""
    a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(-3.0, requires_grad=True)
    c, f = torch.tensor(10.0, requires_grad=True), torch.tensor(-2.0, requires_grad=True)
    # %%
    e = a * b
    d = e + c
    g = d * f
    loss = (g - d).tanh() / (1 + e.exp()) + (a * b * c * f).sin()
    loss.backward()


def spectral_filter() -> None:
    """Few numbers, which each box writes: gradients of two lines, of which a small box has room for a part."""
    taps = torch.randn(4, 2, dtype=torch.complex64, requires_grad=True)
    signal = torch.randn(3, 6)
    # %%
    power = (torch.fft.rfft(signal) @ taps).abs()
    loss = power.square().mean()
    loss.backward()


def unrolled_tasks() -> None:
    """Three tasks with a gradient step in each: folded boxes that stand for two kinds of ops and a derivative."""
    w1, b1 = (torch.randn(30, 1) * 0.5).requires_grad_(), torch.zeros(30, requires_grad=True)
    w2, b2 = (torch.randn(1, 30) * 0.1).requires_grad_(), torch.zeros(1, requires_grad=True)
    sets = [(torch.randn(8, 1), torch.randn(8, 1)) for _ in range(3)]
    # %%
    loss = torch.zeros(())
    for x, y in sets:
        fit = F.mse_loss(F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2), y)
        slopes = torch.autograd.grad(fit, (w1, b1, w2, b2), create_graph=True)
        v1, c1, v2, c2 = (weight - 0.02 * slope for weight, slope in zip((w1, b1, w2, b2), slopes, strict=True))
        loss = loss + F.mse_loss(F.linear(torch.tanh(F.linear(-x, v1, c1)), v2, c2), y)
    loss.backward()


def captions() -> None:
    """An encoder, and a cell for each word: gradients of two inputs come back beside each other."""
    encoder = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 7 * 7, 32))
    cell, embed, head = nn.LSTMCell(16, 32), nn.Embedding(20, 16), nn.Linear(32, 20)
    images, words = torch.randn(4, 3, 16, 16), torch.randint(0, 20, (4, 6))
    # %%
    hidden = encoder(images)
    state = torch.tanh(hidden)
    losses = []
    for at in range(5):
        hidden, state = cell(embed(words[:, at]), (hidden, state))
        losses.append(F.cross_entropy(head(hidden), words[:, at + 1]))
    loss = torch.stack(losses).mean()
    loss.backward()


def triplet() -> None:
    """One network for three inputs: many sums lead from two folded calls to a third one."""
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 10))
    a, p, n = torch.randn(3, 8, 1, 8, 8)
    # %%
    ea, ep, en = net(a), net(p), net(n)
    loss = F.triplet_margin_loss(ea, ep, en) + 1e-3 * (ea.square().sum() + ep.square().sum() + en.square().sum())
    loss.backward()


def external_memory() -> None:
    """A memory that is written in each step: sections that hand on many tensors."""
    controller, read, write = nn.GRUCell(8 + 6, 16), nn.Linear(16, 6), nn.Linear(16, 12)
    out = nn.Linear(16, 8)
    xs, ys = torch.randn(5, 3, 8), torch.randn(5, 3, 8)
    # %%
    memory, state, got, loss = torch.zeros(3, 4, 6), torch.zeros(3, 16), torch.zeros(3, 6), torch.zeros(())
    for x, y in zip(xs, ys, strict=True):
        state = controller(torch.cat([x, got], 1), state)
        key, new = write(state).chunk(2, 1)
        weights = (memory * key[:, None]).sum(-1).softmax(-1)
        memory = memory + weights[..., None] * new[:, None]
        got = (memory * read(state)[:, None].softmax(-1)).sum(1)
        loss = loss + F.mse_loss(out(state), y)
    loss.backward()


def skipping_cell() -> None:
    """A loop of six iterations, every second of which takes another branch."""
    w, u, v = (torch.randn(6, 6, requires_grad=True) for _ in range(3))
    xs = torch.randn(6, 3, 6)
    # %%
    h, kept = torch.zeros(3, 6), []
    for at, x in enumerate(xs):
        h = torch.tanh(x @ w + h @ u)
        if at % 2:
            kept.append(torch.sigmoid(h @ v) * h)
    loss = torch.stack(kept).pow(2).mean() + sum(one.abs().sum() for one in (w, u, v)) * 1e-3
    loss.backward()


TUNED: tuple[Callable[[], None], ...] = (
    *(shared_encoder, kalman_filter, scalar_program),
    *(spectral_filter, unrolled_tasks),
    *(captions, triplet, external_memory, skipping_cell),
)
