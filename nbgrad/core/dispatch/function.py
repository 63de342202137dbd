"""``Function``: a forward and a backward that the user writes by hand, recorded as one op."""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, signature
from typing import Any
from weakref import WeakKeyDictionary

import torch

from nbgrad.core.backend.below_autograd import outside
from nbgrad.core.dispatch.inplace import Rebase, check_change
from nbgrad.core.dispatch.plan import Plan
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.function_calls import note_call
from nbgrad.core.engine.node import Leaf, Node, OpInfo, Output, Rule, next_seq
from nbgrad.core.engine.state import current, no_grad, recording, restoring, tell_changed
from nbgrad.core.engine.tensor_data import differentiable
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.filled import entered
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.core.tensor.views import View


class Context:
    """The ``ctx`` of a ``Function``: it keeps the values of a forward for its backward. You may set other attributes.

    Attributes:
        needs_input_grad: for each input of ``apply``, whether its gradient is asked for.
    """

    needs_input_grad: tuple[bool, ...]

    def __init__(self) -> None:
        self._saved: tuple[Any, ...] = ()
        self._tensors: tuple[Tensor | None, ...] | None = None
        self._constant: tuple[int, ...] = ()
        self._dirty: tuple[int, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs or outputs for ``backward``, where ``saved_tensors`` gives them back.

        The backward raises if such a tensor was changed in place in between, and frees its memory at the end. Neither
        holds for a tensor that is kept as an attribute.
        """
        for tensor in tensors:
            if not isinstance(tensor, Tensor | None):
                raise TypeError(f"save_for_backward() takes tensors, not {kind_of(tensor)}: set ctx.name = value")
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """The tensors that ``save_for_backward`` kept, in order; only inside ``backward``."""
        if self._tensors is None:
            raise RuntimeError("ctx.saved_tensors is only there inside backward()")
        return self._tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """These outputs have no gradient: integers, masks."""
        self._constant = tuple(id(tensor) for tensor in tensors)

    def set_materialize_grads(self, value: bool) -> None:
        """Whether ``backward`` gets zeros (the default) or None for an output that no gradient reached."""
        self._materialize = value

    def mark_dirty(self, *tensors: Tensor) -> None:
        """The forward changes these inputs in place, and returns each of them."""
        self._dirty = tuple(id(tensor) for tensor in tensors)


class Function:
    """Base of an op with a gradient written by hand.

    Write static methods ``forward(ctx, ...)`` and ``backward(ctx, *grad_outputs)``, and run it with ``apply``::

        class Cube(nbgrad.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return g * 3 * x**2

        y = Cube.apply(x)

    As in torch, ``forward`` may also be written without ``ctx``. Then ``setup_context(ctx, inputs, output)`` runs after
    it, and saves the values for the backward.

    ``forward`` gets ``Tensor`` objects, and all other arguments as they were passed. Its ops are not recorded. It may
    return several tensors. ``backward`` gets one gradient per output, and returns one per input of ``apply``: None for
    an input that is not a tensor or needs no gradient. A backward written in nbgrad's ops can be differentiated again.
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> Any:
        """Compute the output."""
        raise NotImplementedError("a Function needs a static method forward(ctx, ...)")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Save the values for the backward. If a subclass defines it, ``forward`` gets no ``ctx``."""
        raise NotImplementedError("a Function needs setup_context(ctx, inputs, output), or a forward that takes ctx")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Compute the gradient of each input from those of the outputs."""
        raise NotImplementedError("a Function needs a static method backward(ctx, *grad_outputs) to be differentiated")

    @classmethod
    @restoring
    def apply(cls, *args: Any) -> Any:
        """Run the forward and record it as one op.

        Returns:
            What ``forward`` returned: a tensor, or a tuple of tensors and other values.
        """
        context = Context()
        args = tuple([entered(arg) if isinstance(arg, torch.Tensor) else arg for arg in args])
        needs = tuple(isinstance(arg, Tensor) and arg.requires_grad for arg in args)
        context.needs_input_grad = needs
        given = [arg.detach() if isinstance(arg, Tensor) else arg for arg in args]
        with no_grad():
            if _is_apart(cls):
                result = cls.forward(*given)
                cls.setup_context(context, tuple(given), result)
            else:
                result = cls.forward(context, *given)
        recorded = any(needs) and recording(current())
        returned = result if isinstance(result, tuple) else (result,)
        raw = any(isinstance(one, torch.Tensor) for one in returned)
        if raw or not any(isinstance(one, Tensor) for one in returned):
            kinds = ", ".join(type(one).__qualname__ for one in returned)
            raise TypeError(
                f"{cls.__name__}.forward returned {kinds}{' of torch' if raw else ''}: return an nbgrad Tensor, or a "
                "tuple with at least one. nbgrad.tensor(t) wraps a torch tensor."
            )
        make = _record if recorded else _constants
        outputs = settled(cls, context, args, given, returned, make, recorded=recorded)
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]


Maker = Callable[[type[Function], Context, tuple[Any, ...], list[Any], tuple[Any, ...]], list[Any]]
"""Makes the outputs of a call, which lead to its node if it was recorded."""


def settled(
    function: type[Function],
    context: Context,
    args: tuple[Any, ...],
    given: list[Any],
    returned: tuple[Any, ...],
    make: Maker,
    *,
    recorded: bool,
) -> list[Any]:
    """The outputs of one call; an input that the forward has changed in place is one of them, with a new history.

    Args:
        function: the class that describes the call.
        context: its context.
        args: the arguments of ``apply``.
        given: the arguments of the forward: each tensor of ``args`` without its history.
        returned: the results of the forward.
        make: makes the outputs.
        recorded: whether they have a history.
    """
    changed = _changed(function, context, args, given, returned)
    outputs = make(function, context, args, given, returned)
    rebases = [_rebase(target, outputs[place]) for place, (target, _) in changed.items()] if recorded else []
    try:
        for rebase in rebases:
            rebase.commit()
    except BaseException:
        for rebase in rebases:
            rebase.commit()
        raise
    for place, (target, row) in changed.items():
        tell_changed((target._data,), row.name)
        outputs[place] = target
    return outputs


def _rebase(target: Tensor, output: Tensor) -> Rebase:
    """The new history of ``target``, an input that the forward changed into ``output``."""
    rebase = Rebase(target, OPS["view_scatter"])
    rebase.origin = output.origin if output.requires_grad else None
    return rebase


def _is_apart(function: type[Function]) -> bool:
    """Whether ``setup_context`` is defined, so that the forward gets no context."""
    return function.setup_context is not Function.setup_context


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` that cannot be differentiated: a second-order gradient is then an error, never wrong."""

    @wraps(backward)
    @restoring
    def once(context: Any, *gradients: Any) -> Any:
        with no_grad():
            results = backward(context, *gradients)
        if not recording(current()):
            return results
        returned = results if isinstance(results, tuple) else (results,)
        sources = [*gradients, *(context._tensors or ())]
        return tuple(one if one is None else underivable(one, sources) for one in returned)

    return once


def underivable(result: Tensor, sources: Iterable[Any]) -> Tensor:
    """``result``, a gradient that depends on ``sources`` and cannot be differentiated again: trying to is an error."""
    history = [source for source in sources if isinstance(source, Tensor) and source.requires_grad]
    derived: Tensor = _Dead.apply(result, *history)
    return derived


class _Dead(Function):
    """Returns its first input. Its backward raises: ``once_differentiable`` forbids the second order."""

    @staticmethod
    def forward(_ctx: Any, result: Tensor, *_history: Tensor) -> Tensor:
        return result

    @staticmethod
    def backward(_ctx: Any, *_grad_outputs: Any) -> Any:
        raise RuntimeError(
            "the gradient of a gradient goes through a function marked with once_differentiable: write its backward in "
            "nbgrad's ops and remove the mark to differentiate it again"
        )


Zeros = Callable[[], torch.Tensor]
"""Makes the gradient of an output that no gradient reached."""


def _made(function: type[Function], arity: int) -> OpInfo:
    """The row that describes a ``Function`` to the record and the picture."""
    row = OpInfo()
    row.name = function.__name__
    row.doc = function.__doc__ if function.__doc__ and function is not Function else ""
    words = row.name.replace("_", " ")
    row.formula = rf"\text{{{words}}}"
    row.inputs = _names(function, arity)
    row.arity = arity
    row.results, row.shown = ("out",), 1
    row.defaults, row.required, row.optional = {}, frozenset(), 0
    row.stretched, row.broadcasts, row.sums = frozenset(), frozenset(), {}
    row.listed, row.variadic, row.many, row.several, row.live = None, None, False, False, (0,)
    row.differentiable = True
    row.no_gradient = ()
    row.rules = dict.fromkeys(row.inputs, Rule(function.backward, (), rf"\text{{{words}.backward}}(\bar{{y}})"))
    return row


class FunctionPlan(Plan):
    """How a backward runs the hand-written rule of one call of a ``Function``."""

    __slots__ = ("function", "origins", "outputs")

    foreign = True

    def __init__(
        self, function: type[Function], origins: tuple[Any, ...], outputs: tuple[tuple[int | None, Zeros | None], ...]
    ) -> None:
        self.function = function
        self.origins = origins
        self.outputs = outputs
        self.rules = ()
        self.broadcasts, self.sums = frozenset(), {}
        self.joined, self.keeps_values = True, bool(origins)
        self.saved_names = ("ctx", *(f"saved_tensors[{i}]" for i in range(len(origins))))

    def unpack(self, node: Node, saved: tuple[Any, ...], gradient: Any) -> list[Any]:  # noqa: ARG002  # as that of any plan
        """The context, and the saved tensors with their history."""
        context, *tensors = saved
        return [context, *(_restored(node, value, origin) for value, origin in zip(tensors, self.origins, strict=True))]

    def joint(self, gradient: Any, needed: tuple[bool, ...], context: Context, *saved: Any) -> list[Any]:
        """Call the user's backward with tensors, and check and unwrap what it returns."""
        recorded = recording(current())
        context.needs_input_grad = needed
        arrived = gradient if isinstance(gradient, list) else [gradient]
        given = [None if slot is None else arrived[slot] for slot, _ in self.outputs]
        if context._materialize:
            given = [
                zeros() if one is None and zeros is not None else one
                for one, (_, zeros) in zip(given, self.outputs, strict=True)
            ]
        context._tensors = saved
        try:
            lifted = [None if one is None else self.lift(one) for one in given]
            returned = outside(self.function.backward, context, *lifted)
        finally:
            context._tensors = None
        results = list(returned) if isinstance(returned, tuple) else [returned]
        if len(results) < len(needed) or any(one is not None for one in results[len(needed) :]):
            raise RuntimeError(
                f"{self.function.__name__}.backward returned {len(results)} gradients for {len(needed)} inputs: return "
                "one for each, None for an input that is no tensor or needs no gradient"
            )
        return [self._checked(one, recorded=recorded) for one in results[: len(needed)]]

    def _checked(self, result: Any, *, recorded: bool) -> Any:
        if result is None or recorded:
            return result
        if not isinstance(result, Tensor | torch.Tensor):
            kind = kind_of(result)
            raise TypeError(f"{self.function.__name__}.backward returned a {kind}: return tensors or None")
        return result.data


def _changed(
    function: type[Function], context: Context, args: tuple[Any, ...], given: list[Any], returned: tuple[Any, ...]
) -> dict[int, tuple[Tensor, OpInfo]]:
    """The inputs that the forward has marked as changed in place, by the position at which it returns them.

    Raises:
        ValueError: a marked tensor is no input.
        RuntimeError: a marked input is not returned, or must not be changed while ops are recorded.
        NotImplementedError: a marked input is a view, and its value is saved for the backward.
    """
    if not context._dirty:
        return {}
    inputs = {id(one): arg for one, arg in zip(given, args, strict=True) if isinstance(one, Tensor)}
    places = {id(one): place for place, one in enumerate(returned)}
    name, row = function.__name__, row_of(function, len(args))
    changed = {}
    for mark in context._dirty:
        if mark not in inputs:
            raise ValueError(f"{name}.forward marks a tensor as dirty that is none of its inputs")
        if mark not in places:
            raise RuntimeError(
                f"{name}.forward marks an input as dirty that it does not return: every input that is changed in place "
                "must be an output"
            )
        target = inputs[mark]
        if recording(current()) and any(context.needs_input_grad):
            check_change(target, row, int(mark not in context._constant))
            if isinstance(target._alias, View) and any(id(one) == mark for one in context._saved):
                raise NotImplementedError(
                    f"{name}.forward changes a view in place and saves it for its backward: save a clone() of it, or "
                    "give the Function a tensor that is no view"
                )
        changed[places[mark]] = (target, row)
    return changed


def _constants(
    _function: type[Function], _context: Context, _args: tuple[Any, ...], _given: list[Any], returned: tuple[Any, ...]
) -> list[Any]:
    """The outputs of a call that is not recorded."""
    return [_plain(one) for one in returned]


def _record(
    function: type[Function], context: Context, args: tuple[Any, ...], given: list[Any], returned: tuple[Any, ...]
) -> list[Any]:
    """Make the node of one call, and the outputs that lead to it.

    Args:
        function: the user's class.
        context: the context of this call.
        args: the arguments of ``apply``.
        given: the arguments of the forward: each tensor of ``args`` without its history.
        returned: the results of the forward.
    """
    raws: list[Any] = [one._data if isinstance(one, Tensor) else None for one in returned]
    live = [
        position
        for position, one in enumerate(returned)
        if isinstance(one, Tensor) and id(one) not in context._constant and differentiable(one.dtype)
    ]
    if not live:
        return [_plain(one) for one in returned]
    saved, context._saved = context._saved, ()
    datas = [None if tensor is None else tensor._data for tensor in saved]
    node = Node()
    node.op = row_of(function, len(args))
    node.settings = {}
    node.saved = (context, *datas)
    node.versions = [None, *[None if data is None else data._version for data in datas]]
    node.edges = [arg.origin if isinstance(arg, Tensor) and arg.requires_grad else None for arg in args]
    node.seq = next_seq()
    first = raws[live[0]]
    node.shape, node.dtype, node.device = first.shape, first.dtype, first.device
    node.outputs, node.hooks = (len(live) if len(live) > 1 else 0), None
    known: dict[Any, Any] = {_address(raws[position]): slot for slot, position in enumerate(live)}
    known |= {_address(arg._data): edge for arg, edge in zip(args, node.edges, strict=True) if edge is not None}
    # Two inputs may share their memory. If the saved tensor is one of them itself, its own edge counts.
    known |= {id(one): edge for one, edge in zip(given, node.edges, strict=True) if edge is not None}
    # An input that is both changed in place and saved counts as the result.
    results = {id(returned[position]): slot for slot, position in enumerate(live)}
    known |= {mark: results[mark] for mark in context._dirty if mark in results}
    origins = tuple([None if one is None else known.get(id(one), known.get(_address(one._data))) for one in saved])
    makers = [None if raw is None else _zeros(raw) for raw in raws]
    places = [live.index(position) if position in live else None for position in range(len(raws))]
    node.plan = FunctionPlan(function, origins, tuple(zip(places, makers, strict=True)))
    observers = current().observers
    if observers:
        kept = zip(datas, origins, strict=True)
        constants = (one for one, origin in kept if one is not None and origin is None)
        note_call(node, function, context.needs_input_grad, vars(context), constants)
    for observer in observers:
        observer.on_record(node, args, first)
    outputs = [_plain(one) for one in returned]
    for slot, position in enumerate(live):
        raw = raws[position]
        outputs[position] = Tensor(raw, True, Output(node, slot, raw) if node.outputs else node)
    return outputs


_rows: "WeakKeyDictionary[type[Function], dict[int, OpInfo]]" = WeakKeyDictionary()


def row_of(function: type[Function], arity: int) -> OpInfo:
    """The row of a function that is called with ``arity`` inputs; it is made once."""
    rows = _rows.setdefault(function, {})
    if arity not in rows:
        rows[arity] = _made(function, arity)
    return rows[arity]


def _names(function: type[Function], arity: int) -> tuple[str, ...]:
    """The names of the inputs in the user's forward, after ``ctx``; ``args[0]`` and so on for ``*args``."""
    names: list[str] = []
    for parameter in list(signature(function.forward).parameters.values())[0 if _is_apart(function) else 1 :]:
        if parameter.kind is Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{i}]" for i in range(arity - len(names))]
        elif parameter.kind is Parameter.POSITIONAL_OR_KEYWORD:
            names.append(parameter.name)
    return tuple(names[:arity])


def _restored(node: Node, value: Any, origin: Any) -> Any:
    """A saved value with the history of the input or output that it is. A leaf is the very tensor, as in torch."""
    if value is None:
        return None
    if isinstance(origin, Leaf):
        leaf = origin.ref()
        if leaf is not None and _address(leaf._data) == _address(value):
            return leaf
    if isinstance(origin, int):
        origin = Output(node, origin, value) if node.outputs else node
    return Tensor(value, origin is not None, origin)


def _zeros(like: torch.Tensor) -> Zeros:
    """A function that makes zeros like an output that no gradient reached; it does not keep the output."""
    shape, dtype, device = like.shape, like.dtype, like.device
    return lambda: torch.zeros(shape, dtype=dtype, device=device)


def _address(data: torch.Tensor) -> tuple[Any, ...]:
    """The memory and layout of a tensor: equal for two tensors that hold the same numbers in the same memory."""
    return data.data_ptr(), data.shape, data.stride()


def _plain(value: Any) -> Any:
    """A result without history. A tensor gets a new object, because the user's forward may hold its own."""
    return Tensor(value._data) if isinstance(value, Tensor) else value
