"""What if a number of a leaf or an input were another: the texts of a picture for a run with it."""

from collections.abc import Iterator, Mapping
from math import isfinite, prod
from typing import Any

import torch

from nbgrad.core.graph.rerun import Call, Rerun, RerunError, RerunOutcome, norms_of
from nbgrad.core.graph.stats import Stats, summarise, summarise_all
from nbgrad.core.no_gc import uncollected
from nbgrad.core.translation import translate
from nbgrad.widgets.description.format import number, shape_text
from nbgrad.widgets.description.ids import edge_id, node_id
from nbgrad.widgets.description.outline import LOOK
from nbgrad.widgets.description.schema import Description, Look, Supposed
from nbgrad.widgets.description.summed_losses import sum_lines
from nbgrad.widgets.description.tensor_summary import FEW, WRITTEN_IN_BOX, amount, in_box, look

Changes = Mapping[str, Mapping[str, float]]
"""The new numbers: by node, and by the position of the number in row order."""


class WhatIf:
    """A picture whose graph can be run again.

    It holds no tensor while nothing is changed.

    Args:
        rerun: the graph, or why it cannot be run again.
    """

    def __init__(self, rerun: Rerun | RerunError) -> None:
        self._rerun = rerun
        self._places = {} if isinstance(rerun, RerunError) else {node_id(at): id for at, id in enumerate(rerun.order)}
        self._names = {id: node for node, id in self._places.items()}
        self._edge_ids = [] if isinstance(rerun, RerunError) else list(edge_ids(rerun))
        self._notes: list[str] | None = None  # how a run without a change differs, and its loss
        self._loss: float | None = None

    @uncollected
    def answer(self, request: Mapping[str, Any], description: Description) -> Supposed:
        """Run the graph again with the changes of a ``request``.

        Args:
            request: ``node``, the one that is looked at; ``place``, the number of it under the slider; ``changes``; and
                ``nudge``, whether a finite difference is asked for.
            description: of the whole graph, as recorded.
        """
        node, place, changes = str(request["node"]), int(request["place"]), request["changes"]
        told = _nothing(node, place)
        try:
            self._fill(told, changes, description, nudge=bool(request["nudge"]))
        except RerunError as error:
            told["said"] = translate("What if: {error}.", error=error)
        return told

    def _fill(self, told: Supposed, changes: Changes, description: Description, *, nudge: bool) -> None:
        rerun, node = self._rerun, told["node"]
        if isinstance(rerun, RerunError):
            raise rerun
        id = self._places.get(node)
        if id in rerun.sources:
            self._control(told, id, changes)
        if not changes:
            self._notes = self._loss = None
            if not nudge:
                return
        numbers = {self._places[one]: self._changed(self._places[one], changes[one]) for one in changes}
        if changes and self._notes is None:
            self._notes, self._loss = rerun.differences(), rerun.root({}) if rerun.roots else None
        told["notes"] = self._notes or []
        outcome = rerun.run(numbers)
        if changes:
            hidden = set(description.get("unknown", []))
            told["texts"] = self._texts(outcome, description, hidden)
            told["edges"] = self._edges(outcome, id, hidden)
            told["value"], told["gradient"] = self._looks(outcome, id, node in hidden)
            if outcome.root is not None and self._loss is not None:
                told["result"] = translate(
                    "{root_name} {root}, was {loss}",
                    root_name=root_name(description),
                    root=number(outcome.root),
                    loss=number(self._loss),
                )
        if nudge and id in rerun.sources:
            told["nudge"] = self._nudge(id, told["place"], numbers, description, node)

    def _control(self, told: Supposed, id: int, changes: Changes) -> None:
        """Say what can be changed of a leaf or an input."""
        assert isinstance(self._rerun, Rerun)
        data = self._rerun.numbers(id)
        if data.dtype.is_complex or not data.numel():
            raise RerunError(
                translate("complex numbers cannot be changed here" if data.numel() else "it has no number")
            )
        told["place"] = max(0, min(told["place"], data.numel() - 1))
        mine = self._changed(id, changes.get(told["node"], {}))
        told["shape"], told["whole"] = list(data.shape), not data.is_floating_point()
        told["was"] = _exact(data, told["place"])
        told["number"] = _exact(mine, told["place"])
        if data.numel() <= WRITTEN_IN_BOX:
            told["grid"] = [_exact(mine, at) for at in range(data.numel())]

    def _changed(self, id: int, changed: Mapping[str, float]) -> torch.Tensor:
        """The numbers of a leaf or an input in this run, in memory of their own."""
        assert isinstance(self._rerun, Rerun)
        data = self._rerun.numbers(id).clone(memory_format=torch.contiguous_format)
        for place, value in changed.items():
            try:
                data.view(-1)[int(place)] = value if data.is_floating_point() else int(value)
            except (RuntimeError, OverflowError, ValueError) as error:
                raise RerunError(f"{value} does not fit: {error}") from error
        return data

    def _texts(self, outcome: RerunOutcome, description: Description, hidden: set[str]) -> dict[str, list[str]]:
        """The lines of the boxes, as ``describe`` writes them."""
        assert isinstance(self._rerun, Rerun)
        nodes = description["nodes"]
        most = WRITTEN_IN_BOX if len(nodes) <= LOOK else FEW
        values = {
            node["id"]: outcome.values[self._places[node["id"]]]
            for node in nodes
            if node["id"] in self._places and node["numbers"]
        }
        gradients = {
            node: gradient for id, gradient in outcome.gradients.items() if (node := self._names[id]) not in hidden
        }
        written = summarise_all(dict(enumerate(values.values())))
        numbers = {node: in_box(written[at]) for at, node in enumerate(values)}
        sums = description.get("sums", {})
        lines = {
            node: "\n".join([translate("value {in_box}", in_box=text), *sum_lines(sums.get(node, []), numbers)])
            for node, text in numbers.items()
        }
        rules = dict(_rules(gradients, most))
        return {node: [lines.get(node, ""), rules.get(node, "")] for node in dict.fromkeys((*lines, *rules))}

    def _edges(self, outcome: RerunOutcome, id: int | None, hidden: set[str]) -> dict[str, str]:
        """The gradients along the edges of one node, by the ids that ``describe`` gives them."""
        known = outcome.contributions
        told = {
            edge: (call.id, position)
            for edge, call, position in self._edge_ids
            if id in (call.id, call.takes[position])
            and (call.id, position) in known
            and self._names[call.takes[position] or 0] not in hidden
        }
        stats = _statistics({edge: known[key] for edge, key in told.items()}, FEW)
        return {edge: f"{shape_text(one.shape)}, {amount(one, FEW)}" for edge, one in stats.items()}

    @staticmethod
    def _looks(outcome: RerunOutcome, id: int | None, hidden: bool) -> tuple[Look | None, Look | None]:
        """The numbers of one node."""
        if id not in outcome.values:
            return None, None
        value, gradient = outcome.values[id], outcome.gradients.get(id)
        shown = None if hidden or not isinstance(gradient, torch.Tensor) else look(summarise(gradient))
        return look(summarise(value)), shown

    def _nudge(
        self, id: int, place: int, numbers: Mapping[int, torch.Tensor], description: Description, node: str
    ) -> str:
        """The finite difference in words."""
        assert isinstance(self._rerun, Rerun)
        if node in description.get("unknown", []):
            raise RerunError("this gradient is asked for: answer first")
        found = self._rerun.nudge(id, place, numbers)
        size = max(abs(found.difference), abs(found.gradient))
        apart = abs(found.difference - found.gradient)
        far = (
            ""
            if not isfinite(apart) or not size
            else translate(" They differ by {apart:.2g}%.", apart=100 * apart / size)
        )
        return translate(
            "Central difference with h = {step}: {difference}. The gradient: {gradient}.{far}",
            step=number(found.step),
            difference=number(found.difference),
            gradient=number(found.gradient),
            far=far,
        )


def root_name(description: Description) -> str:
    """The name in the picture of the tensor from which the last backward began."""
    return next((one["variable"] or one["label"][0] for one in reversed(description["nodes"]) if one["root"]), "loss")


def _nothing(node: str, place: int) -> Supposed:
    return Supposed(
        node=node, said="", notes=[], shape=None, whole=False, place=place, number="", was="", grid=[], texts={},
        edges={}, value=None, gradient=None, result="", nudge="",
    )  # fmt: skip


def _exact(data: torch.Tensor, place: int) -> str:
    """One number, in as many digits as tell it from its neighbours; a truth value is 0 or 1."""
    value = data.reshape(-1)[place]
    return _shortest(value) if data.dtype.is_floating_point else str(int(value.item()))


def _shortest(value: torch.Tensor) -> str:
    exact = value.item()
    for digits in (4, 7, 9):
        text = f"{exact:.{digits}g}"
        if torch.tensor(float(text), dtype=value.dtype) == value:
            return text
    return repr(exact)


def edge_ids(rerun: Rerun) -> Iterator[tuple[str, Call, int]]:
    """The ids of the edges, each with the op that it leads to and the position of the input."""
    known, count = set(rerun.order), 0
    for call in rerun.calls:
        for position, source in enumerate(call.takes):
            if source in known:
                yield edge_id(count), call, position
                count += 1


def _statistics(tensors: Mapping[str, torch.Tensor], most: int) -> dict[str, Stats]:
    """The statistics of tensors; only the norm of those with more than ``most`` numbers."""
    keys = list(tensors)
    small = {at: tensors[key] for at, key in enumerate(keys) if tensors[key].numel() <= most}
    large = {at: tensors[key] for at, key in enumerate(keys) if at not in small}
    lengths = norms_of(large)
    found = summarise_all(small)
    return {
        key: found[at] if at in found else Stats(tuple(tensors[key].shape), lengths[at])
        for at, key in enumerate(keys)
        if at in found or at in lengths
    }


def _rules(gradients: "Mapping[str, torch.Tensor | list[torch.Tensor]]", most: int) -> Iterator[tuple[str, str]]:
    """The line of the gradient of each node."""
    single = {node: one for node, one in gradients.items() if isinstance(one, torch.Tensor)}
    for node, stats in _statistics(single, most).items():
        few = stats.array is not None and 1 < prod(stats.shape) <= most and not single[node].dtype.is_complex
        yield node, f"∇ {in_box(stats) if few else amount(stats)}"
    several = {node: one for node, one in gradients.items() if not isinstance(one, torch.Tensor)}
    lengths = norms_of(dict(enumerate(several.values())))
    for at, node in enumerate(several):
        if at in lengths:
            yield node, translate("∇ norm {lengths} of all results", lengths=number(lengths[at]))
