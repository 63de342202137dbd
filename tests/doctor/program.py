"""Training programs in plain torch, and the faults that are put into them: the benchmark of the findings.

A ``Program`` is sound: it trains as it should. A ``Fault`` is a small edit of its text, after a published fault; so
each faulty program has its repaired twin. The findings of the faulty program should name the cause, and where it is;
those of the sound one should be none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

Cause = Literal[
    "output activation",  # the last activation does not fit the targets or the loss (sigmoid before mse on 0 to 9)
    "loss input",  # a loss gets what it does not take: softmax, then cross_entropy; scores where logs are expected
    "no activation",  # linear layers follow each other with nothing between them
    "dead units",  # units that are 0, or saturated, for whole batches
    "rate too small",  # also a schedule that has fallen to 0, or a group whose rate is 0
    "rate too large",
    "sign",  # the loss is maximised
    "target",  # the targets are of the wrong kind, constant, or follow the parameters
    "input scale",  # inputs or targets in the hundreds, not normalised
    "data",  # equal rows, batches of one class, labels that do not belong to their inputs
    "dropout",  # far too much of it, or at the output
    "normalization",  # batch norm with a wrong momentum, a batch too small, statistics never updated
    "initialization",  # equal, zero or far too large weights
    "frozen",  # it should learn, and requires_grad is False
    "never moves",  # steps leave a parameter as it was, e.g. by rounding
    "frozen but changing",  # statistics, momentum or weight decay change what should stay
    "attention",  # a softmax over the wrong dimension, a mask that hides everything
    "early call",  # clip, scheduler, unscale_, zero_grad in the wrong place
    "accumulated gradients",  # zero_grad is missing
    "accumulation",  # gradients of several batches are added and not divided
    "no step",
    "no optimizer",  # no optimizer holds a parameter that should learn
    "unregistered",  # in a plain list or dict, so parameters() does not have it
    "cut",  # detach, .data, item, numpy, no_grad, a new tensor of the numbers, argmax, round
    "unused",  # a layer or a loss term that never gets into the loss
    "eval mode",  # it trains in eval mode
    "broadcast",  # (n, 1) against (n,)
    "wrong dimension",  # a view or reshape that mixes rows and columns, a sum over the batch
    "exploding",  # gradients or activations grow over layers or the iterations of a loop
    "vanishing",  # they shrink until nothing is learned
    "nan",  # a log of 0, a root of 0, a division by 0
    "kept graphs",  # total += loss, lists of losses: the graphs of all steps stay alive
    "second backward",  # "Trying to backward through the graph a second time"
    "inplace",  # "modified by an inplace operation"
    "no gradient",  # "does not require grad and does not have a grad_fn"
    "custom function",  # an autograd.Function of the user's returns None, or wrong or swapped gradients
    "checkpoint",  # a reentrant checkpoint whose inputs need no gradient
    "several networks",  # the gradient of one network's loss in another, a target network that trains
    "regularization",  # weight decay so large that the weights vanish
    "none found",  # the loss does not fall, for another reason
]
"""The kinds of faults, in the words of the benchmark."""

Host = Literal["whole", "loop", "paced", "step", "two cells", "function"]
"""The part that is recorded: the whole program, its loop, one of its steps, one step in two cells (the forward; the
rest), or a function that contains the program and returns the graph of its loop."""

CAUSES: tuple[Cause, ...] = get_args(Cause)
HOSTS: tuple[Host, ...] = get_args(Host)


@dataclass(frozen=True, slots=True)
class Fault:
    """An edit that makes a sound program faulty.

    Attributes:
        name: of the fault, unique in the benchmark.
        cause: what it is.
        edits: pairs of an old text, which occurs exactly once in the program, and the new one.
        where: patterns (``re.search``, without case). A finding tells the place if it matches one of them in its text,
            tensors or scope, as the name of the layer; or if its line is an edited one.
        source: who has published the fault: a taxonomy and its category, or an issue.
        hosts: where the fault can show itself at all. A rate that is too small needs a loop; what a second
            step refuses, too.
    """

    name: str
    cause: Cause
    edits: tuple[tuple[str, str], ...]
    where: tuple[str, ...]
    source: str
    hosts: tuple[Host, ...] = HOSTS


@dataclass(frozen=True, slots=True)
class Program:
    """A sound program that trains something, in the three parts of a training loop.

    Attributes:
        name: of the program, unique in the benchmark.
        kind: what it is: "classifier", "regression", "GAN", ...
        setup: the imports, data, model and optimizers.
        forward: the part of a step up to its loss; ``step`` is the number of the step.
        update: the rest of the step: zero_grad, backward, the optimizer's step, and whatever comes after it.
        steps: the number of steps.
        faults: what is put into it.
    """

    name: str
    kind: str
    setup: str
    forward: str
    update: str
    steps: int = 40
    faults: tuple[Fault, ...] = ()

    def edited(self, fault: Fault) -> "Program":
        """The program with ``fault`` in it.

        Raises:
            ValueError: an old text does not occur exactly once.
        """
        parts = [self.setup, self.forward, self.update]
        for old, new in fault.edits:
            if sum(part.count(old) for part in parts) != 1:
                raise ValueError(f"{fault.name}: {old!r} does not occur exactly once in {self.name}")
            parts = [part.replace(old, new) for part in parts]
        return Program(f"{self.name}: {fault.name}", self.kind, *parts, self.steps)

    def cells(self, host: Host) -> list[tuple[str, bool]]:
        """The cells of a notebook, each with whether it is recorded."""
        loop = f"for step in range({self.steps}):\n{_indented(self.forward)}\n{_indented(self.update)}"
        match host:
            case "whole":
                return [(f"{self.setup}\n{loop}", True)]
            case "loop" | "paced":
                return [(self.setup, False), (loop, True)]
            case "step":
                return [(self.setup, False), (f"step = 0\n{self.forward}\n{self.update}", True)]
            case "two cells":
                return [(self.setup, False), (f"step = 0\n{self.forward}", True), (self.update, True)]
            case "function":
                body = f"{self.setup}\nwith nbgrad.AutogradGraph() as graph:\n{_indented(loop)}\nreturn graph"
                return [(f"import nbgrad\ndef train():\n{_indented(body)}\ngraph = train()", False)]


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else line for line in text.strip("\n").split("\n"))


def lines_of(texts: tuple[str, ...]) -> Iterator[str]:
    """The lines of some texts, without their indentation and without empty ones."""
    for text in texts:
        yield from (line.strip() for line in text.split("\n") if line.strip())
