"""Write the stub files of the functions from the op table: type checkers and editors read ``nbgrad.conv2d`` there.

One stub, that of the op table's package, holds the signatures. The stubs of torch's modules import their names from it.
Run it after a change of the table, with all that is made from it: python tools/write.py
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the table of this checkout, also where nbgrad is not installed

from nbgrad import fft, functions, linalg, special  # noqa: E402
from nbgrad.core import ops  # noqa: E402
from nbgrad.core.dispatch.exports import torch_has  # noqa: E402
from nbgrad.core.dispatch.inplace import InPlace  # noqa: E402
from nbgrad.core.dispatch.table import Op  # noqa: E402
from nbgrad.nn import functional  # noqa: E402
from tools.annotations import HEADER, several, tuple_name, ways, written  # noqa: E402
from tools.write_methods import formatted  # noqa: E402

MODULES: list[ModuleType] = [functions, functional, linalg, fft, special]

KINDS_OF = "from nbgrad.core.tensor.methods import Array, Number, Operand\n"

MADE = "Written by tools/write_functions.py from the op table: change that instead."


def stubs() -> dict[Path, str]:
    """The text of every file."""
    made = {path_of(ops): formatted(table()[0], path_of(ops))}
    return made | {path_of(module): formatted(contents(module), path_of(module)) for module in MODULES}


def unknown() -> list[str]:
    """The parameters without a type: add their types to tools/annotations.py."""
    return table()[1]


def path_of(module: ModuleType) -> Path:
    """The stub file of a module."""
    return Path(str(module.__file__)).with_suffix(".pyi")


def of_table(module: ModuleType) -> dict[str, Any]:
    """The names in a module that come from the op table, with their values."""
    return {
        name: value
        for name, value in sorted(vars(module).items())
        if isinstance(value, Op | InPlace) or str(getattr(value, "__module__", "")).startswith("nbgrad.core.ops.")
    }


def table() -> tuple[str, list[str]]:
    """The signatures of all functions of the table, and the parameters that have no type yet."""
    missing: list[str] = []
    kinds = "".join(f"    {name},\n" for name in ["Array", "Number", "Operand", *map(tuple_name, several())])
    doc = f'"""The functions of the op table. {MADE}"""\n'
    parts = [doc, HEADER, f"from nbgrad.core.tensor.methods import (\n{kinds})\n"]
    for name, value in of_table(ops).items():
        if (torch_has(name) and not name.endswith("_backward")) or name == "swish":
            parts += signatures(name, value, missing)
    return "".join(parts), missing


def contents(module: ModuleType) -> str:
    """The stub of a module. It imports the names of the op table, and gives every other name its signature."""
    first = (module.__doc__ or "").split("\n")[0]
    held = of_table(module)
    known = {id(value): name for name, value in of_table(ops).items()}
    renamed = {name: name if vars(ops).get(name) is value else known.get(id(value)) for name, value in held.items()}
    lines = "".join(f"    {source} as {name},\n" for name, source in renamed.items() if source)
    missing: list[str] = []
    own = [text for name, source in renamed.items() if not source for text in signatures(name, held[name], missing)]
    doc = f'"""{first}\n\n{MADE}\n"""\n'
    parts = [doc, HEADER + KINDS_OF if own else "\n", f"from nbgrad.core.ops import (\n{lines})\n"]
    names = "".join(f"    {name!r},\n" for name in held)
    return "".join([*parts, f"\n__all__ = [\n{names}]\n", *own])


def signatures(name: str, value: Any, missing: list[str]) -> Iterator[str]:
    """One function, once for each way to call it."""
    found, without = ways(name, value, method=False)
    missing += without
    for takes, gives in found:
        yield written(name, takes, gives, value.__doc__ or "", overloaded=len(found) > 1, indent="")
