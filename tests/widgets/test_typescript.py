"""The front end's interfaces are the TypedDicts of the description; this file writes them.

To update them, run ``python tests/widgets/test_typescript.py > nbgrad/widgets/src/description.ts`` in the repository's
root.
"""

import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest

import nbgrad.widgets.description.schema as contract

pytestmark = pytest.mark.once

SOURCE = Path(contract.__file__).parents[1] / "src" / "description.ts"
HEADER = (
    "// Written from nbgrad/widgets/description/schema.py by tests/widgets/test_typescript.py; a test compares the two."
)
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def typescript(hint: Any) -> str:
    if hint in PLAIN:
        return PLAIN[hint]
    if is_typeddict(hint):
        return hint.__name__
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        named = {contract.Kind: "Kind", contract.Opens: "Opens"}
        return named[hint] if hint in named else " | ".join(f'"{value}"' for value in arguments)
    if origin is list:
        inner = typescript(arguments[0])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if origin is dict:
        return f"Record<string, {typescript(arguments[1])}>"
    if origin in (Union, types.UnionType):
        return " | ".join(typescript(argument) for argument in arguments)
    raise TypeError(f"no TypeScript for {hint}")


def interfaces() -> str:
    lines = [HEADER]
    for name in ("Kind", "Opens"):
        values = " | ".join(f'"{value}"' for value in get_args(getattr(contract, name)))
        lines += ["", f"export type {name} = {values};"]
    for name, thing in vars(contract).items():
        if is_typeddict(thing) and thing.__module__ == contract.__name__:
            fields = [f"  {field}: {typescript(hint)};" for field, hint in get_type_hints(thing).items()]
            lines += ["", f"export interface {name} {{", *fields, "}"]
    return "\n".join(lines) + "\n"


def test_the_interfaces_are_those_of_the_description() -> None:
    expected = interfaces()
    assert SOURCE.read_text(encoding="utf-8") == expected, f"write this to {SOURCE.name}:\n{expected}"


def test_every_shape_of_hint_is_written() -> None:
    assert "dims: number[];" in interfaces()
    assert "reduction: Reduction | null;" in interfaces()
    assert "edges: Record<string, number[][][]>;" in interfaces()
    assert "kind: Kind;" in interfaces()


if __name__ == "__main__":
    print(interfaces(), end="")
