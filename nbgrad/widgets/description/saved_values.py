"""The values that an op keeps for its backward, in words, and their storages."""

from typing import NamedTuple

from nbgrad.core.graph.kept_storages import KeptStorages
from nbgrad.core.graph.memory import byte_text


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
        least = "" if self.whole else "at least "
        parts = [f"{', '.join(self.names)}: {least}{byte_text(self.size)}"] if self.names else []
        if self.leaves:
            parts.append(f"{', '.join(self.leaves)}: no bytes, because a leaf exists anyway")
        if not parts:
            return "nothing" if self.whole else "values that torch does not show"
        return "; ".join(parts)


def saved_by(kept: KeptStorages | None) -> dict[int, Saved]:
    """The values that each op keeps, by the id of its record; empty if that is not known."""
    if kept is None:
        return {}
    found: dict[int, Saved] = {}
    for id, *_ in kept.ops:
        values = kept.values.get(id, ())
        counted = {one.storage for one in values if one.storage is not None}
        found[id] = Saved(
            tuple(dict.fromkeys(one.name for one in values if one.storage is not None)),
            tuple(dict.fromkeys(one.name for one in values if one.storage is None)),
            sum([kept.storages[number].size for number in counted]),
            id not in kept.hidden,
        )
    return found
