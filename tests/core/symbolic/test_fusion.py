"""Steps of programs become loop nests: which ones, and that nothing else changes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.symbolic import fusion
from nbgrad.core.symbolic.ir import Listing
from nbgrad.core.symbolic.nest import interpreter
from nbgrad.core.symbolic.nest.interpreter import Run
from nbgrad.core.symbolic.nest.ir import Kernel, KernelError
from nbgrad.core.symbolic.nest.schedule import schedule

needs_interpreter = pytest.mark.skipif(not interpreter.available(), reason="the interpreter is not there")


def unbuilt(kernel: Kernel) -> Run:
    """Schedules a kernel without running anything."""
    schedule(kernel)
    return lambda *_: []


def names(listing: Listing) -> list[str]:
    """The names of the steps of a listing after fusion, without the mark of in-place steps."""
    return [step.name.rstrip("_") for step in fusion.fused(listing, unbuilt).steps]


def traced(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Listing:
    """The program of a function whose arguments have these shapes."""
    return nbgrad.trace(function, *(nbgrad.zeros(shape) for shape in shapes))


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fuse steps even if torch's own kernels are faster."""
    monkeypatch.setattr(fusion._Fusion, "_faster", lambda *_: True)


def test_a_small_program_becomes_one_step() -> None:
    def function(x: Any, y: Any) -> Any:
        z = x.view(2, 3).expand(4, 2, 3) * y
        return (z.exp() / z.exp().sum(-1, keepdim=True)).relu().sum(), z.mean(0)

    assert names(traced(function, (6,), (4, 1, 3))) == ["nest"]


@pytest.mark.parametrize("level", ["exact", "reassociate"])
def test_what_a_pass_makes_of_a_step_is_still_fused(level: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        for _ in range(5):
            x = x * y + x
            x = nbgrad.addcdiv(x * y - x, x, y, value=2.0)
        return x.sum()

    program = traced(function, (6,), (6,)).grad(wrt=[0, 1]).optimize(level)  # type: ignore[attr-defined]
    assert names(program) == ["nest"]


def test_a_product_of_matrices_parts_two_nests_only_where_it_needs_the_first() -> None:
    def function(x: Any, w: Any) -> Any:
        first = (x + 1).relu() * 2
        between = x @ w
        return first - 1 + (first @ w).exp().neg().sum(), between

    assert names(traced(function, (5, 5), (5, 5))) == ["matmul", "nest", "matmul", "nest"]


def test_large_steps_stay_torchs_own() -> None:
    assert names(traced(lambda x: x.exp(), (1000, 1000))) == ["exp"]
    assert names(traced(lambda x: x.exp() + x.erf(), (3000, 1000))) == ["exp", "erf", "add"]


@pytest.mark.parametrize(
    ("function", "steps"),
    [
        (lambda x: x.double() + 1, ["to", "add"]),
        (lambda x: nbgrad.bernoulli(x * 0 + 0.5) * 2 + 1, ["nest", "bernoulli", "nest"]),
        (lambda x: x.T + x.T, ["permute", "permute", "add"]),
        (lambda x: x > 0, ["gt"]),
        (lambda x: x**2.5, ["pow"]),
    ],
)
def test_what_no_nest_computes_stays(
    function: Callable[..., Any], steps: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    always(monkeypatch)
    assert names(traced(function, (3, 4))) == steps


@needs_interpreter
def test_views_of_what_a_nest_makes_still_share_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    listing = traced(lambda x: [y := x + 1, y.reshape(6), y[None].expand(4, 2, 3)], (2, 3))
    assert names(listing)[0] == "nest"
    assert "nest" not in names(listing)[1:]
    y, flat, expanded = nbgrad.symbolic.BACKENDS["fused"](listing)([torch.ones(2, 3)], [])
    assert y.data_ptr() == flat.data_ptr() == expanded.data_ptr()
    assert expanded.tolist() == torch.full((4, 2, 3), 2.0).tolist()


@needs_interpreter
def test_a_comparison_that_leaves_is_torchs_bool(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    listing = traced(lambda x: [y := x * 2, y > 1, nbgrad.where(y > 1, y, -y)], (5,))
    x = torch.tensor([-1.0, 0.0, 0.4, 0.6, 2.0])
    y, above, chosen = nbgrad.symbolic.BACKENDS["fused"](listing)([x], [])
    assert torch.equal(above, x * 2 > 1)
    assert torch.equal(chosen, torch.where(y > 1, y, -y))


@needs_interpreter
def test_memory_from_outside_is_changed_by_torch_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    held = nbgrad.tensor([1.0, 2.0])

    def function(x: Any) -> Any:
        before = held * 2 + x
        held.add_(x)
        return before, held * 3 + x

    run = nbgrad.compile(function, backend="fused")
    x = nbgrad.tensor([1.0, 1.0])
    for k in range(3):
        before, after = run(x)
        assert before.tolist() == [2.0 * (1 + k) + 1, 2.0 * (2 + k) + 1]
        assert after.tolist() == [3.0 * (2 + k) + 1, 3.0 * (3 + k) + 1]
    assert held.tolist() == [4.0, 5.0]


@needs_interpreter
def test_a_compiled_loss_has_the_gradients_of_eager() -> None:
    def loss(x: Any, y: Any) -> Any:
        for _ in range(6):
            x = (x * y).tanh() + y.softmax(0) - x.mean(0)
        return x.sum()

    x, y = nbgrad.randn(7, 5, requires_grad=True), nbgrad.randn(7, 1, requires_grad=True)
    loss(x, y).backward()
    right = x.grad.clone(), y.grad.clone()
    x.grad = y.grad = None
    nbgrad.compile(loss, backend="fused")(x, y).backward()
    for one, other in zip((x.grad, y.grad), right, strict=True):
        torch.testing.assert_close(one._data, other._data, rtol=1e-5, atol=1e-6)


@needs_interpreter
def test_a_step_with_an_optimizer_takes_the_learning_rate_of_the_call() -> None:
    def trained(compile_it: bool) -> list[float]:
        nbgrad.manual_seed(0)
        w = nbgrad.nn.Parameter(nbgrad.ones(4))
        optimizer = nbgrad.optim.SGD([w], lr=0.5)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = ((w * x - 1).tanh() ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = nbgrad.compile(step, backend="fused") if compile_it else step
        losses = []
        for k in range(5):
            optimizer.param_groups[0]["lr"] = 0.5 / (k + 1)
            losses.append(run(nbgrad.tensor([1.0, 2.0, 3.0, 4.0])).item())
        return losses

    assert trained(True) == pytest.approx(trained(False), rel=1e-5)


@needs_interpreter
def test_inputs_that_lie_otherwise_are_copied_first() -> None:
    listing = traced(lambda x: (x + 1) * 2 - x, (3, 4))
    run = nbgrad.symbolic.BACKENDS["fused"](listing)
    x = torch.randn(4, 3).T
    torch.testing.assert_close(run([x], [])[0], (x + 1) * 2 - x)


COMPOSED: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "gelu": (nbgrad.nn.functional.gelu, [(40, 33)]),
    "gelu_tanh": (lambda x: nbgrad.nn.functional.gelu(x, approximate="tanh"), [(40, 33)]),
    "layer_norm": (lambda x, w, b: nbgrad.layer_norm(x, (33,), w, b), [(4, 10, 33), (33,), (33,)]),
    "layer_norm_two": (lambda x, w, b: nbgrad.layer_norm(x, (10, 33), w, b), [(4, 10, 33), (10, 33), (10, 33)]),
    "layer_norm_bare": (lambda x: nbgrad.layer_norm(x, (33,)), [(7, 33)]),
}
"""Functions that become several operations in a nest, and the shapes of their arguments."""


@needs_interpreter
@pytest.mark.parametrize("name", COMPOSED)
def test_the_error_of_a_composed_function_and_its_gradient_is_no_larger_than_torchs(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    always(monkeypatch)
    function, shapes = COMPOSED[name]

    def loss(*args: Any) -> Any:
        made = function(*args)
        return made, (made * made * 0.5 + made).sum()

    def whole(*args: Any) -> Any:
        made, total = loss(*args)
        return [made, *nbgrad.autograd.grad(total, args)]

    generator = torch.Generator().manual_seed(0)
    given = [torch.randn(shape, generator=generator) * 2 for shape in shapes]
    program = nbgrad.trace(whole, *(nbgrad.tensor(one, requires_grad=True) for one in given))
    assert not [one for one in names(program) if "gelu" in one or "layer_norm" in one]
    found = nbgrad.symbolic.BACKENDS["fused"](program)(given, [])
    eager = whole(*(nbgrad.tensor(one, requires_grad=True) for one in given))
    right = whole(*(nbgrad.tensor(one.double(), requires_grad=True) for one in given))
    for one, torchs, wanted in zip(found, eager, right, strict=True):
        size = float(wanted.data.abs().max())
        ours, theirs = (float((each - wanted.data).abs().max()) for each in (one, torchs.data))
        assert ours <= 2 * theirs + 2**-23 * size, (ours, theirs, size)


@pytest.mark.skipif(interpreter.available(), reason="the interpreter is there")
def test_without_the_compiled_core_fused_says_so() -> None:
    with pytest.raises(KernelError, match="run `make compile`"):
        nbgrad.compile(lambda x: x + 1, backend="fused")(nbgrad.ones(3))


def test_large_activations_and_norms_are_left_to_torch() -> None:
    gelu, norm = nbgrad.nn.functional.gelu, nbgrad.layer_norm
    for rows, fused in ((2, True), (400, False)):
        assert (names(traced(lambda x: gelu(x) + x * 2, (rows, 64))) == ["nest"]) is fused
        assert (names(traced(lambda x: norm(x, (64,)) + x * 2, (rows, 64))) == ["nest"]) is fused
    assert names(traced(lambda x: gelu(x, approximate="tanh") * x + x * 2, (20, 64))) == ["nest"]
    assert names(traced(lambda x: gelu(x) * x + x * 2, (20, 64))) != ["nest"]
