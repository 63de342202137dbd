"""Errors of nbgrad's own, raised on purpose in its recorder, its graph and its pictures while a program is recorded.

``python -m tests.recorder.fault_injection --seed 0 --cases 200`` runs cases drawn at random, ``--all`` every function
of ``targets`` in every program that calls it. It needs the plain Python core, whose functions can be replaced.
"""

import argparse
import contextlib
import inspect
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from random import Random
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

import nbgrad
from nbgrad.core.compilation import compiled
from nbgrad.core.engine.state import current
from nbgrad.core.graph.listener import Listener
from nbgrad.core.recorder import backwards, calls, foreseen, functions, kept, nodes, switches
from nbgrad.widgets.describe import outline
from nbgrad.widgets.render.text import text

RECORDER = (calls, nodes, functions, backwards, foreseen, kept, switches)

DRAWING = ("nbgrad.widgets.describe", "nbgrad.widgets.findings.collect", "nbgrad.widgets.render.text")
CLOSING = ("_settle", "name_variables", "_numbers", "_changed", "raised", "check_cycle", "_make_paths")

GUARDS = frozenset(
    {
        # Torch, or the user's program, calls these: they catch the errors of all others.
        *("_torch_function", "_run", "_again", "_place", "_recorded", "_left_out", "_learns"),
        *("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "_answer"),
        *("_run_backward", "_step_begins", "_step_ended", "_stepped", "_tell", "_notify"),
        *("recorded", "recorded_inside", "_tried", "_refused", "_hooked_run"),
        *("_foreseen_run", "Passing.__call__", "TorchBackward.lost", "Foreseen.__call__"),
        *("RecordingMode.__torch_function__", "_start", "_stop", "_notify_of_step"),
        *("Giving.__call__", "Inside.__call__", "called", "register", "follows", "unfollow_to", "_aside", "_forked"),
        # These undo what was done; nothing could be undone without them.
        *("TorchBackward.abandon", "_put_back", "_restore", "_batched", "_disown", "TorchBackward.__init__"),
        *("Quiet.__init__", "_Thread.__init__", "_Torch.__init__", "_settle", "_replace", "_change_answers"),
        *("Patch.put_back", "_place", "Regions.unwatch", "Regions.pass_for_torchs_no_more", "_function", "asked"),
        # These have one line.
        *("returned", "ask_no_more", "_leave", "_unmuted", "resting", "stop_resting", "_unhook"),
        "tensors_in",  # the guard of a result calls it
    }
)


class Injected(Exception):
    """The error that a function raises here."""


# The programs.


def net() -> list[Any]:
    """A step of a network with an optimizer."""
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(torch.randn(5, 4)), torch.randn(5, 1))
        loss.backward()
        optimizer.step()
    return [loss.detach(), *[one.detach() for one in model.parameters()]]


def broadcasts() -> list[Any]:
    """Ops with broadcasts, and a tensor that is used twice."""
    w, b = torch.randn(4, requires_grad=True), torch.randn(3, 1, requires_grad=True)
    y = w * b + w
    (y.exp() * y).mean().backward()
    return [w.grad, b.grad]


def gradients() -> list[Any]:
    """Gradients as values, and gradients of gradients."""
    x = torch.randn(4, requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return [first.detach(), second]


def several() -> list[Any]:
    """Ops with several results."""
    x = torch.randn(3, 4, requires_grad=True)
    a, b = x.chunk(2, dim=1)
    values, _ = torch.max(a * b, dim=1)
    (values.sum() + x.unbind(0)[1].sum()).backward()
    return [x.grad]


def hooks() -> list[Any]:
    """Hooks of the user's, also one that is registered in a backward."""
    x = torch.randn(3, requires_grad=True)
    y = x.tanh()
    z = y * 2
    y.register_hook(lambda gradient: gradient * 2)
    z.register_hook(lambda gradient: (y.register_hook(lambda other: other + 1), gradient)[1])
    z.sum().backward()
    return [x.grad]


def function() -> list[Any]:
    """A function of the user's, and a node that no call made."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(_context: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(_context: Any, gradient: Any) -> Any:  # type: ignore[override]
            return gradient * 2

    x = torch.randn(3, requires_grad=True)
    Double.apply(x * x).sum().backward()
    return [x.grad]


def checkpointed() -> list[Any]:
    """A backward inside of a backward."""
    layer, x = nn.Linear(3, 3), torch.randn(2, 3, requires_grad=True)
    torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=True).sum().backward()
    return [x.grad, layer.weight.grad]


def in_place() -> list[Any]:
    """Changes in place, of views too."""
    x = torch.randn(3, 4, requires_grad=True)
    y = x * 1
    y[0] = 0
    y[1].mul_(3)
    y.add_(1)
    y.sum().backward()
    return [x.grad]


def unrecorded() -> list[Any]:
    """Ops without a gradient, and values that are read."""
    x = torch.randn(4, requires_grad=True)
    with torch.no_grad():
        mean = x.mean()
    scale = float((x * 2).detach().sum().item())
    (x * mean * scale).sum().backward()
    return [x.grad, mean, x.argmax()]


def failing() -> list[Any]:
    """Errors of torch's that the program catches."""
    x, said = torch.randn(3, requires_grad=True), []
    for wrong in (lambda: x @ torch.randn(4), lambda: torch.ones(2).sum().backward(), (x * 2).backward):
        try:
            wrong()
        except RuntimeError as error:
            said.append(str(error))
    return said


def attention() -> list[Any]:
    """A function of torch's in Python, with other functions inside."""
    layer, x = nn.MultiheadAttention(4, 2), torch.randn(3, 2, 4)
    layer(x, x, x)[0].sum().backward()
    return [one.grad for one in layer.parameters()]


def nested() -> list[Any]:
    """Nested tensors."""
    rows = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged, requires_grad=True)
    nn.Linear(4, 2)(rows * 2).values().sum().backward()
    return [rows.grad.values()]  # type: ignore[union-attr]


def own() -> list[Any]:
    """Tensors of nbgrad's."""
    x = nbgrad.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    layer = nbgrad.nn.Linear(2, 2)
    layer(x * x).relu().sum().backward()
    return [x.grad.data, layer.weight.grad.data]


PROGRAMS: dict[str, Callable[[], list[Any]]] = {
    one.__name__: one
    for one in (
        *(net, broadcasts, gradients, several, hooks, function, checkpointed, in_place, unrecorded, failing),
        *(attention, nested, own),
    )
}


# The functions.

Target = tuple[Any, str]
"""An object, and the name of its attribute that is replaced."""


def _named(owner: Any, name: str) -> str:
    return f"{owner.__name__}.{name}" if inspect.isclass(owner) else name


def _functions_in(module: ModuleType) -> Iterator[Target]:
    """The functions and methods that ``module`` defines."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, FunctionType):
            yield module, name
        elif inspect.isclass(value):
            yield from [(value, method) for method, one in vars(value).items() if isinstance(one, FunctionType)]


def targets() -> dict[str, Target]:
    """All functions in which an error is raised, by name."""
    found: dict[str, Target] = {}
    for module in RECORDER:
        for owner, name in _functions_in(module):
            if _named(owner, name) not in GUARDS:
                found[f"{module.__name__}.{_named(owner, name)}"] = owner, name
    for name, value in vars(Listener).items():
        if isinstance(value, FunctionType) and name.startswith("on_"):
            found[f"Listener.{name}"] = Listener, name
    for name in CLOSING:
        owner = next(one for one in nbgrad.AutogradGraph.__mro__ if name in vars(one))
        found[f"AutogradGraph.{name}"] = owner, name
    for place in DRAWING:
        module = import_module(place)
        found |= {f"{place}.{name}": (owner, name) for owner, name in _functions_in(module) if owner is module}
    return found


@contextlib.contextmanager
def injected(target: Target, at: int) -> Iterator[list[int]]:
    """Make the function raise at its call ``at``, counted from 0; -1 for never. The list gets an item for each call."""
    owner, name = target
    own = vars(owner)[name]
    seen: list[int] = []

    def raising(*args: Any, **kwargs: Any) -> Any:
        seen.append(len(seen))
        if seen[-1] == at:
            raise Injected(f"in {name}")
        return own(*args, **kwargs)

    places = [(owner, name)]
    if isinstance(owner, ModuleType):
        places = [
            (module, key)
            for module in list(sys.modules.values())
            if str(getattr(module, "__name__", "")).startswith("nbgrad")
            for key, value in list(vars(module).items())
            if value is own
        ]
    for place, key in places:
        setattr(place, key, raising)
    try:
        yield seen
    finally:
        for place, key in places:
            setattr(place, key, own)


# The comparison.


def _outcome(program: Callable[[], list[Any]]) -> list[Any]:
    torch.manual_seed(0)
    return program()


def _recorded(program: Callable[[], list[Any]], watch: bool) -> tuple[Any, list[Any]]:
    with nbgrad.record(view="text", watch=watch) as graph:
        made = _outcome(program)
    return graph, made


def calls_of(name: str, found: dict[str, Target], watch: bool) -> dict[str, int]:
    """How often each of the functions runs while a program is recorded."""
    with contextlib.ExitStack() as stack, contextlib.redirect_stdout(io.StringIO()):
        seen = {label: stack.enter_context(injected(target, -1)) for label, target in found.items()}
        _recorded(PROGRAMS[name], watch)
        return {label: len(made) for label, made in seen.items() if made}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype is other.dtype and torch.equal(one, other)
    return bool(one == other)


def recorded(name: str, target: Target, at: int, *, watch: bool = True) -> int:
    """Record a program with an error at one call, and compare it with the plain program. Return the number of calls.

    Raises:
        AssertionError: the program has noticed it, or nothing says it.
    """
    program, functions_of_torch = PROGRAMS[name], (nn.Module.__call__, torch.autograd._engine_run_backward)  # type: ignore[attr-defined]
    plain = _outcome(program)
    printed, told = io.StringIO(), io.StringIO()
    with warnings.catch_warnings(record=True) as said, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        with contextlib.redirect_stderr(told), injected(target, at) as seen:
            graph, made = _recorded(program, watch)
    hit = 0 <= at < len(seen)
    assert [True] * len(plain) == list(map(_same, plain, made)), "other results"
    assert graph.closed
    assert torch._C._len_torch_function_stack() == 0
    assert current().observers == ()
    assert (nn.Module.__call__, torch.autograd._engine_run_backward) == functions_of_torch  # type: ignore[attr-defined]
    drawn = text(outline(graph).description)
    if graph.fault is not None:
        assert hit, graph.fault
        assert "defect of nbgrad" in drawn
    elif hit:
        ours = [one for one in said if "defect of nbgrad" in str(one.message)]
        assert ours or "defect of nbgrad" in told.getvalue() or printed.getvalue(), "nothing says it"
    return len(seen)


def case(random: Random) -> None:
    """One program, one function that it calls, one of the calls."""
    found, name, watch = targets(), random.choice(sorted(PROGRAMS)), random.random() < 0.7
    counts = calls_of(name, found, watch)
    target = random.choice(sorted(counts))
    at = random.randrange(min(counts[target], 40))
    try:
        recorded(name, found[target], at, watch=watch)
    except BaseException as error:
        error.add_note(f"{target} raised at its call {at} in {name}, watch={watch}")
        raise


def every() -> int:
    """Each function in each program that calls it, at its first and its last call; how many cases."""
    done, failed = 0, 0
    found = targets()
    for name in PROGRAMS:
        for label, count in calls_of(name, found, True).items():
            for at in sorted({0, count - 1}):
                done += 1
                try:
                    recorded(name, found[label], at)
                except Exception as error:
                    failed += 1
                    print(f"{label} at its call {at} in {name}: {type(error).__name__}: {error}", flush=True)
    print(f"{done} cases, {failed} failed")
    return failed


def main() -> int:
    """Run the cases that are asked for; 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    assert not compiled(), "NBGRAD_COMPILED=0 has to be set"
    torch.set_num_threads(1)
    if options.all:
        return int(every() > 0)
    for number in range(options.seed, options.seed + options.cases):
        case(Random(number))
    print(f"{options.cases} cases")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
