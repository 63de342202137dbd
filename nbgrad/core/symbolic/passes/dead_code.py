"""Dead code: steps whose results nothing reads."""

from nbgrad.core.symbolic.ir import ProgramStep
from nbgrad.core.symbolic.passes.rewrite import L, Note, Passed, note, storages

_REFUSES_NUMBERS = frozenset(
    (
        *("index_select", "gather", "take", "take_along_dim", "embedding", "_embedding_bag", "one_hot", "bincount"),
        *("index_add", "index_copy", "index_fill", "index_put", "index_reduce", "scatter", "scatter_add"),
        *("scatter_reduce", "nll_loss_forward", "nll_loss", "nll_loss2d_forward", "multi_margin_loss"),
        *("multilabel_margin_loss_forward", "binary_cross_entropy", "_ctc_loss", "cholesky", "cholesky_inverse"),
        *("histc", "searchsorted", "repeat_interleave", "poisson", "fmod", "remainder", "floor_divide"),
    )
)
"""Functions that raise an error for some numbers, as for an index that is too large. Those of ``linalg`` do so too."""


def _may_raise(step: ProgramStep) -> bool:
    """Whether a step of the forward raises an error for some numbers. One of the backward has numbers that passed."""
    if step.phase != "forward":
        return False
    name = step.name.removesuffix("_")
    several = step.name in ("__getitem__", "__setitem__") and len(step.inputs()) > 1  # an index is a tensor
    return several or step.opaque or name in _REFUSES_NUMBERS or name.startswith("linalg_")


def remove_dead_code(listing: L) -> Passed[L]:
    """Leave out the steps that nothing depends on.

    A step stays if one of its results leaves the program or is read later, if it draws random numbers (the next draws
    depend on it), if it checks numbers or may raise an error because of them, or if it
    writes memory that is seen outside or read later.
    """
    live = {id(value) for value in listing.kept()}
    seen = listing.external() | storages(listing.kept())
    kept, notes = [], list[Note]()
    for step in reversed(listing.steps):
        needed = step.random or step.checks or _may_raise(step) or any(id(value) in live for value in step.results())
        needed = needed or any(value.storage in seen for value in step.writes)
        if not needed:
            notes.append(note("dead code", step, ()))
            continue
        kept.append(step)
        for value in (*step.inputs(), *step.writes):
            live.add(id(value))
            seen.add(value.storage)
    return Passed.of(listing, kept[::-1], notes[::-1])
