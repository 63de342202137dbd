"""What the torch that is installed lacks of what tests compare with: the oldest that nbgrad works with has less.

torch itself is asked, by name, signature and repr, so that nothing is left out where it has all.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

import pytest
import torch

LATER = {
    "Adam": "decoupled_weight_decay",
    "GroupNorm": "bias",
    **{
        f"{lazy}{kind}Norm{rank}d": "bias"
        for lazy in ("", "Lazy")
        for kind in ("Batch", "Instance")
        for rank in (1, 2, 3)
    },
}
"""The arguments that classes have taken since after torch 2.6."""

_NORMS: dict[str, tuple[int, ...]] = {
    "LayerNorm": (2,),
    "GroupNorm": (1, 2),
    **{f"{kind}Norm{rank}d": (2,) for kind in ("Batch", "Instance") for rank in (1, 2, 3)},
}


class _Missing(Exception):
    """torch has no such class, or that no such argument."""


class _Asked:
    """A module of torch's that raises ``_Missing`` for a class or an argument that it has not."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if reason := lacking(self._module, name):
            raise _Missing(reason)
        found = getattr(self._module, name)

        def make(*args: Any, **settings: Any) -> Any:
            if reason := lacking(self._module, name, settings):
                raise _Missing(reason)
            return found(*args, **settings)

        return make if isinstance(found, type) else found


def lacking(module: ModuleType, name: str, settings: Iterable[str] = ()) -> str | None:
    """What of the class ``name`` and its arguments ``settings`` torch's module has not; None if it has all."""
    if not hasattr(module, name):
        return f"torch {torch.__version__} has no {module.__name__}.{name}"
    known = inspect.signature(getattr(module, name)).parameters if settings else {}
    if any(one.kind is one.VAR_KEYWORD for one in known.values()):
        return None
    missing = [f"{setting}=" for setting in settings if setting not in known]
    return f"{module.__name__}.{name} of torch {torch.__version__} takes no {', '.join(missing)}" if missing else None


def case(*values: Any, reason: str | None, called: str | None = None) -> Any:
    """A case of a test, skipped where torch lacks what it compares with, for the ``reason`` that ``lacking`` gave."""
    return pytest.param(*values, id=called, marks=[pytest.mark.skip(reason=reason)] if reason else [])


def unsaid(kind: type, message: str) -> str | None:
    """Why torch's class cannot raise the error of this message; None if it stands in its source."""
    known = message in inspect.getsource(kind)
    return None if known else f"{kind.__name__} of torch {torch.__version__} has no error that says {message!r}"


def rows(table: Mapping[str, Any]) -> list[Any]:
    """The names of rows with a ``make`` of a module of blocks, as cases of a test that makes them of torch's too."""
    return [case(name, reason=_missing(one.make)) for name, one in table.items()]


def _missing(make: Callable[[Any], Any]) -> str | None:
    try:
        make(_Asked(torch.nn))
    except _Missing as missing:
        return str(missing)
    return None


def parameters(kind: Any, torchs: Any) -> list[tuple[Any, ...]]:
    """Names, kinds and defaults of what ``kind`` takes, without the one of ``LATER`` that ``torchs`` does not take."""
    known = inspect.signature(torchs).parameters
    found = []
    for one in inspect.signature(kind).parameters.values():
        if one.name in known or one.name != LATER.get(torchs.__name__):
            default = one.default.__name__ if callable(one.default) else one.default
            found.append((one.name, one.kind, default))
    return found


_SILENT = [kind for kind, args in _NORMS.items() if "bias=" not in repr(getattr(torch.nn, kind)(*args))]


def printed(block: Any) -> str:
    """The repr of a block of ours, without the bias of the norms for which this torch does not print it."""
    kinds = "|".join(_SILENT)
    return re.sub(rf"\b((?:Lazy)?(?:{kinds})\(.*?), bias=(?:True|False)", r"\1", repr(block)) if kinds else repr(block)
