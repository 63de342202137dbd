"""``summary``: what a model is made of and what one forward of it costs, as a table."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from nbgrad.core.backend.randomness import cuda_devices, drawing_from, random_state
from nbgrad.core.engine.node import Node, raw_of
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import Scope, Switch, current, no_grad, outwards, restoring
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter, is_lazy


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
    """

    path: str
    kind: str
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    parameters: int = 0
    trainable: int = 0
    flops: int = 0
    saved: int = 0


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

    def __str__(self) -> str:
        rows = [["module", "class", "output", "parameters", "FLOPs", "saved"]]
        for line in self.lines:
            shapes = ", ".join(map(str, line.shapes)) or "-"
            numbers = [f"{line.parameters:,}", _short(line.flops, 1000), _short(line.saved, 1024, "B")]
            rows.append([line.path or "(model)", line.kind, shapes, *numbers])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        texts = [
            "  ".join(
                cell.ljust(width) if at < 3 else cell.rjust(width) for at, (cell, width) in enumerate(cells)
            ).rstrip()
            for cells in ([*zip(row, widths, strict=True)] for row in rows)
        ]
        rule = "-" * max(map(len, texts))
        totals = (
            f"parameters: {self.parameters:,}, of which {self.trainable:,} trainable and {self.frozen:,} frozen\n"
            f"one forward: {_short(self.flops, 1000)} FLOPs in products and convolutions, "
            f"{_short(self.saved, 1024, 'B')} saved for the backward"
        )
        return "\n".join([texts[0], rule, *texts[1:], rule, totals])

    __repr__ = __str__


def summary(model: Module, input: Any) -> Summary:
    """Run a copy of ``model`` once on ``input`` and say for each module its output, parameters, FLOPs and memory.

    The copy shares the parameters; buffers, gradients and torch's random numbers stay as they are. If the input is on
    the meta device, it costs no memory and no time: the copy then has its parameters there, too.

    Args:
        model: the model, in training mode or not.
        input: a tensor; a tuple of all arguments, or a dict of named ones; or the shape of a tensor of zeros.

    Returns:
        An object that prints as a table. Each line includes the modules inside its module, so the first line has the
        totals.
    """
    args, named = _arguments(model, input)
    on_meta = any(one.device.type == "meta" for one in _tensors([args, named]))
    copy = _copy(model, on_meta)
    if any(map(is_lazy, [*copy.parameters(), *copy.buffers()])):
        drawing_from(random_state(), no_grad()(copy.__call__), *args, **named)  # lazy modules get their shapes
    paths = {module: path for path, module in copy.named_modules()}
    lines = {path: Line(path, type(module).__name__) for module, path in paths.items()}
    for module, path in paths.items():
        lines[path].parameters = module.parameter_count()
        lines[path].trainable = module.parameter_count(only_trainable=True)
        module.register_forward_hook(_note_shapes(lines[path]))
    counter = FlopCounterMode(display=False, custom_mapping=_MORE)
    watch = _OpCounter(copy, counter)
    cuda = cuda_devices(one.data for one in copy.parameters())
    drawing_from(random_state(cuda), _counted, counter, watch, copy, *args, **named)
    for module, (flops, saved) in watch.costs.items():
        for path in _with_parents(paths.get(module, ""), lines):
            lines[path].flops += flops
            lines[path].saved += saved
    return Summary(list(lines.values()))


@restoring
def _counted(counter: Any, watch: Observer, run: Module, /, *args: Any, **named: Any) -> None:
    with Switch(grad_enabled=True, observers=(watch,)), counter:
        run(*args, **named)


def _arguments(model: Module, input: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(input, Mapping):
        return (), dict(input)
    if isinstance(input, tuple | list) and input and all(isinstance(one, int) for one in input):
        first = next(model.parameters(), None)
        zeros = torch.zeros(input)
        return (tensor(zeros if first is None else zeros.to(first.device, first.dtype)),), {}
    args = tuple(input) if isinstance(input, tuple | list) else (input,)
    return tuple(tensor(one) if isinstance(one, torch.Tensor) else one for one in args), {}


def _copy(model: Module, on_meta: bool) -> Module:
    """A copy with buffers of its own and the same parameters; or with all of them on the meta device."""
    memo: dict[int, Any] = {}
    for parameter in model.parameters():
        if is_lazy(parameter):
            continue  # the copy gets one of its own, so that the model stays lazy
        memo[id(parameter)] = Parameter(parameter.data.to("meta"), parameter.requires_grad) if on_meta else parameter
    for buffer in model.buffers() if on_meta else ():
        memo[id(buffer)] = Tensor(buffer.data.to("meta"))
    return deepcopy(model, memo)


def _note_shapes(line: Line) -> Any:
    def note(_module: Module, _args: Any, output: Any) -> None:
        line.shapes = [tuple(one.shape) for one in _tensors(output)]

    return note


def _tensors(values: Any) -> Iterator[Any]:
    """The tensors in nested ``values``, ours and torch's."""
    if isinstance(values, Tensor | torch.Tensor):
        yield values
    elif isinstance(values, Mapping):
        yield from _tensors(list(values.values()))
    elif isinstance(values, tuple | list):
        for value in values:
            yield from _tensors(value)


class _OpCounter(Observer):
    """Counts, for each module, the operations of its own ops and the bytes that they save."""

    __slots__ = ("before", "costs", "counter", "known", "model")

    def __init__(self, model: Module, counter: FlopCounterMode) -> None:
        self.model = model
        self.counter = counter
        self.before = 0
        self.costs: dict[Module, tuple[int, int]] = {}
        owned = [*model.parameters(), *model.buffers()]
        self.known = {_storage(one.data): one.data.untyped_storage() for one in owned}

    def on_call(self, *_: Any) -> None:
        self.before = self.counter.get_total_flops()

    def on_result(self, *_: Any) -> None:
        self._add(self.counter.get_total_flops() - self.before, 0)

    def on_record(self, node: Node, *_: Any) -> None:
        saved = 0
        for value in _tensors(node.saved):
            data = raw_of(value)
            if _storage(data) not in self.known:
                self.known[_storage(data)] = data.untyped_storage()  # kept, so that no other gets its address
                saved += data.untyped_storage().nbytes()
        self._add(0, saved)

    def _add(self, flops: int, saved: int) -> None:
        module = _module(current().scope) or self.model
        before = self.costs.get(module, (0, 0))
        self.costs[module] = before[0] + flops, before[1] + saved


def _storage(data: torch.Tensor) -> int:
    return int(data.untyped_storage()._cdata)


def _module(scope: Scope | None) -> Any:
    """The module whose call is the innermost in ``scope``."""
    return next((one.module() for one in outwards(scope) if isinstance(one, ModuleScope)), None)


def _with_parents(path: str, lines: Mapping[str, Line]) -> Iterator[str]:
    """The paths of a module and of all that it is in."""
    parts = path.split(".") if path else []
    for count in range(len(parts) + 1):
        above = ".".join(parts[:count])
        if above in lines:
            yield above


def _short(value: int, step: int, unit: str = "") -> str:
    """A number with three digits and a prefix: 12.3 k, 4.56 MB."""
    prefixes, size = ["", "k", "M", "G", "T", "P"], float(value)
    while size >= step and len(prefixes) > 1:
        size /= step
        prefixes.pop(0)
    digits = f"{size:.3g}" if size < 1000 else f"{size:.0f}"
    return f"{digits} {prefixes[0]}{unit}".rstrip()


# Kernels that torch's counter leaves out: two of the CPU.


def _recurrent(input: Any, w_ih: Any, w_hh: Any, *_: Any, **_settings: Any) -> int:
    return int(2 * input[0] * input[1] * (prod(w_ih) + prod(w_hh)))


def _attention(query: Any, key: Any, value: Any, *_: Any, **_settings: Any) -> int:
    count: Callable[..., Any] = sdpa_flop_count
    return int(count(query, key, value))


_MORE: dict[Any, Callable[..., int]] = {
    torch.ops.aten.mkldnn_rnn_layer: _recurrent,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
}
