"""Small gradients of a single backward, and the doings of an installed package, are no finding: nothing is trained."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import nbgrad

PACKAGE = '''
import torch


class Head(torch.nn.Module):
    """Two outputs, of which a loss may use one; a state that is cut off; and small weights before all of it."""

    def __init__(self):
        super().__init__()
        self.small, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.one, self.other, self.state = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2), torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.norm(self.small(x) * 1e-7 + x) + self.state(x).detach()
        return self.one(x), self.other(x)
'''


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], Any]]:
    """Makes the module, as one of an installed package or as the user's own."""
    names = []

    def made(installed: bool) -> Any:
        name = f"heads_{installed}"
        folder = tmp_path / ("site-packages" if installed else "project")
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.py").write_text(PACKAGE, encoding="utf-8")
        monkeypatch.syspath_prepend(folder)
        names.append(name)
        module: ModuleType = __import__(name)
        torch.manual_seed(0)
        return module.Head()

    yield made
    for name in names:
        sys.modules.pop(name, None)


def findings(net: Any, steps: int, *, rows: int = 3) -> list[str]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with nbgrad.record(view="none") as graph:
        for _ in range(max(steps, 1)):
            optimizer.zero_grad()
            net(torch.randn(rows, 4))[0].square().mean().backward()
            if steps:
                optimizer.step()
    return sorted({finding.kind for finding in graph.findings()})


def test_what_an_installed_package_does_is_told_where_it_is_trained(head: Callable[[bool], Any]) -> None:
    assert findings(head(True), 0) == []
    assert {"layer setting", "unreached", "vanishing"} <= {*findings(head(True), 4)}


def test_the_users_own_module_is_judged_by_one_backward(head: Callable[[bool], Any]) -> None:
    assert {"layer setting", "unreached", "vanishing"} <= {*findings(head(False), 0)}


@pytest.mark.parametrize("factor", [1e-4, 1e-7])
def test_a_gradient_of_new_weights_may_be_small(factor: float) -> None:
    class Branch(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * factor + x

    def told(steps: int) -> bool:
        torch.manual_seed(0)
        net = torch.nn.Sequential(Branch(4, 4), *[torch.nn.Linear(4, 4) for _ in range(3)])
        with nbgrad.record(view="none") as graph:
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            for _ in range(max(steps, 1)):
                optimizer.zero_grad()
                net(torch.randn(8, 4)).square().mean().backward()
                if steps:
                    optimizer.step()
        return "vanishing" in {finding.kind for finding in graph.findings()}

    assert told(0) == (factor == 1e-7)
    assert told(3)


def test_small_gradients_of_which_an_optimizer_makes_usual_steps_are_sound() -> None:
    class Branch(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) * 1e-4 + x

    def kinds(optimizer: Callable[..., torch.optim.Optimizer]) -> set[str]:
        torch.manual_seed(0)
        net = torch.nn.Sequential(Branch(4, 4), *[torch.nn.Linear(4, 4) for _ in range(3)])
        steps = optimizer(net.parameters(), lr=1e-3)
        with nbgrad.record(view="none") as graph:
            for _ in range(6):
                steps.zero_grad()
                net(torch.randn(8, 4)).square().mean().backward()
                steps.step()
        return {finding.kind for finding in graph.findings()}

    assert "vanishing" in kinds(torch.optim.SGD)
    assert "vanishing" not in kinds(torch.optim.Adam)


class Noised(torch.optim.SGD):
    """Puts another tensor into each ``.grad``, as training with differential privacy does."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for one in group["params"]:
                one.grad = one.grad + 3 * torch.randn_like(one.grad)
        return super().step(closure)


def test_a_gradient_that_is_replaced_is_not_one_of_earlier_steps() -> None:
    net = torch.nn.Linear(4, 2)
    optimizer = Noised(net.parameters(), lr=0.01)
    with nbgrad.record(view="none") as graph:
        for _ in range(6):
            optimizer.zero_grad()
            net(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
    assert "accumulated gradients" not in {finding.kind for finding in graph.findings()}


def test_a_frozen_number_in_an_optimizer_is_a_setting() -> None:
    net = torch.nn.Linear(4, 2)
    net.scale = torch.nn.Parameter(torch.ones(()), requires_grad=False)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with nbgrad.record(view="none") as graph:
        for _ in range(4):
            optimizer.zero_grad()
            (net(torch.randn(8, 4)) * net.scale).square().mean().backward()
            optimizer.step()
    assert [finding for finding in graph.findings() if finding.kind == "frozen"] == []


@pytest.mark.parametrize("shape", [(), (1,), (5,), (5, 1), (0,), (0, 3), (1, 1, 1)])
@pytest.mark.parametrize("steps", [1, 12])
def test_data_of_any_shape_can_be_examined(shape: tuple[int, ...], steps: int) -> None:
    weight = torch.nn.Parameter(torch.ones(shape))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    for target in (torch.zeros(shape), torch.randint(0, 2, shape).float()):
        with nbgrad.record(view="none") as graph:
            for _ in range(steps):
                optimizer.zero_grad()
                prediction = (weight * torch.ones(shape)).reshape(-1).reshape(shape)
                torch.nn.functional.mse_loss(prediction, target).backward()
                optimizer.step()
        assert all(finding.text for finding in graph.findings())
        assert len(graph.checkup().checks) > 10
