"""``FindingRule`` and ``OverlayKind``: what users add to the findings and to the pictures of all graphs."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import signature
from typing import Any, TypeVar

from nbgrad.choices import KINDS
from nbgrad.core.graph.checkup import CHECK_NAMES
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.silence import OWN_KINDS
from nbgrad.core.suggestions import kind_of

Rule = Callable[[AutogradGraph], Iterable[Finding] | None]
Level = Callable[[Record], Any]
T = TypeVar("T")

_WORDS = re.compile(r"[^\W_]+( [^\W_]+)*")
"""The names of kinds: a comment, an option and a list have to be able to name them."""

COLOUR = re.compile("#[0-9a-fA-F]{6}")
"""A colour, as ``#2a9d8f``."""

FINDING_RULES: dict[str, "FindingRule"] = {}
"""The rules that were added, by name."""

OVERLAY_KINDS: dict[str, "OverlayKind"] = {}
"""The kinds of overlays that were added, by name."""


class FindingRule:
    """A rule for findings that was added from outside.

    Args:
        name: the kind of its findings, and the name of its check.
        function: looks through a graph, and returns findings of this kind.
    """

    def __init__(self, name: str, function: Rule) -> None:
        self.name = name
        self.function = function

    def __call__(self, graph: AutogradGraph) -> list[Finding]:
        """The findings in ``graph``."""
        return list(self.find(graph))

    def find(self, graph: AutogradGraph) -> Iterator[Finding]:
        """The findings in ``graph``, one by one.

        Raises:
            TypeError: the function returns something else than findings of its kind.
        """
        made = self.function(graph)
        if made is not None and not isinstance(made, Iterable):
            raise TypeError(f"the rule {self.name!r} has to return findings, and returned {kind_of(made)}: {made!r}")
        for one in () if made is None else made:
            if not isinstance(one, Finding):
                raise TypeError(f"the rule {self.name!r} has to make objects of nbgrad.Finding, not {kind_of(one)}")
            if one.kind != self.name:
                raise TypeError(
                    f"the rule {self.name!r} made a finding of the kind {one.kind!r}: make Finding({self.name!r}, ...)"
                )
            yield one

    def remove(self) -> None:
        """Take the rule away. If another one has its name by now, that one stays."""
        if FINDING_RULES.get(self.name) is self:
            del FINDING_RULES[self.name]
            OWN_KINDS.discard(self.name)

    def __repr__(self) -> str:
        return f"<FindingRule {self.name!r}>"


class OverlayKind:
    """A kind of overlay that was added from outside.

    Args:
        name: its name in the menu of a picture.
        function: gives a record its number or its label; None for neither.
        log: whether the scale of its numbers is logarithmic.
        colours: the colours of labels; others get one of six.
    """

    def __init__(self, name: str, function: Level, *, log: bool, colours: Mapping[str, str]) -> None:
        self.name = name
        self.function = function
        self.log = log
        self.colours = dict(colours)

    def __call__(self, record: Record) -> float | str | None:
        """The number or the label of ``record``.

        Raises:
            TypeError: the function returns something else than a number or a text.
            ValueError: the number has several elements, or is below zero on a logarithmic scale.
        """
        value = self.function(record)
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool):
            return str(value)
        try:
            number = float(value.item() if hasattr(value, "item") else value)
        except TypeError:
            said = f"has to give a number, a text or None, and gave {kind_of(value)}"
            raise TypeError(f"the overlay {self.name!r} {said} for {record.what}") from None
        if self.log and number < 0:
            raise ValueError(f"the overlay {self.name!r} gave {number:g} for {record.what}: log=True takes 0 and more")
        return number

    def remove(self) -> None:
        """Take the overlay away. If another one has its name by now, that one stays."""
        if OVERLAY_KINDS.get(self.name) is self:
            del OVERLAY_KINDS[self.name]

    def __repr__(self) -> str:
        return f"<OverlayKind {self.name!r}>"


def finding_rule(name: str) -> Callable[[Rule], FindingRule]:
    """A decorator that adds a rule for findings: a function that looks through a graph.

    All graphs ask it from now on, those that closed before too, until ``remove()`` of the rule takes it away. Its
    findings are listed, drawn and silenced as nbgrad's own, and ``graph.checkup()`` has a check of its name. If the
    function fails, a finding says so, and all others stay.

    Args:
        name: the kind of its findings, and the name of its check: words with one blank between them. A rule that was
            added under this name is replaced.

    Raises:
        TypeError: the name is no text, or the function cannot be called with a graph.
        ValueError: the name has other signs than letters and digits, or nbgrad has a kind or a check of this name.
    """
    if not isinstance(name, str):
        raise TypeError(f"finding_rule() takes a name first, such as 'big step', and got {kind_of(name)}: {name!r}")
    if not _WORDS.fullmatch(name):
        raise ValueError(
            f"finding_rule({name!r}): the name has to be words of letters and digits with one blank between them, as "
            "'big step', so that a comment can silence it"
        )
    if name in KINDS or name in CHECK_NAMES:
        raise ValueError(f"finding_rule({name!r}): nbgrad has findings or a check of this name; take another one")

    def add(function: Rule) -> FindingRule:
        _check(f"finding_rule({name!r})", function, "graph")
        rule = FindingRule(name, function)
        FINDING_RULES.pop(name, None)
        FINDING_RULES[name] = rule
        OWN_KINDS.add(name)
        return rule

    return add


def overlay(
    name: str, *, log: bool = False, colours: Mapping[str, Any] | None = None
) -> Callable[[Level], OverlayKind]:
    """A decorator that adds a kind of overlay: a function by which pictures of all graphs can colour their boxes.

    The function gets a record, and returns a number, a label, a colour such as ``"#2a9d8f"``, or None for a box that
    it does not colour. All numbers of a graph make a scale, and all labels a legend. Pictures that are drawn from now
    on have the overlay in their menu, until ``remove()`` takes it away. If the function fails, a sentence below the
    picture says so.

    Args:
        name: its name in the menu. An overlay that was added under this name is replaced.
        log: whether the scale of the numbers is logarithmic.
        colours: the colours of labels, as ``{"slow": "#e76f51"}``. Other labels get one of six colours.

    Raises:
        TypeError: the name is no text, or the function cannot be called with a record.
        ValueError: the name is empty, or a colour is not written as ``#2a9d8f``.
    """
    if not isinstance(name, str):
        raise TypeError(f"overlay() takes a name first, such as 'depth', and got {kind_of(name)}: {name!r}")
    if not name.strip():
        raise ValueError("overlay() takes a name first, such as 'depth', and got an empty one")
    for label, colour in (colours or {}).items():
        if not isinstance(colour, str) or not COLOUR.fullmatch(colour):
            raise ValueError(f"overlay({name!r}): the colour of {label!r} is {colour!r}; write it as '#2a9d8f'")

    def add(function: Level) -> OverlayKind:
        _check(f"overlay({name!r})", function, "record")
        kind = OverlayKind(name, function, log=bool(log), colours=colours or {})
        OVERLAY_KINDS.pop(name, None)
        OVERLAY_KINDS[name] = kind
        return kind

    return add


def _check(whose: str, function: Any, argument: str) -> None:
    """Raise a TypeError unless ``function`` can be called with one argument."""
    if not callable(function):
        raise TypeError(f"{whose} decorates a function of a {argument}, and got {kind_of(function)}: {function!r}")
    try:
        signature(function).bind(None)
    except ValueError:  # a function of C has no signature that is known
        return
    except TypeError:
        raise TypeError(f"{whose} decorates a function that can be called with a {argument} alone") from None
