"""The page on other people's models, its table of programs, and the faults in a result."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from tests.models.packages import LEFT_OUT
from tests.models.result import EQUAL, Result

RESULTS = Path(__file__).with_name("results.md")
"""The table of programs, as ``make models`` wrote it."""

RANKS = ["different", "error", "refused", "equal"]
"""The possible results of a converted model, from the worst to the best."""

HEAD = ["package", "version", "program", "ops", "recorded", "time", "memory", "converted", "time, converted", "error"]


def rank(converted: str) -> int:
    """The rank of a result in ``RANKS``."""
    return RANKS.index("equal" if converted in EQUAL else converted)


def faults(package: str, result: Result, known: str) -> list[str]:
    """The faults in ``result``.

    Args:
        package: the name that pip knows it by.
        result: the result of one of its programs.
        known: the table of programs as it was written before.
    """
    name = f"{package} {result.program}"
    found = [] if result.recorded == "equal" else [f"{name}, recorded: {result.recorded}"]
    if not result.converted:
        return found
    before = written(known).get((package, result.program))
    least = "refused" if before is None else before  # for a new program, an error that does not name nbgrad is a fault
    if rank(result.converted) < rank(least):
        found.append(f"{name}, converted: {result.converted} ({result.message}), which was {before or 'not there'}")
    return found


def rows_of(text: str) -> list[list[str]]:
    """The rows of the table of programs in a text."""
    rows = [
        [cell.strip() for cell in line[1:].rstrip("|").split(" |")] for line in text.splitlines() if line[:1] == "|"
    ]
    return [row for row in rows if len(row) == len(HEAD) and row[0] not in {"package", "---"}]


def written(text: str) -> dict[tuple[str, str], str]:
    """The results of all converted programs in the table, by package and program."""
    return {(row[0], row[2]): row[7] for row in rows_of(text) if row[7]}


def results(rans: Iterable[Any], known: str = "") -> str:
    """The table of programs, ``results.md``. Packages that did not run keep their rows from ``known``."""
    ran_now = {ran.package for ran in rans}
    rows = [cells for cells in rows_of(known) if cells[0] not in ran_now]
    rows += [row(ran, result) for ran in rans for result in ran.results]
    return table(HEAD, sorted(rows, key=lambda cells: cells[0].lower())) + "\n"


def programs() -> str:
    """The last part of the page in the site: the table of programs."""
    return f"## The programs\n\n{RESULTS.read_text(encoding='utf-8')}"


def page(known: str) -> str:
    """``docs/models.md``, from the table of programs."""
    rows = rows_of(known)
    equal = sum(cells[4].startswith("equal") for cells in rows)
    counts = Counter(cells[7] for cells in rows)
    kinds = ("equal to the bit", "close", "refused", "error", "different")
    times = sorted(float(cells[5]) for cells in rows if cells[5])
    middle = f"{times[len(times) // 2]:.2f}" if times else ""
    parts = [
        "# Other people's models",
        "`make models` runs programs of public packages three times: plain, recorded as they are, and converted with "
        "`nbgrad.from_torch`. The models are tiny and have random weights. The command compares the loss and "
        "every gradient, "
        "and writes this page. The site has a row for each program below: `make site` writes it to "
        "`build/site/models.html`. The rows are in `tests/models/results.md`.",
        f"- {len(rows)} programs of {len({cells[0] for cells in rows})} packages, with torch {torch.__version__}.\n"
        f"- Recorded: {equal} of {len(rows)} give the same bits as the plain run.\n"
        f"- Converted: {', '.join(f'{counts[kind]} {kind}' for kind in kinds if counts[kind])}.\n"
        + (
            f"- Inside a graph, a training step takes {middle} times as long as a plain one (the median of all "
            "programs). "
            "To open and to close the graph is counted, and takes longer than these tiny steps. "
            "[Performance](performance.md#what-it-costs-you) has models of usual size." * bool(times)
        ),
        "## The columns",
        COLUMNS,
        "## The packages",
        PACKAGES,
        "\n".join(f"- {name}: {reason}" for name, reason in LEFT_OUT.items()),
    ]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


COLUMNS = """\
- **recorded**: *equal* means four things. Loss and gradients are those of the plain run, to the bit. Every parameter
  that has a gradient has it in the graph. When the graph is closed, it keeps no object of the program alive. All
  functions that the recording had replaced in torch are restored. If a program is a whole training, with a trainer
  of the package, the trained parameters are compared, too.
- **converted**: *equal to the bit*; *close*: equal up to rounding errors; *refused*: an error that names nbgrad;
  *error*: any other error; *different*: other numbers without an error. Whole trainings are not converted.
- **time**, **memory**: of a forward and backward inside a graph that is opened and closed for it, divided by the time
  or memory of plain torch; **time, converted**: the same of the converted model. Memory is the largest number of bytes
  in torch's tensors at one moment. It does not include the bytes of small values that a graph keeps. The models are so
  small that torch itself spends most of its time between the kernels: [performance](performance.md) has models of
  usual size.
- **error**: for *refused* and *error*, the first sentence of the message. For *different*, one result that differs, by
  how much, and how many other results differ."""

PACKAGES = """\
`make models` installs the packages in `.venv-models`, which uses the torch of `.venv`. `make models-small`, a part of
`make test`, runs the packages that install in seconds.

The packages torchvision and torchaudio in the registry are built for CUDA, and their C++ parts do not load with a
torch for CPUs. For torchvision, the one op that its import needs is replaced by an op in Python. torchaudio is
installed without its C++ part. Programs that need more of either package are left out."""


def row(ran: Any, result: Result) -> list[str]:
    """A program's row."""
    return [
        ran.package,
        ran.version,
        result.program,
        str(result.ops or ""),
        result.recorded + (f" ({result.note})" if result.note else ""),
        ratio(result.time),
        ratio(result.memory),
        result.converted,
        ratio(result.converted_time),
        shortened(result.message),
    ]


def ratio(number: float | None) -> str:
    """The number as text; empty for None."""
    return "" if number is None else f"{number:.2f}"


def shortened(text: str) -> str:
    """The first sentence of a message, without what is particular to a run."""
    text = text.partition(". ")[0].replace("|", "/").replace("<", "").replace(">", "")
    return text if len(text) <= 160 else f"{text[:157]}..."


def table(head: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rows])
