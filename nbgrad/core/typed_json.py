"""Data of known types as JSON, and back: a type hint says what is written, and what may be read.

A dataclass and a ``TypedDict`` become an object, a ``NamedTuple`` and a tuple a list, and a dict with other keys than
texts a list of pairs. A number that JSON does not have, such as NaN, becomes a text. What is read is of the right
types, or it is refused: nothing in the data names a type or a function.
"""

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from operator import index
from typing import Annotated, Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints, is_typeddict

Change = Callable[[Any], Any]
"""A function from a value to JSON, or from JSON to a value."""


class Unread:
    """The hint for data that are taken over as they are, to be read later."""


class MismatchError(ValueError):
    """Data are not of the type that was expected.

    Attributes:
        where: the place in the data, as ``nodes[3].label``; empty for all of it.
        expected: the type, in words.
    """

    def __init__(self, expected: str, where: str = "") -> None:
        self.where = where
        self.expected = expected
        super().__init__(f"{where or 'the data'} should be {expected}")

    def inside(self, step: int | str) -> "MismatchError":
        """The same error, seen from around: ``step`` is the position or the field in which it is."""
        own = f"[{step}]" if isinstance(step, int) else f".{step}"
        return MismatchError(self.expected, f"{own}{self.where}")


class JsonForm:
    """The form of values as JSON.

    Args:
        special: for a type with a form of its own, a function that writes its values and one that reads them. Types
            that are not listed in the description of this module need one, ``Any`` too.
    """

    def __init__(self, special: Mapping[Any, tuple[Change, Change]] | None = None) -> None:
        self._special = dict(special or {})
        self._writers: dict[Any, Change] = {}
        self._readers: dict[Any, Change] = {}

    def written(self, value: Any, hint: Any) -> Any:
        """``value``, which is of the type ``hint``, as JSON.

        Raises:
            MismatchError: it is not of that type.
        """
        try:
            return self._writer(hint)(value)
        except MismatchError as error:
            raise _rooted(error) from None

    def read(self, data: Any, hint: Any) -> Any:
        """The value of the type ``hint`` that ``data`` of JSON stand for.

        Raises:
            MismatchError: they stand for none.
        """
        try:
            return self._reader(hint)(data)
        except MismatchError as error:
            raise _rooted(error) from None

    def row_writer(self, record: type) -> Change:
        """The function that writes the fields of a ``record``, also if this type has another form elsewhere."""
        return self._record(record, self._writer, reads=False)

    def row_reader(self, record: type) -> Change:
        """The function that reads what ``row_writer`` wrote."""
        return self._record(record, self._reader, reads=True)

    def _writer(self, hint: Any) -> Change:
        return self._made(hint, self._writers, 0, _WRITERS)

    def _reader(self, hint: Any) -> Change:
        return self._made(hint, self._readers, 1, _READERS)

    def _made(self, hint: Any, known: dict[Any, Change], at: int, plain: dict[Any, Change]) -> Change:
        """The function for ``hint``; a type may contain itself, so it is looked up once more when it is called."""
        if hint in self._special:
            change: Change = self._special[hint][at]
            return change
        if hint in plain:
            return plain[hint]
        if hint not in known:
            known[hint] = lambda value: known[hint](value)  # noqa: PLW0108  # which is replaced by then
            known[hint] = self._make(hint, (self._writer, self._reader)[at], reads=bool(at))
        return known[hint]

    def _make(self, hint: Any, of: Callable[[Any], Change], *, reads: bool) -> Change:
        origin, args = get_origin(hint), get_args(hint)
        made: Any = origin if reads else list
        if origin is Annotated:
            change = of(args[0])
        elif origin is Literal:
            change = _literal(args)
        elif origin in (Union, types.UnionType):
            change = _union(args, of)
        elif origin in (list, frozenset) or args[1:] == (...,):
            change = _items(of(args[0]), made, (list,) if reads else (list, tuple, frozenset))
        elif origin is tuple:
            change = _fixed(tuple(map(of, args)), made, (list,) if reads else (list, tuple))
        elif origin is dict:
            change = _texts(of(args[1])) if args[0] is str else _pairs(of(tuple.__class_getitem__(args)), reads=reads)
        else:
            change = self._record(hint, of, reads=reads)
        return change

    def _record(self, hint: Any, of: Callable[[Any], Change], *, reads: bool) -> Change:
        hints = _hints(hint)
        if is_typeddict(hint):
            own = {name: of(one) for name, one in hints.items()}
            return _object(own, hint.__required_keys__, dict)
        if is_dataclass(hint):
            own = {one.name: of(hints[one.name]) for one in fields(hint) if one.init}
            if reads:
                return _object(own, frozenset(own), partial(_built, hint))
            return lambda value: {name: write(getattr(value, name)) for name, write in own.items()}
        parts = tuple([of(hints[name]) for name in hint._fields])
        if reads:  # an older file may lack the last fields
            least = len(parts) - len(hint._field_defaults)
            return _fixed(
                parts, lambda found: _built(hint, dict(zip(hint._fields, found, strict=False))), (list,), least
            )
        return _fixed(parts, list, (tuple,))


_hints = cache(get_type_hints)


def _fail(expected: str) -> NoReturn:
    raise MismatchError(expected)


def _rooted(error: MismatchError) -> MismatchError:
    return MismatchError(error.expected, error.where.removeprefix("."))


def _built(kind: Any, found: Mapping[str, Any]) -> Any:
    """An object of a class that may refuse its fields."""
    try:
        return kind(**found)
    except ValueError as error:
        raise MismatchError(f"a {getattr(kind, '__name__', 'value')}, but {error}") from None


def _items(change: Change, made: Callable[[list[Any]], Any], kinds: Any) -> Change:
    texts = change is _READERS[str]

    def items(value: Any) -> Any:
        if not isinstance(value, kinds):
            return _fail("a list")
        if texts and {*map(type, value)} == {str}:  # many lists are of texts alone
            return made(value)
        found: list[Any] = []
        try:
            for one in sorted(value) if type(value) is frozenset else value:
                found.append(change(one))  # noqa: PERF401  # if one fails, those before it say where
        except MismatchError as error:
            raise error.inside(len(found)) from None
        return found if made is list else made(found)

    return items


def _pairs(change: Change, *, reads: bool) -> Change:
    """A dict with other keys than texts."""
    pairs = _items(change, list, (list,))
    return (lambda data: dict(pairs(data))) if reads else (lambda value: pairs(list(value.items())))


def _literal(args: tuple[Any, ...]) -> Change:
    expected = " or ".join(map(repr, args))
    return lambda value: value if type(value) is str and value in args else _fail(expected)


def _fixed(
    changes: tuple[Change, ...], made: Callable[[list[Any]], Any], kinds: Any, least: int | None = None
) -> Change:
    least = len(changes) if least is None else least

    def fixed(value: Any) -> Any:
        if not isinstance(value, kinds) or not least <= len(value) <= len(changes):
            return _fail(f"a list of {len(changes)}")
        found: list[Any] = []
        try:
            for change, one in zip(changes, value, strict=False):
                found.append(change(one))
        except MismatchError as error:
            raise error.inside(len(found)) from None
        return found if made is list else made(found)

    return fixed


def _texts(change: Change) -> Change:
    def texts(value: Any) -> Any:
        if type(value) is not dict:
            _fail("an object")
        found: dict[str, Any] = {}
        for key, one in value.items():
            if not isinstance(key, str):
                _fail("an object whose keys are texts")
            try:
                found[key] = change(one)
            except MismatchError as error:
                raise error.inside(key) from None
        return found

    return texts


def _object(own: dict[str, Change], required: frozenset[str], made: Callable[[dict[str, Any]], Any]) -> Change:
    def object_(value: Any) -> Any:
        if type(value) is not dict or not required <= value.keys() <= own.keys():
            _fail(f"an object with {', '.join(sorted(required))}")
        found: dict[str, Any] = {}
        for name, one in value.items():
            try:
                found[name] = own[name](one)
            except MismatchError as error:
                raise error.inside(name) from None
        return found if made is dict else made(found)

    return object_


def _union(args: tuple[Any, ...], of: Callable[[Any], Change]) -> Change:
    optional, rest = type(None) in args, [of(one) for one in args if one is not type(None)]
    (first, *others) = rest

    def union(value: Any) -> Any:
        if value is None and optional:
            return None
        for change in others:
            try:
                return change(value)
            except MismatchError:
                continue
        return first(value)

    return union


_LARGE = 1 << 63
"""Integers from this on do not fit into 64 bits."""

_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _write_float(value: Any) -> float | str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _fail("a number")
    found = float(value)
    return found if math.isfinite(found) else str(found)


def _read_float(data: Any) -> float:
    if type(data) is float:
        return data
    if type(data) is int and abs(data) < _LARGE:
        return float(data)
    return _NOT_FINITE[data] if type(data) is str and data in _NOT_FINITE else _fail("a number")


def _write_int(value: Any) -> int:
    return _fail("an integer") if isinstance(value, bool) or not hasattr(value, "__index__") else index(value)


_WRITERS: dict[Any, Change] = {
    Unread: lambda value: value,
    type(None): lambda value: None if value is None else _fail("null"),
    bool: lambda value: value if isinstance(value, bool) else _fail("true or false"),
    int: _write_int,
    float: _write_float,
    str: lambda value: str.__str__(value) if isinstance(value, str) else _fail("a text"),
}

_READERS: dict[Any, Change] = {
    Unread: lambda data: data,
    type(None): lambda data: None if data is None else _fail("null"),
    bool: lambda data: data if type(data) is bool else _fail("true or false"),
    int: lambda data: data if type(data) is int and -_LARGE <= data < _LARGE else _fail("an integer"),
    float: _read_float,
    str: lambda data: data if type(data) is str else _fail("a text"),
}
