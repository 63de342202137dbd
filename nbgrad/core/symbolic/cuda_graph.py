"""The backend "cudagraph": the kernels of a listing as a CUDA graph, which one call starts.

A graph reads and writes fixed memory. So arguments are copied into it, and results are copied out of it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from nbgrad.core.structure import leaves
from nbgrad.core.symbolic.division import divided
from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.numbers import Number
from nbgrad.core.symbolic.replay import Run, replay


def cudagraph(listing: Listing) -> Run:
    """The function that runs a listing as a CUDA graph.

    The first run calls the kernels one by one, which loads them. The second records them, and the later ones replay
    the recording. Results share no memory with each other then. The update of an optimizer is replayed without a graph:
    it reads its learning rate anew in each run.

    Raises:
        RuntimeError: there is no CUDA device, a tensor lies elsewhere, an input is changed in place, or a step draws
            random numbers from a generator of its own.
    """
    _check(listing)
    parts = divided(listing, _recordable)
    if not parts.first.steps:
        return replay(listing)
    leaving = {value.storage for value in listing.leaving()}
    first = _Recorded(parts.first, leaving)
    if parts.second is None:
        return first
    rest = replay(parts.second)
    return lambda inputs, captured: rest([*inputs, *first(inputs, captured)], captured)


def _recordable(step: ProgramStep) -> bool:
    return not any(isinstance(one, Number) for one in leaves((step.args, step.kwargs)))


def _check(listing: Listing) -> None:
    advice = "Take backend='replay' or 'inductor'"
    if not torch.cuda.is_available():
        raise RuntimeError(f"backend 'cudagraph' cannot run {listing.name}: there is no CUDA device. {advice}")
    values = [*listing.inputs, *listing.captured, *(value for step in listing.steps for value in step.results())]
    for value in values:
        if value.device.type != "cuda":
            raise RuntimeError(
                f"backend 'cudagraph' cannot run {listing.name}: {value!r} {list(value.shape)} is on {value.device}, "
                f"and a CUDA graph takes tensors of one CUDA device. {advice}"
            )
    if listing.writes_inputs:
        raise RuntimeError(f"backend 'cudagraph' cannot run {listing.name}: it changes an argument in place. {advice}")
    for step in listing.steps:
        if step.random and any(isinstance(one, torch.Generator) for one in leaves((step.args, step.kwargs))):
            raise RuntimeError(f"backend 'cudagraph' cannot run {step.name} with a generator of its own. {advice}")


class _Recorded:
    """A listing that is recorded in its second run.

    Attributes:
        leaving: the memory of the results that the caller keeps. They are copied out of the graph, which writes its own
            memory again in the next run.
    """

    def __init__(self, listing: Listing, leaving: set[int]) -> None:
        self.listing, self.leaving = listing, leaving
        self._run = replay(listing)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._warm = False

    def __call__(self, inputs: list[torch.Tensor], captured: list[torch.Tensor]) -> list[Any]:
        if not self._warm:
            self._warm = True
            return self._run(inputs, captured)
        if self._graph is None or any(one is not held for one, held in zip(captured, self._captured, strict=True)):
            self._record(inputs, captured)
        else:
            for held, one in zip(self._inputs, inputs, strict=True):
                held.copy_(one)
        assert self._graph is not None
        self._graph.replay()
        return [deliver(inputs) for deliver in self._deliveries]

    def _record(self, inputs: list[torch.Tensor], captured: list[torch.Tensor]) -> None:
        self._graph, self._captured = None, captured
        self._inputs = [one.clone() for one in inputs]
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._made = self._run(self._inputs, captured)
        except RuntimeError as error:
            raise RuntimeError(
                f"backend 'cudagraph' cannot record {self.listing.name}: {error}\nA step that waits for the GPU or "
                "allocates outside of torch cannot be part of a CUDA graph. Take backend='replay' or 'inductor'"
            ) from error
        self._graph = graph
        self._deliveries = self._arranged(captured)

    def _arranged(self, captured: list[torch.Tensor]) -> "list[_Delivery]":
        """For each result the function that gives it to the caller after a run."""
        places = {one.untyped_storage().data_ptr(): place for place, one in enumerate(self._inputs)}
        outside = {one.untyped_storage().data_ptr() for one in captured}
        given = {id(value): place for place, value in enumerate(self.listing.inputs)}
        found: list[_Delivery] = []
        for value, one in zip(self.listing.leaving(), self._made, strict=True):
            memory = one.untyped_storage().data_ptr()
            if id(value) in given:
                found.append(partial(_argument, given[id(value)]))
            elif memory in places and memory not in outside:
                found.append(self._view(one, places[memory], value))
            elif memory in outside or value.storage not in self.leaving:
                found.append(partial(_itself, one))
            else:
                found.append(partial(_copy, one))
        return found

    def _view(self, one: torch.Tensor, place: int, value: Value) -> "_Delivery":
        """Delivers the view of the caller's tensor that corresponds to ``one``, a view of the copy of this tensor."""
        copy = self._inputs[place]
        if one.is_conj() or one.is_neg() or one.dtype != copy.dtype:
            raise RuntimeError(
                f"backend 'cudagraph' cannot run {self.listing.name}: {value!r} is a conjugate, negative or complex "
                "view of an argument. Take backend='replay' or 'inductor'"
            )
        shape, stride, offset = one.shape, one.stride(), one.storage_offset() - copy.storage_offset()

        def view(inputs: list[torch.Tensor]) -> torch.Tensor:
            given = inputs[place]
            if given.stride() != copy.stride():  # an expanded argument, whose copy is dense
                return one.clone()
            return given.as_strided(shape, stride, given.storage_offset() + offset)

        return view


_Delivery = Callable[[list[torch.Tensor]], torch.Tensor]
"""Gives a result to the caller, from the arguments of a run."""


def _argument(place: int, inputs: list[torch.Tensor]) -> torch.Tensor:
    return inputs[place]


def _itself(one: torch.Tensor, _: list[torch.Tensor]) -> torch.Tensor:
    return one


def _copy(one: torch.Tensor, _: list[torch.Tensor]) -> torch.Tensor:
    return one.clone()
