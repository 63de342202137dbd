"""Findings about earlier backwards of a loop: the one that spoiled the parameters, and a loss that grew."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from math import isfinite, isnan

from nbgrad.core.engine.node import raw_of
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.first_bad import FirstBad
from nbgrad.core.graph.history import HistoryFrame
from nbgrad.core.graph.losses import BackwardLoss
from nbgrad.core.graph.optimizers import LOOP
from nbgrad.core.graph.place_text import place_text
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import message, translate
from nbgrad.widgets.description.format import counted, number
from nbgrad.widgets.findings.located import called

_FAR = 1e3
"""A loss has grown without bound if it is at least this many times as large as before."""

_MORE = 1.01
"""If one gradient is at most this many times as large as another, they may differ only by the order of a sum."""

_RUN = 4
"""At least this many frames in a row have to show the growth: a single frame may be of a hard batch."""

_SHORT = 2
"""This many frames are enough if the loss is not finite after them."""

_BEYOND = 0.5
"""A step that changes parameters by more than this fraction of their size spoils most of what they had learned."""

SMALLER = message("Try a smaller learning rate, inputs of a size near 1, or nn.utils.clip_grad_norm_().")
"""The remedy for steps that are too large."""

CHECK = "assert torch.isfinite(x).all()"
CLEAN = message("Clean the data, and check them before the model: {check}")
"""The advice for data that hold a NaN or an Inf, with a place for CHECK."""

ALL = "%%autograd --every 1"
"""The option that records the steps of a loop that a graph lets pass."""

STOP = message("nbgrad.detect_anomaly(), or %%autograd --anomaly, stops at the op that made it.")
"""The advice that finds the op of an earlier backward."""


def passing(losses: Sequence[BackwardLoss]) -> list[Finding]:
    """The finding about a loss that was NaN in a backward that was not recorded, after which all is finite again."""
    lost = next((one for one in losses if one.value is not None and isnan(one.value)), None)
    if lost is None:
        return []
    text = translate(
        "The loss of backward {number:,} at {place} was nan, and the last backward is finite. {ALL} records each "
        "backward. {STOP}",
        number=lost.number,
        place=place_text(lost.place),
        ALL=ALL,
        STOP=translate(STOP),
    )
    return [Finding("nan", text, ALL, place=lost.place)]


def spoiled(
    bad: Sequence[Record],
    frames: Sequence[HistoryFrame],
    records: list[Record],
    known: FirstBad | None = None,
    losses: Sequence[BackwardLoss] = (),
) -> tuple[str, str | None]:
    """The text about the backward since which the parameters in ``bad`` are not finite; and the remedy.

    Args:
        bad: the leaves that are not finite now. Some of them were not finite when the last backward began.
        frames: the history, at least two.
        records: what the last backward ran through, as the last frame has it.
        known: where it began, if the graph has found that out while it recorded.
        losses: those of all backwards.
    """
    first, *others = bad
    what = "NaN" if any(record.value is not None and record.value.nan for record in bad) else "Inf"
    more = translate(" and {others}", others=counted(len(others), "other")) if others else ""
    where = translate("{what} is in {called}{more}", what=what, called=called(first), more=more)
    if known is not None and known.phase == "unrecorded":
        lost = next((one for one in losses if one.value is not None and not isfinite(one.value)), None)
        since = translate(
            "one of the backwards between {number:,} and {number2:,}, which",
            number=frames[0].number,
            number2=known.number + 1,
        )
        if lost is not None and lost.number <= known.number:
            since = translate(
                "backward {number:,} at {place}, whose loss was {value}. It",
                number=lost.number,
                place=place_text(lost.place),
                value=number(lost.value or 0.0),
            )
        return translate(
            "{where} since {since} was not recorded: {ALL} records each one. {STOP}",
            where=where,
            since=since,
            ALL=ALL,
            STOP=translate(STOP),
        ), ALL
    if known is not None and known.phase != "step" and known.op is not None:
        loss = next((frame.loss for frame in frames if frame.number == known.number), None)
        whose = "" if loss is None else translate(", whose loss was {loss}", loss=number(loss))
        text, remedy = beginning(known)
        return translate(
            "{where} since the step after backward {number:,}{whose}: it began {text}",
            where=where,
            number=known.number,
            whose=whose,
            text=text,
        ), remedy
    at = _first_bad(frames)
    if at is None:
        before = frames[-2].number
        if before == frames[-1].number - 1:
            text = translate(
                "{where} since the step after backward {before:,}, whose gradients were finite: the step made it.",
                where=where,
                before=before,
            )
            return text, None
        return translate(
            "{where} since one of the steps after backward {before:,}, which was finite. {STOP}",
            where=where,
            before=before,
            STOP=translate(STOP),
        ), translate(STOP)
    frame = frames[at]
    if at and frames[at - 1].number != frame.number - 1:
        since = translate(
            "between backward {number:,}, which was finite, and backward {number2:,}",
            number=frames[at - 1].number,
            number2=frame.number,
        )
        return translate(
            "{where} since one of the steps {since}, which was not. {STOP}",
            where=where,
            since=since,
            STOP=translate(STOP),
        ), translate(STOP)
    return translate(
        "{where} since the step after backward {number:,}, {began}. {STOP}",
        where=where,
        number=frame.number,
        began=_began(frame, frames, records),
        STOP=translate(STOP),
    ), translate(STOP)


def beginning(known: FirstBad) -> tuple[str, str | None]:
    """Where a NaN or an Inf began, in words, and the remedy."""
    where = "" if known.place is None else translate(" at {place}", place=place_text(known.place))
    if known.op is None:
        made = (
            translate("the step, whose gradients were finite") if known.phase == "step" else translate("its backward")
        )
        remedy = translate(SMALLER if known.phase == "step" else STOP)
        return translate("in {made}. {remedy}", made=made, remedy=remedy), remedy
    if known.phase == "data":
        name = known.name or translate("an input")
        return translate(
            "in its data: {name}, which {op} uses{where}, held it ({cause}). {CLEAN}",
            name=name,
            op=known.op,
            where=where,
            cause=known.cause,
            CLEAN=translate(CLEAN, check=CHECK),
        ), CHECK
    usual = remedy_of(known.op) or STOP
    remedy = translate(usual)
    advice = remedy if usual in (STOP, SMALLER) else f"{translate(_RANGE)} {remedy}"
    if known.phase == "backward":
        given = translate(" for {name}", name=known.name) if known.name else ""
        return translate(
            "in its backward, in the rule of {op}{where}{given}. {advice}",
            op=known.op,
            where=where,
            given=given,
            advice=advice,
        ), remedy
    why = f": {known.cause}" if known.cause else ""
    return translate(
        "in its forward, in {op}{where}{why}. {advice}", op=known.op, where=where, why=why, advice=advice
    ), remedy


_LOG, _ROOT, _QUOTIENT = "x.clamp(min=1e-8).log()", "(x + 1e-8).sqrt()", "x / (y + 1e-8)"
_INSIDE, _SCORES = "x.clamp(-1 + 1e-6, 1 - 1e-6)", "binary_cross_entropy_with_logits(scores, target)"
_REMEDIES = {
    **dict.fromkeys(("log", "log2", "log10", "xlogy"), _LOG),
    **dict.fromkeys(("sqrt", "rsqrt", "std", "norm", "linalg_vector_norm", "cdist"), _ROOT),
    **dict.fromkeys(("div", "reciprocal", "var"), _QUOTIENT),
    **dict.fromkeys(("exp", "expm1", "exp2", "cosh", "sinh"), "x.clamp(max=80)"),
    **dict.fromkeys(("acos", "asin", "atanh"), _INSIDE),
    "binary_cross_entropy": _SCORES,
    **dict.fromkeys(("mul", "square", "matmul", "linear", "addmm", "mm", "bmm", "sum", "mse_loss"), SMALLER),
}
"""The usual remedy by the op that made a NaN or an Inf."""


_RANGE = message("Keep the numbers there in range, as in")


def remedy_of(op: str) -> str | None:
    """The usual remedy where ``op`` makes a NaN or an Inf."""
    return _REMEDIES.get(op.removesuffix("_"))


def advised(record: Record, text: str) -> str:
    """The ``text`` that a NaN or an Inf begins at ``record``, with the usual remedy."""
    remedy = None if record.op is None else remedy_of(record.op.name)
    if remedy is None:
        return text
    return f"{text}. {translate(SMALLER)}" if remedy is SMALLER else f"{text}. {translate(_RANGE)} {remedy}"


def _first_bad(frames: Sequence[HistoryFrame]) -> int | None:
    return next((at for at, frame in enumerate(frames[:-1]) if not finite(frame)), None)


def held(frames: Sequence[HistoryFrame], records: list[Record]) -> Record | None:
    """A parameter that was not finite in the first bad backward, while others were finite: the trouble began there."""
    at = _first_bad(frames)
    if at is None or not alike(frames[at], frames[-1]):
        return None
    weights = [
        (record, one.weight) for record, one in zip(records, frames[at].records, strict=True) if one.weight is not None
    ]
    bad = [record for record, weight in weights if not isfinite(weight)]
    return bad[0] if 0 < len(bad) < len(weights) else None


def finite(frame: HistoryFrame) -> bool:
    """Whether the loss and all gradients of a frame are finite, as far as they are known."""
    numbers = (frame.loss, *[record.gradient for record in frame.records])
    return all(isfinite(one) for one in numbers if one is not None)


def _began(frame: HistoryFrame, frames: Sequence[HistoryFrame], records: list[Record]) -> str:
    """The text about the place in the first bad backward where the bad number began."""
    if frame.loss is None:
        return translate("whose gradients were not finite")
    if not isfinite(frame.loss):
        one = held(frames, records)
        already = "" if one is None else translate(", with {called}, which held it already", called=called(one))
        return translate(
            "whose loss was {loss}: it began in its forward{already}", loss=number(frame.loss), already=already
        )
    rule = _rule(frame, records) if alike(frame, frames[-1]) else ""
    return translate("whose loss was {loss}: it began in its backward{rule}", loss=number(frame.loss), rule=rule)


def _rule(frame: HistoryFrame, records: list[Record]) -> str:
    """The op whose result had a finite gradient and whose input had not; if several ops used that input, all."""
    norms = {record.id: one.gradient or 0.0 for record, one in zip(records, frame.records, strict=True)}
    users: defaultdict[int, list[Record]] = defaultdict(list)
    for record in records:
        for source in {taken.source for taken in record.inputs if taken.source is not None}:
            users[source].append(record)
    for id in reversed(norms):
        if not isfinite(norms[id]) and users[id] and all(isfinite(norms[user.id]) for user in users[id]):
            return translate(", in the rule of {names}", names=translate(" or ").join([user.run for user in users[id]]))
    return ""


def alike(frame: HistoryFrame, last: HistoryFrame) -> bool:
    """Whether two backwards went through the same ops."""
    return [_look(frame, at) for at in range(len(frame.records))] == [
        _look(last, at) for at in range(len(last.records))
    ]


def _look(frame: HistoryFrame, at: int) -> tuple[str, str | None, tuple[str, ...], bool]:
    record = frame.records[at]
    return record.kind, record.op, record.scopes, at in frame.roots


def grown(frames: Sequence[HistoryFrame]) -> str | None:
    """The text that the loss of a loop grew without bound, up to the last frame with a finite loss; else None."""
    known = [frame for frame in frames if frame.loss is not None and alike(frame, frames[-1])]
    losses = [(frame.number, frame.loss) for frame in known if frame.loss is not None]
    finite = [(number, loss) for number, loss in losses if isfinite(loss)]
    start = len(finite) - 1
    while start > 0 and finite[start - 1][1] < finite[start][1]:
        start -= 1
    sound = len(finite) == len(losses)
    before = max(abs(finite[start][1]), abs(finite[0][1])) if finite else 0.0
    far = 0 < _FAR * before <= finite[-1][1]  # a loss that was 0 exactly has no size to compare with
    if not far or len(finite) - start < (_RUN if sound else _SHORT):
        return _leapt(known, [loss for _, loss in finite]) if sound else None
    (since, least), (until, most) = finite[start], finite[-1]
    return translate(
        "the loss has grown from {least} in backward {since:,} to {most} in backward {until:,}: each "
        "step goes further than the one before. {SMALLER}",
        least=number(least),
        since=since,
        most=number(most),
        until=until,
        SMALLER=translate(SMALLER),
    )


def _leapt(frames: Sequence[HistoryFrame], losses: list[float]) -> str | None:
    """The text that one step made the loss far larger for good, by a very large change of the parameters; else None."""
    befores = list(accumulate(map(abs, losses), max))
    leasts = list(accumulate(reversed(losses), min))[::-1]
    for at in range(1, len(losses) - _RUN + 1):
        if leasts[at] <= _FAR * befores[at - 1]:
            continue
        moved = sorted(one.update for one in frames[at - 1].parameters if one.update is not None)
        if moved and moved[len(moved) // 2] > _BEYOND:
            return translate(
                "the loss has grown from {losses} in backward {number:,} to {losses2} in backward "
                "{number2:,} and stays as large: the step between them changed a typical parameter "
                "by {moved} times its size. {SMALLER}",
                losses=number(losses[at - 1]),
                number=frames[at - 1].number,
                losses2=number(losses[at]),
                number2=frames[at].number,
                moved=number(moved[len(moved) // 2]),
                SMALLER=translate(SMALLER),
            )
    return None


def still(frames: Sequence[HistoryFrame]) -> bool:
    """Whether several steps were measured, and none of them changed anything that is learned."""
    moved = [[one.update for one in frame.parameters if one.update is not None] for frame in frames]
    return sum(map(bool, moved)) >= LOOP and not any(map(any, moved))


def added_up(records: list[Record], frames: Sequence[HistoryFrame]) -> list[Record]:
    """The parameters whose ``.grad`` was not cleared, although a step came after each backward.

    Two cases are no fault. Backwards whose gradients are accumulated share one step and its update. And clipping makes
    a ``.grad`` smaller, not larger.
    """
    found = []
    for at, record in enumerate(records):
        since, came = record.since, record.gradient
        if since is None or since.grad is None or came is None or (since.what is None and record.kind != "leaf"):
            continue
        if since.grad.norm > _MORE * came.norm and (
            _stepped(frames, at) if since.stepped else _changed(record, frames)
        ):
            found.append(record)
    return found


def _changed(record: Record, frames: Sequence[HistoryFrame]) -> bool:
    """Whether the user's own code has changed a leaf after each backward, as torch's counter of its changes says."""
    tensor = None if record.leaf is None else record.leaf()
    if tensor is None or len(frames) < LOOP or raw_of(tensor)._version < frames[-1].number:
        return False
    # Of a .grad that the code changes itself, as for a momentum, nothing is known.
    return tensor.grad is not None and raw_of(tensor.grad)._version < frames[-1].number


def _stepped(frames: Sequence[HistoryFrame], at: int) -> bool:
    """Whether each of the first backwards had a step of its own that changed the tensor of the record at ``at``."""
    if not all(alike(frame, frames[-1]) for frame in frames[:_RUN]):
        return False  # with two losses, one step may use the gradients of both
    updates = [frame.records[at].update for frame in frames[:_RUN]]
    known = [update for update in updates if update is not None]
    return len(known) > 1 and len(set(known)) == len(known)
