"""Programs for engines: each takes an engine and returns the result, from numbers that are drawn once."""

import numpy as np

_random = np.random.default_rng(7)
_shapes = {"x": (4, 3), "w": (3, 5), "b": (5,), "v": (5, 2), "s": (3, 3), "r": (3, 3), "q": (2, 3, 4), "c": (3, 3, 3)}
_numbers = {name: _random.normal(size=shape) for name, shape in _shapes.items()}


def _leaves(engine, *names):
    return [engine.leaf(_numbers[name], name) for name in names]


def neuron(e):
    x1, x2, w1, w2, b = (
        e.leaf(n, name) for n, name in zip((2.0, -0.7, -3.0, 1.3, 6.5), ("x1", "x2", "w1", "w2", "b"), strict=True)
    )
    return (x1 * w1 + x2 * w2 + b).tanh()


def shared(e):
    a, b = e.leaf(1.7, "a"), e.leaf(-0.6, "b")
    c = a * b
    d = a + c
    return d * c + a


def polynomial(e):
    t = e.leaf(1.3, "t")
    return t**3 - t * e.leaf(2.5) + t**2 / e.leaf(1.9)


def square(e):
    t = e.leaf(1.7, "t")
    return t * t


def mixed(e):
    a, b = e.leaf(0.8, "a"), e.leaf(2.2, "b")
    c = (a * b).exp() - b.log()
    d = c / (a + b)
    return d.sigmoid() * a.relu() + (-b).relu() + d.sqrt()


def quotient(e):
    a, b = e.leaf(0.8, "a"), e.leaf(2.2, "b")
    return (a / b) * b.exp() / a


def layer(e):
    x, w, b = _leaves(e, "x", "w", "b")
    return (x @ w + b).tanh().sum()


def network(e):
    x, w, b, v = _leaves(e, "x", "w", "b", "v")
    h = (x @ w + b).relu()
    return ((h @ v) ** 2).mean()


def classifier(e):
    x, w, b = _leaves(e, "x", "w", "b")
    logits = x @ w + b
    return -(logits.log_softmax(axis=-1).getitem(index=(np.arange(4), np.array([0, 2, 1, 4])))).mean()


def attention(e):
    s, r, x = _leaves(e, "s", "r", "x")
    scores = (x @ s) @ (x @ r).transpose(axes=(1, 0))
    return (scores.softmax(axis=-1) @ x).sum(axis=0).sin().sum()


def squares(e):
    s, r = _leaves(e, "s", "r")
    return ((s @ r).tanh() * (r @ s)).mean()


def reductions(e):
    x, b = _leaves(e, "x", "b")
    m = x.mean(axis=1, keepdims=True)
    return ((x - m) ** 2).sum(axis=0).log().sum() + b.max() * x.mean()


def shapes(e):
    (q,) = _leaves(e, "q")
    p = q.transpose(axes=(1, 2, 0))
    return (p.reshape(shape=(6, 4)).sin().sum(axis=1) * e.leaf(np.arange(1.0, 7.0))).sum()


def cube(e):
    (c,) = _leaves(e, "c")
    return (c.transpose(axes=(1, 2, 0)).sin() * c).sum()


def batched(e):
    q, s = _leaves(e, "q", "s")
    return (s @ q).tanh().sum()


def normalized(e):
    x, _ = _leaves(e, "x", "b")
    gain = e.leaf(_numbers["s"][0], "gain")
    centred = x - x.mean(axis=0)
    variance = (centred * centred).mean(axis=0)
    return ((centred / (variance + e.leaf(1e-5)).sqrt()) * gain).sigmoid().sum()


def residual(e):
    x, s = _leaves(e, "x", "s")
    h = x + (x @ s).tanh()
    k = h + (h @ s).tanh()
    return (k * k).mean()


PROGRAMS = (
    neuron, shared, polynomial, square, mixed, quotient, layer, network, classifier, attention, squares, reductions,
    shapes, cube, batched, normalized, residual,
)  # fmt: skip
