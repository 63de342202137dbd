"""``nbgrad.grad`` next to ``torch.autograd.grad``."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.functional.grad import grad
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core.programs import OURS, TORCH, Library, agree, both_raise


def returns_and_accumulates_nothing(lib: Library) -> tuple[Any, ...]:
    x, w = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    return (*lib.grad((x * w * w).sum(), [w, x]), x.grad, w.grad)


def with_respect_to_a_result(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    h = x.exp()
    return lib.grad((h * h).sum(), [h, x])


def a_result_and_then_its_own_backward(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    h = x.exp()
    (first,) = lib.grad((h * 3).sum(), h)  # the rule of exp does not run, so its saved tensor stays
    h.sum().backward()
    return first, x.grad


def a_result_whose_own_graph_was_freed(lib: Library) -> tuple[Any, ...]:
    h = lib.leaf(1.0, 2.0).exp()
    h.sum().backward()
    return lib.grad((h * 3).sum(), h)


def an_output_itself(lib: Library) -> tuple[Any, ...]:
    y = lib.leaf(1.0) * 2
    return lib.grad(y, y)


def several_outputs(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    return lib.grad([(x * x).sum(), x * 3], [x], [None, lib.constant(10.0, 20.0)])


def the_same_output_twice(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(2.0)
    y = x * x
    return lib.grad([y, y], [x, x])


def uses_before_and_after_new_data(lib: Library) -> tuple[Any, ...]:
    x, seen = lib.leaf(1.0, 2.0), []
    x.register_hook(lambda g: seen.append(g * 1))
    loss = (x * 3).sum()  # not x * x: torch's backward would then use the new data
    x.data = lib.raw(lib.constant(3.0, 4.0))
    alone = lib.grad(loss, x, retain_graph=True)
    both = loss + (x * 2).sum()
    several = lib.grad(both, x, retain_graph=True)
    both.backward(inputs=[x], retain_graph=True)
    into = x.grad * 1
    both.backward()
    return *alone, *several, into, x.grad, *seen


def uses_before_and_after_freezing(lib: Library) -> tuple[Any, ...]:
    x, w, seen = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0), []
    x.register_hook(lambda g: seen.append(g * 1))
    loss = (x * w).sum()
    x.requires_grad_(False)
    loss = loss + (x * w * 10).sum()
    x.requires_grad_(True)
    loss = loss + (x * 100).sum()
    found = lib.grad(loss, [x, w], retain_graph=True)
    loss.backward(inputs=x, retain_graph=True)
    into = x.grad * 1
    loss.backward()
    return *found, into, x.grad, w.grad, *seen


def a_constant_that_becomes_a_leaf(lib: Library) -> tuple[Any, ...]:
    x, w = lib.constant(1.0, 2.0), lib.leaf(3.0, 4.0)
    loss = (x * w).sum()
    x.requires_grad_()
    loss = loss + (x * x).sum()
    return lib.grad(loss, [x, w])


def unused_allowed(lib: Library) -> tuple[Any, ...]:
    x, z = lib.leaf(1.0), lib.leaf(2.0)
    return lib.grad(x * 2, [x, z], allow_unused=True)


def penalty(lib: Library) -> tuple[Any, ...]:
    x, w = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    (slope,) = lib.grad((x * w).tanh().sum(), x, create_graph=True)
    (slope**2).sum().backward()
    return slope, x.grad, w.grad


def hessian_vector_product(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0, 3.0)
    (slope,) = lib.grad((x**3).sum() * x.sum(), x, create_graph=True)
    return lib.grad(slope, x, lib.constant(1.0, 0.0, -1.0))


def fifth_order(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(0.7)
    y = (x * x).exp().tanh()
    slopes = []
    for _ in range(5):
        (y,) = lib.grad(y, x, create_graph=True)
        slopes.append(y)
    return tuple(slopes)


def seed_with_a_history(lib: Library) -> tuple[Any, ...]:
    x, v = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    (product,) = lib.grad(x**2, x, v, create_graph=True)
    return lib.grad(product.sum(), [v, x])


def retained_by_create_graph(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(2.0)
    y = x**3
    (first,) = lib.grad(y, x, create_graph=True)
    return first, *lib.grad(y, x)


def one_for_each_seed(lib: Library) -> tuple[Any, ...]:
    x, w, z = lib.leaf(1.0, 2.0, 3.0), lib.leaf(4.0), lib.leaf(5.0)
    y = x**2 * w
    seeds = lib.ops.eye(3, dtype=lib.ops.float64) * 2
    rows = lib.grad(y, [x, w, z], seeds, create_graph=True, allow_unused=True, is_grads_batched=True)
    (again,) = lib.grad(rows[0].sum() * rows[1].sum(), w)
    first = lib.grad([y, y.sum()], x, [seeds, lib.constant(1.0, 2.0, 3.0)], retain_graph=True, is_grads_batched=True)
    return *rows, again, *first


def accumulates_in_some(lib: Library) -> tuple[Any, ...]:
    x, w, z = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0), lib.leaf(5.0, 6.0)
    seen: list[Any] = []
    w.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad * 1))
    h = x * w
    kept = h.exp()
    kept.retain_grad()
    loss = (kept * h * z).sum()
    loss.backward(inputs=[w, h, kept], retain_graph=True)
    found = w.grad * 1, h.grad * 1, kept.grad * 1, x.grad, z.grad
    loss.backward(inputs=w, retain_graph=True)
    backward(lib)([loss, h.sum()], [None, lib.constant(2.0)], inputs=[x, w])
    return *found, *seen, x.grad, w.grad, h.grad, z.grad


def backward(lib: Library) -> Any:
    return nbgrad.backward if lib is OURS else torch.autograd.backward


@pytest.mark.parametrize(
    "program",
    [
        one_for_each_seed,
        accumulates_in_some,
        returns_and_accumulates_nothing,
        with_respect_to_a_result,
        a_result_and_then_its_own_backward,
        a_result_whose_own_graph_was_freed,
        an_output_itself,
        several_outputs,
        the_same_output_twice,
        uses_before_and_after_new_data,
        uses_before_and_after_freezing,
        a_constant_that_becomes_a_leaf,
        unused_allowed,
        penalty,
        hessian_vector_product,
        fifth_order,
        seed_with_a_history,
        retained_by_create_graph,
    ],
    ids=lambda program: program.__name__,
)
def test_program_agrees_with_torch(program: Callable[[Library], tuple[Any, ...]]) -> None:
    agree(program)


def unused(lib: Library) -> tuple[Any, ...]:
    x, z = lib.leaf(1.0), lib.leaf(2.0)
    return lib.grad(x * 2, [x, z])


def needs_none(lib: Library) -> tuple[Any, ...]:
    return lib.grad(lib.leaf(1.0) * 2, lib.constant(1.0))


def twice(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0)
    y = x * x
    return (*lib.grad(y, x), *lib.grad(y, x))


def seeds_missing(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0)
    return lib.grad([x * 2, x * 3], x, [None])


def not_a_scalar(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    return lib.grad(x * 2, x)


def no_inputs(lib: Library) -> tuple[Any, ...]:
    lib.leaf(1.0).exp().backward(inputs=[])
    return ()


def inputs_without_a_gradient(lib: Library) -> tuple[Any, ...]:
    x, c = lib.leaf(1.0), lib.constant(2.0)
    (x * c).backward(inputs=[x, c])
    return ()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (no_inputs, ["inputs", "leave it out"]),
        (inputs_without_a_gradient, ["inputs[1]", "requires_grad_()"]),
        (unused, ["input 1", "()", "allow_unused=True"]),
        (needs_none, ["input 0", "requires_grad_()"]),
        (twice, ["mul", "second time"]),
        (seeds_missing, ["2 outputs", "1 gradients"]),
        (not_a_scalar, ["(2,)"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_error_is_torchs_and_says_what_to_do(program: Callable[[Library], tuple[Any, ...]], words: list[str]) -> None:
    both_raise(program, *words)


def test_the_answer_is_tensors_that_need_no_gradient_unless_asked_to() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    (plain,) = grad((x**2).sum(), x, retain_graph=True)
    (live,) = grad((x**2).sum(), x, create_graph=True)
    assert isinstance(plain, Tensor)
    assert isinstance(live, Tensor)
    assert (plain.requires_grad, live.requires_grad) == (False, True)


def test_the_libraries_differ() -> None:
    """``agree`` compares two libraries, not one with itself."""
    assert OURS.ops is not TORCH.ops
    with pytest.raises(AssertionError):
        agree(lambda lib: (lib.constant(1.0 if lib is OURS else 1.001),))
    with pytest.raises(AssertionError, match="torch does not raise"):
        both_raise(lambda _: ())


def test_only_inputs_is_true_as_in_torch() -> None:
    x = OURS.leaf(2.0)
    assert grad(x * x, x, None, None, False, True)[0].item() == 4.0
    with pytest.raises(ValueError, match="only_inputs=False is not supported"):
        grad(x * x, x, only_inputs=False)


def test_seeds_of_several_lengths_are_an_error() -> None:
    x = OURS.leaf(1.0)
    seeds = [OURS.constant(1.0, 2.0), OURS.constant(1.0, 2.0, 3.0)]
    with pytest.raises(RuntimeError, match=r"is_grads_batched.*\(2,\).*\(3,\)"):
        grad([x * 2, x * 3], x, seeds, is_grads_batched=True)
    with pytest.raises(RuntimeError, match=r"is_grads_batched.*None"):
        grad(x * 2, x, is_grads_batched=True)
