"""The result of a case of torch's op database. This module imports no torch, so its processes start at once."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Result:
    """The result of one case.

    Attributes:
        case: its name.
        counts: for each column the number of samples that agree, and the number that were compared.
        whole: the number of samples that agree in every column, and the number of all.
        reasons: for each column and text of a failure, the number of samples.
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
