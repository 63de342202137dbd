"""In-place ops: values, gradients, and whether and when a program raises are the same in torch and in nbgrad."""

from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Sample, unary
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.tensor.methods import TensorMethods
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.tensor.views import Views
from tests.core import rows
from tests.core.programs import OURS, TORCH, Library, Program, agree, both_raise, error, garbage, plain
from tests.core.random_programs import outcome

TWINS = [name for name, row in OPS.items() if row._in_place is not None]


# Programs drawn at random.


@pytest.mark.sampled(3)
@pytest.mark.parametrize("twice", [False, True], ids=["gradient", "second order"])
@pytest.mark.parametrize("steps", [8, 25])
def test_a_random_program_does_what_it_does_in_torch(steps: int, twice: bool) -> None:
    raised = 0
    for seed in range(150):
        ours, theirs = outcome(OURS, seed, steps, twice=twice), outcome(TORCH, seed, steps, twice=twice)
        text = "\n".join([f"program {seed}:", *theirs[0]])
        assert ours[:2] == theirs[:2], text
        for mine, yours in zip(ours[2], theirs[2], strict=True):
            assert (mine is None) == (yours is None), text
            if yours is not None:
                rows.close(plain(mine), plain(yours), text)
        raised += "the backward raises" in theirs[0]
    assert 0 < raised < 120, "the programs are to end well and badly"


# The table: every row that has an in-place twin.


def fits(sample: Sample, row: Op) -> bool:
    """Whether the result of the row can be written into its first input."""
    first = sample.args[0]
    if not isinstance(first, torch.Tensor):
        return False
    out = row.forward(*sample.args, **sample.settings)
    same_kind = out.is_complex() == first.is_complex()  # torch raises if a real result is written into a complex tensor
    return same_kind and out.shape == first.shape and torch.can_cast(out.dtype, first.dtype)


def total(values: Any) -> Any:
    """A real number from a real or complex tensor of either library."""
    added = values.sum()
    return added.real if added.is_complex() else added


def changed_in_place(name: str, sample: Sample, lib: Library, *, view: bool) -> list[Any]:
    """Values, gradients and second-order gradients of an in-place op on a result, or on a view of one."""
    wanted = rows.differentiable(OPS[name], sample)
    args = [
        (tensor if lib is OURS else torch.Tensor.clone)(arg.clone()) if isinstance(arg, torch.Tensor) else arg
        for arg in sample.args
    ]
    leaves = [args[i].requires_grad_() for i in wanted]
    base = args[0] * 1
    target = base.unsqueeze(0)[0] if view else base
    if lib is OURS:
        assert OPS[name].in_place(target, *args[1:], **sample.settings) is target
    else:  # torch's method may differ or have no gradient: copy the function's result into it
        target.copy_(rows.reference(OPS[name])(target.clone(), *args[1:], **sample.settings))
    if not leaves:
        return [base, target]
    weights = rows.weights(plain(base)) + 0.1
    once = lib.grad(total(base * base * weights), leaves, create_graph=True)
    end = sum([total(one * one) for one in once])
    twice = lib.grad(end, leaves, allow_unused=True) if end.requires_grad else [None] * len(leaves)
    return [base, target, *once, *(0 * one if two is None else two for one, two in zip(leaves, twice, strict=True))]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("view", [False, True], ids=["result", "view"])
@pytest.mark.parametrize("name", TWINS)
@pytest.mark.filterwarnings("ignore:Use of")
def test_a_twin_has_torchs_value_gradient_and_second_order_gradient(name: str, view: bool) -> None:
    tried = 0
    for sample in rows.comparable(OPS[name]):
        if fits(sample, OPS[name]):
            tried += 1
            pair = [changed_in_place(name, sample, lib, view=view) for lib in (OURS, TORCH)]
            for mine, yours in zip(*pair, strict=True):
                rows.close(plain(mine), plain(yours), f"{name}_({rows.describe(sample)})")
    assert tried


def test_torchs_names_have_a_twin() -> None:
    names = ["add", "sub", "mul", "div", "pow", "neg", "exp", "log", "sqrt", "relu", "tanh", "sigmoid", "fill", "copy"]
    assert {*names, "setitem"} <= set(TWINS)
    for name in {*TWINS, "zero"}:
        assert hasattr(Tensor, f"{name}_") or not hasattr(torch.Tensor, f"{name}_"), name


def test_a_row_that_shares_memory_says_so() -> None:
    """A row may share memory only with its first input, and must declare it. Gradient rows may return an input."""
    for row in OPS.values():
        if row.name.endswith("_backward"):
            continue
        shared = set()
        for sample in rows.samples(row):
            outputs = [out for out in rows.parts(row.forward(*sample.args, **sample.settings)) if out is not None]
            shared |= {
                position
                for position, arg in enumerate(sample.args)
                if isinstance(arg, torch.Tensor)
                and arg.numel()
                and any(torch._C._is_alias_of(arg, out) for out in outputs)
            }
        assert shared <= {0}, f"{row.name} shares the memory of its input {shared}"
        assert bool(shared) == row.view, f"declare {row.name} with view={bool(shared)}"


# In-place ops that change only the shape.


def turned(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x = w * 2
    same = x.unsqueeze_(0)
    x.transpose_(0, 2).squeeze_(-1).t_()
    x.mul_(w)
    (x * x).sum().backward()
    return same is x, x, w.grad


def swapped(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    x = w * 2
    x.swapaxes_(0, 1)
    x.swapdims_(0, 1)
    x.transpose_(-1, 0)
    (x * lib.constant([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    return x, x.is_contiguous(), w.grad


def seen_otherwise(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0, 3.0, 4.0)
    x = w * 2
    x.as_strided_((2, 2), (1, 2))
    x.mul_(2)
    (x * x * lib.constant([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    return x, w.grad


def a_leaf_turned_silently(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    with lib.ops.no_grad():
        w.t_()
        w.unsqueeze_(-1)
    (w * w).sum().backward()
    return w, w.is_leaf, w.requires_grad, w.grad


def a_view_of_what_was_turned(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    x = w * 2
    x.unsqueeze_(0)
    part = x[0]
    part.mul_(w)
    (x * x).sum().backward()
    return x, part, w.grad


def a_constant_turned(lib: Library) -> tuple[Any, ...]:
    x, w = lib.constant([[1.0, 2.0, 3.0]]), lib.leaf(2.0)
    x.t_()
    x.mul_(w)
    x.sum().backward()
    return x, w.grad


@pytest.mark.parametrize(
    "program",
    [turned, swapped, seen_otherwise, a_leaf_turned_silently, a_view_of_what_was_turned, a_constant_turned],
    ids=lambda program: program.__name__,
)
def test_a_change_of_shape_means_what_it_means_in_torch(program: Callable[[Library], tuple[Any, ...]]) -> None:
    agree(program)


def a_leaf_turned(lib: Library) -> tuple[Any, ...]:
    lib.leaf(1.0, 2.0).unsqueeze_(0)
    return ()


def a_view_of_a_leaf_turned(lib: Library) -> tuple[Any, ...]:
    lib.leaf([[1.0, 2.0]])[0].unsqueeze_(0)
    return ()


def a_saved_value_turned(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf([[1.0, 2.0]]) * 1
    y = x * x
    x.t_()
    y.sum().backward()
    return ()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (a_leaf_turned, ["unsqueeze_", "leaf", "no_grad"]),
        (a_view_of_a_leaf_turned, ["unsqueeze_", "view"]),
        (a_saved_value_turned, ["mul", "version"]),
    ],
)
def test_a_change_of_shape_raises_where_torchs_does(
    program: Callable[[Library], tuple[Any, ...]], words: list[str]
) -> None:
    both_raise(program, *words)


def turned_view(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    x = w * 2
    row, others = x[0:1], x[:, 1:]
    assert row.squeeze_(0) is row
    row.mul_(w[1])
    others.transpose_(0, 1)
    others[0].add_(1.0)
    others.unsqueeze_(0)
    x.mul_(3.0)
    (row.exp().sum() + (others * w[:, 1:].T).sum() + (x * w).sum()).backward()
    return row, others, x, w.grad


def turned_base(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf([1.0, 2.0], [3.0, 4.0])
    x = w * 2
    first = x[0]
    assert x.t_() is x
    first.mul_(w[1])
    second = x[0]
    x.mul_(w)
    (first * w[0]).sum().backward(retain_graph=True)
    (second * 3 + x.exp()[1]).sum().backward()
    return x, first, second, w.grad


def turned_base_whose_views_are_behind(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf([1.0, 2.0], [3.0, 4.0])
    x = w * 2
    first = x[0]
    x.mul_(w)  # the view's history is built when somebody asks; by then its base has another shape
    x.transpose_(0, 1)
    (first * w[1]).sum().backward()
    return x, first, w.grad


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.view and not row.many])
def test_what_gives_back_the_tensor_itself_in_torch_does_so_here(name: str) -> None:
    """Two tensors over one raw tensor would both change with its shape, but only one of them would have the history."""
    row = OPS[name]
    for sample in rows.samples(row):
        arg, settings = sample.args[0], sample.settings
        theirs, ours = arg.clone(), tensor(arg.clone())
        same = rows.reference(row)(theirs, **settings) is theirs
        assert (row(ours, **settings) is ours) == same, rows.describe(sample)


@pytest.mark.parametrize(
    "give",
    [
        lambda x, _: x.real,
        lambda x, _: x.conj(),
        lambda x, _: x.conj_physical(),
        lambda x, _: x.resolve_conj(),
        lambda x, _: x.resolve_neg(),
        lambda x, _: x.contiguous(),
        lambda x, _: x.to(x.dtype),
        lambda x, _: x.to("cpu"),
        lambda x, _: x.type_as(x),
        lambda x, _: x.double(),
        lambda x, _: x.cpu(),
        lambda x, _: x.expand_as(x),
        lambda x, _: x.reshape(2, 2),
        lambda x, _: x.view_as(x),
        lambda x, _: x.flatten(1),
        lambda x, _: x.squeeze(),
        lambda x, _: x[...],
        lambda x, _: x.sum_to_size(2, 2),
        lambda x, lib: lib.ops.broadcast_tensors(x, x[0])[0],
        lambda x, lib: lib.ops.atleast_2d(x),
        lambda x, lib: lib.ops.view_as_real(lib.ops.view_as_complex(x)),
    ],
)
@pytest.mark.parametrize("turn", ["t_", "transpose_", "swapaxes_"])
def test_the_same_tensor_turned(give: Callable[[Any, Library], Any], turn: str) -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf([[0.0, 1.0], [2.0, 3.0]])
        v = x * 1
        same = give(v, lib)
        getattr(same, turn)(*(() if turn == "t_" else (0, 1)))
        ((v + 2 * same) * lib.constant([[1.0, 10.0], [100.0, 1000.0]])).sum().backward()
        return same is v, v, same, x.grad

    agree(program)


@pytest.mark.parametrize("program", [turned_view, turned_base, turned_base_whose_views_are_behind])
def test_a_view_or_a_tensor_with_views_seen_otherwise_in_place(program: Program) -> None:
    agree(program)


def test_a_view_turned_inside_no_grad_keeps_its_history() -> None:
    w = tensor([[1.0, 2.0]], requires_grad=True)
    row = (w * 3)[0:1]
    with nbgrad.no_grad():
        row.squeeze_(0)
    (g,) = nbgrad.grad(row.sum(), w)
    assert g.data.tolist() == [[3.0, 3.0]]


def test_a_leaf_with_views_is_not_turned() -> None:
    w = tensor([[1.0, 2.0]], requires_grad=True)
    row = w[0]
    with (
        nbgrad.no_grad(),
        pytest.raises(NotImplementedError, match=r"squeeze_\(\) on a leaf that requires grad and has"),
    ):
        w.squeeze_(0)
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        row.unsqueeze_(0)
    assert (w.shape, row.shape) == ((1, 2), (2,))


@pytest.mark.parametrize("flat", [lambda x: x.ravel(), lambda x: x.flatten(), lambda x: x.reshape(-1)])
@pytest.mark.parametrize(
    "part", [lambda x: x[::2, 0], lambda x: x[0], lambda x: x, lambda x: x.T, lambda x: x[:, 1:], lambda x: x[1, 1]]
)
def test_a_vector_of_a_view_is_changed_with_it_where_torchs_is(
    flat: Callable[[Any], Any], part: Callable[[Any], Any]
) -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        w = lib.leaf([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
        x = w * 2
        vector = flat(part(x))
        vector.add_(5)
        ((x * x).sum() + (vector * 3).sum()).backward()
        return x, vector, w.grad

    agree(program)


# Outputs of an op that returns several views. torch forbids changing them; nbgrad treats them like any view.


def halves(x: Any, lib: Library, *, by_split: bool) -> Any:
    if not by_split or lib is TORCH:
        return x[:2], x[2:]
    return x.split(2)


def changed_part(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf([1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0])
    x = w * 2
    first, second = halves(x, lib, by_split=True)
    first.mul_(w[2:])
    second += first
    x.mul_(x.detach().clone())
    (first * second).sum().backward(retain_graph=True)
    (x * w).sum().backward()
    return x, first, second, w.grad


def changed_base_of_parts(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf([1.0, 2.0], [3.0, 4.0])
    x = w * 2
    top, bottom = x.unbind() if lib is OURS else (x[0], x[1])
    inner = top[1:]
    x.mul_(w)
    inner.add_(bottom[:1])
    (inner * bottom).sum().backward()
    return x, top, inner, bottom, w.grad


def part_of_a_constant(lib: Library) -> tuple[Any, ...]:
    w, x = lib.leaf(1.0, 2.0), lib.constant([[1.0, 2.0, 3.0, 4.0]])
    left, right = x.chunk(2, 1) if lib is OURS else (x[:, :2], x[:, 2:])
    left.mul_(w)
    (x.sum() + left.sum() * right.sum()).backward()
    return x.requires_grad, right.requires_grad, x, w.grad


@pytest.mark.parametrize("program", [changed_part, changed_base_of_parts, part_of_a_constant])
def test_a_part_is_changed_as_a_slice_of_torchs(program: Callable[[Library], tuple[Any, ...]]) -> None:
    agree(program)


@pytest.mark.parametrize("cut", [lambda x: x.split(1), lambda x: x.unbind(), lambda x: x.chunk(2)])
def test_a_part_made_inside_no_grad_is_not_changed_outside(cut: Callable[[Any], Any]) -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf([1.0, 2.0], [3.0, 4.0]) * 1
        with lib.ops.no_grad():
            first, _ = cut(x)
        first.mul_(x[0].detach() if lib is TORCH else x[0])
        return ()

    both_raise(program, "mul_", "no_grad")


@pytest.mark.parametrize("lengths", [(1, 3, 1, 3), (2, 1, 2, 1, 2), (3,), (1, 1, 1)])
def test_cat_of_alternating_lengths(lengths: tuple[int, ...]) -> None:
    """Each length of the list has its own row: no row uses what another row has saved or planned."""

    def program(lib: Library) -> tuple[Any, ...]:
        found = []
        for count in (*lengths, *lengths[::-1]):
            leaves = [lib.leaf([float(i + j) for j in range(i + 1)]) for i in range(count)]
            constant = lib.constant([9.0])
            joined = lib.ops.cat([*leaves, constant] if count % 2 else [constant, *leaves])
            (joined * joined * joined).sum().backward()
            found += [joined, *(leaf.grad for leaf in leaves)]
        return tuple(found)

    agree(program)


# Values that have no gradient.


@pytest.mark.parametrize(
    ("name", "other"),
    [("floor_divide", 2.0), ("heaviside", torch.ones(2, dtype=torch.float64)), ("gcd", None), ("bitwise_and", None)],
)
def test_a_history_is_not_overwritten_by_values_without_a_gradient(name: str, other: Any) -> None:
    """torch's kernel refuses such numbers, or its backward raises. nbgrad raises at the change itself."""

    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(5.0, 7.0) * 1
        getattr(x, f"{name}_")(x.detach() if other is None else other)
        x.sum().backward()
        return ()

    both_raise(program, f"{name}_")
    if other is not None:
        x = OURS.leaf(5.0, 7.0) * 1
        with pytest.raises(RuntimeError, match=rf"{name}_ changes .* new tensor with {name}\(\), or change x\.detach"):
            getattr(x, f"{name}_")(other)
        assert x.tolist() == [5.0, 7.0]
        getattr(x.detach(), f"{name}_")(other)
        with nbgrad.no_grad():
            getattr(x, f"{name}_")(other)


def answers_in_place(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0, 3.0)
    found: list[Any] = []
    for name, other in (("eq", 2.0), ("ne", 2.0), ("lt", 2.0), ("le", 2.0), ("gt", 2.0), ("ge", 2.0)):
        x = w * 1
        getattr(x, f"{name}_")(other)
        (x * x).sum().backward()
        found += [x, x.requires_grad]
    return *found, w.grad


def test_an_answer_written_over_a_result_has_gradient_zero_as_in_torch() -> None:
    agree(answers_in_place)


# Changes and their records.


def operators(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0, 3.0)
    x = w * 1
    same = x
    x += 1
    x -= w
    x *= w
    x /= 2
    x **= 2
    (x * w).sum().backward()
    return (same is x, x, w.grad)


def a_constant_that_gets_a_history(lib: Library) -> tuple[Any, ...]:
    w, x = lib.leaf(1.0, 2.0), lib.constant(3.0, 4.0)
    x *= w
    x[0] = w[1] * 2
    (x * x).sum().backward()
    return (x.requires_grad, x.is_leaf, x, w.grad)


def the_rule_sees_the_value_before(lib: Library) -> tuple[Any, ...]:
    w, v = lib.leaf(1.0, 2.0), lib.leaf(5.0, 7.0)
    x = w * 3
    x.mul_(v).pow_(2).log_()
    x.sum().backward()
    return (w.grad, v.grad)


def silent(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0)
    alias = lib.raw(w)
    x = w * 2
    with lib.ops.no_grad():
        w += 1
        w[0] = 9
        w.mul_(2).neg_()
        x.zero_()
    return (alias, w, w.is_leaf, w.requires_grad, x, x.requires_grad)


def integers(lib: Library) -> tuple[Any, ...]:
    x = lib.constant(1, 2, 3, dtype=torch.int64)
    w = lib.leaf(4.0)
    x += 2
    x[0] = w
    x.fill_(w) if lib is OURS else x.fill_(4.0)
    x[x > 3] = 8
    return (x, x.requires_grad)


def narrower(lib: Library) -> tuple[Any, ...]:
    w, x = lib.leaf(1.5, 2.5), lib.constant(1.0, 2.0, dtype=torch.float32)
    x *= w
    x.sum().backward()
    return (x, w.grad)


def one_element_twice(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0, 3.0)
    x = w * 1
    x[0] += 1
    x[[0, 1]] *= 2
    x[x > 3] = 0.5
    (x * x).sum().backward()
    return (x, w.grad)


def base_and_views(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x = w * 1
    column, rest = x.transpose(0, 1)[1], x[:, 1:]
    flat = rest[0].reshape(-1)
    column.mul_(w[:, 0])
    flat += 1
    x.add_(w)
    (x * 2).sum().backward(retain_graph=True)
    (column.sum() * flat.sum() + rest.sum()).backward()
    return (x, column, rest, flat, w.grad)


def a_view_of_a_constant(lib: Library) -> tuple[Any, ...]:
    w, x = lib.leaf(1.0, 2.0), lib.constant([[1.0, 1.0], [1.0, 1.0]])
    first, second = x[0], x[1]
    first.mul_(w)
    (x.sum() + 3 * second.sum() + first[1]).backward()
    return (x.requires_grad, second.requires_grad, second.is_leaf, w.grad)


def retained(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0)
    x = w * 2
    x.retain_grad()
    x.mul_(3)
    (x * x).sum().backward()
    return (x.grad, w.grad)


def the_gradient_is_zeroed(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0)
    (w * w).sum().backward()
    held = w.grad
    w.grad.zero_()
    return (held, held is w.grad)


def drawn_anew(lib: Library) -> tuple[Any, ...]:
    torch.manual_seed(3)
    w = lib.leaf(0.2, 0.7, 0.5)
    kept = w * 2
    kept[1:].uniform_(-1.0, 2.0)
    results = [kept]
    for name, args in (
        ("bernoulli_", (0.3,)),
        ("bernoulli_", (lib.constant(0.0, 1.0, 0.5),)),
        ("cauchy_", (1.0, 2.0)),
        ("exponential_", (3.0,)),
        ("geometric_", (0.3,)),
        ("log_normal_", (0.1, 0.2)),
        ("normal_", (1.0, 2.0)),
        ("random_", (2, 9)),
        ("uniform_", ()),
    ):
        y = w * 3
        results += [getattr(y, name)(*args), y, y.requires_grad]
    sum(((one * one).sum() for one in results if not isinstance(one, bool)), start=(w * w).sum()).backward()
    return (*results, w.grad)


def cut_in_place(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0)
    hidden = w * 3
    before = hidden + w
    same = hidden.detach_()
    (before + hidden * w).sum().backward()
    return (same is hidden, hidden.is_leaf, hidden.requires_grad, w.grad)


def diagonals_filled(lib: Library) -> tuple[Any, ...]:
    found: list[Any] = []
    w = lib.leaf(2.0)
    for shape, wrap in (((3, 3), 0), ((2, 4), 1), ((7, 3), 0), ((7, 3), 1), ((8, 1), 1), ((0, 2), 1), ((3, 3, 3), 1)):
        x = w * lib.ops.ones(shape, dtype=torch.float64)
        kept = x.T if len(shape) == 2 else x
        same = kept.fill_diagonal_(5.0, wrap=bool(wrap))
        found += [same is kept, x]
    sum(((one * one).sum() for one in found if not isinstance(one, bool)), start=w * 0).backward()
    return *found, w.grad


@pytest.mark.parametrize(
    "program",
    [
        diagonals_filled,
        drawn_anew,
        cut_in_place,
        operators,
        a_constant_that_gets_a_history,
        the_rule_sees_the_value_before,
        silent,
        integers,
        narrower,
        one_element_twice,
        base_and_views,
        a_view_of_a_constant,
        retained,
        the_gradient_is_zeroed,
    ],
)
def test_a_change_means_what_it_means_in_torch(program: Callable[[Library], tuple[Any, ...]]) -> None:
    agree(program)


def test_every_change_returns_the_tensor_itself() -> None:
    x = tensor([1.0, 2.0])
    for change in (x.add_, x.sub_, x.mul_, x.div_, x.pow_, x.fill_, x.__iadd__, x.__isub__, x.__imul__):
        assert change(1.0) is x
    assert x.zero_() is x
    assert x.copy_(torch.ones(2)) is x
    assert x.tolist() == [1.0, 1.0]


# Whether and when it raises.


def a_leaf_drawn_anew(lib: Library) -> Any:
    return lib.leaf(1.0, 2.0).normal_()


def a_view_cut(lib: Library) -> Any:
    return (lib.leaf(1.0, 2.0) * 2)[0].detach_()


def on_a_leaf(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0)
    w += 1
    return ()


def element_of_a_leaf(lib: Library) -> tuple[Any, ...]:
    lib.leaf(1.0, 2.0)[0] = 3.0
    return ()


def view_of_a_leaf(lib: Library) -> tuple[Any, ...]:
    lib.leaf(1.0, 2.0)[0].mul_(2)
    return ()


def leaf_after_its_view(lib: Library) -> tuple[Any, ...]:
    x = lib.constant(1.0, 2.0)
    first = x[0]
    x.requires_grad_()
    first.mul_(2)
    return ()


def other_shape(lib: Library) -> tuple[Any, ...]:
    lib.constant(1.0, 2.0).add_(lib.constant([[1.0, 2.0], [3.0, 4.0]]))
    return ()


def wider_dtype(lib: Library) -> tuple[Any, ...]:
    lib.constant(1, 2, dtype=torch.int64).mul_(0.5)
    return ()


def stretched(lib: Library) -> tuple[Any, ...]:
    (lib.leaf([[1.0], [2.0]]) * 1).expand((2, 3)).add_(1)
    return ()


def stretched_and_filled(lib: Library) -> tuple[Any, ...]:
    x = (lib.leaf([[1.0], [2.0]]) * 1).expand((2, 3))
    x.fill_(1)
    x.sum().backward()
    return ()


def overlapping(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0, 3.0) * 1
    x[1:].add_(x[:-1])
    return ()


def saved_value_overwritten(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0) * 1
    y = x * x
    x += 1
    y.sum().backward()
    return ()


def by_itself(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0) * 1
    x.mul_(x)
    x.sum().backward()
    return ()


def detached_changed(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0) * 1
    y = x.exp()
    y.detach().zero_()
    y.sum().backward()
    return ()


def unrecorded_view_changed(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0) * 1
    with lib.ops.no_grad():
        first = x[0]
    first.mul_(x[1])
    return ()


def base_of_an_unrecorded_view_changed(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0) * 1
    with lib.ops.no_grad():
        first = x[0]
    x.mul_(2)
    (first * 2).backward()
    return ()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (a_leaf_drawn_anew, ["normal_", "leaf", "no_grad"]),
        (a_view_cut, ["detach_", "view", "detach()"]),
        (on_a_leaf, ["add_", "leaf", "(2,)", "x = x + y", "no_grad"]),
        (element_of_a_leaf, ["setitem_", "leaf", "no_grad"]),
        (view_of_a_leaf, ["mul_", "a view of a leaf"]),
        (leaf_after_its_view, ["mul_", "a view of a leaf"]),
        (other_shape, ["add_", "shape (2,)", "shape (2, 2)"]),
        (wider_dtype, ["mul_", "int64", "can't be cast"]),
        (stretched, ["add_", "(2, 3)", "clone()"]),
        (stretched_and_filled, ["fill_", "(2, 3)", "clone()"]),
        (overlapping, ["add_", "clone()"]),
        (saved_value_overwritten, ["mul", "changed"]),
        (by_itself, ["mul_", "changed"]),
        (detached_changed, ["exp", "changed"]),
        (unrecorded_view_changed, ["mul_", "no_grad"]),
        (base_of_an_unrecorded_view_changed, ["view", "no_grad"]),
    ],
)
def test_a_change_raises_where_torchs_does(program: Callable[[Library], tuple[Any, ...]], words: list[str]) -> None:
    both_raise(program, *words)


def test_a_change_that_raises_changes_nothing() -> None:
    x = tensor([1.0, 2.0], requires_grad=True) * 1
    before, made = x.tolist(), x.grad_fn
    assert error(lambda lib: x.add_(torch.ones(3)), OURS)
    assert x.tolist() == before
    assert x.grad_fn is made


def test_an_unknown_operand_is_left_to_python() -> None:
    x = tensor([1.0])
    with pytest.raises(TypeError, match=r"unsupported operand|\+="):
        x += "1"


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.unfold(0, 2, 1),
        lambda x: x.as_strided((2, 2), (1, 1)),
        lambda x: x.as_strided((3, 2), (1, 2)).t(),
    ],
)
def test_a_view_whose_elements_share_places_is_not_changed(view: Callable[[Any], Any]) -> None:
    """In torch the result depends on the order in which the kernel goes through the memory."""
    x = tensor([1.0, 2.0, 3.0, 4.0, 5.0], requires_grad=True)
    windows = view(x * 1)
    with pytest.raises(RuntimeError, match=r"add_ .*unfold.*clone\(\)"):
        windows.add_(1)
    with pytest.raises(NotImplementedError, match=r"as_strided.*clone\(\)"):
        windows.as_strided((2, 2), (1, 1))
    windows.clone().add_(1)
    windows.detach().as_strided((2, 2), (1, 1))


def apart(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)
    found = []
    for size, stride in (((2, 2), (1, 2)), ((3, 2), (2, 1)), ((3, 2), (2, 3)), ((1, 2), (0, 3))):
        x = w * 2
        view = x.as_strided(size, stride)
        view.add_(w[0])
        found += [(view * view).sum() + x.exp().sum(), (view.as_strided((2,), (4,)) * 3).sum()]
    sum(found).backward()
    return *found, w.grad


def test_a_view_whose_elements_are_apart_is_changed_as_in_torch() -> None:
    agree(apart)


def test_what_sees_more_than_the_view_it_was_made_of_is_read_but_not_changed() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        w = lib.leaf(1.0, 2.0, 3.0, 4.0)
        y = w * 2
        return lib.grad((y[:2].as_strided((2,), (2,)) * lib.constant(1.0, 3.0)).sum(), [w])

    agree(program)
    y = tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True) * 2
    wide, inside = y[:2].as_strided((2,), (2,)), y[:2].as_strided((2,), (1,), 0)
    with pytest.raises(RuntimeError, match=r"mul_.*as_strided\(\) of the base"):
        wide.mul_(2)
    inside.mul_(2)
    with pytest.raises(RuntimeError, match=r"as_strided\(\)"):
        (wide * 2).sum()


# A rule saved a view that was changed in place: the saved value is a part of the view's base.

SAVING = ["exp_", "tanh_", "sigmoid_", "sqrt_", "reciprocal_", "rsqrt_", "tan_", "erfinv_", "expm1_", "exp2_"]


@pytest.mark.parametrize("held", [True, False], ids=["held view", "passing view"])
@pytest.mark.parametrize("name", SAVING)
def test_a_second_order_gradient_of_the_base_goes_through_what_was_saved_of_the_view(name: str, held: bool) -> None:
    """In torch this holds while the view lives; in nbgrad always."""

    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(0.25, 0.5)
        y = x * x
        y.retain_grad()
        seen: list[Any] = []
        kept: list[Any] = []
        view = y[:1]
        getattr(view, name)()
        if not held:
            kept.append(view if lib is TORCH else None)
            view = y * 1
        y.register_hook(lambda g: seen.append(plain(g).clone()))
        (once,) = lib.grad((y * y).sum(), [x], create_graph=True)
        again = (once * once).sum()
        found = lib.grad(again, [y, view, x], retain_graph=True, allow_unused=True)
        again.backward()
        return *(one for one in found if one is not None), y.grad, x.grad, *seen

    agree(program)


def test_what_says_that_a_view_was_changed_keeps_no_memory() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y[:1].exp_()
    node, total = y.grad_fn, y.sum()
    total.backward()
    data = ref(y.data)
    del y
    assert data() is None
    assert node is not None, "the graph is there, the memory is not"


# A base that is detached from its history.


@pytest.mark.parametrize("change", ["the view", "another view", "the base", "nothing"])
def test_views_keep_their_history_where_their_base_is_cut_from_it(change: str) -> None:
    """torch's views keep their history if somebody asked for it after the change, or changed them; else it is lost."""

    def program(lib: Library) -> tuple[Any, ...]:
        x = lib.leaf(1.0, 2.0)
        y = x * 2
        v, w = y[:1], y[1:]
        changed = {"the view": v, "another view": w, "the base": y}.get(change)
        if changed is not None:
            changed.mul_(3)
        if lib is TORCH:
            assert v.grad_fn is not None
            assert w.grad_fn is not None
        y.detach_()
        (v.sum() + w.sum() * 5).backward()
        return x.grad, y.requires_grad

    agree(program)


def test_a_base_that_was_cut_is_not_changed_under_views_that_were_not() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    v = y[:1]
    y.detach_()
    with pytest.raises(RuntimeError, match=r"mul_.*detach_\(\).*y\.detach\(\)\.clone\(\)"):
        y.mul_(3)
    y.mul_(x)  # this op is recorded: the view gets its history from the base again
    v.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 0.0]


def test_a_base_without_views_that_have_a_history_is_cut_and_changed() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    y[:1].sum()
    y.detach_().mul_(3)
    assert not y.requires_grad


# Kept values.


def test_only_a_rule_that_needs_the_value_before_keeps_a_copy() -> None:
    w = tensor([1.0, 2.0], requires_grad=True)
    for change, copies in (
        (lambda x: x.add_(w), 0),
        (lambda x: x.mul_(3), 0),
        (lambda x: x.exp_(), 0),
        (lambda x: x.mul_(w), 1),
        (lambda x: x.log_(), 1),
    ):
        x = w * 1
        node = change(x).grad_fn
        assert node is not None
        held = {value.data_ptr() for value in node.saved if isinstance(value, torch.Tensor)}
        assert len(held - {x.data.data_ptr(), w.data.data_ptr()}) == copies, node


def test_what_shares_memory_makes_no_cycle_and_goes_at_once() -> None:
    with garbage() as found:
        w = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        x = w * 1
        first, swapped = x[0], x.transpose(0, 1)
        first.mul_(w[1])
        x += first.sum()
        swapped[0] = w[0]
        assert swapped.grad_fn is not None
        (x.sum() + swapped.sum()).backward()
        gone = [ref(one) for one in (x, first, swapped, x.grad_fn, swapped.grad_fn)]
        del x, first, swapped
        assert [one() for one in gone] == [None] * 5
    assert found == []


def test_a_base_forgets_views_that_are_gone() -> None:
    w = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for _ in range(10_000):
        w.transpose(0, 1)
    assert isinstance(w._alias, Views)
    assert len(w._alias._refs) < 20


def test_depth_is_no_limit() -> None:
    w = tensor([[1.0, 2.0]], requires_grad=True)
    x = w * 1
    view = x
    for _ in range(10_000):
        view = view.transpose(0, 1)
    for _ in range(10_000):
        x += 1
    view.mul_(2)
    x.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [[2.0, 2.0]]
    del x, view


def test_a_row_of_ones_own_gets_a_twin() -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        return x[..., :2] / 2

    try:
        row = op(formula="x / 2", inplace=True, samples=unary)(halves)
        row.rule("x", r"\bar{y} / 2")(lambda g: g / 2)
        w = tensor([1.0, 2.0], requires_grad=True)
        x = w * 1
        assert x.halves_() is x
        x.sum().backward()
        assert x.tolist() == [0.5, 1.0]
        assert w.grad is not None
        assert w.grad.tolist() == [0.5, 0.5]
        with pytest.raises(RuntimeError, match=r"halves_.*shape \(2,\).*\(3,\)"):
            tensor([1.0, 2.0, 3.0]).halves_()
        with pytest.raises(RuntimeError, match=r"halves_.*float32.*int64"):
            tensor([1, 2]).halves_()
    finally:
        OPS.pop("halves", None)
        if hasattr(TensorMethods, "halves_"):
            del TensorMethods.halves_


def test_a_row_without_a_twin_says_so() -> None:
    with pytest.raises(AttributeError, match="'matmul' has no in-place twin"):
        _ = OPS["matmul"].in_place


def test_new_data_of_a_leaf_leave_the_views_of_the_old() -> None:
    x = tensor([1.0, 2.0])
    first = x[0]
    x.data = torch.tensor([5.0, 6.0])
    first.mul_(tensor(3.0, requires_grad=True))
    assert (first.item(), first.requires_grad) == (3.0, True)
    assert (x.tolist(), x.requires_grad) == ([5.0, 6.0], False)


# The picture.


def test_a_change_is_a_node_of_the_graph_named_after_its_variable() -> None:
    with nbgrad.AutogradGraph() as graph:
        w = tensor([1.0, 2.0], requires_grad=True)
        x = w * 2
        x += 1
        x[0] = w[1]
        row = x[1:]
        row.mul_(3)
        x.sum().backward()
    ops = [record.op.name for record in graph.records if record.op is not None]
    assert ops == ["mul", "add_", "getitem", "setitem_", "getitem", "mul_", "view_scatter", "sum"]
    assert [record.op.name for record in graph.records if record.name == "x" and record.op] == ["view_scatter"]
    (scatter,) = [record for record in graph.records if record.op is OPS["view_scatter"]]
    assert str(scatter.settings["path"]) == "getitem(index=slice(1, None, None))"


# Saved values: a change of anything else is allowed, as in torch.


def _class_losses() -> dict[str, tuple[Callable[..., Any], list[torch.Tensor]]]:
    draw = torch.Generator().manual_seed(11)
    scores, shares = (torch.randn(4, 3, generator=draw, dtype=torch.float64) for _ in range(2))
    shares, weight, numbers = shares.softmax(1), torch.tensor([0.5, 1.0, 2.0]).double(), torch.tensor([0, 2, 1, 0])
    loss = torch.nn.functional.cross_entropy
    return {
        "cross_entropy": (lambda x: loss(x, numbers), [scores]),
        "cross_entropy smoothed": (lambda x: loss(x, numbers, weight, label_smoothing=0.1), [scores]),
        "cross_entropy of each": (lambda x: loss(x, numbers, reduction="none"), [scores]),
        "cross_entropy of probabilities": (loss, [scores, shares]),
    }


def _points(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(12)
    return [torch.randn(shape, generator=draw, dtype=torch.float64) for shape in shapes]


F = torch.nn.functional

SAVING: dict[str, tuple[Callable[..., Any], list[torch.Tensor]]] = {
    "l1_loss": (F.l1_loss, _points((4, 3), (4, 3))),
    "l1_loss of each": (lambda x, t: F.l1_loss(x, t, reduction="none"), _points((4, 3), (4, 3))),
    "l1_loss of complex numbers": (F.l1_loss, [torch.complex(*_points((4,), (4,))), *_points((4,))]),
    "smooth_l1_loss": (lambda x, t: F.smooth_l1_loss(x, t, beta=0.0), _points((4, 3), (4, 3))),
    "huber_loss": (F.huber_loss, _points((4, 3), (4, 3))),
    **_class_losses(),
    "einsum": (lambda a, b: torch.einsum("ij,jk->ik", a, b), _points((4, 3), (3, 2))),
    "einsum of batches": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), _points((2, 4, 3), (2, 2, 3))),
    "einsum of one": (lambda a: torch.einsum("ij->i", a), _points((4, 3))),
    "einsum with itself": (lambda a: torch.einsum("ij,ij->i", a, a), _points((4, 3))),
    **{f"cdist {p}": (lambda a, b, p=p: torch.cdist(a, b, p=p), _points((4, 3), (2, 3))) for p in (1.0, 2.0, 3.0)},
    "cdist by products": (torch.cdist, _points((30, 3), (2, 3))),
    "pdist": (F.pdist, _points((4, 3))),
    "matmul": (torch.matmul, _points((4, 3), (3, 2))),
}


@pytest.mark.parametrize("name", SAVING)
def test_a_change_is_refused_where_torch_refuses_it_whatever_needs_a_gradient(name: str) -> None:
    function, given = SAVING[name]
    for needs in range(1, 2 ** len(given)):
        for place in range(len(given)):
            found = []
            for ours in (True, False):
                asked = [bool(needs >> i & 1) for i in range(len(given))]
                args: list[Any] = [
                    tensor(one.clone(), requires_grad=ask) if ours else one.clone().requires_grad_(ask)
                    for one, ask in zip(given, asked, strict=True)
                ]
                made = function(*args)
                with (nbgrad if ours else torch).no_grad():
                    args[place].mul_(2)
                said = error(lambda _, made=made: made.sum().backward(), OURS)
                assert not said or "in-place" in said or "inplace" in said, said
                found.append([None if one.grad is None else plain(one.grad) for one in args] if not said else "refused")
            mine, yours = found
            what = f"{name}, {needs:b} need a gradient, {place} is changed"
            assert isinstance(mine, str) == isinstance(yours, str), f"{what}: nbgrad {mine}, torch {yours}"
            if mine != "refused":
                for one, other in zip(mine, yours, strict=True):
                    assert (one is None) == (other is None), what
                    if one is not None:
                        rows.close(one, other, what)


@pytest.mark.parametrize("name", ["l1_loss", "l1_loss of complex numbers", *_class_losses(), "einsum"])
def test_second_orders_are_right_after_a_change_of_what_is_not_saved(name: str) -> None:
    function, given = SAVING[name]
    found = []
    for ours in (True, False):
        args: list[Any] = [
            tensor(one.clone(), requires_grad=not i) if ours else one.clone().requires_grad_(not i)
            for i, one in enumerate(given)
        ]
        lib: Any = nbgrad if ours else torch.autograd
        scaled = args[0] * 2
        made = function(scaled, *args[1:])
        with (nbgrad if ours else torch).no_grad():
            scaled.mul_(-3)
        (first,) = lib.grad((made * made).sum() if made.ndim else made * made, args[0], create_graph=True)
        (second,) = lib.grad(total(first * first), args[0])
        found.append((plain(first), plain(second)))
    for mine, yours in zip(*found, strict=True):
        rows.close(mine, yours, name)


def test_the_result_of_an_op_whose_rules_name_its_inputs_cannot_be_known_from_paths() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match="'mul' alone is not enough for its rules"):
        OPS["mul"].known(torch.tensor([1.0, 4.0]), x, x)
