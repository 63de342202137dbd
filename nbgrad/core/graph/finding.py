"""A finding: something in a graph that is wrong, or probably not meant, as data.

The core has only the class of a finding. The renderer looks for findings, because they need modules, which are above
the core.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from nbgrad.core.engine.place import Place

FindingKind = Literal[
    "failed",
    "inplace",
    "nan",
    "unreached",
    "zero gradient",
    "vanishing",
    "exploding",
    "saturated",
    "divergence",
    "accumulated gradients",
    "no optimizer",
    "no step",
    "idle step",
    "no change",
    "early call",
    "loss input",
    "eval mode",
    "unregistered",
    "through numpy",
    "broadcast",
]
"""What a finding is about, in the words of ``Finding``."""

KINDS: tuple[FindingKind, ...] = get_args(FindingKind)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a graph that is wrong, or probably not meant.

    Attributes:
        kind: what it is about.

            - "failed": an op, a backward or the cell raised an error. "inplace": it did because of a change in place.
            - "nan": a NaN or an Inf begins here, or is in a parameter since an earlier step.
            - "unreached": the last backward gave a leaf no gradient.
            - "zero gradient", "vanishing", "exploding": the gradients of a module, or what an op passes on.
            - "saturated": an activation lets no gradient through, or next to none.
            - "divergence": the loss of a loop grew without bound.
            - "accumulated gradients": a ``.grad`` still holds the gradients of earlier steps.
            - "no optimizer": no optimizer holds a parameter that got a gradient. "no step": one that holds it takes no
              step. "idle step": a step found no gradient. "no change": steps left every parameter as it was.
            - "early call": something was called too early.
            - "loss input": a loss is given what it does not take.
            - "eval mode": a model learns in eval mode.
            - "unregistered": a module or a parameter stands in a plain list or dict.
            - "through numpy": numbers of a tensor that got a gradient went another way, which has none.
            - "broadcast": a tensor was stretched, probably by accident.
        text: what there is to say, in one or a few sentences; the remedy is a part of it.
        remedy: what to do, where that is known; None where it is not.
        id: that of the record at which the picture shows it; None if it is about no single one, or about an op that
            raised and has no record.
        tensors: the parameters and other tensors that it is about, each with its shape: "fc1.weight (16, 4)".
        scope: the labels of the module calls around it, outermost first; empty outside of modules.
        place: the user's line, where one is to blame.
    """

    kind: FindingKind
    text: str
    remedy: str | None = None
    id: int | None = None
    tensors: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    place: Place | None = None

    def __post_init__(self) -> None:
        if self.remedy is not None and self.remedy not in self.text:
            raise ValueError(f"the remedy {self.remedy!r} is no part of the text {self.text!r}")

    @property
    def severity(self) -> Literal["error", "warning"]:
        """An "error" where numbers are wrong or nothing went on; a "warning" where it is probably not meant."""
        return "error" if self.kind in ("failed", "inplace", "nan") else "warning"

    def __str__(self) -> str:
        return self.text
