"""The errors of tracing, with the line, the reason and the remedy."""

from nbgrad.core.engine.place import Place


class TraceError(RuntimeError):
    """A function does what a program cannot do; the message says where, why, and what to do instead.

    Attributes:
        reason: the reason, without the line.
    """

    reason = ""


class ColdOptimizer(TraceError):
    """An optimizer has no state yet, which its first step would make."""


class Unsettled(TraceError):
    """The function has set what was unset, as a first call may do once for all later ones."""


def error_at(place: Place, reason: str, remedy: str, kind: type[TraceError] = TraceError) -> TraceError:
    """The error for a line of the user's code."""
    error = kind(f"{place}: {reason}. {remedy}")
    error.reason = reason
    return error
