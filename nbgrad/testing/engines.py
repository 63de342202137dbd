"""``assert_engine_correct``: an engine that somebody wrote against nbgrad's own ops and rules."""

from collections.abc import Iterable

from nbgrad.drawing.caller import verdict


def assert_engine_correct(
    root: object, *, gradients: bool = True, given: Iterable[str] = (), msg: str | None = None
) -> None:
    """Raise if a value or a gradient of another engine is not what nbgrad computes: run forward and backward before.

    Each op is checked alone, from the engine's own numbers: the message names the first number that differs, values
    from the leaves to the result, then gradients from the result to the leaves. It says what is probably missing, such
    as a path that is not added or a sum that does not undo a broadcast.

    Args:
        root: the result from which the backward ran: an object of your own class, of micrograd's, minitorch's, and so
            on, as ``nbgrad.draw`` takes it; or a list of several.
        gradients: whether there have to be gradients. Give False before a backward is written.
        given: the names of ops that are taken as they are, because nbgrad does not know them or their arguments.
        msg: the message of the error, instead of the verdict.

    Raises:
        AssertionError: a number differs; or an op cannot be checked and is not in ``given``; or there are no gradients.
        nbgrad.drawing.UnreadableError: an object from which no graph can be read.
    """
    found = verdict(root)
    unknown = [op for op in found.unknown if op not in set(given)]
    if found.ok and not unknown and (found.has_gradients or not gradients):
        return
    lines = [found.text]
    if unknown:
        lines.append(f"To take them as they are, pass given={unknown!r}.")
    if found.ok and gradients and not found.has_gradients:
        lines.append("To compare values only, pass gradients=False.")
    raise AssertionError(msg or "assert_engine_correct: " + "\n  ".join(lines))
