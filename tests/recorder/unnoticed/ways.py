"""The ways to run a program, each in a process of its own: in a block or in a cell, plain or recorded."""

import os
import random
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.recorder.unnoticed.registry import Program
from tests.recorder.unnoticed.seen import Objects, Seen, describe, files, normal, switches

BLOCKS = {
    "recorded": "view='none'",
    "recorded without values": "view='none', watch=False",
    "drawn": "view='text', save='picture.svg'",
}
"""The options of ``nbgrad.record``, by the way that uses them."""

CELLS = {
    "cell": "%%autograd --view none",
    "cell without values": "%%autograd --view none --no-watch",
}
"""The first line of a cell, by the way that uses it."""

PLAIN = {"plain": "", "plain cell": f"# {CELLS['cell']}"}


def plain_of(way: str) -> str:
    """The plain way with which a way is compared."""
    return "plain cell" if way in CELLS else "plain"


class _Warned:
    """The warnings that are shown: the registries of the modules and the filters work as ever."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def show(self, message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        self.seen.append(
            f"{category.__module__}.{category.__name__} {normal(filename)}:{lineno} {normal(str(message))}"
        )


def observe(program: Program, way: str, objects: Objects, *, seed: int = 0, dtype: str = "float32") -> Seen:
    """Run a program in one way, and return all that it can see. Its standard output is in two files of the folder."""
    warned = _Warned()
    warnings.showwarning = warned.show
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)
    torch.set_default_dtype(getattr(torch, dtype))
    outputs = {name: Path.cwd().parent / f"{Path.cwd().name}.{name}" for name in ("stdout", "stderr")}
    _redirect(outputs)
    run = _in_cell if way in CELLS or way == "plain cell" else _in_block
    outcome, error = run(program, way)
    sys.stdout.flush()
    sys.stderr.flush()
    seen = switches()
    seen |= {f"warning {place}": one for place, one in enumerate(warned.seen)}
    seen |= {name: _printed(path) for name, path in outputs.items()}
    Path("picture.svg").unlink(missing_ok=True)
    seen |= files(Path.cwd())
    seen |= objects.changes()
    seen |= describe(outcome)
    return seen | describe(error, "error")


def _redirect(outputs: dict[str, Path]) -> None:
    """Let the standard output and error of this process lead to files."""
    for descriptor, path in enumerate(outputs.values(), 1):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
        os.close(opened)


def _printed(path: Path) -> str:
    return normal(path.read_text(encoding="utf-8", errors="backslashreplace")).replace(" --no-watch", "")


def _in_block(program: Program, way: str) -> tuple[Any, BaseException | None]:
    """Run a program in a block: recorded or not, its frames lie at the same lines."""
    surrounding: AbstractContextManager[Any] = nullcontext()
    if way in BLOCKS:
        import nbgrad

        surrounding = nbgrad.record(**eval(f"dict({BLOCKS[way]})"))
    try:
        return _inside(program.run, surrounding), None
    except BaseException as error:  # any error at all is a result
        return None, error


def _inside(run: Callable[[], Any], surrounding: AbstractContextManager[Any]) -> Any:
    with surrounding:
        return run()


def _in_cell(program: Program, way: str) -> tuple[Any, BaseException | None]:
    """Run the source of a program as a cell. The extension is unloaded afterwards."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    settings = Config()
    settings.HistoryManager.enabled = False
    settings.InteractiveShell.colors = "nocolor"
    shell = InteractiveShell.instance(config=settings)
    shell.run_cell("%load_ext nbgrad" if way in CELLS else "pass")
    shell.user_ns.update({key: one for key, one in program.run.__globals__.items() if key != "__name__"})
    head = CELLS.get(way) or PLAIN[way]
    result = shell.run_cell(f"{head}\n{program.source()}", store_history=True)
    shell.run_cell("%unload_ext nbgrad" if way in CELLS else "pass")
    return shell.user_ns.get("result"), result.error_before_exec or result.error_in_exec
