"""What comes of a case of torch's op database. It imports no torch: a process that makes none starts at once."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Result:
    """What came of one case.

    Attributes:
        case: its name.
        counts: for each column how many samples agree, of how many that were compared.
        whole: how many samples agree in every column, of how many.
        reasons: what went wrong, by column and text: in how many samples.
        failing: the number of the first sample that does not agree.
        seconds: how long it took.
    """

    case: str
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    whole: tuple[int, int] = (0, 0)
    reasons: Counter[tuple[str, str]] = field(default_factory=Counter)
    failing: int | None = None
    seconds: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether there were samples, and all of them agree in all columns."""
        return self.whole[1] > 0 and not self.reasons

    def add(self, number: int, found: dict[str, str]) -> None:
        """Count one sample."""
        self.whole = (self.whole[0] + (not any(found.values())), self.whole[1] + 1)
        for column, reason in found.items():
            passed, total = self.counts.get(column, (0, 0))
            self.counts[column] = (passed + (not reason), total + 1)
            if reason:
                self.reasons[column, reason] += 1
                self.failing = number if self.failing is None else self.failing
