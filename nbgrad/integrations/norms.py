"""The numbers of a step: its loss, the norms of its gradients, and how far it moved the parameters."""

from collections.abc import Iterable
from math import hypot
from typing import Any, Literal

from nbgrad.core.engine.node import record_id
from nbgrad.core.engine.torch_origins import known_origin
from nbgrad.core.graph.graph import AutogradGraph

Detail = Literal["module", "parameter"]
"""Whether there is a number for each module that has parameters of its own, or for each parameter."""


class StepNorms:
    """Collects the norms of one step from the backwards and the updates in it, until ``taken``.

    Args:
        graph: records the training.
        models: the modules whose names of parameters count. A parameter of no model is called as in its picture.
    """

    def __init__(self, graph: AutogradGraph, models: Iterable[Any]) -> None:
        self._graph, self._models = graph, tuple(models)
        self._gradients: dict[int, tuple[str, float]] = {}
        self._updates: dict[int, float] = {}
        self._seen = 0  # the last update that was collected, by the number of its backward

    def backward_ended(self) -> None:
        """Collect the norms of the last backward, which the graph has recorded."""
        names = {
            record_id(origin): name
            for model in self._models
            for name, one in model.named_parameters()
            if (origin := known_origin(one)) is not None
        }
        for one in self._graph.records:
            if one.kind == "parameter" and (found := one.gradient) is not None:
                self._gradients[one.id] = names.get(one.id) or one.full_name or f"parameter {one.shape}", found.norm

    def step_ended(self) -> None:
        """Collect the update of the step, if it was measured."""
        update = self._graph.update
        if update is not None and update.number > self._seen:
            self._seen = update.number
            self._updates.update(update.ratios)

    def taken(self, detail: Detail) -> dict[str, float]:
        """The numbers by name, as "nbgrad/gradient_norm/fc1"; from now on those of the next step are collected.

        A module has the norm of all gradients of its own parameters together, and the largest of their updates. Empty
        if no backward was recorded.
        """
        gradients, updates = self._gradients, self._updates
        self._gradients, self._updates = {}, {}
        if not gradients:
            return {}
        values = {"nbgrad/gradient_norm": hypot(*[norm for _, norm in gradients.values()])}
        if moved := [updates[id] for id in gradients if id in updates]:
            values["nbgrad/update_ratio"] = max(moved)
        for id, (name, norm) in gradients.items():
            part = name if detail == "parameter" else name.rpartition(".")[0] or name
            gradient, update = f"nbgrad/gradient_norm/{part}", f"nbgrad/update_ratio/{part}"
            values[gradient] = hypot(values.get(gradient, 0.0), norm)
            if id in updates:
                values[update] = max(values.get(update, 0.0), updates[id])
        return values
