"""Which views a cell of a notebook displayed: when it runs again they are no longer on the page."""

from typing import Any, NamedTuple
from weakref import WeakSet

from IPython.core.getipython import get_ipython
from ipywidgets import Widget


class _Run(NamedTuple):
    """One run of a cell.

    Attributes:
        request: id of the message that asked for it.
        views: what it displayed and what still lives.
    """

    request: str
    views: "WeakSet[Widget]"


_last: dict[str, _Run] = {}
"""Of each cell the last run that displayed a view."""


def displayed(view: Widget) -> None:
    """Note that the cell that runs displayed ``view``, and close what earlier runs of the same cell displayed.

    A page empties the outputs of a cell that runs again, but keeps the models of its widgets, and with them the kernel
    would keep theirs until it ends. Where a front end names no cells nothing is closed.
    """
    asked: dict[str, Any] = getattr(get_ipython(), "get_parent", dict)()
    cell = asked.get("metadata", {}).get("cellId")
    if not cell:
        return
    request = asked["header"]["msg_id"]
    run = _last.get(cell)
    if run is None or run.request != request:
        for earlier in [] if run is None else list(run.views):
            earlier.close()
        run = _last[cell] = _Run(request, WeakSet())
    run.views.add(view)
