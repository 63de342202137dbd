"""Random programs on torch's and nbgrad's tensors: both kinds get the same gradients as with torch's tensors alone.

Some leaves are torch's and some are nbgrad's, as in a half-converted program. A result of torch's tensors alone stays
torch's until it meets one of nbgrad's. A backward of any order goes through both engines, and changes in place come in
between.
"""

from random import Random
from typing import Any

import torch

import nbgrad

CASES = 150
WORDS = "the gradient of a torch tensor"
"""The beginning of the error that is allowed for the gradients of torch's results."""


def _unary(random: Random, x: Any) -> Any:
    return random.choice([torch.sin, torch.tanh, lambda x: x * 0.5 + 1, lambda x: x.t(), lambda x: x.detach() + x])(x)


def _binary(random: Random, x: Any, y: Any) -> Any:
    kinds = [
        torch.mul,
        torch.add,
        torch.matmul,
        lambda x, y: torch.cat([x, y])[1:4],
        lambda x, y: torch.where(y > 0, x, y),
    ]
    return random.choice(kinds)(x, y)


class _Run:
    """One run of a program; ``ours`` says which leaves are nbgrad's."""

    def __init__(self, seed: int, ours: list[bool]) -> None:
        self.random = Random(seed)
        torch.manual_seed(seed)
        self.leaves: list[Any] = []
        for mine in ours:
            value = torch.randn(3, 3, dtype=torch.float64)
            self.leaves.append(nbgrad.tensor(value, requires_grad=True) if mine else value.requires_grad_())
        self.values: list[Any] = list(self.leaves)
        self.found: list[Any] = []

    def step(self) -> None:
        """Compute one more value, or change one in place."""
        random = self.random
        kind, x, y = random.random(), *random.choices(self.values, k=2)
        if kind < 0.35:
            self.values.append(_unary(random, x))
        elif kind < 0.8:
            self.values.append(_binary(random, x, y))
        elif kind < 0.87:
            self.values.extend(torch.stack([x, y * 2]).unbind())
        elif kind < 0.94:
            change = random.choice([lambda one: one.mul_(0.5), lambda one: one.add_(1.0)])
            made = x * 1
            used = made + y  # this op saves no tensor that changes later
            self.values += [change(made), used] if random.random() < 0.3 else [change(made)]
        else:
            with torch.no_grad():
                self.values.append((x + y).detach())

    def end(self) -> Any:
        """A number that depends on our tensors and on torch's."""
        total: Any = self.leaves[0].sum()
        for one in self.random.sample(self.values, min(4, len(self.values))):
            total = total + (one.tanh() ** 2).sum()
        return total

    def run(self) -> list[Any]:
        """The gradients, and what else was asked for."""
        random = self.random
        for _ in range(random.randint(1, 10)):
            self.step()
        for _ in range(random.randint(1, 2)):
            loss = self.end()
            way = random.choice(["backward", "grad", "penalty", "inputs", "result", "result"])
            wanted = random.sample(self.leaves, random.randint(1, len(self.leaves)))
            if way == "backward":
                loss.backward(retain_graph=True)
            elif way == "inputs":
                loss.backward(retain_graph=True, inputs=wanted)
            elif way == "result":
                self.result(loss, random.choice(self.values[len(self.leaves) :] or self.values))
            else:
                twice = way == "penalty"
                gradients = torch.autograd.grad(loss, wanted, retain_graph=True, create_graph=twice, allow_unused=True)
                self.found += gradients
                if twice:
                    self.end_of(gradients)
            if random.random() < 0.3:
                with torch.no_grad():
                    for leaf in self.leaves:
                        leaf.mul_(0.9)
                self.values = list(self.leaves)
        return [raw(one) for one in (*self.found, *(leaf.grad for leaf in self.leaves))]

    def end_of(self, gradients: Any) -> None:
        known = [one for one in gradients if one is not None and one.requires_grad]
        if known:
            sum(((one**2).sum() for one in known), self.leaves[0].sum() * 0).backward(retain_graph=True)

    def result(self, loss: Any, value: Any) -> None:
        """Ask for the gradient of a result. It may be refused if the result is torch's."""
        try:
            self.found += torch.autograd.grad(loss, [value], retain_graph=True, allow_unused=True)
        except (RuntimeError, TypeError) as error:
            refused = str(error).startswith(WORDS)
            if not refused and value.requires_grad:
                raise
            self.found.append(REFUSED if refused else None)


REFUSED = "refused"


def raw(value: Any) -> Any:
    """A torch tensor."""
    return value.data if isinstance(value, nbgrad.Tensor) else value.detach() if hasattr(value, "detach") else value


def check(random: Random) -> None:
    """One program, with torch's tensors alone and with both."""
    seed = random.getrandbits(31)
    ours = [True, *(random.random() < 0.4 for _ in range(random.randint(1, 3)))]
    expected = _Run(seed, [False] * len(ours)).run()
    found = _Run(seed, ours).run()
    assert len(found) == len(expected)
    for place, (mine, yours) in enumerate(zip(found, expected, strict=True)):
        if isinstance(mine, str):
            continue
        assert (mine is None) == (yours is None), f"number {place}: {mine} for {yours}, with ours {ours}"
        if yours is not None:
            torch.testing.assert_close(
                mine, yours, rtol=1e-9, atol=1e-11, msg=lambda text, at=place: f"number {at}, ours {ours}: {text}"
            )
