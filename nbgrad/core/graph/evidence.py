"""Facts of a graph for the findings of its picture, in addition to the facts that users can read."""

from nbgrad.core.graph.first_bad import FirstBad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.unreached import Paths, Unstepped


class Evidence:
    """Facts about the last backward of a graph and the ops since then. Each is computed on request.

    Args:
        graph: the graph, which may be open and continue to record.
    """

    def __init__(self, graph: AutogradGraph) -> None:
        self._graph = graph

    def _paths(self) -> Paths:
        return self._graph._known_paths()

    def nothing_ran(self) -> bool:
        """Whether no op in the graph ran on a tensor that needs a gradient; ops whose results are gone count too."""
        return self._paths().empty

    def no_backward(self) -> bool:
        """Whether no backward has run or was refused."""
        return not self._paths().begun

    def left_out(self) -> dict[str, bool]:
        """The first ops of torch's own that ran before any op was recorded, each with whether gradients were on."""
        return self._graph.listener.left_out.copy()

    def unread(self) -> list[str]:
        """The kinds of tensors whose ops the graph has without values, in words: classes of tensors, nested tensors."""
        listener = self._graph.listener
        return list(listener.unread.copy()) if listener.watch else []

    def began_at_leaf(self) -> bool:
        """Whether the last backward began at a leaf: no op made the leaf, so the backward reached nothing else."""
        roots = self._graph._notes.roots
        return bool(roots) and self._paths().reached == set(roots)

    def idle_step(self) -> str | None:
        """The message about an optimizer step, just before or after the last backward, that changed nothing.

        None if there was none, or if a leaf that this backward reached has changed since.
        """
        return self._paths().idle_step()

    def early_call(self) -> str | None:
        """The message about a call since the last backward that came too early; None if there was none."""
        number, text = self._graph.listener.uses.slip
        return text if number == self._graph.backwards else None

    def unstepped(self) -> list[Unstepped]:
        """Optimizers that clear gradients in a loop without a step, with parameters that the last backward reached."""
        return self._paths().unstepped()

    def rate(self) -> tuple[str, float] | None:
        """The largest learning rate of parameters that the last backward reached, and its optimizer; if known."""
        return self._paths().holders().rate()

    def first_bad(self) -> FirstBad | None:
        """Where the first NaN or Inf of the program began, if a loss was not finite; None if that is not known."""
        found = self._graph.listener.first_bad
        return None if found is None or found.phase == "start" else found

    def spoiled(self) -> list[str]:
        """The frozen parameters that hold a NaN or an Inf and were used where nothing is recorded.

        All others that hold one have a record, whose ``value`` counts them.
        """
        return self._paths().spoiled({record.id for record in self._graph.records})
