"""A program as a graph of aten's core operators without in-place changes: the form from which a page is written.

torch decomposes the calls of a program into about 150 operators, so that a translation needs no more than these.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._decomp import core_aten_decompositions
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functionalize
from torch.fx import traceback
from torch.fx.experimental.proxy_tensor import make_fx

from nbgrad.core.engine.node import TensorBase, raw_of
from nbgrad.core.structure import leaves, mapped
from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.numbers import Number


@dataclass(frozen=True)
class Lowered:
    """A program in core operators.

    Attributes:
        listing: the program.
        module: holds the graph, and constants. Its inputs are those of the program, then the captured tensors. It
            returns the values that leave the program, and then the new contents of the inputs and captured tensors that
            the program changes.
        changed: these inputs and captured tensors.
    """

    listing: Listing
    module: fx.GraphModule
    changed: list[Value]

    def step_of(self, node: fx.Node) -> ProgramStep | None:
        """The step of the program that an operator belongs to."""
        trace = node.stack_trace
        return self.listing.steps[int(trace)] if trace and trace.isdigit() else None


def untranslated(step: ProgramStep | None, reason: str) -> NotImplementedError:
    """The error for a step.

    Args:
        step: the step.
        reason: why it cannot be written, as a clause.
    """
    where = "" if step is None else f"the step {step.name}" + (f" at {step.place}" if step.place else "") + ": "
    return NotImplementedError(f"HTML: {where}{reason}")


def lowered(listing: Listing, every: bool) -> Lowered:
    """Lower a program.

    Args:
        listing: the program.
        every: whether the graph returns the results of all steps after the others.

    Raises:
        NotImplementedError: a step draws random numbers, or reads the settings of an optimizer.
    """
    for step in listing.steps:
        if step.random:
            raise untranslated(step, "it draws random numbers, which would differ. Call eval() on the module first")
        if any(isinstance(one, Number) for one in leaves((step.args, step.kwargs))):
            raise untranslated(
                step, "it reads the settings of an optimizer. Export the loss and its gradient without the update"
            )
    values = [*listing.inputs, *listing.captured]
    external = listing.external()
    written = {value.storage for step in listing.steps for value in step.writes} & external
    changed = [value for value in values if value.storage in written]
    shown = [value for step in listing.steps for value in step.results()] if every else []
    run = _followed(listing, values, [*listing.leaving(), *changed, *shown])
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, traceback.preserve_node_meta():
        examples = [_example(value, mode) for value in values]
        decompositions: Any = core_aten_decompositions()
        with torch.no_grad():
            module = make_fx(functionalize(run, remove="mutations"), decompositions)(*examples)
    graph = module.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is torch.ops.aten.copy_.default:
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)
    graph.eliminate_dead_code()
    return Lowered(listing, module, changed)


def _followed(listing: Listing, values: list[Value], wanted: list[Value]) -> Callable[..., list[Any]]:
    """The function that runs the steps, and tells the tracer which one it is at."""

    def run(*tensors: torch.Tensor) -> list[Any]:
        known: dict[int, Any] = {id(value): one for value, one in zip(values, tensors, strict=True)}
        for position, step in enumerate(listing.steps):
            traceback.set_stack_trace([str(position)])
            args, kwargs = mapped(lambda one: known.get(id(one), one), (step.args, step.kwargs))
            try:
                made = _pure_batch_norm(*args) if _is_batch_norm(step) else step.function(*args, **kwargs)
            except (RuntimeError, TypeError) as error:
                raise untranslated(step, f"torch cannot lower it ({error})") from error
            _bind(step.result, made, known)
        return [known[id(value)] for value in wanted]

    return run


def _is_batch_norm(step: ProgramStep) -> bool:
    """Whether it is the kernel whose schema does not say that it changes the running statistics."""
    return step.name == "native_batch_norm" and not step.kwargs


def _pure_batch_norm(
    input: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, ...]:
    if mean is None or not training:
        made: tuple[Any, ...] = torch.native_batch_norm(input, weight, bias, mean, var, training, momentum, eps)
        return made
    functional = torch.ops.aten._native_batch_norm_legit_functional.default
    *results, new_mean, new_var = functional(input, weight, bias, mean, var, training, momentum, eps)
    mean.copy_(new_mean)
    var.copy_(new_var)
    return tuple(results)


def _bind(told: Any, made: Any, known: dict[int, Any]) -> None:
    if isinstance(told, list | tuple) and not isinstance(told, torch.Size):
        for one, other in zip(told, made, strict=True):
            _bind(one, other, known)
    elif isinstance(told, Value) and id(told) not in known:
        known[id(told)] = made


def _example(value: Value, mode: FakeTensorMode) -> torch.Tensor:
    if value.stride is None:
        raise NotImplementedError(f"HTML: {value.name} is a sparse tensor, which cannot be written there")
    with mode:
        return torch.empty_strided(value.shape, value.stride, dtype=value.dtype, device=value.device)


def raw_tensors(examples: Sequence[Any]) -> list[torch.Tensor]:
    """The tensors among arguments."""
    return [raw_of(one) for one in leaves(examples) if isinstance(one, TensorBase | torch.Tensor)]


def drawn(listing: Listing) -> list[torch.Tensor]:
    """Inputs to begin with. Integers may be positions: so they are 0 or 1, which are valid most often."""
    source = torch.Generator().manual_seed(0)

    def draw(value: Value) -> torch.Tensor:
        if value.dtype.is_floating_point:
            return torch.randn(value.shape, dtype=torch.float64, generator=source).to(value.dtype)
        return torch.randint(0, 2, value.shape, generator=source).to(value.dtype)

    return [draw(value) for value in listing.inputs]


def captured_data(listing: Listing) -> list[torch.Tensor]:
    """The data of the captured tensors as they are now."""
    return [raw_of(value.owner) if value.owner is not None else value.data for value in listing.captured]  # type: ignore[misc]


def output_names(form: Lowered) -> list[str]:
    """The names of what the program returns, each used once."""
    taken = {value.name for value in (*form.listing.inputs, *form.listing.captured)}
    names: list[str] = []
    wanted = [value.name for value in form.listing.leaving()] + [f"{value.name}_after" for value in form.changed]
    for name in wanted:
        base, number = name, 2
        while name in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name)
        names.append(name)
    return names


def in_order(node: Any) -> list[Any]:
    """The arguments of an operator as its schema lists them, with defaults."""
    schema = node.target._schema
    found = []
    for place, argument in enumerate(schema.arguments):
        if place < len(node.args):
            found.append(node.args[place])
        else:
            found.append(node.kwargs.get(argument.name, argument.default_value))
    return found
