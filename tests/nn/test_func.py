"""``nbgrad.func.functional_call`` next to torch's."""

from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from tests.core import rows


def net(lib: Any) -> Any:
    torch.manual_seed(0)
    made = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4), lib.nn.Linear(4, 4), lib.nn.Linear(4, 4))
    made[3].weight = made[2].weight
    return made.double()


def call(lib: Any) -> Any:
    return (torch if lib is torch else nbgrad).func.functional_call


def inner_steps(lib: Any) -> list[Any]:
    """Two steps of an inner loop. Then the gradient of the loss with respect to the weights before these steps."""
    model = net(lib)
    grad = torch.autograd.grad if lib is torch else nbgrad.grad
    x = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3)
    x = x if lib is torch else nbgrad.tensor(x)
    fast = dict(model.named_parameters())
    for _ in range(2):
        loss = (call(lib)(model, fast, (x,)) ** 2).mean()
        slopes = grad(loss, list(fast.values()), create_graph=True)
        fast = {name: value - 0.1 * slope for (name, value), slope in zip(fast.items(), slopes, strict=True)}
    (call(lib)(model, fast, x) ** 2).mean().backward()
    kept = [model[1].running_mean, model[1].num_batches_tracked]
    return [*(one.grad for one in model.parameters()), *(one * 1 for one in kept), *fast.values()]


def test_a_gradient_through_an_inner_loop_is_torchs() -> None:
    for mine, yours in zip(inner_steps(nbgrad), inner_steps(torch), strict=True):
        rows.close(mine.data, yours.detach(), "after the inner loop")


def test_buffers_and_several_dicts() -> None:
    def run(lib: Any) -> Any:
        model = net(lib).eval()
        ones = lib.ones(4, dtype=torch.float64)
        dicts = [{"1.running_mean": ones}, {"0.bias": ones * 2, "2.weight": lib.eye(4, dtype=torch.float64)}]
        return call(lib)(model, dicts, kwargs={"input": lib.ones(2, 3, dtype=torch.float64)})

    rows.close(run(nbgrad).data, run(torch).detach(), "with other buffers")


def test_the_module_has_its_own_again_also_after_an_error() -> None:
    model = net(nbgrad)
    before = dict(model.named_parameters())
    with pytest.raises(RuntimeError, match="expected last dimension 3, got 5"):
        nbgrad.func.functional_call(model, {"0.weight": nbgrad.ones(4, 3)}, nbgrad.ones(2, 5))
    after = dict(model.named_parameters())
    assert before.keys() == after.keys()
    assert all(before[name] is after[name] for name in before)


@pytest.mark.parametrize(
    ("given", "settings", "error", "words"),
    [
        ({"7.weight": nbgrad.ones(1)}, {}, RuntimeError, "no parameter or buffer '7.weight'.*0.weight"),
        ([{"0.bias": nbgrad.ones(4)}, {"0.bias": nbgrad.ones(4)}], {}, ValueError, "'0.bias' is in two"),
        ({"0.bias": nbgrad.ones(4)}, {"strict": True}, RuntimeError, "'0.weight' is not given"),
        (
            {"2.weight": nbgrad.ones(4, 4), "3.weight": nbgrad.zeros(4, 4)},
            {},
            RuntimeError,
            "and another path lead to the same parameter.*tie_weights=False",
        ),
    ],
)
def test_misuse_says_what_to_do(given: Any, settings: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        nbgrad.func.functional_call(net(nbgrad), given, nbgrad.ones(2, 3), **settings)


def test_a_module_of_torchs_is_refused() -> None:
    with pytest.raises(TypeError, match="from_torch"):
        nbgrad.func.functional_call(torch.nn.Linear(2, 2), {}, nbgrad.ones(1, 2))  # type: ignore[arg-type]
    assert isinstance(nn.Linear(2, 2), nn.Module)
