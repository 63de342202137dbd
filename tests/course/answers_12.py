"""Answers to the exercises of lesson 12, right ones in several forms and the usual wrong ones."""

from typing import Any

import torch

import nbgrad
from nbgrad import nn

INF = float("inf")


def attention(q: Any, k: Any, v: Any, *, size: float | None = None, dim: int = 1) -> Any:
    return (q @ k.T / (size or q.shape[1] ** 0.5)).softmax(dim) @ v


def causal(scores: Any, *, fill: float = -INF, diagonal: int = 1) -> Any:
    return scores.masked_fill(future(scores, diagonal), fill).softmax(1)


def future(scores: Any, diagonal: int = 1) -> Any:
    return nbgrad.ones(*scores.shape).triu(diagonal).bool()


def pairs(codes: Any, length: int, *, shift: int = 1, more: int = 0) -> Any:
    places = range(len(codes) - length + more)
    inputs = [codes[at : at + length] for at in places]
    return nbgrad.stack(inputs), nbgrad.stack([codes[at + shift : at + shift + length] for at in places])


def size(width: int, power: float = 0.5, *, squares: bool = True) -> Any:
    nbgrad.manual_seed(3)
    scores = (nbgrad.randn(30_000, width) * nbgrad.randn(30_000, width)).sum(1)
    return (scores**2).mean().item() ** power if squares else scores.mean().item()


def learn(model: Any, inputs: Any, targets: Any, *, lr: float = 0.05, steps: int = 150, flat: bool = True) -> None:
    optimizer = nbgrad.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        scores = model(inputs)
        if flat:
            scores, targets = scores.reshape(-1, scores.shape[-1]), targets.reshape(-1)
        loss = nn.functional.cross_entropy(scores, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def forgets_step(model: Any, inputs: Any, targets: Any) -> None:
    for _ in range(5):
        nn.functional.cross_entropy(model(inputs).reshape(-1, 5), targets.reshape(-1)).backward()


def never_clears(model: Any, inputs: Any, targets: Any) -> None:
    optimizer = nbgrad.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(300):
        nn.functional.cross_entropy(model(inputs).reshape(-1, 5), targets.reshape(-1)).backward()
        optimizer.step()


def softmax_twice(model: Any, inputs: Any, targets: Any) -> None:
    learn(nn.Sequential(model, nn.Softmax(-1)), inputs, targets)


def climbs(model: Any, inputs: Any, targets: Any) -> None:
    for _ in range(20):
        loss = nn.functional.cross_entropy(model(inputs).reshape(-1, 5), targets.reshape(-1))
        with nbgrad.no_grad():
            for one in model.parameters():
                one += 0.1 * nbgrad.grad(loss, [one], retain_graph=True)[0]


RIGHT: dict[str, list[Any]] = {
    "12.1": [
        attention,
        nn.functional.scaled_dot_product_attention,
        lambda q, k, v: attention(*(torch.from_numpy(one.numpy()) for one in (q, k, v))),
    ],
    "12.3": [causal, lambda scores: causal(scores, fill=-1e30), lambda scores: causal(scores).numpy()],
    "12.2": [lambda width: width**0.5, size, lambda width: nbgrad.tensor(float(width)).sqrt()],
    "12.5": [learn, lambda *three: learn(*three, lr=0.01, steps=400) or 0.0],
    "12.4": [pairs, lambda codes, length: [one.tolist() for one in pairs(codes, length)]],
}

WRONG: dict[str, list[tuple[Any, str, str]]] = {
    "12.1": [
        (lambda q, k, v: attention(q, k, v, size=1), "factor", "the scores are not divided"),
        (lambda q, k, v: attention(q, k, v, size=2**0.5), "factor", "2 is the width of the vectors in the example"),
        (lambda q, k, v: attention(q, k, v, size=q.shape[1]), "factor", "its root is enough"),
        (lambda q, k, v: attention(q, k, v, size=len(q) ** 0.5), "factor", "by the root of the length"),
        (lambda q, k, v: attention(q, k, v, dim=0), "transposed", "softmax goes over the wrong dimension"),
        (lambda q, k, v: attention(k, q, v), "transposed", "q and k have changed places"),
        (lambda q, k, v: attention(q, v, k), "order", "k and v have changed places"),
        (lambda q, k, v: attention(q, k, k), "numbers", "the weights meet k again"),
        (lambda q, k, v: q @ k.T / q.shape[1] ** 0.5 @ v, "numbers", "softmax is missing"),
        (lambda q, k, v: (q @ k.T / q.shape[1] ** 0.5).softmax(1), "shape", "these are the weights"),
        (lambda q, k, v: q @ k, "raised", "raised RuntimeError"),
        (lambda q, k, v: attention(q, k, v, size=1 / q.shape[1] ** 0.5), "factor", "the scores are multiplied"),
        (lambda q, k, v: attention(q, k, v / q.shape[1] ** 0.5, size=1), "factor", "the weights are divided"),
        (lambda q, k, v: causal(q @ k.T / q.shape[1] ** 0.5) @ v, "row", "it masks: here each row of q"),
        (
            lambda q, k, v: (q @ k.T / q.shape[1] ** 0.5).softmax(1).detach() @ v,
            "zero",
            "no right gradient reaches q, k: detach",
        ),
        (lambda q, k, v: attention(q, k.detach(), v), "zero", "no right gradient reaches k: detach"),
        (lambda q, k, v: attention(q, k, v).detach(), "zero", "no right gradient reaches q, k, v: detach"),
    ],
    "12.3": [
        (lambda scores: scores.softmax(1) * ~future(scores), "factor", "it masks after softmax"),
        (lambda scores: causal(scores, fill=0.0), "numbers", "a score of 0 is not forbidden"),
        (lambda scores: causal(scores, fill=-5.0), "numbers", "the columns after i still get some weight"),
        (lambda scores: scores.masked_fill(future(scores).T, -INF).softmax(1), "transposed", "it forbids the past"),
        (lambda scores: causal(scores, diagonal=0), "not finite", "the first row is NaN"),
        (lambda scores: scores.softmax(1), "offset", "nothing is masked"),
        (lambda scores: causal(scores, fill=INF), "not finite", "each row with a forbidden column is NaN"),
        (lambda scores: (scores * -INF * future(scores)).softmax(1), "not finite", "every row is NaN, as of 0 times"),
        (lambda scores: causal(scores, diagonal=2), "shifted", "each row still looks one column ahead"),
        (lambda scores: scores.exp() * ~future(scores), "factor", "the rest of a row has not the sum 1"),
        (lambda scores: scores.masked_fill(future(scores), -INF), "numbers", "softmax is missing"),
    ],
    "12.2": [
        (lambda width: width, "factor", "that is the mean of the squares"),
        (lambda width: size(width, power=1.0), "factor", "that is the mean of the squares"),
        (lambda width: 1.0, "offset", "that is the size of one number"),
        (lambda width: size(width, squares=False), "zero", "positive and negative scores cancel"),
        (lambda width: width**-0.5, "order", "that is the size of the mean of the products"),
        (lambda width: -(width**0.5), "sign", "the sign is wrong"),
        (lambda: 1.0, "raised", "raised TypeError"),
    ],
    "12.5": [
        (never_clears, "numbers", "only by luck: the gradients of old steps are never cleared"),
        (softmax_twice, "numbers", "only by luck: cross_entropy gets probabilities"),
        (forgets_step, "zero", "the parameters of the model are those of the beginning"),
        (lambda *three: learn(*three, steps=10, lr=0.01), "factor", "Take more steps"),
        (climbs, "sign", "the loss went up"),
        (lambda model, inputs, targets: learn(model, inputs, inputs), "sign", "does each place get its own target"),
        (lambda *three: learn(*three, flat=False), "raised", "raised"),
        (lambda model: model.eval(), "raised", "raised TypeError"),
        (3, "type", "a function is expected, learn(model, inputs, targets)"),
    ],
    "12.4": [
        (lambda codes, length: pairs(codes, length, shift=0), "shifted", "they are the inputs"),
        (
            lambda codes, length: (pairs(codes, length)[0], pairs(codes, length)[1][:, -1]),
            "shape",
            "only the code after the window is there",
        ),
        (lambda codes, length: pairs(codes, length, shift=0, more=1), "shape", "there is one row too many"),
        (lambda codes, length: pairs(codes, length)[0], "type", "has to give two tensors"),
        (lambda codes, length: pairs(codes, length)[::-1], "order", "they are the targets: first the inputs"),
        (lambda codes, length: pairs(codes.float(), length), "dtype", "the codes are right, but they are floating"),
        (
            lambda codes, length: [pairs(codes, length)[0], pairs(codes, length)[1].double().tolist()],
            "dtype",
            "the targets: the codes are right, but they are floating",
        ),
        (lambda codes: codes, "raised", "raised TypeError"),
    ],
}
