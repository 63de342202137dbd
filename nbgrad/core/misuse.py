"""What an op that cannot run says: which op, on what, and what to do instead."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from nbgrad.core.caller import variable_name
from nbgrad.core.contents import dtype_name, told
from nbgrad.core.modes import current

E = TypeVar("E", bound=Exception)

if TYPE_CHECKING:
    from nbgrad.core.row import Op


def explained(op: "Op", error: Exception, args: tuple[Any, ...], values: list[Any]) -> Exception:
    """The same kind of error, naming the op and what it was given, after every observer was told of it."""
    typed = isinstance(error, TypeError | AttributeError) or "Expected a value of type" in str(
        error
    )  # torch.ops says it
    wrong = _no_tensor(op, values) if typed else None
    if wrong is not None:
        error = TypeError(f"{op.name}({_given(op, values)}): {wrong}")
    elif op.name.startswith("bitwise_") and isinstance(error, NotImplementedError):
        power = "; a power is written x ** 2" if "xor" in op.name else ""
        bits = "only whole numbers and truth values have bits"
        error = TypeError(f"{op.name}({_given(op, values)}): {bits}{power}")
    elif isinstance(error, NotImplementedError) and (lacking := _LACKING.search(str(error))):
        error = type(error)(f"{op.name}({_given(op, values)}): {_no_kernel(op, values, lacking[1])}")
    elif type(error) in (RuntimeError, IndexError, TypeError, ValueError):
        error = type(error)(f"{op.name}({_given(op, values)}): {error}{_in_one_dtype(op, error, values)}")
    return told_of(error, op, args)


def no_tensor(name: str, value: Any) -> str | None:
    """What is wrong with ``value``, given for the input ``name``; None for a tensor and what may stand for one."""
    if isinstance(value, list):
        return f"{name} is a list: write nbgrad.tensor({name})"
    expected = "where a tensor is expected"
    if value is None:
        return f"{name} is None, {expected}: a function or a forward() without return gives None"
    if type(value) is tuple:
        return f"{name} is a tuple of {len(value)}, {expected}: take it out, as in output, state = lstm(x)"
    if isinstance(value, str | dict | set | type):
        kind = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
        return f"{name} is {kind}, {expected}"
    if hasattr(value, "named_modules"):
        return f"{name} is the module {type(value).__name__}, {expected}: call the module to get one"
    return None


def _no_tensor(op: "Op", values: Sequence[Any]) -> str | None:
    """What is wrong with an input that is no tensor and cannot stand for one; the last ones may be left out."""
    needed = op.inputs[: len(op.inputs) - op.optional]
    # None may be meant in the middle too, so it is the last to be suspected.
    named = sorted(zip(op.inputs, values, strict=True), key=lambda one: one[1] is None)
    found = [no_tensor(name, value) for name, value in named if name in needed or value is not None]
    return next((wrong for wrong in found if wrong is not None), None)


def check_given(op: "Op", args: tuple[Any, ...]) -> int:
    """An error if one of ``args``, none of which is a tensor, cannot stand for one either; -1 otherwise."""
    wrong = _no_tensor(op, args)
    if wrong is not None:
        raise told_of(TypeError(f"{op.name}({_given(op, args)}): {wrong}"), op, args)
    return -1


_LACKING = re.compile(r"not implemented for '(\w+)'")
"""What torch says where a kernel has no code for an element type, which it calls by its C name."""

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


def _no_kernel(op: "Op", values: list[Any], name: str) -> str:
    """Which input has an element type that torch has no kernel for, and what to write instead."""
    dtype = _C_NAMES.get(name)
    if dtype is None:
        return f"torch has no kernel for {name}"
    given = [
        (input, one)
        for input, one in zip(op.inputs, values, strict=True)
        if getattr(one, "dtype", None) is dtype and input not in op.no_gradient
    ]
    place = f" on {given[0][1].device.type}" if given else ""
    wanted = ".float()" if not dtype.is_floating_point and not dtype.is_complex else ""
    wanted = wanted or (".float()" if dtype in (torch.float16, torch.bfloat16) else ".real" if dtype.is_complex else "")
    written = [f"{_variable(one) or input}{wanted}" for input, one in given] if wanted else []
    return f"torch has no kernel for {dtype_name(dtype)}{place}" + (f": write {', '.join(written)}" if written else "")


def _variable(data: torch.Tensor) -> str | None:
    """What the user calls the tensor with these ``data``."""
    return variable_name(lambda tensor: tensor._data is data)


def told_of(error: E, op: "Op", args: tuple[Any, ...]) -> E:
    """``error``, which the caller of ``op`` gets, after every observer was told of it."""
    for observer in current().observers:
        observer.on_error(op, args, error)
    return error


def _given(op: "Op", values: Sequence[Any]) -> str:
    named = zip(op.inputs, values, strict=True)
    return "; ".join(told(name, value) for name, value in named if no_tensor(name, value) is None)


def _in_one_dtype(op: "Op", error: Exception, values: list[Any]) -> str:
    """What to write where torch asks for one element type: numpy's numbers are float64, those of blocks float32."""
    given = {name: one for name, one in zip(op.inputs, values, strict=True) if isinstance(one, torch.Tensor)}
    kinds = {one.dtype for one in given.values()}
    if "type" not in str(error) or len(kinds) < 2 or not kinds & _CONVERSIONS.keys():
        return ""
    learned = given.get("weight")
    wanted = learned.dtype if learned is not None else torch.float32 if torch.float32 in kinds else max(kinds, key=str)
    if wanted not in _CONVERSIONS:
        return ""
    calls = []
    for name, one in given.items():
        if one.dtype is not wanted:
            known = _variable(one)
            calls.append(f"{known}{_CONVERSIONS[wanted]}" if known else f"{_CONVERSIONS[wanted]} on {name!r}")
    return f". Give them one dtype: {', '.join(calls)}"


_CONVERSIONS = {torch.float32: ".float()", torch.float64: ".double()", torch.float16: ".half()"}


def check_foreign(op: "Op", args: tuple[Any, ...]) -> None:
    """An error if a torch tensor among ``args`` needs a gradient, which torch's autograd alone could give."""
    theirs = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
    if any(isinstance(arg, torch.nn.Parameter) for arg in theirs):
        raise RuntimeError(
            f"{op.name}() got a parameter of a torch module, in torch's own autograd, into which nbgrad does not "
            "differentiate: nbgrad.from_torch(module) makes the module one of nbgrad's"
        )
    if theirs:
        raise RuntimeError(
            f"{op.name}() got a torch tensor that requires grad in torch's own autograd, into which nbgrad does "
            "not differentiate: wrap it with nbgrad.tensor(t, requires_grad=True), or pass t.detach()"
        )


INFERENCE = (
    "{op} would have to save a tensor that was made in inference_mode() for its backward, which cannot be: make an "
    "ordinary tensor of it with clone() first, or use no_grad() instead of inference_mode()"
)
