"""Constructors with torch's signatures: names, order and defaults of the arguments are written in torch alone."""

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any, Concatenate, ParamSpec, cast

import torch

P = ParamSpec("P")


def adopting(torchs: Callable[P, object]) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """A decorator: an ``__init__`` that takes what torch's class takes, and gets every argument by its name.

    Arguments that the ``__init__`` has besides, with a default and by name alone, are those that older versions of
    torch lack.
    """
    theirs = signature(torchs)

    def decorate(fill: Callable[..., None]) -> Callable[Concatenate[Any, P], None]:
        own, *others = signature(fill).parameters.values()
        newer = [one for one in others if one.kind is Parameter.KEYWORD_ONLY and one.name not in theirs.parameters]
        known = theirs.replace(parameters=[*theirs.parameters.values(), *newer])
        order = [one.name for one in known.parameters.values() if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
        usual = {one.name: one.default for one in known.parameters.values() if one.default is not Parameter.empty}
        names = known.parameters.keys()

        def __init__(self: Any, *args: P.args, **named: P.kwargs) -> None:  # noqa: N807
            given = {**usual, **dict(zip(order, args, strict=False)), **named}
            if len(args) > len(order) or given.keys() != names or not named.keys().isdisjoint(order[: len(args)]):
                try:
                    known.bind(*args, **named)
                except TypeError as error:
                    raise TypeError(f"{type(self).__name__}(): {error}. Its arguments are {', '.join(names)}") from None
            fill(self, **given)

        made: Any = __init__
        made.__signature__ = known.replace(parameters=[own, *known.parameters.values()])
        return cast("Callable[Concatenate[Any, P], None]", made)

    return decorate


def showing(torchs: type[torch.nn.Module]) -> Callable[[Any], str]:
    """The ``extra_repr`` of torch's class: it reads attributes alone, and they have the same names here."""
    return torchs.extra_repr
