"""Where the path of a gradient ends: the message of a backward that cannot begin, and ``graph.unreached()``."""

import re
import warnings
from collections.abc import Callable
from contextvars import copy_context
from threading import Thread
from typing import Any
from weakref import ref

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.graph import cut_paths
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.functional import mse_loss
from nbgrad.widgets.describe import describe
from tests.work import lines

W = nn.Parameter([[1.0, 2.0], [3.0, 5.0]])
W.name = "W"


def net(*, frozen: bool = False) -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)).requires_grad_(not frozen)


def by_argmax() -> Tensor:
    best = (W * 2).argmax()
    return best.float() * 2


def by_comparison() -> Tensor:
    right = (W * 2) > 1
    return right.float().mean()


def by_long() -> Tensor:
    whole = W.long()
    return (whole * 0.5).sum()


def by_positions() -> Tensor:
    places = W.max(0).indices
    return places.double().mean()


def by_no_grad() -> Tensor:
    with nbgrad.no_grad():
        scaled = W * 2
    return (scaled * nbgrad.ones(2)).sum()


def by_a_net_in_no_grad() -> Tensor:
    model = net()
    with nbgrad.no_grad():
        out = model(nbgrad.ones(3, 2))
    return mse_loss(out, nbgrad.zeros(3, 1))


def by_detach() -> Tensor:
    cut = (W * 2).detach()
    return (cut * cut).detach().sum()


def by_copying() -> Tensor:
    with pytest.warns(UserWarning, match="copies its values"):
        copied = tensor(W * 2)
    return copied.sum()


def by_freezing() -> Tensor:
    hidden = net(frozen=True)(nbgrad.ones(3, 2))
    return hidden.mean()


def by_a_change_in_no_grad() -> Tensor:
    kept = nbgrad.zeros(2)
    with nbgrad.no_grad():
        kept.add_(W.sum(0))
    return kept.sum()


ENDS: dict[Callable[[], Tensor], tuple[str, str, str]] = {
    by_argmax: ("argmax", "best = (W * 2).argmax()", "argmax has no gradient. Use an op with a gradient"),
    by_comparison: ("gt", "right = (W * 2) > 1", "gt has no gradient. Use an op with a gradient"),
    by_long: ("long()", "whole = W.long()", "the int64 that it gives has no gradient. Use"),
    by_positions: ("max()", "places = W.max(0).indices", "the int64 that it gives has no gradient. Use"),
    by_no_grad: ("mul inside no_grad(),", "scaled = W * 2", "Run that outside of no_grad()."),
    by_a_net_in_no_grad: ("model() inside no_grad(),", "out = model(nbgrad.ones(3, 2))", "Run that outside of"),
    by_detach: ("detach()", "cut = (W * 2).detach()", "Leave out detach() if"),
    by_copying: ("tensor()", "copied = tensor(W * 2)", "Leave out tensor() if"),
    by_freezing: ("linear", "hidden = net(frozen=True)(nbgrad.ones(3, 2))", "requires_grad_()"),
    by_a_change_in_no_grad: ("sum inside no_grad(),", "kept.add_(W.sum(0))", "Run that outside of no_grad()."),
}


@pytest.mark.parametrize("run", ENDS, ids=lambda run: run.__name__)
def test_a_backward_that_cannot_begin_names_the_op_and_the_line(run: Callable[[], Tensor]) -> None:
    op, line, then = ENDS[run]
    with nbgrad.AutogradGraph(), pytest.raises(RuntimeError) as raised:
        run().backward()
    text = str(raised.value)
    assert re.search(rf"ends at {re.escape(op)} at tests/core/test_cut_paths.py:\d+, `{re.escape(line)}`", text), text
    assert then in text
    with pytest.raises(RuntimeError, match="nothing it was computed from has requires_grad=True, or it was cut off"):
        run().backward()


def test_frozen_parameters_are_named() -> None:
    with nbgrad.AutogradGraph(), pytest.raises(RuntimeError, match=r"where 0\.weight and 0\.bias are frozen"):
        by_freezing().backward()


def test_what_was_not_seen_is_not_guessed() -> None:
    with nbgrad.AutogradGraph() as graph:
        number = tensor((W * 2).sum().item())
        with pytest.raises(RuntimeError, match=r"nothing it was computed from has requires_grad=True, or .* item\(\)"):
            number.backward()
    assert [found.kind for found in graph.unreached([W])] == ["elsewhere"]


def penalized(net: Any, x: Any, grad: Any) -> Any:
    (slope,) = grad(net(x).sum(), x, create_graph=True)
    return (slope.square().sum() - 1).square()


@pytest.mark.parametrize("library", ["nbgrad", "torch"])
@pytest.mark.parametrize("steps", [1, 12])
def test_a_penalty_on_gradients_does_not_depend_on_the_last_bias(library: str, steps: int) -> None:
    blocks, grad = (nn, nbgrad.grad) if library == "nbgrad" else (torch.nn, torch.autograd.grad)
    with nbgrad.AutogradGraph() if library == "nbgrad" else nbgrad.record(view="none") as graph:
        net = blocks.Sequential(blocks.Linear(3, 4), blocks.Tanh(), blocks.Linear(4, 1))
        for _ in range(steps):
            x = (torch if library == "torch" else nbgrad).randn(5, 3, requires_grad=True)
            penalized(net, x, grad).backward()
    (found,) = graph.unreached(net)
    assert (found.name, found.kind) == ("2.bias", "derivative")
    assert "the loss has a derivative of sum at tests/core/test_cut_paths.py:" in found.reason
    assert graph.findings() == []


def test_a_derivative_that_is_not_in_the_loss_explains_nothing() -> None:
    with nbgrad.record(view="none") as graph:
        net, other = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)
        x = torch.randn(5, 3, requires_grad=True)
        penalized(net, x, torch.autograd.grad)
        other(x.detach()).sum().backward()
    assert {found.kind for found in graph.unreached(net)} == {"elsewhere"}


def test_outside_of_a_graph_the_message_says_how_to_see_more() -> None:
    with pytest.raises(RuntimeError, match=r"of type int64, .* Inside nbgrad.AutogradGraph\(\) or a %%autograd cell"):
        nbgrad.ones(2, dtype=torch.int64).sum().backward()


@pytest.mark.parametrize("run", [by_argmax, by_no_grad, by_detach], ids=lambda run: run.__name__)
def test_unreached_knows_where_it_ended_when_a_backward_was_refused(run: Callable[[], Tensor]) -> None:
    with nbgrad.AutogradGraph() as graph:
        loss = run()
        (found,) = graph.unreached([W])
        assert found.kind == "no backward"
        with pytest.raises(RuntimeError):
            loss.backward()
        (found,) = graph.unreached([W])
    assert graph.unreached([W]) == [found]
    assert ENDS[run][1] in found.reason
    (problem,) = describe(graph)["problems"]
    assert problem["text"].startswith(f"No gradient reached {found}")


def test_a_loss_that_was_only_looked_at_is_not_called_cut_off() -> None:
    with nbgrad.AutogradGraph() as graph:
        loss = (W * W).sum()
        assert loss.detach() > 0
    assert [found.kind for found in graph.unreached([W])] == ["no backward"]
    assert describe(graph)["problems"] == []


# Functions of nbgrad's that run several ops.


def reason(run: Callable[[], object]) -> str:
    with nbgrad.AutogradGraph() as graph:
        kept = run()
        tensor(1.0, requires_grad=True).backward()
        (found,) = graph.unreached([W])
    assert kept is not None
    return found.reason


def test_the_function_that_was_called_is_named_and_not_an_op_in_it() -> None:
    assert re.fullmatch(
        r"it ends at logdet at tests/.*logdet\(W\)\),`, which does not lead to the loss",
        reason(lambda: nbgrad.logdet(W)),
    )
    assert "it ends at exp at" in reason(lambda: (W * 2).logdet().exp())
    assert "the result of logdet is cut off by detach() at" in reason(lambda: W.logdet().detach())
    assert "the result of logdet is used by gt at" in reason(lambda: W.logdet() > 0)


def test_an_operator_and_a_block_are_named_by_the_op() -> None:
    layer, function = nn.Linear(2, 2), nbgrad.exp
    assert "it ends at mul at" in reason(lambda: W * 2)
    assert "it ends at linear at" in reason(lambda: layer(W))
    assert "it ends at exp at" in reason(lambda: function(W))


# nbgrad.tensor() of a tensor.


@pytest.mark.parametrize("needs", [False, True])
def test_a_copy_of_a_tensor_that_needs_a_gradient_warns_once_for_a_line_as_torch_does(needs: bool) -> None:
    with pytest.warns(UserWarning, match=r"recommended to use sourceTensor\..*detach\(\)"):
        torch.tensor(torch.ones(2, requires_grad=True) * 2, requires_grad=needs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for source in (W, W * 2, W * 3):
            made = tensor(source, requires_grad=needs)
            assert (made.requires_grad, made.tolist()) == (needs, source.tolist())
    (found,) = caught
    assert found.filename == __file__
    assert str(found.message) == (
        "nbgrad.tensor() of a tensor of shape (2, 2) that needs a gradient copies its values, and no gradient flows "
        "through it: use the tensor itself, or t.clone() for a copy; write t.detach().clone() if that is meant, with "
        ".requires_grad_() for a leaf of its own"
    )


def test_a_copy_that_cuts_nothing_is_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tensor(W.detach(), requires_grad=True)
        tensor(W.data)
        nn.Parameter(W)
        with nbgrad.no_grad():
            tensor(W)
        nbgrad.jacobian(lambda x: x * 2, W)
        assert nbgrad.gradcheck(lambda x: x * 2, W.detach().double().requires_grad_())


def test_what_stays_is_not_looked_through_at_every_op(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, looked = [], 0

    class Counted(ref[Any]):
        def __call__(self) -> Any:
            nonlocal looked
            looked += 1
            if looked == 2000:  # another thread runs an op at that moment
                other = Thread(target=copy_context().run, args=(lambda: kept.append(W * 2),))
                other.start()
                other.join()
            return super().__call__()

    monkeypatch.setattr(cut_paths, "ref", Counted)
    with nbgrad.AutogradGraph(), nbgrad.no_grad():
        kept += [W * 2 for _ in range(4500)]
    assert 2000 < looked < 3 * 4500


def scaled_data(made: Tensor) -> Any:
    return made.data * 2


READS: dict[str, Callable[[Tensor], Any]] = {
    ".data": scaled_data,
    "tolist()": lambda made: nbgrad.tensor(made.tolist()),
    "item()": lambda made: made.sum().item(),
    "float()": lambda made: float(made.sum()),
    "numpy(force=True)": lambda made: torch.from_numpy(made.numpy(force=True)),
}


@pytest.mark.parametrize("what", READS)
def test_where_numbers_alone_are_taken_that_is_where_the_path_ends(what: str) -> None:
    take, other = READS[what], nn.Parameter([1.0])
    with nbgrad.AutogradGraph() as graph:
        values = take(W.exp())
        (other * values).sum().backward()
    (found,) = graph.unreached({"W": W})
    assert found.kind == "elsewhere"
    assert f"which does not lead to the loss: {what} at tests/core/test_cut_paths.py:" in found.reason
    assert found.reason.endswith("reads only its numbers")


def test_numbers_that_are_looked_at_end_no_path_that_goes_on() -> None:
    other = nn.Parameter([1.0])
    with nbgrad.AutogradGraph() as graph:
        made = W.exp()
        assert made.sum().item() > 0
        (other * (made * 2).detach()).sum().backward()
    (found,) = graph.unreached({"W": W})
    assert found.kind == "detached"
    assert "item()" not in found.reason


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_path_that_ends_early_in_a_forward_of_many_ops_is_found(steps: int) -> None:
    """A graph drops the facts of tensors that are gone while a program runs, but keeps those of the last forward."""
    first, then = (tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    with nbgrad.AutogradGraph() as graph:
        for _ in range(steps):
            h = then * (first * 2).exp().detach()
            for _ in range(400):
                h = h * 1.0
            h.sum().backward()
    (found,) = graph.unreached()
    assert found.reason.startswith("the result of exp is cut off by detach() at ")


def of_the_second(one: nn.Module, two: nn.Module, seen: list[float]) -> Tensor:
    hidden = one(nbgrad.ones(3, 2))
    seen.append(hidden.detach().mean().item())
    return two(hidden.detach() * 2)


def of_one_in_no_grad(one: nn.Module, two: nn.Module, seen: list[float]) -> Tensor:
    hidden = one(nbgrad.ones(3, 2))
    with nbgrad.no_grad():
        seen.append((hidden > 0).float().mean().item())
        hidden = hidden.tanh()
    return two(hidden)


def of_one_that_was_looked_at_since(one: nn.Module, two: nn.Module, seen: list[float]) -> Tensor:
    hidden = one(nbgrad.ones(3, 2))
    out = two(hidden.detach() + 1)
    seen.append(hidden.argmax().item() + (hidden.detach() * out.detach()).sum().item())
    return out


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (of_the_second, "return two(hidden.detach() * 2)"),
        (of_one_in_no_grad, "hidden = hidden.tanh()"),
        (of_one_that_was_looked_at_since, "out = two(hidden.detach() + 1)"),
    ],
)
@pytest.mark.parametrize("steps", [1, 5])
def test_of_several_ends_the_one_behind_which_the_loss_was_computed_is_named(
    run: Callable[[nn.Module, nn.Module, list[float]], Tensor], line: str, steps: int
) -> None:
    one, two, seen = nn.Linear(2, 2), nn.Linear(2, 1), list[float]()
    with nbgrad.AutogradGraph() as graph:
        for _ in range(steps):
            run(one, two, seen).sum().backward()
    assert [f"`{line}`" in found.reason for found in graph.unreached(one)] == [True, True]


def test_of_several_ends_none_of_which_led_to_the_loss_the_first_is_named() -> None:
    one, two = nn.Linear(2, 2), nn.Linear(2, 1)
    with nbgrad.AutogradGraph() as graph:
        hidden = one(nbgrad.ones(3, 2))
        first = hidden.detach()
        second = hidden.argmax()
        two(nbgrad.ones(3, 2)).sum().backward()
    assert first.shape, second.shape
    assert ["`first = hidden.detach()`" in found.reason for found in graph.unreached(one)] == [True, True]


def test_where_many_branching_paths_end_is_found_in_linear_time() -> None:
    """In each step the path of a weight branches, and leads to all later steps."""

    def work(steps: int) -> int:
        weights = [nbgrad.tensor([1.0], requires_grad=True) for _ in range(steps)]
        used = nbgrad.tensor([1.0], requires_grad=True)
        with nbgrad.AutogradGraph() as graph:
            x = nbgrad.tensor([1.0])
            for weight in weights:
                x = x * weight
                x = x + x.sin()
            (used * 2).sum().backward()
            found: list[Any] = []
            count = lines(lambda: found.extend(graph.unreached(weights)))
        assert len(found) == steps
        assert all("it ends at add at" in one.reason for one in found)
        return count

    small, large = work(20), work(160)
    assert large < 10 * small


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("make", [nbgrad.zeros, torch.zeros], ids=["nbgrad", "torch"])
def test_an_op_may_give_no_tensor_at_all(make: Callable[..., Any], learns: bool) -> None:
    with nbgrad.AutogradGraph():
        x = make(0, 3, requires_grad=learns)
        assert list(x) == []
        assert x.unbind() == ()
        with nbgrad.no_grad(), torch.no_grad():
            assert x.unbind() == ()


@pytest.mark.parametrize("lib", [torch, nbgrad])
@pytest.mark.parametrize("last", ["grad", "inputs"])
def test_a_tensor_that_was_not_asked_for_is_not_missed(lib: Any, last: str) -> None:
    with nbgrad.AutogradGraph() as graph:
        w, v = lib.ones(3, requires_grad=True), lib.ones(3, requires_grad=True)
        loss = (w * v).sum()
        lib.autograd.grad(loss, w, retain_graph=True)
        if last == "grad":
            lib.autograd.grad(loss, v)
        else:
            loss.backward(inputs=[v])
        (missing,) = graph.unreached()
        assert missing.kind == "not asked"
        assert missing.reason == "the last backward was to give gradients to other tensors alone"
        assert not missing.asked
    assert graph.findings() == []


@pytest.mark.parametrize("lib", [torch, nbgrad])
def test_a_tensor_that_was_asked_for_in_vain_is_still_missed(lib: Any) -> None:
    with nbgrad.AutogradGraph() as graph:
        w, u = lib.ones(3, requires_grad=True), lib.ones(3, requires_grad=True)
        loss = (w * u.detach()).sum()
        lib.autograd.grad(loss, [w, u], allow_unused=True)
        (missing,) = graph.unreached()
        assert missing.kind == "detached"
    (finding,) = graph.findings()
    assert finding.kind == "unreached"


@pytest.mark.parametrize("lib", [torch, nbgrad])
def test_a_whole_backward_after_one_for_some_tensors_misses_each(lib: Any) -> None:
    with nbgrad.AutogradGraph() as graph:
        w, u = lib.ones(3, requires_grad=True), lib.ones(3, requires_grad=True)
        loss = (w * u.detach()).sum()
        lib.autograd.grad(loss, w, retain_graph=True)
        loss.backward()
        (missing,) = graph.unreached()
        assert missing.asked
    assert [one.kind for one in graph.findings()] == ["unreached"]
