"""``CustomOverlay``: numbers of the user's by which a picture of a graph colours its boxes."""

from collections.abc import Mapping
from math import isnan, prod
from typing import Any, NamedTuple

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import outwards
from nbgrad.core.engine.torch_origins import TENSORS, known_id
from nbgrad.core.graph.names import path_in
from nbgrad.core.graph.record import Record
from nbgrad.core.suggestions import kind_of, nearest


class CustomOverlay(NamedTuple):
    """Numbers of some of the records of a graph.

    Attributes:
        name: their name in the picture.
        numbers: by the ids of records.
        log: whether their scale is logarithmic.
    """

    name: str
    numbers: dict[int, float]
    log: bool

    @classmethod
    def of(cls, graph: str, records: list[Record], name: Any, values: Any, log: bool) -> "CustomOverlay":
        """Find the records that the keys of ``values`` stand for, as ``AutogradGraph.overlay`` says.

        Raises:
            TypeError: the name is no text, ``values`` is no dict, or a key or a number is of another type.
            KeyError: a key stands for nothing in the graph.
            ValueError: there are no numbers; one has several elements, or is below zero on a logarithmic scale.
        """
        if not isinstance(name, str) or not name.strip():
            raise TypeError(f"overlay() takes a name first, such as 'fisher', and got {kind_of(name)}: {name!r}")
        if not isinstance(values, Mapping):
            raise TypeError(f"overlay({name!r}, ...) takes a dict of numbers, as {{w: 0.5}}, not {kind_of(values)}")
        if not values:
            raise ValueError(
                f"overlay({name!r}, ...) got no numbers; to remove an overlay, pass None instead of the dict"
            )
        numbers: dict[int, float] = {}
        found = [(_subjects(graph, records, key), _number(name, key, value, log)) for key, value in values.items()]
        # The number of a module holds for every record inside it that no nearer key names.
        for (_, ids), number in sorted(found, key=lambda one: one[0][0]):
            numbers.update(dict.fromkeys(ids, number))
        return cls(name, numbers, bool(log))


def _number(name: str, key: Any, value: Any, log: bool) -> float:
    """The number of ``key``."""
    whose = f"overlay({name!r}, ...): the number of {_called(key)}"
    shape = tuple(getattr(value, "shape", ()))
    if prod(shape) != 1:
        raise ValueError(f"{whose} has shape {shape}; give one number, such as the mean of them")
    try:
        if isinstance(value, str | bytes):
            raise TypeError
        number = float(value.item() if hasattr(value, "shape") else value)
    except TypeError:
        raise TypeError(f"{whose} is of type {kind_of(value)}; give a real number") from None
    if log and not (number >= 0 or isnan(number)):
        raise ValueError(f"{whose} is {number:g}; with log=True no number may be below zero")
    return number


def _called(key: Any) -> str:
    """A key as a message names it."""
    if isinstance(key, TENSORS):
        return f"a tensor of shape {tuple(key.shape)}"
    return repr(key) if isinstance(key, str | int | Record) else f"a {type(key).__name__}"


_NEAR = 1 << 30
"""The rank of a key that names a record itself: it is nearer than any module around it."""


def _subjects(graph: str, records: list[Record], key: Any) -> tuple[int, list[int]]:
    """The rank of ``key`` (the depth of a module, or ``_NEAR``), and the ids of the records that it stands for."""
    if isinstance(key, (*TENSORS, Record, int)) and not isinstance(key, bool):
        wanted = known_id(key) if isinstance(key, TENSORS) else key.id if isinstance(key, Record) else key
        if any(record.id == wanted for record in records):
            return _NEAR, [wanted]  # type: ignore[list-item]  # it is among the ids
        raise KeyError(f"{graph!r} has no record of {_called(key)}: no op in it took or made that")
    if isinstance(key, str):
        return _named(graph, records, key)
    depth, ids = _inside(records, lambda scope, _: isinstance(scope, ModuleScope) and scope.module() is key)
    if ids:
        return depth, ids
    if hasattr(key, "named_parameters"):
        raise KeyError(f"{graph!r} shows no call of this {type(key).__name__}")
    raise TypeError(
        f"overlay() takes numbers by tensors, modules, names, records or ids of records, not by {kind_of(key)}"
    )


def _named(graph: str, records: list[Record], name: str) -> tuple[int, list[int]]:
    """The records of a name: the tensors that have it, or else all records in the modules and scopes that have it."""
    tensors = [record.id for record in records if name in names_of(record)]
    if tensors:
        return _NEAR, tensors
    depth, ids = _inside(records, lambda scope, path: name in (path, scope.label))
    if ids:
        return depth, ids
    known = {one for record in records for one in names_of(record)}
    known |= {one for record in records for scope in outwards(record.scope) for one in (path_of(scope), scope.label)}
    raise KeyError(f"{graph!r} shows nothing called {name!r}{nearest(name, filter(None, known))}")


def names_of(record: Record) -> tuple[str, ...]:
    """The names of a record: its own, and that after the path of its module, "layers.0.weight"."""
    if not record.name:
        return ()
    path = path_of(record.scope)
    return (record.name, f"{path}.{record.name}") if path else (record.name,)


def path_of(scope: Any) -> str:
    """The path of the module in whose call something is, "layers.0", below the outermost one; else an empty text."""
    return ".".join([path for one in reversed([*outwards(scope)]) if (path := path_in(one))])


def _inside(records: list[Record], wanted: Any) -> tuple[int, list[int]]:
    """The depth of the deepest scope that is ``wanted``, and the ids of all records in such scopes."""
    depths: dict[Any, int] = {None: 0}
    ids, deepest = [], 0
    for record in records:
        if record.scope not in depths:
            chain = list(outwards(record.scope))
            found = (len(chain) - at for at, scope in enumerate(chain) if wanted(scope, path_of(scope)))
            depths[record.scope] = next(found, 0)
        if depth := depths[record.scope]:
            ids.append(record.id)
            deepest = max(deepest, depth)
    return deepest, ids
