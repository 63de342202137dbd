"""A program as an ONNX model, which is run and compared before its file is written."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from nbgrad.core.backend.below_autograd import below_autograd
from nbgrad.core.files import replace_file
from nbgrad.core.symbolic.exports.core_operators import (
    Lowered,
    Untranslated,
    captured_data,
    drawn,
    in_order,
    lowered,
    output_names,
    raw_tensors,
    untranslated,
)
from nbgrad.core.symbolic.exports.onnx_model import Model
from nbgrad.core.symbolic.exports.onnx_ops import OPS
from nbgrad.core.symbolic.ir import Listing
from nbgrad.core.symbolic.replay import replay

DRAWS = 2
"""How many sets of inputs are drawn to compare on, where none is given."""


def to_onnx(listing: Listing, path: str | os.PathLike[str], examples: Sequence[Any]) -> None:
    """Write a program as an ONNX model: see ``Program.to_onnx``."""
    try:
        import onnx  # noqa: F401  # asked for before any work
        import onnxruntime  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"an ONNX model is made by the package onnx and compared by onnxruntime: {error.name} is not installed. "
            "Run: pip install onnx onnxruntime",
            name=error.name,
        ) from None
    form = lowered(listing, "ONNX")
    model = _model(form).SerializeToString()
    given = [raw_tensors(examples)] if examples else [drawn(listing, seed) for seed in range(DRAWS)]
    for inputs in given:
        _compare(form, model, inputs)

    def write(file: Path) -> None:
        file.write_bytes(model)

    replace_file(path, write)


def _model(form: Lowered) -> Any:
    """The model, whose operators are translated one by one."""
    listing, model = form.listing, Model()
    names: dict[Any, Any] = {}
    values = iter([*listing.inputs, *listing.captured])
    data = iter([*[None] * len(listing.inputs), *captured_data(listing)])
    for node in form.module.graph.nodes:
        if node.op == "placeholder":
            value, held = next(values), next(data)
            if held is None:
                model.input(value.name, value.shape, value.dtype)
            else:
                model.initializer(value.name, held)
            names[node] = value.name
        elif node.op == "get_attr":
            names[node] = model.constant(getattr(form.module, node.target))
        elif node.op == "output":
            made = [names[one] for one in node.args[0]]
            kinds = [one.meta["val"] for one in node.args[0]]
            for name, one, kind in zip(output_names(form), made, kinds, strict=True):
                model.output(name, one, kind)
        else:
            names[node] = _translated(form, node, model, names)
    return model.proto(listing.name)


def _translated(form: Lowered, node: Any, model: Model, names: dict[Any, Any]) -> Any:
    target = node.target
    if getattr(target, "__name__", "") == "getitem" and not hasattr(target, "_schema"):
        return names[node.args[0]][node.args[1]]
    known = OPS.get(target.name().partition("::")[2].partition(".")[0]) if hasattr(target, "_schema") else None
    if known is None:
        raise untranslated("ONNX", form.step_of(node), f"the operator {target} has no translation")
    model.begin(node, names)
    try:
        return known(model, *in_order(node))
    except Untranslated as error:
        raise untranslated("ONNX", form.step_of(node), str(error)) from None


def _compare(form: Lowered, model: bytes, inputs: list[torch.Tensor]) -> None:
    """Run the model and the program on the same inputs.

    Raises:
        RuntimeError: onnxruntime refuses the model, or gives other numbers.
    """
    import onnxruntime

    listing = form.listing
    expected = _run(form, inputs, 0)
    noise = [
        (one.double() - other.double()).abs().nan_to_num(0, 0, 0).amax() if one.numel() else torch.zeros(())
        for one, other in zip(_run(form, inputs, 1), expected, strict=True)
    ]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    feed = {value.name: one.numpy() for value, one in zip(listing.inputs, inputs, strict=True)}
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        found = session.run(None, {key: feed[key] for key in (one.name for one in session.get_inputs())})
    except Exception as error:  # its errors have no common class
        raise RuntimeError(f"ONNX: onnxruntime cannot run {listing.name}, no file is written: {error}") from error
    largest = max((float(one.double().abs().amax()) for one in expected if one.numel()), default=0.0)
    for name, one, wanted, change in zip(output_names(form), found, expected, noise, strict=True):
        loose = min(2**6 * float(change), 1e-3 * largest)
        _compare_one(f"{name} of {listing.name}", torch.from_numpy(one), wanted, loose)


def _run(form: Lowered, inputs: list[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """The outputs of the model: those of the program, and the tensors that it has changed.

    If ``seed`` is not 0, the last digits of all floats that go in are changed at random.
    """
    listing, source = form.listing, torch.Generator().manual_seed(seed)

    def taken(one: torch.Tensor) -> torch.Tensor:
        if not seed or not one.is_floating_point():
            return one.clone()
        spread = torch.finfo(one.dtype).eps * (2 * torch.rand(one.shape, generator=source) - 1)
        return one.clone().mul_(1 + spread.double())

    ours, captured = [taken(one) for one in inputs], [taken(one) for one in captured_data(listing)]
    try:
        made = below_autograd(replay(listing), ours, captured)
    except (RuntimeError, IndexError) as error:
        raise ValueError(
            f"ONNX: {listing.name} does not run on drawn inputs ({error}). Give some to compare on: "
            "program.to_onnx(path, *inputs)"
        ) from error
    after = dict(zip(map(id, (*listing.inputs, *listing.captured)), (*ours, *captured), strict=True))
    return [*made, *(after[id(value)] for value in form.changed)]


def _compare_one(what: str, found: torch.Tensor, wanted: torch.Tensor, loose: float) -> None:
    """Compare a result, which may be off by the rounding of its largest number plus ``loose``.

    ``loose`` is how much the result changes when the last digits of the inputs change. If a gradient is zero but for
    rounding, all of it is such a change.
    """
    if wanted.is_floating_point() and not bool(wanted.isfinite().all()):
        raise ValueError(
            f"ONNX: {what} is not finite on the inputs to compare on: give others, program.to_onnx(path, *inputs)"
        )
    exact = not wanted.is_floating_point()
    if found.dtype is not wanted.dtype or found.shape != wanted.shape:
        raise RuntimeError(
            f"ONNX: {what} is {list(found.shape)} of {found.dtype} in onnxruntime and "
            f"{list(wanted.shape)} of {wanted.dtype} here: no file is written"
        )
    if not wanted.numel():
        return
    off = (found.double() - wanted.double()).abs().max()
    size = wanted.double().abs().max()
    allowed = 0.0 if exact else float(size) * torch.finfo(wanted.dtype).eps * 2**10 + loose
    if not float(off) <= allowed:
        raise RuntimeError(
            f"ONNX: {what} differs by {float(off):.2g} in onnxruntime, where its largest number is "
            f"{float(size):.2g}: no file is written"
        )
