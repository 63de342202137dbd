"""The cost of recording: the same program outside of a graph and inside one."""

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import rustworkx
import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

import nbgrad
from benchmarks.case import Case
from benchmarks.chains import arithmetic, drawn
from benchmarks.mlp import like_torch
from benchmarks.timing import Contender
from nbgrad.choices import FRAMES
from nbgrad.core.graph.graph import AutogradGraph

STEPS = 1000
NODES = 200_000
WITHOUT = "no graph"
EMPTY = "no graph, and a mode of torch's that does nothing"
"""The least that it costs to see the calls of torch's functions."""
IDLE = "no graph, and a mode and taps that do nothing"
"""The least that it costs to see the gradients, too."""


class EmptyMode(TorchFunctionMode):
    """Calls each function, and does nothing else."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return function(*args, **kwargs) if kwargs else function(*args)


class TappingMode(EmptyMode):
    """Has torch report each gradient that arrives at a result, as the recorder does, and ignores the gradient."""

    def __init__(self) -> None:
        super().__init__()
        self._tap = torch.zeros((), requires_grad=True)
        ignored: set[Any] = set()
        self._tap._backward_hooks = {0: ignored.discard}  # it returns None, as a hook has to

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = super().__torch_function__(function, types, args, kwargs)
        made = result.grad_fn if isinstance(result, torch.Tensor) else None
        if made is not None:
            made._register_hook_dict(self._tap)
        return result


LEAST = "no graph, and the least recorder"
"""It knows which op made which input of another one (``least_recorder.pyx``)."""
LEAST_KEEPING = "no graph, and the least recorder that keeps tensors"


@cache
def least_recorder() -> Any:
    """The module ``least_recorder``, which Cython compiles when it is needed."""
    import pyximport  # type: ignore[import-untyped]  # it has no types

    root = Path(__file__).parents[1]
    hooks = pyximport.install(
        build_dir=str(root / "build" / "benchmarks"),
        setup_args={"include_dirs": [str(root / "nbgrad" / "core" / "engine")]},  # for torch_reads.h
        language_level=3,
    )
    try:
        return importlib.import_module("benchmarks.least_recorder")
    finally:
        pyximport.uninstall(*hooks)


@contextmanager
def recorded_least(*, keeps: bool) -> Iterator[None]:
    """Record with the least recorder, but for the steps of optimizers."""
    mode = least_recorder().Mode(keeps)

    def push(*_: Any) -> None:
        torch._C._push_on_torch_function_stack(mode)

    def pop(*_: Any) -> None:
        torch._C._pop_torch_function_stack()

    hooks = [register_optimizer_step_pre_hook(pop), register_optimizer_step_post_hook(push)]
    push()
    try:
        yield
    finally:
        pop()
        for hook in hooks:
            hook.remove()


MODES: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    EMPTY: EmptyMode,
    IDLE: TappingMode,
    LEAST: partial(recorded_least, keeps=False),
    LEAST_KEEPING: partial(recorded_least, keeps=True),
}


def graph_of(watch: bool | str | None, history: int = FRAMES) -> AbstractContextManager[Any]:
    """A graph. For None there is no graph, and for a name in ``MODES`` a mode of torch's."""
    if isinstance(watch, str):
        return MODES[watch]()
    return nullcontext() if watch is None else AutogradGraph(watch=bool(watch), history=history)


# A loop of training steps


def training(
    library: Any = nbgrad, *, watch: bool | str | None, history: int = FRAMES, steps: int = STEPS
) -> Contender:
    """A loop without a graph if ``watch`` is None, otherwise inside one. True watches as ``%%autograd`` does."""
    step = like_torch(library)

    def loop(_: Any) -> Any:
        with graph_of(watch, history):
            for _ in range(steps):
                loss = step()
        return loss

    return Contender(loop)


TRAINING = Case("training", f"{STEPS:,} steps of the MLP", ops=STEPS, per="step", reference=WITHOUT, first=600)
TRAINING.contenders = {
    WITHOUT: partial(training, watch=None),
    "a graph that keeps no tensor": partial(training, watch=False),
    "a graph that keeps no history": partial(training, watch=True, history=0),
    "as in a %%autograd cell": partial(training, watch=True),
}

# Plain torch, recorded

CHAINS, LINKS = 200, 100


def chains(*, watch: bool | str | None) -> Contender:
    """Chains of products and sums of 8 x 8 torch tensors, inside a graph, or without one if ``watch`` is None."""
    w, b = (torch.from_numpy(drawn(8, 8)).requires_grad_() for _ in range(2))
    c = torch.from_numpy(drawn(8, 8))

    def loop(_: Any) -> Any:
        with graph_of(watch):
            for _ in range(CHAINS):
                w.grad = b.grad = None
                x = w
                for _ in range(LINKS // 2):
                    x = x * c + b
                torch.autograd.backward(x.sum())
        return w.grad

    return Contender(loop)


RECORDED = Case(
    "recorded",
    f"{LINKS} ops on 8 x 8 tensors of plain torch, forward and backward",
    ops=CHAINS * LINKS,
    per="op",
    reference=WITHOUT,
)
RECORDED.contenders = {
    WITHOUT: partial(chains, watch=None),
    EMPTY: partial(chains, watch=EMPTY),
    IDLE: partial(chains, watch=IDLE),
    LEAST: partial(chains, watch=LEAST),
    LEAST_KEEPING: partial(chains, watch=LEAST_KEEPING),
    "a graph that keeps no tensor": partial(chains, watch=False),
    "as in a %%autograd cell": partial(chains, watch=True),
}


RECORDED_TRAINING = Case(
    "recorded-training",
    f"{STEPS:,} steps of the MLP in plain torch",
    ops=STEPS,
    per="step",
    reference=WITHOUT,
    first=600,
)
RECORDED_TRAINING.contenders = {
    WITHOUT: partial(training, torch, watch=None),
    EMPTY: partial(training, torch, watch=EMPTY),
    LEAST: partial(training, torch, watch=LEAST),
    LEAST_KEEPING: partial(training, torch, watch=LEAST_KEEPING),
    "a graph that keeps no tensor": partial(training, torch, watch=False),
    "as in a %%autograd cell": partial(training, torch, watch=True),
}

IMAGES, SIDE, PASSES = 8, 64, 60


class Residual(torch.nn.Module):
    """The block of a ResNet-18: two convolutions of 3 x 3 and a skip connection around them."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.conv1, self.bn1 = conv(before, after, 3, stride, 1, bias=False), norm(after)
        self.conv2, self.bn2 = conv(after, after, 3, 1, 1, bias=False), norm(after)
        around = (conv(before, after, 1, stride, bias=False), norm(after)) if before != after else ()
        self.around = torch.nn.Sequential(*around)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The images ``x``, (N, C, H, W)."""
        through = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(through)) + self.around(x))


def resnet18() -> torch.nn.Module:
    """A ResNet-18 of torch's for ten classes."""
    widths = (64, 64, 64, 128, 128, 256, 256, 512, 512)
    blocks = [Residual(before, after, 2 if before != after else 1) for before, after in pairwise(widths)]
    stem = (torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU())
    head = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(512, 10))
    return torch.nn.Sequential(*stem, torch.nn.MaxPool2d(3, 2, 1), *blocks, *head)


def images(*, watch: bool | str | None, count: int = IMAGES) -> Contender:
    """A ResNet-18 that learns from ``count`` images of ``SIDE`` x ``SIDE`` by SGD."""
    torch.manual_seed(0)
    net = resnet18()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(count, 3, SIDE, SIDE), torch.randint(0, 10, (count,))

    def loop(_: Any) -> Any:
        with graph_of(watch):
            for _ in range(PASSES):
                optimizer.zero_grad()
                loss = torch.nn.functional.cross_entropy(net(x), y)
                torch.autograd.backward(loss)
                optimizer.step()
        return loss.detach()

    return Contender(loop)


def recorded_resnet(name: str, count: int) -> Case:
    """A case of the ResNet-18 with ``count`` images in a step."""
    what = f"a step of a ResNet-18 in plain torch, {count} images of {SIDE} x {SIDE}"
    made = Case(name, what, ops=PASSES, per="step", reference=WITHOUT)
    made.contenders = {
        WITHOUT: partial(images, watch=None, count=count),
        EMPTY: partial(images, watch=EMPTY, count=count),
        "a graph that keeps no tensor": partial(images, watch=False, count=count),
        "as in a %%autograd cell": partial(images, watch=True, count=count),
    }
    return made


RECORDED_RESNET = recorded_resnet("recorded-resnet", IMAGES)
RECORDED_BATCH = recorded_resnet("recorded-batch", 32)

# Facts about an op


def forward(*, graph: bool) -> Contender:
    """The forward of the 200 small ops, inside a graph, which keeps their facts, or without a graph."""
    a, b = (nbgrad.tensor(array, requires_grad=True) for array in (drawn(16, around=1.0), drawn(16)))

    def run(_: Any) -> Any:
        if not graph:
            return arithmetic(a, b)
        with AutogradGraph(watch=False):
            return arithmetic(a, b)

    return Contender(run)


FACTS = Case("facts", "200 elementwise ops on 16 floats, forward alone", ops=200, per="op", reference=WITHOUT)
FACTS.contenders = {
    WITHOUT: partial(forward, graph=False),
    "a graph that keeps no tensor": partial(forward, graph=True),
}

# Filling a graph of rustworkx


def pouring(*, nodes: int = NODES) -> Contender:
    """A graph of so many sums, whose facts become rustworkx's graph."""
    a, b = (nbgrad.tensor(array, requires_grad=True) for array in (drawn(), drawn()))
    with AutogradGraph(watch=False) as graph:
        for _ in range(nodes):
            a = a + b
    return Contender(lambda _: graph.rx.num_edges())


def bare(*, nodes: int = NODES) -> Contender:
    """Bare rustworkx: as many nodes, with two edges each."""
    payloads = list(range(nodes + 2))
    edges = [(source, target, place) for target in range(2, nodes + 2) for place, source in enumerate((target - 1, 0))]

    def run(_: Any) -> int:
        poured: rustworkx.PyDiGraph[int, int] = rustworkx.PyDiGraph(multigraph=True)
        poured.add_nodes_from(payloads)
        poured.extend_from_weighted_edge_list(edges)  # type: ignore[misc]  # its stub asks for nodes that may be None
        return poured.num_edges()

    return Contender(run)


POURING = Case(
    "pouring", f"{NODES:,} nodes with two edges each into rustworkx", ops=NODES, per="node", reference="rustworkx alone"
)
POURING.contenders = {"rustworkx alone": bare, "graph.rx": pouring}
