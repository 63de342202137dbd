"""Trainings by other packages, recorded: a callback for each trainer, and a loop. All stand on ``nbgrad.record``.

Nothing is imported before its name is used: neither torch, nor the package of a trainer.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbgrad.integrations.lightning import LightningCallback as LightningCallback
    from nbgrad.integrations.loop import WatchedLoader as WatchedLoader, watched as watched
    from nbgrad.integrations.transformers import TransformersCallback as TransformersCallback

_PLACES = {
    "LightningCallback": "lightning",
    "TransformersCallback": "transformers",
    "WatchedLoader": "loop",
    "watched": "loop",
}
"""The module here of each name."""


if not TYPE_CHECKING:  # with __getattr__ every name would exist for a type checker

    def __getattr__(name: str) -> Any:
        """Import what a name needs."""
        if name not in _PLACES:
            from nbgrad.core.suggestions import nearest

            hint = nearest(name, _PLACES)
            raise AttributeError(f"module 'nbgrad.integrations' has no attribute {name!r}{hint}", name=name)
        found = globals()[name] = getattr(import_module(f"nbgrad.integrations.{_PLACES[name]}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *_PLACES})
