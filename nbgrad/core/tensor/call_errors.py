"""The messages of ops that cannot run: they name the op and its operands, and say what to do instead."""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

import torch

from nbgrad.core.engine.call_site import better_name, names_in_frames, variable_name
from nbgrad.core.engine.node import OpInfo, raw_of
from nbgrad.core.engine.state import current
from nbgrad.core.engine.tensor_data import differentiable, dtype_name, told, words_of
from nbgrad.core.tensor.filled import Filled
from nbgrad.core.tensor.shape_remedies import shape_remedy

E = TypeVar("E", bound=Exception)


def explained(op: OpInfo, error: Exception, args: tuple[Any, ...], values: list[Any]) -> Exception:
    """Return an error of the same kind that names the op and its operands; every observer has seen it by then."""
    said = words_of(error)
    typed = isinstance(error, TypeError | AttributeError) or _TYPED in said
    wrong = _no_tensor(op, values) if typed else None
    lacking = (
        _LACKING.search(said) if isinstance(error, RuntimeError) else None
    )  # torch 2.6 raises no more specific type
    if wrong is not None:
        error = TypeError(_about(op, values, wrong))
    elif op.name.startswith("bitwise_") and lacking:
        power = "; a power is written x ** 2" if "xor" in op.name else ""
        bits = "only whole numbers and truth values have bits"
        error = TypeError(_about(op, values, f"{bits}{power}"))
    elif lacking:
        error = NotImplementedError(_about(op, values, _no_kernel(op, values, lacking[1])))
    elif type(error) in (RuntimeError, IndexError, TypeError, ValueError):
        remedy = _remedy(op, said, values)
        error = type(error)(_about(op, values, f"{said.rstrip('.') if remedy else said}{remedy}"))
    return announced(error, op, args)


def no_tensor(name: str, value: Any) -> str | None:
    """Say why ``value`` cannot be the input ``name``; None for a tensor, a number and an array."""
    if isinstance(value, list):
        return f"{name} is a list: write nbgrad.tensor({name})"
    expected = "where a tensor is expected"
    if value is None:
        return f"{name} is None, {expected}: a function or a forward() without return gives None"
    if type(value) is tuple:
        return f"{name} is a tuple of {len(value)}, {expected}: take it out, as in (output, state) = lstm(x)"
    if isinstance(value, str | dict | set | type):
        kind = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
        return f"{name} is {kind}, {expected}"
    if hasattr(value, "named_modules"):
        return f"{name} is the module {type(value).__name__}, {expected}: call the module to get one"
    return None


def _no_tensor(op: OpInfo, values: Sequence[Any]) -> str | None:
    """Say which of the inputs is no tensor, number or array. The last inputs may be missing."""
    needed = op.inputs[: len(op.inputs) - op.optional]
    # None can be a valid input in the middle, so it is suspected last.
    named = sorted(zip(op.inputs, values, strict=True), key=lambda one: one[1] is None)
    found = [no_tensor(name, value) for name, value in named if name in needed or value is not None]
    return next((wrong for wrong in found if wrong is not None), None)


def check_given(op: OpInfo, args: tuple[Any, ...]) -> int:
    """Check a call without any tensor: return -1, or raise if one of ``args`` is no number or array either."""
    wrong = _no_tensor(op, args)
    if wrong is not None:
        raise announced(TypeError(_about(op, args, wrong)), op, args)
    return -1


_TYPED = "Expected a value of type"
"""The RuntimeError of torch.ops about an argument that is no tensor."""

_LACKING = re.compile(r"not implemented for '(\w+)'")
"""The message of torch about a kernel that has no code for an element type, with the type's C name."""

_C_NAMES = {
    "Bool": torch.bool,
    "Byte": torch.uint8,
    "Char": torch.int8,
    "Short": torch.int16,
    "Int": torch.int32,
    "Long": torch.int64,
    "Half": torch.float16,
    "BFloat16": torch.bfloat16,
    "Float": torch.float32,
    "Double": torch.float64,
    "ComplexFloat": torch.complex64,
    "ComplexDouble": torch.complex128,
}


def _no_kernel(op: OpInfo, values: list[Any], name: str) -> str:
    """Say which input has an element type without a kernel in torch, and what to write instead."""
    dtype = _C_NAMES.get(name)
    if dtype is None:
        return f"torch has no kernel for {name}"
    given = _of_types(op, _tensors(op, values), {dtype})
    place = f" on {next(iter(given.values())).device.type}" if given else ""
    half = dtype in (torch.float16, torch.bfloat16)
    wanted = ".float()" if half or not differentiable(dtype) else ".real" if dtype.is_complex else ""
    written = [_call(input, one, wanted) for input, one in given.items()] if wanted else []
    return f"torch has no kernel for {dtype_name(dtype)}{place}" + (f": write {', '.join(written)}" if written else "")


def _of_types(op: OpInfo, given: dict[str, torch.Tensor], dtypes: set[torch.dtype]) -> dict[str, torch.Tensor]:
    """The inputs that have one of these element types, without classes and indices, which must be integers."""
    return {name: one for name, one in given.items() if one.dtype in dtypes and name not in op.no_gradient}


def announced(error: E, op: OpInfo, args: tuple[Any, ...]) -> E:
    """Return ``error``, after every observer has been notified."""
    for observer in current().observers:
        observer.on_error(op, args, error)
    return error


def _about(op: OpInfo, values: Sequence[Any], what: str) -> str:
    """The text ``what``, with the op and its operands before it; a tensor has the user's name too."""
    called = _names(values)
    named = [(name, called.get(id(value)), value) for name, value in zip(op.inputs, values, strict=True)]
    given = "; ".join(
        told(name if users in (None, name) else f"{name}: {users}", value)
        for name, users, value in named
        if no_tensor(name, value) is None
    )
    return f"{op.name}({given}): {what}"


def _names(values: Sequence[Any]) -> dict[int, str]:
    """The user's names of the tensors among ``values``, by their ids."""
    wanted, found = {id(one) for one in values if isinstance(one, torch.Tensor)}, dict[int, str]()
    for name, one in names_in_frames() if wanted else ():
        raw = id(raw_of(one))
        if raw in wanted and raw not in found:
            found[raw] = better_name(name, one)
    return found


def _tensors(op: OpInfo, values: Sequence[Any]) -> dict[str, torch.Tensor]:
    """The raw tensors among the inputs, by name."""
    return {name: one for name, one in zip(op.inputs, values, strict=True) if isinstance(one, torch.Tensor)}


def _remedy(op: OpInfo, said: str, values: list[Any]) -> str:
    """The remedy, if known. The text continues the sentence that torch ``said``."""
    given = _tensors(op, values)
    input, target, weight = given.get("input"), given.get("target"), given.get("weight")
    if "ignore_index" in op.defaults and input is not None and target is not None and input.ndim:
        return _of_classes(input, target)
    if op.name == "embedding" and input is not None and weight is not None:
        return _of_rows(input, weight.shape[0])
    if op.name == "binary_cross_entropy" and "between 0 and 1" in said and input is not None:
        scores = bool(((input < 0) | (input > 1)).any())
        return ". Give scores to binary_cross_entropy_with_logits, or their sigmoid to this op" if scores else ""
    return _in_one_dtype(said, given) or _as_floats(op, said, given) or _of_shapes(op, said, values)


def _of_shapes(op: OpInfo, said: str, values: list[Any]) -> str:
    """The remedy if torch ``said`` that shapes do not fit."""
    called = _names(values)
    operands = [
        (called.get(id(one), name), one)
        for name, one in zip(op.inputs, values, strict=True)
        if isinstance(one, torch.Tensor)
    ]
    return shape_remedy(op, said, operands)


def _as_floats(op: OpInfo, said: str, given: dict[str, torch.Tensor]) -> str:
    """The remedy if torch ``said`` that the op does not compute with integers."""
    kinds = {_C_NAMES[word] for word in re.findall(r"\w+", said) if word in _C_NAMES}
    found = _of_types(op, given, {dtype for dtype in kinds if not differentiable(dtype)})
    call = next((_CONVERSIONS[one.dtype] for one in given.values() if one.dtype in _CONVERSIONS), ".float()")
    return f". Write {', '.join([_call(name, one, call) for name, one in found.items()])}" if found else ""


def _of_classes(scores: torch.Tensor, target: torch.Tensor) -> str:
    """Say which class number of a loss is out of range."""
    dim = min(1, scores.ndim - 1)
    wanted = (*scores.shape[:dim], *scores.shape[dim + 1 :])
    numbers = f". The numbers of the classes have shape {wanted} and type int64"
    if target.shape == wanted and target.dtype not in {torch.int64, torch.uint8}:
        return f"{numbers}: {_call('target', target, '.long()')}"
    if target.dtype.is_floating_point:
        return ""
    if target.shape == scores.shape:
        return f"{numbers}: {_call('target', target, f'.argmax({dim})')}"
    if target.ndim == len(wanted) + 1 and target.shape[dim] == 1 and target.squeeze(dim).shape == wanted:
        return f"{numbers}: {_call('target', target, f'.squeeze({dim})')}"
    return _outside("target", target, scores.shape[dim], "classes") if target.shape == wanted else ""


def _of_rows(indices: torch.Tensor, rows: int) -> str:
    """Say which row number of an embedding is out of range."""
    if indices.dtype.is_floating_point:
        return f". Rows have whole numbers: {_call('input', indices, '.long()')}"
    return _outside("input", indices, rows, "rows")


def _outside(name: str, indices: torch.Tensor, count: int, what: str) -> str:
    """The first of ``indices`` that is out of range. Indices on a GPU cannot be read after such an error."""
    if indices.device.type != "cpu":
        return ""
    wrong = (indices >= count).nonzero()
    if not len(wrong):  # a number below 0 may be the ignore_index of the loss
        wrong = ((indices < 0) & (indices != _IGNORED)).nonzero()
    if not len(wrong):
        return ""
    at = tuple(wrong[0].tolist())
    found = f"{name}[{', '.join(map(str, at))}]" if at else name
    return f": {found} is {indices[at].item()}, and there are {count} {what}, 0 to {count - 1}"


_IGNORED = -100
"""The class that losses leave out by default."""


def _call(name: str, one: torch.Tensor, call: str) -> str:
    """The text of ``call`` on the user's variable, or on the name of the input."""
    known = variable_name(lambda tensor: raw_of(tensor) is one)
    return f"{known}{call}" if known else f"{call} on {name!r}"


def _in_one_dtype(said: str, given: dict[str, torch.Tensor]) -> str:
    """The remedy if element types differ: numpy's default is float64, that of blocks is float32."""
    kinds = {one.dtype for one in given.values()}
    if "type" not in said or len(kinds) < 2 or not kinds & _CONVERSIONS.keys():
        return ""
    learned = given.get("weight")
    wanted = learned.dtype if learned is not None else torch.float32 if torch.float32 in kinds else max(kinds, key=str)
    if wanted not in _CONVERSIONS:
        return ""
    calls = [_call(name, one, _CONVERSIONS[wanted]) for name, one in given.items() if one.dtype is not wanted]
    return f". Give them one dtype: {', '.join(calls)}"


_CONVERSIONS = {torch.float32: ".float()", torch.float64: ".double()", torch.float16: ".half()"}


def check_foreign(op: OpInfo, args: tuple[Any, ...]) -> int:
    """Whether a tensor of ours stands for a torch tensor among ``args``, because that was filled or needs a gradient.

    Returns:
        -2 if so: the op takes the tensor of ours in its place. Otherwise 0.

    Raises:
        RuntimeError: one needs a gradient while a program is traced, which holds nothing of torch's own autograd.
    """
    if not any(isinstance(arg, Filled) or (isinstance(arg, torch.Tensor) and arg.requires_grad) for arg in args):
        return 0
    if current().tracer is not None and not any(isinstance(arg, Filled) for arg in args):
        raise RuntimeError(
            f"{op.name}() got a torch tensor that requires grad in torch's own autograd, which a program does not "
            "have: wrap it with nbgrad.tensor(t, requires_grad=True), or pass t.detach()"
        )
    return -2


INFERENCE = (
    "{op} would have to save a tensor that was made in inference_mode() for its backward, which is not possible: make "
    "an ordinary tensor of it with clone() first, or use no_grad() instead of inference_mode()"
)
