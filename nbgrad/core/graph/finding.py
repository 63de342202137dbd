"""A finding: something in a graph that is wrong, or probably not meant, as data.

The core has only the class of a finding. The renderer looks for findings, because they need modules, which are above
the core.
"""

from dataclasses import dataclass

from nbgrad.choices import ERROR_KINDS, Severity
from nbgrad.core.engine.place import Place


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a graph that is wrong, or probably not intended.

    Attributes:
        kind: one of these (a ``FindingKind``):

            - "failed": an op, a backward or the cell raised an error. "inplace": the cause is a change in place.
            - "nan": a NaN or an Inf begins here, or is in a parameter since an earlier training step.
            - "unreached": a leaf got no gradient in the last backward.
            - "zero gradient", "vanishing", "exploding": the gradients of a module, or the gradient after an op.
            - "saturated": an activation lets no gradient through, or nearly none.
            - "divergence": the loss of a loop grew without bound.
            - "accumulated gradients": a ``.grad`` still holds the gradients of earlier training steps.
            - "no optimizer": no optimizer holds a parameter that got a gradient. "no step": the
              ``step()`` of its optimizer is never called. "idle step": a ``step()`` found no gradient. "no change": all
              steps left every parameter as it was.
            - "early call": two calls are in the wrong order.
            - "loss input": a loss gets the wrong kind of input. "output range": the last activation cannot reach the
              targets. "target": the targets are of the wrong kind. "sign": the loss is maximised.
            - "no activation": linear layers follow each other. "layer setting": dropout, a normalization or another
              layer has a setting with which it does not do its work. "initialization": the units of a layer are equal.
              "attention": a softmax of attention goes along the wrong dimension, is one-hot, or is masked everywhere.
            - "input scale": inputs or targets are not normalized. "data": rows or labels are all equal.
            - "small steps", "large steps": the steps move the parameters too little, or too far. "no progress": the
              loss does not fall. "regularization": a penalty or a weight decay rules the loss.
            - "accumulation": gradients of several backwards are added and not divided by their number. "kept graphs":
              the graphs of earlier steps stay alive. "frozen but changing": something that is frozen changes.
              "frozen": an optimizer holds a parameter that is frozen. "wrong dimension": all predictions are equal.
            - "custom function": a ``Function`` of the user's gives no gradient. "checkpoint": a reentrant checkpoint
              gives none, because none of its inputs needs one.
            - "eval mode": a model learns in eval mode.
            - "unregistered": a module or a parameter is in a plain list or dict.
            - "through numpy": a constant was made from the numbers of a tensor that got a gradient.
            - "wrong number": a value or a gradient of another engine is not what nbgrad computes.
            - "broadcast": a tensor was stretched, probably by accident.
            - "failed rule": a rule that looks for findings raised an error itself, so what it would have found is
              missing. This is a defect of nbgrad.

            A rule that was added with ``nbgrad.extend.finding_rule`` has a kind of its own.
        text: the message, in one or a few sentences; the remedy is a part of it.
        remedy: the advice; None if there is none.
        id: the id of the record at which the picture shows it; None if there is no single record, or if it is about an
            op that raised and has no record.
        tensors: the parameters and other tensors that it is about, each with its shape: "fc1.weight (16, 4)".
        scope: the labels of the module calls around it, outermost first; empty outside of modules.
        place: the line of user code that caused it. For a finding about a parameter or a module as a whole, it is the
            line of the last step or backward that it is about. None if there is none.
        degree: how bad it is, beside findings of the same kind with the same remedy: the larger, the worse.
        group: the findings for which this one stands, worst first: of four or more of one kind with the same remedy,
            each with its place. Empty if it stands for itself. Its text, id and place are those of the worst.
    """

    kind: str
    text: str
    remedy: str | None = None
    id: int | None = None
    tensors: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    place: Place | None = None
    degree: float = 0.0
    group: "tuple[Finding, ...]" = ()

    def __post_init__(self) -> None:
        if self.remedy is not None and self.remedy not in self.text:
            raise ValueError(f"the remedy {self.remedy!r} is no part of the text {self.text!r}")

    @property
    def severity(self) -> Severity:
        """An "error" if numbers are wrong or a part learns nothing; a "warning" if it is probable, or may be meant.

        The kind decides it. The kinds of rules that were added with ``nbgrad.extend.finding_rule`` are warnings.
        """
        return "error" if self.kind in ERROR_KINDS else "warning"

    def reaches(self, severity: Severity) -> bool:
        """Whether it is at least as severe as ``severity``: an error reaches both."""
        return severity in ("warning", self.severity)

    def __str__(self) -> str:
        return self.text
