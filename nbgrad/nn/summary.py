"""``summary``: what a model of nbgrad's or torch's is made of, and what one forward of it costs, as a table."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch

from nbgrad.core.backend.randomness import cuda_devices, drawing_from, random_state
from nbgrad.core.engine.clock import Stopwatch, cuda_device, instant
from nbgrad.core.engine.node import Node, raw_of
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.state import Switch, no_grad, restoring
from nbgrad.core.graph.columns import columns
from nbgrad.core.graph.flops import flop_counter
from nbgrad.core.graph.memory import byte_text
from nbgrad.core.graph.slowest import time_text
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter, is_lazy

_TIMED = 0.2
"""The forward runs again until it has taken so many seconds in all."""

_TURNS = 10
"""It runs at most so often; the fastest run counts."""


@dataclass
class Line:
    """One module of a model; the numbers are of all that is in it.

    Attributes:
        path: where it is in the model, "" for the model itself.
        kind: its class.
        shapes: of the tensors that it returned last; empty if it was not called.
        parameters: how many numbers it learns or could learn, a shared one counted once.
        trainable: how many of them need a gradient.
        flops: floating point operations of products and convolutions, two for a multiplication and its addition.
        saved: bytes that a backward will need, besides parameters and buffers; shared ones count for the first module.
        seconds: how long it ran; None if that was not measured.
    """

    path: str
    kind: str
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    parameters: int = 0
    trainable: int = 0
    flops: int = 0
    saved: int = 0
    seconds: float | None = None


@dataclass(repr=False)
class Summary:
    """The result of ``summary``: printed, it is a table.

    Attributes:
        lines: one for each module, in the order of ``named_modules``; the first is the model.
    """

    lines: list[Line]

    @property
    def parameters(self) -> int:
        """How many numbers there are in the parameters."""
        return self.lines[0].parameters

    @property
    def trainable(self) -> int:
        """How many numbers in the parameters are trained."""
        return self.lines[0].trainable

    @property
    def frozen(self) -> int:
        """How many numbers in the parameters are not trained."""
        return self.parameters - self.trainable

    @property
    def flops(self) -> int:
        """Floating point operations of one forward, in products and convolutions."""
        return self.lines[0].flops

    @property
    def saved(self) -> int:
        """Bytes that one forward saves for its backward."""
        return self.lines[0].saved

    @property
    def seconds(self) -> float | None:
        """How long one forward takes; None if that was not measured."""
        return self.lines[0].seconds

    def __str__(self) -> str:
        timed = ["time"] if self.seconds is not None else []
        rows = [["module", "class", "output", "parameters", "FLOPs", "saved", *timed]]
        for line in self.lines:
            shapes = ", ".join(map(str, line.shapes)) or "-"
            numbers = [f"{line.parameters:,}", _short(line.flops), byte_text(line.saved)]
            numbers += [time_text(line.seconds or 0.0)] if timed else []
            rows.append([line.path or "(model)", line.kind, shapes, *numbers])
        texts = columns(rows, left=range(3))
        rule = "-" * max(map(len, texts))
        totals = (
            f"parameters: {self.parameters:,}, of which {self.trainable:,} trainable and {self.frozen:,} frozen\n"
            f"one forward: {_short(self.flops)} FLOPs in products and convolutions, "
            f"{byte_text(self.saved)} saved for the backward"
            f"{'' if self.seconds is None else f', {time_text(self.seconds)}'}"
        )
        return "\n".join([texts[0], rule, *texts[1:], rule, totals])

    __repr__ = __str__


def summary(model: Module | torch.nn.Module, input: Any, *, time: bool = False) -> Summary:
    """Run a copy of ``model`` once on ``input`` and say for each module its output, parameters, FLOPs and memory.

    The copy shares the parameters; buffers, gradients and torch's random numbers stay as they are. If the input is on
    the meta device, it costs no memory and no time: the copy then has its parameters there, too.

    Args:
        model: a module of nbgrad's or of torch's, in training mode or not.
        input: a tensor; a tuple of all arguments, or a dict of named ones; or the shape of a tensor of zeros.
        time: also measure how long a forward takes, in more runs of the copy; not on the meta device.

    Returns:
        An object that prints as a table. Each line includes the modules inside its module, so the first line has the
        totals.

    Raises:
        TypeError: ``model`` is no module.
    """
    model = _module(model)
    args, named = _arguments(model, input)
    on_meta = any(one.device.type == "meta" for one in _tensors([args, named]))
    copy = _copy(model, on_meta)
    if any(map(_is_lazy, [*copy.parameters(), *copy.buffers()])):
        drawing_from(random_state(), _built, copy, *args, **named)  # lazy modules get their shapes
    lines = {path: _line(path, module) for path, module in copy.named_modules()}
    meter = _Meter(copy, lines)
    cuda = cuda_devices(map(raw_of, copy.parameters()))
    drawing_from(random_state(cuda), _counted, meter, copy, *args, **named)
    if time and not on_meta:
        drawing_from(random_state(cuda), _timed, meter, copy, *args, **named)
    return Summary(list(lines.values()))


def _module(model: Any) -> Any:
    """The model itself, of one that ``torch.compile`` has wrapped."""
    if isinstance(model, type) and issubclass(model, Module | torch.nn.Module):
        raise TypeError(f"summary() takes a module, not its class: make one with {model.__name__}(...)")
    if not isinstance(model, Module | torch.nn.Module):
        raise TypeError(f"summary() takes a module of nbgrad.nn or torch.nn, not {kind_of(model)}")
    return getattr(model, "_orig_mod", model)


def _line(path: str, module: Any) -> Line:
    sizes = {id(one): (one.numel(), one.requires_grad) for one in module.parameters()}
    line = Line(path, getattr(module, "original_name", type(module).__name__))
    line.parameters = sum(size for size, _ in sizes.values())
    line.trainable = sum(size for size, learns in sizes.values() if learns)
    return line


def _built(model: Any, /, *args: Any, **named: Any) -> None:
    with no_grad(), torch.no_grad():
        model(*args, **named)


@restoring
def _counted(meter: "_Meter", run: Any, /, *args: Any, **named: Any) -> None:
    """One run, of which the operations and the saved bytes are counted, and the shapes kept."""
    ours = isinstance(run, Module)
    with ExitStack() as stack:
        stack.enter_context(Switch(grad_enabled=True, observers=(_Ops(meter),) if ours else ()))
        if not ours:
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(meter.keep, _unchanged))
        meter.counter = stack.enter_context(flop_counter())
        meter.run(run, args, named)
    meter.counter = None


@restoring
def _timed(meter: "_Meter", run: Any, /, *args: Any, **named: Any) -> None:
    """More runs, without anything that counts. The times of the fastest are kept."""
    fastest, total = None, 0.0
    with Switch(grad_enabled=True, observers=()):
        for _ in range(_TURNS):
            meter.spent = {}
            meter.run(run, args, named)
            seconds = {path: spent.seconds for path, spent in meter.spent.items()}
            took = sum(seconds.values())
            total += took
            fastest = seconds if fastest is None or took < sum(fastest.values()) else fastest
            if total > _TIMED:
                break
    for path in meter.lines:
        inside = [spent for inner, spent in (fastest or {}).items() if path in _with_parents(inner, meter.lines)]
        meter.lines[path].seconds = sum(inside)


def _unchanged(saved: Any) -> Any:
    return saved


class _Meter:
    """The costs of a forward. Each cost belongs to the innermost module that runs, and to those whose path it is below.

    Args:
        model: the copy that will run.
        lines: the lines of its modules by path, to which the costs are added.

    Attributes:
        counter: counts operations while it is there. What a model of nbgrad's runs outside of ops does not count, such
            as the comparison of a converted model with the original.
        spent: the time by path, of one run.
    """

    def __init__(self, model: Any, lines: dict[str, Line]) -> None:
        self.lines = lines
        self.counter: Any = None
        self.spent: dict[str, Stopwatch] = {}
        self._counts = not isinstance(model, Module)
        self._device = cuda_device([raw_of(one) for one in model.parameters()])
        self._flops = 0
        self._at = instant()
        self._running = [""]  # the paths of the modules that run, the innermost last
        self._known = {_storage(raw_of(one)): one for one in (*model.parameters(), *model.buffers())}
        for path, module in model.named_modules():
            if isinstance(module, torch.jit.ScriptModule):
                continue  # it takes no hooks: it belongs to the module around it
            module.register_forward_pre_hook(self._begins(path))
            module.register_forward_hook(self._ends(path))

    def run(self, model: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """Run the model. An error says in which module it was raised."""
        self._running = [""]
        self._start()
        try:
            output = model(*args, **named)
        except Exception as error:
            if (path := self._running[-1]) and not isinstance(model, Module):  # ours say it by themselves
                error.add_note(f"It was raised in the module {path} ({self.lines[path].kind}).")
            raise
        self._charge()
        self.lines[""].shapes = [tuple(one.shape) for one in _tensors(output)]

    def keep(self, data: torch.Tensor) -> torch.Tensor:
        """A backward will need ``data``. A storage counts once, and neither parameters nor buffers do."""
        storage = _storage(data)
        if storage not in self._known:
            self._known[storage] = data  # kept, so that no other gets its address
            for path in _with_parents(self._running[-1], self.lines):
                self.lines[path].saved += _bytes(data)
        return data

    def mark(self) -> None:
        """Operations count from now on."""
        self._flops = 0 if self.counter is None else self.counter.get_total_flops()

    def count(self) -> None:
        """Add the operations since the mark to the innermost module."""
        flops = 0 if self.counter is None else self.counter.get_total_flops() - self._flops
        for path in _with_parents(self._running[-1], self.lines) if flops else ():
            self.lines[path].flops += flops

    def _start(self) -> None:
        self.mark()
        self._at = instant(self._device)

    def _charge(self) -> None:
        """Add what was done since the last look to the innermost module."""
        self.spent.setdefault(self._running[-1], Stopwatch()).add(self._at, instant(self._at.device))
        if self._counts:
            self.count()

    def _begins(self, path: str) -> Callable[..., None]:
        def begins(*_: Any) -> None:
            self._charge()
            self._running.append(path)
            self._start()

        return begins

    def _ends(self, path: str) -> Callable[..., None]:
        def ends(_module: Any, _args: Any, output: Any) -> None:
            self._charge()
            self._running.pop()
            self.lines[path].shapes = [tuple(one.shape) for one in _tensors(output)]
            self._start()

        return ends


class _Ops(Observer):
    """Tells a meter of nbgrad's own ops: their operations, and the values that they save."""

    __slots__ = ("meter",)

    def __init__(self, meter: _Meter) -> None:
        self.meter = meter

    def on_call(self, *_: Any) -> None:
        self.meter.mark()

    def on_result(self, *_: Any) -> None:
        self.meter.count()
        self.meter.mark()

    def on_record(self, node: Node, *_: Any) -> None:
        for value in _tensors(node.saved):
            self.meter.keep(raw_of(value))


def _arguments(model: Any, input: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments by position and by name: tensors of the dialect of the model."""
    ours = isinstance(model, Module)
    if isinstance(input, Mapping):
        return (), {name: value if ours else raw_of(value) for name, value in input.items()}
    if isinstance(input, tuple | list) and input and all(isinstance(one, int) for one in input):
        parameters = (raw_of(one) for one in model.parameters() if not _is_lazy(one))
        first = next((one for one in parameters if one.is_floating_point()), None)
        zeros = torch.zeros(input)
        zeros = zeros if first is None else zeros.to(first.device, first.dtype)
        return (tensor(zeros) if ours else zeros,), {}
    args = tuple(input) if isinstance(input, tuple | list) else (input,)
    if not ours:
        return tuple(map(raw_of, args)), {}
    return tuple(tensor(one) if isinstance(one, torch.Tensor) else one for one in args), {}


def _copy(model: Any, on_meta: bool) -> Any:
    """A copy with buffers of its own and the same parameters; or with all of them on the meta device."""
    ours, memo = isinstance(model, Module), dict[int, Any]()
    for parameter in model.parameters():
        if _is_lazy(parameter):
            continue  # the copy gets one of its own, so that the model stays lazy
        if on_meta:
            kind: Any = Parameter if ours else torch.nn.Parameter
            memo[id(parameter)] = kind(raw_of(parameter).detach().to("meta"), parameter.requires_grad)
        else:
            memo[id(parameter)] = parameter
    for buffer in model.buffers() if on_meta else ():
        there = raw_of(buffer).to("meta")
        memo[id(buffer)] = Tensor(there) if ours else there
    for module in model.modules() if not ours else ():
        for value in vars(module).values():
            if isinstance(value, torch.Tensor) and not value.is_leaf:  # computed from parameters, as by weight_norm
                memo[id(value)] = value.detach().to("meta") if on_meta else value.detach().clone()
    return deepcopy(model, memo)


def _is_lazy(one: Any) -> bool:
    return is_lazy(one) or bool(torch.nn.parameter.is_lazy(one))


def _tensors(values: Any) -> Iterator[Any]:
    """The tensors in nested ``values``, ours and torch's."""
    if isinstance(values, Tensor | torch.Tensor):
        yield values
    elif isinstance(values, Mapping):
        yield from _tensors(list(values.values()))
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)


def _storage(data: torch.Tensor) -> int:
    """A number that identifies the memory of ``data``; of a sparse tensor, which has several, the tensor."""
    return int(data.untyped_storage()._cdata) if data.layout is torch.strided else id(data)


def _bytes(data: torch.Tensor) -> int:
    if data.layout is torch.strided:
        return data.untyped_storage().nbytes()
    if data.is_sparse:
        return data._indices().nbytes + data._values().nbytes
    return data.values().nbytes


def _with_parents(path: str, lines: Mapping[str, Line]) -> Iterator[str]:
    """The paths of a module and of all that it is in."""
    parts = path.split(".") if path else []
    for count in range(len(parts) + 1):
        above = ".".join(parts[:count])
        if above in lines:
            yield above


def _short(value: int) -> str:
    """A number with three digits and a prefix: 12.3 k, 4.56 M."""
    prefixes, size = ["", "k", "M", "G", "T", "P"], float(value)
    while size >= 1000 and len(prefixes) > 1:
        size /= 1000
        prefixes.pop(0)
    return f"{size:.3g} {prefixes[0]}".rstrip()
