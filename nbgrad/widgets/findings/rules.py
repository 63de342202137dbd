"""The rules for findings, as one table in the order of causes: an earlier finding may explain a later one."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from nbgrad.choices import KINDS, FindingKind
from nbgrad.core.engine.call_site import in_library
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.known_findings import KnownFindings
from nbgrad.widgets.findings import (
    beginnings,
    calls,
    dimensions,
    layers,
    optimizers,
    outputs,
    progress,
    shortcuts,
)
from nbgrad.widgets.findings.attention import attention
from nbgrad.widgets.findings.eval_mode import evaluating, partly
from nbgrad.widgets.findings.examination import Examination
from nbgrad.widgets.findings.frozen import frozen
from nbgrad.widgets.findings.functions import untrue
from nbgrad.widgets.findings.guard import Guard
from nbgrad.widgets.findings.located import located
from nbgrad.widgets.findings.loss_inputs import learned_weights, mistaken
from nbgrad.widgets.findings.module_gradients import shrinking, zeroed
from nbgrad.widgets.findings.saturated import silent
from nbgrad.widgets.findings.through_numpy import halved
from nbgrad.widgets.findings.unreached import unreached
from nbgrad.widgets.findings.vanishing import falls

Explained = Mapping[str, Collection[str]]
"""The kinds that explain a finding, by its own kind."""

_NOTHING: Explained = MappingProxyType({})


class RuleRow(NamedTuple):
    """A rule, as a row of the table.

    Attributes:
        name: what it looks at.
        kinds: the kinds of findings that it makes.
        find: looks through a graph.
        explained: its findings of a kind are left out if an earlier rule has found one of these kinds, the cause.
        once: whether a finding is left out if an earlier rule has found one of its kind at the same record.
        despite: where this holds, nothing explains its findings.
    """

    name: str
    kinds: tuple[FindingKind, ...]
    find: Callable[[Examination], Iterable[Finding]]
    explained: Explained = _NOTHING
    once: bool = False
    despite: Callable[[Examination, list[Finding]], bool] | None = None

    def new(self, case: Examination, found: list[Finding]) -> Iterator[Finding]:
        """The findings, without what the findings ``found`` of earlier rules explain."""
        explained = _NOTHING if self.despite is not None and self.despite(case, found) else self.explained
        kinds, known = {one.kind for one in found}, {(one.kind, one.id) for one in found}
        for one in self.find(case):
            repeated = self.once and (one.kind, one.id) in known
            if not repeated and kinds.isdisjoint(explained.get(one.kind, ())):
                yield one


_ANY = frozenset(KINDS) - {"broadcast"}
"""Causes of the fact that nothing is learned. A tensor that was stretched may be meant."""

_UNMOVED = ("no change", "early call", "no step", "idle step", "no optimizer", "regularization", "small steps")


def _shrinking(case: Examination) -> list[Finding]:
    found = shrinking(case.judged)
    return [] if found is None else [Finding("vanishing", *found)]


def _falls(case: Examination) -> Iterable[Finding]:
    return falls(case.records, case.starved, zeroed(case.records, case.judged), case.ahead, case.waits.ends)


def _known(case: Examination) -> tuple[Finding, ...]:
    return case.graph.known if isinstance(case.graph, KnownFindings) else ()


def _stretched(case: Examination) -> list[Finding]:
    accidents = dict.fromkeys((one, id) for (id, _), one in case.stretched.items())  # both inputs may have one text
    return [located(case.made[id], "broadcast", one.text, one.remedy) for one, id in accidents]


def _softmax_began_it(case: Examination, found: list[Finding]) -> bool:
    """Whether the first bad number was of a softmax, and no finding about it stands there and says why."""
    first, shown = case.first_bad, {one.id for one in found if one.kind == "nan"}
    return first is not None and str(first.op).endswith("softmax") and first.id not in shown


RULES: tuple[RuleRow, ...] = (
    RuleRow("numbers of another engine", ("wrong number",), _known),
    RuleRow("the eps of an optimizer", ("nan",), optimizers.lost_epsilon),
    RuleRow("the first NaN", ("nan",), beginnings.beginnings),
    RuleRow("a loss without a bound", ("sign",), progress.bottomless),
    RuleRow("updates uphill", ("sign",), outputs.uphill),
    RuleRow("growth of the loss", ("divergence",), beginnings.grown, {"divergence": ("sign",)}),
    RuleRow("gradients that are added up", ("accumulated gradients",), optimizers.added_up),
    RuleRow(
        "gradients that are kept",
        ("accumulated gradients",),
        optimizers.kept_gradients,
        {"accumulated gradients": ("accumulated gradients",)},
    ),
    RuleRow("unreached tensors", ("unreached", "custom function", "checkpoint"), unreached),
    RuleRow("methods that are not called", ("no step", "accumulated gradients"), calls.uncalled),
    RuleRow("optimizers without a step", ("no step",), optimizers.unstepped, {"no step": ("no step",)}),
    RuleRow("steps that change nothing", ("no change",), optimizers.still),
    RuleRow("parameters without an optimizer", ("no optimizer",), optimizers.unheld),
    RuleRow("idle steps", ("idle step",), optimizers.idle_step),
    RuleRow("order of calls", ("early call",), calls.misordered),
    RuleRow("updates by hand", ("no step",), calls.rebound),
    RuleRow("accumulated losses", ("accumulation",), calls.undivided),
    RuleRow("graphs that are kept", ("kept graphs",), calls.kept_graphs),
    RuleRow("frozen parameters", ("frozen", "frozen but changing"), frozen),
    RuleRow("draws", ("zero gradient",), layers.drawn),
    RuleRow("draws beside a divergence", ("zero gradient",), layers.drawn_beside),
    RuleRow("ops where a gradient ends", ("zero gradient", "vanishing", "custom function"), _falls, once=True),
    RuleRow("gradients that shrink", ("vanishing",), _shrinking, {"vanishing": ("zero gradient", "vanishing")}),
    RuleRow("activations that are off", ("saturated",), lambda case: silent(case.records, case.ahead)),
    RuleRow("inputs of losses", ("loss input",), lambda case: mistaken(case.records)),
    RuleRow("weights that learn", ("loss input",), learned_weights, once=True),
    RuleRow("eval mode", ("eval mode",), lambda case: evaluating(case.records)),
    RuleRow("parts in eval mode", ("eval mode",), partly, {"eval mode": ("eval mode",)}),
    RuleRow("unregistered modules", ("unregistered",), lambda case: [one for one, _ in case.unregistered]),
    RuleRow("numbers through numpy", ("through numpy",), lambda case: halved(case.records)),
    RuleRow("broadcasts", ("broadcast",), _stretched),
    RuleRow("the last activation", ("output range", "loss input"), outputs.outputs, once=True),
    RuleRow("targets", ("target", "input scale"), outputs.targets, once=True),
    RuleRow(
        "equal targets",
        ("target", "data"),
        outputs.equal_targets,
        {"target": ("zero gradient",), "data": ("nan",)},
        once=True,
    ),
    RuleRow("rows against columns", ("broadcast",), outputs.unpaired, once=True),
    RuleRow("numbers of classes", ("target",), outputs.class_numbers, once=True),
    RuleRow("unused terms of a loss", ("unreached",), outputs.unused, once=True),
    RuleRow("terms without a gradient", ("unreached",), outputs.constant_terms, once=True),
    RuleRow("severed recurrences", ("unreached",), outputs.severed, once=True),
    RuleRow(
        "softmax of one number",
        ("output range",),
        outputs.lone_softmax,
        {"output range": ("zero gradient",)},
        once=True,
    ),
    RuleRow("one class", ("loss input",), outputs.lone_class, once=True),
    RuleRow("targets of signs", ("target",), outputs.signed_targets, once=True),
    RuleRow("likelihoods", ("sign",), outputs.likelihoods, once=True),
    RuleRow("sign of the loss", ("sign",), outputs.signs, once=True),
    RuleRow("backwards of Functions", ("custom function",), untrue, once=True),
    RuleRow("rows of a batch", ("wrong dimension",), dimensions.mixed, once=True),
    RuleRow("the dimension of the batch", ("wrong dimension",), dimensions.batch_second, once=True),
    RuleRow("the dimension of the classes", ("wrong dimension",), dimensions.classes_second, once=True),
    RuleRow("images with their channels last", ("wrong dimension",), dimensions.pixels, once=True),
    RuleRow("words that a model foresees", ("attention", "target"), shortcuts.foreseen_words, once=True),
    RuleRow("pairs that may be equal", ("target",), shortcuts.equal_pairs, once=True),
    RuleRow("linear layers in a row", ("no activation",), layers.in_a_row, once=True),
    RuleRow("settings of layers", ("layer setting", "frozen but changing"), layers.settings, once=True),
    RuleRow(
        "attention",
        ("attention",),
        attention,
        {"attention": ("nan",)},
        once=True,
        despite=_softmax_began_it,
    ),
    RuleRow("jumps", ("zero gradient",), layers.jumps, once=True),
    RuleRow("initial weights", ("initialization",), layers.units, once=True),
    RuleRow("input data", ("input scale", "data"), layers.inputs, {"data": ("nan",)}, once=True),
    RuleRow("equal predictions", ("wrong dimension",), progress.equal_predictions, {"wrong dimension": _ANY}),
    RuleRow("weight decay", ("regularization",), progress.decay),
    RuleRow("schedules", ("small steps",), progress.resting, {"small steps": ("no change",)}),
    RuleRow("small steps", ("small steps",), progress.small, {"small steps": _UNMOVED}),
    RuleRow(
        "large steps",
        ("large steps",),
        progress.large,
        {"large steps": ("divergence", "regularization", "small steps", "sign")},
    ),
    RuleRow(
        "first steps",
        ("large steps",),
        progress.thrown,
        {"large steps": ("divergence", "regularization", "small steps", "large steps")},
    ),
    RuleRow("betas", ("no progress",), progress.swapped),
    RuleRow("optimizers of one step", ("no progress",), progress.renewed),
    RuleRow("a loss that does not fall", ("no progress",), progress.flat, {"no progress": _ANY}),
    RuleRow("penalties", ("regularization",), progress.penalty),
    RuleRow(
        "the size of the first loss",
        ("exploding",),
        progress.huge,
        {"exploding": ("nan", "input scale", "initialization")},
    ),
    RuleRow(
        "gradients over time",
        ("vanishing", "exploding"),
        progress.over_time,
        dict.fromkeys(("vanishing", "exploding"), ("nan", "vanishing", "divergence")),
    ),
)
"""All rules, causes before symptoms. A rule about one op comes before the rules about the whole loop."""


def apply(case: Examination, guard: Guard) -> list[Finding]:
    """Everything that is wrong, or probably not meant; without what an earlier finding explains, or is meant."""
    found: list[Finding] = []
    for rule in RULES:
        found += guard.all_of(rule.name, rule.kinds, partial(rule.new, case, found))
    return guard.one_of("what is meant", (), lambda: [one for one in found if not _is_meant(one, case)], found)


_NOT_THEIRS = ("failed", "inplace", "nan", "custom function", "checkpoint", "broadcast")
"""Kinds that no package has on purpose. But it may cut paths off, and have outputs that a loss does not use."""


def _is_meant(found: Finding, case: Examination) -> bool:
    """Whether nothing is trained, so that a loss may grow, or an installed package does what its author has tried."""
    theirs = found.place is not None and in_library(found.place.file)
    return not case.evidence.trains() and (found.kind == "sign" or (theirs and found.kind not in _NOT_THEIRS))
