"""The parts of a loss that is a sum of others: ``loss = a + 0.1 * b + c``."""

from collections.abc import Mapping
from math import prod

from nbgrad.core.engine.traits import traits_of
from nbgrad.core.graph.record import Record
from nbgrad.widgets.description.format import scalar
from nbgrad.widgets.description.schema import Term
from nbgrad.widgets.description.tensor_summary import WIDE
from nbgrad.widgets.description.text_metrics import clip_middle

MOST = 6
"""A loss of more parts, such as one of all steps of a loop, is not written out."""

_NAME = 24


def summed_losses(records: list[Record], ids: Mapping[int, str]) -> tuple[dict[str, list[Term]], dict[str, list[str]]]:
    """The parts of each loss that is a sum, and of each part that is itself a sum with a variable of its own.

    A sum counts if all parts are single numbers, and if one of them is made of several numbers. So a sum of numbers, as
    in an engine for scalars, is none.

    Args:
        records: all of them.
        ids: the id of the node of each record.

    Returns:
        By the node of the sum: its parts, in the order of the code; and their numbers as lines of its box.
    """
    sums = _Sums(records)
    found: dict[str, list[Term]] = {}
    values: dict[str, str] = {}
    waiting = [record.id for record in records if record.root]
    while waiting:
        id = waiting.pop()
        parts = sums.parts(id)
        if ids[id] in found or not 1 < len(parts) <= MOST or not any(sums.reduces(one) for one, _ in parts):
            continue
        found[ids[id]] = [Term(node=ids[one], name=sums.name(one), minus=sign < 0) for one, sign in parts]
        values |= {ids[one]: text for one, _ in parts if (text := sums.value(one)) is not None}
        waiting += [one for one, _ in parts]
    return found, {node: lines for node, terms in found.items() if (lines := sum_lines(terms, values))}


class _Sums:
    def __init__(self, records: list[Record]) -> None:
        self._records = {record.id: record for record in records}

    def parts(self, id: int, sign: int = 1) -> list[tuple[int, int]]:
        """The parts of a sum, each with its sign; none if it is no sum.

        The parts of an inner sum without a variable are parts of this one.
        """
        record = self._records[id]
        if (
            prod(record.shape) != 1
            or traits_of(record.op).sign not in ("+", "−")
            or record.settings.get("alpha", 1) != 1
        ):
            return []
        found: list[tuple[int, int]] = []
        for at, taken in enumerate(record.inputs):
            own = -sign if at and traits_of(record.op).sign == "−" else sign
            if taken.source not in self._records:
                if taken.literal != 0:  # with which ``sum`` begins
                    return []
                continue
            inner = self._records[taken.source]
            if prod(inner.shape) != 1 or inner.several:
                return []
            found += ([] if inner.name else self.parts(inner.id, own)) or [(inner.id, own)]
            if len(found) > MOST:
                return found
        return found

    def reduces(self, id: int) -> bool:
        """Whether a part is made of several numbers; the factors of a product are looked at too."""
        record = self._records[id]
        inputs = [self._records[one.source] for one in record.inputs if one.source in self._records]
        if any(prod(one.shape) > 1 for one in inputs):
            return True
        return traits_of(record.op).sign is not None and any(self.reduces(one.id) for one in inputs)

    def value(self, id: int) -> str | None:
        """The number of a part; None if it is not known, or changed since."""
        record = self._records[id]
        numbers = None if record.value is None else record.value.array
        changed = record.since is not None and record.since.what is not None
        return None if numbers is None or changed else scalar(numbers.reshape(-1)[0].item())

    def name(self, id: int) -> str:
        """The variable of a part; of a product that has none, the variables of its factors, else the name of the op."""
        return clip_middle(self._whole_name(id), _NAME)

    def _whole_name(self, id: int) -> str:
        record = self._records[id]
        if record.name is not None or record.op is None:
            return record.name or record.kind
        sign = traits_of(record.op).sign
        if sign not in ("×", "÷"):
            return record.op.name
        factors = [
            scalar(one.literal) if one.source not in self._records else self._factor(one.source)
            for one in record.inputs
        ]
        if sign == "×" and record.inputs[-1].literal is not None:  # 0.1 × b, also where the code has b * 0.1
            factors.reverse()
        return f" {sign} ".join(factors)

    def _factor(self, id: int) -> str:
        record = self._records[id]
        return record.name or (record.kind if record.op is None else record.op.name)


def sum_lines(terms: list[Term], values: Mapping[str, str]) -> list[str]:
    """The lines ``= 0.42 (a) + 0.03 (0.1 × b)`` below the value of a sum; none where a value is not known.

    Args:
        terms: the parts of the sum.
        values: the number of each part, by its node.
    """
    if not terms or any(one["node"] not in values for one in terms):
        return []
    lines = ["="]
    for at, term in enumerate(terms):
        value = values[term["node"]].strip("[]")  # it may have dimensions
        below = value.startswith("-")
        sign = ("+" if below else "−") if term["minus"] else ("−" if below else "+")
        number = value.removeprefix("-")
        begin = f"{sign} " if at else "-" if sign == "−" else ""
        turned = "−" if term["minus"] and below else ""  # "+ 0.3 (−b)", where b is below zero
        part = f"{begin}{number} ({turned}{term['name']})"
        if len(lines[-1]) + 1 + len(part) > WIDE and lines[-1] != "=":
            lines.append(part)
        else:
            lines[-1] += f" {part}"
    return lines
