"""What the findings of a picture ask of a graph, besides what a user asks of it."""

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.unreached import Paths, Unstepped


class Evidence:
    """Facts about the last backward of a graph and about what ran since. Each is looked for when it is asked for.

    Args:
        graph: which may be open, and go on while it is asked.
    """

    def __init__(self, graph: AutogradGraph) -> None:
        self._graph = graph

    def _paths(self) -> Paths:
        return self._graph._known_paths()

    def nothing_ran(self) -> bool:
        """Whether no op ran in the graph on a tensor that needs a gradient, also none whose result is gone."""
        return self._paths().empty

    def left_out(self) -> dict[str, bool]:
        """Where no op of torch's own was recorded, the first that ran, with whether gradients were on."""
        return self._graph.listener.left_out.copy()

    def began_at_leaf(self) -> bool:
        """Whether the last backward began at a leaf, which nothing led to: it reached that alone."""
        roots = self._graph._notes.roots
        return bool(roots) and self._paths().reached == set(roots)

    def idle_step(self) -> str | None:
        """What there is to say of a step about the last backward that changed nothing, if nothing has moved since."""
        return self._paths().idle_step()

    def early_call(self) -> str | None:
        """What there is to say of a call since the last backward that came too early; None if there was none."""
        number, text = self._graph.listener.uses.slip
        return text if number == self._graph.backwards else None

    def unstepped(self) -> list[Unstepped]:
        """The optimizers whose gradients the last backward brought, cleared in every round, and that took no step."""
        return self._paths().unstepped()

    def rate(self) -> tuple[str, float] | None:
        """The largest learning rate of what the last backward reached, and whose it is; None where that is unknown."""
        return self._paths().holders().rate()

    def spoiled(self) -> list[str]:
        """What there is to say of frozen parameters that hold a NaN or an Inf and were used where nothing is recorded.

        All others that hold one have a record, whose ``value`` counts them.
        """
        return self._paths().spoiled({record.id for record in self._graph.records})
