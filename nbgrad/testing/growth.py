"""``assert_no_growth``: steps that leave more tensors, or more graphs, alive than the steps before them."""

import gc
import inspect
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any
from weakref import ref

import torch

from nbgrad.core.engine.call_site import user_frame, user_frames, user_place, variables_of
from nbgrad.core.engine.node import Node, TensorBase, raw_of
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.place import Place
from nbgrad.core.engine.state import current, set_state
from nbgrad.core.engine.tensor_data import memory_of
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.testing.parameters import preserved
from nbgrad.testing.soundness import finding_line

_SEARCHED = 100_000
"""So many objects are looked at for the one that holds a tensor."""

_NAMED = 3
"""A message names at most so many tensors that got longer."""

_LEAST = 4
"""With fewer steps, a few tensors that stay by chance look like growth."""


def assert_no_growth(step: Callable[[], Any], *, steps: int = 8, warmup: int = 3, msg: str | None = None) -> None:
    """Raise if each call of ``step`` leaves more behind than the one before: tensors, bytes of tensors, or graphs.

    Only memory that grows with the number of steps is an error: a list of losses that still have their graphs, a sum
    such as ``total += loss``, a tensor that gets longer. What the first steps make is not counted, such as the state of
    an optimizer. The steps are really taken; the random number generators are afterwards as before.

    Args:
        step: a function without arguments, such as one step of a training.
        steps: how many calls are measured.
        warmup: how many calls come before.
        msg: the message of the error, instead of the explanation.

    Raises:
        AssertionError: something grows; the message names it, the line that makes it and the variable that holds it, as
            far as they are known.
        ValueError: ``steps`` is below 4, or ``warmup`` is negative.
    """
    if steps < _LEAST or warmup < 0:
        raise ValueError(
            f"assert_no_growth: steps={steps}, warmup={warmup}: it takes {_LEAST} steps or more, and a warm-up of 0 or "
            "more"
        )
    births, census = _Births(), _Census()
    with preserved([], []), AutogradGraph(watch=False, history=0) as graph:
        state = current()
        set_state(state.replaced(observers=(*state.observers, births), outer=state))  # until the graph closes
        for _ in range(warmup):
            step()
        census.take()
        for _ in range(steps):
            step()
            census.take()
    names = _Names(step)
    wrong = [*_more_tensors(census, births, names)]
    wrong = wrong or [*_longer_tensors(census, births, names)]
    graphs = [finding_line(one) for one in graph.findings() if one.kind == "kept graphs"]
    if graphs and not wrong:
        graphs += _keepers(census, births, names)
    wrong += [*graphs, *_more_memory(census)]
    if wrong:
        head = f"assert_no_growth: each of {steps} steps leaves more behind than the one before"
        raise AssertionError(msg or "\n".join([head, *wrong]))


class _Births(Observer):
    """Notes the line that made each tensor, as long as it lives."""

    def __init__(self) -> None:
        self._places: dict[int, tuple[ref[Any], Place]] = {}

    def follows_torch(self) -> bool:
        return True

    def follows_gradients(self) -> bool:
        return False

    def checks_gradients(self) -> bool:
        return False

    def on_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor) -> None:  # noqa: ARG002
        self._note(out)

    def on_torch_record(self, node: Node, args: tuple[Any, ...], out: torch.Tensor | None) -> None:  # noqa: ARG002
        if out is not None:
            self._note(out)

    def on_detach(self, tensor: Any, detached: Any, what: str) -> None:  # noqa: ARG002
        self._note(raw_of(detached))

    def _note(self, tensor: torch.Tensor) -> None:
        key = id(tensor)
        self._places[key] = ref(tensor, lambda _: self._places.pop(key, None)), user_place()

    def place(self, tensor: torch.Tensor) -> Place | None:
        """The line that made it, if that was seen."""
        known = self._places.get(id(tensor))
        return known[1] if known is not None and known[0]() is tensor else None


class _Census:
    """The living tensors after each step.

    Attributes:
        born: by Python's ``id()``, a weak reference to each living tensor, and the number of the step that made it; 0
            if it is older than the steps that are measured.
        shapes: those of all tensors before the last step, and after it.
        steps: how many steps were measured.
        sizes: the bytes of all living tensors after each step; ``memory``: those that CUDA has given out.
    """

    def __init__(self) -> None:
        self.born: dict[int, tuple[ref[torch.Tensor], int]] = {}
        self.shapes: tuple[set[torch.Size], set[torch.Size]] = set(), set()
        self.steps = -1
        self.sizes: list[int] = []
        self.memory: list[int] = []

    def take(self) -> None:
        """Count the tensors that live now."""
        gc.collect()
        self.steps += 1
        before, self.born = self.born, {}
        storages = dict[Any, int]()
        for tensor in _living():
            known = before.get(id(tensor))
            number = self.steps if known is None or known[0]() is not tensor else known[1]
            self.born[id(tensor)] = ref(tensor), number
            storages[memory_of(tensor)] = tensor.untyped_storage().nbytes()
        self.shapes = self.shapes[1], {tensor.shape for tensor in _living()}
        self.sizes.append(sum(storages.values()))
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]  # in torch
            self.memory.append(sum(torch.cuda.memory_allocated(one) for one in range(torch.cuda.device_count())))

    def new(self) -> Iterator[tuple[torch.Tensor, int]]:
        """The living tensors that a measured step made, with its number."""
        for held, number in self.born.values():
            tensor = held()
            if tensor is not None and number:
                yield tensor, number

    def last(self) -> list[torch.Tensor]:
        """The living tensors that the last step made."""
        return [tensor for tensor, number in self.new() if number == self.steps]


def _living() -> Iterator[torch.Tensor]:
    """The raw tensors that Python holds and that have memory."""
    for one in gc.get_objects():
        if issubclass(type(one), torch.Tensor) and one.layout is torch.strided and not one.is_meta:
            yield one


def _more_tensors(census: _Census, births: _Births, names: "_Names") -> Iterator[str]:
    """A line for each kind of tensors of which steps leave more and more behind."""
    groups: defaultdict[Any, list[tuple[torch.Tensor, int]]] = defaultdict(list)
    for tensor, number in census.new():
        place = births.place(tensor)
        groups[tuple(tensor.shape), None if place is None else str(place)].append((tensor, number))
    for (shape, place), made in groups.items():
        steps = Counter(number for _, number in made)
        if len(steps) < census.steps - 1:  # the tensors of the last step may be the last that anything holds
            continue
        many = min(steps.values())
        each = f"{many} in each step" if many > 1 else "one in each step"
        holder = names.holder({id(tensor) for tensor, _ in made})
        parts = [
            f"  {many * len(steps)} tensors of shape {shape} more, {each}",
            *([f"made at {place}"] if place is not None else []),
            *([f"held by {holder}"] if holder else []),
        ]
        yield ", ".join(parts)


def _longer_tensors(census: _Census, births: _Births, names: "_Names") -> Iterator[str]:
    """A line if all tensors together take more bytes after each step, although there are not more of them."""
    gaps = [after - before for before, after in zip(census.sizes, census.sizes[1:], strict=False)]
    if min(gaps) <= 0:
        return
    longer = [tensor for tensor in census.last() if tensor.shape not in census.shapes[0]]
    told = [f"one has shape {tuple(one.shape)} now{_origin(one, births, names)}" for one in longer[:_NAMED]]
    yield "; ".join([f"  tensors take {sum(gaps):,} bytes more, {gaps[-1]:,} in the last step", *told])


def _keepers(census: _Census, births: _Births, names: "_Names") -> Iterator[str]:
    """A line for each variable whose tensor was computed in the last step: it may keep the graphs."""
    for tensor in census.last():
        place, holder = births.place(tensor), names.holder({id(tensor)})
        if place is not None and holder:
            yield f"  still there: {holder}, made at {place}"


def _origin(tensor: torch.Tensor, births: _Births, names: "_Names") -> str:
    place, holder = births.place(tensor), names.holder({id(tensor)})
    return f"{'' if place is None else f', made at {place}'}{f', held by {holder}' if holder else ''}"


def _more_memory(census: _Census) -> Iterator[str]:
    """A line if CUDA gives out more memory after each step."""
    gaps = [after - before for before, after in zip(census.memory, census.memory[1:], strict=False)]
    if gaps and min(gaps) > 0:
        yield f"  CUDA memory: {sum(gaps):,} bytes more, {gaps[-1]:,} in the last step"


class _Names:
    """The user's names for what holds a tensor: variables of the step, of its module, and of the calling functions.

    Args:
        step: the function that was called.
    """

    def __init__(self, step: Callable[[], Any]) -> None:
        known: dict[str, Any] = {}
        for frame in reversed(user_frames(user_frame())):
            known |= variables_of(frame)
        function = inspect.unwrap(getattr(step, "__func__", step))
        if inspect.isfunction(function):
            variables = inspect.getclosurevars(function)
            known = {**known, **variables.globals, **variables.nonlocals}
            for name, default in inspect.signature(function).parameters.items():
                if default.default is not inspect.Parameter.empty:
                    known[name] = default.default
        owner = getattr(step, "__self__", None)
        self._known = known if owner is None else {**known, "self": owner}

    def holder(self, tensors: set[int]) -> str:
        """The name of the container that holds the ``tensors``, given by Python's ``id()`` of each, and its size."""
        waiting: deque[tuple[str, Any]] = deque(self._known.items())
        seen = set[int]()
        best, most = "", 0
        while waiting and len(seen) < _SEARCHED:
            name, one = waiting.popleft()
            if id(one) in seen or isinstance(one, ModuleType | type):
                continue
            seen.add(id(one))
            parts = list(_parts(name, one))
            inside = sum(id(raw_of(part)) in tensors for _, part in parts)
            if id(raw_of(one)) in tensors and not most:
                best, most = name, 1
            elif inside > most:
                kind = f"the {type(one).__name__} " if isinstance(one, dict | list | tuple | set | deque) else ""
                best, most = f"{kind}{name}{f', which has {len(parts)} elements' if kind else ''}", inside
            waiting.extend(parts)
        return best


def _parts(name: str, one: Any) -> Iterator[tuple[str, Any]]:
    """The elements of a container, or the attributes of an object, with their names."""
    if isinstance(one, dict):
        yield from ((f"{name}[{key!r}]", value) for key, value in list(one.items()))
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from ((f"{name}[{at}]", value) for at, value in enumerate(list(one)))
    elif isinstance(one, TensorBase | torch.Tensor | str | bytes | int | float):
        return
    else:
        yield from ((f"{name}.{key}", value) for key, value in list(getattr(one, "__dict__", {}).items()))
