"""``SavedPlace``: a line of the user's code in a program that came from a file."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SavedPlace:
    """A line of code as it was when the program was saved. It has the attributes of a ``Place``."""

    file: str
    line: int
    text: str
    cell: bool

    @property
    def called(self) -> str | None:
        """The name of the function that the line calls, which a file does not hold."""
        return None

    def same(self, other: object) -> bool:
        """Whether both are one line."""
        return self == other

    def __str__(self) -> str:
        where = f"line {self.line} of the cell" if self.cell else f"{self.file}:{self.line}"
        return f"{where}, `{self.text}`" if self.text else where
