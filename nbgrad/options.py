"""The options of ``%%autograd``, ``%autograd``, ``%config Autograd`` and ``nbgrad.record``: one table for all of them.

A field of ``Options`` is one option. Its type, choices, help and example stand there and nowhere else: the arguments of
the magics, the settings, the completions and the signature of ``record`` are made of it.
"""

import os
from collections.abc import Iterable
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from nbgrad.core.engine.tensor_data import check_device
from nbgrad.core.graph.history import FRAMES, HistoryRecorder
from nbgrad.core.suggestions import nearest

View = Literal["graph", "steps", "flow", "text", "none"]
Direction = Literal["TB", "LR"]
SUFFIXES = (".svg", ".png", ".pdf", ".html", ".dot", ".json", ".txt")
"""The kinds of files that a graph is written to."""


class _Configured:
    """Stands for an option that was not given: what the user has set for all cells, or what the table says."""

    def __repr__(self) -> str:
        return "<as configured>"


_CONFIGURED = _Configured()

configured: dict[str, Any] = {}
"""What the user has set with ``%config Autograd``."""


def known_device(name: str) -> None:
    """Raise a ValueError for a name that is none of a device, a RuntimeError for a GPU that is not there."""
    try:
        torch.device(name)
    except RuntimeError:
        almost = nearest(str(name), ("cpu", "cuda"))
        raise ValueError(
            f"device={name!r}: it has to be one that torch knows, as cpu, cuda or cuda:1{almost}"
        ) from None
    check_device(name)


def suffix_of(path: str | os.PathLike[str]) -> str:
    """The suffix of a file that a graph is written to, in lower case; a ValueError if it is none of those."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"{path!r}: a graph is written to a file, as 'net.svg'")
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ValueError(f"{str(path)!r}: no file can have this name")
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        what = f"a file that ends in {suffix}" if suffix else "a file without a suffix"
        raise ValueError(f"{str(path)!r}: a graph is not written to {what}, but to {', '.join(SUFFIXES)}")
    return suffix


def check_file(path: str | os.PathLike[str]) -> None:
    """Raise a ValueError for a file of another kind, a FileNotFoundError where its folder is not there."""
    suffix_of(path)
    try:
        folder = Path(path).expanduser().parent
    except RuntimeError:
        raise FileNotFoundError(f"{str(path)!r} was not written: nobody has that home folder") from None
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{str(path)!r} was not written: there is no folder {str(folder)!r}. Make it first, with "
            f"pathlib.Path({str(folder)!r}).mkdir(parents=True)"
        )


def option(default: Any, help: str, example: str, **facts: Any) -> Any:
    """One option.

    Args:
        default: its value where neither the user nor ``%config`` gives one.
        help: what it does, without a full stop.
        example: how it is written in a cell.
        facts: ``choices``: the values there are; ``suggestions``: some of them, for completion; ``least``: the smallest
            number; ``check``: raises for others that cannot be; ``every=False``: it belongs to one graph, so that there
            is no default to set for every cell.
    """
    return field(default=_CONFIGURED, metadata={"default": default, "help": help, "example": example, **facts})


@dataclass
class Options:
    """What is recorded, and what is shown of it; what is not given is as ``%config Autograd`` has it.

    Raises:
        ValueError: a value that is none of the option's; the message names those there are.
        RuntimeError: a CUDA device is asked for where there is none.
        FileNotFoundError: the folder of the file to write is not there.
    """

    name: str | None = option(None, "what the picture calls the graph", "--name 'my first net'", every=False)
    device: str | None = option(
        None, "where tensors and parameters are made", "--device cuda", suggestions=("cpu", "cuda"), check=known_device
    )
    depth: int | None = option(
        None,
        "draw modules folded that are nested deeper; default: as far as fits",
        "--depth 1",
        least=0,
        suggestions=("0", "1", "2", "none"),
    )
    direction: Direction = option(
        "TB", "draw from top to bottom or from left to right", "--direction LR", choices=get_args(Direction)
    )
    view: View = option("graph", "what stands under the cell", "--view text", choices=get_args(View))
    history: int = option(
        FRAMES,
        "of how many backwards the norms of the gradients are kept",
        "--history 200",
        least=0,
        suggestions=("0", "200", "1000"),
        check=HistoryRecorder,
    )
    watch: bool = option(True, "keep gradients and small values of intermediate tensors, to show them", "--no-watch")
    budget: int = option(
        256,
        "how many MiB of gradients are kept; of further ones their norms",
        "--budget 64",
        least=0,
        suggestions=("64", "256", "1024"),
    )
    time: bool = option(False, "measure how long each op and its rules take, to show it", "--time")
    anomaly: bool = option(False, "stop at the first op that makes a NaN or an Inf, and say why", "--anomaly")
    strict_broadcast: bool = option(False, "stop at an op that would stretch a tensor", "--strict-broadcast")
    save: str | Path | None = option(
        None,
        f"write the graph to a file that ends in {', '.join(SUFFIXES)}",
        "--save net.svg",
        every=False,
        check=check_file,
    )

    def __post_init__(self) -> None:
        for one in TABLE:
            if getattr(self, one.name) is _CONFIGURED:
                setattr(self, one.name, configured.get(one.name, one.metadata["default"]))
            check(one, getattr(self, one.name))


TABLE: tuple[Field[Any], ...] = fields(Options)


def check_known(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise a TypeError for the first of the options ``given`` to ``function`` that is not ``known`` to it."""
    known = tuple(known)
    for name in given:
        if name not in known:
            of_record = name in {one.name for one in TABLE}
            hint = "; nbgrad.record has it" if of_record else nearest(name, known)
            raise TypeError(f"{function}() has no option {name}, only {', '.join(known)}{hint}")


def check(one: Field[Any], value: Any) -> None:
    """Raise a ValueError if ``value`` is none of the option's."""
    wanted, facts = None, one.metadata
    if value is None and facts["default"] is None:
        return
    if "choices" in facts and value not in facts["choices"]:
        wanted = f"one of {', '.join(facts['choices'])}{nearest(str(value), facts['choices'])}"
    elif one.type is bool and not isinstance(value, bool):
        wanted = "True or False"
    elif "least" in facts and (type(value) is not int or value < facts["least"]):
        wanted = f"a whole number, {facts['least']} or more{', or none' if optional(one) else ''}"
    if wanted is not None:
        raise ValueError(f"{one.name}={value!r}: it has to be {wanted}")
    if "check" in facts:
        facts["check"](value)


def optional(one: Field[Any]) -> bool:
    """Whether no value is one too, which holds for all cells where nothing else is set."""
    return one.metadata["default"] is None and bool(one.metadata.get("every", True))


def flag(one: Field[Any]) -> str:
    """How an option is written in a cell: ``--strict-broadcast``."""
    return f"--{one.name.replace('_', '-')}"
