"""The row of the op table: forward, rules, formulas, domain and samples of one op, written once.

Calling a row runs it: on ``Tensor`` inputs it computes, records a node and returns a ``Tensor``; on raw torch tensors
alone it computes and returns a raw torch tensor. That is how one rule serves a plain backward, without wrapping, and a
backward that is itself recorded.
"""

from collections import namedtuple
from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from typing import Any, NamedTuple

import numpy as np
import torch

from nbgrad.core.alias import link
from nbgrad.core.autocast import any_enabled, cast
from nbgrad.core.binding import bind
from nbgrad.core.contents import dtype_name
from nbgrad.core.inplace import InPlace
from nbgrad.core.methods import TensorMethods
from nbgrad.core.modes import Observer, current
from nbgrad.core.node import Node, next_seq
from nbgrad.core.samples import REALS, Domain, Make, Sample
from nbgrad.core.tensor import Tensor

OPS: "dict[str, Op]" = {}
"""The table: every row by its name."""


class Rule(NamedTuple):
    """How the gradient of one input comes from the gradient of the output."""

    function: Callable[..., Any]
    needs: tuple[str, ...]
    formula: str


class Plan:
    """What to save, and which rules to run, when one set of inputs of an op needs gradients."""

    __slots__ = ("broadcasts", "facts", "keeps_values", "rules", "saved_names", "settings", "slots")

    joint: Callable[..., Any] | None = None
    """One rule for all inputs, where the op has one: it gets the gradient, which inputs need theirs, and ``saved``."""

    def __init__(self, op: "Op", positions: list[int]) -> None:
        chosen = [(position, op.rules[op.inputs[position]]) for position in positions]
        names = list(dict.fromkeys(name for _, rule in chosen for name in rule.needs))
        self.saved_names = tuple(names)
        self.rules = tuple(
            (position, rule.function, tuple(names.index(name) for name in rule.needs)) for position, rule in chosen
        )
        self.broadcasts = op.broadcasts
        values = [*op.inputs, *op.results]
        self.keeps_values = any(name in values for name in names)  # what a backward frees, as torch does
        self.settings = tuple(name for name in names if name in op.defaults)
        facts = [name for name in names if name not in values and name not in op.defaults]
        self.facts = tuple((op.inputs.index(name.rpartition("_")[0]), name.rpartition("_")[2]) for name in facts)
        pool = [*values, *self.settings, *facts]
        self.slots = tuple(pool.index(name) for name in names)

    def save(self, values: list[Any], results: tuple[Any, ...], settings: dict[str, Any]) -> tuple[Any, ...]:
        """What the rules of this plan name, taken from one run of the op."""
        pool = [*values, *results]
        if self.settings:
            pool += [settings[name] for name in self.settings]
        if self.facts:
            pool += [getattr(values[position], what) for position, what in self.facts]
        return tuple([pool[slot] for slot in self.slots])

    def unpack(self, node: Node) -> list[Any]:
        """The saved values of ``node`` as tensors with their history, for a backward that is itself recorded."""
        arity, computed = len(node.op.inputs), len(node.op.inputs) + len(node.op.results)
        assert isinstance(node.saved, tuple)
        values: list[Any] = []
        for slot, value in zip(self.slots, node.saved, strict=True):
            if slot >= computed or not isinstance(value, torch.Tensor):
                values.append(value)
                continue
            origin = node.edges[slot] if slot < arity else node if slot == arity else None
            values.append(Tensor(value, requires_grad=origin is not None, origin=origin))
        return values

    @staticmethod
    def lift(value: Any) -> Tensor:
        """A rule's result as a ``Tensor``: a raw torch tensor is a constant."""
        return value if isinstance(value, Tensor) else Tensor(value)


class Op:
    """One row of the table. Call it to run it.

    Attributes:
        name: torch's name of the op.
        forward: the function on raw torch tensors.
        formula: LaTeX of the forward.
        inputs: names of the tensor inputs, in order.
        optional: how many of the last inputs may be left out.
        defaults: the settings and their default values.
        results: names of what the forward returns: the differentiable output, then outputs that have no gradient.
        shown: how many of ``results`` the caller gets; the others are only saved for rules.
        broadcasts: positions of the inputs that the op broadcasts, whose gradients the engine sums down.
        differentiable: False for an op whose result is piecewise constant or no floating point number.
        no_gradient: inputs that never get a gradient, such as a target of class numbers.
        rules: the gradient rule of each input.
        domain: where random test inputs are drawn from.
        samples: the inputs that the tests run the row on.
        reference: torch's own function, where it is not the one called like this row.
        plan: how it makes plans.
    """

    def __init__(self, forward: Callable[..., Any], **row: Any) -> None:
        parameters = signature(forward).parameters.values()
        self.name: str = row.get("name") or forward.__name__
        self.forward = forward
        self.doc = self.__doc__ = forward.__doc__ or ""
        self.__signature__ = signature(forward)  # what help() and a notebook's tooltip show
        self.formula: str = row["formula"]
        tensors = [p for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD]
        self.inputs = tuple(p.name for p in tensors)
        self.arity = len(self.inputs)
        self.optional = sum(p.default is None for p in tensors)
        self.defaults = {p.name: p.default for p in parameters if p.kind is Parameter.KEYWORD_ONLY}
        self.variadic: str | None = row["variadic"]
        outputs = row["outputs"]
        self.results: tuple[str, ...] = ("out", *outputs[1:], *row["aux"])
        self.shown = len(outputs)
        self.returns = namedtuple(self.name, outputs) if len(outputs) > 1 else None  # fields are data
        broadcasts = row["broadcasts"]
        stretched = self.inputs if broadcasts is True else broadcasts or ()
        self.broadcasts = frozenset(self.inputs.index(name) for name in stretched)
        self.differentiable: bool = row["differentiable"]
        self.no_gradient: tuple[str, ...] = row["no_gradient"]
        self.view: bool = row["view"]
        self._in_place: InPlace | None = None
        self.domain: Domain = row["domain"]
        self.samples: Callable[[Make], Iterator[Sample]] = row["samples"]
        self.reference: Callable[..., Any] | None = row["reference"]
        self.rules: dict[str, Rule] = {}
        self._plans: dict[int, Plan | None] = {}
        self.plan = Plan

    def rule(self, input: str, formula: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate the rule of ``input``: ``rule(g, ...)`` gives its gradient from ``g``, the gradient of the output.

        After ``g`` the rule names what it needs, and the engine saves exactly that: inputs, ``out``, settings, further
        outputs of the forward, and ``NAME_shape`` or ``NAME_device`` of an input whose values it does not need. It must
        return a new tensor, a view of ``g``, or None for zero; it is written in ops that work on torch tensors
        and on ``Tensor`` alike.
        """
        if input not in self.inputs:
            raise ValueError(f"op {self.name!r} has no input {input!r}: its inputs are {', '.join(self.inputs)}")

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            needs = tuple(signature(function).parameters)[1:]
            known = {*self.inputs, *self.results, *self.defaults}
            known |= {f"{name}_{what}" for name in self.inputs for what in ("shape", "device")}
            if unknown := [name for name in needs if name not in known]:
                raise ValueError(f"the rule of {self.name!r} for {input!r} names {unknown}: known are {sorted(known)}")
            self.rules[input] = Rule(function, needs, formula)
            self._plans.clear()  # made from the rule before, if there was one
            return function

        return decorate

    def __call__(self, *args: Any, **settings: Any) -> Any:
        if settings or len(args) != self.arity:
            args, settings = bind(self, args, settings)
        values, needs, ours = self._unwrap(args)
        if not ours:
            return self._shown(self.forward(*values, **settings))
        state = current()
        if needs and state.grad_enabled and any_enabled():
            args = cast(self, args, values, settings)
        for observer in state.observers:
            observer.on_call(self, args)
        try:
            if state.inference:
                with torch.inference_mode():  # for this op alone: torch's mode is a thread's, ours is a task's
                    result = self.forward(*values, **settings)
            else:
                result = self.forward(*values, **settings)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise self._explained(error, values) from None
        results = result if isinstance(result, tuple) else (result,)
        records = needs and state.grad_enabled and not state.inference
        node = self._record(args, values, results, settings, needs) if records else None
        if state.observers:
            _tell(state.observers, self, args, settings, results, node)
        first = Tensor(results[0], node is not None, node)
        if self.view:
            link(first, args[0], self, settings, state.grad_enabled)
        if self.returns is None:
            return first
        return self.returns(first, *[Tensor(other) for other in results[1 : self.shown]])

    def _unwrap(self, args: tuple[Any, ...]) -> tuple[list[Any], int, bool]:
        """The raw values of ``args``, a bit set for each that needs a gradient, and whether any is a ``Tensor``."""
        values = list(args)
        needs, ours, foreign = 0, False, False
        for position, arg in enumerate(args):
            if isinstance(arg, Tensor):
                ours = True
                values[position] = arg._data
                if arg._needs_grad:
                    needs |= 1 << position
            elif isinstance(arg, torch.Tensor):
                foreign = foreign or arg.requires_grad
            elif isinstance(arg, np.ndarray):
                values[position] = torch.from_numpy(arg)
            elif isinstance(arg, np.generic):
                values[position] = arg.item()
        if ours and foreign:
            raise RuntimeError(
                f"{self.name}() got a torch tensor that requires grad in torch's own autograd, into which nbgrad does "
                "not differentiate: wrap it with nbgrad.tensor(t, requires_grad=True), or pass t.detach()"
            )
        return values, needs, ours

    def _shown(self, result: Any) -> Any:
        """What the caller gets of a raw result: without what only the rules need."""
        if not isinstance(result, tuple):
            return result
        return result[0] if self.returns is None else self.returns(*result[: self.shown])

    def _record(
        self, args: tuple[Any, ...], values: list[Any], results: tuple[Any, ...], settings: dict[str, Any], needs: int
    ) -> Node | None:
        out = results[0]
        plan = self._plans[needs] if needs in self._plans else self._make_plan(needs)
        if plan is None or not out.dtype.is_floating_point:
            return None
        node = Node()
        node.op = self
        node.plan = plan
        node.settings = {**self.defaults, **settings} if settings else self.defaults
        node.saved = saved = plan.save(values, results, node.settings)
        try:
            node.versions = tuple([(i, v._version) for i, v in enumerate(saved) if isinstance(v, torch.Tensor)])
        except RuntimeError:
            raise RuntimeError(_INFERENCE.format(op=self.name)) from None
        node.edges = tuple([arg._origin or arg.origin if needs >> i & 1 else None for i, arg in enumerate(args)])
        node.seq = next_seq()
        node.outputs, node.hooks = 0, None
        node.shape, node.dtype, node.device = out.shape, out.dtype, out.device
        return node

    def _make_plan(self, needs: int) -> Plan | None:
        wanted = [i for i, name in enumerate(self.inputs) if needs >> i & 1 and name not in self.no_gradient]
        if self.differentiable:
            for position in wanted:
                if self.inputs[position] not in self.rules:
                    raise NotImplementedError(
                        f"op {self.name!r} has no gradient rule for {self.inputs[position]!r}: "
                        "detach() it if it is to be a constant"
                    )
        self._plans[needs] = self.plan(self, wanted) if wanted and self.differentiable else None
        return self._plans[needs]

    @property
    def in_place(self) -> InPlace:
        """The twin that changes its first input and returns it."""
        if self._in_place is None:
            raise AttributeError(f"op {self.name!r} has no in-place twin: declare it with @op(..., inplace=True)")
        return self._in_place

    def _explained(self, error: Exception, values: list[Any]) -> Exception:
        """The same kind of error, naming the op and what it was given."""
        if type(error) not in (RuntimeError, IndexError, TypeError, ValueError):
            return error
        given = [
            f"{name} of shape {tuple(value.shape)} and dtype {dtype_name(value.dtype)}"
            if isinstance(value, torch.Tensor)
            else f"{name} = {value!r}"
            for name, value in zip(self.inputs, values, strict=True)
            if value is not None
        ]
        return type(error)(f"{self.name}({'; '.join(given)}): {error}")

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def op(
    *,
    formula: str,
    name: str | None = None,
    samples: Callable[[Make], Iterator[Sample]],
    broadcasts: bool | tuple[str, ...] = False,
    differentiable: bool = True,
    no_gradient: tuple[str, ...] = (),
    outputs: tuple[str, ...] = ("out",),
    aux: tuple[str, ...] = (),
    variadic: str | None = None,
    domain: Domain = REALS,
    operator: str | None = None,
    method: bool | None = None,
    reference: Callable[..., Any] | None = None,
    view: bool = False,
    inplace: bool | Callable[..., None] = False,
) -> Callable[[Callable[..., Any]], Op]:
    """Decorate the forward of an op: positional parameters are tensors, keyword-only ones are settings.

    Args:
        formula: LaTeX of the forward, in the names of the inputs.
        name: the op's name; default: that of the function.
        samples: yields the inputs that the tests run the row on.
        broadcasts: True if all inputs broadcast, or the names of those that do; the engine undoes it for the rules.
        differentiable: False if the op has no gradient.
        no_gradient: inputs that never get one.
        outputs: names of the outputs; only the first has a gradient.
        aux: what the forward returns after its outputs, for the rules alone.
        variadic: the setting that takes all remaining positional arguments, as ``shape`` in ``x.reshape(2, 3)``.
        domain: where random test inputs are drawn from.
        operator: Python's operator for it, as ``add`` for ``+``.
        method: whether ``Tensor`` has it as a method; default: whether torch's has.
        reference: torch's own function, if it is not the one of the same name.
        view: whether the output may share the memory of the first input.
        inplace: whether there is an in-place twin, a method with an underscore; or what changes a raw tensor so, if
            torch has no method of that name.
    """
    row = {name: value for name, value in locals().items() if name not in {"operator", "method", "inplace"}}

    def decorate(forward: Callable[..., Any]) -> Op:
        made = Op(forward, **row)
        held = OPS.get(made.name)
        again = held is not None and held.forward.__module__ == forward.__module__ == "__main__"
        if held is not None and not again:  # a cell of a notebook may run again and replace its own row, no other
            raise ValueError(f"the op table already has a row {made.name!r}")
        OPS[made.name] = made
        if method or (method is None and hasattr(torch.Tensor, made.name)):
            install(made.name, made)
        if operator is not None:
            install_operator(operator, made)
        if inplace:
            made._in_place = in_place = InPlace(made, inplace, OPS)
            if method is not False:
                install(f"{made.name}_", in_place)
            if operator is not None and made.arity == 2:
                install_operator(f"i{operator}", in_place)
        return made

    return decorate


def install(name: str, function: Callable[..., Any]) -> None:
    """Make ``function`` a method of ``Tensor``, the tensor as its first argument."""

    def method(self: Tensor, *args: Any, **settings: Any) -> Any:
        return function(self, *args, **settings)

    method.__name__, method.__doc__ = name, function.__doc__
    method.__signature__ = signature(function)  # type: ignore[attr-defined]
    setattr(TensorMethods, name, method)


def install_operator(operator: str, function: "Op | InPlace") -> None:
    """Make ``function`` what Python's operator of that name calls, reflected too where it has two operands."""

    def straight(self: Tensor, other: Any) -> Any:
        return function(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    def reflected(self: Tensor, other: Any) -> Any:
        return function(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    def alone(self: Tensor) -> Any:
        return function(self)

    setattr(TensorMethods, f"__{operator}__", straight if len(signature(function).parameters) > 1 else alone)
    if operator in {"add", "sub", "mul", "truediv", "pow", "matmul"}:
        setattr(TensorMethods, f"__r{operator}__", reflected)


_INFERENCE = (
    "{op} would have to save a tensor that was made in inference_mode() for its backward, which cannot be: make an "
    "ordinary tensor of it with clone() first, or use no_grad() instead of inference_mode()"
)


def _tell(
    observers: tuple[Observer, ...],
    op: Op,
    args: tuple[Any, ...],
    settings: dict[str, Any],
    results: tuple[Any, ...],
    node: Node | None,
) -> None:
    for observer in observers:
        if node is not None:
            observer.on_record(node, args, results[0])
        observer.on_result(op, args, settings, results, node)


_OPERANDS = (Tensor, torch.Tensor, int, float, complex, np.ndarray, np.generic)
"""What an operator knows as its other operand; Python asks any other operand itself."""
