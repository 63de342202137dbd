"""Ops, findings and overlays of your own: declare one, look at the tables, observe the engine.

Nothing else of the engine is needed for an op: names that are not in this module may change in any version.
"""

from collections.abc import Mapping
from types import MappingProxyType

from nbgrad.core import ops as _ops  # noqa: F401  # it fills the table
from nbgrad.core.dispatch.formula import formula_with as formula_with
from nbgrad.core.dispatch.op import op as op
from nbgrad.core.dispatch.samples import (
    NONZERO as NONZERO,
    POSITIVE as POSITIVE,
    REALS as REALS,
    Domain as Domain,
    Make as Make,
    Sample as Sample,
    Samples as Samples,
    alike as alike,
    along_a_dim as along_a_dim,
    at as at,
    binary as binary,
    pairs as pairs,
    points as points,
    reducing as reducing,
    unary as unary,
    varied as varied,
)
from nbgrad.core.dispatch.table import OPS as _OPS, Op as Op
from nbgrad.core.engine.node import Node as Node, OpInfo as OpInfo
from nbgrad.core.engine.observer import Observer as Observer
from nbgrad.core.engine.state import State, Switch
from nbgrad.core.graph.finding import Finding as Finding
from nbgrad.core.graph.graph import AutogradGraph as AutogradGraph
from nbgrad.core.graph.plugins import (
    FINDING_RULES as _FINDING_RULES,
    OVERLAY_KINDS as _OVERLAY_KINDS,
    FindingRule as FindingRule,
    OverlayKind as OverlayKind,
    finding_rule as finding_rule,
    overlay as overlay,
)
from nbgrad.core.graph.record import Record as Record


class _RowAttributes:
    """The rows of the op table as attributes."""

    def __getattr__(self, name: str) -> Op:
        if name not in _OPS:
            raise AttributeError(f"the op table has no row {name!r}", name=name, obj=self)
        return _OPS[name]

    def __dir__(self) -> list[str]:
        return sorted(_OPS)


ops = _RowAttributes()
"""The rows of the op table as attributes: ``ops.relu`` is ``OPS["relu"]``. The source of a program calls them."""

OPS: Mapping[str, Op] = MappingProxyType(_OPS)
"""The op table, to read: every row by its name, those declared with ``op`` too."""

FINDING_RULES: Mapping[str, FindingRule] = MappingProxyType(_FINDING_RULES)
"""The rules for findings that were added with ``finding_rule``, to read: ``FINDING_RULES["big step"].remove()``."""

OVERLAYS: Mapping[str, OverlayKind] = MappingProxyType(_OVERLAY_KINDS)
"""The overlays that were added with ``overlay``, to read: ``OVERLAYS["depth"].remove()``."""


class observe(Switch):  # noqa: N801  # it is used as a function, as no_grad is
    """A context manager and decorator inside which the engine calls the methods of observers.

    Observers that are already there stay. It holds only in the thread or task that entered it.

    Args:
        observers: objects of subclasses of ``Observer``; they are called in this order.

    Raises:
        TypeError: one of them is no ``Observer``.
    """

    __slots__ = ("_added",)

    def __init__(self, *observers: Observer) -> None:
        for one in observers:
            if not isinstance(one, Observer):
                raise TypeError(
                    f"observe() takes objects of subclasses of nbgrad.extend.Observer, and was given {one!r}: "
                    "make an object of such a class"
                )
        self._added = observers
        super().__init__()

    def _changed(self, before: State) -> State:
        return before.replaced(observers=(*before.observers, *self._added), outer=before)

    def _again(self) -> "observe":
        return observe(*self._added)
