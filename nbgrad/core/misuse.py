"""What an op that cannot run says: which op, on what, and what to do instead."""

from typing import TYPE_CHECKING, Any, TypeVar

import torch

from nbgrad.core.caller import variable_name
from nbgrad.core.contents import told
from nbgrad.core.modes import current

E = TypeVar("E", bound=Exception)

if TYPE_CHECKING:
    from nbgrad.core.row import Op


def explained(op: "Op", error: Exception, args: tuple[Any, ...], values: list[Any]) -> Exception:
    """The same kind of error, naming the op and what it was given, after every observer was told of it."""
    lists = [name for name, value in zip(op.inputs, values, strict=True) if isinstance(value, list)]
    if lists and isinstance(error, TypeError | AttributeError):
        error = TypeError(f"{op.name}({_given(op, values)}): {lists[0]} is a list: write nbgrad.tensor({lists[0]})")
    elif op.name.startswith("bitwise_") and isinstance(error, NotImplementedError):
        power = "; a power is written x ** 2" if "xor" in op.name else ""
        bits = "only whole numbers and truth values have bits"
        error = TypeError(f"{op.name}({_given(op, values)}): {bits}{power}")
    elif type(error) in (RuntimeError, IndexError, TypeError, ValueError):
        error = type(error)(f"{op.name}({_given(op, values)}): {error}{_in_one_dtype(op, error, values)}")
    return told_of(error, op, args)


def told_of(error: E, op: "Op", args: tuple[Any, ...]) -> E:
    """``error``, which the caller of ``op`` gets, after every observer was told of it."""
    for observer in current().observers:
        observer.on_error(op, args, error)
    return error


def _given(op: "Op", values: list[Any]) -> str:
    named = zip(op.inputs, values, strict=True)
    return "; ".join(told(name, value) for name, value in named if value is not None)


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
            known = variable_name(lambda tensor, one=one: tensor._data is one)  # type: ignore[misc]
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
