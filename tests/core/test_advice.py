"""Errors that teach: what happened, to which tensor, by which op on which line, and what to write instead."""

import asyncio
import re
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import islice
from time import process_time
from typing import Any
from weakref import ref

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.dispatch.samples import Make
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.node import next_seq
from nbgrad.core.graph.changes import Changes, since
from nbgrad.core.graph.unreached import Unreached
from nbgrad.core.tensor.broadcast_check import BroadcastError
from nbgrad.core.tensor.construct import numbers
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core.programs import Library, agree, both_raise
from tests.core.tasks import finished


def leaf(*values: Any) -> Tensor:
    return tensor(list(values), requires_grad=True)


def here() -> int:
    """The line this is called from."""
    return sys._getframe(1).f_lineno


def message(run: Callable[[], Any]) -> str:
    """The text of the RuntimeError that ``run`` raises."""
    with pytest.raises(RuntimeError) as raised:
        run()
    return str(raised.value)


def place(line: int, text: str) -> str:
    return f"tests/core/test_advice.py:{line}, `{text}`"


# Modified in place after being saved.


def test_in_place_the_message_names_the_variable_and_the_op_that_saved_it() -> None:
    y = leaf(1.0, 2.0).exp()
    loss = (y * y).sum()
    y.data.add_(1)
    text = message(loss.backward)
    assert "the gradient of mul needs 'y' (its input 'b', a result of exp, of shape (2,)) as it was when mul" in text
    assert "an in-place operation has changed it since (its version is now 1, and was 0 when it was saved)" in text
    assert "y = y.clone()" in text
    assert "inside nbgrad.AutogradGraph() or nbgrad.detect_anomaly(): then this message names the line of mul" in text


def test_in_place_both_lines_are_there_inside_a_graph() -> None:
    with nbgrad.AutogradGraph():
        y = leaf(1.0, 2.0).exp()
        saved = here() + 1
        loss = (y * y).sum()
        changed = here() + 1
        y += 1
        text = message(loss.backward)
    assert f"the gradient of mul at {place(saved, 'loss = (y * y).sum()')} needs 'y'" in text
    assert f"add_ at {place(changed, 'y += 1')} has changed it in-place since" in text
    assert "then this message names" not in text


def test_in_place_the_line_of_the_op_is_known_after_the_graph_has_closed() -> None:
    y = leaf(1.0, 2.0).exp()
    with nbgrad.AutogradGraph():
        loss = (y * y).sum()
    y.data.add_(1)
    assert "`loss = (y * y).sum()`" in message(loss.backward)


def test_in_place_an_optimizer_is_named() -> None:
    w = leaf(1.0, 2.0)
    w.name = "layer.weight"
    step = nbgrad.optim.SGD([w], lr=0.1)
    with nbgrad.AutogradGraph():
        loss = (w * w).sum()
        loss.backward(retain_graph=True)
        line = here() + 1
        step.step()
        text = message(loss.backward)
    assert "needs 'layer.weight' (its input 'b', of shape (2,)) as it was" in text
    assert f"SGD.step() at {place(line, 'step.step()')} has changed it" in text


def test_in_place_the_message_names_the_last_of_many_steps() -> None:
    changes, place = Changes(), user_place()
    kept = torch.zeros(2)
    for step in range(100):
        gone = torch.zeros(3)  # most of them get the memory and the id of an earlier tensor
        before = next_seq()
        for data in (kept, gone):
            data.add_(1)
        changes.note([kept, gone], f"step {step}", place)
        assert changes.find(kept, before) == changes.find(gone, before) == f"step {step} at {place}"
        assert changes.find(kept, next_seq()) is None, "it came before the op that saved it"
        del gone, data


def test_in_place_a_step_before_the_op_is_not_named() -> None:
    w, v = leaf(1.0, 2.0), leaf(3.0)
    with nbgrad.AutogradGraph():
        (w.sum() + v.sum()).backward()
        nbgrad.optim.SGD([w, v], lr=0.1).step()
        loss = (w * w).sum()
        w.data.add_(1)
        text = message(loss.backward)
    assert "an in-place operation has changed it since, outside of nbgrad" in text


def test_in_place_the_later_of_two_optimizers_is_named() -> None:
    body, head, other = leaf(1.0, 2.0), leaf(3.0), leaf(4.0)
    first, second = nbgrad.optim.SGD([body, head], lr=0.1), nbgrad.optim.Adam([body, other], lr=0.1)
    with nbgrad.AutogradGraph():
        for steps in ((first, second), (second, first)):
            loss = (body * body).sum() + head.sum() + other.sum()
            loss.backward(retain_graph=True)
            for step in steps:
                step.step()
            assert f"{type(steps[-1]).__name__}.step() at" in message(loss.backward)


def test_in_place_steps_of_lists_that_begin_and_end_alike_are_told_apart() -> None:
    changes, place, seq = Changes(), user_place(), next_seq()
    body, one, other, tied = (torch.zeros(2) for _ in range(4))
    for _ in range(2):
        changes.note([body, one, tied], "first", place)
        changes.note([body, other, tied], "second", place)
    found = [changes.find(data, seq) for data in (one, other, body)]
    assert found == [f"{what} at {place}" for what in ("first", "second", "second")]
    assert len(changes) == 2
    del one
    changes.note([body, torch.zeros(2), tied], "third", place)
    assert len(changes) == 2, "what is gone makes room"


def test_the_changes_of_twenty_thousand_parameters_are_found_in_a_moment() -> None:
    changes, place = Changes(), user_place()
    held = [leaf(0.0) for _ in range(20_000)]
    for one in held:
        one.data.add_(1)
    changes.note(held[:100], "an earlier step", place)
    changes.note(held[:-1], "SGD.step()", place)
    held[5].data.add_(1)
    began = process_time()
    found = since([(at, ref(one), None) for at, one in enumerate(held)], changes)
    assert process_time() - began < 5, "one look at all of them for each takes minutes"
    assert found.keys() == set(range(19_999)), "the last one did not change with the others"
    assert {one.what for one in found.values()} == {"SGD.step()"}


def test_in_place_an_unseen_change_is_said_to_be_outside() -> None:
    with nbgrad.AutogradGraph():
        x = leaf(1.0, 2.0)
        loss = (x * x).sum()
        x.data.add_(1)
        text = message(loss.backward)
    assert (
        "an in-place operation has changed it since, outside of nbgrad, for example through .data or a view of it"
        in text
    )


def test_in_place_anomaly_mode_knows_both_lines_too() -> None:
    with nbgrad.detect_anomaly():
        y = leaf(1.0, 2.0).exp()
        y.mul_(2)
        text = message(y.sum().backward)
    assert "the gradient of exp at" in text
    assert "`y = leaf(1.0, 2.0).exp()` needs 'y' (its output 'out', of shape (2,)) as" in text
    assert "`y.mul_(2)` has changed it in-place since" in text


def test_in_place_a_value_without_a_name_is_told_by_its_shape() -> None:
    made = {leaf(1.0, 2.0).exp()}.copy  # no variable leads to it
    loss = (next(iter(made())) * next(iter(made()))).sum()
    next(iter(made())).data.add_(1)
    text = message(loss.backward)
    assert "needs 'b' (its input, a result of exp, of shape (2,)) as it was" in text
    assert "y = y.clone()" in text


def in_place_after_saved(lib: Library) -> tuple[Any, ...]:
    y = lib.leaf(1.0, 2.0).exp()
    z = (y * y).sum()
    y += 1
    z.backward()
    return ()


def test_in_place_raises_where_torch_raises() -> None:
    both_raise(in_place_after_saved, "mul", "'y'")


# Second backward.


def test_second_backward_says_what_was_freed_by_which_line_and_both_remedies() -> None:
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    line = here() + 1
    y.backward()
    text = message(y.backward)
    assert "backward through mul a second time: its saved 'a' and 'b' were freed by" in text
    assert f"by the backward at {place(line, 'y.backward()')}" in text
    assert "keep them there with retain_graph=True" in text
    assert "compute the result anew before this backward" in text


def test_what_a_loop_carries_on_is_to_be_detached() -> None:
    state, weight = nbgrad.ones(2), leaf(1.0, 2.0)

    def loop() -> None:
        nonlocal state
        for _ in range(2):
            state = (state * weight).tanh()
            state.sum().backward()

    text = message(loop)
    assert "a second time: its saved" in text
    assert text.endswith(
        "The same line ran that backward in an earlier round of a loop. If the loop carries a tensor from one round "
        "to the next, such as the state of an RNN, detach() it in each round. If the tensor was computed before the "
        "loop, compute it inside, or pass retain_graph=True."
    )


def test_a_step_of_an_optimizer_between_forward_and_backward_asks_for_another_order() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph():
        first, second = net(nbgrad.ones(3, 2)).sum(), net(nbgrad.ones(3, 2)).square().sum()
        first.backward()
        optimizer.step()
        text = message(second.backward)
    assert "SGD.step() at tests/core/test_advice.py" in text
    assert text.endswith("Call this backward() before the step, or run its forward after it.")


def test_second_backward_names_no_input_that_was_not_given() -> None:
    loss = nbgrad.nn.functional.cross_entropy(leaf(1.0, 2.0), nbgrad.tensor(1))
    loss.backward()
    assert "its saved 'log_probabilities', 'target' and 'total_weight' were freed" in message(loss.backward)


@pytest.mark.parametrize("call", [lambda x: x * 2, lambda x: x / 2, lambda x: nbgrad.lerp(x, x, 0.5)])
def test_second_backward_names_the_number_where_only_a_number_was_saved(call: Any) -> None:
    loss = call(leaf(1.0, 2.0)).sum()
    loss.backward()
    assert re.search(r"a second time: its saved '(b|weight)' was freed by", message(loss.backward))


def test_second_backward_says_the_number_of_the_first_in_its_graph_and_the_line_of_the_op() -> None:
    with nbgrad.AutogradGraph("training"):
        x = leaf(1.0, 2.0)
        (x * 2).sum().backward()
        made = here() + 1
        y = x.exp().sum()
        y.backward()
    text = message(y.backward)
    assert f"backward through exp ({place(made, 'y = x.exp().sum()')}) a second time: its saved 'out' was" in text
    assert "freed by backward 2 of 'training' (tests/core/test_advice.py" in text


def test_second_backward_inside_a_notebook_names_the_line_of_the_cell() -> None:
    code = compile("y = (x * x).sum()\ny.backward()", "/tmp/ipykernel_1/2.py", "exec")
    namespace: dict[str, Any] = {"x": leaf(1.0, 2.0)}
    exec(code, namespace)
    assert "freed by the backward at line 2 of the cell." in message(namespace["y"].backward)


# Parameters without gradient.


class Net(nbgrad.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.used = nbgrad.nn.Linear(2, 2)
        self.idle = nbgrad.nn.Linear(2, 2)
        self.frozen = nbgrad.nn.Linear(2, 2, bias=False)
        self.frozen.weight.requires_grad_(False)

    def forward(self, x: Any) -> Any:
        return self.frozen(self.used(x))


def test_unreached_lists_the_parameters_of_a_module_by_name() -> None:
    net = Net()
    with nbgrad.AutogradGraph() as graph:
        net(tensor([[1.0, 2.0]])).sum().backward()
        inside = graph.unreached(net)
    assert [(found.name, found.shape, found.kind) for found in inside] == [
        ("idle.weight", (2, 2), "unused"),
        ("idle.bias", (2,), "unused"),
        ("frozen.weight", (2, 2), "frozen"),
    ]
    assert graph.unreached(net) == inside, "it stays known when the graph has closed"
    assert str(inside[0]) == repr(inside[0]) == "idle.weight (2, 2): no op in this graph uses it"


class LeavesOneOut(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 4)
        self.last = nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x))


def trained(optimizer_of: Any, net: nn.Module) -> nbgrad.AutogradGraph:
    optimizer = optimizer_of()
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            loss = net(nbgrad.ones(5, 3)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return graph


def test_a_layer_that_the_optimizer_holds_and_forward_leaves_out_is_found() -> None:
    net = LeavesOneOut()
    optimizer = nbgrad.optim.SGD(net.parameters(), lr=0.1)
    graph = trained(lambda: optimizer, net)
    assert [(one.name, one.kind) for one in graph.unreached()] == [
        ("second.weight", "unused"),
        ("second.bias", "unused"),
    ]
    (finding,) = [one for one in graph.findings() if one.kind == "unreached"]
    assert finding.text == (
        "The last backward gave no gradient to second.weight (4, 4), second.bias (4,): no op in this graph uses it. "
        "Use it in forward(), or leave it out of the model and of the optimizer"
    )
    assert finding.remedy in finding.text


@pytest.mark.parametrize("lib", [torch, nbgrad], ids=["torch", "nbgrad"])
def test_the_input_of_an_earlier_step_that_something_still_holds_misses_no_gradient(lib: Any) -> None:
    frozen, net = lib.nn.Embedding(5, 3).requires_grad_(False), lib.nn.Linear(3, 2)
    optimizer, held = lib.optim.SGD(net.parameters(), lr=0.1), []

    def step() -> None:
        embedded = frozen(lib.tensor([0, 1])).requires_grad_()  # as for checkpoints around frozen layers
        held.append(embedded)
        net(embedded).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            step()
    assert [one.kind for one in graph.findings()] == []


def test_a_layer_of_torchs_that_forward_leaves_out_is_found() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.first(x)

    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            loss = net(torch.ones(5, 3)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert [(one.name, one.kind) for one in graph.unreached()] == [
        ("second.weight", "unused"),
        ("second.bias", "unused"),
    ]


def test_a_tensor_that_only_the_optimizer_knows_is_found() -> None:
    w, unused = leaf(1.0), leaf(2.0)
    optimizer = nbgrad.optim.SGD([w, unused], lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        (w * w).sum().backward()
        optimizer.step()
    assert [one.kind for one in graph.unreached()] == ["unused"]


def test_what_is_frozen_or_of_a_module_that_was_not_called_is_no_layer_that_is_left_out() -> None:
    net, other = LeavesOneOut(), nn.Linear(2, 2)
    net.second.requires_grad_(False)
    optimizer = nbgrad.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
    assert trained(lambda: optimizer, net).unreached() == []
    assert optimizer.param_groups[0]["params"]


def only(graph: nbgrad.AutogradGraph, **named: Tensor) -> Unreached:
    (found,) = graph.unreached(named)
    return found


def test_unreached_says_where_a_path_was_detached() -> None:
    w, v = leaf(1.0), leaf(2.0)
    with nbgrad.AutogradGraph() as graph:
        h = w * 2
        line = here() + 1
        cut = h.detach()
        (cut * v).sum().backward()
    found = only(graph, w=w)
    assert (found.name, found.kind) == ("w", "detached")
    assert found.reason == f"the result of mul is cut off by detach() at {place(line, 'cut = h.detach()')}"
    assert found.place is not None
    assert found.place.line == line
    assert graph.unreached({"v": v}) == []


def test_unreached_says_what_was_used_through_data() -> None:
    w, v = leaf(1.0), leaf(2.0)
    with nbgrad.AutogradGraph() as graph:
        (v * w.data).sum().backward()
    found = only(graph, w=w)
    assert found.kind == "detached"
    assert re.match(r"mul at .* uses its memory, but as a constant: made with .data\?", found.reason)


def test_unreached_says_what_was_used_inside_no_grad() -> None:
    w, v = leaf(1.0), leaf(2.0)
    with nbgrad.AutogradGraph() as graph:
        with nbgrad.no_grad():
            scale = w.exp()
        (v * scale).sum().backward()
    found = only(graph, w=w)
    assert found.kind == "no_grad"
    assert found.reason.startswith("used by exp inside no_grad(), at ")
    assert "`scale = w.exp()`" in found.reason


def test_unreached_says_which_op_has_no_gradient() -> None:
    w, v = leaf(1.0, 3.0), leaf(2.0)
    with nbgrad.AutogradGraph() as graph:
        best = (w * 2).argmax()
        (v * best).sum().backward()
    found = only(graph, w=w)
    assert found.kind == "no gradient"
    assert found.reason.startswith("the result of mul is used by argmax at ")
    assert found.reason.endswith("and argmax has no gradient")


def test_unreached_says_where_what_was_made_of_it_ends() -> None:
    w, v = leaf(1.0), leaf(2.0)
    with nbgrad.AutogradGraph() as graph:
        forgotten = w.exp() * 3
        (v * 2).sum().backward()
    found = only(graph, w=w)
    assert found.kind == "elsewhere"
    assert re.fullmatch(
        r"it ends at mul at .*`forgotten = w.exp\(\) \* 3`, which does not lead to the loss", found.reason
    )
    assert forgotten.shape == (1,)


def test_unreached_before_a_backward_says_so() -> None:
    w = leaf(1.0)
    with nbgrad.AutogradGraph() as graph:
        y = w * 2
        assert only(graph, w=w).kind == "no backward"
        y.backward()
        assert graph.unreached() == []


def test_unreached_without_arguments_lists_the_leaves_of_the_graph() -> None:
    w, v = leaf(1.0), leaf(2.0)
    with nbgrad.AutogradGraph() as graph:
        loss = v * 2 + (w * 3).detach()
        loss.backward()
        assert [found.name for found in graph.unreached()] == ["w"]
        (w * 2).backward()
        assert [found.name for found in graph.unreached()] == ["v"], "it is about the last backward"


def test_unreached_takes_tensors_and_pairs() -> None:
    w = leaf(1.0)
    with nbgrad.AutogradGraph() as graph:
        (leaf(2.0) * 2).backward()
    assert [found.name for found in graph.unreached([w])] == ["w"]
    assert [found.name for found in graph.unreached([("mine", w)])] == ["mine"]
    assert [found.name for found in graph.unreached(w)] == ["w"]


def test_unreached_agrees_with_the_grads_that_are_none() -> None:
    net = Net()
    with nbgrad.AutogradGraph() as graph:
        net(tensor([[1.0, 2.0]])).sum().backward()
    missing = {name for name, parameter in net.named_parameters() if parameter.grad is None}
    assert {found.name for found in graph.unreached(net)} == missing


# strict_broadcast.


def test_strict_broadcast_names_the_op_the_shapes_and_the_remedy() -> None:
    x, b = tensor(torch.ones(3, 4)), tensor(torch.ones(4))
    with nbgrad.strict_broadcast(), pytest.raises(BroadcastError) as raised:
        x + b
    assert str(raised.value) == (
        "strict_broadcast: add of x of shape (3, 4) and b of shape (4,) would stretch b to (3, 4). "
        "If that is meant, write b.expand(3, 4)."
    )
    with nbgrad.strict_broadcast():
        assert (x + b.expand(3, 4)).shape == (3, 4)


def test_strict_broadcast_lets_numbers_and_0d_tensors_go_with_every_shape() -> None:
    x = tensor(torch.ones(3, 4), requires_grad=True)
    with nbgrad.strict_broadcast():
        y = ((x * 2 - tensor(1.0)) ** 2 / x).mean()
        y.backward()
    assert x.grad is not None


def test_strict_broadcast_leaves_what_an_op_stretches_by_definition() -> None:
    with nbgrad.strict_broadcast():
        model = nbgrad.nn.Sequential(nbgrad.nn.Linear(4, 3), nbgrad.nn.ReLU(), nbgrad.nn.Linear(3, 2))
        loss = nbgrad.nn.functional.cross_entropy(model(tensor(torch.ones(5, 4))), tensor([0, 1, 0, 1, 0]))
        loss.backward()
        batch, matrix = tensor(torch.ones(5, 2, 3)), tensor(torch.ones(3, 4), requires_grad=True)
        (batch @ matrix).sum().backward()
        nbgrad.grad((batch.softmax(dim=-1) @ matrix).sum(), matrix, create_graph=True)
    assert matrix.grad is not None


def test_strict_broadcast_looks_at_the_batch_of_a_matrix_product() -> None:
    a, b = tensor(torch.ones(5, 2, 3)), tensor(torch.ones(1, 3, 4))
    with nbgrad.strict_broadcast(), pytest.raises(BroadcastError, match=re.escape("write b.expand(5, 3, 4)")):
        a @ b


def test_strict_broadcast_checks_what_is_not_recorded_and_the_backward_of_torchs_shapes() -> None:
    with nbgrad.strict_broadcast(), nbgrad.no_grad(), pytest.raises(BroadcastError):
        tensor(torch.ones(2, 1)) * tensor(torch.ones(2, 3))
    with nbgrad.strict_broadcast(), pytest.raises(BroadcastError, match=re.escape(PAIRED)):
        nbgrad.sub(*[tensor(torch.ones(shape)) for shape in ((4, 1), (4,))])


PAIRED = ".squeeze(-1) on the first operand or .unsqueeze(-1) on the second operand"


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, b: Tensor) -> Tensor:
        return b * self.scale


b, raw, array = tensor(torch.ones(2)), torch.ones(2, 2), np.ones((2, 2))

NAMED: dict[str, tuple[Callable[[], Any], str]] = {
    "raw first": (lambda: raw + b, "the first operand of shape (2, 2) and b of shape (2,) would stretch b to"),
    "raw second": (lambda: b + raw, "b of shape (2,) and raw of shape (2, 2) would stretch b to"),
    "an array": (lambda: array + b, "the first operand of shape (2, 2) and b of shape (2,) would stretch b to"),
    "an expression": (lambda: raw + b * 1, "write .expand(2, 2) on the second operand."),
    "a parameter": (
        lambda: Scaled()(tensor(raw)),
        "mul of b of shape (2, 2) and self.scale of shape (2,) would stretch",
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_strict_broadcast_gives_no_name_that_the_user_has_not(name: str) -> None:
    run, expected = NAMED[name]
    with nbgrad.strict_broadcast(), pytest.raises(BroadcastError, match=re.escape(expected)):
        run()


def test_strict_broadcast_leaves_shapes_that_do_not_fit_to_the_op() -> None:
    with nbgrad.strict_broadcast(), pytest.raises(RuntimeError, match=r"add\(a of shape \(3,\)"):
        tensor(torch.ones(3)) + tensor(torch.ones(4))


def test_strict_broadcast_ends_with_its_block() -> None:
    @nbgrad.strict_broadcast()
    def add() -> Tensor:
        return tensor(torch.ones(3, 1)) + tensor(torch.ones(3))

    with pytest.raises(BroadcastError):
        add()
    assert (tensor(torch.ones(3, 1)) + tensor(torch.ones(3))).shape == (3, 3)


# (N, 1) against (N,).


def test_an_error_of_unpaired_shapes_warns_once_for_a_line() -> None:
    p, t = tensor(torch.ones(4, 1), requires_grad=True), tensor(torch.ones(4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            line = here() + 1
            loss = ((p - t) ** 2).mean()
        loss.backward()
    (found,) = caught
    assert (found.category, found.filename, found.lineno) == (UserWarning, __file__, line)
    assert str(found.message) == (
        "sub compares p of shape (4, 1) with t of shape (4,), which broadcast to (4, 4): every element of one meets "
        "every element of the other. If they are to be paired one by one, give both one shape: p.squeeze(-1) or "
        "t.unsqueeze(-1)."
    )


@pytest.mark.parametrize("shapes", [((4, 1), (4,)), ((4,), (4, 1)), ((2, 3), (3,))])
def test_mse_loss_of_unequal_shapes_warns_where_torch_warns(shapes: tuple[Any, Any]) -> None:
    scores, target = (torch.ones(shape) for shape in shapes)
    with pytest.warns(UserWarning, match="different to the input size"):
        expected = torch.nn.functional.mse_loss(scores, target)
    with pytest.warns(UserWarning, match=r"^mse_loss compares .* of shape .* with .* of shape .*, which broadcast to"):
        found = nbgrad.nn.functional.mse_loss(tensor(scores), tensor(target))
    assert found.item() == expected.item()


def test_cross_entropy_of_one_class_warns() -> None:
    with pytest.warns(UserWarning, match="with one class the loss is always 0"):
        nbgrad.nn.functional.cross_entropy(tensor(torch.ones(3, 1)), tensor([0, 0, 0]))


def test_other_differences_do_not_warn() -> None:
    p, rows = tensor(torch.ones(4, 1), requires_grad=True), tensor(torch.ones(4))
    square = tensor(torch.ones(4, 4), requires_grad=True)
    assert [
        (p - p.reshape(4)).shape,  # all pairs of predictions: both operands require a gradient
        (rows.unsqueeze(1) - rows).shape,  # no operand requires a gradient
        (square - rows).shape,
        (square - square.mean(dim=1, keepdim=True).detach()).shape,
        (p - 1).shape,
        (p - rows.unsqueeze(1)).shape,
    ] == [(4, 4), (4, 4), (4, 4), (4, 4), (4, 1), (4, 1)]


# Cases that confused reviewers.


def list_of_tensors(lib: Library) -> tuple[Any, ...]:
    one, two = lib.ops.tensor(1.0), lib.ops.tensor([2.0])
    return lib.ops.tensor([one, two, 3.0]), lib.ops.tensor([[1.0, one], [two, 4]])


def axis(lib: Library) -> tuple[Any, ...]:
    x = lib.constant([1.0, 5.0], [3.0, 4.0])
    return (
        x.sum(axis=0),
        x.mean(axis=1, keepdims=True),
        x.amax(axis=-1),
        lib.ops.sum(x, axis=0, keepdim=True),
        x.argmax(axis=0),
        x.softmax(axis=1) if lib.ops is nbgrad else x.softmax(dim=1),
    )


def to_another_tensor(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    y = x.to(lib.constant(1.0, dtype=torch.float32))
    y.sum().backward()
    return str(y.dtype), x.grad


@pytest.mark.parametrize("program", [list_of_tensors, axis, to_another_tensor], ids=lambda program: program.__name__)
def test_it_works_as_in_torch(program: Callable[[Library], tuple[Any, ...]]) -> None:
    agree(program)


def test_a_list_of_larger_tensors_is_an_error_as_in_torch() -> None:
    with pytest.raises(ValueError, match="only one element tensors"):
        torch.tensor([torch.ones(2), torch.ones(2)])
    with pytest.raises(
        ValueError, match=r"holds a tensor of shape \(2,\): only a tensor with one element can be used as a number"
    ):
        tensor([tensor([1.0, 2.0]), tensor([1.0, 2.0])])


def test_a_list_of_tensors_that_need_gradients_warns_as_in_torch() -> None:
    with pytest.warns(UserWarning, match="no gradient flows through it: pass t.detach"):
        assert tensor([leaf(1.0)]).tolist() == [1.0]


class Frame:
    def to_numpy(self) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize("make", [tensor, nbgrad.as_tensor, nbgrad.nn.Parameter])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("abc", "data is the text 'abc'"),
        (["a", "1.5"], "data[0] is the text 'a'"),
        ([1.0, "1.5"], "data[1] is the text '1.5': write 1.5 without quotes, or float(text)"),
        ({"a": 1}, "data is a dict: list(d.values()) are its values"),
        ([[1.0], [None]], "data[1][0] is None: a function or a forward() without return gives None"),
        ({1}, "data is of type set: list(...) makes a list of it"),
        (map(int, "1"), "data is of type map: list(...) makes a list of it"),
        (object(), "data is of type object"),
        (len, "data is len, which can be called: pass the result of a call"),
        (nbgrad.nn.ReLU(), "data is ReLU, which can be called"),
        (Frame(), "data is a Frame: its to_numpy() is an array"),
        (np.array([None]), "data[0] is None"),
        ([tensor(1.0), None], "data[1] is None"),
        (
            [[1, 2], [3]],
            "rows of one length, but data[0] holds 2, data[1] holds 1: nbgrad.nn.utils.",
        ),
        ([[1, 2], [3, 4, 5], [6, 7]], "but data[0], data[2] hold 2, data[1] holds 3"),
        ([[1]] * 5 + [[1, 2]], "but data[0], data[1], data[2] and 2 more hold 1, data[5] holds 2"),
        ([[[1], [2]], [[1], [2, 3]]], "but data[0][0], data[0][1], data[1][0] hold 1, data[1][1] holds 2"),
        ([[1, 2], 3], "but data[0] holds 2, data[1] is a number"),
        ([tensor(1.0), [tensor(2.0)]], "but data[0] is a number, data[1] holds 1"),
        ([np.ones(2), np.ones(3)], "but data[0] holds 2, data[1] holds 3"),
    ],
)
@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy")
def test_data_that_makes_no_tensor_is_named_with_what_to_give(make: Any, data: Any, said: str) -> None:
    with pytest.raises((RuntimeError, TypeError, ValueError)) as theirs:
        torch.tensor(numbers(data))
    called = "as_tensor" if make is nbgrad.as_tensor else "tensor"
    with pytest.raises(theirs.type, match=rf"^nbgrad\.{called}\(\) takes .*{re.escape(said)}"):
        make(data)


def test_what_is_no_fault_of_the_data_is_torchs_error() -> None:
    with pytest.raises((ValueError, RuntimeError), match="Overflow") as theirs:
        torch.tensor([10**30])
    with pytest.raises(theirs.type, match="Overflow"):
        tensor([10**30])
    with pytest.raises(TypeError, match="dtype"):
        tensor([1.0], dtype="float32")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: nbgrad.zeros("3"),
            "zeros(): it got the text '3': write 3 without quotes, or float(text) where it was",
        ),
        (lambda: nbgrad.ones([2, None]), "ones(): it got None: a function"),
        (lambda: nbgrad.randn(2, 7 / 2), "randn(): it got 3.5 for a size: a // b divides to a whole number"),
        (lambda: nbgrad.full((2,), "x"), "full(): it got the text 'x'. It is written nbgrad.full(size, fill_value)"),
        (lambda: nbgrad.linspace(0, 1), "linspace() received an invalid combination of arguments - got (int, int, "),
        (lambda: nbgrad.linspace(0, 1), "). It is written nbgrad.linspace(start, end, steps)"),
        (
            lambda: nbgrad.fft.fftfreq("a"),
            "fft.fftfreq(): it got the text 'a'. It is written nbgrad.fft.fftfreq(n, d=1.0)",
        ),
    ],
)
def test_a_function_that_makes_a_tensor_says_what_it_takes(make: Any, said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        make()


@pytest.mark.parametrize("value", [3, "x", [1.0]])
def test_a_grad_that_is_no_tensor_is_a_type_error_as_in_torch(value: Any) -> None:
    with pytest.raises(TypeError, match="assigned grad expected to be a Tensor or None"):
        torch.ones(1).grad = value
    with pytest.raises(TypeError, match=f"a gradient must be a tensor of shape .* or None, not {type(value).__name__}"):
        tensor([1.0]).grad = value


def test_dim_and_axis_together_are_an_error_as_in_torch() -> None:
    for x in (torch.ones(2), tensor([1.0, 1.0])):
        with pytest.raises(TypeError):
            x.sum(dim=0, axis=0)  # type: ignore[call-overload]


# Switches as decorators.


def bare(lib: Library) -> tuple[Any, ...]:
    @lib.ops.no_grad
    def off(x: Any) -> Any:
        return x * 2

    @lib.ops.enable_grad
    def on(x: Any) -> Any:
        return x * 2

    x = lib.leaf(1.0)
    with lib.ops.no_grad():
        inside = on(x).requires_grad
    return off(x).requires_grad, inside, off.__name__, lib.ops.is_grad_enabled()


def generators(lib: Library) -> tuple[Any, ...]:
    seen: list[Any] = []

    @lib.ops.no_grad()
    def steps() -> Iterator[Any]:
        try:
            got = yield lib.ops.is_grad_enabled()
            seen.append(got)
            try:
                yield lib.ops.is_grad_enabled()
            except KeyError:
                seen.append(lib.ops.is_grad_enabled())
            yield "thrown"
        finally:
            seen.append(("closed", lib.ops.is_grad_enabled()))
        return

    run: Any = steps()
    first = next(run)
    outside = lib.ops.is_grad_enabled()
    second = run.send("sent")
    third = run.throw(KeyError())
    run.close()
    return first, outside, second, third, tuple(seen), lib.ops.is_grad_enabled()


def results_of_generators(lib: Library) -> tuple[Any, ...]:
    @lib.ops.no_grad
    def steps() -> Iterator[int]:
        yield 1
        return 2

    def outer() -> Iterator[Any]:
        result = yield from steps()
        yield result

    return tuple(outer())


@pytest.mark.parametrize("program", [bare, generators, results_of_generators], ids=lambda program: program.__name__)
def test_switches_decorate_as_in_torch(program: Callable[[Library], tuple[Any, ...]]) -> None:
    agree(program)


def test_a_switch_around_a_coroutine_holds_while_it_runs_and_in_no_other_task() -> None:
    @nbgrad.no_grad()
    async def off() -> list[bool]:
        before = nbgrad.is_grad_enabled()
        await asyncio.sleep(0)
        return [before, nbgrad.is_grad_enabled()]

    async def both() -> tuple[list[bool], bool]:
        task = asyncio.create_task(off())
        await asyncio.sleep(0)
        return await task, nbgrad.is_grad_enabled()

    assert finished(both()) == ([False, False], True)


def test_a_switch_around_what_it_cannot_hold_for_says_so() -> None:
    async def values() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(TypeError, match="no_grad cannot decorate an async generator: write a with block inside it"):
        nbgrad.no_grad()(values)
    with pytest.raises(TypeError, match="no_grad cannot decorate the type"):
        nbgrad.no_grad(Net)
    with pytest.raises(TypeError, match="no_grad cannot decorate the int 3"):
        nbgrad.no_grad(3)  # type: ignore[arg-type]


def test_a_warning_names_no_variable_that_the_user_has_not() -> None:
    t = nbgrad.tensor([1.0, 2.0])
    told = (
        r"compares the first {} of shape \(2, 1\) with t of .*: \.squeeze\(-1\) on the first {} or t\.unsqueeze\(-1\)"
    )
    with pytest.warns(UserWarning, match="sub " + told.replace("{}", "operand")):
        (nbgrad.ones(2, 1, requires_grad=True) * 1.0 - t) ** 2
    with pytest.warns(UserWarning, match="mse_loss " + told.replace("{}", "argument")):
        nn.functional.mse_loss(nbgrad.ones(2, 1, requires_grad=True) * 1.0, t)


def test_numbers_of_another_type_are_told_with_the_conversion() -> None:
    x, layer = nbgrad.tensor(torch.ones(2, 3, dtype=torch.float64)), nn.Linear(3, 1)
    with pytest.raises(RuntimeError, match=r"must have the same dtype.*\. Give them one dtype: x\.float\(\)$"):
        layer(x)
    with pytest.raises(RuntimeError, match=r"Give them one dtype: \.float\(\) on 'input'$"):
        layer(x * 1)
    with pytest.raises(RuntimeError, match=r"Give them one dtype: \.double\(\) on 'input'$"):
        nn.Linear(3, 1).double()(nbgrad.ones(2, 3) * 1)
    with pytest.raises(RuntimeError, match=r"Give them one dtype: x\.float\(\)$"):
        nbgrad.ones(2, 2) @ x


def test_a_power_is_not_written_as_in_other_languages() -> None:
    x = leaf(2.0)
    with pytest.raises(
        TypeError, match=r"bitwise_xor\(.*\): only whole numbers .* have bits; a power is written x \*\* 2"
    ):
        x ^ 2
    with pytest.raises(TypeError, match=r"bitwise_and\(.*\): only whole numbers and truth values have bits$"):
        x & 2


# Arguments that are no tensors, and element types without a kernel.

NO_TENSORS = [
    (None, "is None, where a tensor is expected: a function or a forward() without return gives None"),
    ((tensor([1.0]), None), "is a tuple of 2, where a tensor is expected: take it out"),
    ("x", "is a str, where a tensor is expected"),
    (nn.Linear(2, 2), "is the module Linear, where a tensor is expected: call the module to get one"),
]

TAKES_ONE: dict[str, Callable[[Any], Any]] = {
    "an op alone": nbgrad.relu,
    "an op with another tensor": lambda x: nn.functional.mse_loss(x, tensor([1.0])),
    "a list of tensors": lambda x: nbgrad.stack([tensor([1.0]), x]),
    "a block of one op": nn.Linear(2, 2),
    "a block of several ops": nn.LSTM(2, 2),
    "a block that asks for the shape": nn.Flatten(),
    "a block in a block": nn.Sequential(nn.TransformerEncoderLayer(4, 1)),
}


@pytest.mark.parametrize("run", TAKES_ONE.values(), ids=TAKES_ONE)
@pytest.mark.parametrize(("given", "words"), NO_TENSORS, ids=["None", "tuple", "str", "module"])
def test_what_is_given_for_a_tensor_and_is_none_is_named_without_its_numbers(
    run: Callable[[Any], Any], given: Any, words: str
) -> None:
    with pytest.raises((TypeError, AttributeError)) as raised:
        run(given)
    assert words in str(raised.value)
    assert "in_features" not in str(raised.value)
    assert "tensor([" not in str(raised.value)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("row", OPS.values(), ids=OPS)
def test_every_row_names_itself_and_the_input_that_is_no_tensor(row: Op) -> None:
    for sample in islice(row.samples(Make(row.domain)), 3):
        for position, arg in enumerate(sample.args):
            if torch.is_tensor(arg):
                args = [tensor(one) if torch.is_tensor(one) else one for one in sample.args]
                args[position] = "words"  # type: ignore[call-overload]  # that is the mistake
                named = r"[\w\[\]]+" if row.listed or len(sample.args) < row.arity else row.inputs[position]
                with pytest.raises(TypeError, match=rf"^{row.name}\(.*{named} is a str, where a tensor is expected"):
                    row(*args, **sample.settings)


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (
            lambda x: x.softmax(0),
            "softmax(input: x of shape (2,) and dtype int64): torch has no kernel for int64 on cpu",
        ),
        (nn.functional.gelu, ": write x.float()"),
        (lambda x: nn.functional.cross_entropy(x.reshape(1, 2), tensor([1])), ": write .float() on 'input'"),
        (lambda x: nbgrad.gcd(x.float(), x.float()), "torch has no kernel for float32 on cpu"),
    ],
)
def test_an_element_type_without_a_kernel_is_named_as_python_writes_it(
    run: Callable[[Tensor], Any], words: str
) -> None:
    x = tensor([1, 2])
    with pytest.raises(NotImplementedError) as raised:
        run(x)
    assert words in str(raised.value)
    assert "Long" not in str(raised.value)


@pytest.mark.parametrize(
    "make",
    [
        nn.ReLU,
        nn.Sigmoid,
        lambda x: nn.Softmax(dim=x),
        lambda x: nn.MSELoss(x, x),
        lambda x: nn.CrossEntropyLoss(x, x),
        lambda x: nn.BCELoss(x.detach().data, x.data),
    ],
)
def test_a_block_that_is_made_with_a_tensor_to_run_on_says_how_to_call_it(make: Callable[[Tensor], Any]) -> None:
    with pytest.raises(TypeError, match=r"(\w+)\(\.\.\.\) makes a block.* call the block, \1\(\)\(\.\.\.\)"):
        make(tensor([1.0, 2.0]))


def test_the_weights_of_a_loss_are_settings() -> None:
    weight = tensor([1.0, 2.0])
    assert nn.CrossEntropyLoss(weight).weight is weight
    assert nn.BCEWithLogitsLoss(pos_weight=weight).pos_weight is weight


def test_a_condition_of_many_elements_says_what_to_write() -> None:
    x = tensor([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"shape \(2,\).*x\.any\(\).*x\.all\(\).*nbgrad\.where\("):
        assert x > 0


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda x: x.mean(), "Got: Long. Write x.float()"),
        (lambda x: nn.functional.adaptive_avg_pool1d(x, 1), "Got: Long. Write x.float()"),
        (lambda x: nn.functional.prelu(x, tensor([0.5], dtype=torch.float64)), "Double. Write x.double()"),
    ],
)
def test_whole_numbers_that_an_op_cannot_compute_with_are_to_be_made_floats(
    run: Callable[[Tensor], Any], words: str
) -> None:
    with pytest.raises(RuntimeError) as raised:
        run(tensor([[[1, 2]]]))
    assert str(raised.value).endswith(words)


def test_an_attribute_error_of_the_users_own_forward_is_as_it_was() -> None:
    class Mine(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.missing

    with pytest.raises(AttributeError, match=r"^'NoneType' object has no attribute 'missing'$"):
        Mine()(None)


# Class numbers, and numbers of rows.

SCORES = nbgrad.ones(4, 3, requires_grad=True)
CLASSES = nbgrad.tensor([0, 1, 2, 0])
TYPED = r"\. The numbers of the classes have shape \(4,\) and type int64: "


@pytest.mark.parametrize("loss", [nn.functional.cross_entropy, nn.functional.nll_loss])
@pytest.mark.parametrize(
    ("wrong", "remedy"),
    [
        (CLASSES.float, rf"{TYPED}labels\.long\(\)$"),
        (CLASSES.int, rf"{TYPED}labels\.long\(\)$"),
        (lambda: CLASSES.unsqueeze(1), rf"{TYPED}labels\.squeeze\(1\)$"),
        (lambda: nn.functional.one_hot(CLASSES, 3), rf"{TYPED}labels\.argmax\(1\)$"),
        (lambda: CLASSES * 2, r": target\[2\] is 4, and there are 3 classes, 0 to 2$"),
        (lambda: CLASSES - 1, r": target\[0\] is -1, and there are 3 classes, 0 to 2$"),
    ],
)
def test_a_loss_says_which_classes_it_takes(loss: Any, wrong: Callable[[], Tensor], remedy: str) -> None:
    labels = wrong()
    with pytest.raises((RuntimeError, IndexError), match=remedy):
        loss(SCORES, labels)


def test_a_target_without_a_variable_is_called_as_the_loss_does() -> None:
    with pytest.raises(RuntimeError, match=rf"{TYPED}\.long\(\) on 'target'$"):
        nn.functional.cross_entropy(SCORES, torch.zeros(4, dtype=torch.int32))


def test_an_embedding_says_which_row_there_is_not() -> None:
    table, words = nn.Embedding(10, 4), nbgrad.tensor([[1, 2], [3, 11]])
    with pytest.raises(
        IndexError, match=r"index out of range in self: input\[1, 1\] is 11, and there are 10 rows, 0 to 9"
    ):
        table(words)
    numbers = words.float()
    with pytest.raises(RuntimeError, match=r"\. Rows have whole numbers: numbers\.long\(\)$"):
        table(numbers)


@pytest.mark.parametrize("many", [1, 2])
def test_a_step_is_named_though_the_parameters_were_given_other_data_since(many: int) -> None:
    """Programs that swap in averaged weights do this. A later step changes the new data, not the saved tensor."""
    weights = [nbgrad.ones(3, requires_grad=True) for _ in range(many)]
    optimizer = nbgrad.optim.SGD(weights, lr=0.1)
    with nbgrad.AutogradGraph():
        loss = weights[0].square().sum()
        for one in weights:
            one.grad = nbgrad.ones(3)
        optimizer.step()  # the culprit
        for one in weights:
            one.data = one.data.clone()
        optimizer.step()
        with pytest.raises(RuntimeError, match=r"SGD\.step\(\) at .*# the culprit"):
            loss.backward()


def test_a_loss_of_probabilities_says_where_scores_go() -> None:
    with pytest.raises(
        RuntimeError, match=r"between 0 and 1\. Give scores to binary_cross_entropy_with_logits, or their sigmoid"
    ):
        nn.functional.binary_cross_entropy(SCORES * 2, nbgrad.ones(4, 3))
