"""Write into docs/symbolic.md which rows of the op table a trace does not make plain functions of torch of.

It traces some samples of every row, which takes half a minute or more: ``python -m tools.write_traced_rows``.
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
    """The text with the table of these rows."""
    named(text)
    table = "".join(f"{line}\n" for name, one in found.items() for line in lines(OPS[name], one))
    return _TABLE.sub(lambda _: table, text, count=1)


def main() -> None:
    """Trace every row, and write the table."""
    warnings.simplefilter("ignore")
    found = {name: found_by_tracing(OPS[name]) for name in sorted(OPS)}
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
