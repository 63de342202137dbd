"""Facts of a graph for the findings of its picture, in addition to the facts that users can read."""

from collections.abc import Mapping
from functools import cached_property

import torch

from nbgrad.core.engine.function_calls import CALLS, FunctionCall
from nbgrad.core.engine.node import raw_of
from nbgrad.core.engine.observer import Cut
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.tensor_data import FAKE
from nbgrad.core.graph.cut_paths import ByHand, Derivation
from nbgrad.core.graph.first_bad import FirstBad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.known_findings import KnownFindings
from nbgrad.core.graph.optimizers import LOOP
from nbgrad.core.graph.training import TrainingRecorder
from nbgrad.core.graph.unreached import Paths, Unstepped
from nbgrad.core.translation import translate


class Evidence:
    """Facts about the last backward of a graph and the ops since then. Each is computed on request.

    Those of an open graph are of the moment of the first question.

    Args:
        graph: the graph, which may be open and continue to record.
    """

    def __init__(self, graph: AutogradGraph) -> None:
        self._graph = graph

    @cached_property
    def _paths(self) -> Paths:
        return self._graph._known_paths()

    def tensor(self, id: int) -> torch.Tensor | None:
        """The tensor of a leaf or a constant, if it still exists."""
        found = self._graph._notes.things.get(id)
        thing = None if found is None else found()
        data = None if thing is None else raw_of(thing)
        return data if isinstance(data, torch.Tensor) else None

    def derivations(self) -> list[Derivation]:
        """The last backwards whose gradients can be differentiated, in their order."""
        return self._paths.derivations

    def names(self) -> Mapping[int, str]:
        """The user's names of tensors, by the ids of their records; also of tensors that no record shows."""
        return self._graph._notes.names

    def reached(self) -> set[int]:
        """The ids of the records to which the last backward gave a gradient."""
        return self._paths.reached

    def frozen(self) -> list[tuple[str, int]]:
        """The frozen parameters that an optimizer holds, by name, with how many it holds in all."""
        return self._paths.frozen()

    def restless(self) -> list[tuple[str, Place]]:
        """The frozen batch norms whose running statistics change, each with the line that calls it first."""
        return self._paths.restless()

    def unused(self) -> list[tuple[int, str, Place]]:
        """The numbers that were computed for the last backward, which nothing uses or reads."""
        return self._paths.unused()

    def rebound(self) -> list[tuple[int, str, Cut]]:
        """The leaves of a loop that a line computes new values of, and never changes."""
        return self._paths.rebound()

    def function_call(self, id: int) -> FunctionCall | None:
        """The call of a ``Function`` of the user's, while the results of the op live."""
        ran = self._paths.ops.get(id)
        node = None if ran is None else ran.thing()
        return None if node is None else CALLS.get(node)

    def severed(self) -> list[tuple[int, int, Cut]]:
        """The states of a recurrence that are cut off before each next one."""
        return self._paths.severed()

    def behind(self, id: int) -> tuple[Cut, ...]:
        """The ends of the paths from which a constant was computed."""
        return self._paths.behind(id)

    def learns_beside(self, cut: Cut) -> bool:
        """Whether what was cut off there got a gradient along another path in the last backward."""
        return self._paths.learns_beside(cut)

    def by_hand(self) -> dict[int, ByHand]:
        """The changes inside ``no_grad`` by the program itself, by the ids of the leaves."""
        return self._paths.by_hand()

    def training(self) -> TrainingRecorder:
        """The calls of optimizers, schedulers and clipping."""
        return self._graph.listener.training

    def trains(self) -> bool:
        """Whether the backwards are of a training: an optimizer took a step, or there were as many as in a loop."""
        return self._graph.backwards >= LOOP or any(log.steps for log in self.training().logs.values())

    def living(self) -> dict[int, int]:
        """For each earlier backward, but for the last ones, how many of its ops still live, by its number.

        Of a backward that was not recorded it is known that its graph lives, and not how many ops it has: 0.
        """
        return dict.fromkeys(self._graph.pace.living(), 0) | self._paths.living()

    def unseen(self) -> set[int]:
        """The ids of the ops that no graph recorded: their values and constants are not known."""
        return self._graph._notes.remade

    def nothing_ran(self) -> bool:
        """Whether no op in the graph ran on a tensor that needs a gradient; ops whose results are gone count too."""
        return self._paths.empty

    def no_backward(self) -> bool:
        """Whether no backward has run or was refused."""
        return not self._paths.begun

    def left_out(self) -> dict[str, bool]:
        """The first ops of torch's own that ran before any op was recorded, each with whether gradients were on."""
        return self._graph.listener.left_out.copy()

    def unread(self) -> list[str]:
        """The kinds of tensors whose ops the graph has without values, in words: classes of tensors, nested tensors."""
        listener = self._graph.listener
        kinds = listener.unread.copy() if listener.watch else {}
        return [kind for kind in kinds if kind != FAKE]

    @cached_property
    def without_numbers(self) -> str | None:
        """Which tensors of the graph have shapes and no numbers, in words; None if all have numbers."""
        if any(record.device.type == "meta" for record in self._graph.records):
            own = self._graph if isinstance(self._graph, KnownFindings) else KnownFindings
            return translate(own.unnumbered)
        return translate("tensors of FakeTensorMode") if FAKE in self._graph.listener.unread else None

    def began_at_leaf(self) -> bool:
        """Whether the last backward began at a leaf: no op made the leaf, so the backward reached nothing else."""
        roots = self._graph._notes.roots
        return bool(roots) and self._paths.reached == set(roots)

    def idle_step(self) -> tuple[str, str] | None:
        """The message about an optimizer step, around the last backward, that changed nothing; and the remedy.

        None if there was none, or if a leaf that this backward reached has changed since.
        """
        return self._paths.idle_step()

    def unstepped(self) -> list[Unstepped]:
        """Optimizers that clear gradients in a loop without a step, with parameters that the last backward reached."""
        return self._paths.unstepped()

    def untouched(self) -> list[Unstepped]:
        """Optimizers that were never called although a loop of backwards reached their parameters."""
        return self._paths.untouched()

    def rate(self) -> tuple[str, float] | None:
        """The largest learning rate of parameters that the last backward reached, and its optimizer; if known."""
        return self._paths.holders().rate()

    def first_bad(self) -> FirstBad | None:
        """Where the first NaN or Inf of the program began, if a loss was not finite; None if that is not known."""
        found = self._graph.listener.first_bad
        return None if found is None or found.phase == "start" else found

    def spoiled(self) -> list[str]:
        """The frozen parameters that hold a NaN or an Inf and were used where nothing is recorded.

        All others that hold one have a record, whose ``value`` counts them.
        """
        return self._paths.spoiled({record.id for record in self._graph.records})
