"""The call in the user's code that cut a loss from what it was computed from, as the source shows it.

It is asked where nothing was recorded: a new tensor of the numbers of another one has no history at all.
"""

import ast
from typing import NamedTuple

from nbgrad.core.engine.call_site import variable
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.source_text import Assignment, assignments, sources, statement_at, target_of
from nbgrad.core.engine.torch_origins import TENSORS

_METHODS = ("detach", "detach_", "item", "numpy", "tolist")
_MAKERS = ("tensor", "Tensor", "FloatTensor", "as_tensor", "asarray", "array", "from_numpy", "Variable", "float", "int")
_CHOICES = ("argmax", "argmin", "argsort", "round", "floor", "ceil", "sign")

_DEPTH = 8
"""How many assignments lead back from a backward at most."""


class SourceCut(NamedTuple):
    """The call that cut a path.

    Attributes:
        what: the call, in words.
        place: its line.
        code: the statement without it; None if there is nothing simple to write instead.
    """

    what: str
    place: Place
    code: str | None


def cut_before(place: Place, *, doubtful: bool) -> SourceCut | None:
    """The cut on the way to the tensor on which the line of ``place`` calls ``backward()``; None if none is seen.

    Args:
        place: the line.
        doubtful: whether a call counts that may only have made an input, such as ``torch.tensor(data)``.
    """
    statement = statement_at(place.file, place.line)
    receiver = None if statement is None else _receiver(statement)
    if statement is None or receiver is None:
        return None
    for sure in (True, False) if doubtful else (True,):
        if (found := _search(place.file, statement, receiver, place.line, 0, sure=sure)) is not None:
            return found
    return None


def _receiver(statement: ast.stmt) -> ast.expr | None:
    """The expression on which a statement calls ``backward()``, or the first argument of ``autograd.grad``."""
    for part in ast.walk(statement):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            if part.func.attr == "backward":
                return part.args[0] if ast.unparse(part.func.value).endswith("autograd") else part.func.value
            if part.func.attr == "grad" and part.args:
                return part.args[0]
    return None


def _search(file: str, statement: ast.stmt, value: ast.expr, line: int, depth: int, *, sure: bool) -> SourceCut | None:
    """The first cut in ``value``, or in the statements that made its variables; ``sure``: what is doubtful is none."""
    for part in ast.walk(value):
        if (what := _cut(part, sure=sure)) is not None:
            at = part.lineno  # type: ignore[attr-defined]
            return SourceCut(what, Place.at(file, at), without_cuts(file, at))
    if depth == _DEPTH:
        return None
    for name in dict.fromkeys(part.id for part in ast.walk(value) if isinstance(part, ast.Name)):
        where, made = _assigned(file, name, statement, line)
        if made is None or made.value is None:
            continue
        if (found := _search(where, made, made.value, made.lineno, depth + 1, sure=sure)) is not None:
            return found
    return None


def _assigned(file: str, name: str, user: ast.stmt, line: int) -> tuple[str, Assignment | None]:
    """The last statement before that ``line`` that gave the variable ``name`` a value, and its file."""
    for where in sources(file):
        own = where == file
        for one in reversed([*assignments(where, name)]):
            whole = not any(isinstance(part, ast.Subscript) for part in ast.walk(target_of(one)))
            if whole and (not own or (one.lineno <= line and one.lineno != user.lineno)):
                return where, one
    return file, None


def _cut(part: ast.AST, *, sure: bool) -> str | None:
    """The call or attribute that cuts a path at ``part`` of an expression, in words.

    A function that makes a tensor of a variable may also have made the inputs, so it is doubtful.
    """
    if isinstance(part, ast.Attribute) and part.attr == "data":
        held = variable(part.value.id) if isinstance(part.value, ast.Name) else None
        return ".data" if held is None or isinstance(held, TENSORS) else None  # a data set may have one, too
    if not isinstance(part, ast.Call):
        return None
    name = part.func.attr if isinstance(part.func, ast.Attribute) else getattr(part.func, "id", "")
    if isinstance(part.func, ast.Attribute) and name in (*_METHODS, *_CHOICES):
        return f"{name}()"
    if name in _MAKERS and part.args and _reads_a_tensor(part.args[0]):
        inside = any(_cut(one, sure=True) is not None for one in ast.walk(part.args[0]))
        return f"{ast.unparse(part.func)}()" if inside or not sure else None
    return None


def _reads_a_tensor(value: ast.expr) -> bool:
    """Whether the argument of a function that makes tensors is computed, and no literal list of numbers."""
    return isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.BinOp)


class _Uncut(ast.NodeTransformer):
    """Takes the calls that cut a path out of an expression. A list of tensors becomes a tensor by ``stack``.

    Args:
        lists: the variables that hold lists.
    """

    def __init__(self, lists: set[str]) -> None:
        self._lists = lists

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if isinstance(node.func, ast.Attribute) and name in _METHODS:
            return node.func.value
        if name not in _MAKERS or not node.args or not _reads_a_tensor(node.args[0]):
            return node
        if isinstance(node.args[0], ast.Name) and node.args[0].id in self._lists:
            library = node.func.value if isinstance(node.func, ast.Attribute) else ast.Name("torch")
            return ast.Call(ast.Attribute(library, "stack"), node.args[:1], [])
        return node.args[0]

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        return node.value if node.attr == "data" else node


def without_cuts(file: str, line: int) -> str | None:
    """The statement in that line without the calls that cut a path; None if that changes nothing."""
    statement = statement_at(file, line)
    if statement is None:
        return None
    names = {part.id for part in ast.walk(statement) if isinstance(part, ast.Name)}
    lists = {name for name in names if isinstance(variable(name), list)}
    before, after = ast.unparse(statement), ast.unparse(_Uncut(lists).visit(statement))
    return None if before == after or _idle(after) else after


def _idle(code: str) -> bool:
    """Whether a statement only gives a variable its own value: then it can be left out."""
    left, _, right = code.partition(" = ")
    return left == right
