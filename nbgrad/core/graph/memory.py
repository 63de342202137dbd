"""``MemoryUse``: the bytes that a backward needs, by storage: which op keeps which, and when they live."""

from collections.abc import Iterable

from nbgrad.core.graph.kept_storages import KeptStorages, KeptValue, Storage
from nbgrad.core.graph.record import Record


class MemoryUse:
    """The bytes that the ops of a graph keep for the backward.

    The parameters and other leaves are not counted: they exist without a backward. Each other storage is counted once,
    with all its bytes: views keep the whole storage that they look into.

    Args:
        records: the records of the graph.
        kept: what was read.

    Attributes:
        storages: the storages.
        values: by id of the record of an op, the values that it keeps.
        whole: whether this is all; False if torch does not show what some ops keep, as that of a change in place of a
            view.
    """

    def __init__(self, records: list[Record], kept: KeptStorages) -> None:
        self._records = records
        self._kept = kept
        self.storages: list[Storage] = kept.storages
        self.values: dict[int, list[KeptValue]] = kept.values
        self.whole = not kept.hidden

    @property
    def total(self) -> int:
        """The bytes of all storages."""
        return sum([one.size for one in self.storages])

    @property
    def aside(self) -> int:
        """The bytes of ``total`` that only attributes of ``ctx`` hold: no hook of ``saved_tensors_hooks`` sees them."""
        return sum([one.size for one in self.storages if one.aside])

    def kept_by(self, ids: Iterable[int]) -> int:
        """The bytes that the ops with these ``ids`` keep together; a storage that several keep is counted once."""
        numbers = {value.storage for id in ids for value in self.values.get(id, ())}
        return sum([self.storages[number].size for number in numbers if number is not None])
