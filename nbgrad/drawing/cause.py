"""``Cause``: a fault of an engine that explains a wrong number, and the choice among several.

Of several causes, the one that explains the most wrong numbers is named, and of equal ones the simplest. If that leaves
two, both are named; if it leaves more, none is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nbgrad.core.translation import translate


@dataclass(frozen=True)
class Cause:
    """A fault that explains a wrong number.

    Attributes:
        key: the same for the same fault.
        text: one or two sentences on the fault, and what to do.
        rank: how simple it is; 1 is the simplest.
        explains: how many of the wrong numbers it explains.
    """

    key: str
    text: str
    rank: int
    explains: int = field(default=1, compare=False)


def best(causes: Sequence[Cause]) -> str | None:
    """The words for the best of these causes; None if there is none, or if more than two are equally good."""
    if not causes:
        return None
    most = max(one.explains for one in causes)
    able = [one for one in causes if one.explains == most]
    least = min(one.rank for one in able)
    simplest = {one.key: one.text for one in reversed(able) if one.rank == least}
    texts = list(dict.fromkeys(simplest.values()))[::-1]
    if len(texts) == 1:
        return texts[0]
    return translate("Either: {texts} Or: {texts2}", texts=texts[0], texts2=texts[1]) if len(texts) == 2 else None
