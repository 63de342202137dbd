"""Functions and training steps as programs, beside those of torch.compile and jax.jit, as ratios to torch's own run."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import nbgrad
from benchmarks import jax_networks, libraries, mlp, networks
from benchmarks.case import PEERS, Case
from benchmarks.chains import drawn, outer_sums, summed_arithmetic
from benchmarks.timing import Contender
from nbgrad.core.symbolic.passes.optimize import Level

COMPILERS = 300
"""The seconds that a compiler may take."""


def gradient_of(library: Any, loss: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The function that gives a loss and its gradients."""

    def with_gradients(*leaves: Any) -> Any:
        total = loss(*leaves)
        return [total, *library.autograd.grad(total, leaves[:count])]

    return with_gradients


def as_program(loss: Callable[..., Any], arrays: list[Any], backend: str, level: Level = "exact") -> Contender:
    """Loss and gradients, compiled by nbgrad."""
    leaves = [nbgrad.tensor(array, requires_grad=True) for array in arrays]
    run = nbgrad.compile(gradient_of(nbgrad, loss, len(arrays)), backend=backend, level=level)
    run(*leaves)
    return Contender(lambda _: run(*leaves)[1:])


def torch_compiled(loss: Callable[..., Any], arrays: list[Any]) -> Contender:
    """The loss compiled by torch, which compiles its backward too."""
    leaves = [torch.tensor(array, requires_grad=True) for array in arrays]
    run = torch.compile(loss)

    def step() -> Any:
        for leaf in leaves:
            leaf.grad = None
        run(*leaves).backward()
        return [leaf.grad for leaf in leaves]

    return Contender(lambda _: step())


SMALL = {
    "program-small": ("200 elementwise ops on 16 floats", summed_arithmetic, [drawn(16, around=1.0), drawn(16)]),
    "program-outer": ("200 times (64, 1) + (1, 64) and the sum of them", outer_sums, [drawn(64, 1), drawn(1, 64)]),
    "program-chain": (
        "200 elementwise ops on (64, 1) and (1, 64), and the sum",
        summed_arithmetic,
        [drawn(64, 1, around=1.0), drawn(1, 64)],
    ),
}
BACKENDS = ("replay", "fused", "inductor", *(["cudagraph"] if torch.cuda.is_available() else []))


FUSED = ("fused",)
"""The backends whose functions are also measured at the level "reassociate", which changes the order of sums."""

WHOLE = ("replay",)
"""The same for training steps. At that level convolutions also get another memory layout."""


def backends() -> list[str]:
    """The backends that there are."""
    from nbgrad.symbolic import BACKENDS as KNOWN

    return [name for name in BACKENDS if name in KNOWN]


for name, (title, loss, arrays) in SMALL.items():
    case = Case(name, f"{title}: loss and gradients as a program", first=COMPILERS)
    case.contenders["torch"] = partial(libraries.whole, libraries.torch, loss, arrays)
    case.contenders["torch.compile"] = partial(torch_compiled, loss, arrays)
    case.contenders["jax.jit"] = partial(libraries.whole, libraries.jax_jit, loss, arrays)
    case.contenders["nbgrad"] = partial(libraries.whole, libraries.nbgrad, loss, arrays)
    for backend in backends():
        case.contenders[f"nbgrad {backend}"] = partial(as_program, loss, arrays, backend)
    for backend in FUSED:
        case.contenders[f"nbgrad {backend}, reassociate"] = partial(as_program, loss, arrays, backend, "reassociate")
    case.absent |= {peer: "measured in the case without programs" for peer in PEERS if peer != "jax.jit"}


def perceptron(library: Any) -> networks.Step:
    """The network 784-256-128-10 on a batch of 64."""
    nn = library.nn
    sizes = mlp.SIZES
    model = nn.Sequential(
        *(nn.Linear(sizes[0], sizes[1]), nn.ReLU(), nn.Linear(sizes[1], sizes[2]), nn.ReLU()),
        nn.Linear(sizes[2], sizes[3]),
    )
    x, target = map(library.tensor, mlp.data())
    return networks.Step(library, model, lambda model: nn.functional.cross_entropy(model(x), target))


def with_adam(make: Callable[[Any], networks.Step]) -> Callable[[Any], networks.Step]:
    """The same network with Adam."""

    def made(library: Any) -> networks.Step:
        step = make(library)
        return networks.Step(library, step.model, step.loss, partial(library.optim.Adam, lr=mlp.RATE))

    return made


STEPS: dict[str, tuple[Callable[[Any], networks.Step], str]] = {
    "program-mlp": (perceptron, "MLP 784-256-128-10, batch 64, SGD"),
    "program-mlp-adam": (with_adam(perceptron), "MLP 784-256-128-10, batch 64, Adam"),
    "program-cnn": (networks.cnn, "CNN 1-16-32 on 28 x 28, batch 32, SGD"),
    "program-transformer": (networks.transformer, "2-layer transformer encoder, d 128, sequence 64, batch 8, SGD"),
    "program-transformer-adam": (with_adam(networks.transformer), "the same transformer encoder with Adam"),
    "program-lstm": (networks.lstm, "LSTM 2 x 128, 100 steps, batch 16, SGD"),
}


def step_as_program(make: Callable[[Any], networks.Step], backend: str, level: Level = "exact") -> Contender:
    """A training step compiled by nbgrad, with its optimizer."""
    step = make(nbgrad)
    run = nbgrad.compile(step.cleared_after, backend=backend, level=level)
    run()
    return Contender(lambda _: run())


def torch_step_compiled(make: Callable[[Any], networks.Step]) -> Contender:
    """A training step whose loss torch compiles."""
    step = make(torch)
    step.loss = torch.compile(step.loss)
    return Contender(lambda _: step())


for name, (make, title) in STEPS.items():
    # Each contender counts its first steps differently. Their losses agree only as long as the parameters move little.
    case = Case(name, f"{title}: a whole step as a program", tolerance=5e-2, first=COMPILERS)
    case.contenders["torch"] = partial(networks.stepping, make, torch)
    case.contenders["torch.compile"] = partial(torch_step_compiled, make)
    case.contenders["jax.jit"] = partial(jax_networks.contender, name, make)
    case.contenders["nbgrad"] = partial(networks.stepping, make, nbgrad)
    for backend in backends():
        case.contenders[f"nbgrad {backend}"] = partial(step_as_program, make, backend)
    for backend in WHOLE:
        case.contenders[f"nbgrad {backend}, reassociate"] = partial(step_as_program, make, backend, "reassociate")
    case.absent |= {peer: "measured in the case without programs" for peer in PEERS if peer != "jax.jit"}

COLD = Case(
    "program-start", "MLP 784-256-128-10: trace, passes and the first step", reference="nbgrad", first=COMPILERS
)


@COLD.contender("nbgrad")
def _() -> Contender:
    step = perceptron(nbgrad)
    return Contender(lambda _: float(step.cleared_after()))


@COLD.contender("nbgrad replay")
def _() -> Contender:
    step = perceptron(nbgrad)
    return Contender(lambda _: float(nbgrad.compile(step.cleared_after, backend="replay")()))


COLD.absent |= dict.fromkeys((*PEERS, "torch"), "starts a compiler")
