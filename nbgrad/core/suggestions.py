"""Suggestions for a name or a word that does not exist: the similar ones that do."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any


def nearest(given: str, known: Iterable[str]) -> str:
    """The question whether ``given`` was meant to be the most similar of ``known``; empty if none is similar."""
    names = sorted(known, key=lambda name: name[:1] == given[:1])  # so that Tensro suggests Tensor, not tensor
    plain = {name.lower().lstrip("-"): name for name in names}
    found = get_close_matches(given.lower().lstrip("-"), plain, n=1)
    return f"; did you mean {plain[found[0]]}?" if found else ""


def suggesting(
    module: dict[str, Any], torchs: ModuleType | None = None, later: tuple[str, ...] = ()
) -> Callable[[str], Any]:
    """A ``__getattr__`` for the module of these globals: its error suggests the public name that may have been meant.

    Python's own suggestion is for tracebacks that Python prints itself: a notebook shows the message alone.

    Args:
        module: the globals.
        torchs: torch's module of that name, if names that nbgrad's module lacks are taken from it.
        later: the modules of a package that are loaded when they are asked for.
    """

    def missing(name: str) -> Any:
        if name in later:
            return import_module(f"{module['__name__']}.{name}")
        known = () if name.startswith("_") else [one for one in (*module, *later) if not one.startswith("_")]
        hint = nearest(name, known)
        if module["__name__"] != "nbgrad" and not name.startswith("_") and hasattr(import_module("nbgrad"), name):
            hint = f"; did you mean nbgrad.{name}?"
        if torchs is not None and not name.startswith("_") and hasattr(torchs, name):
            hint = f": use {torchs.__name__}.{name} itself"
        raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}{hint}", name=name)

    return missing


def kind_of(value: Any) -> str:
    """The type of a value as a message names it: with its module where that is torch's or numpy's, as torch.Tensor."""
    kind = type(value)
    place = kind.__module__
    return f"{place}.{kind.__qualname__}" if place.partition(".")[0] in {"torch", "numpy"} else kind.__name__
