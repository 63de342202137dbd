"""Tables as text."""

from collections.abc import Container


def columns(rows: list[list[str]], left: Container[int]) -> list[str]:
    """The lines of a table: the ``left`` columns are aligned at their left ends, the others at their right ends."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if at in left else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
