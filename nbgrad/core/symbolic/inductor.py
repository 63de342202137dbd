"""The backend "inductor": torch's compiler for fused loops, on a program of nbgrad, without Dynamo.

``compile_fx`` is private to torch. This file alone uses it, and ``tests/core/symbolic/test_inductor.py`` says what it
needs of it.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch

from nbgrad.core.backend.below_autograd import unrecorded
from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.division import divided
from nbgrad.core.symbolic.exports.fx import to_fx
from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.numbers import Number
from nbgrad.core.symbolic.replay import Run, replay

_UNABLE = {
    torch.ops.aten.mkldnn_rnn_layer,
    torch.ops.aten.mkldnn_rnn_layer_backward,
    torch.ops.aten.mkldnn_rnn_layer.default,
    torch.ops.aten.mkldnn_rnn_layer_backward.default,
}
"""Steps whose compiled code raises a TypeError when it runs: the workspace of oneDNN's recurrent layer is opaque."""

_SETTINGS = {"fallback_random": True}
"""Random ops draw the numbers that they draw without a compiler."""


def inductor(listing: Listing) -> Run:
    """The function that runs a listing, whose steps before the update of an optimizer are compiled.

    The update itself is replayed: it reads its learning rate anew in each run.

    Raises:
        RuntimeError: there is no C++ compiler, or inductor cannot run a step.
    """
    parts = divided(listing, _compilable)
    if not parts.first.steps:
        return replay(listing)
    compiled = _compiled(parts.first)
    if parts.second is None:
        return lambda inputs, captured: list(compiled(*inputs, *captured))
    rest = replay(parts.second)

    def run(inputs: list[torch.Tensor], captured: list[torch.Tensor]) -> list[Any]:
        return rest([*inputs, *compiled(*inputs, *captured)], captured)

    return run


def _compilable(step: ProgramStep) -> bool:
    """Whether a step is a call of torch whose settings are the same in each run."""
    numbers = any(isinstance(one, Number) for one in leaves((step.args, step.kwargs)))
    return step.phase != "update" and not numbers


def _compiled(listing: Listing) -> Callable[..., Any]:
    """The steps of a listing as one compiled function of its inputs and captured tensors."""
    from torch._inductor import exc
    from torch._inductor.compile_fx import compile_fx

    values = [*listing.inputs, *listing.captured]
    _check_steps(listing.steps)
    _check_compiler(values)
    graph = to_fx(listing, takes_captured=True)
    examples = [_example(value) for value in values]
    try:
        found: Any = unrecorded(compile_fx, graph, examples, config_patches=_SETTINGS)
    except exc.CppCompileError as error:
        raise RuntimeError(
            f"backend 'inductor': the C++ compiler refused the code of {listing.name}: {error}"
        ) from None
    compiled: Callable[..., Any] = found
    return compiled


def _check_steps(steps: Iterable[ProgramStep]) -> None:
    for step in steps:
        if step.function in _UNABLE:
            raise RuntimeError(
                f"backend 'inductor' cannot run {step.function}: inductor takes its workspace for an ordinary tensor. "
                "Take backend='replay'"
            )


def _check_compiler(values: list[Value]) -> None:
    from torch._inductor import cpp_builder, exc

    if any(value.device.type != "cpu" for value in values):
        return  # torch asks for Triton itself
    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler:
        raise RuntimeError(
            "backend 'inductor' needs a C++ compiler, and none is found: install g++ or clang, name it in the "
            "environment variable CXX, or take backend='replay', which needs none"
        ) from None


def _example(value: Value) -> torch.Tensor:
    if value.stride is None:
        raise RuntimeError(f"backend 'inductor' takes no sparse tensor, as {value.name} is: take backend='replay'")
    return torch.empty_strided(value.shape, value.stride, dtype=value.dtype, device=value.device)
