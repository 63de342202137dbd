"""Plain torch in a graph: the numbers stay the same to the bit, the graph has every gradient, and torch is restored."""

import copy
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch.autograd.function import _HookMixin
from torch.utils._pytree import tree_leaves

import nbgrad
from nbgrad.core.engine.torch_origins import known_origin
from nbgrad.core.graph.evidence import Evidence
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.listener import Listener
from nbgrad.core.graph.stats import SMALL, Stats
from nbgrad.core.recorder.backwards import Passing
from nbgrad.core.recorder.foreseen import TAPS, Giving
from nbgrad.core.recorder.functions import ASKS
from nbgrad.core.recorder.python_functions import MODULES
from nbgrad.widgets.describe import describe
from tests.core import opdb
from tests.recorder.torch_programs import PROGRAMS, Gradients, Program, function


def replaced() -> tuple[Any, ...]:
    """The functions of torch that a graph replaces while it is open."""
    return (
        torch.autograd._engine_run_backward,  # type: ignore[attr-defined]
        torch.nn.Module.__call__,
        _HookMixin._register_hook,
        torch.compile,
        *[
            vars(module).get(name)
            for module in map(sys.modules.get, MODULES)
            if module is not None
            for name in sorted(ASKS)
        ],
        torch._C._len_torch_function_stack(),
    )


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    before = replaced()
    yield
    assert replaced() == before


def seeded(program: Program) -> Gradients:
    torch.manual_seed(0)
    return [None if one is None else one.clone() for one in program()]


def recorded(program: Program, **options: Any) -> tuple[Gradients, AutogradGraph]:
    with AutogradGraph(**options) as graph:
        made = seeded(program)
    return made, graph


def alike(one: Gradients, other: Gradients) -> bool:
    return all(
        a is b is None or (a is not None and b is not None and same(a, b)) for a, b in zip(one, other, strict=True)
    )


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    a, b = (torch.view_as_real(one) if one.is_complex() else one for one in (a.resolve_conj(), b.resolve_conj()))
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


# The numbers.


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_gradients_are_the_same_to_the_bit(program: Program, watch: bool) -> None:
    plain = seeded(program)
    made, graph = recorded(program, watch=watch)
    assert alike(plain, made)
    assert graph.backwards > 0
    assert any(record.kind == "op" for record in graph.records)


@pytest.mark.cuda
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_on_a_gpu_gradients_are_the_same_to_the_bit(program: Program) -> None:
    """The backward on a GPU runs in other threads than the program."""
    with torch.backends.cudnn.flags(deterministic=True), torch.device("cuda"):
        plain = seeded(program)
        made, graph = recorded(program)
    assert alike(plain, made)
    assert all(one is None or one.device.type == "cuda" for one in made)
    assert graph.backwards


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_every_op_and_leaf_of_the_last_backward_has_a_gradient(program: Program) -> None:
    _, graph = recorded(program)
    without = [record for record in graph.records if record.kind != "constant" and record.gradient is None]
    assert not [record.op.name for record in without if record.op]
    assert all(record.name in ("w", None) for record in without if record.op is None)


def facts(graph: AutogradGraph) -> tuple[Any, ...]:
    """The content of a graph without tensors after its last backward, without the ids of records."""
    rank = {record.id: place for place, record in enumerate(graph.records)}
    undone = {} if graph.frame is None else graph.frame.reductions
    sums = sorted(((rank[key], at), one) for (key, at), one in undone.items() if key in rank)
    reached = [record.kind for record in graph.records if record.id in set(graph.listener.uses.reached)]
    records = [one for frame in graph.history for one in frame.records]
    norms = [(one.op, one.shape, one.gradient and float(f"{one.gradient:.6g}")) for one in records]  # of other layouts
    return len(rank), sums, reached, norms


def without_tensors(run: Callable[[], Any], *, hooks: bool) -> tuple[Any, ...]:
    """The facts of a graph around ``run``. With ``hooks``, another graph around it needs every gradient."""
    with AutogradGraph(watch=True) if hooks else nullcontext(), AutogradGraph(watch=False) as graph:
        torch.manual_seed(0)
        run()
    return facts(graph)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_a_graph_without_tensors_knows_the_same_without_a_hook(program: Program) -> None:
    assert without_tensors(program, hooks=False) == without_tensors(program, hooks=True)


@pytest.mark.sampled(24)
@pytest.mark.filterwarnings("ignore")  # torch warns about functions that it will remove
@pytest.mark.parametrize("name", [name for name in opdb.cases() if not name.endswith(opdb.COMPLEX)])
def test_of_an_op_of_torchs_database_it_knows_the_same_without_a_hook(name: str) -> None:
    entry = opdb.entries()[name]
    sample = opdb.samples_of(entry, torch.float64)[0]
    found = without_tensors(partial(run, entry, sample), hooks=False)
    assert repr(found) == repr(without_tensors(partial(run, entry, sample), hooks=True))  # as texts, because NaN != NaN


def test_a_graph_without_tensors_sees_what_a_hook_of_the_users_left_of_a_gradient() -> None:
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda gradient: 3 * gradient)
    with AutogradGraph(watch=False) as graph:
        for _ in range(2):  # the second is added to the first
            (x * 2).sum().backward()
    norms = [one.gradient for frame in graph.history for one in frame.records if one.kind == "leaf"]
    assert norms == pytest.approx([6 * 2**0.5] * 2)


def test_a_graph_without_tensors_sees_a_gradient_that_is_gone_when_the_backward_ends() -> None:
    x = torch.ones(2, requires_grad=True)

    def drop(leaf: torch.Tensor) -> None:
        leaf.grad = None

    x.register_post_accumulate_grad_hook(drop)
    with AutogradGraph(watch=False) as graph:
        (x * 2).sum().backward()
    assert x.grad is None
    assert [one.gradient for one in graph.history[0].records if one.kind == "leaf"] == pytest.approx([2 * 2**0.5])


class _CarefulListener(Listener):
    def checks_gradients(self) -> bool:
        return True


class CarefulGraph(AutogradGraph):
    """A graph that puts a hook on every node."""

    _listens = _CarefulListener


def seen(graph: AutogradGraph) -> list[Any]:
    """The facts of the last backward of a graph, without the ids of records."""
    rank = {record.id: place for place, record in enumerate(graph.records)}

    def rounded(stats: Stats | None) -> Stats | None:
        """Norm and mean of the same numbers in another layout are added in another order."""
        if stats is None:
            return None
        mean = None if stats.mean is None else float(f"{stats.mean:.12g}")
        return replace(stats, norm=float(f"{stats.norm:.12g}"), mean=mean)

    return [
        (
            record.op and record.op.name,
            rounded(record.gradient),
            [one._replace(source=rank.get(one.source), gradient=rounded(one.gradient)) for one in record.inputs],
        )
        for record in graph.records
    ]


def both(run: Callable[[], Any]) -> tuple[str, str]:
    """The facts of ``run`` in a graph, as text: as usual, and with a hook on every node."""
    found = []
    for kind in (AutogradGraph, CarefulGraph):
        with kind() as graph:
            torch.manual_seed(0)
            run()
        found.append(repr(seen(graph)))  # as texts, because NaN != NaN
    return found[0], found[1]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_a_graph_sees_the_same_with_a_hook_on_every_node(program: Program) -> None:
    few, all_of_them = both(program)
    assert few == all_of_them


@pytest.mark.sampled(24)
@pytest.mark.filterwarnings("ignore")  # torch warns about functions that it will remove
@pytest.mark.parametrize("name", [name for name in opdb.cases() if not name.endswith(opdb.COMPLEX)])
def test_of_an_op_of_torchs_database_it_sees_the_same_with_a_hook_on_every_node(name: str) -> None:
    entry = opdb.entries()[name]
    sample = opdb.samples_of(entry, torch.float64)[0]
    for shared in (False, True):
        few, all_of_them = both(partial(run, entry, sample, shared=shared))
        assert few == all_of_them


def hooked_by(run: Callable[[], Any], kind: type[AutogradGraph] = AutogradGraph) -> tuple[int, int]:
    """How many nodes get a hook from nbgrad in ``run``, and how many report their incoming gradient without one."""
    count = told = 0

    def telling(_: torch.Tensor) -> None:
        nonlocal told
        told += 1

    with kind():
        register = _HookMixin._register_hook

        def counted(hooks: Any, hook: Any) -> Any:
            nonlocal count
            count += type(hook) in (Passing, Giving)
            return register(hooks, hook)

        _HookMixin._register_hook = staticmethod(counted)
        TAPS[telling] = telling  # it is called like the recorder's own taps
        try:
            run()
        finally:
            del TAPS[telling]
            _HookMixin._register_hook = staticmethod(register)
    return count, told


def chain() -> None:
    w, b, c = (torch.ones(2, 2) for _ in range(3))
    x = w.requires_grad_()
    b.requires_grad_()
    for _ in range(10):
        x = x * c + b
    x.sum().backward()


def test_no_node_of_a_chain_has_a_hook() -> None:
    assert hooked_by(chain) == (0, 21)  # twenty links and their sum report what arrives
    assert hooked_by(chain, CarefulGraph)[0] == 23


def pictures(order: torch.memory_format) -> None:
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten())
    x = torch.randn(2, 1, 6, 6).to(memory_format=order)
    torch.nn.Sequential(net, torch.nn.Linear(8, 3))(x).sum().backward()


@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last], ids=str)
def test_an_op_needs_no_hook_though_the_table_does_not_have_it(order: torch.memory_format) -> None:
    """With the channels last flatten copies before it views: it is two nodes of torch's."""
    run = partial(pictures, order)
    assert hooked_by(run) == (0, 6)
    assert hooked_by(run, CarefulGraph)[0] > 6
    few, all_of_them = both(run)
    assert few == all_of_them
    assert "'max_pool2d'" in few
    assert "'flatten'" in few


def test_a_rule_of_the_users_has_hooks() -> None:
    assert hooked_by(function)[0] > 0
    few, all_of_them = both(function)
    assert few == all_of_them


@pytest.mark.parametrize("find", [torch.max, torch.topk, torch.sort], ids=lambda one: one.__name__)
def test_an_op_of_whose_outputs_one_has_a_gradient_needs_no_hook(find: Callable[..., Any]) -> None:
    def run() -> None:
        x = torch.randn(3, 4).requires_grad_()
        given = (2, 1) if find is torch.topk else (1,)
        (find(x.exp(), *given)[0] * 2).sum().backward()

    assert hooked_by(run)[0] == 0
    few, all_of_them = both(run)
    assert few == all_of_them


def again(leaf: torch.Tensor) -> None:
    (leaf.exp() * leaf.sin()).sum().backward()


def test_of_a_tensor_that_gets_several_gradients_the_givers_have_hooks() -> None:
    leaf = torch.ones(2, requires_grad=True)
    assert hooked_by(partial(again, leaf)) == (2, 4)
    more, _ = hooked_by(lambda: (leaf * 2).sum().backward())  # the leaf has a .grad by now
    assert more > 0


def residual() -> None:
    """A block of a ResNet: its input has two gradients, of a convolution and of the sum."""
    conv = torch.nn.Conv2d(2, 2, 3, padding=1)
    x = torch.randn(2, 2, 4, 4).requires_grad_()
    for _ in range(3):
        x = torch.relu(conv(x) + x)
    x.sum().backward()


def test_of_a_residual_network_a_few_nodes_have_hooks() -> None:
    """The convolutions, whose input and weight have several gradients."""
    assert hooked_by(residual)[0] == 3
    assert hooked_by(residual, CarefulGraph)[0] == 13
    few, all_of_them = both(residual)
    assert few == all_of_them


@pytest.mark.parametrize(("used", "givers"), [((0, 1, 2), 0), ((2,), 0), ((0, 0, 1), 2)], ids=str)
@pytest.mark.parametrize("shared", [False, True])
def test_an_op_with_several_outputs_has_one_hook(used: tuple[int, ...], givers: int, shared: bool) -> None:
    def run() -> None:
        x = torch.linspace(0.1, 1.2, 12).reshape(2, 6).requires_grad_()
        y = x.exp()
        parts = y.chunk(3, 1)
        out = sum((place + 1) * parts[number].sin() for place, number in enumerate(used))
        (out.sum() + (y * y).sum() if shared else out.sum()).backward()

    assert hooked_by(run)[0] == 1 + givers + shared  # the product and the two sines have one, too
    few, all_of_them = both(run)
    assert few == all_of_them
    assert without_tensors(run, hooks=False) == without_tensors(run, hooks=True)


def test_a_backward_that_begins_at_one_of_several_outputs_is_seen() -> None:
    def run() -> None:
        x = torch.linspace(0.1, 1.2, 12).requires_grad_()
        x.exp().chunk(3)[1].backward(torch.ones(4))

    few, all_of_them = both(run)
    assert few == all_of_them


@pytest.mark.parametrize("number", range(1, 6))
def test_a_hook_that_comes_in_a_backward_with_hooks_is_seen(number: int) -> None:
    """The hook comes just before one of five nodes runs, and changes a gradient that arrives later.

    What an op that has run gave to a tensor whose gradient has not arrived yet may be unknown then.
    """
    found: list[Any] = []
    for kind in (AutogradGraph, CarefulGraph):
        x = torch.linspace(0.1, 1.2, 12).requires_grad_()
        unpacked: list[torch.Tensor] = []

        made: list[torch.Tensor] = []

        def unpack(saved: torch.Tensor, unpacked: Any = unpacked, made: Any = made) -> torch.Tensor:
            unpacked.append(saved)
            if len(unpacked) == number:
                made[0].register_hook(_double)
            return saved

        with kind() as graph:
            with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, unpack):
                y = x.exp()
                made.append(y)
                parts = y.chunk(3)
                z = (parts[0].sin() + parts[1] * y[:4]).cos()
            z.sum().backward()
        assert len(unpacked) == 5
        found.append((x.grad.tolist(), seen(graph)))
    assert found[0][0] == found[1][0]
    for (_, gradient, inputs), (_, careful, expected) in zip(found[0][1], found[1][1], strict=True):
        assert repr(gradient) == repr(careful)
        for one, other in zip(inputs, expected, strict=True):
            assert one.gradient is None or repr(one) == repr(other)


def hooks_of(made: Any) -> int:
    """How many hooks a node of torch's has that are called after it."""
    found: list[Any] = []
    register = _HookMixin._register_hook

    def looking(hooks: Any, hook: Any) -> Any:
        found.append(0 if hooks is None else len(hooks))
        return register(hooks, hook)

    _HookMixin._register_hook = staticmethod(looking)
    try:
        made.register_hook(lambda *_: None).remove()
    finally:
        _HookMixin._register_hook = staticmethod(register)
    return int(found[0])


def test_hooks_of_ops_are_gone_after_a_backward_and_after_an_error() -> None:
    x = torch.ones(4, requires_grad=True)
    w = torch.ones(4)
    with AutogradGraph() as graph:
        y = torch.relu(x * w)
        ops = [y.sin(), y.chunk(2)[0], y.exp()]
        z = (ops[0] + ops[1].repeat(2) * ops[2]).sum()
        z.backward(retain_graph=True)
        before = repr(seen(graph))
        x.grad = None
        w.add_(1)  # the first op saved it
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward(retain_graph=True)
    assert before
    assert [hooks_of(one.grad_fn) for one in (*ops, y, z)] == [0] * 5


def test_a_user_can_hook_a_node_that_had_a_hook_of_ours() -> None:
    """torch makes weak references to the table of the hooks of a node, also to the table that we made."""
    x = torch.ones(4, requires_grad=True)
    w = torch.ones(4, requires_grad=True)
    with AutogradGraph():
        y = x.exp()
        s = y.sin()
        (s + y.cos()).sum().backward(retain_graph=True)
        (torch.utils.checkpoint.checkpoint(lambda v: v * w, y, use_reentrant=True) + y * w).sum().backward()
    s.grad_fn.register_hook(lambda *_: None)


def test_a_backward_inside_of_another_is_not_taken_for_it() -> None:
    found = []
    for kind in (AutogradGraph, CarefulGraph):
        x = torch.linspace(0.1, 1.0, 3).requires_grad_()
        inside: list[Any] = []
        with kind() as graph:
            y = x.exp()
            s, c = y.sin(), y.cos()

            def unpack(saved: torch.Tensor, s: Any = s, x: Any = x, inside: Any = inside) -> torch.Tensor:
                if not inside:
                    inside.append(None)
                    inside += torch.autograd.grad(s, x, torch.full((3,), 7.0), retain_graph=True)
                return saved

            with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, unpack):
                z = s * c
            z.sum().backward()
        assert len(inside) == 2
        found.append(repr(seen(graph)))
    assert found[0] == found[1]


def test_a_backward_of_another_thread_is_not_taken_for_it() -> None:
    """It runs between the beginning of ours and its first node."""
    x = torch.linspace(0.1, 1.0, 3).requires_grad_()
    other = torch.ones(3, requires_grad=True)
    engine: Any = torch.autograd.graph.Variable._execution_engine
    run, here = engine.run_backward, threading.get_ident()

    def late(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() == here:
            aside = threading.Thread(target=lambda: theirs.backward(torch.ones(3)))
            aside.start()
            aside.join()
        return run(*args, **kwargs)

    with AutogradGraph() as graph:
        theirs = other.exp().sin()
        loss = (x.exp() * x.cos()).sum()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.autograd.graph.Variable, "_execution_engine", SimpleNamespace(run_backward=late))
            loss.backward()
    found = {record.op.name: record.gradient for record in graph.records if record.op is not None}
    assert all(found[name] is not None for name in ("mul", "cos", "sum"))
    assert other.grad is not None


def test_a_weight_that_autocast_casts_once_has_the_part_of_each_op() -> None:
    net = torch.nn.Linear(3, 3)
    with AutogradGraph() as graph:
        with torch.autocast("cpu", torch.bfloat16):
            x = torch.linspace(0, 1, 6).reshape(2, 3)
            for _ in range(3):
                x = net(x)
        x.float().sum().backward()
    weights = [one for one in graph.records if one.name in ("weight", "bias")]
    given = [one for record in graph.records for one in record.inputs if one.name in ("weight", "bias")]
    assert len(weights) == 2
    assert len(given) == 6
    assert all(one.gradient is not None for one in given)
    for _, parts, whole in parts_and_wholes(graph):
        np.testing.assert_allclose(parts, whole, rtol=0.03)


def parts_and_wholes(graph: AutogradGraph) -> Iterator[tuple[str, Any, Any]]:
    """For each tensor the sum of the gradients that ops gave it, and its gradient, as far as all are known."""
    given: dict[int, list[Any]] = {}
    for record in graph.records:
        for one in record.inputs:
            if one.source is not None:
                given.setdefault(one.source, []).append(one.gradient)
    for record in graph.records:
        parts, whole = given.get(record.id, [None]), record.gradient
        if whole is not None and whole.array is not None and not any(one is None or one.array is None for one in parts):
            yield str(record), sum(one.array for one in parts), whole.array


@pytest.mark.sampled(48)
@pytest.mark.filterwarnings("ignore")  # torch warns about functions that it will remove
@pytest.mark.parametrize("kind", [AutogradGraph, CarefulGraph])
@pytest.mark.parametrize("name", [name for name in opdb.cases() if not name.endswith(opdb.COMPLEX)])
def test_the_gradients_that_ops_give_to_a_tensor_add_up_to_its_gradient(name: str, kind: type[AutogradGraph]) -> None:
    entry = opdb.entries()[name]
    for sample, shared in product(opdb.samples_of(entry, torch.float64)[:3], (False, True)):
        with kind() as graph:
            run(entry, sample, shared=shared)
        for described, parts, whole in parts_and_wholes(graph):
            np.testing.assert_allclose(parts, whole, rtol=1e-9, atol=1e-12, err_msg=described)


def test_a_node_that_was_tapped_once_tells_each_backward_of_its_own() -> None:
    x, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        z = ((x * 2 + b) * 3).sum()
        for _ in range(3):
            x.grad = b.grad = None
            z.backward(retain_graph=True)
    assert TAPS == {}
    assert [record.gradient.values for record in graph.records if record.op is not None and record.gradient] == [
        [3.0, 3.0],
        [3.0, 3.0],
        [1.0, 1.0],
        1.0,
    ]
    before = repr(seen(graph))
    z.backward(retain_graph=True)  # no graph is open
    assert repr(seen(graph)) == before


def test_a_hook_on_a_node_that_was_tapped_is_seen_in_the_next_backward() -> None:
    found = []
    for kind in (AutogradGraph, CarefulGraph):
        x, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
        with kind() as graph:
            y = x * 2 + b
            z = (y * 3).sum()
            z.backward(retain_graph=True)
            x.grad = b.grad = None
            y.register_hook(_double)
            z.backward()
        found.append((repr(seen(graph)), x.grad.tolist()))
    assert found[0] == found[1]


def test_a_hook_that_comes_in_a_backward_is_seen_at_a_node_that_was_tapped() -> None:
    found = []
    for kind in (AutogradGraph, CarefulGraph):
        x, b, w = (torch.ones(2, requires_grad=True) for _ in range(3))
        made: list[torch.Tensor] = []
        w.register_hook(lambda _, made=made: made[0].register_hook(_double) and None)
        with kind() as graph:
            made.append(x * 2 + b)
            (made[0].exp() * w).sum().backward()
        found.append((repr(seen(graph)), x.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_hook_that_comes_in_a_backward_without_hooks_is_seen(number: int) -> None:
    found = []
    for kind in (AutogradGraph, CarefulGraph):
        x = torch.linspace(0.1, 1.0, 4, requires_grad=True)
        with kind() as graph:
            y = x.sin()
            arrived: list[torch.Tensor] = []

            def register(gradient: torch.Tensor, arrived: Any = arrived, y: Any = y) -> None:
                arrived.append(gradient)
                if len(arrived) == number:
                    y.register_hook(_double)

            z = y.exp().cos().sum()
            TAPS[register] = register
            try:
                z.backward()
            finally:
                del TAPS[register]
        assert TAPS == {}
        found.append((repr(seen(graph)), x.grad.tolist()))
    assert found[0] == found[1]


def _changing(register: Callable[[torch.Tensor, torch.Tensor], Any]) -> Callable[[], None]:
    """A program in which a hook changes gradients. ``register`` puts the hook on the tensors in the middle."""

    def run() -> None:
        x = torch.linspace(0.1, 1.0, 4, requires_grad=True)
        y = x.sin()
        z = y.exp()
        register(y, z)
        z.cos().tanh().sum().backward()

    return run


def _double(gradient: torch.Tensor) -> torch.Tensor:
    return 2 * gradient


def _doubles(gradients: Any, *_: Any) -> Any:
    return tuple([2 * one for one in gradients])


def _in_thread(y: torch.Tensor, z: torch.Tensor) -> None:
    thread = threading.Thread(target=y.register_hook, args=(_double,))
    thread.start()
    thread.join()


CHANGES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "a tensor": lambda y, z: y.register_hook(_double),
    "two tensors": lambda y, z: (y.register_hook(_double), z.register_hook(_double)),
    "a tensor, unseen": lambda y, z: _unseen(z),
    "a node, before": lambda y, z: y.grad_fn.register_prehook(_doubles),  # type: ignore[union-attr]
    "a node, after": lambda y, z: z.grad_fn.register_hook(_doubles),  # type: ignore[union-attr]
    "a tensor, in another thread": _in_thread,
    "retained": lambda y, z: (y.retain_grad(), z.retain_grad()),
}


def _unseen(z: torch.Tensor) -> None:
    with torch._C.DisableTorchFunction():
        z.register_hook(_double)


@pytest.mark.parametrize("name", CHANGES)
def test_a_graph_sees_what_a_hook_made_of_a_gradient(name: str) -> None:
    few, all_of_them = both(_changing(CHANGES[name]))
    assert few == all_of_them


def test_a_graph_sees_what_a_hook_made_that_was_there_before_it() -> None:
    found = []
    for kind in (AutogradGraph, CarefulGraph):
        x = torch.linspace(0.1, 1.0, 4, requires_grad=True)
        with AutogradGraph():  # this graph records the ops, too
            y = x.sin()
            z = y.exp()
        y.register_hook(_double)
        with kind() as graph:
            z.cos().sum().backward()
        found.append(repr(seen(graph)))
    assert found[0] == found[1]


@pytest.mark.parametrize("which", ["y", "z"])
def test_a_graph_sees_what_a_hook_made_that_came_while_the_backward_ran(which: str) -> None:
    found = []
    for kind in (AutogradGraph, CarefulGraph):
        x, w = torch.linspace(0.1, 1.0, 4, requires_grad=True), torch.ones(4, requires_grad=True)
        made: dict[str, torch.Tensor] = {}
        w.register_hook(lambda _, made=made: made[which].register_hook(_double) and None)
        with kind() as graph:
            made["y"] = x.sin()
            made["z"] = made["y"].exp()
            (made["z"] * w).sum().backward()
        found.append(repr(seen(graph)))
    assert found[0] == found[1]


@pytest.mark.parametrize("accumulates", [True, False])
def test_a_gradient_that_a_hook_changes_when_it_arrives_is_known_as_it_was_given(accumulates: bool) -> None:
    """A backward that accumulates has hooks. Otherwise a tap reports the gradient before the user's hook runs."""
    found = []
    for kind in (AutogradGraph, CarefulGraph):
        x, w = torch.linspace(0.1, 1.0, 4, requires_grad=True), torch.ones(4, requires_grad=True)
        w.grad = torch.zeros(4) if accumulates else None
        made: list[torch.Tensor] = []

        def unpack(saved: torch.Tensor, made: list[torch.Tensor] = made) -> torch.Tensor:
            made.pop().register_hook(_double)
            return saved

        with kind() as graph:
            made.append(x.sin())
            with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved, unpack):
                z = made[0].exp()
            (-z * w).sum().backward()
        found.append(seen(graph))
    gradients = [repr([(op, gradient) for op, gradient, _ in one]) for one in found]
    assert gradients[0] == gradients[1]
    (given,), (known,) = (inputs for which in found for op, _, inputs in which if op == "exp")
    assert known.gradient is not None
    assert given.gradient == known.gradient


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_the_graph_can_be_drawn_and_asked(program: Program, tmp_path: Any) -> None:
    _, graph = recorded(program)
    for suffix in ("svg", "html", "json", "txt"):
        graph.save(tmp_path / f"graph.{suffix}")
    assert isinstance(graph.findings(), list)
    assert isinstance(graph.unreached(), list)


def flat(value: Any) -> list[torch.Tensor]:
    return [one for one in tree_leaves(value) if isinstance(one, torch.Tensor)]


def run(entry: Any, sample: Any, *, shared: bool = False) -> Gradients:
    """The gradients of the squares of the results. If ``shared``, another op gives a gradient to each input, too."""
    inputs = [one for one in opdb.leaves_of(sample) if isinstance(one, torch.Tensor) and one.requires_grad]
    for one in inputs:
        one.grad = None
    torch.manual_seed(0)
    outs = [one for one in flat(entry(sample.input, *sample.args, **sample.kwargs)) if one.requires_grad]
    outs += inputs if shared else []
    if outs:
        torch.autograd.backward([(one.abs() ** 2 if one.is_complex() else one * one).sum() for one in outs])
    return [one.grad for one in inputs]


@pytest.mark.parametrize("size", [3, 300, 100_000])
def test_a_gradient_of_zeros_without_memory_is_recorded(size: int) -> None:
    x = torch.ones(size, requires_grad=True)
    with AutogradGraph() as graph:
        torch.sgn(x).sum().backward()
    assert x.grad is not None
    assert x.grad._is_zerotensor()
    (leaf,) = (record for record in graph.records if record.op is None)
    assert leaf.gradient is not None
    assert leaf.gradient.norm == 0
    assert [finding.kind for finding in graph.findings()] == ["zero gradient"]


@pytest.mark.sampled(24)
@pytest.mark.filterwarnings("ignore")  # torch warns about functions that it will remove
@pytest.mark.parametrize("name", [name for name in opdb.cases() if not name.endswith(opdb.COMPLEX)])
def test_an_op_of_torchs_database_gives_the_same_and_its_inputs_have_their_gradients(name: str) -> None:
    entry = opdb.entries()[name]
    sample = opdb.samples_of(entry, torch.float64)[0]
    plain = [None if one is None else one.clone() for one in run(entry, sample)]
    with AutogradGraph() as graph:
        made = run(entry, sample)
    assert alike(plain, made)
    found = {record.id: record for record in graph.records}
    for one in flat(opdb.leaves_of(sample)):
        if one.grad is None or one.grad.numel() == 0 or one.grad.layout is not torch.strided:
            continue
        origin = known_origin(one)
        assert origin is not None
        assert origin.seq in found
        gradient = found[origin.seq].gradient
        values = torch.view_as_real(one.grad.resolve_conj()) if one.grad.is_complex() else one.grad
        want = float(torch.linalg.vector_norm(values.double()))
        assert gradient is not None
        assert gradient.norm == pytest.approx(want, rel=1e-6, abs=1e-12, nan_ok=True)


# The picture.


def test_modules_are_boxes_and_ops_have_the_names_of_the_rows() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
    x = torch.randn(5, 3)
    with AutogradGraph() as graph:
        loss = net(x).pow(2).mean()
        loss.backward()
    ops = {record.op.name: record for record in graph.records if record.op is not None}
    assert list(ops) == ["linear", "relu", "pow", "mean"]
    assert all(type(record.op).__name__ == "Op" for record in ops.values())
    assert ops["relu"].scope is not None
    assert ops["relu"].scope.path() == ("Sequential", "1 (ReLU)")
    assert [(r.name, r.kind) for r in graph.records if r.op is None] == [
        ("x", "constant"),
        *[("weight", "parameter"), ("bias", "parameter")] * 2,
    ]
    assert ops["mean"].name == "loss"
    assert ops["mean"].root
    assert ops["mean"].place is not None
    assert "pow(2).mean()" in ops["mean"].place.text


def test_a_forward_may_have_an_argument_of_any_name() -> None:
    class Net(torch.nn.Module):
        def forward(self, *, module: torch.Tensor, args: float) -> torch.Tensor:
            return module * args

    x = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        Net()(module=x, args=2.0).sum().backward()
    assert [record.op.name for record in graph.records if record.op is not None] == ["mul", "sum"]


def test_a_change_of_a_view_is_drawn_as_one_of_what_it_is_a_view_of() -> None:
    x, w = torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
    with AutogradGraph() as graph:
        y = x * 2
        z = y[:, 1]
        z.mul_(w)
        (y.sum() + z.exp().sum()).backward()
    ops = [(record.op.name, tuple(record.shape)) for record in graph.records if record.op is not None]
    assert ops == [
        *(("mul", (4, 3)), ("mul_", (4, 3)), ("sum", ()), ("as_strided", (4,)), ("exp", (4,)), ("sum", ()), ("add", ()))
    ]
    (changed,) = [record for record in graph.records if record.op is not None and record.op.name == "mul_"]
    assert changed.gradient is not None
    assert changed.place is not None
    assert changed.place.text.strip() == "z.mul_(w)"
    assert [one.reduction for one in changed.inputs] == [None, None]


def test_a_result_that_is_a_view_inside_of_its_op_is_changed_like_any_other() -> None:
    x, b = torch.randn(2, 3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    with AutogradGraph() as graph:
        y = torch.einsum("btc,tu->buc", x, torch.randn(3, 5))
        y += b
        y.square().sum().backward()
    assert [record.op.name for record in graph.records if record.op is not None] == ["einsum", "add_", "square", "sum"]
    assert all(record.gradient is not None for record in graph.records if record.kind == "leaf")


def test_each_broadcast_has_its_reduction_with_the_terms_of_the_sum() -> None:
    x, b, s = torch.randn(4, 3), torch.randn(3, requires_grad=True), torch.randn((), requires_grad=True)
    with AutogradGraph() as graph:
        (x + b).mul(s).sum().backward()
    found = {str(undone) for record in graph.records for one in record.inputs if (undone := one.reduction) is not None}
    assert found == {"(4, 3) -> (3,): sum dim 0", "(4, 3) -> (): sum dims 0, 1"}


def test_the_bias_of_a_linear_layer_is_a_reduction_too() -> None:
    net = torch.nn.Linear(3, 2)
    with AutogradGraph() as graph:
        net(torch.randn(5, 3)).sum().backward()
    (linear,) = [record for record in graph.records if record.op is not None and record.op.name == "linear"]
    assert [str(one.reduction) for one in linear.inputs] == ["None", "None", "(5, 2) -> (2,): sum dim 0"]


def test_values_and_gradients_of_small_tensors_are_kept() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        y = x * 3
        y.sum().backward()
    leaf, op, _ = graph.records
    assert leaf.value is not None
    assert leaf.value.array is not None
    assert leaf.value.array.tolist() == [1, 2]
    assert op.value is not None
    assert op.value.array is not None
    assert op.value.array.tolist() == [3, 6]
    assert leaf.gradient is not None
    assert leaf.gradient.array is not None
    assert leaf.gradient.array.tolist() == [3, 3]


def test_the_value_of_an_op_is_what_it_made_also_where_it_is_changed_in_place_later() -> None:
    x = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        y = x * 2
        y.add_(1)
        y.sum().backward()
    values = [record.value.values for record in graph.records if record.op is not None and record.value is not None]
    assert values == [[2, 2], [3, 3], 6]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64])
def test_values_are_the_same_however_they_lie_in_memory(dtype: torch.dtype) -> None:
    x = torch.arange(6).reshape(2, 3).to(dtype).requires_grad_()
    with AutogradGraph() as graph:
        turned = (x * 2).t()
        made = [x * 2, turned, turned * 3, x[:, 1], x[0] + 1, torch._neg_view(x), x.expand(4, 2, 3), x[:0] * 2, x[1, 1]]
        sum([one.sum().abs() for one in made], torch.zeros(())).backward()  # type: ignore[union-attr]
    shown = {str(record.value.values) for record in graph.records if record.value is not None}
    assert not {str(one.tolist()) for one in made if one.numel()} - shown


@pytest.mark.parametrize("count", [1024, 1025])
def test_the_values_of_so_many_elements_are_kept(count: int) -> None:
    x = torch.ones(count, requires_grad=True)
    with AutogradGraph() as graph:
        y = x * 2
        y.sum().backward()
    kept = [record.value is not None for record in graph.records if record.op is not None]
    assert kept == [count <= SMALL, True]


@pytest.mark.filterwarnings(
    "ignore:Using `torch.compile"
)  # of global hooks of modules, which another test may have left
def test_a_compiled_module_runs_as_compiled_and_is_one_op() -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()  # of other tests
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    run, x = torch.compile(net, backend="aot_eager"), torch.randn(5, 3)
    with AutogradGraph():  # the first call may come inside a graph
        run(x).sum().backward()
    graphs = counters["stats"]["unique_graphs"]
    plain = [one.grad.clone() for one in net.parameters() if one.grad is not None]
    net.zero_grad()
    with AutogradGraph() as graph:
        run(x).sum().backward()
    assert counters["stats"]["unique_graphs"] == graphs
    assert not counters["graph_break"]
    assert alike(plain, [one.grad for one in net.parameters()])
    compiled, _ = [record for record in graph.records if record.op is not None]
    assert compiled.op is not None
    assert compiled.op.name == "CompiledFunction"
    assert {record.name for record in graph.records if record.kind == "parameter"} == {"0.weight", "0.bias"}


def test_torch_and_nbgrad_can_share_a_graph() -> None:
    a, b = torch.ones(2, requires_grad=True), nbgrad.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        (a * 2).sum().backward()
        (b * 3).sum().backward()
    assert graph.backwards == 2
    assert [record.name for record in graph.records if record.kind == "leaf"] == ["b"]
    assert a.grad is not None
    assert a.grad.tolist() == [2, 2]


# Errors, and what is left.


def test_an_op_that_raises_is_the_failure_of_the_graph() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    with AutogradGraph() as graph, pytest.raises(RuntimeError) as caught:
        x @ torch.ones(2, 3)
    failure = graph.failure(caught.value)
    assert failure is not None
    assert failure.op == "matmul"
    assert [one.what for one in failure.operands] == ["(2, 3) float32", "(2, 3) float32"]


@pytest.mark.parametrize("watch", [True, False])
def test_the_failure_of_a_backward_has_the_sums_that_undo_broadcasts(watch: bool) -> None:
    b, x = torch.ones(3, requires_grad=True), torch.ones(2, 3)
    with AutogradGraph(watch=watch) as graph:
        y = (b * x).exp()
        loss = (y + b).sum()
        y.detach().add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as caught:
            loss.backward()
    failure = graph.failure(caught.value)
    assert failure is not None
    assert failure.frame is not None
    undone = [str(one) for one in failure.frame.reductions.values()]
    # With hooks the graph knows how far the backward came; without them it knows only what each op needs.
    assert undone == ["(2, 3) -> (3,): sum dim 0"] * (1 if watch else 2)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_torch_is_as_it_was_after_an_error(error: type[BaseException]) -> None:
    before = replaced()

    def fail(_: Any) -> None:
        raise error

    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(fail)
    with pytest.raises(error), AutogradGraph():
        y.sum().backward()
    assert replaced() == before
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3]


def in_place(x: torch.Tensor) -> torch.Tensor:
    y = x * 1
    return y.log_()


MAKES_NAN = {
    "sqrt": (torch.sqrt, -1.0, "forward", "square root of a negative number: x[0] = -1"),
    "log_": (in_place, -1.0, "forward", "log"),
    "a method": (lambda x: (x - 2).pow(0.5), 1.0, "forward", ""),
    "backward": (lambda x: torch.where(x > 0, torch.sqrt(x), x * 0), 0.0, "backward", ""),
    "a function of torch's alone": (lambda x: torch.special.zeta(x, torch.tensor([0.5])) * x, 0.5, "forward", ""),
}


@pytest.mark.parametrize("name", MAKES_NAN)
def test_an_anomaly_of_torchs_ops_is_found_where_it_begins(name: str) -> None:
    function, number, phase, cause = MAKES_NAN[name]
    x = torch.tensor([number], requires_grad=True)
    with nbgrad.record(view="none", anomaly=True), pytest.raises(nbgrad.AnomalyError) as caught:
        (function(x) * 2).sum().backward()
    assert caught.value.phase == phase
    assert caught.value.place is not None
    assert caught.value.place.file == __file__
    assert cause in caught.value.cause
    assert "passed on" not in str(caught.value)
    y = torch.ones(2, requires_grad=True)
    y.sum().backward()
    assert y.grad is not None  # torch is as it was


def test_an_anomaly_names_the_parameter_of_a_module() -> None:
    net = torch.nn.Linear(2, 1)
    with torch.no_grad():
        net.weight[0, 1] = torch.nan
    with (
        nbgrad.record(view="none", anomaly=True),
        pytest.raises(nbgrad.AnomalyError, match="'weight', an input, holds nan"),
    ):
        net(torch.ones(3, 2))


def test_an_op_that_passes_a_mask_on_is_no_anomaly() -> None:
    scores = torch.ones(2, 2, requires_grad=True)
    with nbgrad.record(view="none", anomaly=True) as graph:
        torch.softmax(scores + torch.tensor([0.0, -torch.inf]), 1).sum().backward()
    assert graph.backwards == 1


def test_strict_broadcast_looks_at_torchs_ops() -> None:
    x = torch.ones(2, requires_grad=True)
    with nbgrad.record(view="none", strict_broadcast=True):
        with pytest.raises(nbgrad.BroadcastError, match="add of x of shape"):
            x + torch.ones(3, 1)
        torch.nn.functional.mse_loss(x * 2.0, torch.ones(2))


def through_no_grad(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return x.relu()


ENDS: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "detach": (lambda x: x.detach(), "the result of linear is cut off by detach() at"),
    "data": (lambda x: x.data * 2, "the result of linear is cut off by .data at"),
    "no_grad": (through_no_grad, "used by relu inside no_grad(), at"),
    "argmax": (lambda x: x.argmax(1, keepdim=True).float(), "used by argmax at"),
    "item": (lambda x: torch.tensor([x.sum().item()]), "the result of linear"),
    "behind": (lambda x: torch.cat([x.detach()]).exp(), "cut off by detach() at"),
}


@pytest.mark.parametrize("name", ENDS)
def test_a_finding_says_where_the_path_to_a_parameter_of_torchs_ends(name: str) -> None:
    function, said = ENDS[name]
    net = torch.nn.ModuleList([torch.nn.Linear(2, 3), torch.nn.LazyLinear(1)])
    net[1](function(net[0](torch.ones(2, 2))))
    with AutogradGraph() as graph:
        net[1](function(net[0](torch.ones(2, 2)))).sum().backward()
    unreached = graph.unreached(net)
    assert [one.name for one in unreached] == ["0.weight", "0.bias"]
    assert all(said in str(one) for one in unreached)


def test_an_error_of_a_backward_has_a_note_on_the_frozen_parameters() -> None:
    net = torch.nn.Linear(2, 1).requires_grad_(False)
    with AutogradGraph(), pytest.raises(RuntimeError) as caught:
        net(torch.ones(2, 2)).sum().backward()
    assert "Linear.weight and Linear.bias are frozen" in " ".join(caught.value.__notes__)


def backward_twice(x: torch.Tensor) -> None:
    y = x.exp().sum()
    y.backward()
    y.backward()


def changed_in_place(x: torch.Tensor) -> None:
    y = x.exp()
    z = y * y
    y.add_(1)
    z.sum().backward()


def unused_input(x: torch.Tensor) -> None:
    torch.autograd.grad(x.sum(), [torch.ones(1, requires_grad=True)])


def failing_hook(x: torch.Tensor) -> None:
    def fail(_: Any) -> None:
        raise KeyError("mine")

    y = x * 2
    y.register_hook(fail)
    y.sum().backward()


ERRORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "no gradient": lambda x: x.detach().sum().backward(),
    "no gradient of several": lambda x: torch.autograd.backward([x.sum(), x.detach().sum()]),
    "no gradient, asked for": lambda x: torch.autograd.grad(x.detach().sum(), x),
    "no scalar": lambda x: (x * 2).backward(),
    "a wrong seed": lambda x: (x * 2).backward(torch.ones(3)),
    "twice": backward_twice,
    "in place": changed_in_place,
    "unused": unused_input,
    "a hook": failing_hook,
    "a leaf in place": lambda x: x.add_(1),
    "numpy": lambda x: (x * 2).numpy(),
    "shapes": lambda x: x @ torch.ones(5, 5),
    "a copy": lambda x: copy.deepcopy(x * 2),
    "a truth": lambda x: bool(x * 2),
    "a name": lambda x: (x * 2).nothing,
    "integers": lambda x: (x * 2).long().requires_grad_(),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_fails_in_torch_fails_with_the_same_words_in_a_graph(name: str) -> None:
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(Exception) as plain:  # noqa: PT011  # of any kind
        ERRORS[name](x)
    x = torch.ones(2, requires_grad=True)
    with AutogradGraph(), pytest.raises(Exception) as recorded:  # noqa: PT011
        ERRORS[name](x)
    assert type(recorded.value) is type(plain.value)
    assert str(recorded.value) == str(plain.value)


def test_nothing_of_a_program_stays_alive() -> None:
    class Big(torch.nn.Linear):
        pass

    with AutogradGraph() as graph:
        net, x = Big(64, 64), torch.randn(8, 64)
        loss = net(x).square().sum()
        loss.backward()
        assert loss.grad_fn is not None
        kept: list[Any] = [net, x, loss, net.weight, loss.grad_fn.metadata["nbgrad"]]
        held = [weakref.ref(one) for one in kept]
        del net, x, loss, kept
    gc.collect()
    assert [one() for one in held] == [None] * 5
    assert len(graph.records) == 6


def test_a_module_whose_class_holds_it_does_not_stay_alive() -> None:
    with AutogradGraph() as graph:
        net = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 3))  # a class of its own
        net(torch.randn(4, 2)).sum().backward()
        held = [weakref.ref(one) for one in (net, *net.parameters())]
        del net
    gc.collect()
    assert [one() for one in held] == [None] * 4
    assert {record.scope.label for record in graph.records if record.scope} >= {"ParametrizedLinear"}


def test_a_retained_graph_keeps_no_hook() -> None:
    x = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        y = (x * x).sum()
        y.backward(retain_graph=True)
    count = graph.backwards
    y.backward()
    assert graph.backwards == count == 1


@pytest.mark.rotated(3)
def test_a_chain_of_many_ops_is_let_go_of() -> None:
    limit = sys.getrecursionlimit()
    x = torch.ones(1, requires_grad=True)
    with AutogradGraph(watch=False):
        y = x
        for _ in range(20 * limit):
            y = y + 1
        y.backward()
        del y
    assert x.grad is not None
    assert x.grad.item() == 1


def test_another_thread_is_not_recorded() -> None:
    x = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        thread = threading.Thread(target=lambda: (x * 2).sum().backward())
        thread.start()
        thread.join()
    assert not graph.records
    assert x.grad is not None


def test_a_mode_of_the_users_stays_where_it_is() -> None:
    class Mode(torch.overrides.TorchFunctionMode):
        seen = 0

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.seen += 1
            return function(*args, **(kwargs or {}))

    x = torch.ones(2, requires_grad=True)
    graph = AutogradGraph()
    graph.__enter__()
    with Mode() as mode:
        x * 2
        graph.__exit__(None, None, None)
        assert torch._C._len_torch_function_stack() == 1
        seen = mode.seen
        x * 3
        assert mode.seen > seen
    assert [record.op.name for record in graph.records if record.op] == []


def test_what_runs_without_a_gradient_is_not_recorded() -> None:
    x = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        with torch.no_grad():
            x * 2
        torch.ones(2) * 2
        x.detach() * 2
    assert not graph.records


def test_torch_func_keeps_its_tensors_to_itself() -> None:
    net = torch.nn.Linear(4, 1)
    x = torch.randn(3, 4)

    def loss(parameters: Any) -> Any:
        return torch.func.functional_call(net, parameters, (x,)).sum()

    given = dict(net.named_parameters())
    plain = torch.func.grad(loss)(given)
    with AutogradGraph() as graph:
        made = torch.func.grad(loss)(given)
        torch.func.vmap(torch.func.jacrev(torch.sin))(x)
    assert alike(list(plain.values()), list(made.values()))
    assert graph.backwards == 0


def test_many_gradients_at_once_keep_their_tensors_to_themselves() -> None:
    x = torch.randn(3, requires_grad=True)
    y = x.exp() * x
    plain = torch.autograd.grad(y, x, torch.eye(3), retain_graph=True, is_grads_batched=True)[0]
    with AutogradGraph() as graph:
        made = torch.autograd.grad(y, x, torch.eye(3), create_graph=True, is_grads_batched=True)[0]
        made.square().sum().backward()
        jacobian = torch.autograd.functional.jacobian(torch.sin, x.detach(), vectorize=True)
    assert torch.equal(plain, made)
    assert torch.equal(jacobian, torch.diag(x.detach().cos()))
    assert graph.backwards == 1
    assert x.grad is not None
    assert any(record.kind == "leaf" and record.gradient is not None for record in graph.records)


def test_threads_may_open_and_close_graphs_at_the_same_time() -> None:
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(10):
                x = torch.ones(2, requires_grad=True)
                with AutogradGraph() as graph:
                    (x * 2).sum().backward()
                assert graph.backwards == 1
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed, failed[0]


@pytest.mark.parametrize(
    ("gradients", "said"),
    [
        (False, "linear, relu of torch ran here, but with gradients off"),
        (True, "but on no tensor that needs a gradient"),
    ],
)
def test_an_empty_graph_says_what_ran_instead(gradients: bool, said: str) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()).requires_grad_(not gradients)
    with AutogradGraph() as graph, torch.set_grad_enabled(gradients):
        net(torch.ones(1, 2))
    assert said in " ".join(describe(graph)["notes"])


def test_what_makes_a_tensor_of_nothing_is_not_said_to_have_run() -> None:
    with AutogradGraph() as graph:
        torch.ones(2, 3)
    assert not Evidence(graph).left_out()


class _Weighed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(weights)
        return x * weights

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (weights,) = ctx.saved_tensors
        return gradients[0] * weights, None


def test_copies_of_the_constants_of_a_function_live_as_long_as_its_calls() -> None:
    x = torch.ones(2, requires_grad=True)
    with AutogradGraph() as graph:
        y = _Weighed.apply(x, torch.tensor([2.0, 3.0]))
        y.sum().backward()
    call = Evidence(graph).function_call(graph.records[1].id)
    assert call is not None
    assert [one.tolist() for one in call.constants] == [[2.0, 3.0]]
    copied = weakref.ref(call.constants[0])
    del y, call, graph
    gc.collect()
    assert copied() is None
