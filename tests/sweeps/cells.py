"""Cells in cells, threads, tasks and notebooks: each graph has its own ops, and each picture is below its own cell."""

import re
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any, NamedTuple

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display
from IPython.utils.capture import capture_output
from nbformat import write
from nbformat.v4 import new_code_cell, new_notebook
from traitlets.config import Config

import nbgrad
from nbgrad.core.engine.state import State, current

CASES = 10

ENDS = ["1 / 0", "raise KeyboardInterrupt", "raise SystemExit", "no_such_name", "get_ipython().run_cell('')"]
CALLS = {
    "run_cell": "shell.run_cell({})",
    "magic": "with suppress(BaseException): shell.run_cell({}).raise_error()",
    "time": "shell.run_cell('%%time\\n' + {})",
    "callback": "call_back(lambda: shell.run_cell({}))",
    "thread": "in_thread(shell.run_cell, {})",
    "copied": "copy_context().run(shell.run_cell, {})",
    "async": "drive(shell.run_cell_async({0}, transformed_cell=shell.transform_cell({0})))",
    "notebook": "with suppress(BaseException): shell.run_line_magic('run', notebook({}))",
    "exec": "with suppress(BaseException): exec(shell.transform_cell({}))",
}
"""Ways in which a cell runs another cell; {} stands for the source of the other cell."""


class Graph(NamedTuple):
    """The expected graph: its ops, and its name, which is empty if nbgrad chooses it."""

    name: str
    ops: list[str]


class Script:
    """The source of random cells, and the output to expect in order: marks of the cells, and pictures.

    Args:
        random: the source of random choices.
        every: whether every cell is recorded.
    """

    def __init__(self, random: Random, *, every: bool) -> None:
        self.random, self.every = random, every
        self.wanted: list[Any] = []
        self._count = 0

    def _number(self) -> int:
        self._count += 1
        return self._count

    def cell(self, depth: int, outside: list[Graph], *, silent: bool = False, waits: bool = False) -> str:
        """The source of a cell that runs inside the graphs ``outside``. Source and wanted output are made in order."""
        mine, head = self._begin(outside, silent=silent)
        lines = [self._mark()]
        steps = [self._step(depth, outside, mine) for _ in range(self.random.randrange(5))]
        if waits:
            steps.append(self._together([*outside, *mine]))
        ending = self.random.choice(ENDS) if self.random.random() < 0.4 else "pass"
        self._end(mine, ending)
        return head + "\n".join([*lines, *steps, ending])

    def _begin(self, outside: list[Graph], *, silent: bool) -> tuple[list[Graph], str]:
        if self.random.random() < 0.6:
            name = f"g{self._number()}"
            return [Graph(name, [])], f"%%autograd --view text --name {name}  # what is {name}?\n"
        return [Graph("", [])] if self.every and not silent and not outside else [], ""

    def _end(self, mine: list[Graph], ending: str) -> None:
        well = ending in ("pass", ENDS[-1])
        self.wanted += [(one.name, sorted(one.ops)) for one in reversed(mine) if one.ops or (one.name and well)]

    def _mark(self) -> str:
        number = self._number()
        self.wanted.append(number)
        return f"mark({number})"

    def _op(self, graphs: list[Graph]) -> str:
        name = f"v{self._number()}"
        for graph in graphs:
            graph.ops.append(name)
        return f"{name} = x * 2"

    def _step(self, depth: int, outside: list[Graph], mine: list[Graph]) -> str:
        kind = self.random.choice(["op", "op", "empty", "silent", *(list(CALLS) if depth else [])])
        if kind == "op":
            return self._op([*outside, *mine])
        if kind == "empty":
            return f"shell.run_cell({self.random.choice(['', ' ', chr(10)])!r})"
        if kind == "silent":
            return f"shell.run_cell({self._op([*outside, *mine])!r}, silent=True)"
        if kind == "exec":  # exec is no run of a cell: the graph ends with the cell around it
            name = f"g{self._number()}"
            if mine and not mine[-1].name and not mine[-1].ops:
                mine.pop()  # the graph that every cell gets, with no op in it yet
            mine.append(Graph(name, []))
            source = f"%%autograd --view text --name {name}\n{self._op([*outside, *mine])}"
        else:
            around = [] if kind == "thread" else [*outside, *mine]
            source = self.cell(depth - 1, around, silent=kind == "notebook")
        return CALLS[kind].format(repr(source))

    def _together(self, around: list[Graph]) -> str:
        """Two cells that take turns."""
        sources, ends = [], []
        heads = [self._begin(around, silent=False) for _ in range(2)]
        for mine, head in heads:
            op = self._op([*around, *mine])
            sources.append([f"{head}{self._mark()}", f"{op}\nawait asyncio.sleep(0)"])
        for (mine, _), source in zip(heads, sources, strict=True):
            source.append(self._op([*around, *mine]))
            ends.append(mine)
            self._end(mine, "pass")
        calls = [
            f"shell.run_cell_async({c!r}, transformed_cell=shell.transform_cell({c!r}))"
            for c in map("\n".join, sources)
        ]
        return f"import asyncio\nawait asyncio.gather({', '.join(calls)})"


def check(random: Random) -> None:
    """Run cells that run cells, and compare what is displayed, in order."""
    every = random.random() < 0.3
    script = Script(random, every=every)
    with a_shell() as shell, TemporaryDirectory() as folder:
        nbgrad.load_ipython_extension(shell)
        shell.user_ns.update(_helpers(shell, Path(folder)))
        cells = [script.cell(3, [], waits=random.random() < 0.3) for _ in range(3)]
        with capture_output() as captured:
            if every:
                shell.run_cell("%autograd on --view text")
            for cell in cells:
                shell.run_cell(cell)
            for session in shell.magics_manager.registry["AutogradMagics"].sessions:
                assert session.graph.closed, "a graph outlived its cell"
        nbgrad.unload_ipython_extension(shell)
    text = "\n---\n".join(cells)
    printed = captured.stdout + captured.stderr
    seen = [_seen(output.data["text/plain"]) for output in captured.outputs]
    assert seen == script.wanted, f"{text}\n---\nseen   {seen}\nwanted {script.wanted}\n{printed}"
    assert current() == State(), text


def _seen(text: str) -> Any:
    """A mark, or the name and the ops of a graph."""
    if text.startswith("mark "):
        return int(text[5:])
    name = text.partition(":")[0]
    ops = re.findall(r"\bop +(v\d+)", text)
    return ("" if name.startswith("graph ") else name, sorted(ops))


def _helpers(shell: InteractiveShell, folder: Path) -> dict[str, Any]:
    """The functions that the cells call."""

    def mark(number: int) -> None:
        display({"text/plain": f"mark {number}"}, raw=True)

    def in_thread(function: Any, *args: Any) -> None:
        thread = Thread(target=function, args=args)
        thread.start()
        thread.join()

    def drive(coroutine: Coroutine[Any, Any, Any]) -> None:  # the coroutine waits for nothing
        with suppress(StopIteration):
            coroutine.send(None)

    def notebook(source: str) -> str:
        path = folder / f"{len(list(folder.iterdir()))}.ipynb"
        write(new_notebook(cells=[new_code_cell(source)]), path)
        return str(path)

    def call_back(function: Any) -> None:
        function()

    given = [mark, in_thread, drive, notebook, call_back, suppress, copy_context]
    x = nbgrad.tensor(1.0, requires_grad=True)
    return {"shell": shell, "x": x, **{one.__name__: one for one in given}}


@contextmanager
def a_shell() -> Iterator[InteractiveShell]:
    """An IPython without a front end and without a history."""
    main = sys.modules["__main__"]
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    try:
        yield shell
    finally:
        InteractiveShell.clear_instance()
        sys.modules["__main__"] = main
