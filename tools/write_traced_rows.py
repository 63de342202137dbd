"""Write docs/symbolic_rows.md, the page that says of every row of the op table what a trace makes of it.

It traces some samples of every row, which takes half a minute or more: ``python -m tools.write_traced_rows``.
"""

import os
import re
import sys
import warnings
from collections import Counter
from pathlib import Path

if __name__ == "__main__":  # where a test imports this module, its process has made the choice
    os.environ["NBGRAD_COMPILED"] = "0"
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from nbgrad.core.dispatch.table import OPS, Op  # noqa: E402
from tests.core.symbolic.traced_rows import Traced, found_by_tracing  # noqa: E402

PAGE = ROOT / "docs" / "symbolic_rows.md"

INTRO = """# Every op in a traced program

<!-- Written by python -m tools.write_traced_rows, which traces the samples of every row: change those instead. -->

`nbgrad.trace` turns a function into a program without computing numbers. So an op whose steps depend on numbers needs
special treatment. The {count} rows of the op table, with their gradients and second gradients, are of three
kinds:

- **{traced} are traced**: their steps are functions of torch;
- **{opaque} have an opaque step**: a function of nbgrad that depends on numbers, and that each run calls;
- **{refused} are refused** for some arguments: the size of a result depends on numbers. The error names the line.

A program gives the same bits as the function, and a test compares them for every row. An opaque step cannot be a part
of a fused kernel, and some exports do not support it. In-place ops, such as `x.add_(y)`, are traced like the rows.

The column "opaque steps" names the opaque functions, and says where each is called: in the forward, in the gradient, or
in the second gradient. A row with "yes" under "random" draws random numbers: each run of a program draws again, in the
same order as the function. The column "changes" names the inputs that a row changes in place.

| row | kind | opaque steps | random | changes |
|---|---|---|---|---|
"""
REFUSED = """
## Refused

| row | arguments | reason |
|---|---|---|
"""
_WHERE = {0: "forward", 1: "gradient", 2: "second gradient"}


def line(row: Op, found: Traced) -> str:
    """The line of a row in the table."""
    opaque = ", ".join(
        f"`{name}` ({', '.join(_WHERE[order] for order in sorted(orders))})"
        for name, orders in sorted(found.opaque.items())
    )
    changes = ", ".join(f"`{name}`" for name in sorted(found.mutates))
    return f"| `{row.name}` | {found.kind} | {opaque} | {'yes' * found.random} | {changes} |"


def page(found: dict[str, Traced]) -> str:
    """The page, from what was found out about each row."""
    counts = Counter(one.kind for one in found.values())
    lines = [line(OPS[name], one) for name, one in found.items()]
    refused = [
        f"| `{name}` | `{sample}` | {reason} |" for name, one in found.items() for sample, reason in one.refused.items()
    ]
    intro = INTRO.format(count=len(found), **{kind: counts[kind] for kind in ("traced", "opaque", "refused")})
    return intro + "\n".join(lines) + "\n" + REFUSED + "\n".join(refused) + "\n"


def names(text: str) -> list[str]:
    """The rows that the page has a line for."""
    return sorted(re.findall(r"^\| `(\w+)` \| (?:traced|opaque|refused) \|", text, re.MULTILINE))


def main() -> None:
    """Trace every row, and write the page."""
    warnings.simplefilter("ignore")
    PAGE.write_text(page({name: found_by_tracing(OPS[name]) for name in sorted(OPS)}), encoding="utf-8")


if __name__ == "__main__":
    main()
