"""Tensors that get a gradient along one path, while another path through numpy has none: a part of it is missing."""

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from linecache import getlines

from nbgrad.core.engine.place import Place
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.findings.located import located

_READS = ("numpy", "item", "tolist")
"""The methods that give the numbers of a tensor."""

_MAKERS = ("tensor", "from_numpy", "as_tensor", "Tensor")
"""The functions that make a tensor of numbers."""


def halved(records: list[Record]) -> Iterator[Finding]:
    """The constants that were computed from the numbers of a tensor that got a gradient on another path.

    The part that would come through the numbers is missing from this gradient. If no gradient came at all, the tensor
    is unreached, and that is a finding of its own.
    """
    learned = {record.name: record for record in records if record.name and record.gradient is not None}
    constants = {record.id: record for record in records if record.kind == "constant"}
    told: set[int] = set()
    for record in records:
        for id in record.sources if record.place is not None else ():
            constant = constants.get(id)
            if constant is None or id in told or record.place is None:
                continue
            file = record.place.file
            for line, method, whose in _sources(file, constant.name, record.place.line):
                if whose in learned and id not in told:
                    told.add(id)
                    yield _told(constant, learned[whose], method, place_text(Place.at(file, line)))


def _told(constant: Record, source: Record, method: str, place: str) -> Finding:
    name = source.full_name
    remedy = translate(
        "Compute with the tensor {name} itself: tensors have the functions of numpy, as {name}.exp()", name=name
    )
    return located(
        constant,
        "through numpy",
        translate(
            "{name} {shape} was made of the numbers of {name2}, by {method}() at {place}: the gradient "
            "of {name2} lacks the part that comes through this constant. {remedy}",
            name=constant.name or translate("a constant"),
            shape=constant.shape,
            name2=name,
            method=method,
            place=place,
            remedy=remedy,
        ),
        remedy,
    )


def _sources(file: str, name: str | None, line: int) -> Iterator[tuple[int, str, str]]:
    """Where numbers of tensors go into the constant ``name``, or into one without a name in the ``line`` that uses it.

    Yields:
        The line, the method that gave the numbers, and the name of the tensor.
    """
    text = "".join(getlines(file))
    if not any(f".{method}(" in text for method in _READS):
        return
    assigned = _in_sight(text, line)
    for statement, targets in assigned:
        here = name in targets if name else _inside(statement, line)
        if here and any(_makes_tensor(node) for node in ast.walk(statement)):
            yield from _reads(statement, assigned, depth=3)


def _in_sight(text: str, line: int) -> "list[tuple[ast.stmt, set[str]]]":
    """The simple statements of a program whose variables the ``line`` can read, each with those that it sets."""
    found = _statements(text)
    around = [function for _, _, function in found if function is not None and _inside(function, line)]
    innermost = max(around, key=lambda one: one.lineno, default=None)
    return [(node, names) for node, names, function in found if function is None or function is innermost]


def _inside(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or line)


Function = ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(8)
def _statements(text: str) -> "list[tuple[ast.stmt, set[str], Function | None]]":
    """The simple statements of a program, each with the variables that it sets, and the function that it stands in."""
    try:
        waiting: list[tuple[ast.AST, Function | None]] = [(ast.parse(text), None)]
    except (SyntaxError, ValueError):
        return []
    found: list[tuple[ast.stmt, set[str], Function | None]] = []
    while waiting:
        node, function = waiting.pop(0)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.Expr | ast.Return):
            names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
            found.append((node, set(names), function))
        inner = node if isinstance(node, Function) else function
        waiting += [(child, inner) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]
    return found


def _makes_tensor(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)
    return called in _MAKERS


def _reads(
    statement: ast.stmt, assigned: "Iterable[tuple[ast.stmt, set[str]]]", depth: int
) -> Iterator[tuple[int, str, str]]:
    """The calls in ``statement``, and in what made its variables, that give the numbers of a tensor with a name.

    A comparison is left out: it has no gradient in any case, and labels made from a prediction are intended.
    """
    nodes = list(ast.walk(statement))
    if any(isinstance(node, ast.Compare) for node in nodes):
        return
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _READS:
            root = node.func.value
            while isinstance(root, ast.Call | ast.Attribute):
                root = root.func if isinstance(root, ast.Call) else root.value
            if isinstance(root, ast.Name):
                yield node.lineno, node.func.attr, root.id
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    for other, targets in assigned if depth else ():
        if other is not statement and not used.isdisjoint(targets) and not any(map(_makes_tensor, ast.walk(other))):
            yield from _reads(other, assigned, depth - 1)
