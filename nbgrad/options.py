"""The options of ``%%autograd``, ``%autograd``, ``%config Autograd`` and ``nbgrad.record``: one table for all of them.

Each field of ``Options`` is one option, with its type, choices, help and example. The arguments of the magics, the
settings, the completions and the signature of ``record`` are all derived from these fields.

The engine is imported only to refuse a value and to look for a device: the command reads its options without torch.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any, Literal, get_args

from nbgrad.choices import ALL, COST, FRAMES, KINDS, UNSILENCED, is_launched, kinds_in

View = Literal["graph", "steps", "flow", "text", "none"]
Direction = Literal["auto", "TB", "LR"]
GRAPH = ".nbgrad"
"""The suffix of a file that ``nbgrad.load`` reads."""

SUFFIXES = (".svg", ".png", ".pdf", ".html", ".gif", ".dot", ".json", ".txt", GRAPH)
"""The suffixes of the file formats that a graph can be written in."""


_MADE_BY = {
    ".png": ("resvg_py", "resvg-py", "resvg-py"),
    ".gif": ("PIL", "pillow", "pillow"),
    ".pdf": ("typst", "typst", '"nbgrad[pdf]"'),
}
"""By suffix, the package that makes such a file: its names in Python and for pip, and the words after pip install."""

_FILMS = (".mp4", ".webm", ".mov", ".avi", ".mkv", ".apng", ".webp")


class _Configured:
    """The value of an option that was not given. The configured default replaces it, or else that of the table."""

    def __repr__(self) -> str:
        return "<as configured>"


_CONFIGURED = _Configured()

configured: dict[str, Any] = {}
"""The defaults that the user has set with ``%config Autograd``, by the name of the option."""


WHOLE = ("time", "ranks", "anomaly", "strict_broadcast")
"""The options that have to see every op, so that each step of a loop is recorded."""


def share(written: str | float) -> float:
    """A share as a number: 0.05 of "5%" or "0.05"; raise a ValueError if it is none between 0 and 1."""
    text = str(written).strip()
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if isinstance(written, bool) or not 0 < found <= 1:
        raise ValueError(f"cost={written!r}: it has to be a share of the time of a loop, such as 5% or 0.05")
    return found


def known_device(name: str) -> None:
    """Raise a ValueError if torch knows no device of this name, a RuntimeError if the machine lacks the device."""
    import torch

    from nbgrad.core.engine.tensor_data import check_device

    try:
        torch.device(name)
    except RuntimeError:
        almost = _nearest(str(name), ("cpu", "cuda"))
        raise ValueError(
            f"device={name!r}: it has to be a device that torch knows, such as cpu, cuda or cuda:1{almost}"
        ) from None
    check_device(name)


def _nearest(given: str, known: Sequence[str]) -> str:
    from nbgrad.core.suggestions import nearest

    return nearest(given, known)


def known_frames(limit: int) -> None:
    """Raise a ValueError if so many frames have no room for a first and a last one."""
    if limit == 1:
        from nbgrad.core.graph.history import HistoryRecorder

        HistoryRecorder(limit)


def known_names(asked: "str | Iterable[str] | bool") -> None:
    """Raise a ValueError if these are no names of tensors."""
    if asked is not False:
        from nbgrad.core.graph.answers import names_of

        names_of(asked)


def known_group(wanted: bool) -> None:
    """Raise a RuntimeError if ranks should be compared, and there is no process group and none can be expected."""
    if wanted and not is_launched():
        from nbgrad.core.graph.rank_recorder import check_group

        check_group(wanted)


def known_kinds(silenced: "str | Iterable[str]") -> None:
    """Raise a ValueError if these are no kinds of findings, or kinds that cannot be silenced."""
    if not {*kinds_in(silenced)} <= {*KINDS} - {*UNSILENCED}:
        from nbgrad.core.graph.silence import silenced_kinds  # it knows the kinds that were added from outside

        silenced_kinds(silenced)


def suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix of ``path`` in lower case; raise a ValueError if it is not one of ``SUFFIXES``."""
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"{path!r}: a graph is written to a file, such as 'net.svg'")
    try:
        possible = b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ValueError(f"{str(path)!r}: no file can have this name")
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        what = f"a file that ends in {suffix}" if suffix else "a file without a suffix"
        film = ". A film of the step is a .gif, or a .html, which plays its steps" if suffix in _FILMS else ""
        raise ValueError(f"{str(path)!r}: a graph is not written to {what}, but to {', '.join(SUFFIXES)}{film}")
    return suffix


def check_file(path: str | os.PathLike[str]) -> None:
    """Raise a ValueError for an unknown file format, an OSError if the folder does not exist or is a file."""
    suffix_of(path)
    check_folder(path)


def check_package(path: str | os.PathLike[str]) -> None:
    """Raise a ModuleNotFoundError if the package that makes a file like ``path`` is not installed."""
    suffix = Path(path).suffix.lower()
    name, package, install = _MADE_BY.get(suffix, ("os", "", ""))
    if find_spec(name) is None:
        raise ModuleNotFoundError(
            f"{str(path)!r} was not written: a {suffix} file is made by the package {package}, which is not installed. "
            f"Run: pip install {install}   (or save it as .svg)",
            name=name,
        )


def check_folder(path: str | os.PathLike[str], *, shell: bool = False) -> None:
    """Raise an OSError if the folder of the file ``path`` does not exist, or is a file.

    ``shell``: the message has the command of a shell that makes it, and not the line of Python.
    """
    try:
        folder = Path(path).expanduser().parent
    except RuntimeError:
        raise FileNotFoundError(f"{str(path)!r} was not written: there is no such home folder") from None
    if not folder.is_dir():
        file = next((one for one in (folder, *folder.parents) if one.is_file()), None)
        if file is not None:
            raise NotADirectoryError(f"{str(path)!r} was not written: {str(file)!r} is a file and no folder")
        make = f"mkdir -p {quote(str(folder))}" if shell else f"pathlib.Path({str(folder)!r}).mkdir(parents=True)"
        raise FileNotFoundError(
            f"{str(path)!r} was not written: there is no folder {str(folder)!r}. Make it first, with {make}"
        )


def option(default: Any, help: str, example: str, **facts: Any) -> Any:
    """Declare one option.

    Args:
        default: the value, if neither the call nor ``%config`` gives one.
        help: the effect of the option: a verb in the imperative, without a full stop.
        example: the option as it is written in a cell.
        facts: ``choices``: all allowed values; ``suggestions``: some allowed values, for completion; ``least``: the
            smallest allowed number; ``check``: a function that raises for a value that is not allowed; ``every=False``:
            the option belongs to one graph, so it has no default for every cell; ``bare``: the value in a cell that
            gives the option without one; ``command=False``: the option is about the output of a cell, so
            ``nbgrad run`` does not have it.
    """
    return field(default=_CONFIGURED, metadata={"default": default, "help": help, "example": example, **facts})


@dataclass
class Options:
    """The options of one graph: what it records and what it shows. ``%config Autograd`` sets the defaults.

    Raises:
        ValueError: the option does not allow this value; the message lists the allowed values.
        RuntimeError: the option asks for a CUDA device, but the machine has none.
        FileNotFoundError: the folder of the file to write does not exist.
    """

    name: str | None = option(None, "set the title of the picture", "--name 'my first net'", every=False)
    device: str | None = option(
        None,
        "make new tensors and parameters on this device",
        "--device cuda",
        suggestions=("cpu", "cuda"),
        check=known_device,
    )
    depth: int | None = option(
        None,
        "draw each module that is nested deeper as one box; default: fold until the picture fits",
        "--depth 1",
        least=0,
        suggestions=("0", "1", "2", "none"),
    )
    nodes: int | None = option(
        None,
        "draw up to this many nodes before modules are folded; default: fold until the picture fits",
        "--nodes 1000",
        least=1,
        suggestions=("300", "1000", "none"),
    )
    direction: Direction = option(
        "auto",
        "draw from top to bottom (TB), from left to right (LR), or with the larger letters (auto)",
        "--direction LR",
        choices=get_args(Direction),
    )
    view: View = option(
        "graph", "choose the output under the cell", "--view text", choices=get_args(View), command=False
    )
    projector: bool = option(
        False, "draw for a projector: letters of 20 points, and the frame out of the way", "--projector", command=False
    )
    history: int = option(
        FRAMES,
        "keep the norms of the gradients of this many backwards",
        "--history 200",
        least=0,
        suggestions=("0", "200", "1000"),
        check=known_frames,
    )
    watch: bool = option(
        True, "keep the gradients and the small values of intermediate tensors, to show them", "--no-watch"
    )
    budget: int = option(
        256,
        "keep this many MiB of gradients, and only the norms of further gradients",
        "--budget 64",
        least=0,
        suggestions=("64", "256", "1024"),
    )
    ask: str | Sequence[str] | bool | None = option(
        None,
        "ask for the gradients of these tensors, or of all, and hide them in the picture until they are answered",
        "--ask 'w, b'",
        every=False,
        bare=ALL,
        check=known_names,
        command=False,
    )
    every: int | None = option(
        None,
        "record the first two steps of a training loop, then one of so many; default: as many as --cost allows",
        "--every 10",
        least=1,
        suggestions=("1", "10", "100"),
    )
    cost: str | float = option(
        f"{COST:.0%}",
        "let recording add this share of the time of a training loop",
        "--cost 2%",
        suggestions=("2%", "5%", "20%"),
        check=share,
    )
    time: bool = option(
        False, "measure how long each op takes, forward and backward, and show it; it records every step", "--time"
    )
    stages: bool = option(
        False, "print how long each stage takes until the picture is there", "--stages", command=False
    )
    ranks: bool = option(
        False,
        "compare the gradients of the processes before DistributedDataParallel or fully_shard averages them; rank 0 "
        "shows it; it records every step",
        "--ranks",
        check=known_group,
    )
    anomaly: bool = option(
        False, "stop at the first op that makes a NaN or an Inf, and say why; it records every step", "--anomaly"
    )
    strict_broadcast: bool = option(
        False, "stop at an op that would stretch a tensor; it records every step", "--strict-broadcast"
    )
    inside_compiled: bool = option(
        False,
        "show the ops that torch.compile traced in each of its functions, its graph breaks and why it compiled again",
        "--inside-compiled",
    )
    silence: str | Sequence[str] | None = option(
        None,
        "leave out findings of these kinds; graph.checkup() counts them",
        "--silence 'frozen, no activation'",
        suggestions=tuple(one.replace(" ", "-") for one in KINDS if one not in UNSILENCED),
        check=known_kinds,
    )
    save: str | Path | None = option(
        None,
        f"write the graph to a file that ends in {', '.join(SUFFIXES)}",
        "--save net.svg",
        every=False,
        check=check_file,
    )

    def __post_init__(self) -> None:
        given = {one.name for one in TABLE if getattr(self, one.name) is not _CONFIGURED}
        for one in TABLE:
            if one.name not in given:
                setattr(self, one.name, configured.get(one.name, one.metadata["default"]))
            check(one, getattr(self, one.name))
        check_together({name: getattr(self, name) for name in given})

    def paced(self) -> dict[str, Any]:
        """Which steps of a loop are recorded, as arguments of ``AutogradGraph``."""
        whole = any(getattr(self, name) for name in WHOLE)
        return {"every": 1 if whole else self.every, "cost": share(self.cost)}

    def drawn(self) -> dict[str, Any]:
        """How a picture is drawn, as arguments of what draws it or writes it to a file."""
        return {name: getattr(self, name) for name in ("depth", "nodes", "direction")}

    def shown(self) -> dict[str, Any]:
        """The same for the cell of a notebook, IPython's or marimo's."""
        return {**self.drawn(), "projector": self.projector}


TABLE: tuple[Field[Any], ...] = fields(Options)


def check_known(function: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise a TypeError for the first name in ``given`` that is not ``known``, the options that ``function`` has."""
    known = tuple(known)
    for name in given:
        if name not in known:
            of_record = name in {one.name for one in TABLE}
            hint = "; nbgrad.record has it" if of_record else _nearest(name, known)
            raise TypeError(f"{function}() has no option {name}, only {', '.join(known)}{hint}")


def check(one: Field[Any], value: Any) -> None:
    """Raise a ValueError if the option does not allow ``value``; the ``check`` of the option may raise other errors."""
    wanted, facts = None, one.metadata
    if value is None and facts["default"] is None:
        return
    if "choices" in facts and value not in facts["choices"]:
        wanted = f"one of {', '.join(facts['choices'])}{_nearest(str(value), facts['choices'])}"
    elif one.type is bool and not isinstance(value, bool):
        wanted = "True or False"
    elif "least" in facts and (type(value) is not int or value < facts["least"]):
        wanted = f"a whole number, {facts['least']} or more{', or none' if optional(one) else ''}"
    if wanted is not None:
        raise ValueError(f"{one.name}={value!r}: it has to be {wanted}")
    if "check" in facts:
        facts["check"](value)


def check_together(given: Mapping[str, Any]) -> None:
    """Raise a ValueError if two of the options that were ``given`` contradict each other."""
    whole, every = next((name for name in WHOLE if given.get(name)), None), given.get("every")
    if whole is not None and every not in (None, 1):
        raise ValueError(f"every={every}: with {whole} each step is recorded, so leave one of the two out")


def optional(one: Field[Any]) -> bool:
    """Whether None is allowed as a default for every cell; it then resets the option."""
    return one.metadata["default"] is None and bool(one.metadata.get("every", True))


def flag(one: Field[Any]) -> str:
    """Return the option as it is written in a cell: ``--strict-broadcast``."""
    return f"--{one.name.replace('_', '-')}"
