"""Run one program plain, recorded and converted, and compare: what came of it is a ``Result``."""

import gc
import math
import random
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.autograd.function import _HookMixin
from torch.profiler import ProfilerActivity, profile

import nbgrad
from nbgrad.core.backend.allocator import keep_freed
from nbgrad.core.engine.torch_origins import known_origin
from tests.kept_counter import counted
from tests.models.package import Program
from tests.models.result import EQUAL, Result

CLOSE = 2e-5
"""How far a gradient of a converted model may be from torch's, relative to the largest number in torch's gradient. A
hundredth of this, relative to the largest number in all gradients of the model, is allowed as well."""

CLOSER = 1e-10
"""The same for a run in double precision."""

SECONDS = 0.2
"""For how many seconds the steps of a program are timed."""


@dataclass
class Run:
    """The numbers of one run, and weak references to what it made."""

    loss: torch.Tensor | None
    values: dict[str, torch.Tensor | None]
    """For a step its gradients. For a training the final parameters and buffers, and the gradients that are left."""
    made: list[weakref.ref[Any]] = field(default_factory=list)
    alive: int = 0
    """The number of the program's tensors and modules that still exist after its end."""

    def ended(self) -> "Run":
        """Count the objects that are still alive, after this runner has dropped its own references."""
        gc.collect()
        self.alive = sum(one() is not None for one in self.made)
        return self


def seed() -> None:
    """Seed every generator that a program may draw from."""
    random.seed(0)
    np.random.seed(0)  # the global one is what packages use
    torch.manual_seed(0)


def check(program: Program, *, measure: bool = True, picture: Path | None = None) -> Result:
    """Run and compare ``program``.

    Args:
        program: the program.
        measure: whether to time it and to count its memory.
        picture: the file that the graph is drawn into.
    """
    begin = perf_counter()
    result = Result(program.name)
    plain, again = _plain(program), _plain(program)
    for _ in range(3):  # the first runs of what torch.jit compiles have other numbers
        if not (differing := differences(plain, again)):
            break
        plain, again = again, _plain(program)
    if differing:
        result.note = f"two plain runs differ in {differing[0]}"
    try:
        result.recorded = _recorded(program, again, result, picture)
    except Exception as error:
        result.recorded = f"error: {one_line(error)}"
    if not program.trains:
        result.converted, result.message = convert(program, again)
    if measure:
        with suppress(Exception):  # a model that keeps state from one step to the next cannot run twice
            _measure(program, result)
    result.seconds = perf_counter() - begin
    return result


# One run.


def _run(program: Program) -> tuple[torch.nn.Module, torch.Tensor | None, Any]:
    """The model, the loss, and anything else that the program holds."""
    seed()
    if program.trains:
        return program.run(), None, None
    net, loss_of = program.run()
    loss = loss_of(net)
    loss.backward()
    return net, loss, loss_of


def _facts(net: torch.nn.Module, loss: torch.Tensor | None) -> Run:
    values: dict[str, torch.Tensor | None] = {f"{name}.grad": _copy(one.grad) for name, one in net.named_parameters()}
    if loss is None:
        values |= {name: _copy(one) for name, one in (*net.named_parameters(), *net.named_buffers())}
    made = [*net.parameters(), *net.modules(), *[one.grad for one in net.parameters()], loss]
    return Run(_copy(loss), values, [weakref.ref(one) for one in made if one is not None])


def _copy(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return None if tensor is None else tensor.detach().clone()


def _plain(program: Program) -> Run:
    net, loss, rest = _run(program)
    run = _facts(net, loss)
    del net, loss, rest
    return run.ended()


def differences(one: Run, other: Run) -> list[str]:
    """The names of the values that differ in at least one bit."""
    names = [] if same(one.loss, other.loss) else ["loss"]
    if one.values.keys() != other.values.keys():
        return [*names, "the names of the parameters"]
    return names + [name for name, value in one.values.items() if not same(value, other.values[name])]


def same(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    """Whether both are equal to the bit. Two NaN are equal."""
    if a is None or b is None:
        return a is b
    if a.layout is not torch.strided:
        a, b = a.to_dense(), b.to_dense()
    a, b = (torch.view_as_real(one.resolve_conj()) if one.is_complex() else one for one in (a, b))
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


# Recorded.


def _recorded(program: Program, plain: Run, result: Result, picture: Path | None) -> str:
    before = patchable()
    with nbgrad.record(view="none") as graph:
        net, loss, rest = _run(program)
    faults = [f"{name} is replaced in torch" for name in changed(before, patchable())]
    faults += absent(graph, net, trained=loss is None)
    faults += [f"{one.kind}: {one.text[:300]}" for one in graph.findings()]
    if not program.trains:
        faults += miscounted(graph, _needed(program))
    run = _facts(net, loss)
    del net, loss, rest
    if run.ended().alive > plain.alive:
        faults.append(f"{run.alive - plain.alive} tensors and modules are kept alive")
    differing = differences(plain, run)
    if differing and not result.note:
        faults.insert(
            0, f"{differing[0]} and {len(differing) - 1} more differ" if differing[1:] else f"{differing[0]} differs"
        )
    result.ops = sum(one.op is not None for one in graph.records)
    if picture is not None:
        try:
            graph.save(picture)
        except Exception as error:
            faults.append(f"no picture: {one_line(error)}")
    return "; ".join(faults) or "equal"


def _needed(program: Program) -> int:
    """The bytes that torch keeps for the backward of the program, besides its parameters."""
    seed()
    net, loss_of = program.run()
    return counted(lambda: loss_of(net), net.parameters())


def miscounted(graph: nbgrad.AutogradGraph, needed: int) -> list[str]:
    """The difference between the bytes that the graph says its ops keep, and those ``needed``."""
    memory = graph.memory
    said = memory.total - memory.aside
    if said == needed or (said < needed and not memory.whole):
        return []
    return [f"the graph says that {said:,} bytes are kept for the backward, and torch keeps {needed:,}"]


def absent(graph: nbgrad.AutogradGraph, net: torch.nn.Module, *, trained: bool) -> list[str]:
    """The parameters whose gradient is missing or different in the graph.

    Args:
        graph: the closed graph.
        net: the model.
        trained: whether there was more than one backward. Then it is unknown which backward a ``.grad`` is from.
            So every parameter that learns must have had a gradient in one of them.
    """
    if not graph.backwards:
        return ["the graph has no backward"]
    found = {record.id: record for record in graph.records}
    seen = {
        (one.name, one.shape)
        for frame in graph.history
        for one in frame.records
        if trained and one.gradient is not None
    }
    lacking = []
    for name, one in net.named_parameters():
        if one.grad is None and not (trained and one.requires_grad):
            continue
        origin = known_origin(one)
        record = None if origin is None else found.get(origin.seq)
        if trained and (name.rpartition(".")[2], tuple(one.shape)) in seen:
            continue
        if record is None or record.gradient is None:
            if one.numel():
                lacking.append(name)
        elif not trained and not any(
            math.isclose(record.gradient.norm, norm, rel_tol=1e-5) for norm in _norms(one.grad)
        ):
            lacking.append(f"{name} (norm {record.gradient.norm:g}, not {max(_norms(one.grad)):g})")
    more = f" and {len(lacking) - 1} more" if lacking[1:] else ""
    return [f"no gradient in the graph: {lacking[0]}{more}"] if lacking else []


def _norms(gradient: Any) -> list[float]:
    """The norm of ``gradient`` as torch computes it, and the exact norm: for large tensors the two differ."""
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    values = torch.view_as_real(values.resolve_conj()) if values.is_complex() else values
    wide = torch.promote_types(values.dtype, torch.float32)
    return [float(torch.linalg.vector_norm(values, dtype=dtype)) for dtype in (wide, torch.float64)]


PATCHABLE: list[Any] = [
    *(torch, torch.Tensor, torch._C.TensorBase, torch._C, torch.nn, torch.nn.functional, torch.nn.Module),
    *(torch.autograd, torch.autograd.graph, torch.autograd.function, torch.autograd.Function, _HookMixin),
    *(torch.optim.Optimizer, torch.optim.SGD, torch.optim.Adam, torch.nn.modules.module, torch.overrides),
    *(torch.linalg, torch.fft, torch.special, torch.func, torch.utils.checkpoint, torch.jit),
]
"""The parts of torch that a graph could replace."""


def patchable() -> dict[str, Any]:
    """Every function in these parts, by its name, and everything that is registered globally."""
    found: dict[str, Any] = {
        f"{getattr(owner, '__name__', owner)}.{name}": getattr(value, "__func__", value)
        for owner in PATCHABLE
        for name, value in vars(owner).items()
        if callable(value) or isinstance(value, (staticmethod, classmethod, property))
    }
    hooks = [name for name in vars(torch.nn.modules.module) if name.startswith("_global_")]
    found |= {name: tuple(vars(torch.nn.modules.module)[name] or ()) for name in hooks}
    optimizers = vars(__import__("torch.optim.optimizer", fromlist=[""]))
    found |= {name: tuple(optimizers[name]) for name in optimizers if name.startswith("_global_optimizer")}
    found["torch function modes"] = torch._C._len_torch_function_stack()
    found["torch dispatch modes"] = torch._C._len_torch_dispatch_stack()
    return found


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names whose value has changed."""
    return [
        name
        for name in sorted(before.keys() | after.keys())
        if (a := before.get(name)) is not (b := after.get(name)) and not (type(a) is type(b) in (tuple, int) and a == b)
    ]


# Converted.


def convert(program: Program, plain: Run) -> tuple[str, str]:
    """The result of converting the model, and a message or the differences."""
    plain = _inside(plain)
    try:
        converted = _converted(program)
    except Exception as error:
        return ("refused" if named(error) else "error"), one_line(error)
    if not differences(plain, converted):
        return "equal to the bit", ""
    if far := distances(plain, converted, CLOSE):
        # A gradient that a normalization removes is only rounding errors. In double precision these become tiny.
        torch.set_default_dtype(torch.float64)
        try:
            far = distances(_inside(_plain(program)), _converted(program), CLOSER) and far
        except Exception as error:
            return "different", f"{far[0]}; {one_line(error)}"
        finally:
            torch.set_default_dtype(torch.float32)
    if far:
        return "different", far[0] + (f" and {len(far) - 1} more" if far[1:] else "")
    return "close", ""


def _inside(run: Run) -> Run:
    """The same run with the names of the inner modules: ``from_torch`` converts what ``torch.compile`` has wrapped."""
    return replace(run, values={name.replace("_orig_mod.", ""): one for name, one in run.values.items()})


def _converted(program: Program) -> Run:
    """The numbers of the converted model."""
    seed()
    net, loss_of = program.run()
    ours = nbgrad.from_torch(net)
    loss = loss_of(ours)
    loss.backward()
    return Run(_raw(loss), {f"{name}.grad": _raw(one.grad) for name, one in ours.named_parameters()})


def named(error: BaseException) -> bool:
    """Whether ``error`` or a note on it says that nbgrad itself does not support this."""
    texts = (str(error), *getattr(error, "__notes__", ()))
    return any(word in text for text in texts for word in ("nbgrad", "from_torch"))


def _raw(tensor: Any) -> torch.Tensor | None:
    return None if tensor is None else tensor.data.detach().clone()


def distances(plain: Run, other: Run, close: float) -> list[str]:
    """The values that differ by more than ``close`` times the largest number, each with its difference."""
    pairs = {"loss": (plain.loss, other.loss)}
    pairs |= {name: (plain.values.get(name), other.values.get(name)) for name in plain.values | other.values}
    floor = close / 100 * max((largest(one) for one in plain.values.values()), default=0.0)
    far = []
    for name, (a, b) in pairs.items():
        if a is None or b is None:
            if a is not b:
                far.append(f"{name} is {'missing' if b is None else 'not None'}")
        elif a.shape != b.shape or a.dtype != b.dtype:
            far.append(f"{name} is {tuple(b.shape)} {b.dtype}, not {tuple(a.shape)} {a.dtype}")
        elif not same(a, b):
            off = largest(a.to_dense().detach() - b.to_dense())
            if not off <= close * largest(a) + floor:
                far.append(f"{name} is off by {off / max(largest(a), 1e-30):.1g}")
    return far


def largest(tensor: torch.Tensor | None) -> float:
    """The largest absolute number in the tensor."""
    return float(tensor.abs().max()) if tensor is not None and tensor.numel() else 0.0


# Time and memory.


def _measure(program: Program, result: Result) -> None:
    """Time and memory of the steps that ran without an error, as ratios to the plain program."""
    records = not result.recorded.startswith("error")
    if program.trains:
        if records:
            plain, recorded = _best([(lambda: _run(program), _nothing), (lambda: _run(program), _graph)])
            result.time = recorded / plain
        return
    seed()
    net, loss_of = program.run()
    kinds: list[tuple[Callable[[], Any], Callable[[], Any]]] = [(lambda: _step(net, loss_of), _nothing)]
    if records:
        kinds.append((lambda: _step(net, loss_of), _graph))
    converts = result.converted in EQUAL
    if converts:
        seed()
        copied, their_loss = program.run()
        ours = nbgrad.from_torch(copied)
        kinds.append((lambda: _step(ours, their_loss), _nothing))
    plain, *others = _best(kinds)
    ratios = iter([one / plain for one in others])
    if records:
        result.time = next(ratios)
        peaks = []
        for kind in kinds[:2]:
            net.zero_grad()  # the profiler counts a freed gradient only if it saw the allocation
            peaks.append(peak(*kind))
        result.memory = peaks[1] / max(1, peaks[0])
    if converts:
        result.converted_time = next(ratios)


def _step(net: Any, loss_of: Any) -> None:
    net.zero_grad()
    loss_of(net).backward()


def _graph() -> Any:
    return nbgrad.record(view="none")


@contextmanager
def _nothing() -> Iterator[None]:
    yield


def _best(kinds: list[tuple[Callable[[], Any], Callable[[], Any]]]) -> list[float]:
    """The shortest time of each ``run``. ``around`` included. They take turns for ``SECONDS`` seconds."""
    times: list[list[float]] = [[] for _ in kinds]
    end = perf_counter() + SECONDS
    while perf_counter() < end or len(times[0]) < 3:
        for kept, (run, around) in zip(times, kinds, strict=True):
            begin = perf_counter()
            with around():
                run()
            kept.append(perf_counter() - begin)
    return [min(one) for one in times]


def peak(run: Callable[[], Any], around: Callable[[], Any]) -> int:
    """The peak in bytes of the torch tensors that ``run`` makes."""
    keep_freed()
    gc.collect()
    with around(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        run()
    assert seen.profiler is not None
    assert seen.profiler.kineto_results is not None
    held = most = 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def one_line(error: BaseException) -> str:
    """An error and its notes in one line."""
    text = "; ".join(" ".join(part.split()) for part in (str(error), *getattr(error, "__notes__", ())))
    return f"{type(error).__name__}: {text}"[:300]


def quiet() -> None:
    """Make a process ready: no warnings of packages, one thread, so that sums have one order."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
