"""The programs that are run plain and recorded, by family: each is a function without arguments."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

WARM = "torch._dynamo"
"""The module that most processes import before: the first optimizer of a process does so, which takes seconds."""

FOLDER = Path(__file__).parent / "programs"


class Program(NamedTuple):
    """A program: what it returns is compared, and also all that it leaves, prints, warns of and raises.

    Attributes:
        name: its family and its own name.
        pattern: the habit of notebooks that it shows.
        run: the function.
        warm: the module that its process has imported before it starts.
        cell: whether its source can be the text of a cell. That of a generated program cannot.
    """

    name: str
    pattern: str
    run: Callable[[], Any]
    warm: str
    cell: bool

    def source(self) -> str:
        """Its body as the text of a cell, which puts the result into the variable ``result``."""
        text = textwrap.dedent(inspect.getsource(self.run))
        (function,) = ast.parse(text).body
        assert isinstance(function, ast.FunctionDef)
        first, last = function.body[0], function.body[-1]
        lines = text.splitlines()[first.lineno - 1 :]
        if isinstance(last, ast.Return):
            place = last.lineno - first.lineno
            lines[place] = lines[place].replace("return", "result =", 1)
        return textwrap.dedent("\n".join(lines))


PROGRAMS: dict[str, Program] = {}


def program(pattern: str, *, warm: str = WARM, cell: bool = True) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a function as a program that shows ``pattern``."""

    def register(run: Callable[[], Any]) -> Callable[[], Any]:
        add(f"{run.__module__.rpartition('.')[2]}.{run.__name__}", pattern, run, warm, cell=cell)
        return run

    return register


def add(name: str, pattern: str, run: Callable[[], Any], warm: str, *, cell: bool = True) -> None:
    """Register a program by its name."""
    assert name not in PROGRAMS, f"two programs are called {name}"
    PROGRAMS[name] = Program(name, pattern, run, warm, cell)


def load() -> dict[str, Program]:
    """All programs, by name. This imports torch."""
    for path in sorted(FOLDER.glob("*.py")):
        import_module(f"tests.recorder.unnoticed.programs.{path.stem}")
    return PROGRAMS


def table() -> str:
    """The programs and their patterns, one line for each."""
    return "\n".join(f"{one.name:40} {one.pattern}" for one in load().values())
