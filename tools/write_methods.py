"""Write nbgrad/core/methods.pyi, what type checkers and editors read of ``Tensor``, from the op table.

Run it after a change of the table: python tools/write_methods.py
"""

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the table of this checkout, also where nbgrad is not installed

from nbgrad.core.methods import Conversions, TensorMethods  # noqa: E402
from nbgrad.core.op import OPS, Op  # noqa: E402

STUB = ROOT / "nbgrad" / "core" / "methods.pyi"

HEADER = '''"""The methods of ``Tensor``, written by tools/write_methods.py from the op table: change that instead."""

from collections.abc import Sequence
from typing import Any, NamedTuple, overload

import numpy as np
import torch

from nbgrad.core.tensor import Tensor

Array = Tensor | torch.Tensor | np.ndarray[Any, Any]
Operand = Array | np.generic | complex

class ValuesAndIndices(NamedTuple):
    """The largest elements along a dimension, and where they were."""

    values: Tensor
    indices: Tensor

class Conversions:
    """The methods called as Python's own types, ``x.float()``: apart, so that these keep their names elsewhere."""
'''

METHODS = '''
class TensorMethods(Conversions):
    """Base of ``Tensor``: every operator and method that is a row of the op table."""
'''

TYPES = {
    "device": "torch.device | str | None",
    "dim": "int",
    "dim0": "int",
    "dim1": "int",
    "dims": "int",
    "dtype": "torch.dtype | None",
    "keepdim": "bool",
    "shape": "int",
    "size": "int",
    "sizes": "int",
}
"""What a setting takes, by its name; a row that takes something else stands in ``EXCEPTIONS``."""

EXCEPTIONS = {
    ("amax", "dim"): "int | Sequence[int]",
    ("argmax", "dim"): "int | None",
    ("mean", "dim"): "int | Sequence[int] | None",
    ("squeeze", "dim"): "int | Sequence[int] | None",
    ("sum", "dim"): "int | Sequence[int] | None",
}

NO_NUMBERS = {"copy", "matmul", "maximum"}
"""Rows of two tensors, where a number is an error."""

# Methods that are no row but choose one: what they take cannot be read off the table.
CHOOSING = {
    "__getitem__": ["def __getitem__(self, index: Any) -> Tensor"],
    "__setitem__": ["def __setitem__(self, index: Any, value: Operand) -> None"],
    "cpu": ["def cpu(self) -> Tensor"],
    "cuda": ["def cuda(self, device: torch.device | str | int | None = None) -> Tensor"],
    "gather": ["def gather(self, dim: int, index: Tensor | torch.Tensor) -> Tensor"],
    "max": [
        "def max(self) -> Tensor",
        "def max(self, dim: int, keepdim: bool = False) -> ValuesAndIndices",
        "def max(self, dim: Tensor | torch.Tensor) -> Tensor",
    ],
    "to": [
        "def to(self, device: torch.device | str, dtype: torch.dtype | None = None) -> Tensor",
        "def to(self, dtype: torch.dtype) -> Tensor",
        "def to(self, other: Tensor | torch.Tensor) -> Tensor",
        "def to(self, *, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Tensor",
    ],
    "type_as": ["def type_as(self, other: Tensor | torch.Tensor) -> Tensor"],
    "zero_": ["def zero_(self) -> Tensor"],
    "where": ["def where(self, condition: Tensor | torch.Tensor, other: Operand) -> Tensor"],
}


def stub() -> str:
    """The text of the whole file, laid out as the linter wants it."""
    conversions = [written(f"def {name}(self) -> Tensor", made.__doc__ or "") for name, made in functions(Conversions)]
    methods = [text for name, _ in functions(TensorMethods) for text in method(name)]
    text = HEADER + "".join(f"\n{text}" for text in [*conversions, METHODS, *methods])
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(STUB), "-"]
    return subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def functions(kind: type) -> list[tuple[str, FunctionType]]:
    """What is a method in the class itself, by name."""
    return [(name, value) for name, value in vars(kind).items() if isinstance(value, FunctionType)]


def method(name: str) -> Iterator[str]:
    """The text of one method, once for each way to call it; nothing for what is no method of a tensor."""
    function = getattr(TensorMethods, name)
    if not inspect.isfunction(function):
        return
    if name in CHOOSING:
        ways = CHOOSING[name]
        for way in ways:
            yield written(way, function.__doc__ or "", overloaded=len(ways) > 1)
    elif (row := OPS.get(name) or OPS.get(name.removesuffix("_"))) is not None:
        yield written(f"def {name}({', '.join(['self', *parameters(row)])}) -> Tensor", function.__doc__ or "")
    else:
        yield operator(name, function)


def operator(name: str, function: object) -> str:
    """The text of a Python operator."""
    operands = len(inspect.signature(function).parameters) - 1  # type: ignore[arg-type]
    if name in {"__eq__", "__ne__"}:  # of anything else than a tensor or a number Python itself says that it differs
        return f"    def {name}(self, other: Any) -> Tensor: ...  # type: ignore[override]\n"
    kind = "Array" if "matmul" in name else "Operand"
    return f"    def {name}(self{f', other: {kind}' * operands}) -> Tensor: ...\n"


def parameters(row: Op) -> Iterator[str]:
    """What a method takes besides the tensor: further inputs, then settings, which torch also takes by position."""
    if row.shown > 1:
        raise SystemExit(f"{row.name} gives several tensors: write in CHOOSING what its method returns")
    for position, name in enumerate(row.inputs[1:], 1):
        kind = "Array" if row.name in NO_NUMBERS else "Operand"
        yield f"{name}: {kind}" + (" | None = None" if position >= len(row.inputs) - row.optional else "")
    for name, default in row.defaults.items():
        if (kind := EXCEPTIONS.get((row.name, name), TYPES.get(name, ""))) == "":
            raise SystemExit(f"write in TYPES what {name!r} of {row.name!r} takes")
        if name == row.variadic:
            yield f"*{name}: {kind} | Sequence[{kind}]"
        else:
            yield f"{name}: {kind}" + ("" if default is inspect.Parameter.empty else f" = {default!r}")


def written(head: str, doc: str, *, overloaded: bool = False) -> str:
    """A method with the first sentence of its docstring."""
    line = inspect.cleandoc(doc).split("\n")[0]
    quotes = 'r"""' if "\\" in line else '"""'
    decorator = "    @overload\n" if overloaded else ""
    return f'{decorator}    {head}:\n        {quotes}{line}"""\n'


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
    print(f"wrote {STUB.relative_to(ROOT)}")
