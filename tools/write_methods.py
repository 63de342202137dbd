"""Write nbgrad/core/tensor/methods.pyi, what type checkers and editors read of ``Tensor``, from the op table.

Run it after a change of the table, with all that is made from it: python tools/write.py
"""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the table of this checkout, also where nbgrad is not installed

import nbgrad  # noqa: E402, F401  # fills the table
from nbgrad.core.tensor.methods import Conversions, TensorMethods  # noqa: E402
from tools.annotations import HEADER, KINDS, tuples, ways, written  # noqa: E402

STUB = ROOT / "nbgrad" / "core" / "tensor" / "methods.pyi"

DOC = '"""The methods of ``Tensor``, written by tools/write_methods.py from the op table: change that instead."""\n'

CONVERSIONS = '''
class Conversions:
    """The methods called as Python's own types, ``x.float()``: apart, so that these keep their names elsewhere."""
'''

METHODS = '''
class TensorMethods(Conversions):
    """Base of ``Tensor``: every operator and method that is a row of the op table."""
'''


def stub() -> str:
    """The text of the whole file."""
    return text()[0]


def unknown() -> list[str]:
    """The parameters without a type: add their types to tools/annotations.py."""
    return text()[1]


def text() -> tuple[str, list[str]]:
    """The file, laid out as the linter wants it, and what has no type yet."""
    missing: list[str] = []
    conversions = [written(name, "self", "Tensor", first(made.__doc__)) for name, made in functions(Conversions)]
    methods = [part for name, value in sorted(vars(TensorMethods).items()) for part in method(name, value, missing)]
    parts = [DOC, HEADER, KINDS, *tuples(), CONVERSIONS, *conversions, METHODS, *methods]
    return formatted("".join(parts), STUB), missing


def formatted(source: str, path: Path) -> str:
    """A stub without imports that it does not need, laid out as the linter wants it."""
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--fix-only", "--select=I,F401"], ["format"]):
        full = [*ruff, *command, "--quiet", "--stdin-filename", str(path), "-"]
        source = subprocess.run(full, input=source, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return source


def functions(kind: type) -> list[tuple[str, FunctionType]]:
    """The methods that a class itself defines, by name."""
    return [(name, value) for name, value in sorted(vars(kind).items()) if isinstance(value, FunctionType)]


def method(name: str, value: Any, missing: list[str]) -> Iterator[str]:
    """The stub text of a method, once for each way to call it, or of a property. Other values have none."""
    if isinstance(value, property):
        yield f"    @property\n{written(name, 'self', 'Tensor', first(value.__doc__))}"
    if not isinstance(value, FunctionType):
        return
    function = inspect.getclosurevars(value).nonlocals.get("function", value)
    if name.startswith("__") and name not in {"__getitem__", "__setitem__"}:
        yield operator(name, value)
        return
    found, without = ways(name, function, method=True)
    missing += without
    for takes, gives in found:
        yield written(name, takes, gives, first(value.__doc__), overloaded=len(found) > 1)


def first(doc: str | None) -> str:
    """The first line of a docstring. The whole docstring stands at the function itself."""
    return inspect.cleandoc(doc or "").split("\n")[0]


def operator(name: str, function: FunctionType) -> str:
    """The text of a Python operator."""
    operands = len(inspect.signature(function).parameters) - 1
    if name in {"__eq__", "__ne__"}:  # any operand: if it is no tensor or number, Python says that they differ
        return f"    def {name}(self, other: Any) -> Tensor: ...  # type: ignore[override]\n"
    kind = "Array" if "matmul" in name else "Operand"
    return f"    def {name}(self{f', other: {kind}' * operands}) -> Tensor: ...\n"
