"""The graph of a cell of a notebook in which only another engine ran."""

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from nbgrad.core.engine.user_names import loops_in, parts_of
from nbgrad.drawing.caller import names_of
from nbgrad.drawing.graph import DrawnGraph
from nbgrad.drawing.part import GraphCycleError, Part, UnreadableError
from nbgrad.drawing.reading import is_known, read


def drawn_cell(code: str, namespace: Mapping[str, Any], name: str) -> DrawnGraph | None:
    """The graph of the last result that the variables of a cell hold; None if they hold none that a reader knows.

    A result is an object that an op made, and of which no other one was computed. One that a backward has reached comes
    before one that none has.

    Args:
        code: the code of the cell, as Python runs it.
        namespace: the variables of the notebook.
        name: the title of the picture.

    Raises:
        UnreadableError, GraphCycleError: the variables hold objects of an engine, but none can be read.
    """
    found: dict[int, list[Part]] = {}
    errors: list[Exception] = []
    for thing in _known(code, namespace):
        try:
            found[id(thing)] = read(thing)
        except (UnreadableError, GraphCycleError) as error:
            errors.append(error)
    used = {id(parent) for parts in found.values() for part in parts for parent in part.parents}
    results = [parts for key, parts in found.items() if key not in used and parts[-1].op is not None]
    if not results:
        if errors:
            raise errors[-1]
        return None
    parts = max(enumerate(results), key=lambda one: (_has_gradient(one[1][-1]), one[0]))[1]
    return DrawnGraph.of(parts, [parts[-1].source], names_of(parts, namespace, loops_in(namespace)), name)


def _has_gradient(part: Part) -> bool:
    return part.gradient is not None and not (isinstance(part.gradient, int | float) and part.gradient == 0)


def _known(code: str, namespace: Mapping[str, Any]) -> list[Any]:
    """The objects of engines that the variables in the code hold, or their parts do; that of the last line last."""
    return [one for name in _variables(code) if name in namespace for one in _inside(name, namespace[name])]


def _inside(name: str, value: Any) -> Iterator[Any]:
    if is_known(value):
        yield value
        return
    for _, one in parts_of(name, value) if not isinstance(value, type) and value is not None else ():
        if is_known(one):
            yield one


def _variables(code: str) -> list[str]:
    """The variables in the code, in the order in which they are last written or read."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # of a newer Python than the one that runs nbgrad: no code that ran
        return []
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    names.sort(key=lambda node: (node.lineno, isinstance(node.ctx, ast.Store), node.col_offset))
    return list(dict.fromkeys(reversed([node.id for node in names])))[::-1]
