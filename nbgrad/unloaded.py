"""``%%autograd`` before ``%load_ext nbgrad``: its error names the missing command, as IPython's own does not."""

import sys
from types import FrameType
from typing import Any


def is_loading() -> bool:
    """Whether ``%load_ext nbgrad`` runs this code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != "IPython.core.extensions":
        frame = frame.f_back
    return frame is not None


IMPORTED_BY_LOADING = is_loading()
"""Whether nbgrad was imported by ``%load_ext nbgrad``. Then ``%unload_ext`` undoes what the import did to torch."""


def announce() -> None:
    """Have the running notebook, if there is one, answer ``%%autograd`` until the extension is loaded."""
    if IMPORTED_BY_LOADING:
        return
    running = getattr(sys.modules.get("IPython"), "get_ipython", None)  # None too while IPython itself is imported
    if running is not None:
        answer(running())


def answer(shell: Any) -> None:
    """Have ``shell`` answer ``%%autograd``, unless it knows such a magic."""
    if shell is None or shell.find_cell_magic(_NAME) is not None or shell.find_line_magic(_NAME) is not None:
        return
    shell.register_magic_function(_missing, "line_cell", _NAME)


_NAME = "autograd"


def _missing(line: str, cell: str | None = None) -> None:  # noqa: ARG001
    """Record a cell: run ``%load_ext nbgrad`` first."""
    from IPython.core.error import UsageError

    raise UsageError(
        f"{'%' if cell is None else '%%'}autograd: nbgrad is imported, but its magics are not loaded. Run %load_ext "
        "nbgrad in a cell first, then this cell again."
    )
