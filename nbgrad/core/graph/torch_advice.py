"""Advice on the usual errors of torch's autograd that no op of a graph and no backward in it has raised.

A backward from many numbers, a gradient of another shape, a leaf that is changed in place: torch's message says what is
wrong. The advice says what to write, with the names of the user's code. It is worked out when such an error ends a cell
or a block.
"""

import ast
import re
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from nbgrad.core.engine.explanation import Explanation
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.source_text import program, statement_at
from nbgrad.core.engine.torch_origins import TENSORS
from nbgrad.core.graph.advice import is_library


def torch_advice(error: BaseException) -> Explanation | None:
    """The explanation of an error of torch's autograd; None if it is another one, or not known."""
    found = None
    with suppress(Exception):  # an error must never hide the one that it explains
        found = _advice(error)
    return found


def _advice(error: BaseException) -> Explanation | None:
    said, where = str(error), raised_in(error)
    if not isinstance(error, RuntimeError) or where is None:
        return None
    frame, place = where
    for pattern, advise in _KNOWN:
        if (match := re.search(pattern, said)) is not None:
            return advise(match, frame, place)
    return None


def raised_in(error: BaseException) -> tuple[FrameType, Place] | None:
    """The user's innermost frame that the error went through, and its line."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if not is_library(trace.tb_frame):
            found = trace.tb_frame, Place(trace.tb_frame.f_code, trace.tb_lasti)
        trace = trace.tb_next
    return found


def _called(place: Place, name: str) -> ast.Call | None:
    """The call of the function or method ``name`` in that line."""
    statement = statement_at(place.file, place.line)
    for part in ast.walk(statement) if statement is not None else ():
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == name:
            return part
    return None


def _started(place: Place) -> tuple[str, Callable[[str], str]] | None:
    """The tensor from which the line starts a backward, as code, and a function that writes another in its place."""
    call = _called(place, "backward")
    if call is not None and isinstance(call.func, ast.Attribute):
        whose = call.func.value
        if ast.unparse(whose).endswith("autograd"):
            if not call.args:
                return None
            whose = call.args[0]
            return ast.unparse(whose), lambda code: f"{code}.backward()"
        arguments = ", ".join([ast.unparse(one) for one in (*call.args, *call.keywords)])
        return ast.unparse(whose), lambda code: f"{code}.backward({arguments})"
    call = _called(place, "grad")
    if call is None or not call.args:
        return None
    function, rest = ast.unparse(call.func), [ast.unparse(one) for one in (*call.args[1:], *call.keywords)]
    return ast.unparse(call.args[0]), lambda code: f"{function}({', '.join([code, *rest])})"


def _tensor(code: str, frame: FrameType) -> Any:
    """The tensor that the variable ``code`` holds; None if it is more than a name, or holds something else."""
    value = frame.f_locals.get(code, frame.f_globals.get(code))
    return value if isinstance(value, TENSORS) else None


def _many(match: re.Match[str], frame: FrameType, place: Place) -> Explanation:  # noqa: ARG001
    """A backward from more than one number."""
    begun = _started(place)
    code, written = begun or ("loss", lambda code: f"{code}.backward()")
    tensor, simple = _tensor(code, frame), re.fullmatch(r"[\w.\[\]()]+", code) is not None
    has = "has more than one element" if tensor is None else f"has shape {tuple(tensor.shape)}"
    whole = code if simple else f"({code})"
    mean, total = written(f"{whole}.mean()"), written(f"{whole}.sum()")
    text = f"{code} {has}, and a backward without a given gradient starts from one number"
    more = ""
    made = next((one for one in _lines_of(code, place) if "reduction" in one), None)
    if made is not None:
        more = f" The loss was made with {made}: reduction='mean' gives one number, too."
    return Explanation(f"{text}. Write {mean}, or {total} for the sum.{more}", mean, place)


def _lines_of(name: str, place: Place) -> list[str]:
    """The arguments ``reduction="none"`` in the code of ``place`` up to its line, if ``name`` is a variable."""
    tree = program(place.file) if name.isidentifier() else None
    return [
        ast.unparse(part)
        for part in (ast.walk(tree) if tree is not None else ())
        if isinstance(part, ast.keyword)
        and part.arg == "reduction"
        and "none" in ast.unparse(part.value)
        and part.lineno <= place.line
    ]


def _seed(match: re.Match[str], frame: FrameType, place: Place) -> Explanation:  # noqa: ARG001
    """A given gradient of another shape than the tensor."""
    begun = _started(place)
    code = "out" if begun is None else begun[0]
    remedy = f"{code}.backward(torch.ones_like({code}))"
    text = f"the gradient that backward() is given must have the shape of {code}"
    return Explanation(f"{text}, {match[2]}, and has shape {match[1]}. Write {remedy}", remedy, place)


def _unused(match: re.Match[str], frame: FrameType, place: Place) -> Explanation:  # noqa: ARG001
    """A gradient was asked for of a tensor that the result does not use."""
    call = _called(place, "grad")
    asked = ast.unparse(call.args[1]) if call is not None and len(call.args) > 1 else "the inputs"
    of = ast.unparse(call.args[0]) if call is not None and call.args else "the result"
    parts = call.args[1].elts if call is not None and isinstance(call.args[1], ast.Tuple | ast.List) else []
    at = int(match[1] or 0)
    which = ast.unparse(parts[at]) if match[1] and at < len(parts) else f"one of {asked}"
    text = (
        f"{which} did not lead to {of}: another tensor was used in its place, as after detach(), .data, a copy, "
        "or an assignment that made a new tensor of the same name. Use that tensor in the forward; where None is "
        "right for it, pass allow_unused=True"
    )
    return Explanation(text, "allow_unused=True", place)


def _constant(match: re.Match[str], frame: FrameType, place: Place) -> Explanation:  # noqa: ARG001
    """A gradient was asked for of a tensor that needs none."""
    call = _called(place, "grad")
    asked = call.args[1] if call is not None and len(call.args) > 1 else None
    parts = asked.elts if isinstance(asked, ast.Tuple | ast.List) else [] if asked is None else [asked]
    held = [(code, _tensor(code, frame)) for code in map(ast.unparse, parts)]
    flat = [code for code, tensor in held if tensor is not None and not tensor.requires_grad] or ["x"]
    remedy = f"{flat[0]}.requires_grad_()"
    text = f"{', '.join(flat)} needs no gradient, and its gradient is asked for. Before the forward, write"
    return Explanation(f"{text} {remedy}", remedy, place)


def _leaf(match: re.Match[str], frame: FrameType, place: Place) -> Explanation:  # noqa: ARG001
    """A leaf that learns is changed in place."""
    statement = statement_at(place.file, place.line)
    code = "w -= lr * w.grad" if statement is None else ast.unparse(statement)
    remedy = f"with torch.no_grad(): {code}"
    text = "a tensor that is to learn is changed in place while gradients are recorded: an update is no part of the"
    return Explanation(f"{text} forward. Write {remedy}", remedy, place)


def _dtype(match: re.Match[str], frame: FrameType, place: Place) -> Explanation:  # noqa: ARG001
    """Two types of elements in one op."""
    remedy = ".float()"
    if "Long" in match[0] or "Int" in match[0]:
        text = "a loss for classes takes class numbers of type long, all others take floats"
        return Explanation(f"{text}: convert the targets with .long() or {remedy}", remedy, place)
    text = "numpy's arrays are float64, and torch's parameters are float32: convert the data before the model, as in"
    return Explanation(f"{text} x = x{remedy}", remedy, place)


def _probabilities(match: re.Match[str], frame: FrameType, place: Place) -> Explanation:  # noqa: ARG001
    """binary_cross_entropy got scores."""
    remedy = "binary_cross_entropy_with_logits"
    text = "binary_cross_entropy takes probabilities: apply sigmoid to the last layer, or give the scores to"
    return Explanation(f"{text} {remedy}", remedy, place)


def _device(match: re.Match[str], frame: FrameType, place: Place) -> Explanation:  # noqa: ARG001
    """Tensors on two devices in one op."""
    remedy = "x = x.to(next(model.parameters()).device)"
    text = "the tensors are on different devices. Bring the model to the device before the optimizer is made, and each"
    return Explanation(f"{text} batch in the loop: {remedy}", remedy, place)


_KNOWN: tuple[tuple[str, Callable[[re.Match[str], FrameType, Place], Explanation]], ...] = (
    (r"grad can be implicitly created only for scalar outputs", _many),
    (r"backward\(\) on a tensor of shape .*: only one with a single element", _many),
    (
        r"Mismatch in shape: grad_output\[\d+\] has a shape of torch\.Size\((.*?)\) and output\[\d+\] has a shape of "
        r"torch\.Size\((.*?)\)",
        _seed,
    ),
    (r"differentiated Tensors? (?:at index (\d+) )?appears to not have been used in the graph", _unused),
    (r"One of the differentiated Tensors does not require grad", _constant),
    (r"a leaf Variable that requires grad is being used in an in-place operation", _leaf),
    (r"a view of a leaf Variable that requires grad is being used in an in-place operation", _leaf),
    (r"Found dtype \w+ but expected \w+", _dtype),
    (r"expected target dtype to be Long", _dtype),
    (r"expected scalar type \w+ but found \w+", _dtype),
    (r"mat1 and mat2 must have the same dtype|expected m1 and m2 to have the same dtype", _dtype),
    (r"Expected all tensors to be on the same device", _device),
    (r"all elements of input should be between 0 and 1", _probabilities),
)
"""Patterns of messages, each with the function that knows the advice."""
