"""``assert_gradients_close``: a port against its reference, with the first op that differs."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch

from nbgrad.core.backend.randomness import random_state, set_random_state
from nbgrad.core.engine.node import TensorBase, raw_of
from nbgrad.core.graph.comparison import Comparison
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.suggestions import kind_of, nearest
from nbgrad.core.tensor.comparison import difference, numbers_of
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.testing.numbers import check_tolerances, tolerances
from nbgrad.testing.parameters import Named, described, is_tensor, named_parameters, preserved

Names = Mapping[str, str | None] | Callable[[str], str | None]
Limits = tuple[float | None, float | None]


def assert_gradients_close(
    port: Callable[..., Any],
    reference: Callable[..., Any],
    inputs: Any = (),
    *,
    loss: Callable[[Any], Any] | None = None,
    names: Names | None = None,
    parameters: tuple[Any, Any] | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    msg: str | None = None,
) -> None:
    """Raise if ``port(*inputs)`` and ``reference(*inputs)`` have different outputs, losses or gradients.

    Both run forward and backward, each on its own copy of the inputs, and from the same state of the random number
    generators. One may be of nbgrad's and the other of torch's. Gradients of parameters are compared by name, and those
    of inputs of floating point numbers, too. Nothing is left behind: every ``.grad``, the buffers, the training modes
    and the random number generators are afterwards as they were.

    Args:
        port: a module or a function.
        reference: the module or function that is right.
        inputs: the arguments, as a tuple; or one tensor.
        loss: makes a single number of an output. Default: the output, if it is a single number; otherwise the sum of
            its elements, each times a fixed weight, so that no gradient is hidden by symmetry.
        names: the reference's name for each parameter of the port: a dict of those with another name there, or a
            function. None in the place of a name leaves out the parameter.
        parameters: the parameters of the port and of the reference, for functions that are no modules: two modules, or
            two dicts of names and tensors.
        rtol: the allowed relative difference. Default: torch's limit for the less exact of the two types.
        atol: the allowed absolute difference. Give both ``rtol`` and ``atol``, or neither.
        msg: the message of the error, instead of the explanation.

    Raises:
        AssertionError: they differ; the message has each difference, and then the first op that differs in the order of
            the run, as ``nbgrad.compare`` finds it. Or the parameters differ before the run.
        TypeError: an output is no tensor, and there is no ``loss``.
        ValueError: the names of the parameters do not match; the message has ``names`` that would. Or only one of
            ``rtol`` and ``atol`` is given.
    """
    check_tolerances(rtol, atol)
    limits = rtol, atol
    arguments = (inputs,) if is_tensor(inputs) else tuple(inputs)
    given = (port, reference) if parameters is None else tuple(parameters)
    mine, theirs = [_parameters(one, parameters is not None) for one in given]
    pairs = _paired(mine, theirs, names)
    unequal = _differences([(name, mine[name], theirs[other]) for name, other in pairs.items()], limits)
    if unequal:
        head = "assert_gradients_close: the parameters differ before the run: load the same numbers into both"
        raise AssertionError(msg or "\n".join([head, *_first(unequal)]))
    with preserved([port, reference, *given], [*mine.values(), *theirs.values()], buffers=True):
        state = random_state()
        left = _run("port", port, arguments, loss, mine)
        set_random_state(state)
        right = _run("reference", reference, arguments, loss, theirs)
    wrong = _differences(_results(left, right, pairs), limits)
    if wrong:
        report = str(Comparison(left.graph, right.graph, ("port", "reference")))
        head = f"assert_gradients_close: {len(wrong)} of the outputs, losses and gradients differ"
        raise AssertionError(msg or "\n".join([head, *_first(wrong), report]))


class _PortRun(NamedTuple):
    """One side: its graph, its output and loss, and the gradients by name of parameters and by position of inputs."""

    graph: AutogradGraph
    output: Any
    loss: Any
    gradients: Named
    fed: list[Any]


_NAMED = 12
"""A message has at most so many differences."""


def _first(lines: list[str]) -> list[str]:
    more = len(lines) - _NAMED
    return [*lines[:_NAMED], *([f"  and {more} more"] if more > 0 else [])]


def _parameters(given: Any, named: bool) -> Named:
    """The parameters of a module; those of a function have to be given."""
    if not named and not hasattr(given, "named_parameters"):
        return {}
    if hasattr(given, "named_parameters"):
        return dict(given.named_parameters())
    return named_parameters("assert_gradients_close: parameters", given)


def _paired(mine: Named, theirs: Named, names: Names | None) -> dict[str, str]:
    """The reference's name of each parameter of the port that is compared."""
    if isinstance(names, Mapping):
        for name in names:
            if name not in mine:
                raise ValueError(f"names: the port has no parameter {name!r}{nearest(str(name), mine)}")
    wanted = {name: _other(name, names) for name in mine}
    pairs = {name: other for name, other in wanted.items() if other is not None}
    lost = [repr(other) for other in pairs.values() if other not in theirs]
    more = [name for name in theirs if name not in pairs.values()]
    if lost or more:
        parts = [f"the reference has no parameter {', '.join(lost[:3])}"] if lost else []
        parts += [f"the port has none for {', '.join(map(repr, more[:3]))} of the reference"] if more else []
        raise ValueError(f"assert_gradients_close: {' and '.join(parts)}: give names={_guess(mine, theirs)}")
    for name, other in pairs.items():
        if tuple(mine[name].shape) != tuple(theirs[other].shape):
            raise ValueError(
                f"assert_gradients_close: {described(name, mine[name])} of the port and "
                f"{described(other, theirs[other])} of the reference have different shapes"
            )
    return pairs


def _other(name: str, names: Names | None) -> str | None:
    if names is None:
        return name
    return names.get(name, name) if isinstance(names, Mapping) else names(name)


def _guess(mine: Named, theirs: Named) -> str:
    """The ``names`` that pair the parameters in their order, if all shapes fit; otherwise an example."""
    pairs = list(zip(mine, theirs, strict=False))
    alike = len(mine) == len(theirs) and all(mine[one].shape == theirs[other].shape for one, other in pairs)
    return repr({one: other for one, other in pairs if one != other} if alike else {"port's name": "reference's name"})


def _run(
    name: str, function: Callable[..., Any], inputs: tuple[Any, ...], loss: Callable[[Any], Any] | None, named: Named
) -> _PortRun:
    """Run one side forward and backward, with no ``.grad`` before it."""
    fed = [_fed(function, one) for one in inputs]
    for tensor in named.values():
        tensor.grad = None
    with AutogradGraph(name) as graph:
        output = function(*fed)
        number = _loss(name, output, loss)
        number.backward()
    return _PortRun(graph, output, number, {one: tensor.grad for one, tensor in named.items()}, fed)


def _fed(function: Any, value: Any) -> Any:
    """A copy of an input in the dialect of ``function``; one of floating point numbers gets a gradient."""
    if not is_tensor(value):
        return value
    raw = raw_of(value).detach().clone()
    learns = raw.is_floating_point() or raw.is_complex()
    own = isinstance(value, TensorBase)
    if hasattr(function, "parameters"):
        own = any(isinstance(one, TensorBase) for one in function.parameters()) or (
            own and not isinstance(function, torch.nn.Module)
        )
    return Tensor(raw, requires_grad=learns) if own else raw.requires_grad_(learns)


def _loss(name: str, output: Any, loss: Callable[[Any], Any] | None) -> Any:
    number = output if loss is None else loss(output)
    if not is_tensor(number):
        lacks = "pass loss=, which makes a number of it" if loss is None else "loss has to return a tensor"
        raise TypeError(f"assert_gradients_close: the {name} gives {kind_of(number)}: {lacks}")
    if number.numel() != 1:
        if loss is not None:
            raise TypeError(f"assert_gradients_close: loss gives a tensor of shape {tuple(number.shape)}, not a number")
        raw = raw_of(number)
        weights = torch.arange(raw.numel(), dtype=torch.float64).cos().reshape(raw.shape)
        number = (number * weights.to(raw.device, raw.dtype)).sum()
    if not number.requires_grad:
        raise ValueError(f"assert_gradients_close: the output of the {name} needs no gradient: nothing is compared")
    return number


def _results(left: _PortRun, right: _PortRun, pairs: dict[str, str]) -> list[tuple[str, Any, Any]]:
    """The pairs of numbers that are compared, each with its name."""
    found: list[tuple[str, Any, Any]] = []
    if is_tensor(left.output) and is_tensor(right.output):
        found.append(("output", left.output, right.output))
    if left.loss is not left.output or right.loss is not right.output:
        found.append(("loss", left.loss, right.loss))
    found += [
        (f"gradient of input {at}", one.grad, other.grad)
        for at, (one, other) in enumerate(zip(left.fed, right.fed, strict=True))
        if is_tensor(one) and one.requires_grad
    ]
    for name, other in pairs.items():
        also = "" if name == other else f" ({other})"
        found.append((f"gradient of {name}{also}", left.gradients[name], right.gradients[other]))
    return found


def _differences(results: list[tuple[str, Any, Any]], limits: Limits) -> list[str]:
    """A line for each pair of numbers that differ."""
    lines = []
    for name, got, want in results:
        if got is None and want is None:
            continue
        if got is None or want is None:
            lacks, has = ("port", "reference") if got is None else ("reference", "port")
            lines.append(f"  {name}: there is one in the {has}, and none in the {lacks}")
            continue
        told = _difference(got, want, limits)
        if told:
            lines.append(f"  {described(name, got)}: {told}")
    return lines


_TELLING = ("not finite", "zero", "sign", "factor", "transposed", "shifted", "order", "offset", "row")
"""The kinds of deviations that say something about the cause."""


def _difference(got: Any, want: Any, limits: Limits) -> str:
    """How two tensors differ; empty if they are close."""
    a, b = numbers_of(got), numbers_of(want)
    relative, absolute = tolerances(a, b, *limits)
    wrong = difference(a, b, rtol=relative, atol=absolute, equal_nan=True)
    if wrong is None:
        return ""
    if a.shape != b.shape:
        return f"shape {tuple(a.shape)} against {tuple(b.shape)}"
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    a, b = a.to(wide), b.to(wide)
    gap = torch.nan_to_num((a - b).abs(), nan=float("inf"))
    at = [int(one) for one in torch.unravel_index(gap.argmax(), gap.shape)] if gap.ndim else []
    size = float(torch.linalg.vector_norm(b))
    parts = [
        f"off by {100 * float(torch.linalg.vector_norm(a - b)) / size:.3g}% of its norm" if size else "not 0",
        f"{f'at {at} ' if at else ''}{a[tuple(at)].item():.6g} against {b[tuple(at)].item():.6g}",
        *([wrong.text] if wrong.kind in _TELLING else []),
    ]
    return "; ".join(parts)
