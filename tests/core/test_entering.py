"""Torch tensors that need gradients can enter our ops: where our backward ends, torch's own autograd goes on."""

import copy
import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest
import torch

import nbgrad
from nbgrad import from_torch, tensor
from tests.core.test_torch_graphs import Affine, product


def values(x: Any) -> Any:
    return x.data if isinstance(x, nbgrad.Tensor) else x.detach() if isinstance(x, torch.Tensor) else x


Leaf = Callable[..., Any]


def both(program: Callable[[Leaf, Leaf], list[Any]]) -> None:
    """Run a program with some leaves of torch and some of nbgrad, and with torch's leaves alone."""

    def theirs(*numbers: float) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.float64, requires_grad=True)

    def ours(*numbers: float) -> Any:
        return tensor(theirs(*numbers).detach(), requires_grad=True)

    for mine, yours in zip(program(theirs, ours), program(theirs, theirs), strict=True):
        if isinstance(yours, torch.Tensor):
            torch.testing.assert_close(values(mine), values(yours))
        else:
            assert mine == yours


def a_leaf(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    loss = (x * w * x).sin().sum()
    loss.backward()
    return [loss, x.grad, w.grad, type(x.grad) is torch.Tensor]


def a_result(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    y = x.exp() * x
    (y * w + torch.stack([w, y]).sum(0)).sum().backward()
    return [x.grad, w.grad]


def several_results(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, v, w = theirs(1.0, 2.0), theirs(0.5, -1.0), ours(3.0, 4.0)
    first, second = (x * v).unsqueeze(0).expand(2, 2).unbind()
    ((first * w).sum() + (second.sin() * w * w * first).sum()).backward()
    return [x.grad, v.grad, w.grad]


def again_and_again(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    for rate in (0.1, 0.2):
        (x * w).tanh().sum().backward()
        (x * x).sum().backward()
        with torch.no_grad():
            x -= rate * x.grad
    return [x, x.grad, w.grad]


def gradients_of_gradients(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    y = x**3
    (first,) = torch.autograd.grad((y * w).sin().sum(), x, create_graph=True)
    (first**2).sum().backward()
    return [first, x.grad, w.grad]


def of_a_result(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    y = x**3
    y.retain_grad()
    out = (y * w).sin().sum()
    found = torch.autograd.grad(out, [y, x, w], retain_graph=True)
    out.backward()
    return [*found, y.grad, x.grad]


def some_inputs(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, v, w = theirs(1.0, 2.0), theirs(1.0, 1.0), ours(3.0, 4.0)
    out = (x * v * w).sum()
    out.backward(inputs=[x], retain_graph=True)
    torch.autograd.backward([out], inputs=x)
    return [x.grad, v.grad is None, w.grad is None]


def changed_in_place(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    y = x * 2
    first = y + w
    y.mul_(x)
    (first + y * w).sum().backward()
    return [x.grad, w.grad]


def a_new_memory(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    (x * w).sum().backward()
    x.data = torch.tensor([5.0, 6.0], dtype=torch.float64)
    (x * w).sum().backward()
    return [x.grad, w.grad]


def unrecorded(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    y = x * 2
    with torch.no_grad():
        constant = x * w + y * w
    (constant * x + y * w).sum().backward()
    return [constant.requires_grad, x.grad, w.grad]


def a_module_of_torchs(theirs: Leaf, ours: Leaf) -> list[Any]:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LayerNorm(3), torch.nn.Tanh()).double()
    w = ours(3.0, 4.0)
    net(w[None]).sum().backward()
    return [w.grad, *(one.grad for one in net.parameters())]


def functions(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    (sum(one.sum() for one in Affine.apply(w, x)) + product(w, x).sum()).backward()
    return [x.grad, w.grad]


def an_unused_leaf(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, v, w = theirs(1.0, 2.0), theirs(1.0, 1.0), ours(3.0, 4.0)
    found = torch.autograd.grad((x * w).sum(), [v, x], allow_unused=True)
    return [found[0] is None, found[1]]


def in_place(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    y = w * 1
    y.add_(x * 2).mul_(x)
    y[0] = x[1] * 3
    z = w * 2
    z.copy_(x)
    (y * y + z).sum().backward()
    return [y, x.grad, w.grad]


def where_a_backward_starts(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, v, w = theirs(1.0, 2.0), theirs(0.5, 3.0), ours(3.0, 4.0)
    (first,) = torch.autograd.grad(w * w, w, grad_outputs=x, create_graph=True)
    (first * first).sum().backward()
    (w * w).backward(v, retain_graph=True)
    return [first, x.grad, v.grad is None, w.grad]


def inside_a_checkpoint(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    y = x * 2

    def part(given: Any) -> Any:
        return (given * w).sin() * x

    once = torch.utils.checkpoint.checkpoint(part, y, use_reentrant=False)
    own = nbgrad.checkpoint if isinstance(w, nbgrad.Tensor) else lambda run, given: run(given)
    (once + own(part, y)).sum().backward()
    return [x.grad, w.grad]


def a_function_of_ours(theirs: Leaf, ours: Leaf) -> list[Any]:
    x, w = theirs(1.0, 2.0), ours(3.0, 4.0)
    base: Any = nbgrad.Function if isinstance(w, nbgrad.Tensor) else torch.autograd.Function

    class Product(base):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved_tensors
            return g * b, g * a

    Product.apply(x, w).sum().backward()
    return [x.grad, w.grad]


@pytest.mark.parametrize(
    "program",
    [
        *(a_leaf, a_result, several_results, again_and_again, gradients_of_gradients, of_a_result, some_inputs),
        *(in_place, where_a_backward_starts, inside_a_checkpoint, a_function_of_ours),
        *(changed_in_place, a_new_memory, unrecorded, a_module_of_torchs, functions, an_unused_leaf),
    ],
)
def test_the_gradients_are_torchs(program: Any) -> None:
    both(program)


def test_what_would_be_another_gradient_is_refused() -> None:
    x, w = torch.ones(2, requires_grad=True), tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    out = ((y * 3) * w).sum() + (y * w).sum()
    with pytest.raises(RuntimeError, match=r"^the gradient of a torch tensor of shape \(2,\) is not known"):
        torch.autograd.grad(out, y, retain_graph=True)
    with pytest.raises(RuntimeError, match=r"inputs\[0\] is a result of torch's own autograd"):
        out.backward(inputs=[y], retain_graph=True)
    x.register_hook(lambda gradient: gradient * 2)
    with pytest.raises(RuntimeError, match="has hooks of torch's engine"):
        out.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="has hooks of torch's engine"):
        torch.autograd.grad(out, x)
    with pytest.raises(RuntimeError, match=r"a transform of torch.func.*use nbgrad.func"):
        torch.func.grad(lambda one: (one * w).sum())(torch.ones(2))
    with pytest.raises(RuntimeError, match=r"mul\(\) got a torch tensor that requires grad.*a program"):
        nbgrad.trace(lambda t: t * y, w)


def test_nothing_is_kept_alive() -> None:
    x, w = torch.ones(2, requires_grad=True), tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    (y * w).sum().backward()
    seen = [ref(x), ref(y)]
    del x, y
    gc.collect()
    assert [one() for one in seen] == [None, None]


def test_the_picture_has_the_leaf_and_what_torch_recorded() -> None:
    x, w = torch.ones(2, requires_grad=True), tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        (x.exp() * w).sum().backward()
    assert "torch_history" in [one.op.name for one in graph.records if one.op is not None]


def test_explanations_of_a_converted_model_are_those_of_torchs() -> None:
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)).double()
    ours = from_torch(copy.deepcopy(theirs))
    x = torch.rand(4, 3, dtype=torch.float64)

    def explained(net: Any) -> list[torch.Tensor]:
        net.zero_grad()
        steps = torch.cat([x * 0.5, x]).requires_grad_()
        (found,) = torch.autograd.grad(torch.unbind(net(steps)[:, 1]), steps)
        (net(x * found[:4].detach()).square().mean() + found.square().mean()).backward()
        return [found, *(one.grad for one in net.parameters())]

    for mine, yours in zip(explained(ours), explained(theirs), strict=True):
        torch.testing.assert_close(values(mine), values(yours))
