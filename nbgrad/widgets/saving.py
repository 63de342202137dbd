"""What an op kept for its backward, worked out from its rules: nobody counts while the op runs."""

from math import prod

from nbgrad.core.function import of_function
from nbgrad.core.record import Input, Record
from nbgrad.widgets.wording import byte_text


class Saved:
    """What one op keeps between its forward and its backward.

    Attributes:
        names: of the inputs, results and settings that its rules name.
        size: bytes of the tensors among them whose shapes are in the record.
        whole: whether that is all of it.
    """

    def __init__(self, record: Record, inputs: tuple[Input, ...], made: dict[int, Record]) -> None:
        self.names: tuple[str, ...] = ()
        self.size = 0
        self.whole = True
        op = record.op
        if op is None or record.kind != "op":
            return
        taken = [(name, made.get(one.source or 0)) for name, one in zip(op.inputs, inputs, strict=False)]
        wanted = [
            position
            for position, (name, source) in enumerate(taken)
            if name in op.rules and source is not None and needs_gradient(source)
        ]
        if not wanted or not op.differentiable:
            return
        needs = [need for position in wanted for need in op.rules[taken[position][0]].needs]
        self.names = tuple(dict.fromkeys(name for need in needs for name in op.expanded(need)))
        self.whole = not of_function(op)  # what a function of the user's saves is its own affair
        sizes = {name: _bytes(source) for name, source in taken if source is not None and not _several(source)}
        sizes |= {name: _bytes(record) for name in op.results[:1]}
        given = {name for name, source in taken if source is None} | set(op.defaults)
        for name in self.names:
            if name in sizes:
                self.size += sizes[name]
            elif name not in given and not name.endswith(("_shape", "_device")):
                self.whole = False

    def __str__(self) -> str:
        if not self.names:
            return "nothing" if self.whole else "what its forward asked for"
        return f"{', '.join(self.names)}: {'' if self.whole else 'at least '}{byte_text(self.size)}"


def needs_gradient(record: Record) -> bool:
    """Whether a backward gives what a record stands for a gradient, if one reaches it."""
    return record.kind != "constant"


def _several(record: Record) -> bool:
    return record.op is not None and record.op.several


def _bytes(record: Record) -> int:
    return prod(record.shape) * record.dtype.itemsize
