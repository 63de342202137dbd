"""The views that a notebook cell displayed. They are closed when the cell runs again and removes them from the page."""

from typing import Any, NamedTuple
from weakref import WeakSet

from IPython.core.getipython import get_ipython

from nbgrad.widgets.optional_packages import needs

with needs("ipywidgets", "a live view", "ipywidgets"):
    from ipywidgets import Widget


class _CellRun(NamedTuple):
    """One run of a cell.

    Attributes:
        request: id of the message that asked for it.
        views: the views that it displayed and that still exist.
    """

    request: str
    views: "WeakSet[Widget]"


PAGES = 4
"""For each cell the views of this many pages stay open. A reloaded page has a new session: it counts as a new page."""

_last: dict[str, dict[str, _CellRun]] = {}
"""The last run of each cell that displayed a view, by the page that asked for it, the newest last."""


def displayed(view: Widget) -> None:
    """Record that the running cell displayed ``view``, and close what earlier runs of the same cell displayed.

    A page empties the outputs of a cell that runs again, but keeps the models of its widgets. So the kernel would keep
    its own models of them until it ends. Where a front end names no cells nothing is closed. A copied notebook has
    cells of the same names: two notebooks on one kernel are told apart by the session that each asks in.
    """
    asked: dict[str, Any] = getattr(get_ipython(), "get_parent", dict)()
    cell = asked.get("metadata", {}).get("cellId")
    if not cell:
        return
    request, session = asked["header"]["msg_id"], asked["header"].get("session", "")
    pages = _last.setdefault(cell, {})
    run = pages.get(session)
    if run is None or run.request != request:
        ended = [] if run is None else [pages.pop(session)]
        run = pages[session] = _CellRun(request, WeakSet())
        while len(pages) > PAGES:
            ended.append(pages.pop(next(iter(pages))))
        for earlier in [one for old in ended for one in old.views]:
            earlier.close()
    run.views.add(view)
