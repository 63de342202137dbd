"""The tables of all ops, from the op table. The site adds them to docs/ops.md."""

import inspect
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the table of this checkout, also where nbgrad is not installed

from nbgrad.core import ops  # noqa: E402
from nbgrad.core.dispatch.samples import REALS  # noqa: E402
from nbgrad.core.dispatch.table import OPS, Op  # noqa: E402


def tables() -> str:
    """A table for each module of ops, below a sentence with their number."""
    modules = [import_module(info.name) for info in walk_packages(ops.__path__, f"{ops.__name__}.")]
    groups = [text for module in modules if (text := folder(module) if hasattr(module, "__path__") else group(module))]
    made = {name for module in modules for name in functions(module)}
    rows = len(shown(list(OPS.values())))
    count = (
        f"{rows} ops have gradient rules, or declare that they have no gradient. {len(made)} more functions call "
        "these ops, or make new tensors.\n"
    )
    return "\n".join([count, *groups])


def folder(package: ModuleType) -> str:
    """The heading of a folder, with the sentence that says what is in it."""
    return f"## {package.__name__.rpartition('.')[2]}\n\n{(package.__doc__ or '').partition('.')[0]}.\n"


def group(module: ModuleType) -> str:
    """One module: its rows as a table, and its other names as lists."""
    path = module.__name__.removeprefix(f"{ops.__name__}.").replace(".", "/")
    level, name = "#" * (2 + path.count("/")), path.rpartition("/")[2]
    held = [row for row in OPS.values() if row.__wrapped__.__module__ == module.__name__]
    rows = shown(held)
    lists = {
        "Gradients that are rows of their own": [row.name for row in held if row not in rows],
        "Functions": functions(module),
        "Other names": aliases(module),
    }
    texts = [f"{title}: {', '.join(f'`{one}`' for one in names)}.\n" for title, names in lists.items() if names]
    if not rows and not texts:
        return ""
    table = ["| op | value | gradient |", "|---|---|---|", *map(line, rows), ""] if rows else []
    head = f"{level} [{name}](../nbgrad/core/ops/{path}.py)\n\n{(module.__doc__ or '').split(chr(10))[0]}\n"
    return "\n".join([head, *table, *texts])


def shown(rows: list[Op]) -> list[Op]:
    """Rows that users call: not the rows that are only the gradient of another row."""
    return [row for row in rows if not row.name.endswith("_backward")]


def functions(module: ModuleType) -> list[str]:
    """The functions that choose a row or are made of rows."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and vars(ops).get(name) is value
    ]


def aliases(module: ModuleType) -> list[str]:
    """The other names of rows, each followed by the row's own name."""
    rows = {name: row for name, row in vars(module).items() if isinstance(row, Op) and name not in OPS}
    return [f"{name} ({row.name})" for name, row in rows.items() if vars(ops).get(name) is row]


def line(row: Op) -> str:
    """One row of the table."""
    names = f"`{row.name}`" + (f" `{row.name}_`" if row._in_place is not None else "")
    if row.domain != REALS:
        low, high, gap = row.domain
        names += f" *(from {low:g} to {high:g}{f', at least {gap:g} from 0' if gap else ''})*"
    gradients = [f"`{name}` {formula(rule.formula)}" for name, rule in row.rules.items()]
    return f"| {names} | {formula(row.formula)} | {'<br>'.join(gradients) or 'none'} |"


def formula(latex: str) -> str:
    r"""A formula in the delimiters that keep Markdown out of it; a bar would end the cell of a table."""
    for bar, command in ((r"\|", r"\Vert "), ("|", r"\vert ")):
        latex = latex.replace(bar, command)
    return f"$`{latex}`$"
