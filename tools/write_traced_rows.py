"""Write into docs/symbolic.md which rows of the op table a trace does not make plain functions of torch of.

It traces some samples of a row, also its second gradient, which takes a second or more for most rows:
``python -m tools.write_traced_rows logcosh``. Without names it traces all rows, which takes six minutes.
"""

import os
import re
import sys
import warnings
from pathlib import Path

if __name__ == "__main__":  # where a test imports this module, its process has made the choice
    os.environ["NBGRAD_COMPILED"] = "0"
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from nbgrad.core.dispatch.table import OPS, Op  # noqa: E402
from tests.core.symbolic.traced_rows import Traced, found_by_tracing  # noqa: E402

PAGE = ROOT / "docs" / "symbolic.md"

HEAD = "| row | in a program |\n|---|---|\n"
_TABLE = re.compile(rf"(?<={re.escape(HEAD)})(?:\|.*\n)*")
"""The lines of the table in ``PAGE``."""
_WHERE = {0: "forward", 1: "gradient", 2: "second gradient"}


def lines(row: Op, found: Traced) -> list[str]:
    """The line of a row in the table. Empty if all steps of the row are functions of torch, as for most rows."""
    said = [
        f"calls `{name}` ({', '.join(_WHERE[order] for order in sorted(orders))})"
        for name, orders in sorted(found.opaque.items())
    ]
    said += [f"changes `{name}`" for name in sorted(found.mutates)]
    said += ["draws random numbers"] * found.random
    said += [f"is refused: {reason}" for reason in dict.fromkeys(found.refused.values())]
    return [f"| `{row.name}` | {'; '.join(said)} |"] if said else []


def named(text: str) -> list[str]:
    """The lines of the table in a text, in its order.

    Raises:
        ValueError: the text has no such table.
    """
    if (table := _TABLE.search(text)) is None:
        raise ValueError(f"{PAGE.name} has no table that begins with {HEAD!r}")
    return table[0].splitlines()


def page(text: str, found: dict[str, Traced]) -> str:
    """The text with the lines of these rows in its table; other rows keep theirs, and what is no row has none."""
    told = {name: [line] for line in named(text) if (name := line.split("`")[1]) in OPS}
    told |= {name: lines(OPS[name], one) for name, one in found.items()}
    table = "".join(f"{line}\n" for name in sorted(told) for line in told[name])
    return _TABLE.sub(lambda _: table, text, count=1)


def main(names: list[str]) -> None:
    """Trace these rows, or all, and write the table.

    Raises:
        ValueError: there is no such row.
    """
    warnings.simplefilter("ignore")
    if unknown := sorted({*names} - OPS.keys()):
        raise ValueError(f"no rows of the op table: {', '.join(unknown)}")
    found = {name: found_by_tracing(OPS[name]) for name in names or OPS}
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
