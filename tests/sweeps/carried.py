"""Random programs with views and changes in place: in torch.fx, and in pages."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch

import nbgrad
from nbgrad.symbolic import trace
from tests.core.symbolic.test_page import NODE, compare

CASES = 6

OPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y * 0.5,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y * y + 1),
    "relu": lambda x, y: x.relu(),
    "tanh": lambda x, y: x.tanh() - y.sigmoid(),
    "exp": lambda x, y: (-(x**2)).exp(),
    "where": lambda x, y: nbgrad.where(x > y, x, y * 0.3),
    "clamp": lambda x, y: x.clamp(-0.7, 0.9),
    "maximum": nbgrad.maximum,
    "matmul": lambda x, y: (x @ y.T) @ x,
    "softmax": lambda x, y: x.softmax(-1) * y.log_softmax(0),
    "norm": lambda x, y: nbgrad.nn.functional.layer_norm(x, (x.shape[-1],)) + y,
    "gelu": lambda x, y: nbgrad.nn.functional.gelu(x),
    "mean": lambda x, y: x.mean(0, keepdim=True) + y,
    "var": lambda x, y: x.var(1, keepdim=True) * y,
    "amax": lambda x, y: x.amax(1, keepdim=True) - y,
    "flip": lambda x, y: x.flip(0) + y.roll(1, 1),
    "cat": lambda x, y: nbgrad.cat([x, y], 1)[:, ::2],
    "turn": lambda x, y: x.T.reshape(x.shape) + y,
    "split": lambda x, y: x.split(2, 1)[0].repeat(1, 2) + y,
    "gather": lambda x, y: x.gather(1, (y > 0).long()),
    "cumsum": lambda x, y: x.cumsum(0) * 0.3 + y,
    "expand": lambda x, y: x[:1].expand(3, 4) * y,
    "index": lambda x, y: x[[2, 0, 0]] + y,
}

CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x.add_(y.detach(), alpha=0.5),
    "row": lambda x, y: x[0].mul_(0.5),
    "column": lambda x, y: x[:, 1:3].copy_(y.detach()[:, :2]),
    "T": lambda x, y: x.T.sub_(0.25),
}


def program_of(random: Random) -> tuple[Callable[..., Any], str]:
    """A function of two matrices and a parameter, and what it does."""
    parameter = nbgrad.tensor(torch.randn(3, 4, dtype=torch.float64), requires_grad=True)
    plan = []
    for _ in range(random.randint(2, 8)):
        table = CHANGES if random.random() < 0.2 else OPS
        plan.append((random.choice(list(table)), random.random(), random.random()))

    def function(x: Any, y: Any) -> Any:
        live = [x, y, parameter]
        for name, one, other in plan:
            a, b = live[int(one * len(live))], live[int(other * len(live))]
            if name in OPS:
                live.append(OPS[name](a, b))
            else:
                made = a * 1
                CHANGES[name](made, b)
                live.append(made)
        return sum((one.sin().sum() for one in live[2:]), start=(x * y * parameter).mean()), live[-1]

    return function, ", ".join(name for name, *_ in plan)


def check(random: Random) -> None:
    """Run the gradient of a random program in all these forms, and compare."""
    torch.manual_seed(random.randrange(2**32))
    function, text = program_of(random)
    x, y = (nbgrad.tensor(torch.randn(3, 4, dtype=torch.float64), requires_grad=True) for _ in range(2))
    program = trace(function, x, y).grad()
    if random.random() < 0.5:
        program = program.optimize()
    raw = [x.data, y.data]
    expected = program.run(raw, program.captured_data())
    graphed = program.to_fx()(*raw)
    assert all(torch.equal(one, other) for one, other in zip(graphed, expected, strict=True)), text
    if NODE is not None:
        # The loss sums up a hundred sines, which may cancel, and the sine of a large number has fewer right digits.
        largest = max(float(one.abs().max()) for one in expected if one.is_floating_point() and one.numel())
        with tempfile.TemporaryDirectory() as folder:
            compare(program, (x, y), Path(folder) / "it", terms=10.0 * max(1.0, largest))
