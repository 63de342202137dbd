"""The source of the user's code as syntax trees, for messages: the expression that raised, the origin of a variable."""

import ast
import linecache
import re
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType
from typing import NamedTuple

from nbgrad.core.engine.place import Place, in_cell, line_of

Assignment = ast.Assign | ast.AnnAssign | ast.AugAssign
"""A statement that gives a variable a value."""


def expression_at(code: CodeType, offset: int) -> ast.expr | ast.stmt | None:
    """The expression, or the statement, that the instruction at ``offset`` of ``code`` computes; None if unknown."""
    first, last, start, end = next(islice(code.co_positions(), offset // 2, None), (None,) * 4)
    if first is None or last is None or start is None or end is None:
        return None
    lines = [linecache.getline(code.co_filename, line).encode() for line in range(first, last + 1)]
    lines[-1] = lines[-1][:end]
    text = b"".join(lines)[start:].decode(errors="replace")
    for form in ("({})", "{}"):  # an expression may go over several lines without parentheses of its own
        try:
            (statement,) = ast.parse(form.format(text)).body
        except (SyntaxError, ValueError):
            continue
        return statement.value if isinstance(statement, ast.Expr) else statement
    return None


def program(file: str) -> ast.Module | None:
    """The whole source of ``file``, or of the cell that goes by this name; None if it is not known."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


def target_of(statement: Assignment) -> ast.expr:
    """The first target of a statement."""
    return statement.targets[0] if isinstance(statement, ast.Assign) else statement.target


def sources(file: str) -> list[str]:
    """The files where a variable of ``file`` may have got its value: the file, and for a cell the cells before it."""
    cells = [one for one in reversed(list(linecache.cache)) if in_cell(one)] if in_cell(file) else []
    return list(dict.fromkeys([file, *cells]))


def assignments(file: str, name: str) -> Iterator[Assignment]:
    """The statements of ``file`` that give the variable ``name`` a value, in the order of their lines."""
    tree = program(file)
    found = [] if tree is None else [node for node in ast.walk(tree) if isinstance(node, Assignment)]
    for node in sorted(found, key=lambda one: one.lineno):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(part, ast.Name) and part.id == name for target in targets for part in ast.walk(target)):
            yield node


def replacement(frame: FrameType, name: str) -> ast.Assign | None:
    """The statement that replaces the tensor ``name`` by one computed from it, as ``w = w - 0.1 * w.grad`` does."""
    code = frame.f_code
    last = max(line for *_, line in code.co_lines() if line is not None)
    for node in assignments(code.co_filename, name):
        if not code.co_firstlineno <= node.lineno <= last:
            continue  # a variable of another function
        if isinstance(node, ast.Assign) and _updates(node, name):
            return node
    return None


def _updates(node: ast.Assign, name: str) -> bool:
    """Whether a statement computes the new value of the variable ``name`` from its old one and a gradient."""
    parts = list(ast.walk(node.value))
    read = any(isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Load) for part in parts)
    return read and any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in parts)


def change_in_place(file: str, line: int) -> str | None:
    """The right code for an update of a parameter, if ``line`` makes a new tensor instead; otherwise None."""
    tree = program(file)
    for node in [] if tree is None else ast.walk(tree):
        if isinstance(node, ast.Assign) and node.lineno == line and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if _updates(node, name):
                return _step(node.value, name)
    return None


def _step(value: ast.expr, name: str) -> str:
    """The update of ``name`` to ``value`` in place, as it is written."""
    if (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Add | ast.Sub)
        and isinstance(value.left, ast.Name)
        and value.left.id == name
    ):
        return f"{name} {'-=' if isinstance(value.op, ast.Sub) else '+='} {ast.unparse(value.right)}"
    return f"{name} -= ..."


def statement_at(file: str, line: int) -> ast.stmt | None:
    """The innermost statement of ``file`` in that line, but no loop, function or block around it."""
    tree = program(file)
    found: ast.stmt | None = None
    for node in [] if tree is None else ast.walk(tree):
        if isinstance(node, ast.stmt) and not hasattr(node, "body") and node.lineno <= line <= (node.end_lineno or 0):
            found = node
    return found


def assigned_and_read(file: str, line: int) -> list[str]:
    """The variables that the statement in that line both reads and sets, as ``h`` in ``h = rnn(x, h)``."""
    statement = statement_at(file, line)
    names = [part for part in ast.walk(statement) if isinstance(part, ast.Name)] if statement is not None else []
    read = {part.id for part in names if isinstance(part.ctx, ast.Load)}
    return [part.id for part in names if isinstance(part.ctx, ast.Store) and part.id in read]


def call_with(near: Place, name: str, line: int) -> tuple[Place, str] | None:
    """The last call up to that ``line`` that is given the variable ``name``, in the code of ``near``.

    Returns:
        The line of the call, and the call with ``name.detach()`` in its place; None if there is no such call.
    """
    best: ast.Call | None = None
    file = near.file
    for file in sources(near.file):
        tree = program(file)
        for node in [] if tree is None else ast.walk(tree):
            if not isinstance(node, ast.Call) or (file == near.file and node.lineno > line):
                continue
            if any(ast.unparse(one) == name for one in node.args) and (best is None or node.lineno >= best.lineno):
                best = node
        if best is not None:
            break
    if best is None:
        return None
    for at, one in enumerate(best.args):
        if ast.unparse(one) == name:
            best.args[at] = ast.parse(f"{name}.detach()", mode="eval").body
    return Place.at(file, best.lineno), ast.unparse(best)


def out_of_place(file: str, line: int) -> str | None:
    """The code that makes a new tensor, if the statement in that line changes one in place; otherwise None."""
    statement = statement_at(file, line)
    if isinstance(statement, ast.AugAssign):
        return _new_value(statement)
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript):
        return _cloned(statement.targets[0])
    for part in ast.walk(statement) if statement is not None else ():
        if (
            isinstance(part, ast.Call)
            and statement is not None
            and (written := _new_result(part, statement)) is not None
        ):
            return written
    return None


def _new_result(call: ast.Call, statement: ast.stmt) -> str | None:
    """The code that makes a new tensor, if the ``call`` in the ``statement`` changes one in place; otherwise None."""
    kept = [one for one in call.keywords if one.arg != "inplace"]
    assigned = isinstance(statement, ast.Assign | ast.Return)
    if len(kept) < len(call.keywords):
        call.keywords = kept
        return ast.unparse(statement) if assigned else f"... = {ast.unparse(call)}"
    function = call.func
    if not isinstance(function, ast.Attribute) or not function.attr.endswith("_") or function.attr.startswith("_"):
        return None
    whose = function.value
    if isinstance(whose, ast.Subscript):
        return _cloned(whose)
    function.attr = function.attr[:-1]
    if isinstance(statement, ast.Expr) and isinstance(whose, ast.Name | ast.Attribute):
        return f"{ast.unparse(whose)} = {ast.unparse(call)}"
    return ast.unparse(statement) if assigned else ast.unparse(call)


def _new_value(statement: ast.AugAssign) -> str:
    if isinstance(statement.target, ast.Subscript):
        return _cloned(statement.target)
    target = ast.unparse(statement.target)
    value = ast.BinOp(ast.Name(target), statement.op, statement.value)
    return f"{target} = {ast.unparse(ast.fix_missing_locations(value))}"


def _cloned(part: ast.Subscript) -> str:
    """The code for a tensor of which only a ``part`` is changed: it stands before the change."""
    whole: ast.expr = part
    while isinstance(whole, ast.Subscript):
        whole = whole.value
    return f"{ast.unparse(whole)} = {ast.unparse(whole)}.clone()"


_CALLED = ("backward", "step", "zero_grad", "retain_grad", "requires_grad_", "detach_")
"""Methods that are called for their effect: a statement that only names one has no effect."""

_NAMED = re.compile(rf"\.\s*(?:{'|'.join(_CALLED)})\s*(?:[#;)\\]|$)", re.MULTILINE)
"""Where such a name ends a statement, perhaps: only then the program is parsed."""


class Uncalled(NamedTuple):
    """A statement that names a method and does not call it."""

    line: int
    written: str
    method: str

    def __str__(self) -> str:
        return f"`{self.written}`, names the function and does not call it: write {self.written}()."


def uncalled(text: str) -> Iterator[Uncalled]:
    """The statements of a program that name such a method and do not call it."""
    try:
        tree = ast.parse(text if _NAMED.search(text) else "")
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Attribute) and node.value.attr in _CALLED:
            yield Uncalled(node.lineno, ast.unparse(node.value), node.value.attr)


def replaced_text(file: str, replaced: ast.Assign, name: str, library: str) -> str:
    """The message about a statement that makes a new tensor instead of changing a parameter, with the right code.

    Args:
        file: of the statement.
        replaced: the statement.
        name: the variable.
        library: "nbgrad" or "torch".
    """
    step = _step(replaced.value, name)
    return (
        f"{name} is the result of an op, which keeps no gradient, since {line_of(file, replaced.lineno)}, made a new "
        f"tensor of it. Change the values of {name} itself: with {library}.no_grad(): {step}, and then {name}.grad = "
        "None, so that the next backward does not add to this gradient."
    )
