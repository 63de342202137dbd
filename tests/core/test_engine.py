"""The backward walk, next to torch's."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import unary
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.backward import reachable
from nbgrad.core.engine.node import Leaf
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import current, set_state
from nbgrad.core.engine.tensor_data import laid_out_as
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core import rows
from tests.core.programs import Library, Program, agree, both_raise, garbage
from tests.core.tasks import finished

every_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])

# The same program on both.


def fan_out(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0, 3.0)
    y = x.exp()
    (y.sum() + (y * y).sum() + y.log().sum()).backward()
    return y, x.grad


def diamond(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(0.5, 1.5)
    a = x * 2
    b, c = a.tanh(), a.sigmoid()
    (b * c).sum().backward()
    return (x.grad,)


def square(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(3.0)
    y = x * x
    y.backward()
    return y, x.grad


def leaf_used_many_times(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = x
    for _ in range(10):
        y = y * x + x
    y.sum().backward()
    return y, x.grad


def second_backward_with_retain(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    once = x.grad.clone()
    y.backward()
    return once, x.grad


def second_backward_where_nothing_was_saved(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = (x + x).sum()
    y.backward()
    y.backward()
    return (x.grad,)


def shared_part_backward_twice_through_unsaved(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    shared = x + 1
    (shared * 2).sum().backward()
    (shared * shared).sum().backward()
    return (x.grad,)


def accumulates_over_graphs(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    for power in (1, 2, 3):
        (x**power).sum().backward()
    return (x.grad,)


def gradient_given(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    (x * x).backward(lib.constant(10.0, -1.0))
    return (x.grad,)


def gradient_of_another_dtype(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    (x * x).backward(lib.constant(10.0, -1.0, dtype=torch.float32))
    return (x.grad,)


def one_element_of_any_rank(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf([[2.0]])
    (x * x).backward()
    return (x.grad,)


def backward_of_a_leaf(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(2.0)
    x.backward()
    return (x.grad,)


def detached_branch(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    (x * x.detach()).sum().backward()
    return (x.grad,)


def unused_leaf(lib: Library) -> tuple[Any, ...]:
    x, z = lib.leaf(1.0), lib.leaf(2.0)
    (x * 2).backward()
    return x.grad, z.grad


def mixed_dtypes(lib: Library) -> tuple[Any, ...]:
    a, b = lib.leaf(1.0, 2.0, dtype=torch.float32), lib.leaf(3.0, 4.0)
    y = (a * b + a).sum()
    y.backward()
    return y, a.grad, b.grad


def half_and_integer(lib: Library) -> tuple[Any, ...]:
    a = lib.leaf(1.0, 2.0, dtype=torch.bfloat16)
    (a * lib.constant(2, 3, dtype=torch.int64)).sum().backward()
    return (a.grad,)


def zero_rank_broadcast(lib: Library) -> tuple[Any, ...]:
    a, b = lib.leaf(2.0), lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    (a * b).sum().backward()
    return a.grad, b.grad


def empty(lib: Library) -> tuple[Any, ...]:
    a, b = lib.leaf([[], []]), lib.leaf([[1.0], [2.0]])
    y = (a * b).sum()
    y.backward()
    return y, a.grad, b.grad


def transposed_leaf(lib: Library) -> tuple[Any, ...]:
    x = lib.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]).transpose(0, 1).requires_grad_()
    (x * x.exp()).sum().backward()
    return x.grad, x.grad.data.stride()


def requires_grad_switched_off_before_backward(lib: Library) -> tuple[Any, ...]:
    x, z = lib.leaf(1.0), lib.leaf(2.0)
    y = x * z
    x.requires_grad_(False)
    y.backward()
    return x.grad, z.grad


def requires_grad_switched_on_after_use(lib: Library) -> tuple[Any, ...]:
    x, z = lib.constant(1.0), lib.leaf(2.0)
    y = x * z
    x.requires_grad_()
    (y + x).backward()
    return x.grad, z.grad


def grad_reset_between(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    (x * x).sum().backward()
    first = x.grad
    x.grad = None
    (x * 3).sum().backward()
    return first, x.grad


def change_of_what_was_not_saved(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = x + 1
    lib.raw(x).add_(1)
    lib.raw(y).add_(1)
    y.sum().backward()
    return x, y, x.grad


def change_after_backward(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    for _ in range(3):
        x.grad = None
        (x * x).sum().backward()
        lib.raw(x).sub_(0.1 * lib.raw(x.grad))
    return x, x.grad


def create_graph(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    (first,) = lib.grad((x**3).sum(), x, create_graph=True)
    (second,) = lib.grad(first.sum(), x, create_graph=True)
    (third,) = lib.grad(second.sum(), x)
    return first, second, third


AGREEING = [
    fan_out,
    diamond,
    square,
    leaf_used_many_times,
    second_backward_with_retain,
    second_backward_where_nothing_was_saved,
    shared_part_backward_twice_through_unsaved,
    accumulates_over_graphs,
    gradient_given,
    gradient_of_another_dtype,
    one_element_of_any_rank,
    backward_of_a_leaf,
    detached_branch,
    unused_leaf,
    mixed_dtypes,
    half_and_integer,
    zero_rank_broadcast,
    empty,
    transposed_leaf,
    requires_grad_switched_off_before_backward,
    requires_grad_switched_on_after_use,
    grad_reset_between,
    change_of_what_was_not_saved,
    change_after_backward,
    create_graph,
]


@pytest.mark.parametrize("program", AGREEING, ids=lambda program: program.__name__)
def test_program_agrees_with_torch(program: Program) -> None:
    agree(program)


# Both libraries raise the same error.


def second_backward(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward()
    y.backward()
    return ()


def second_backward_where_a_number_was_saved(lib: Library) -> tuple[Any, ...]:
    y = (lib.leaf(1.0, 2.0) * 2).sum()
    y.backward()
    y.backward()
    return ()


def shared_part_backward_twice(lib: Library) -> tuple[Any, ...]:
    shared = lib.leaf(1.0, 2.0).exp()
    (shared + 1).sum().backward()
    (shared + 2).sum().backward()
    return ()


def not_a_scalar(lib: Library) -> tuple[Any, ...]:
    (lib.leaf([[1.0, 2.0, 3.0]]) * 2).backward()
    return ()


def empty_result(lib: Library) -> tuple[Any, ...]:
    (lib.leaf([[], []]) * 2).backward()
    return ()


def needs_no_gradient(lib: Library) -> tuple[Any, ...]:
    (lib.constant(1.0) * 2).backward()
    return ()


def computed_in_no_grad(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0)
    with lib.ops.no_grad():
        y = x * x
    y.backward()
    return ()


def gradient_of_wrong_shape(lib: Library) -> tuple[Any, ...]:
    (lib.leaf(1.0, 2.0) * 2).backward(lib.constant(1.0, 2.0, 3.0))
    return ()


def input_changed_in_place(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = (x * x).sum()
    lib.raw(x).add_(1)
    y.backward()
    return ()


def output_changed_in_place(lib: Library) -> tuple[Any, ...]:
    y = lib.leaf(1.0, 2.0).exp()
    lib.raw(y).mul_(2)
    y.sum().backward()
    return ()


def view_changed_in_place(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf([[1.0, 2.0], [3.0, 4.0]])
    y = (x * x).sum()
    lib.raw(x)[0].zero_()
    y.backward()
    return ()


def step_between_retained_backwards(lib: Library) -> tuple[Any, ...]:
    w, x = lib.leaf(1.0, 2.0), lib.leaf(3.0, 4.0)
    y = (w * x).sum()
    y.backward(retain_graph=True)
    lib.raw(w).sub_(lib.raw(w.grad))
    y.backward()
    return ()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (second_backward, ["mul", "second time", "retain_graph=True"]),
        (second_backward_where_a_number_was_saved, ["mul", "second time"]),
        (shared_part_backward_twice, ["exp", "second time"]),
        (not_a_scalar, ["(1, 3)", "sum().backward()", "gradient="]),
        (empty_result, ["(2, 0)"]),
        (needs_no_gradient, ["needs no gradient", "requires_grad=True"]),
        (computed_in_no_grad, ["no_grad()"]),
        (gradient_of_wrong_shape, ["(3,)", "(2,)"]),
        (input_changed_in_place, ["mul", "'b'", "(2,)", "in-place", "clone"]),
        (output_changed_in_place, ["exp", "'out'", "its version is now 1, and was 0 when it was saved"]),
        (view_changed_in_place, ["mul", "in-place"]),
        (step_between_retained_backwards, ["mul", "in-place"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_error_is_torchs_and_says_what_to_do(program: Program, words: list[str]) -> None:
    both_raise(program, *words)


# Where gradients live.


def memory(x: Any) -> int:
    return (x.data if isinstance(x, Tensor) else x).untyped_storage().data_ptr()


def test_gradients_with_a_history_share_memory_with_nothing() -> None:
    a, b = tensor([1.0, 2.0], requires_grad=True), tensor([3.0, 4.0], requires_grad=True)
    g = tensor([5.0, 6.0], requires_grad=True)
    (a + b).backward(g, create_graph=True)
    assert a.grad is not None
    assert b.grad is not None
    assert len({memory(a.grad), memory(b.grad), memory(g)}) == 3
    a.grad.sum().backward()
    assert g.grad is not None
    assert g.grad.tolist() == [1.0, 1.0]


def test_gradients_share_memory_with_nothing() -> None:
    a, b = tensor([1.0, 2.0], requires_grad=True), tensor([3.0, 4.0], requires_grad=True)
    g = torch.tensor([5.0, 6.0])
    y = a + b
    y.backward(g, retain_graph=True)
    assert a.grad is not None
    assert b.grad is not None
    assert len({memory(a.grad), memory(b.grad), memory(g), memory(a), memory(b), memory(y)}) == 6
    y.backward(g)
    assert a.grad.tolist() == b.grad.tolist() == [10.0, 12.0]
    assert g.tolist() == [5.0, 6.0]


def test_a_stretched_gradient_becomes_a_full_one() -> None:
    x = tensor(torch.zeros(3, 4), requires_grad=True)
    x.sum().backward()
    assert x.grad is not None
    assert x.grad.data.stride() == (4, 1)
    x.grad.data[0, 0] = 7.0
    assert x.grad.data.sum() == 18.0


def test_a_gradient_is_no_window_into_a_larger_one() -> None:
    row = make_row("window_for_a_test", lambda _: torch.ones(100)[:2])
    try:
        x = tensor([1.0, 2.0], requires_grad=True)
        row(x).sum().backward()
        assert x.grad is not None
        assert x.grad.data.untyped_storage().nbytes() == x.grad.data.nbytes
    finally:
        OPS.pop(row.name)


def test_a_leaf_laid_out_otherwise_gets_a_gradient_laid_out_like_itself() -> None:
    x = tensor(torch.zeros(3, 4).t(), requires_grad=True)
    (x @ tensor(torch.ones(3, 2))).sum().backward()
    assert x.grad is not None
    assert x.grad.data.stride() == x.data.stride()


def test_a_gradient_is_moved_in_not_copied() -> None:
    seen: list[int] = []
    row = make_row("copy_for_a_test", lambda g: seen.append(memory(made := g * 2)) or made)
    try:
        x = tensor([1.0, 2.0], requires_grad=True)
        row(x).backward(torch.ones(2))
        assert x.grad is not None
        assert [memory(x.grad)] == seen
    finally:
        OPS.pop(row.name)


def test_with_create_graph_the_gradient_has_a_history() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    held = x.grad
    assert held is not None
    assert held.requires_grad
    assert nbgrad.grad(held.sum(), x)[0].tolist() == [6.0, 12.0]
    (x * 1).sum().backward()
    assert x.grad is not None
    assert not x.grad.requires_grad
    assert x.grad.tolist() == [4.0, 13.0]


# Depth and width.


def chain(length: int) -> tuple[Tensor, Tensor]:
    x = tensor(1.0, requires_grad=True)
    y = x
    for _ in range(length):
        y = y * 1.0
    return x, y


@pytest.mark.rotated(6)
def test_depth_is_no_limit() -> None:
    """Run in a thread whose stack has ten bytes for each op. This is too little for any recursion."""
    gone = []

    def deep() -> None:
        x, y = chain(100_000)
        y.backward()
        assert x.grad is not None
        assert x.grad.item() == 1.0
        after = weakref.ref(y.grad_fn)
        del y  # the graph is freed after a backward ...
        _, y = chain(100_000)
        before = weakref.ref(y.grad_fn)
        del y  # ... and without one
        gone.extend([after() is None, before() is None])

    usual = threading.stack_size(1_000_000 // 4096 * 4096)
    try:
        thread = threading.Thread(target=deep)
        thread.start()
    finally:
        threading.stack_size(usual)
    thread.join()
    assert gone == [True, True]


def test_forty_doublings_take_two_rules_each() -> None:
    x = tensor(1.0, dtype=torch.float64, requires_grad=True)
    y = x
    for _ in range(40):
        y = y + y
    counter = Counter()
    with_observer(counter, y.backward)
    assert counter.rules == 80
    assert x.grad is not None
    assert x.grad.item() == 2.0**40


class Counter(Observer):
    """Counts what the engine tells it."""

    def __init__(self) -> None:
        self.rules = 0
        self.ends = 0
        self.leaves: list[Any] = []

    def on_rule(self, *_: Any) -> None:
        self.rules += 1

    def on_gradient(self, origin: Any, gradient: Any, _: bool) -> None:
        if isinstance(origin, Leaf):
            self.leaves.append(gradient.tolist())

    def on_backward_end(self) -> None:
        self.ends += 1


def with_observer(observer: Observer, run: Callable[[], Any]) -> Any:
    before = current()
    set_state(before.replaced(observers=(observer,)))
    try:
        return run()
    finally:
        set_state(before)


def test_an_observer_sees_each_gradient_before_it_is_added() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    counter = Counter()
    for _ in range(2):
        with_observer(counter, (x * 3).sum().backward)
    assert counter.leaves == [[3.0, 3.0], [3.0, 3.0]]
    assert x.grad is not None
    assert x.grad.tolist() == [6.0, 6.0]
    assert counter.ends == 2


def test_a_gradient_becomes_a_grad_only_if_its_memory_is_all_its_own() -> None:
    data, wide = torch.zeros(2, 3), torch.zeros(4, 3)
    complex_one = torch.zeros(2, 3, dtype=torch.complex64)
    with torch.inference_mode():
        inferred = torch.zeros(4, 3)
        inferred_window, inferred_whole = inferred[2:], torch.zeros(2, 3)
    own = [torch.ones(2, 3), torch.ones(6).view(2, 3), inferred_whole]
    shared = [
        wide[2:],
        inferred_window,
        torch.ones(3).expand(2, 3),
        torch.ones(3, 2).t(),
        torch.zeros(2, 3)._neg_view(),
    ]
    assert [laid_out_as(one, data) for one in own] == [True] * 3
    assert [laid_out_as(one, data) for one in shared] == [False] * 5
    assert laid_out_as(complex_one, complex_one)
    assert not laid_out_as(complex_one.conj(), complex_one)


class Arrivals(Observer):
    """Records for each origin the results of the rules, and whether the engine says that its gradient is just one."""

    def __init__(self) -> None:
        self.given: dict[Any, list[Any]] = {}
        self.lone: dict[Any, bool] = {}

    def on_rule(self, node: Any, position: int, _: Any, reduced: Any, __: Any) -> None:
        self.given.setdefault(node.edges[position], []).append(reduced)

    def on_gradient(self, origin: Any, gradient: Any, lone: bool) -> None:
        given = self.given.get(origin, [])
        assert not lone or (len(given) == 1 and given[0] is gradient), origin
        self.lone[origin] = lone


@pytest.mark.parametrize("create_graph", [False, True])
def test_an_observer_is_told_which_gradients_are_what_one_rule_gave(create_graph: bool) -> None:
    once, twice, hooked = (tensor([1.0, 2.0, 3.0], requires_grad=True) for _ in range(3))
    hooked.register_hook(lambda gradient: gradient.mul_(2))  # the hook changes the values of the same tensor
    low, high = (once * twice).split([1, 2])
    middle = (high * 2).exp()  # gets a seed, and also the result of a rule
    total = (low * twice.sum() * hooked).sum() + middle.tanh().sum()
    arrivals = Arrivals()
    with_observer(
        arrivals, lambda: nbgrad.grad([total, middle], [once, twice, hooked], [None, middle], create_graph=create_graph)
    )
    alone = {name: arrivals.lone[one.origin] for name, one in locals().items() if isinstance(one, Tensor)}
    assert alone == {
        "once": True,
        "twice": False,  # a sum of two results
        "hooked": False,
        "low": True,
        "high": True,
        "middle": False,  # a seed plus the result of a rule
        "total": False,  # a seed
    }


def test_reachable_has_parents_before_children_and_each_once() -> None:
    x = tensor(1.0, requires_grad=True)
    a = x.exp()
    y = a * a + x
    order = reachable([y.origin])
    assert [repr(origin) for origin in order] == ["<leaf ()>", "<exp>", "<mul>", "<add>"]
    assert len(set(order)) == len(order)


# Memory, with the collector off.


def test_an_intermediate_that_is_dropped_dies_at_once() -> None:
    gc.disable()
    try:
        x = tensor(torch.ones(10), requires_grad=True)
        h = x.exp()
        y = h.tanh().sum()
        tensors, node = [weakref.ref(h), weakref.ref(h.data)], weakref.ref(h.grad_fn)
        del h
        assert tensors[0]() is None, "the tensor outlives the user's name for it"
        assert tensors[1]() is not None, "exp saves its output"
        y.backward()
        assert tensors[1]() is None, "a backward frees what exp has saved"
        assert node() is not None
        del y
        assert node() is None
    finally:
        gc.enable()


def test_saved_values_are_freed_as_the_walk_goes() -> None:
    x = tensor(torch.ones(10), requires_grad=True)
    h = x.exp()
    late = weakref.ref(h.data)
    alive: list[bool] = []

    class Look(Observer):
        def on_gradient(self, *_: Any) -> None:
            alive.append(late() is not None)

    y = h.exp().sum()
    del h
    with_observer(Look(), y.backward)
    assert alive == [True, True, True, False]


def test_forward_without_backward_leaves_nothing() -> None:
    gc.disable()
    try:
        x = tensor(torch.ones(10), requires_grad=True)
        made = [weakref.ref((x.exp() * x).data) for _ in range(100)]
        assert not any(ref() is not None for ref in made)
    finally:
        gc.enable()


def test_the_collector_finds_nothing_of_ours() -> None:
    with garbage() as found:
        w, b = tensor(torch.ones(3, 2), requires_grad=True), tensor(torch.zeros(2), requires_grad=True)
        for _ in range(5):
            loss = ((tensor(torch.ones(4, 3)) @ w + b).tanh() ** 2).mean()
            loss.backward(retain_graph=True)
            (first,) = nbgrad.grad(loss, [w], create_graph=True)
            first.sum().backward()
            with pytest.raises(RuntimeError):
                loss.backward(torch.ones(9))
        with nbgrad.AutogradGraph() as graph:
            (w * w).sum().backward()
            list(graph.records)
        del w, b, loss, first, graph
    assert found == []


def test_the_tester_of_garbage_finds_a_cycle() -> None:
    with garbage() as found:
        x = tensor([1.0], requires_grad=True)
        x.grad = x
        del x
    assert [type(thing) for thing in found if isinstance(thing, Tensor)] == [Tensor]


def test_a_leaf_that_is_gone_takes_no_gradient() -> None:
    x, y = tensor(1.0, requires_grad=True), tensor(2.0, requires_grad=True)
    z = x * y
    del x
    z.backward()
    assert y.grad is not None
    assert y.grad.item() == 1.0


# Rules that fail.


def make_row(name: str, rule: Callable[..., Any], **settings: Any) -> Op:
    """A row x * 2 with the given rule, for one test."""

    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    forward.__name__ = name
    row = op(formula="2 x", samples=unary, **settings)(forward)
    row.rule("x", r"2 \bar{y}")(rule)
    return row


@pytest.fixture
def faulty() -> Iterator[Op]:
    def rule(g: Any) -> Any:
        raise faults.pop()

    faults: list[BaseException] = []
    row = make_row("fails_for_a_test", rule)
    row.faults = faults  # type: ignore[attr-defined]
    yield row
    OPS.pop(row.name)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, MemoryError])
def test_an_interrupted_backward_leaves_every_gradient_as_it_was(faulty: Any, error: type[BaseException]) -> None:
    x, w = tensor([1.0, 2.0], requires_grad=True), tensor([3.0, 4.0], requires_grad=True)
    (x * w).sum().backward()
    before = [x.grad.tolist(), w.grad.tolist()]  # type: ignore[union-attr]
    state = current()

    y = (faulty(x) * w).sum()  # the gradient of w is complete before the faulty rule runs
    faulty.faults.append(error())
    with pytest.raises(error):
        y.backward(retain_graph=True)

    assert [x.grad.tolist(), w.grad.tolist()] == before  # type: ignore[union-attr]
    assert current() is state
    (x * w).sum().backward()
    assert [x.grad.tolist(), w.grad.tolist()] == [[6.0, 8.0], [2.0, 4.0]]  # type: ignore[union-attr]


@pytest.mark.parametrize(("broadcasts", "shape"), [(False, (2, 3)), (True, (2, 4)), (True, ())])
def test_a_rule_that_gives_the_wrong_shape_is_named(broadcasts: bool, shape: tuple[int, ...]) -> None:
    row = make_row("misfit_for_a_test", lambda _: torch.zeros(shape), broadcasts=broadcasts)
    try:
        with pytest.raises(RuntimeError) as caught:
            row(tensor([1.0, 2.0, 3.0], requires_grad=True)).sum().backward()
    finally:
        OPS.pop(row.name)
    assert all(
        word in str(caught.value) for word in ("'misfit_for_a_test'", "'x'", str(shape), "(3,)", "broadcasts=True")
    )


def test_a_rule_may_give_nothing() -> None:
    row = make_row("zero_for_a_test", lambda _: None)
    try:
        x, z = tensor(1.0, requires_grad=True), tensor(2.0, requires_grad=True)
        (row(x) * z).backward()
        assert x.grad is None
        assert z.grad is not None
    finally:
        OPS.pop(row.name)


# Threads and tasks.


def train(seed: int, pause: Callable[[], None] = lambda: None) -> tuple[list[Any], int, int]:
    """A few steps inside a new graph: the gradients, and what the graph has recorded."""
    w = tensor(torch.full((3,), float(seed)), requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(20):
            loss = ((w * w).tanh() + w).sum()
            pause()
            loss.backward()
    assert w.grad is not None
    return w.grad.tolist(), graph.backwards, len(graph.records)


def test_threads_do_not_mix() -> None:
    alone = [train(seed) for seed in range(8)]
    together: list[Any] = [None] * 8
    barrier = threading.Barrier(8)

    def work(seed: int) -> None:
        barrier.wait()
        together[seed] = train(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


async def train_in_turns(seed: int) -> tuple[list[Any], int, int]:
    w = tensor(torch.full((3,), float(seed)), requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(20):
            loss = ((w * w).tanh() + w).sum()
            await asyncio.sleep(0)
            loss.backward()
    assert w.grad is not None
    return w.grad.tolist(), graph.backwards, len(graph.records)


def test_interleaved_tasks_do_not_mix() -> None:
    async def main() -> list[Any]:
        return await asyncio.gather(*(train_in_turns(seed) for seed in range(8)))

    assert finished(main()) == [train(seed) for seed in range(8)]


# Devices.


@every_device
def test_training_agrees_with_torch_on_every_device(device: str) -> None:
    def steps(
        lib: Any, leaf: Callable[[torch.Tensor], Any], given: Callable[[torch.Tensor], Any]
    ) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        draw = lambda *shape: torch.rand(shape, generator=generator, dtype=torch.float64).to(device)  # noqa: E731
        w, b, x = leaf(draw(4, 3)), leaf(draw(3)), given(draw(5, 4))
        for _ in range(5):
            w.grad = b.grad = None
            ((x @ w + b).tanh().softmax(1) ** 2).mean().backward()
            for p in (w, b):
                (p.data if lib is nbgrad else p.detach()).sub_(p.grad.data)
        return [w.data, b.data]

    ours = steps(nbgrad, lambda data: tensor(data, requires_grad=True), tensor)
    theirs = steps(torch, lambda data: data.requires_grad_(), lambda data: data)
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.device.type == device
        rows.close(mine, yours, "trained weight")


@pytest.mark.cuda
def test_cpu_and_cuda_in_one_graph() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = (x * 3).to("cuda") * tensor([1.0, 2.0], device="cuda")
    y.sum().to("cpu").backward()
    assert x.grad is not None
    assert x.grad.device.type == "cpu"
    assert x.grad.tolist() == [3.0, 6.0]


@pytest.mark.parametrize("wrap", [lambda i: i, lambda i: (i,), lambda i: (slice(None), i)])
def test_an_index_that_changes_after_its_use_moves_no_gradient(wrap: Callable[[torch.Tensor], Any]) -> None:
    x = tensor(torch.zeros(3, 3, dtype=torch.float64), requires_grad=True)
    index = torch.tensor([0, 1])
    picked = x[wrap(index)]
    expected = torch.zeros(3, 3, dtype=torch.float64)
    expected[wrap(index.clone())] = 1
    index.fill_(2)
    picked.sum().backward()
    torch.testing.assert_close(x.grad.data, expected)
