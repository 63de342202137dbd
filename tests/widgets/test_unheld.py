"""Parameters that get gradients and are in no optimizer, as findings of a picture."""

import copy
import pickle
from collections.abc import Callable
from types import FunctionType

import pytest

import nbgrad
from nbgrad import nn, optim
from nbgrad.widgets.describe import describe
from tests.widgets.graphs import texts


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(2, 3), nn.Linear(3, 1)

    def forward(self, x: nbgrad.Tensor) -> nbgrad.Tensor:
        return self.fc2(self.fc1(x).tanh())


THEM = "got a gradient, but no optimizer holds them: give them to one, or freeze them with requires_grad_(False)"
TOLD = "got a gradient, but no optimizer holds it: give it to one, or freeze it with requires_grad_(False)"


@pytest.mark.parametrize("steps", [1, 3])
def test_a_parameter_that_no_optimizer_holds_is_a_finding(steps: int) -> None:
    net = Net()
    optimizer = optim.SGD([*net.fc1.parameters(), net.fc2.bias], lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(steps):
            optimizer.zero_grad()
            net(nbgrad.ones(4, 2)).sum().backward()
            assert texts(graph) == [], "the step may still come"
            optimizer.step()
            assert texts(graph) == [f"fc2.weight (1, 3) {TOLD}"]
    (problem,) = describe(graph)["problems"]
    assert problem["text"] == f"fc2.weight (1, 3) {TOLD}"
    (node,) = [node for node in describe(graph)["nodes"] if node["id"] == problem["node"]]
    assert node["label"][0] == "weight"
    optimizer.add_param_group({"params": net.fc2.weight})
    assert texts(graph) != [], "the findings are those of the moment when the graph was closed"
    with nbgrad.AutogradGraph() as graph:
        net(nbgrad.ones(4, 2)).sum().backward()
        optimizer.step()
    assert texts(graph) == []


def test_a_model_that_was_made_in_the_graph_has_not_learned_by_its_initialisation() -> None:
    with nbgrad.AutogradGraph() as graph:
        net = Net()
        nn.init.xavier_uniform_(net.fc2.weight)
        optimizer = optim.SGD([*net.fc1.parameters(), net.fc2.bias], lr=0.1)
        net(nbgrad.ones(4, 2)).sum().backward()
        optimizer.step()
    assert texts(graph) == [f"fc2.weight (1, 3) {TOLD}"]


def test_a_forgotten_module_and_a_forgotten_parameter_are_reported() -> None:
    net, read, scale = Net(), nn.Linear(1, 1, bias=False), nn.Parameter([2.0])
    optimizer = optim.Adam(net.parameters())
    with nbgrad.AutogradGraph() as graph:
        (read(net(nbgrad.ones(4, 2))) * scale).sum().backward()
        optimizer.step()
    assert texts(graph) == [f"read.weight (1, 1), scale (1,) {THEM}"]


def test_one_in_a_list_is_reported_by_its_place() -> None:
    net, others = Net(), [nn.Parameter([2.0])]
    optimizer = optim.Adam(net.parameters())
    with nbgrad.AutogradGraph() as graph:
        (net(nbgrad.ones(4, 2)) * others[0]).sum().backward()
        optimizer.step()
    assert texts(graph) == [f"others[0] (1,) {TOLD}"]


def test_of_many_the_first_are_named() -> None:
    net = nn.Sequential(*[nn.Linear(2, 2, bias=False) for _ in range(30)])
    optimizer = optim.SGD(net[0].parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        net(nbgrad.ones(4, 2)).sum().backward()
        optimizer.step()
    assert texts(graph) == [f"1.weight (2, 2), 2.weight (2, 2) and 27 others, the last of them 29.weight (2, 2) {THEM}"]


def trained(prepare: Callable[[Net], object]) -> list[str]:
    """The findings after ``prepare`` and a step that trains only the first layer."""
    net = Net()
    kept = prepare(net)
    optimizer = optim.SGD(net.fc1.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        net(nbgrad.ones(4, 2)).sum().backward()
        if isinstance(kept, FunctionType):
            kept()
        optimizer.step()
    return texts(graph)


def by_hand(net: Net) -> Callable[[], None]:
    def update() -> None:
        for parameter in net.fc2.parameters():
            parameter.data -= 0.1 * parameter.grad.data

    return update


def with_new_data(net: Net) -> Callable[[], None]:
    def update() -> None:
        for parameter in net.fc2.parameters():
            parameter.data = parameter.data - 0.1 * parameter.grad.data

    return update


def in_no_grad(net: Net) -> Callable[[], None]:
    def update() -> None:
        with nbgrad.no_grad():
            for parameter in net.fc2.parameters():
                parameter -= 0.1 * parameter.grad

    return update


def test_what_learns_in_another_way_is_no_finding() -> None:
    assert len(trained(lambda _: None)) == 1
    assert trained(lambda net: net.fc2.requires_grad_(False)) == []
    assert trained(lambda net: optim.SGD(net.fc2.parameters(), lr=0.1)) == [], "one for another cell"
    assert trained(by_hand) == []
    assert trained(with_new_data) == []
    assert trained(in_no_grad) == []


def test_a_step_of_an_optimizer_that_is_gone_since_counts() -> None:
    net = Net()
    kept = optim.SGD(net.fc1.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for optimizer in (kept, optim.SGD(net.fc2.parameters(), lr=0.1)):
            net.zero_grad()
            net(nbgrad.ones(4, 2)).sum().backward()
            optimizer.step()
        del optimizer
        net.zero_grad()
        net(nbgrad.ones(4, 2)).sum().backward()
        kept.step()
    assert texts(graph) == []


def test_a_tensor_that_is_optimized_through_a_network_leaves_that_alone() -> None:
    net, x = Net(), nbgrad.ones(4, 2, requires_grad=True)
    optimizer = optim.SGD([x], lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        net(x).sum().backward()
        optimizer.step()
    assert texts(graph) == []


def test_a_copy_of_an_optimizer_holds_its_parameters() -> None:
    net = Net()
    pair = net, optim.SGD(net.fc2.parameters(), lr=0.1)
    for twin, optimizer in (copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))):
        learning = optim.SGD(twin.fc1.parameters(), lr=0.1)
        with nbgrad.AutogradGraph() as graph:
            twin(nbgrad.ones(4, 2)).sum().backward()
            learning.step()
        assert texts(graph) == []
        assert optimizer.param_groups[0]["params"][0] is twin.fc2.weight


def test_a_step_that_changed_nothing_says_why() -> None:
    net = Net()
    other = copy.deepcopy(net)
    for model, clears, why in [
        (other, False, "the last backward reached other parameters"),
        (net, True, "were cleared after"),
    ]:
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        with nbgrad.AutogradGraph() as graph:
            optimizer.step()  # no backward came before
            for _ in range(2):
                net(nbgrad.ones(4, 2)).sum().backward()
                if clears:
                    optimizer.zero_grad()
                optimizer.step()
        (text,) = texts(graph)
        assert text.startswith("SGD.step() at tests/widgets/test_unheld.py:")
        assert "changed nothing: none of its 4 parameters has a gradient, and " in text
        assert why in text
        net.zero_grad()


def test_a_step_that_changed_nothing_is_none_where_others_learn() -> None:
    net, other = Net(), Net()
    both = [optim.SGD(one.parameters(), lr=0.1) for one in (net, other)]
    with nbgrad.AutogradGraph() as graph:
        for _ in range(2):
            net.zero_grad()
            net(nbgrad.ones(4, 2)).sum().backward()
            for optimizer in both:
                optimizer.step()
    assert texts(graph) == []


def step_before_backward(net: Net, optimizer: optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss = net(nbgrad.ones(4, 2)).square().sum()
    optimizer.step()
    loss.backward()


def step_before_backward_and_clear(net: Net, optimizer: optim.Optimizer) -> None:
    loss = net(nbgrad.ones(4, 2)).square().sum()
    optimizer.step()
    loss.backward()
    optimizer.zero_grad()


def step_after_clearing(net: Net, optimizer: optim.Optimizer) -> None:
    net(nbgrad.ones(4, 2)).square().sum().backward()
    optimizer.zero_grad()
    optimizer.step()


@pytest.mark.parametrize("run", [step_before_backward, step_before_backward_and_clear, step_after_clearing])
def test_steps_that_never_find_a_gradient_are_reported_wherever_a_cell_ends(
    run: Callable[[Net, optim.Optimizer], None],
) -> None:
    net = Net()
    optimizer = optim.Adam(net.parameters())
    with nbgrad.AutogradGraph() as graph:
        for step in range(3):
            run(net, optimizer)
            assert step == 0 or len(texts(graph)) == 1
    (text,) = texts(graph)
    assert "cleared after the last backward: call zero_grad(), backward() and step() in this order" in text


def test_a_loop_may_begin_with_the_step_of_the_last_backward() -> None:
    net = Net()
    optimizer = optim.Adam(net.parameters())
    with nbgrad.AutogradGraph() as graph:
        for _ in range(3):
            optimizer.step()
            optimizer.zero_grad()
            net(nbgrad.ones(4, 2)).square().sum().backward()
            assert texts(graph) == []


def test_a_step_at_the_end_for_what_is_left_may_find_nothing() -> None:
    """Gradients of two batches are accumulated. At the end of an epoch, a last step would take the rest."""
    net = Net()
    optimizer = optim.Adam(net.parameters())
    with nbgrad.AutogradGraph() as graph:
        for _ in range(2):
            for batch in range(4):
                net(nbgrad.ones(4, 2)).square().sum().backward()
                assert texts(graph) == []
                if batch % 2:
                    optimizer.step()
                    optimizer.zero_grad()
            optimizer.step()
            optimizer.zero_grad()
            assert texts(graph) == []
