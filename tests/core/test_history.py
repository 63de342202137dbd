"""The history of a graph: which backwards become frames, what a frame says, and what it costs."""

import gc
import math
import weakref
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.choices import FRAMES
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.history import HistoryRecorder, diff
from nbgrad.widgets.describe import describe
from tests.allocations import torch_blocks


def step(model: nbgrad.nn.Module, x: nbgrad.Tensor) -> nbgrad.Tensor:
    loss = (model(x) ** 2).mean()
    loss.backward()
    return loss


def model() -> nbgrad.nn.Sequential:
    nbgrad.manual_seed(0)
    return nbgrad.nn.Sequential(nbgrad.nn.Linear(3, 4), nbgrad.nn.Tanh(), nbgrad.nn.Linear(4, 1))


def test_every_backward_is_a_frame_with_the_loss_and_the_norms_of_torch() -> None:
    x = torch.randn(5, 3)
    net = model()
    twin = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    twin.load_state_dict({name: tensor.data.clone() for name, tensor in net.state_dict().items()})
    optimizer, twins = nbgrad.optim.SGD(net.parameters(), lr=0.1), torch.optim.SGD(twin.parameters(), lr=0.1)
    wanted: list[tuple[float, list[float]]] = []
    for _ in range(5):
        twins.zero_grad()
        loss = (twin(x) ** 2).mean()
        loss.backward()
        wanted.append((loss.item(), [float(parameter.grad.norm()) for parameter in twin.parameters()]))
        twins.step()
    with AutogradGraph() as graph:
        for _ in range(5):
            optimizer.zero_grad()
            step(net, nbgrad.tensor(x))
            optimizer.step()
        opened = list(graph.history)
    assert [frame.number for frame in graph.history] == [1, 2, 3, 4, 5]
    for frame, (value, norms) in zip(graph.history, wanted, strict=True):
        assert frame.loss == pytest.approx(value)
        assert [record.gradient for record in frame.parameters] == pytest.approx(norms)
    assert [frame.loss for frame in opened] == pytest.approx([frame.loss for frame in graph.history])


def test_a_frame_lists_what_the_graph_lists_in_its_order() -> None:
    net = model()
    with AutogradGraph() as graph:
        for _ in range(3):
            loss = step(net, nbgrad.tensor(torch.ones(2, 3)))
    for frame in graph.history:
        assert [(r.kind, r.op, r.name, r.shape, r.scopes[-1:]) for r in frame.records] == [
            (r.kind, r.op and r.op.name, r.name, r.shape, (r.scope.label,) if r.scope else ()) for r in graph.records
        ]
        assert [frame.records[position].name for position in frame.roots] == ["loss"]
    assert loss.item() == pytest.approx(graph.history[-1].loss)
    last = [None if record.gradient is None else record.gradient.norm for record in graph.records]
    assert [record.gradient for record in graph.history[-1].records] == pytest.approx(last)
    assert graph.history[0].records[1].scopes == ("Sequential", "0 (Linear)")


def test_weights_are_measured_in_the_last_frame_and_in_one_of_four() -> None:
    net = model()
    with AutogradGraph() as graph:
        for _ in range(6):
            step(net, nbgrad.tensor(torch.ones(2, 3)))
    norms = [float(parameter.data.norm()) for parameter in net.parameters()]
    measured = [[record.weight for record in frame.parameters] for frame in graph.history]
    for number, weights in enumerate(measured, 1):
        assert weights == (pytest.approx(norms) if number in {1, 5, 6} else [None] * 4)
    weight = graph.history[-1].parameters[0]
    assert weight.ratio == pytest.approx(weight.gradient / norms[0])
    assert graph.history[1].parameters[0].ratio is None


def trained(steps: int, each: int = 1, **options: Any) -> tuple[AutogradGraph, dict[int, list[float]]]:
    """A graph of a loop in which two optimizers step after ``each`` backwards, and the update ratios by backward."""
    net = model()
    optimizers = [nbgrad.optim.SGD(net[0].parameters(), lr=0.1), nbgrad.optim.Adam(net[2].parameters(), lr=0.01)]
    x, expected = nbgrad.tensor(torch.ones(2, 3)), {}
    with AutogradGraph(**options) as graph:
        for number in range(1, steps + 1):
            net.zero_grad()
            for _ in range(each):
                step(net, x)
            before = [parameter.data.clone() for parameter in net.parameters()]
            for optimizer in optimizers:
                optimizer.step()
            expected[each * number] = [
                float((parameter.data - was).norm() / was.norm())
                for was, parameter in zip(before, net.parameters(), strict=True)
            ]
    return graph, expected


def updates(graph: AutogradGraph) -> dict[int, list[float | None]]:
    """The update ratios in the history, for each backward."""
    return {frame.number: [record.update for record in frame.parameters] for frame in graph.history}


@pytest.mark.rotated(3)
@pytest.mark.parametrize(("steps", "frames", "late"), [(40, 21, [33]), (1000, 35, [33, 65, 129, 257, 513])])
def test_the_step_after_the_first_frames_and_some_of_the_others_is_measured(
    steps: int, frames: int, late: list[int]
) -> None:
    graph, expected = trained(steps)
    measured = updates(graph)
    assert measured.pop(steps) == [None] * 4, "it was not known that it would be the last"
    assert len(measured) == len(graph.history) - 1 == frames
    picked = [*range(1, 9), 9, 11, 13, 15, 17, *late]
    for number in measured.keys() - picked:
        assert measured.pop(number) == [None] * 4
    assert list(measured) == picked
    for number, found in measured.items():
        assert found == pytest.approx(expected[number], rel=1e-5)
    assert graph.update is not None
    assert graph.update.number == max(measured)
    assert list(graph.update.ratios.values()) == pytest.approx(expected[max(measured)], rel=1e-5)
    names = {record.id: record.name for record in graph.records}
    assert [names[key] for key in graph.update.ratios] == ["weight", "bias", "weight", "bias"]


def test_the_steps_of_large_parameters_are_measured_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    from nbgrad.core.graph import optimizers

    monkeypatch.setattr(optimizers, "LARGE", 64)
    nets = [torch.nn.Linear(4, 3), torch.nn.Linear(4, 4)]  # of 60 bytes and of 80
    for net, measured in zip(nets, (list(range(1, 9)), [1, 9]), strict=True):
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with AutogradGraph() as graph:
            for _ in range(10):
                optimizer.zero_grad()
                net(torch.ones(2, 4)).sum().backward()
                optimizer.step()
        found = [frame.number for frame in graph.history if any(one.update for one in frame.parameters)]
        assert [number for number in found if number <= 8 or number in measured] == measured


def test_the_step_of_a_large_parameter_is_measured_on_a_sample() -> None:
    torch.manual_seed(0)
    w = torch.nn.Parameter(torch.randn(1000, 600).t())
    optimizer = torch.optim.Adam([w], lr=0.1)
    before = w.detach().clone()
    with AutogradGraph() as graph:
        (w * torch.linspace(-1, 2, 1000)).square().sum().backward()
        blocks = torch_blocks(optimizer.step, least=w.nbytes)
    wanted = float((w.detach() - before).norm() / before.norm())
    assert graph.update is not None
    (found,) = graph.update.ratios.values()
    assert found == pytest.approx(wanted, rel=0.02)
    with torch.no_grad():
        w.copy_(before)
    plain = torch.optim.Adam([w], lr=0.1)  # it makes its state in the first step, too
    assert len(blocks) == len(torch_blocks(plain.step, least=w.nbytes)), "no copy of the parameter"
    (step,) = [one["text"] for node in describe(graph)["nodes"] for one in node["details"] if one["term"] == "step"]
    assert step.endswith("of its norm, of 65,536 of 600,000 numbers")


def test_a_step_after_several_backwards_belongs_to_the_first_that_waits_for_one() -> None:
    graph, expected = trained(40, each=2)
    assert graph.update is not None
    assert graph.update.number % 2 == 1, "a frame, and no step came before the next backward"
    assert list(graph.update.ratios.values()) == pytest.approx(expected[graph.update.number + 1], rel=1e-5)
    for number, found in updates(graph).items():
        if number <= FRAMES / 2:  # up to here every backward is a frame
            assert found == pytest.approx(expected[number + number % 2], rel=1e-5)


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_every_backward_in_a_step_of_lbfgs_has_what_the_whole_step_changed(search: str | None) -> None:
    w = nbgrad.tensor([3.0, -2.0], requires_grad=True)
    optimizer = nbgrad.optim.LBFGS([w], lr=0.1, max_iter=4, line_search_fn=search)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((w * w - nbgrad.tensor([1.0, 3.0])) ** 2).sum()
        loss.backward()
        return loss

    expected: list[float] = []
    with AutogradGraph(history=256) as graph:
        for _ in range(5):
            before, began = w.data.clone(), graph.backwards
            optimizer.step(closure)
            expected += [float((w.data - before).norm() / before.norm())] * (graph.backwards - began)
    assert len(expected) >= 15
    assert len(set(expected)) == 5
    assert [found for (found,) in updates(graph).values()] == pytest.approx(expected, rel=1e-5)
    assert graph.update is not None
    assert list(graph.update.ratios.values()) == pytest.approx(expected[-1:], rel=1e-5)


def test_the_copies_of_an_interrupted_step_go_with_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    w, clone = nbgrad.tensor([3.0, -2.0], requires_grad=True), torch.Tensor.clone
    copies: list[weakref.ref[torch.Tensor]] = []

    def noted(data: torch.Tensor) -> torch.Tensor:
        copies.append(weakref.ref(copy := clone(data)))
        return copy

    monkeypatch.setattr(torch.Tensor, "clone", noted)

    def interrupted() -> Any:
        raise KeyboardInterrupt

    graph = AutogradGraph()
    with pytest.raises(KeyboardInterrupt), graph:
        nbgrad.optim.LBFGS([w]).step(interrupted)
    assert copies
    assert all(copy() is None for copy in copies)


@pytest.mark.parametrize("options", [{"history": 0}, {"watch": False}, {"budget": 8}], ids=str)
def test_no_step_is_measured_where_no_tensor_may_be_kept(options: dict[str, Any]) -> None:
    graph, _ = trained(3, **options)
    assert graph.update is None
    assert all(record.update is None for frame in graph.history for record in frame.records)


def test_parameters_that_were_zero_have_no_update() -> None:
    w, b = (nbgrad.tensor([value, value], requires_grad=True) for value in (1.0, 0.0))
    optimizer = nbgrad.optim.SGD([w, b], lr=0.25)
    with AutogradGraph() as graph:
        ((w + b) ** 2).sum().backward()
        optimizer.step()
        optimizer.step()  # two steps after one backward: the first one was measured
    assert graph.update is not None
    assert list(graph.update.ratios.values()) == pytest.approx([0.5])


def test_the_copies_of_a_step_that_failed_are_not_taken_for_the_next() -> None:
    class Broken(nbgrad.optim.SGD):
        def update(self, *_: Any) -> None:
            raise RuntimeError("broken")

    w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        (w * w).sum().backward()
        with pytest.raises(RuntimeError, match="broken"):
            Broken([w], lr=0.1).step()
        with nbgrad.no_grad():
            w.mul_(3.0)
        assert graph.update is None
        nbgrad.optim.SGD([w], lr=0.1).step()
    assert graph.update is not None
    assert list(graph.update.ratios.values()) == pytest.approx([0.1 * 2 / 3])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("limit", [2, 3, 10, 64])
@pytest.mark.parametrize("backwards", [1, 2, 3, 31, 64, 65, 100, 1000])
def test_the_frames_are_bounded_and_the_first_and_the_last_are_there(limit: int, backwards: int) -> None:
    w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with AutogradGraph(history=limit) as graph:
        for _ in range(backwards):
            w.sum().backward()
            if len(graph.history) > limit or graph.history[-1].number != graph.backwards:
                pytest.fail(f"after {graph.backwards} backwards: {graph.history!r}")
    numbers = [frame.number for frame in graph.history]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1
    assert numbers[-1] == backwards
    assert len(numbers) == backwards or len(numbers) > limit / 4
    assert all(record.gradient is not None for frame in graph.history for record in frame.records)


def test_a_short_loop_is_kept_whole_and_a_long_one_gets_rarer() -> None:
    recorder = HistoryRecorder(FRAMES)
    wanted = [number for number in range(1, 1001) if recorder.wants(number)]
    assert wanted[:18] == list(range(1, 19))
    assert [sum(low < number <= 2 * low for number in wanted) for low in (32, 64, 128, 256)] == [3, 3, 3, 3]
    assert len(wanted) == 35, "each costs a loop as much as many steps that are none"


@pytest.mark.parametrize("limit", [0, 2, 3, 7, 8, FRAMES, 1000])
def test_no_frame_is_missed_between_two_backwards_at_which_the_history_is_asked(limit: int) -> None:
    recorder = HistoryRecorder(limit)
    asked = [recorder.ask_again(0)]
    while asked[-1] <= 3000:
        asked.append(recorder.ask_again(asked[-1]))
    assert asked == sorted(set(asked))
    assert {number for number in range(1, 3001) if recorder.wants(number)} <= set(asked)
    assert len(asked) <= limit * 12 + 13


def test_no_history_and_a_history_of_nothing() -> None:
    w = nbgrad.tensor([1.0], requires_grad=True)
    with AutogradGraph(history=0) as graph:
        w.sum().backward()
    assert list(graph.history) == []
    with AutogradGraph() as empty:
        w.sum()
    assert list(empty.history) == []
    assert repr(empty.history) == "<History: no backward>"
    for limit in (-1, 1):
        with pytest.raises(ValueError, match=f"history={limit}: it must be 0, or at least 2"):
            AutogradGraph(history=limit)


def test_frames_hold_no_tensor() -> None:
    w = nbgrad.tensor(torch.ones(2000), requires_grad=True)
    with AutogradGraph() as graph:
        for _ in range(3):
            y = w * 2
            alive = weakref.ref(y.data)
            y.sum().backward()
        history = graph.history
    gradient = weakref.ref(w.grad.data)
    del w, y
    gc.collect()
    assert alive() is None
    assert gradient() is None
    assert history[0].records[0].gradient == pytest.approx(math.sqrt(4 * 2000))


def test_without_watching_the_leaves_have_norms_and_nothing_is_held() -> None:
    w = nbgrad.tensor(torch.full((2000,), 3.0), requires_grad=True)
    with AutogradGraph(watch=False) as graph:
        for _ in range(2):
            (w * w).sum().backward()
            w.grad = None
    assert [[record.gradient for record in frame.records] for frame in graph.history] == [
        [pytest.approx(6 * math.sqrt(2000)), None, None],
        [pytest.approx(6 * math.sqrt(2000)), None, None],
    ]
    assert [frame.loss for frame in graph.history] == [None, None]


def test_half_and_double_precision_in_one_frame() -> None:
    half = nbgrad.tensor([300.0, 400.0], dtype=nbgrad.float16, requires_grad=True)
    double = nbgrad.tensor([1.0, 1.0], dtype=nbgrad.float64, requires_grad=True)
    with AutogradGraph() as graph:
        (half.double() * double).sum().backward()
    assert [record.gradient for record in graph.history[0].parameters] == [pytest.approx(2**0.5), pytest.approx(500)]


def test_a_backward_that_raised_is_no_frame() -> None:
    w = nbgrad.tensor([1.0], requires_grad=True)
    with AutogradGraph() as graph:
        w.sum().backward()
        y = (w * w).sum()
        y.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            y.backward()
    assert [frame.number for frame in graph.history] == [1, 2]


def test_nan_and_a_loss_that_is_no_number() -> None:
    w = nbgrad.tensor([-1.0, 2.0], requires_grad=True)
    with AutogradGraph() as graph:
        w.log().sum().backward()
        (w * 2).backward(nbgrad.tensor([1.0, 1.0]))
    assert math.isnan(graph.history[0].loss)
    assert graph.history[1].loss is None


def test_a_variable_names_the_frames_of_its_loop() -> None:
    with AutogradGraph() as graph:
        w = nbgrad.tensor([1.0], requires_grad=True)
        for _ in range(3):
            loss = (w * w).sum()
            loss.backward()
    assert [[record.name for record in frame.records] for frame in graph.history] == [["w", None, "loss"]] * 3


def test_a_diff_names_structure_shapes_and_norms() -> None:
    w, b = nbgrad.tensor([1.0, 2.0], requires_grad=True), nbgrad.tensor([[1.0, 1.0]], requires_grad=True)
    with AutogradGraph() as graph:
        (w * 2).sum().backward()
        (w * 2).exp().sum().backward()
        (b * 2).sum().backward()
        (w * 4).sum().backward()
    one, two, three, four = graph.history
    assert [record.op for record in diff(one, two).added] == ["exp"]
    assert diff(one, two).removed == ()
    assert [record.op for record in two.diff(one).removed] == ["exp"]
    assert [(was.shape, now.shape) for was, now in one.diff(three).reshaped] == [((2,), (1, 2)), ((2,), (1, 2))]
    assert str(one.diff(four)).splitlines() == [
        "backward 1, loss 6 -> backward 4, loss 12",
        "  the same 3 records of the same shapes",
        "  |grad| of w (2,): 2.828 -> 5.657, times 2",
    ]
    assert "only after: exp (2,)" in str(one.diff(two))
    assert "mul (2,) -> (1, 2)" in str(one.diff(three))


def test_parameters_are_matched_by_name_and_module() -> None:
    wide, narrow = model(), nbgrad.nn.Sequential(nbgrad.nn.Linear(3, 2), nbgrad.nn.Tanh(), nbgrad.nn.Linear(2, 1))
    with AutogradGraph() as graph:
        for net in (wide, narrow):
            step(net, nbgrad.tensor(torch.ones(2, 3)))
    found = diff(*graph.history)
    assert found.added == found.removed == ()
    assert [was.name for was, _ in found.reshaped if was.kind == "parameter"] == ["weight", "bias", "weight"]


@pytest.mark.cuda
def test_on_a_gpu_the_norms_are_the_same() -> None:
    with AutogradGraph(device="cuda") as graph:
        w = nbgrad.tensor([3.0, 4.0], requires_grad=True)
        for _ in range(3):
            ((w * w).sum() / 2).backward()
    assert [frame.records[0].gradient for frame in graph.history] == [5.0, 5.0, 5.0]
    assert [frame.loss for frame in graph.history] == [12.5, 12.5, 12.5]


def test_on_the_meta_device_there_is_structure_and_no_number() -> None:
    with AutogradGraph(device="meta") as graph:
        net = nbgrad.nn.Linear(3, 2)
        step(net, nbgrad.tensor(torch.ones(2, 3, device="meta")))
    assert [record.op for record in graph.history[0].records if record.op] == ["linear", "pow", "mean"]
    assert all(record.value is record.gradient is None for record in graph.records)
    assert graph.history[0].loss is None
    assert not any(record.gradient or record.weight for record in graph.history[0].records)
