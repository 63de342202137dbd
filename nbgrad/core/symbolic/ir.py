"""``Listing``: what a traced function computes, as a list of calls of torch in the order in which they run.

A listing has two levels. Its **steps** are calls of torch functions. The steps that one row of the op table made hang
together through their ``row``: a ``RowCall``, which has the name, the formula and the user's line.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, Self

import torch

from nbgrad.core.dispatch.table import Op
from nbgrad.core.engine.place import Place
from nbgrad.core.structure import leaves, mapped

Kind = Literal["input", "captured", "result"]
Phase = Literal["forward", "backward", "update"]


@dataclass(eq=False, slots=True)
class Value:
    """One tensor of a program, without numbers.

    Attributes:
        number: identifies it in its program.
        shape, stride, dtype, device: those of the tensor. ``stride`` is None for a sparse tensor.
        storage: identifies its memory, which it shares with its views and with values changed in place.
        kind: an argument of the function, a tensor that the function uses from outside, or the result of a step.
        name: the name that the program gives it; empty until it has one.
        data: the tensor that a captured value stands for.
        owner: the tensor of nbgrad whose data a captured value is; None for a tensor of torch.
        gradient_of: the value whose gradient it is; None if it is no gradient.
        gradient: its own gradient, which may be that of another value too; None if none was computed.
        constant: whether a pass has computed its data, which is the same in each run.
    """

    number: int
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    dtype: torch.dtype
    device: torch.device
    storage: int
    kind: Kind = "result"
    name: str = ""
    data: torch.Tensor | None = None
    owner: Any = None
    gradient_of: "Value | None" = None
    gradient: "Value | None" = None
    constant: bool = False

    @property
    def numel(self) -> int:
        """The number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return self.numel * self.dtype.itemsize

    def __repr__(self) -> str:
        return self.name or f"%{self.number}"


class Event(NamedTuple):
    """A change that the function makes to a tensor of nbgrad itself, and not to numbers.

    Attributes:
        order: how many steps of the trace run before it.
        owner: the tensor.
        gradient: whether it is given another ``.grad``. Otherwise it is another ``requires_grad``.
        value: the value that becomes its ``.grad``, or None; or the new ``requires_grad``.
    """

    order: int
    owner: Any
    gradient: bool
    value: "Value | bool | None"


@dataclass(eq=False, slots=True)
class RowCall:
    """One run of a row of the op table.

    Attributes:
        op: the row.
        args, settings: those of the call, with a ``Value`` for each tensor.
        results: the values of its results: first those that the caller gets, then those that only the rules use.
        scope: the labels of the modules around it, outermost first.
        place: the user's line.
        steps: how many steps it took.
    """

    op: Op
    args: tuple[Any, ...]
    settings: dict[str, Any]
    results: tuple[Any, ...] = ()
    scope: tuple[str, ...] = ()
    place: Place | None = None
    steps: int = 0


@dataclass(eq=False, slots=True)
class ProgramStep:
    """One call of a torch function.

    Attributes:
        function: the function that is called.
        args, kwargs: its arguments, with a ``Value`` for each tensor.
        result: the structure that it returns, with a ``Value`` for each new tensor, and None for anything else. An
            argument that comes back is the same ``Value`` again.
        writes: the values whose memory it changes.
        random: whether it draws random numbers.
        phase: which part of a training step it belongs to.
        row: the row of the op table that made it; None for a call of torch outside of any row.
        place: the user's line.
        scope: the labels of the modules around it, outermost first; none outside of the forward.
        checks: whether it only looks at numbers to raise an error: it runs although nothing reads a result of it.
        order: how many steps of the trace ran before it, or before the one that it stands for.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    writes: tuple[Value, ...] = ()
    random: bool = False
    phase: Phase = "forward"
    row: RowCall | None = None
    place: Place | None = None
    scope: tuple[str, ...] = ()
    checks: bool = False
    order: int = 0
    _inputs: tuple[Value, ...] | None = field(default=None, init=False, repr=False)
    _results: list[Value] | None = field(default=None, init=False, repr=False)
    _name: str | None = field(default=None, init=False, repr=False)
    _family: int | None = field(default=None, init=False, repr=False)

    def __str__(self) -> str:
        """The call with what it makes, or with what it changes."""
        made = ", ".join(map(repr, self.results())) or ", ".join(map(repr, self.writes))
        settings = "".join(f", {key}={value!r}" for key, value in self.kwargs.items())
        call = f"{self.name}({', '.join(map(repr, self.args))}{settings})"
        return f"{made} = {call}" if made else call

    @property
    def name(self) -> str:
        """The name of the function."""
        if self._name is None:
            self._name = name_of(self.function)
        return self._name

    @property
    def opaque(self) -> bool:
        """Whether it calls a function of nbgrad that looks at numbers, and no function of torch."""
        return hasattr(self.function, "like")

    def inputs(self) -> tuple[Value, ...]:
        """The values that it reads, each as often as it stands in the arguments."""
        if self._inputs is None:  # every pass asks for them, and the arguments of a step do not change
            found: list[Value] = []
            for one in (*self.args, *self.kwargs.values()):
                if isinstance(one, Value):
                    found.append(one)
                elif isinstance(one, list | tuple | dict | slice):
                    found += (part for part in leaves(one) if isinstance(part, Value))
            self._inputs = tuple(found)
        return self._inputs

    def results(self) -> list[Value]:
        """The values that it makes, each once: a kernel may return one tensor in two places."""
        if self._results is None:
            given = {id(one) for one in self.inputs()}
            made = (one for one in leaves(self.result) if isinstance(one, Value) and id(one) not in given)
            self._results = list(dict.fromkeys(made))
        return self._results

    def replaced(self, change: Callable[[Any], Any]) -> "ProgramStep":
        """A step like this one with other arguments. It still belongs to its row: see ``with_steps``."""
        for one in (*self.inputs(), *self.writes):
            if change(one) is not one:
                break
        else:
            return self
        args, kwargs = mapped(change, self.args), mapped(change, self.kwargs)
        writes = tuple(change(one) for one in self.writes)
        return replace(self, args=args, kwargs=kwargs, result=mapped(change, self.result), writes=writes)


def _itself(given: Any) -> Any:
    return given


def _with_rows(steps: list[ProgramStep], rows: set[int], change: Callable[[Any], Any]) -> list[ProgramStep]:
    """The steps. If the row of a step is in ``rows``, it gets the values that stand for its old ones."""
    made: dict[int, set[int]] = {}
    for step in steps:
        if id(step.row) in rows:
            made.setdefault(id(step.row), set()).update(id(one) for one in step.results())
    known: dict[int, RowCall] = {}
    found = []
    for step in steps:
        row = step.row
        if row is not None and id(row) in rows:
            if id(row) not in known:
                own = made[id(row)]
                results = mapped(lambda one, own=own: now if id(now := change(one)) in own else one, row.results)  # type: ignore[misc]
                args, settings = mapped(change, row.args), mapped(change, row.settings)
                known[id(row)] = replace(row, args=args, settings=settings, results=results)
            step = replace(step, row=known[id(row)])  # the step belongs to the new row
        found.append(step)
    return found


def name_of(function: Callable[..., Any]) -> str:
    """The name of a torch function without its overload: ``add``, ``threshold_backward``."""
    name = getattr(function, "__name__", None) or str(function)
    if name in ("__get__", "__set__"):  # of a property, as ``Tensor.T``
        return str(getattr(getattr(function, "__self__", None), "__name__", name))
    packet = getattr(function, "_overloadpacket", None)
    if packet is not None:
        name = packet.__name__
    return name.partition(".")[0]


@dataclass(eq=False)
class Listing:
    """A traced function.

    Attributes:
        name: of the function.
        inputs: the values of its tensor arguments, in order.
        captured: the tensors that it uses from outside: parameters, buffers, optimizer state, constants. It reads
            and changes these very tensors.
        steps: what it does, in order.
        outputs: what it returns, a structure with a ``Value`` for each tensor.
        gradients: tensors of nbgrad, each with the value that becomes its ``.grad`` at the end.
        arguments: the arguments of the function, with a ``Value`` for each tensor.
        changes: whether the function changes memory in place, but for the updates of an optimizer. Then the strides of
            the inputs decide which tensors share memory.
        events: the changes of ``.grad`` and ``requires_grad`` in order. An error in a run leaves what it has reached.
    """

    name: str
    inputs: list[Value]
    captured: list[Value]
    steps: list[ProgramStep]
    outputs: Any
    gradients: list[tuple[Any, Value | None]] = field(default_factory=list)
    arguments: tuple[Any, ...] = ()
    changes: bool = False
    events: list[Event] = field(default_factory=list)

    def leaving(self) -> list[Value]:
        """The values that leave the program: what it returns, and gradients."""
        kept = [one for one in leaves(self.outputs) if isinstance(one, Value)]
        return kept + [value for _, value in self.gradients if value is not None]

    def kept(self) -> list[Value]:
        """The values that are kept to the end: those that leave the program, and those that an error would leave."""
        return self.leaving() + [event.value for event in self.events if isinstance(event.value, Value)]

    @property
    def writes_inputs(self) -> bool:
        """Whether it changes the memory of an input. Then it matters which inputs share theirs."""
        given = {one.storage for one in self.inputs}
        return any(value.storage in given for step in self.steps for value in step.writes)

    def external(self) -> set[int]:
        """The storages of inputs and captured tensors, whose changes are seen outside."""
        return {one.storage for one in (*self.inputs, *self.captured)}

    def check(self) -> Self:
        """Raise an error where the steps do not hang together; each pass is checked with it.

        Raises:
            ValueError: a step reads a value that no earlier step made, or a value is made twice.
        """
        known = {id(one) for one in (*self.inputs, *self.captured)}
        for position, step in enumerate(self.steps):
            for value in (*step.inputs(), *step.writes):
                if id(value) not in known:
                    raise ValueError(f"step {position} ({step.name}) reads {value!r}, which no earlier step made")
            for value in step.results():
                if id(value) in known:
                    raise ValueError(f"step {position} ({step.name}) makes {value!r}, which there is already")
                known.add(id(value))
        for value in self.kept():
            if id(value) not in known:
                raise ValueError(f"the program returns {value!r}, which no step made")
        return self

    def with_steps(self, steps: list[ProgramStep], change: Callable[[Any], Any] | None = None) -> Self:
        """The same with other steps. ``change`` maps each value to the one that now stands for it, in rows too."""
        if change is None:
            change = _itself
        else:
            before = {id(step) for step in self.steps}
            rows = {id(step.row) for step in steps if step.row is not None and id(step) not in before}
            steps = _with_rows(steps, rows, change) if rows else steps
        used = {id(value) for step in steps for value in (*step.inputs(), *step.writes)}
        outputs = mapped(change, self.outputs)
        gradients = [(owner, None if value is None else change(value)) for owner, value in self.gradients]
        events = [one._replace(value=change(one.value)) for one in self.events]
        used |= {id(one) for one in leaves(outputs)} | {id(value) for _, value in gradients}
        used |= {id(event.value) for event in events}
        owners = {id(owner) for owner, _ in gradients}
        captured = [one for one in self.captured if id(one) in used or id(one.owner) in owners]
        return replace(self, steps=steps, captured=captured, outputs=outputs, gradients=gradients, events=events)

    def rows(self) -> list[RowCall]:
        """The runs of rows of the op table that are whole: no pass has changed one of their steps."""
        counts: Counter[int] = Counter()
        found: dict[int, RowCall] = {}
        for step in self.steps:
            if step.row is not None:
                counts[id(step.row)] += 1
                found[id(step.row)] = step.row
        return [row for key, row in found.items() if counts[key] == row.steps]

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        lines = [f"program {self.name}: {len(self.inputs)} inputs, {len(self.captured)} captured, {len(self)} steps"]
        lines += [f"  {step}" for step in self.steps]
        lines.append(f"  return {self.outputs!r}")
        return "\n".join(lines)
