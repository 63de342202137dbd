"""The checks of a graph: which kinds of findings each makes, when it can judge, and what it looked at.

Each function says what its rules look at in this graph, with the numbers that they read. It asks for the same facts as
the rules, so a check that had nothing to look at says so.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from math import isfinite
from typing import NamedTuple

from nbgrad.choices import FindingKind
from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import outwards
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.checkup import Check, CheckName
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.known_findings import KnownFindings
from nbgrad.core.graph.record import Record
from nbgrad.core.graph.silence import Silence
from nbgrad.core.graph.stats import Stats
from nbgrad.core.translation import message, translate, translate_count
from nbgrad.widgets.description.format import counted, listed, number
from nbgrad.widgets.findings import calls, layers, progress
from nbgrad.widgets.findings.examination import Compared, Examination
from nbgrad.widgets.findings.guard import Guard
from nbgrad.widgets.findings.rules import RULES

_NAMED = 3
"""A check names at most this many things."""


Looked = tuple[str, str]
"""The words on what a check looked at, and on why it could not judge all: one of them may be empty."""


class CheckRow(NamedTuple):
    """A check, as a row of the table.

    Attributes:
        name: of the check.
        kinds: the kinds of findings that its rules make.
        needs: what there has to be, so that it can judge.
        looks: what its rules look at in a graph.
        numbers: whether it reads numbers, which tensors on the meta device do not have.
    """

    name: CheckName
    kinds: tuple[FindingKind, ...]
    needs: str
    looks: Callable[[Examination], Looked]
    numbers: bool = False


def checked(
    case: Examination, found: list[Finding], silence: Silence, guard: Guard
) -> tuple[tuple[Check, ...], list[Finding]]:
    """Each check, with what it looked at, what it ``found``, and what is silenced; and findings about failed rules.

    A check one of whose rules failed has not found everything, so it is not sound.
    """
    looked = [guard.one_of(f"check {row.name}", row.kinds, partial(row.looks, case), ("", "")) for row in CHECKS]
    failed = [one for one in guard.findings() if not silence.takes(one)]
    checks = []
    for row, (much, missing) in zip(CHECKS, looked, strict=True):
        if row.numbers and (without := case.evidence.without_numbers) is not None:
            unread = translate("{without} have no numbers", without=without)
            missing = "; ".join([missing, unread]) if much and missing else unread
        here = tuple([one for one in (*found, *failed) if one.kind in row.kinds])
        stopped = next((guard.failed[kind] for kind in row.kinds if kind in guard.failed), None)
        if stopped is not None:
            missing = "; ".join(filter(None, [missing, translate("the rule {stopped!r} failed", stopped=stopped)]))
            much = much if here else ""
        quiet = tuple([one for one in silence.silenced if one.kind in row.kinds])
        checks.append(Check(row.name, row.kinds, much, missing, here, quiet))
    return tuple(checks), failed


def unchecked(why: str, found: list[Finding]) -> tuple[Check, ...]:
    """The checks of a graph of which nothing can be judged, and ``why``; what was ``found`` nevertheless."""
    return tuple(
        Check(row.name, row.kinds, "", why, tuple([one for one in found if one.kind in row.kinds])) for row in CHECKS
    )


def _rules(case: Examination) -> Looked:
    return (
        (translate("{count} rules looked through the graph", count=len(RULES)), "")
        if case.records
        else ("", translate("nothing was recorded"))
    )


def _errors(case: Examination) -> Looked:
    graph, ops = case.graph, sum(record.op is not None for record in case.records)
    ran = translate(
        "{ops} of the last backward and {backwards} ran",
        ops=counted(ops, "op"),
        backwards=counted(graph.backwards, "backward"),
    )
    if not graph.backwards:
        ran = translate("{ops} ran, without a backward", ops=counted(ops, "op"))
    ended = (
        translate("; the user interrupted the rest") if graph.ending is not None and graph.ending.interrupted else ""
    )
    if not ops and not graph.backwards:
        return "", translate("nothing was recorded")
    if isinstance(graph, KnownFindings) and graph.compared:
        return translate(
            "{ran}; {compared} were compared with nbgrad's", ran=ran, compared=graph.compared
        ), graph.uncompared
    return f"{ran}{ended}", ""


def _finite(case: Examination) -> Looked:
    records = case.records
    values = [one.value for one in records if one.value is not None]
    gradients = [one.gradient for one in records if one.gradient is not None]
    if not values and not gradients:
        return "", translate("no value and no gradient was kept")
    bad = sum(1 for one in (*values, *gradients) if not _is_finite(one))
    losses = [one.value for one in case.all_losses if one.value is not None]
    parts = [counted(len(values), "value"), counted(len(gradients), "gradient")]
    parts += [counted(len(losses), "loss")] if losses else []
    bad += sum(not isfinite(loss) for loss in losses)
    return translate(
        "{listed}, of which {bad} hold{plural} NaN or Inf",
        listed=listed(parts),
        bad=bad or translate("none"),
        plural="s" if bad == 1 else "",
    ), ""


def _is_finite(stats: Stats) -> bool:
    return not stats.nan and not stats.inf


def _paths(case: Examination) -> Looked:
    if case.evidence.no_backward():
        return "", translate("no backward ran")
    reached = case.evidence.reached()
    got = [one for one in _learnable(case) if one.id in reached]
    missing = Counter(translate(_WORDS[one.kind]) for one in case.unreached)
    rest = ", ".join(f"{many} {what}" for what, many in missing.items())
    return translate(
        "{tensors} got a gradient{more}",
        tensors=_tensors(got),
        more=translate("; without one: {rest}", rest=rest) if rest else "",
    ), ""


_WORDS = {
    "frozen": message("frozen"),
    "unused": message("that no op used"),
    "no_grad": message("inside no_grad()"),
    "draw": message("of a distribution that was drawn from"),
    "checkpoint": message("in a checkpoint"),
    "function": message("of a Function"),
    "detached": message("detached"),
    "no gradient": message("behind an op without a gradient"),
    "elsewhere": message("that does not lead to the loss"),
    "copied": message("whose numbers alone are read"),
    "derivative": message("on which a derivative in the loss does not depend"),
    "not asked": message("that was not asked for"),
    "no backward": message("without a backward"),
}
"""The words for a tensor without a gradient, by ``Unreached.kind``."""


def _sizes(case: Examination) -> Looked:
    sizes = [one.size for one in case.judged.values()]
    gradients = [one.gradient.norm for one in _learnable(case) if one.gradient is not None]
    if sizes:
        return translate(
            "{modules} with a typical gradient {range}", modules=counted(len(sizes), "module"), range=_range(sizes)
        ), ""
    if gradients:
        return translate(
            "{gradients} outside of modules, with a norm {range}",
            gradients=counted(len(gradients), "gradient"),
            range=_range(gradients),
        ), ""
    return "", translate("no backward ran") if case.evidence.no_backward() else translate("no gradient was kept")


def _activations(case: Examination) -> Looked:
    found = list[tuple[str, float]]()
    for record in case.records:
        traits, passed = traits_of(record.op), record.inputs[0].gradient if record.inputs else None
        if record.op is None or record.gradient is None or passed is None:
            continue
        if (traits.flat or traits.steepest is not None) and record.gradient.norm:
            found.append((record.op.name, passed.norm / record.gradient.norm))
    if not found:
        return "", translate("no gradient came to an activation that can be off")
    names = _counts(name for name, _ in found)
    return translate(
        "{names}: the least of them passes on {value:.0%} of its gradient",
        names=names,
        value=min(share for _, share in found),
    ), ""


def _optimizers(case: Examination) -> Looked:
    logs = case.optimizers
    if not logs:
        return "", translate("no optimizer was called")
    if not case.graph.closed:
        case.training.settle()
    reached = case.evidence.reached()
    got = [one for one in _learnable(case) if one.id in reached]
    ids = set[int]().union(*[log.ids for log in logs])
    held = sum(one.id in ids for one in got)
    whose = listed([f"{log.name} ({counted(log.steps, 'step')})" for log in logs])
    if not got:
        return whose, translate("no parameter got a gradient") if case.graph.backwards else translate("no backward ran")
    return translate(
        "{tensors} got a gradient, {held} of them held by {whose}", tensors=_tensors(got), held=held, whose=whose
    ), ""


def _registered(case: Examination) -> Looked:
    modules = _modules(case.records)
    parameters = sum(one.kind == "parameter" for one in case.records)
    if not modules:
        return "", translate("no module was called")
    return translate(
        "{modules} with {parameters} that ops used",
        modules=counted(len(modules), "module"),
        parameters=counted(parameters, "parameter"),
    ), ""


_CALLS = {"unscale": "unscale_", "schedule": "scheduler.step", "clip": "clip"}
"""The calls whose names are not those of their kinds."""


def _order(case: Examination) -> Looked:
    graph, training = case.graph, case.training
    if not graph.backwards:
        return "", translate("no backward ran")
    recent = list(training.recent)
    if not recent:
        return "", translate("no optimizer, no scheduler and no clipping was called")
    before = [call.kind for call in recent if call.backwards == graph.recorded - 1]
    after = [call.kind for call in recent if call.backwards == graph.recorded]
    begin = max((at for at, kind in enumerate(before) if kind in ("step", "schedule")), default=-1)
    end = max((at for at, kind in enumerate(after) if kind in ("step", "schedule")), default=len(after) - 1)
    names = [_CALLS.get(kind, kind) for kind in before[begin + 1 :]]
    names = [*names, "backward", *(_CALLS.get(kind, kind) for kind in after[: end + 1])]
    last = 0 if graph.frame is None else graph.frame.number
    names = [name for at, name in enumerate(names) if at == 0 or name != names[at - 1]]
    return translate("{names}, around backward {last:,}", names=", ".join(names), last=last), ""


def _steps(case: Examination) -> Looked:
    rates = [
        translate(
            "{name} (lr={last}{more})",
            name=log.name,
            last=number(group.last),
            more=translate(", weight_decay={decay}", decay=number(group.decay)) if group.decay else "",
        )
        for log in case.optimizers
        for group in log.groups
        if group.last is not None
    ]
    if not rates and not case.steps:
        return "", translate("no step of an optimizer was seen")
    by = translate(" by {listed}", listed=listed(list(dict.fromkeys(rates)))) if rates else ""
    if not case.steps or case.typical_step is None:
        return translate("steps{by}", by=by), translate("none was measured, so their size is not judged")
    looked = translate(
        "{steps}{by}, which typically changed the parameters by {typical_step} of their size",
        steps=counted(len(case.steps), "measured step"),
        by=by,
        typical_step=number(case.typical_step),
    )
    needed = progress.enough(case)
    return looked, translate(
        "whether they are too small is judged from {STEPS} measured steps on", STEPS=needed
    ) if len(case.steps) < needed else ""


def _loss(case: Examination) -> Looked:
    losses, backwards = case.losses, case.graph.backwards
    if len(losses) < 2:
        if not backwards:
            return "", translate("no backward ran")
        many = translate(
            "one backward" if backwards == 1 else "{losses} of {backwards:,} backwards known",
            losses=counted(len(losses), "loss"),
            backwards=backwards,
        )
        return "", translate("{many} only: progress needs at least {LONG}", many=many, LONG=progress._LONG)
    way = translate("fell" if losses[-1] < losses[0] else "rose" if losses[-1] > losses[0] else "went")
    looked = translate(
        "the loss {way} from {losses} to {losses2} over {backwards:,} backwards",
        way=way,
        losses=number(losses[0]),
        losses2=number(losses[-1]),
        backwards=backwards,
    )
    return looked, "".join(_no_progress(case))[2:]


def _no_progress(case: Examination) -> Iterable[str]:
    """Why a loss that does not fall would be no finding, each after "; "."""
    if case.graph.backwards < progress._LONG:
        yield translate("; whether it falls is judged from {LONG} backwards on", LONG=progress._LONG)
    if not case.alone:
        yield translate("; with several optimizers the loss of one may grow")
    elif not case.optimizers:
        yield translate("; whether it falls is judged where an optimizer steps")
    elif len(case.comparisons) != 1:
        yield translate(
            "; whether it falls is judged for one comparison with targets, here are {count}",
            count=len(case.comparisons),
        )


def _targets(case: Examination) -> Looked:
    if not case.comparisons:
        return "", translate("no loss compares predictions with targets")
    said = [_compared(case, one) for one in case.comparisons[:_NAMED]]
    more = len(case.comparisons) - len(said)
    return "; ".join([*said, *([translate("and {more} more", more=more)] if more else [])]), ""


_TAKES = {
    "scores": message("scores"),
    "probabilities": message("probabilities"),
    "log-probabilities": message("log-probabilities"),
    "values": message("values"),
}
"""The words for what a loss takes, by ``Compared.takes``."""


def _compared(case: Examination, one: Compared) -> str:
    name = translate("a difference") if one.loss.op is None or one.loss.op.name == "sub" else one.loss.op.name
    ends = [
        f"{what} {_range([stats.low, stats.high])}"
        for what, stats in (
            (translate("predictions"), one.prediction.value),
            (translate("targets"), case.stats(one.target)),
        )
        if stats is not None and stats.low is not None and stats.high is not None
    ]
    return translate(
        "{name} takes {takes}{more}{listed}",
        name=name,
        takes=translate(_TAKES[one.takes]),
        more=": " if ends else "",
        listed=listed(ends),
    )


def _inputs(case: Examination) -> Looked:
    inputs = {record.id: record for record in map(case.giver, _layers(case)) if record and record.kind == "constant"}
    ranges = [(one.low, one.high) for record in inputs.values() if (one := case.stats(record)) is not None]
    ends = [end for pair in ranges for end in pair if end is not None]
    if not ends:
        return "", translate("no layer takes a constant whose numbers are known")
    trains = bool(case.optimizers) or case.graph.backwards > layers._ROUNDS
    looked = translate(
        "{inputs} of the first layers, with numbers {range}", inputs=counted(len(inputs), "input"), range=_range(ends)
    )
    return looked, "" if trains else translate("their scale is judged in a training")


def _layers(case: Examination) -> list[Record]:
    """The ops that multiply their first input with something learned."""
    return [
        record
        for record in case.records
        if record.op is not None and traits_of(record.op).multiplies and record.op.name != "mul" and record.inputs
        if any(case.made[one].kind in ("parameter", "leaf") for one in record.sources[1:] if one in case.made)
    ]


_OTHERS = ("batch_norm", "instance_norm", "softmax", "masked_fill")
"""The ops that the rules for layers look at, besides layers with units, and dropout."""


def _built(case: Examination) -> Looked:
    names = [record.op.name for record in case.records if record.op is not None and _is_built(record)]
    if not names:
        return "", translate("no layer ran")
    few = case.graph.backwards < layers._ROUNDS
    return _counts(names), translate("whether units stay equal is judged from three backwards on") if few else ""


def _is_built(record: Record) -> bool:
    name = "" if record.op is None else record.op.name
    return traits_of(record.op).units is not None or name in _OTHERS or "dropout" in name


def _modes(case: Examination) -> Looked:
    modules = [module for module in _modules(case.records).values() if module is not None]
    if not modules:
        return "", translate("no module was called, or none exists any more")
    training = sum(bool(getattr(module, "training", False)) for module in modules)
    looked = translate(
        "{modules} in train mode, {count} in eval mode",
        modules=counted(training, "module"),
        count=len(modules) - training,
    )
    steps = any(log.steps for log in case.optimizers)
    return looked, "" if steps else translate("frozen parameters are looked for where an optimizer steps")


def _memory(case: Examination) -> Looked:
    earlier = case.graph.recorded - 2
    if earlier < calls._ROUNDS:
        return "", translate(
            "{backwards} only: it takes {ROUNDS}",
            backwards=counted(case.graph.backwards, "backward"),
            ROUNDS=calls._ROUNDS + 2,
        )
    if case.training.evaluates:
        return "", translate("a step runs several backwards itself")
    return translate(
        "of {earlier:,} earlier graphs {count} still live",
        earlier=earlier,
        count=len(case.evidence.living()) or translate("none"),
    ), ""


def _numpy(case: Examination) -> Looked:
    used = {source for record in case.records if record.place is not None for source in record.sources}
    constants = [record for record in case.records if record.kind == "constant" and record.id in used]
    if not constants:
        return "", translate("no op used a constant")
    if not any(record.place is not None and record.place.text for record in case.records):
        return "", translate("the source of the program is not known")
    return translate(
        "{constants} that ops used, by the lines that made them", constants=counted(len(constants), "constant")
    ), ""


def _broadcasts(case: Examination) -> Looked:
    if case.evidence.no_backward():
        return "", translate("no backward ran")
    undone = sum(taken.reduction is not None for record in case.records for taken in record.inputs)
    return translate("{inputs} in the last backward", inputs=counted(undone, "stretched input")), ""


def _learnable(case: Examination) -> list[Record]:
    return [record for record in case.records if record.kind in ("parameter", "leaf")]


def _tensors(records: list[Record]) -> str:
    """How many parameters there are, and leaves."""
    count = Counter(record.kind for record in records)
    said = [
        translate_count(many, "{count:,} leaf", "{count:,} leaves") if kind == "leaf" else counted(many, "parameter")
        for kind, many in count.items()
    ]
    return listed(said) or translate("no tensor")


def _modules(records: list[Record]) -> dict[int, object]:
    """The modules that were called, by Python's ``id()`` of their references; None for one that is gone."""
    scopes = dict.fromkeys(record.scope for record in records if record.scope is not None)
    calls = [one for scope in scopes for one in outwards(scope) if isinstance(one, ModuleScope)]
    return {id(one.module): one.module() for one in calls}


def _counts(names: Iterable[str]) -> str:
    """How often each of the names comes: 3 linear, 1 relu."""
    return listed([f"{many} {name}" for name, many in Counter(names).items()])


def _range(numbers: Iterable[float | None]) -> str:
    known = [one for one in numbers if one is not None]
    low, high = min(known), max(known)
    return translate("of {low}" if low == high else "from {low} to {high}", low=number(low), high=number(high))


CHECKS: tuple[CheckRow, ...] = (
    CheckRow("errors", ("failed", "inplace", "wrong number"), "an op", _errors),
    CheckRow("finite numbers", ("nan",), "values or gradients that were kept", _finite, numbers=True),
    CheckRow("paths of gradients", ("unreached", "custom function", "checkpoint"), "a backward", _paths),
    CheckRow(
        "sizes of gradients",
        ("zero gradient", "vanishing", "exploding"),
        "gradients that were kept",
        _sizes,
        numbers=True,
    ),
    CheckRow("activations", ("saturated",), "a gradient at an activation that can be off", _activations, numbers=True),
    CheckRow("optimizers", ("no optimizer", "no step", "idle step"), "a call of an optimizer", _optimizers),
    CheckRow("registered modules", ("unregistered",), "a module that is called", _registered),
    CheckRow(
        "order of calls",
        ("early call", "accumulated gradients", "accumulation"),
        "a backward, and a call of an optimizer, a scheduler or clipping",
        _order,
    ),
    CheckRow(
        "steps",
        ("no change", "small steps", "large steps", "regularization"),
        f"a step; {progress._STEPS} measured steps for those that are too small",
        _steps,
        numbers=True,
    ),
    CheckRow(
        "progress of the loss",
        ("divergence", "no progress"),
        f"the losses of two backwards; {progress._LONG} backwards for a loss that does not fall",
        _loss,
        numbers=True,
    ),
    CheckRow(
        "losses and targets",
        ("loss input", "output range", "target", "sign", "wrong dimension"),
        "a loss that compares predictions with targets",
        _targets,
        numbers=True,
    ),
    CheckRow("input data", ("input scale", "data"), "a layer that takes a constant", _inputs, numbers=True),
    CheckRow("layers", ("no activation", "layer setting", "initialization", "attention"), "a layer", _built),
    CheckRow(
        "modes and freezing", ("eval mode", "frozen", "frozen but changing"), "a called module that exists", _modes
    ),
    CheckRow("memory", ("kept graphs",), f"{calls._ROUNDS + 2} backwards", _memory),
    CheckRow("numbers through numpy", ("through numpy",), "a constant, and the source of the program", _numpy),
    CheckRow("broadcasts", ("broadcast",), "a backward", _broadcasts),
    CheckRow("rules", ("failed rule",), "an op", _rules),
)
"""All checks. Each kind of finding belongs to one of them."""
