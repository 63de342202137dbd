"""The package's contents page and the op table agree."""

import inspect

import torch

import nbgrad
from nbgrad.core.op import OPS, Op

CHOOSING = {"max"}
"""torch's names for what is several rows of ours."""


def wanted() -> set[str]:
    """Rows that torch has under the same name, but for those that only rules use."""
    return {name for name in OPS if hasattr(torch, name) and not name.endswith("_backward")} | CHOOSING


def exported() -> set[str]:
    """What of the table the package exports: rows, and functions that choose one."""
    return {
        name
        for name, value in vars(nbgrad).items()
        if isinstance(value, Op) or (inspect.isfunction(value) and value.__module__.startswith("nbgrad.core.ops."))
    }


def test_every_row_that_torch_has_is_exported_and_no_other() -> None:
    lines = "\n".join(f"    {name} as {name}," for name in sorted(wanted()))
    assert exported() == wanted(), f"nbgrad/__init__.py is to have\n\nfrom nbgrad.core.ops import (\n{lines}\n)"


def test_an_exported_name_is_the_row_of_that_name() -> None:
    for name in exported() - CHOOSING - {"gather"}:  # gather has torch's order of arguments
        assert getattr(nbgrad, name) is OPS[name]


def test_a_name_that_torch_has_means_the_same_there() -> None:
    for name, value in vars(nbgrad).items():
        if isinstance(value, torch.dtype):
            assert value is getattr(torch, name)


if __name__ == "__main__":
    print(*sorted(wanted()), sep="\n")
