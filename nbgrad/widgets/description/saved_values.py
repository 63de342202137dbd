"""The values that an op keeps for its backward, in words, and their storages."""

from typing import NamedTuple

from nbgrad.core.graph.memory import MemoryUse, byte_text
from nbgrad.core.translation import translate


class Saved(NamedTuple):
    """The values that one op keeps between its forward and its backward.

    Attributes:
        names: of the values whose storages are counted.
        leaves: the names of those in the storages of parameters and other leaves, which exist without a backward.
        size: the bytes of the counted storages, each once.
        whole: whether this is all that the op keeps.
    """

    names: tuple[str, ...]
    leaves: tuple[str, ...]
    size: int
    whole: bool

    def __str__(self) -> str:
        least = "" if self.whole else translate("at least ")
        parts = [f"{', '.join(self.names)}: {least}{byte_text(self.size)}"] if self.names else []
        if self.leaves:
            parts.append(translate("{names}: no bytes, because a leaf exists anyway", names=", ".join(self.leaves)))
        if not parts:
            return translate("nothing") if self.whole else translate("values that torch does not show")
        return "; ".join(parts)


def saved_by(memory: MemoryUse | None) -> dict[int, Saved]:
    """The values that each op keeps, by the id of its record; empty if that is not known."""
    if memory is None:
        return {}
    found: dict[int, Saved] = {}
    for id, *_ in memory.kept.ops:
        values = memory.values.get(id, ())
        found[id] = Saved(
            tuple(dict.fromkeys(one.name for one in values if one.storage is not None)),
            tuple(dict.fromkeys(one.name for one in values if one.storage is None)),
            memory.kept_by([id]),
            id not in memory.kept.hidden,
        )
    return found
