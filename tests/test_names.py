"""One tensor has one name in the picture, the findings, the tables, the history and the errors, in both dialects."""

from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.widgets.describe import describe

SETUP = """import torch, nbgrad, LIB
from LIB import nn
def ones(*shape, grad=False):
    return LIB.ones(shape, requires_grad=grad)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Linear(2, 2)
    def forward(self, inputs):
        return self.conv1(inputs)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(Block())
    def forward(self, x):
        return self.layer1(x)
class Trainer:
    def __init__(self):
        self.G, self.D = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 1))
    def step(self, batch):
        self.loss = self.D(self.G(batch)).mean()
        self.loss.backward()
class Dense:
    def __init__(self):
        self.weight = ones(2, 2, grad=True)
x = ones(4, 2)
"""

LOOP = """
for p in net.parameters():
    p.grad.zero_()
"""

HAND_WRITTEN = """layers = [Dense(), Dense()]
learned = [layer.weight for layer in layers]
loss = ((x @ layers[0].weight) @ layers[1].weight).sum()
loss.backward()
for p in learned:
    p.grad.zero_()
"""

NET = "net = Net()\nloss = net(x).sum()\nloss.backward()"
GAN = """G, D = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 1))
for _ in range(2):
    loss = D(G(x)).mean()
    loss.backward()
"""


@pytest.fixture(params=["torch", "nbgrad"])
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def recorded(shell: InteractiveShell, library: str, program: str, block: bool = False) -> AutogradGraph:
    """The graph of ``program``: of a cell, or of a ``with`` block in a cell."""
    body = program
    if block:
        lines = "\n".join(f"    {line}" for line in program.splitlines())
        body = f"with nbgrad.AutogradGraph() as graph:\n{lines}"
    with capture_output():
        shell.run_cell(SETUP.replace("LIB", library), store_history=True)  # type: ignore[no-untyped-call]
        shell.run_cell(body if block else f"%%autograd\n{body}", store_history=True)  # type: ignore[no-untyped-call]
    if block:
        graph: AutogradGraph = shell.user_ns["graph"]
        return graph
    last: AutogradGraph = shell.magics_manager.registry["AutogradMagics"].last.graph
    return last


def boxes(graph: AutogradGraph) -> list[str]:
    """The names in the boxes of the picture."""
    return [node["label"][0].partition(" = ")[0] for node in describe(graph)["nodes"]]


def frames(graph: AutogradGraph) -> list[str]:
    return [scope["label"] for scope in describe(graph)["scopes"]]


def learned(graph: AutogradGraph) -> list[str | None]:
    """The names of the tensors that learn, in the tables."""
    return [one.full_name for one in graph.records if one.kind in ("parameter", "leaf")]


def history(graph: AutogradGraph) -> list[str]:
    """The names of the tensors that learn, in the last frame of the history."""
    return [str(one).partition(" (")[0] for one in graph.history[-1].parameters]


PROGRAMS: dict[str, tuple[str, list[str]]] = {
    "one model": (NET, ["layer1.0.conv1.weight", "layer1.0.conv1.bias"]),
    "a loop over its parameters": (NET + LOOP, ["layer1.0.conv1.weight", "layer1.0.conv1.bias"]),
    "two models": (GAN, ["G.0.weight", "G.0.bias", "D.0.weight", "D.0.bias"]),
    "layers by hand": (HAND_WRITTEN, ["layers[0].weight", "layers[1].weight"]),
    "two models of an object": (
        "trainer = Trainer()\ntrainer.step(x)",
        ["trainer.G.0.weight", "trainer.G.0.bias", "trainer.D.0.weight", "trainer.D.0.bias"],
    ),
}


@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_learns_has_one_name(shell: InteractiveShell, library: str, program: str, block: bool) -> None:
    code, names = PROGRAMS[program]
    graph = recorded(shell, library, code, block)
    assert graph.fault is None
    assert learned(graph) == names
    assert history(graph) == names
    last = [name.rpartition(".")[2] if frames(graph) else name for name in names]
    assert [one for one in boxes(graph) if one in last] == last
    table = describe(graph)
    assert "p" not in boxes(graph)
    assert not any(str(one["label"]) == "p" for one in table["nodes"])


@pytest.mark.parametrize("block", [False, True])
def test_the_frames_of_several_models_have_their_names(shell: InteractiveShell, library: str, block: bool) -> None:
    graph = recorded(shell, library, GAN, block)
    assert frames(graph) == ["G (Sequential)", "0 (Linear)", "D (Sequential)", "0 (Linear)"]
    for frame in graph.history:
        assert [str(one).partition(" (")[0] for one in frame.parameters] == PROGRAMS["two models"][1]


def test_the_frame_of_one_model_has_the_name_of_its_class(shell: InteractiveShell, library: str) -> None:
    assert frames(recorded(shell, library, NET))[0] == "Net"


@pytest.mark.parametrize("block", [False, True])
def test_an_attribute_is_a_name(shell: InteractiveShell, library: str, block: bool) -> None:
    graph = recorded(shell, library, "trainer = Trainer()\ntrainer.step(x)", block)
    assert [one.name for one in graph.records if one.root] == ["self.loss"], "as the line that runs calls it"
    graph = recorded(shell, library, "trainer = Trainer()\ntrainer.loss = trainer.G(x).sum()\ntrainer.loss.backward()")
    assert [one.name for one in graph.records if one.root] == ["trainer.loss"]
    assert "backward from trainer.loss" in describe(graph)["summary"]


FINDINGS: dict[str, tuple[str, str]] = {
    "a NaN in one model": (
        "net = Net()\nnet.layer1[0].conv1.weight.data.fill_(float('nan'))\nloss = net(x).sum()\nloss.backward()",
        "layer1.0.conv1.weight",
    ),
    "a NaN in one of two": (
        GAN.replace("for _", "D[0].weight.data.fill_(float('nan'))\nfor _"),
        "D.0.weight",
    ),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_a_finding_qualifies_a_parameter(shell: InteractiveShell, library: str, case: str) -> None:
    code, name = FINDINGS[case]
    texts = [one.text for one in recorded(shell, library, code).findings()]
    assert any(name in text for text in texts), texts


def operands(graph: AutogradGraph) -> list[tuple[str, str | None]]:
    assert graph.ending is not None
    assert graph.ending.failure is not None
    return [(one.input, one.name) for one in graph.ending.failure.operands if one.what != "None"]


ERRORS: dict[str, tuple[str, list[str | None]]] = {
    "variables": ("rows, w = ones(2, 3), ones(2, 5, grad=True)\nrows @ w", ["rows", "w"]),
    "in a function": (
        "def run(first, second):\n    return first @ second\nrows, w = ones(2, 3), ones(2, 5, grad=True)\nrun(rows, w)",
        ["rows", "w"],
    ),
    "only in a function": (
        "def run(first):\n    return first @ w\nw = ones(2, 5, grad=True)\nrun(ones(2, 3))",
        ["first", "w"],
    ),
    "an attribute": (
        "dense = Dense()\nrows = ones(2, 3)\nrows @ dense.weight",
        ["rows", "dense.weight"],
    ),
    "a number without a name": ("w = ones(2, 5, grad=True)\nones(2, 3) @ w", [None, "w"]),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("case", ERRORS)
def test_operands_of_an_error_have_the_names_of_the_cell(shell: InteractiveShell, library: str, case: str) -> None:
    code, names = ERRORS[case]
    graph = recorded(shell, library, code)
    assert [name for _, name in operands(graph)] == names
    drawn = boxes(graph)
    for name in names:
        assert (name or "constant") in drawn
    assert drawn.count("w") == ("w" in names), "one tensor is one box"


def test_an_operand_in_a_module_is_called_as_in_its_frame(shell: InteractiveShell, library: str) -> None:
    graph = recorded(shell, library, "net, wide = Net(), ones(4, 3)\nnet(wide)")
    assert [name for _, name in operands(graph)] == ["wide", "weight", "bias"]
    assert [node["kind"] for node in describe(graph)["nodes"]] == ["input", "parameter", "parameter", "failed"]


def test_a_dictionary_names_its_tensors(shell: InteractiveShell, library: str) -> None:
    graph = recorded(
        shell, library, "w = {'first': ones(2, 2, grad=True)}\nloss = (x @ w['first']).sum()\nloss.backward()"
    )
    assert learned(graph) == ["w['first']"]


def test_a_variable_that_is_assigned_after_a_loop_is_no_variable_of_the_loop(
    shell: InteractiveShell, library: str
) -> None:
    program = "held = [ones(2, 2, grad=True)]\nfor w in held:\n    pass\nw = held[0]\n(x @ w).sum().backward()"
    assert learned(recorded(shell, library, program)) == ["w"]


def test_names_outlive_the_cell(shell: InteractiveShell) -> None:
    graph = recorded(shell, "torch", GAN)
    shell.run_cell("del G, D")  # type: ignore[no-untyped-call]
    kept: list[Any] = learned(graph)
    assert kept == PROGRAMS["two models"][1]
    assert isinstance(graph, nbgrad.AutogradGraph)


def test_the_error_of_an_op_has_the_names_of_its_operands() -> None:
    left, net = nbgrad.randn(2, 3), SimpleNamespace(weight=nbgrad.randn(4, 5))
    with pytest.raises(RuntimeError, match=r"^matmul\(a: left of shape \(2, 3\).*; b: net.weight of shape \(4, 5\)"):
        left @ net.weight
    with pytest.raises(RuntimeError, match=r"^add\(a: left of .*; b of shape \(2, 4\)"):
        left + nbgrad.randn(2, 4)
