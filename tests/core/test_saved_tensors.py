"""Hooks on saved tensors, graph edges, hooks on several tensors: values, calls and errors are torch's."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad import nn
from tests.core.programs import OURS, TORCH, Library, agree, plain

Program = Callable[[Library], tuple[Any, ...]]


class Log:
    """A pair of hooks that write down what they are called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def pack(self, tensor: Any) -> Any:
        self.calls.append(("pack", tuple(tensor.shape), tensor.detach().sum().item()))
        return ("kept", tensor.detach())

    def unpack(self, kept: Any) -> Any:
        self.calls.append(("unpack", tuple(kept[1].shape)))
        assert kept[0] == "kept"
        return kept[1]


def a_chain(lib: Library) -> tuple[Any, ...]:
    a, log = lib.leaf(1.0, 2.0, 3.0), Log()
    b = lib.leaf(1.0, 1.0, 1.0) * 2
    with lib.ops.autograd.graph.saved_tensors_hooks(log.pack, log.unpack):
        y = (a * b).exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    return a.grad, log.calls


def a_second_derivative(lib: Library) -> tuple[Any, ...]:
    a, log = lib.leaf(1.0, 2.0, 3.0), Log()
    with lib.ops.autograd.graph.saved_tensors_hooks(log.pack, log.unpack):
        y = (a * a).exp().sum()
        (first,) = lib.grad(y, a, create_graph=True)
    (second,) = lib.grad(first.sum(), a)
    return first, second


def the_innermost_alone(lib: Library) -> tuple[Any, ...]:
    a, outer, inner = lib.leaf(1.0, 2.0), Log(), Log()
    hooks = lib.ops.autograd.graph.saved_tensors_hooks
    with hooks(outer.pack, outer.unpack):
        y = a.exp()
        with hooks(inner.pack, inner.unpack):
            y = y.sin()
        y = y.cos()
    y = y.tanh()
    y.sum().backward()
    return a.grad, outer.calls, inner.calls


def what_is_changed_in_between(lib: Library) -> tuple[Any, ...]:
    """torch does not check the version of a packed tensor."""
    a = lib.leaf(1.0, 2.0)
    b = a * 1
    with lib.ops.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
        y = b.exp().sin() * b
    b.mul_(5)
    y.sum().backward()
    return (a.grad,)


def in_place(lib: Library) -> tuple[Any, ...]:
    a, log = lib.leaf(1.0, 2.0), Log()
    with lib.ops.autograd.graph.saved_tensors_hooks(log.pack, log.unpack):
        y = a * 1.5
        y.exp_()
        y[0] = 3.0
        y = y.sigmoid_() * y.detach()
    y.sum().backward()
    return a.grad, log.calls


def a_function_of_the_users(lib: Library) -> tuple[Any, ...]:
    log, seen = Log(), []

    class Cube(lib.ops.autograd.Function):  # type: ignore[name-defined, misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, None)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, nothing = ctx.saved_tensors
            seen.append(nothing)
            return g * 3 * x**2

    a = lib.leaf(1.0, 2.0)
    with lib.ops.autograd.graph.saved_tensors_hooks(log.pack, log.unpack):
        y = Cube.apply(a)
    y.sum().backward()
    return a.grad, log.calls, seen


def layers(lib: Library) -> tuple[Any, ...]:
    torch.manual_seed(0)
    net = lib.ops.nn.Sequential(lib.ops.nn.Linear(3, 4), lib.ops.nn.ReLU(), lib.ops.nn.Linear(4, 1)).double()
    x, shapes = lib.constant([[1.0, 2.0, 3.0]]), []

    def pack(tensor: Any) -> Any:
        shapes.append(tuple(tensor.shape))
        return tensor.detach()

    with lib.ops.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        net(x).sum().backward()
    return *(one.grad for one in net.parameters()), len(shapes)


def on_the_cpu(lib: Library) -> tuple[Any, ...]:
    a = lib.leaf(1.0, 2.0)
    for settings in ({}, {"pin_memory": True}):
        with lib.ops.autograd.graph.save_on_cpu(**settings):
            (a.exp() * a).sum().backward()
    return (a.grad,)


def mutation(lib: Library) -> tuple[Any, ...]:
    a = lib.leaf(1.0, 2.0)
    with lib.ops.autograd.graph.allow_mutation_on_saved_tensors():
        b = a.clone()
        y = (b**2 * b.exp()).sum()
        b.sin_()
        y.backward()
    return a.grad, b


def several_gradients(lib: Library) -> tuple[Any, ...]:
    a, b, c = lib.leaf(1.0), lib.leaf(2.0), lib.leaf(3.0)
    y = a * b
    seen: list[Any] = []
    register = lib.ops.autograd.graph.register_multi_grad_hook

    def note(gradients: Any) -> None:
        seen.append([None if one is None else one.item() for one in gradients])

    handle = register((a, b, c, y), note)
    ((y * 2) * c).sum().backward(retain_graph=True)
    y.exp().backward(retain_graph=True)  # c is not used here
    (y * 3).backward(inputs=[a], retain_graph=True)  # b is not asked for here
    handle.remove()
    y.backward(retain_graph=True)
    with register([a, y, c.detach()], lambda one: seen.append(one.item()), mode="any"):
        y.backward(retain_graph=True)
        y.backward()
    return seen, a.grad, b.grad, c.grad


def edges(lib: Library) -> tuple[Any, ...]:
    a = lib.leaf(1.0, 2.0)
    y = a * 3
    graph = lib.ops.autograd.graph
    leaf, inner = graph.get_gradient_edge(a), graph.get_gradient_edge(y)
    loss = (y**2).sum()
    (at_y,) = lib.grad(loss, inner, retain_graph=True)
    (at_a,) = lib.grad(loss, leaf, retain_graph=True)
    (from_y,) = lib.grad(inner, a, lib.constant(1.0, 5.0), retain_graph=True)
    lib.ops.autograd.backward(loss, inputs=[a])
    first, second = lib.constant([[1.0, 2.0], [3.0, 4.0]]).requires_grad_().unbind()
    part = graph.get_gradient_edge(second)
    (of_part,) = lib.grad((first * second).sum(), part)
    kinds = isinstance(y.grad_fn, graph.Node), inner.node is y.grad_fn, inner.output_nr, part.output_nr
    y.grad_fn.metadata["mine"] = 3
    return at_y, at_a, from_y, a.grad, of_part, kinds, y.grad_fn.metadata


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize(
    "program",
    [
        *(a_chain, a_second_derivative, the_innermost_alone, what_is_changed_in_between, in_place),
        *(a_function_of_the_users, on_the_cpu, mutation, several_gradients, edges),
    ],
    ids=lambda program: program.__name__,
)
def test_what_a_graph_keeps_is_packed_as_in_torch(program: Program) -> None:
    agree(program)


def test_layers_under_hooks_have_their_gradients() -> None:
    ours, theirs = layers(OURS), layers(TORCH)
    for mine, yours in zip(ours[:-1], theirs[:-1], strict=True):
        torch.testing.assert_close(plain(mine), plain(yours))
    assert ours[-1] > 0


def in_torchs(context: Any) -> tuple[Any, ...]:
    a = OURS.leaf(1.0, 2.0)
    with context:
        y = (a * a).exp().sum()
    y.backward()
    return (a.grad,)


def test_torchs_own_contexts_reach_nbgrads_ops() -> None:
    log = Log()
    (grad,) = in_torchs(torch.autograd.graph.saved_tensors_hooks(log.pack, log.unpack))
    assert [call[0] for call in log.calls] == ["pack"] * 3 + ["unpack"] * 3
    (plainly,) = in_torchs(nbgrad.enable_grad())
    torch.testing.assert_close(grad.data, plainly.data)
    (grad,) = in_torchs(torch.autograd.graph.save_on_cpu(pin_memory=True))
    torch.testing.assert_close(grad.data, plainly.data)
    kinds: list[type] = []
    in_torchs(torch.autograd.graph.saved_tensors_hooks(lambda t: kinds.append(type(t)) or t, lambda t: t))
    assert set(kinds) == {torch.Tensor}
    a = nbgrad.ones(2, requires_grad=True)
    a.exp().sum().backward()  # outside of the with block nothing is packed
    assert len(log.calls) == 6
    assert a.grad is not None


def test_torchs_own_hooks_still_pack_what_is_torchs() -> None:
    log, t = Log(), torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(log.pack, log.unpack):
        t.exp().sum().backward()
    assert [call[0] for call in log.calls] == ["pack", "unpack"]


def raised(run: Callable[[], Any]) -> tuple[type, str]:
    with pytest.raises((RuntimeError, TypeError, ValueError)) as caught:
        run()
    return caught.type, str(caught.value)


def test_errors_are_torchs() -> None:
    def errors(lib: Library) -> list[Any]:
        graph, a = lib.ops.autograd.graph, lib.leaf(1.0, 2.0)

        def within(first: Any, second: Any) -> None:
            with first, second:
                a.exp()

        def twice() -> None:
            with graph.allow_mutation_on_saved_tensors(), graph.allow_mutation_on_saved_tensors():
                pass

        def no_tensor() -> None:
            with graph.saved_tensors_hooks(lambda t: t, lambda _: 3):
                y = a.exp()
            y.sum().backward()

        def hooks() -> Any:
            return graph.saved_tensors_hooks(lambda t: t, lambda t: t)

        def off(message: str = "not here") -> Any:
            return graph.disable_saved_tensors_hooks(message)

        found = [
            raised(lambda: within(off(), hooks())),
            raised(lambda: within(hooks(), off())),
            raised(lambda: within(off(), graph.save_on_cpu())),
            raised(no_tensor),
            raised(twice),
            raised(lambda: graph.get_gradient_edge(lib.constant(1.0))),
            raised(lambda: graph.register_multi_grad_hook([a], print, mode="some")),
        ]
        within(off(), off())
        within(hooks(), hooks())
        return found

    assert errors(OURS) == errors(TORCH)
    for lib in (OURS, TORCH):
        with pytest.raises(RuntimeError, match=r"pack hook .*in place"):
            in_torchs(lib.ops.autograd.graph.saved_tensors_hooks(lambda t: t.add_(1), lambda t: t))


def test_a_pack_hook_that_raises_leaves_nothing_behind() -> None:
    a = nbgrad.ones(2, requires_grad=True)

    def fail(_: Any) -> Any:
        raise KeyError("disk")

    for context in (nbgrad.autograd.graph.saved_tensors_hooks, torch.autograd.graph.saved_tensors_hooks):
        with pytest.raises(KeyError, match="disk"), context(fail, fail):
            a.exp()
        a.exp().sum().backward()
    assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None


def test_a_changed_version_is_an_error_of_the_backward() -> None:
    def run(lib: Library) -> bool:
        a = lib.leaf(1.0, 2.0)
        b = a * 1
        y = b.exp() * b
        for given in (b, [b]):
            lib.ops.autograd.graph.increment_version(given)
        with pytest.raises(RuntimeError, match="version"):
            y.sum().backward()
        return True

    assert run(OURS)
    assert run(TORCH)


def test_inside_a_checkpoint_its_own_way_holds() -> None:
    a, log = nbgrad.ones(2, requires_grad=True), Log()
    with nbgrad.autograd.graph.saved_tensors_hooks(log.pack, log.unpack):
        y = nbgrad.checkpoint(lambda t: t.exp().sin(), a)
    assert log.calls == []
    y.sum().backward()
    assert a.grad is not None
    first = a.grad.clone()

    def packing(t: Any) -> Any:
        with nbgrad.autograd.graph.saved_tensors_hooks(log.pack, log.unpack):
            return t.exp().sin()

    a.grad = None
    b = a * 1
    b.mul_(1)  # its version is now 1
    nbgrad.checkpoint(packing, b).sum().backward()
    torch.testing.assert_close(a.grad.data, first.data)
    assert [call[0] for call in log.calls] == ["pack", "pack", "unpack", "unpack"]


def test_what_was_packed_goes_after_the_backward() -> None:
    from weakref import ref

    class Kept:
        def __init__(self, tensor: Any) -> None:
            self.tensor = tensor.clone()

    kept: list[Any] = []

    def pack(tensor: Any) -> Kept:
        made = Kept(tensor)
        kept.append(ref(made))
        return made

    a = nbgrad.ones(2, requires_grad=True)
    with nbgrad.autograd.graph.saved_tensors_hooks(pack, lambda one: one.tensor):
        y = a.exp().sum()
    assert [one() is not None for one in kept] == [True]
    y.backward()
    assert [one() for one in kept] == [None]
    with pytest.raises(RuntimeError, match=r"backward through exp.*a second time"):
        y.backward()


def test_a_graph_and_anomaly_detection_see_through_it() -> None:
    a, log = nbgrad.tensor([0.0, 1.0], requires_grad=True), Log()
    with nbgrad.detect_anomaly(), nbgrad.autograd.graph.saved_tensors_hooks(log.pack, log.unpack):
        y = a.sqrt().sqrt().sum()
        with pytest.raises(RuntimeError, match=r"backward of sqrt.*"):
            y.backward()
    with nbgrad.AutogradGraph() as graph, nbgrad.autograd.graph.saved_tensors_hooks(log.pack, log.unpack):
        (a + 1).exp().sum().backward()
    assert [record.op for record in graph.records if record.op] != []


def test_a_model_trains_with_what_it_saves_packed_to_half_the_bits() -> None:
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), nbgrad.randn(16, 4)
    target = x.sum(1, keepdim=True)
    step = nbgrad.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(60):
        with nbgrad.autograd.graph.saved_tensors_hooks(lambda t: (t.half(), t.dtype), lambda kept: kept[0].to(kept[1])):
            loss = ((net(x) - target) ** 2).mean()
        step.zero_grad()
        loss.backward()
        step.step()
    assert loss.item() < 0.2


def test_it_has_what_torch_has() -> None:
    """Missing are only names for a compiler or for the streams of torch's engine."""
    here, there = nbgrad.autograd.graph, torch.autograd.graph
    absent = {
        "region_activation_memory_budget",
        "set_override_stale_capture_stream",
        "set_warn_on_accumulate_grad_stream_mismatch",
    }
    assert set(there.__all__) - set(here.__all__) <= absent
    assert set(here.__all__) <= set(there.__all__)
