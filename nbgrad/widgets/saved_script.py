"""The script of a saved notebook: an output that makes the drawings of a page live where no kernel answers.

Such an output takes as many bytes as a picture, so only some pictures have one behind them. It needs no other output,
and the drawings of a page need only one of them.
"""

import os
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import display

from nbgrad.widgets.render.html_page import saved_page_script

_EVERY = 20
"""One in so many pictures has the script: a reader may delete the cell of another, or copy a part of a notebook."""

_since = _EVERY
"""How many pictures have been displayed after the last script."""

_cells: dict[str, str] = {}
"""The cells below which there is a script, each with the request that displayed it."""


def wanted() -> bool:
    """Whether the outputs of a notebook hold a script. ``NBGRAD_SCRIPT=0`` in the environment leaves it out."""
    return os.environ.get("NBGRAD_SCRIPT") != "0"


def displayed() -> None:
    """Count a picture that was displayed, and display the script if one is due.

    A cell that runs again loses its outputs, and so its script.
    """
    global _since  # noqa: PLW0603  # a kernel has one notebook
    _since += 1
    cell, request = _running()
    again = cell in _cells and _cells[cell] != request
    if not wanted() or (_since < _EVERY and not again):
        return
    _since = 0
    if cell:
        _cells[cell] = request
    display({"text/html": saved_page_script()}, raw=True)


def _running() -> tuple[str, str]:
    """The running cell, empty where the front end does not name it, and the request that runs it."""
    asked: dict[str, Any] = getattr(get_ipython(), "get_parent", dict)()
    return asked.get("metadata", {}).get("cellId") or "", asked.get("header", {}).get("msg_id", "")
