"""Advice about an error that Python raised in the user's own code, for common mistakes with tensors.

``'float' object has no attribute 'backward'`` is true and does not help: the advice says which call made the number, on
which line, and what to write instead. It is worked out when such an error ends a cell or a block, never before.
"""

import ast
import inspect
import re
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import ExtensionFileLoader
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import torch

from nbgrad.core.engine.call_site import in_library
from nbgrad.core.engine.place import line_of
from nbgrad.core.engine.source_text import Assignment, assignments, expression_at, replaced_text, replacement
from nbgrad.core.engine.torch_origins import TENSORS
from nbgrad.core.suggestions import nearest
from nbgrad.core.tensor.tensor import Tensor


def is_library(frame: FrameType) -> bool:
    """Whether ``frame`` runs code of a library.

    The file name of compiled code is the one that its compiler was given: it does not say where the library is.
    """
    compiled = isinstance(frame.f_globals.get("__loader__"), ExtensionFileLoader)
    return compiled or in_library(frame.f_code.co_filename)


def advice(error: BaseException) -> str | None:
    """Return the advice about ``error``, in one or a few sentences; None if there is none.

    It reads the variables of the frame that raised, so it works only while the traceback of ``error`` is there.
    """
    found = None
    with suppress(Exception):  # an error must never hide the one that it explains
        found = _advice(error)
    return found


def advise(error: BaseException) -> str | None:
    """Add the advice on ``error`` once to the notes of ``error``, which its traceback shows, and return the advice."""
    if not isinstance(error, AttributeError | TypeError):
        return None
    found = advice(error)
    if found is not None and found not in getattr(error, "__notes__", ()):
        error.add_note(found)
    return found


def _advice(error: BaseException) -> str | None:
    where = _raised(error)
    if where is None:
        return None
    frame, offset = where
    node = expression_at(frame.f_code, offset)
    if isinstance(error, AttributeError):
        return _of_attribute(error, frame, node)
    return _of_type(str(error), frame, node) if isinstance(error, TypeError) else None


def _of_type(said: str, frame: FrameType, node: ast.AST | None) -> str | None:
    """Advice on a TypeError."""
    if (unknown := _UNEXPECTED.search(said)) is not None:
        return _of_keyword(unknown[1], frame, node)
    if "not callable" in said:
        return _of_call(frame, node)
    if "unsupported operand" in said or "NoneType" in said or "method" in said:
        return _of_operands(frame, node)
    return None


_UNEXPECTED = re.compile(r"unexpected keyword argument '(\w+)'$")


def _raised(error: BaseException) -> tuple[FrameType, int] | None:
    """The user's frame that raised ``error`` itself, and its instruction; None if a library's frame raised it.

    The error about a wrong argument is raised at the call, because the function has no frame yet.
    """
    trace = error.__traceback__
    if trace is None:
        return None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return None if is_library(trace.tb_frame) else (trace.tb_frame, trace.tb_lasti)


# A missing attribute.


def _of_attribute(error: AttributeError, frame: FrameType, node: ast.AST | None) -> str | None:
    thing, wanted = error.obj, error.name
    if wanted is None or not hasattr(Tensor, wanted):
        return None
    base = node.func if isinstance(node, ast.Call) else node
    base = base.value if isinstance(base, ast.Attribute) else None
    return _of_thing(thing, wanted, frame, base)


def _of_thing(thing: Any, wanted: str, frame: FrameType, base: ast.AST | None) -> str | None:
    """Advice if the attribute ``wanted`` of tensors was read from ``base``, whose value ``thing`` is no tensor."""
    called = ast.unparse(base) if base is not None else "it"
    if thing is None:
        return _no_gradient(frame, base, called) if _asks_grad(base) else _no_value(called)
    if _is_method(thing):
        return _uncalled(called, thing, frame, base)
    if isinstance(thing, bool | int | float | complex | np.generic | np.ndarray):
        return _no_tensor(called, thing, wanted, frame, base)
    if isinstance(thing, list | tuple):
        return _of_several(called, thing, frame)
    if hasattr(thing, "named_parameters"):
        return (
            f"{called} is a module: call it to get a tensor, as in out = {called}(x), and compute a loss from that. "
            f"Its parameters have {wanted}: {called}.parameters()."
        )
    return None


def _of_several(called: str, thing: "list[Any] | tuple[Any, ...]", frame: FrameType) -> str:
    kind = "list" if isinstance(thing, list) else "tuple"
    library = _library(frame, thing)
    if not any(isinstance(one, TENSORS) for one in thing):
        return f"{called} is a {kind}: {library}.tensor({called}) makes a tensor of its numbers."
    take = f"take one out, as in {called}[0]" if kind == "tuple" else f"take one, as in {called}[-1]"
    return (
        f"{called} is a {kind} of {len(thing)} tensors or numbers: {take}, or make one of all of them: "
        f"{library}.stack({called}).sum()."
    )


def _no_value(called: str) -> str:
    return f"{called} is None: a function, or a forward(), that ends without return gives None."


def _no_tensor(called: str, thing: Any, wanted: str, frame: FrameType, base: ast.AST | None) -> str:
    """Advice on a number or an array that is used as a tensor, with the call that made it."""
    kind = "numpy array" if isinstance(thing, np.ndarray) else f"plain number ({type(thing).__name__})"
    begins = f"{called} is a {kind}, which has no history"
    made = _made(frame, base)
    if made is None:
        return f"{begins}. Compute it with tensors and {_library(frame)}'s functions, and call {wanted} on that."
    what, line, remedy = made
    return f"{begins}: {what} made it at {line}. {remedy}"


def _made(frame: FrameType, base: ast.AST | None) -> tuple[str, str, str] | None:
    """The call that made a number of a tensor, its line, and the code to write instead."""
    file = frame.f_code.co_filename
    sources: list[Assignment] = []
    if isinstance(base, ast.Name):
        sources = [one for one in assignments(file, base.id) if one.lineno <= frame.f_lineno] or list(
            assignments(file, base.id)
        )
    for one in reversed(sources):
        if one.value is None:
            continue
        for call in (part for part in ast.walk(one.value) if isinstance(part, ast.Call)):
            found = _number_maker(call, frame)
            if found is not None:
                return found[0], line_of(file, one.lineno), found[1]
    return None


def _number_maker(call: ast.Call, frame: FrameType) -> tuple[str, str] | None:
    """The name of a function that makes a plain number or array of a tensor, and the code to write in its place."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in ("item", "numpy", "tolist"):
        return f"{function.attr}()", f"Keep the tensor without {function.attr}(), and call that only to look at it."
    if isinstance(function, ast.Name) and function.id in ("float", "int"):
        return f"{function.id}()", f"Keep the tensor without {function.id}(), and call that only to look at it."
    of, name = _value(frame, function.value if isinstance(function, ast.Attribute) else None), None
    if isinstance(function, ast.Attribute) and isinstance(of, ModuleType):
        name = function.attr
        if of.__name__ not in ("math", "numpy", "cmath"):
            return None
    elif isinstance(function, ast.Name):
        known = _value(frame, function)
        if getattr(known, "__module__", None) not in ("math", "numpy", "cmath"):
            return None
        name = function.id
    if name is None:
        return None
    library = _library(frame)
    there = hasattr(torch, name)
    written = f"{library}.{name}" if there else f"a function of {library}"
    return f"{ast.unparse(function)}()", f"Write {written}, which takes tensors and has a gradient."


# None where a tensor was expected, or a method that was not called.


def _of_operands(frame: FrameType, node: ast.AST | None) -> str | None:
    for part in _operands(node):
        value = _value(frame, part)
        called = ast.unparse(part)
        if value is None and _asks_grad(part):
            return _no_gradient(frame, part, called)
        if _is_method(value):
            return _uncalled(called, value, frame, part)
        if value is None and isinstance(part, ast.Name) and part.id in {**frame.f_globals, **frame.f_locals}:
            return _no_value(called)
    return None


def _operands(node: ast.AST | None) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
    elif isinstance(node, ast.AugAssign):
        yield from (node.target, node.value)
    elif isinstance(node, ast.Subscript):
        yield node.value
    elif isinstance(node, ast.Call):
        yield from node.args
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        yield node.value


def _asks_grad(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "grad"


def _no_gradient(frame: FrameType, node: ast.AST | None, called: str) -> str | None:
    """Why ``x.grad`` is None."""
    assert isinstance(node, ast.Attribute)
    whose, tensor = ast.unparse(node.value), _value(frame, node.value)
    if not isinstance(tensor, TENSORS):
        return None
    library = "nbgrad" if isinstance(tensor, Tensor) else "torch"
    if not tensor.requires_grad:
        return (
            f"{called} is None because {whose} needs no gradient: make it with requires_grad=True, as in "
            f"{whose} = {library}.tensor(..., requires_grad=True), before it is used."
        )
    if tensor.is_leaf:
        return (
            f"{called} is None because no backward has reached {whose} since it was made or its gradient was dropped: "
            f"compute the loss from {whose} and call loss.backward() before this line."
        )
    replaced = replacement(frame, whose) if isinstance(node.value, ast.Name) else None
    if replaced is not None:
        return replaced_text(frame.f_code.co_filename, replaced, whose, library)
    return (
        f"{called} is None because an op made {whose}, and only tensors that no op made keep their gradients: call "
        f"{whose}.retain_grad() before the backward, or read the .grad of the leaves from which {whose} was computed."
    )


# A method that was not called, and a call of an object that is no function.


def _is_method(value: Any) -> bool:
    return inspect.isroutine(value) or type(value).__name__ == "cython_function_or_method"


def _uncalled(called: str, method: Any, frame: FrameType, node: ast.AST | None) -> str:
    name, written = getattr(method, "__name__", called), called
    if isinstance(node, ast.Name):
        made = [one.value for one in assignments(frame.f_code.co_filename, node.id) if one.value is not None]
        written = f"{called} = {ast.unparse(made[-1])}" if made and isinstance(made[-1], ast.Attribute) else called
    return f"{called} is the function {name} itself, and not its result. Call it with parentheses: {written}()."


def _of_call(frame: FrameType, node: ast.AST | None) -> str | None:
    if not isinstance(node, ast.Call):
        return None
    value, called = _value(frame, node.func), ast.unparse(node.func)
    if isinstance(value, TENSORS):
        import builtins

        if isinstance(node.func, ast.Name) and hasattr(builtins, called):
            return f"{called} is a tensor here, which hides Python's {called}(): give the variable another name."
        return f"{called} is a tensor, and no function: a product is written {called} * ..., an element {called}[...]."
    if isinstance(value, ModuleType):
        inside = [name for name in vars(value) if name.lower() == value.__name__.rpartition(".")[2].lower()]
        return f"{called} is a module{f': write {called}.{inside[0]}(...)' if inside else ''}."
    return None


# An unknown argument.


def _of_keyword(unknown: str, frame: FrameType, node: ast.AST | None) -> str | None:
    function = _value(frame, node.func) if isinstance(node, ast.Call) else None
    known: set[str] = set()
    if function is not None:
        with suppress(TypeError, ValueError):
            known |= set(inspect.signature(function).parameters)
    known -= {"args", "kwargs", "self"}
    hint = nearest(unknown, known)
    if hint:
        return f"There is no argument {unknown}{hint}"
    return f"It has no argument {unknown}, only {', '.join(sorted(known))}." if known else None


# Names.


def _value(frame: FrameType, node: ast.AST | None) -> Any:
    """The value of a name or of its attribute; ``_UNKNOWN`` for anything else, because reading it might run code."""
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(__import__("builtins"))):
            if node.id in names:
                return names[node.id]
        return _UNKNOWN
    if isinstance(node, ast.Attribute):
        of = _value(frame, node.value)
        if of is _UNKNOWN:
            return _UNKNOWN
        if node.attr == "grad" and isinstance(of, TENSORS):
            return of._grad if isinstance(of, Tensor) else None if not of.is_leaf else of.grad
        if (
            isinstance(of, ModuleType | Tensor | torch.Tensor)
            or hasattr(of, "named_parameters")
            or _plain(of, node.attr)
        ):
            return getattr(of, node.attr, _UNKNOWN)
    return _UNKNOWN


def _plain(of: Any, name: str) -> bool:
    """Whether an attribute can be read without running code of the user's."""
    return name in getattr(of, "__dict__", {})


class _Unknown:
    """Stands for a value that is not known."""


_UNKNOWN = _Unknown()


def _library(frame: FrameType, tensors: "list[Any] | tuple[Any, ...]" = ()) -> str:
    """The library whose functions the code should use: that of its ``tensors``, or else of all that it can see.

    It is torch's if the code has tensors of torch's and none of ours. Without any tensor, the imported modules decide.
    """
    seen = [*frame.f_globals.values(), *frame.f_locals.values()]
    for values in (list(tensors), seen):
        if any(isinstance(one, Tensor) for one in values):
            return "nbgrad"
        if any(isinstance(one, torch.Tensor) for one in values):
            return "torch"
    modules = {one.__name__.partition(".")[0] for one in seen if isinstance(one, ModuleType)}
    return "torch" if "torch" in modules and "nbgrad" not in modules else "nbgrad"
