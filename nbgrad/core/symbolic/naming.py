"""The names of the values of a program: those of arguments, parameters, ops and gradients."""

import keyword
import unicodedata
from collections.abc import Iterable
from typing import Any

from nbgrad.core.symbolic.ir import Listing, name_of

_TAKEN = frozenset(("torch", "F", "aten", "ops", "nbgrad", "slice", "complex", *keyword.kwlist))
"""The names in the source of a program besides those of its values."""


def name_values(
    program: Listing,
    modules: Iterable[Any],
    variables: dict[int, str],
    states: dict[int, tuple[Any, str]],
) -> None:
    """Give every value a name that is a Python identifier, and is used once.

    Args:
        program: whose values get names.
        modules: whose parameters and buffers have names.
        variables: the names of other tensors, by their ids.
        states: for the tensors in the states of optimizers the parameter and the key, by their ids.
    """
    names = Names()
    for value in program.inputs:
        value.name = names.fresh(value.name or "input")
    paths = {**variables, **_parameter_paths(modules)}

    def told(tensor: Any, data: Any) -> str | None:
        return paths.get(id(tensor)) or getattr(tensor, "name", None) or paths.get(id(data))

    for value in program.captured:
        known = told(value.owner, value.data)
        if known is None and (state := states.get(id(value.data))) is not None:
            known = f"{state[1]}_{told(state[0], state[0]._data) or 'parameter'}"
        value.name = names.fresh(known or "constant")
    for step in program.steps:
        for position, value in enumerate(step.results()):
            row = step.row
            if value.gradient_of is not None:
                base = f"d_{value.gradient_of.name or value.gradient_of.number}"
            elif row is not None and any(value is one for one in row.results):
                place = next(place for place, one in enumerate(row.results) if one is value)
                part = row.op.results[place] if place and place < len(row.op.results) else ""
                base = f"{row.op.name}_{part}" if part else row.op.name
            else:
                base = name_of(step.function) + (f"_{position}" if position else "")
            value.name = names.fresh(base)


class Names:
    """Names that are used once."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def take(self, name: str) -> None:
        """Let a name be used."""
        self._used[name] = 1

    def fresh(self, wanted: str) -> str:
        """``wanted`` as an identifier, with a number from the second use on."""
        known = unicodedata.normalize("NFKC", wanted)  # as Python reads a name: two that look alike are one
        base = (
            "".join(sign if sign.isalnum() and f"_{sign}".isidentifier() else "_" for sign in known).strip("_")
            or "value"
        )
        if not base.isidentifier():
            base = f"v{base}"
        if base in _TAKEN:
            base += "_"
        name = base
        while name in self._used:
            self._used[base] = self._used.get(base, 1) + 1
            name = f"{base}_{self._used[base]}"
        self._used[name] = 1
        return name


def _parameter_paths(modules: Iterable[Any]) -> dict[int, str]:
    """For the parameters and buffers of modules the path, by the id of the tensor."""
    paths: dict[int, str] = {}
    for module in modules:
        for path, one in (*module.named_parameters(), *module.named_buffers()):
            name = path.replace(".", "_")
            name = f"w{name}" if name[0].isdigit() else name
            paths.setdefault(id(one), name)
            paths.setdefault(id(one._data), name)  # some buffers are used as torch's tensors
    return paths
