"""Gradients that a reader is asked for: hidden in the picture until the answer is right."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from nbgrad.choices import ALL
from nbgrad.core.graph.record import Record
from nbgrad.core.suggestions import nearest
from nbgrad.core.tensor.comparison import difference
from nbgrad.core.translation import translate


class Answer(NamedTuple):
    """An answer of the reader. It is true if it is right.

    Attributes:
        name: of the tensor whose gradient it is.
        right: whether it is right.
        kind: how it is wrong, in a word: "shape", "sign", "factor", ...; empty where it is right.
        reason: the same in a sentence, without the right numbers.
    """

    name: str
    right: bool
    kind: str = ""
    reason: str = ""

    def __bool__(self) -> bool:
        return self.right

    def __repr__(self) -> str:
        if self.right:
            return translate("∇ {name} ✓ right", name=self.name)
        return translate("∇ {name} ✗ not yet: {reason}.", name=self.name, reason=self.reason)


def names_of(asked: "str | Iterable[str] | bool | None") -> tuple[str, ...]:
    """The names that ``asked`` stands for: "w, b" or "w b", a list of them, ``True`` or "all" for everything.

    Raises:
        ValueError: it is none of these.
    """
    if asked is None or asked is False:
        return ()
    if asked is True:
        return (ALL,)
    if isinstance(asked, str):
        asked = asked.replace(",", " ").split()
    names = tuple(asked) if isinstance(asked, list | tuple | set | frozenset) else (asked,)
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"ask={asked!r}: it has to be names, such as 'w, b', or True for all tensors that have a name")
    return names


class Questions:
    """The gradients that a graph asks for, and the answers that were given.

    Args:
        asked: the names, as ``names_of`` gives them.
    """

    def __init__(self, asked: tuple[str, ...] = ()) -> None:
        self._asked = asked
        self._given: dict[str, Answer] = {}

    def answers(self, records: list[Record]) -> dict[str, Answer | None]:
        """The last answer to each question, by name; None where none was given yet."""
        return {name: self._given.get(name) for name in self._open(records)}

    def answer(self, records: list[Record], name: str, value: Any) -> Answer:
        """Look at an answer and remember it.

        Raises:
            KeyError: no tensor of this name got a gradient, several did, or it is too large to be typed.
            TypeError: the name is no text.
        """
        record = _only(records, name)
        assert record.gradient is not None
        right = record.gradient.values
        if right is None:
            raise KeyError(f"the gradient of {name} has shape {record.shape}: these are too many numbers to ask for")
        wrong = difference(value, right)
        found = Answer(name, right=True) if wrong is None else Answer(name, False, wrong.kind, str(wrong))
        self._given[name] = found
        return found

    def hidden(self, records: list[Record]) -> set[int]:
        """The ids of the records whose gradients are not shown yet.

        If all gradients are asked for, those of tensors without a name are shown when the last answer is right. Two
        kinds are shown from the start: the gradient with which the backward begins, and those that are too large to
        be asked for.
        """
        left = {name for name in self._open(records) if not self._given.get(name)}
        if not left:
            return set()
        whole = ALL in self._asked
        return {one.id for one in records if _typed(one) and (one.name in left or (whole and not self._is_right(one)))}

    def left(self, records: list[Record]) -> list[Record]:
        """The records whose gradients are still hidden, by name. A name of several records does not count."""
        left = [name for name in self._open(records) if not self._given.get(name)]
        named = {name: [one for one in records if one.name == name and one.gradient is not None] for name in left}
        return [ones[0] for ones in named.values() if len(ones) == 1]

    def unknown(self, records: list[Record]) -> list[str]:
        """The names that are asked for and that no gradient has."""
        named = {one.name for one in records if _typed(one)}
        return [name for name in self._asked if name != ALL and name not in named]

    def _is_right(self, record: Record) -> bool:
        return bool(self._given.get(record.name or ""))

    def _open(self, records: list[Record]) -> list[str]:
        """The names that are asked for and that a gradient has, in the order of the record."""
        names = dict.fromkeys(one.name for one in records if one.name and _typed(one))
        return [name for name in names if ALL in self._asked or name in self._asked]


def _typed(record: Record) -> bool:
    """Whether the gradient of ``record`` can be asked for: it is small, and not where the backward begins."""
    return record.gradient is not None and record.gradient.raw is not None and not record.root


def _only(records: list[Record], name: str) -> Record:
    if not isinstance(name, str):
        raise TypeError(f"graph.answer(name, value): the name of a tensor is expected, such as 'w', not {name!r}")
    named = [one for one in records if one.name == name and one.gradient is not None]
    if len(named) == 1:
        return named[0]
    known: Mapping[str, None] = dict.fromkeys(one.name for one in records if one.name and one.gradient is not None)
    if not named:
        there = f"; there are {', '.join(known)}" if known else ""
        raise KeyError(f"no tensor called {name} got a gradient here{there}{nearest(name, known)}")
    raise KeyError(f"{len(named)} tensors are called {name}: set the name of each, as in w.name = 'w1'")
