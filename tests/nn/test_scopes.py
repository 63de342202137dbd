"""Module calls as nested boxes, labelled with the path in the model."""

import inspect
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from threading import Barrier

import pytest
import torch

import nbgrad
from nbgrad import nn
from nbgrad.core.engine.state import current
from nbgrad.widgets.describe import describe


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x).tanh() + x


class Net(nn.Module):
    """Its blocks stand in a container that is never called itself."""

    def __init__(self, depth=2):
        super().__init__()
        self.layers = nn.Sequential(*[Block() for _ in range(depth)])
        self.head = nn.Sequential(nn.Linear(2, 1), nn.ReLU())

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def boxes(call):
    """For each op that ``call`` ran, its name and the labels of the boxes around it, outermost first."""
    with nbgrad.AutogradGraph() as graph:
        call(nbgrad.tensor([[1.0, 2.0]], requires_grad=True)).sum().backward()
    return [(record.op.name, labels(record.scope)) for record in graph.records if record.op is not None]


def labels(scope):
    found = []
    while scope is not None:
        found.insert(0, scope.label)
        scope = scope.parent
    return found


def test_a_single_module_is_one_box():
    assert boxes(nn.Linear(2, 3)) == [("linear", ["Linear"]), ("sum", [])]


def test_children_are_boxes_in_their_parents():
    block = ["Net", "layers.0 (Block)"], ["Net", "layers.1 (Block)"]
    assert boxes(Net()) == [
        ("linear", [*block[0], "linear (Linear)"]),
        ("tanh", block[0]),
        ("add", block[0]),
        ("linear", [*block[1], "linear (Linear)"]),
        ("tanh", block[1]),
        ("add", block[1]),
        ("linear", ["Net", "head (Sequential)", "0 (Linear)"]),
        ("relu", ["Net", "head (Sequential)", "1 (ReLU)"]),
        ("sum", []),
    ]


def test_parameters_are_in_the_box_that_uses_them():
    with nbgrad.AutogradGraph() as graph:
        Net(depth=1)(nbgrad.tensor([[1.0, 2.0]])).sum().backward()
    drawn = [(record.name, labels(record.scope)[-1]) for record in graph.records if record.kind == "parameter"]
    assert drawn == [(name, box) for box in ("linear (Linear)", "0 (Linear)") for name in ("weight", "bias")]


class Masked(nn.Module):
    """Holds a buffer, a torch tensor, and a tensor that its child uses. It does not hold its input."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.eye(2))
        self.plain = torch.ones(2)
        self.shared = nbgrad.tensor([3.0, 4.0])
        self.inner = Inner()

    def forward(self, x, y):
        with nbgrad.scope("mine"):
            masked = (x @ self.mask) * self.plain
        return self.inner(masked + y, self.shared)


class Inner(nn.Module):
    def forward(self, x, shared):
        return x * shared


@pytest.mark.parametrize("steps", [1, 3])
def test_what_a_module_holds_is_in_its_box_under_its_name_and_an_input_is_not(steps):
    model, x = Masked(), nbgrad.tensor([[1.0, 2.0]], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(steps):  # each step is a call of its own, with a scope of its own
            y = nbgrad.tensor([5.0, 6.0])
            model(x, y).sum().backward()
    drawn = [(record.name, labels(record.scope), record.value.values) for record in graph.records if record.op is None]
    assert drawn == [
        ("x", [], [[1.0, 2.0]]),
        ("mask", ["Masked"], [[1.0, 0.0], [0.0, 1.0]]),
        ("plain", ["Masked"], [1.0, 1.0]),
        ("y", [], [5.0, 6.0]),
        ("shared", ["Masked"], [3.0, 4.0]),
    ]
    calls = [record.scope for record in graph.records if record.op is not None and record.op.name == "mul"]
    held = [record.scope for record in graph.records if record.name == "mask"]
    assert held == [calls[0].parent]  # the box of this call, not that of an earlier call


def test_a_path_is_found_from_the_enclosing_module_through_a_users_box():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ReLU()

        def forward(self, x):
            with nbgrad.scope("mine"):
                return self.inner(x)

    assert boxes(Wrapped())[0] == ("relu", ["Wrapped", "mine", "inner (ReLU)"])


def test_a_module_from_elsewhere_has_no_path():
    outside = nn.ReLU()

    class Borrower(nn.Module):
        def forward(self, x):
            return outside(x)

    assert boxes(Borrower())[0] == ("relu", ["Borrower", "ReLU"])


def test_a_module_that_calls_itself_has_no_path():
    class Again(nn.Module):
        def forward(self, x, depth=2):
            return self(x * 2, depth - 1) if depth else x

    assert boxes(Again())[:2] == [("mul", ["Again"]), ("mul", ["Again", "Again"])]


def test_a_shared_module_has_its_first_path():
    act = nn.Tanh()
    assert [box for _, box in boxes(nn.Sequential(act, act))] == [["Sequential", "0 (Tanh)"]] * 2 + [[]]


def test_labels_follow_changes_of_the_structure():
    net = Net()
    boxes(net)
    net.head[1] = nn.Tanh()
    assert boxes(net)[-2] == ("tanh", ["Net", "head (Sequential)", "1 (Tanh)"])
    net.end = net.head
    del net.head
    net.forward = net.end.forward
    assert boxes(net)[0] == ("linear", ["Net", "end.0 (Linear)"])


def test_a_module_that_raises_leaves_its_box():
    with nbgrad.AutogradGraph():
        with pytest.raises(RuntimeError, match="expected last dimension 2, got"):
            Net()(nbgrad.tensor([1.0]))
        assert current().scope is None


def test_without_a_graph_there_are_no_boxes():
    class Spy(nn.Module):
        def forward(self):
            return current().scope

    spy = Spy()
    assert spy() is None
    with nbgrad.AutogradGraph():
        assert labels(spy()) == ["Spy"]


class Halves(nn.Module):
    """Takes the half of everything.

    And more, which does not belong in a picture.
    """

    __formula__ = r"\frac{x}{2}"

    def forward(self, x):
        return x / 2


class Plain(nn.Module):
    def forward(self, x):
        return -x


def test_the_view_says_of_an_op_what_block_it_is_in():
    model = nn.Sequential(nn.Linear(2, 3), Halves(), Plain())
    with nbgrad.AutogradGraph() as graph:
        model(nbgrad.tensor([[1.0, 2.0]])).sum().backward()
    description = describe(graph)
    told = {
        node["label"][0]: {detail["term"]: detail["text"] for detail in node["details"]}
        for node in description["nodes"]
    }
    assert told["linear"]["block"] == "0 (Linear): " + inspect.getdoc(nn.Linear).splitlines()[0] + "\nx W^\\top + b"
    assert told["div"]["block"] == "1 (Halves): Takes the half of everything.\n\\frac{x}{2}"
    assert "block" not in told["neg"]
    assert "block" not in told["sum"]
    assert description["formulas"].keys() == {
        nn.Sequential.__formula__,
        "x W^\\top + b",
        "\\frac{x}{2}",
    }
    assert all(mathml.startswith("<math") for mathml in description["formulas"].values())


def test_a_formula_that_is_no_latex_stands_as_it_is(monkeypatch):
    monkeypatch.setattr(Halves, "__formula__", r"\left(")
    with nbgrad.AutogradGraph() as graph:
        Halves()(nbgrad.tensor([1.0], requires_grad=True)).sum().backward()
    description = describe(graph)
    assert description["formulas"] == {}
    assert any("\\left(" in detail["text"] for node in description["nodes"] for detail in node["details"])


def test_a_model_may_call_its_parts_as_it_likes():
    class Chemist(nn.Linear):
        def __init__(self):
            super().__init__(2, 2)
            self.formula = nn.Linear(2, 1)
            self.register_buffer("about", torch.ones(1))

    assert list(Chemist().state_dict()) == ["weight", "bias", "about", "formula.weight", "formula.bias"]


class Threads(nn.Module):
    """Calls its parts at the same time. Each call has its own thread, which runs in a copy of the context."""

    def __init__(self, count):
        super().__init__()
        self.parts = nn.ModuleList([Waits(count) for _ in range(count)])

    def forward(self, x):
        with ThreadPoolExecutor(len(self.parts)) as pool:
            runs = [pool.submit(copy_context().run, part, x) for part in self.parts]
        Waits.meeting.reset()
        return sum(run.result() for run in runs).tanh()


class Waits(nn.Module):
    """Waits until all parts have been called."""

    meeting = None

    def __init__(self, count):
        super().__init__()
        Waits.meeting = Barrier(count, timeout=60)
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        self.meeting.wait()
        made = self.linear(x)
        self.meeting.wait()
        return made.exp()


def test_modules_that_run_in_threads_at_the_same_time_have_their_own_boxes():
    found = boxes(Threads(3))
    for part in range(3):
        box = ["Threads", f"parts.{part} (Waits)"]
        assert found.count(("linear", [*box, "linear (Linear)"])) == found.count(("exp", box)) == 1
    assert ("tanh", ["Threads"]) in found
    assert found[-1] == ("sum", [])


def test_a_mode_that_a_module_sets_holds_after_its_call_and_its_box_does_not():
    class Freezes(nn.Module):
        def forward(self, x):
            nbgrad.set_grad_enabled(False)
            assert current().scope.label == "Freezes"
            return x

    with nbgrad.AutogradGraph(), nbgrad.enable_grad():
        Freezes()(nbgrad.tensor(1.0))
        assert not current().grad_enabled
        assert current().scope is None
        nbgrad.set_grad_enabled(True)
