"""The row of the op table: forward, rules, formulas, domain and samples of one op, written once.

Calling a row runs it: on ``Tensor`` inputs it computes, records a node and returns a ``Tensor``; on raw torch tensors
alone it computes and returns a raw torch tensor. So one rule serves a plain backward, without wrapping, and a backward
that is itself recorded.
"""

from collections import namedtuple
from collections.abc import Callable
from copy import copy
from inspect import Parameter
from itertools import takewhile
from typing import Any, Protocol

import numpy as np
import torch

from nbgrad.core.backend.allocator import keep_freed
from nbgrad.core.backend.autocast import any_enabled, cast, may_cast
from nbgrad.core.backend.below_autograd import inferring
from nbgrad.core.backend.function_mode import put_back, take_off
from nbgrad.core.backend.torch_guards import check_cut
from nbgrad.core.dispatch.arguments import Parameters, bind, bound, other_names, parameter_names
from nbgrad.core.dispatch.declaration import Declaration
from nbgrad.core.dispatch.plan import JointPlan, Plan
from nbgrad.core.engine.node import INFO, Node, OpInfo, Output, Rule, TensorBase, next_seq, raw_of
from nbgrad.core.engine.observer import tell
from nbgrad.core.engine.state import State, current, recording
from nbgrad.core.engine.tensor_data import REAL, differentiable
from nbgrad.core.tensor.call_errors import INFERENCE, check_foreign, check_given, explained
from nbgrad.core.tensor.filled import entered
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.core.tensor.views import ViewOutput, link

RawTensor = torch.Tensor  # looked up several times for every op
_BIT = 1  # a Python int in compiled code too: a C int has no room for more than 31 inputs

_COUNTERPARTS = -2

_KEPT = 2**15
"""The most input names in a cache of an op on a list. This limit holds for the op's rows of all lengths together. It
also holds for all plans of one row together."""

FIELDS = (*INFO, "_plans", "autocasts", "holomorphic", "simple", "view")
"""The C fields of a row, which table.pxd and node.pxd declare: all fields that a call reads."""


class Twin(Protocol):
    """The in-place twin of a row, as the row sees it: see ``inplace.InPlace``."""

    @property
    def row(self) -> "Op":
        """The row under the twin's name, such as ``add_``."""

    def __call__(self, *args: Any, **settings: Any) -> Tensor: ...

    def run(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Tensor:
        """Change the first input."""

    def turn(self, target: Tensor, settings: dict[str, Any]) -> Tensor:
        """Make of a tensor the view that the row makes of it."""

    def forget(self) -> None:
        """Drop the caches made from the rules: the row has a new rule."""


class Op(OpInfo):
    """One row of the table. Call it to run it. It has the attributes of ``OpInfo`` and those below.

    Attributes:
        autocasts: whether torch's autocast may cast the inputs.
        simple: whether the forward gives one tensor and nothing else.
        holomorphic: whether the rules are those of a real function, which are conjugated on complex numbers.
        domain, samples, ranks: where random test inputs are drawn from, the inputs that the tests run the row on, and
            the numbers of dimensions that the first input has in these samples.
        reference: torch's own function, if it has another name than this row, and the forward does more than call it.
        policy: torch's function whose autocast policy holds, if it is not that of the forward.
        random: whether it draws random numbers.
        mutates: the inputs that it changes in place.
        unvaried: settings that all samples leave at one value, each with the reason.
        undefined: functions that recognize the numbers, one for each input, that have no finite result, each with words
            for them. They stand below the op, as its rules do.
        slope: words for an infinite slope.
        traits: what it does to numbers and gradients: see ``Traits``.
        symbols: the symbols of arguments and results in the formulas that ``formula.symbols`` would not find by itself.
        plan: the function that makes the plan of a call: the rules that a backward runs, and the values that they need.
    """

    def __init__(self, forward: Callable[..., Any], declared: Declaration) -> None:
        self.__wrapped__ = forward  # whose signature and source help() and a notebook's tooltip show
        parameters = Parameters.of(forward)
        self.name = declared.name or forward.__name__
        self.forward = declared.kernel or forward
        self.autocasts = True  # until the first recorded run finds it out
        self.doc = self.__doc__ = forward.__doc__ or ""
        self.formula = declared.formula
        self.inputs = tuple(parameters.positional)
        self.listed = parameters.listed
        self.arity = -1 if self.listed else len(self.inputs)
        self.optional = sum(default is None for default in parameters.positional.values())
        self.defaults = parameters.named
        self.required = frozenset(name for name, default in self.defaults.items() if default is Parameter.empty)
        self.variadic = declared.variadic
        self._set_outputs(declared)
        named = declared.broadcasts or ()
        self.stretched = frozenset((*self.inputs, self.listed or "") if named is True else named) - {""}
        self.broadcasts = frozenset(position for position, name in enumerate(self.inputs) if name in self.stretched)
        self.sums = declared.sums
        self.differentiable = declared.differentiable
        self.no_gradient = declared.no_gradient
        self.holomorphic = declared.holomorphic
        self.view = declared.view
        self._in_place: Twin | None = None
        self.domain, self.samples, self.ranks = declared.domain, declared.samples, declared.ranks
        self.reference, self.unvaried, self.symbols = declared.reference, declared.unvaried, declared.symbols
        self.policy, self.random, self.mutates = declared.policy, declared.random, declared.mutates
        self.traits = declared.traits
        self.undefined: list[tuple[Callable[..., bool], str]] = []
        self.slope: str | None = None
        self.rules: dict[str, Rule] = {}
        self._plans: dict[int, Plan | None] = {}
        self._rows: dict[int, Op] = {}
        self.plan = Plan

    def _set_outputs(self, declared: Declaration) -> None:
        outputs = declared.outputs
        self.many = declared.many
        self.results = () if self.many else (*outputs, *declared.aux)
        self.shown = len(outputs)
        self.returns = namedtuple(self.name, outputs) if len(outputs) > 1 else None  # the row names the fields
        self.live = (0,)
        self.several = self.many
        self.simple = not self.many and len(self.results) == 1

    def __copy__(self) -> "Op":
        """A new row with the same fields. In compiled code some of them are not in ``__dict__``."""
        twin = type(self).__new__(type(self))
        vars(twin).update(vars(self))
        for name in FIELDS:
            setattr(twin, name, getattr(self, name))
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return row_named, (self.name,)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Op":
        """Return the row itself, as for a function: a copied module has the same activation."""
        return self

    def rule(
        self, input: str, formula: str, *, kernel: Callable[..., Any] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate the rule of ``input``: ``rule(g, ...)`` gives its gradient from ``g``, the gradient of the output.

        After ``g`` the rule names what it needs, and the engine saves exactly that: inputs, ``out``, settings, further
        outputs of the forward, and ``NAME_shape`` or ``NAME_device`` of an input whose values it does not need. It must
        return a new tensor, a view of ``g``, or None for zero; it is written in ops that work on torch tensors and on
        ``Tensor`` alike. A rule may also name ``NAME_path`` of an input ``NAME``. In a plain backward this value is
        None. In a recorded backward it is a tensor without memory that has the history of the input.

        If several outputs have a gradient, the rule names the gradients that it takes: ``g_NAME``, with the name of the
        output, in place of ``g``. For an op with ``many`` outputs, ``g`` is the list of all gradients. None stands for
        the gradient of an output that no path from the root of the backward reached.

        Args:
            input: the name of the input.
            formula: LaTeX of its gradient.
            kernel: the function that the rule calls on ``g`` and its other arguments, if it does nothing else: an
                operator, as ``operator.mul``, or ``identity``. A backward then calls this function directly.

        Raises:
            ValueError: the op has no such input, or the rule has a parameter that the op does not know.
        """
        return self._ruled({input: formula}, joint=False, kernel=kernel)

    def joint_rule(self, **formulas: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate one rule for all inputs named here: it gives the tuple of their gradients, as one kernel does.

        Its first parameters are the gradients, then ``needed``, then any values as in other rules. ``needed`` says for
        each input of the op whether its gradient is needed. The rule returns one gradient for each input of the op,
        None where there is none. A list of tensors is one name here: the rule gets it as a tuple, and returns one
        gradient for each tensor. If the gradient of each tensor of the list depends only on the other tensors, the rule
        names ``NAME_others``. Then, if only one tensor needs a gradient, its values are not saved, and the rule must
        not read them in that tuple.
        """
        return self._ruled(formulas, joint=True)

    def _ruled(
        self, formulas: dict[str, str], *, joint: bool, kernel: Callable[..., Any] | None = None
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        takes = [*self.inputs, *([self.listed] if self.listed else [])]
        for input in formulas:
            if input not in takes:
                raise ValueError(f"op {self.name!r} has no input {input!r}: its inputs are {', '.join(takes)}")

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            gradients, needs = self._gradients(parameter_names(function))
            if joint and needs[:1] != ["needed"]:
                raise ValueError(f"the joint rule of {self.name!r} must take 'needed' after the gradients")
            needs = needs[joint:]
            known = {*takes, *self.results, *self.defaults}
            known |= {f"{name}_{what}" for name in takes for what in ("shape", "device", "path")}
            known |= {f"{self.listed}_others"} if joint and self.listed else set()
            if unknown := [name for name in needs if name not in known]:
                inputs = ", ".join(formulas)
                raise ValueError(f"the rule of {self.name!r} for {inputs!r} names {unknown}: known are {sorted(known)}")
            if gradients is not None:
                self._check_no_kernel(kernel, formulas)
                self.live, self.several = tuple(sorted({*gradients, *(self.live if self.several else ())})), True
            for input, formula in formulas.items():
                self.rules[input] = Rule(function, tuple(needs), formula, gradients, joint, kernel)
            if joint:
                self.plan = JointPlan
            self._plans.clear()  # made from the rule before, if there was one
            self._rows.clear()
            if self._in_place is not None:
                self._in_place.forget()
            return function

        return decorate

    def _check_no_kernel(self, kernel: Callable[..., Any] | None, formulas: dict[str, str]) -> None:
        if kernel is not None:
            raise ValueError(
                f"the rule of {self.name!r} for {', '.join(formulas)!r} takes the gradients of several outputs: "
                "a kernel takes one, so leave kernel= out"
            )

    def _gradients(self, parameters: list[str]) -> tuple[tuple[int, ...] | None, list[str]]:
        """The outputs whose gradients a rule takes first, or None if it takes ``g``; and its other parameters."""
        named = {f"g_{name}": position for position, name in enumerate(self.results[: self.shown])}
        taken = list(takewhile(named.__contains__, parameters)) if self.shown > 1 else []
        return (tuple(named[name] for name in taken), parameters[len(taken) :]) if taken else (None, parameters[1:])

    def other_names(self) -> dict[str, str]:
        """Other names of the arguments, each with the row's own name: torch's, and those of numpy that it accepts."""
        known = getattr(self, "_names", None)
        if known is None:
            known = self._names = other_names([*self.inputs, *([self.listed] if self.listed else []), *self.defaults])
        return known

    def of(self, count: int) -> "Op":
        """The row that runs this op on a list of ``count`` tensors, with one input for each."""
        row = self._rows.get(count)
        if row is None:
            row = copy(self)
            members = tuple(f"{self.listed}[{i}]" for i in range(count))
            row.inputs = (*self.inputs, *members)
            row.arity, row._plans, row._rows = len(row.inputs), {}, {}
            row.rules = {input: self.rules[input] for input in self.inputs if input in self.rules}
            if self.listed in self.rules:
                row.rules |= dict.fromkeys(members, self.rules[self.listed])
            stretched = {*self.stretched, *(members if self.listed in self.stretched else ())}
            row.broadcasts = frozenset(position for position, name in enumerate(row.inputs) if name in stretched)
            row.no_gradient += members if self.listed in self.no_gradient else ()
            if sum(self._rows) + count > _KEPT:
                self._rows = {}
            self._rows[count] = row
        return row

    def __call__(self, *args: Any, **settings: Any) -> Any:
        return self.call(args, settings)

    def call(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Run the op on the arguments of a call."""
        missing = self.arity - len(args)
        if missing or settings:
            if not bound(self, missing, settings):
                args, settings, row = bind(self, args, settings)
                return row.run(args, settings)  # type: ignore[attr-defined]  # bind() returns an Op when it gets one
            args += (None,) * missing
        return self.run(args, settings)

    def run(self, args: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Run the op on all its inputs, in order, and on settings under the row's own names."""
        state = current()
        if state.tracer is not None:
            return self._traced(args, settings, state)
        depth = take_off() if state.observers else 0
        if depth:
            try:
                return self._run(args, settings, state)
            finally:
                put_back(depth)
        return self._run(args, settings, state)

    def _traced(self, args: tuple[Any, ...], settings: dict[str, Any], state: State) -> Any:
        """Run the op while a tracer writes down the calls of torch that it makes."""
        tracer, result = state.tracer, None
        tracer.enter(args)
        try:
            result = self._run(args, settings, state)
            return result
        finally:
            tracer.leave(self, args, settings, result)

    def _run(self, args: tuple[Any, ...], settings: dict[str, Any], state: State) -> Any:
        values: list[Any] = list(args)
        edges: list[Any] | None = [None] * len(args) if state.grad_enabled else None
        needs = self._unwrap(args, values, edges)
        if needs < 0:
            if needs == _COUNTERPARTS:
                return self.run(entered(args), settings)
            result = self.forward(*values, **settings) if settings else self.forward(*values)
            return result if self.simple else self._shown(result)
        recorded = (
            bool(needs)
            and not state.inference
            and (recording(state) or check_cut(self.name, state.grad_enabled and self.differentiable))
        )
        if (recorded or state.tracer is not None) and self.autocasts and any_enabled():
            args = cast(self, args, values, settings)
            self._unwrap(args, values, edges)
        for observer in state.observers:
            observer.on_call(self, args)
        try:
            if state.inference:  # for this op alone: torch's mode belongs to a thread, nbgrad's to a task
                result = inferring(self.forward, *values, **settings)
            else:
                result = self.forward(*values, **settings) if settings else self.forward(*values)
        except (RuntimeError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise explained(self, error, args, values) from None
        if self.view and result is values[0]:
            return args[0]  # no second tensor over one raw tensor: t_() and the like would change both
        node = self._record(edges, values, result, settings, needs) if recorded and edges is not None else None
        if state.observers:
            tell(state.observers, self, args, settings, result, node)
        if self.simple:
            output = made(result, node)
            return link(output, args[0], self, settings, recorded or recording(state)) if self.view else output
        return self._outputs(node, args, result, settings, recorded=recorded or recording(state))

    def known(self, result: Any, /, *paths: Any, **settings: Any) -> Any:
        """Attach to ``result``, the result of an earlier run, the history that a new run of the op would give it.

        So a rule can use a result of its forward, although second-order gradients depend on the inputs. The values of
        the inputs then need not be saved.

        Args:
            result: the output of the op for its inputs, computed before.
            paths: the inputs as a rule gets them by ``NAME_path``. In a plain backward all are None: ``result`` comes
                back as it is.
            settings: those of the op.

        Raises:
            TypeError: a rule of the op needs the values of an input; a path has no values.
        """
        if paths.count(None) == len(paths):
            return result
        state = current()
        if not state.grad_enabled:
            return result
        raw, values, edges = raw_of(result), list(paths), [None] * len(paths)
        node = self._record(edges, values, raw, settings, self._unwrap(paths, values, edges))
        plan = None if node is None else node.plan
        if isinstance(plan, Plan) and any(slot < self.arity for slot in plan.slots):
            raise TypeError(
                f"the result of {self.name!r} alone is not enough for its rules: they name an input's values"
            )
        if state.observers:
            tell(state.observers, self, paths, settings, raw, node)
        return made(raw, node)

    def _outputs(
        self, node: Node | None, args: tuple[Any, ...], result: Any, settings: dict[str, Any], *, recorded: bool
    ) -> Any:
        """The tensors that the caller of an op with several outputs gets. Those with a gradient lead to the node."""
        outputs = [made(raw, None) for raw in (result if self.many else result[: self.shown])]
        if node is not None:
            for slot, position in enumerate(range(len(outputs)) if self.many else self.live):
                raw = result[position]
                outputs[position] = Tensor(raw, True, Output(node, slot, raw)) if self.several else made(raw, node)
        if self.view:
            for position, output in enumerate(outputs):
                link(output, args[0], ViewOutput(self, position), settings, recorded)
        if self.many:
            return tuple(outputs)
        return outputs[0] if self.returns is None else self.returns(*outputs)

    def _unwrap(self, args: tuple[Any, ...], values: list[Any], edges: list[Any] | None) -> int:
        """Put the raw values of ``args`` into ``values``, and the origins of those that need a gradient into ``edges``.

        Returns:
            A bit set for each input that needs a gradient; -1 if no argument is a ``Tensor``; -2 if one is, and another
            is a torch tensor in whose place a tensor of ours stands.
        """
        needs, ours, foreign = 0, False, False
        for position, arg in enumerate(args):
            if isinstance(arg, TensorBase):
                ours, tensor = True, arg
                values[position] = tensor._data
                if tensor._needs_grad:
                    needs |= _BIT << position
                    if edges is not None:
                        edges[position] = tensor._origin or tensor.origin
            elif isinstance(arg, RawTensor):
                foreign = True
            elif isinstance(arg, np.ndarray):
                values[position] = torch.from_numpy(arg)
            elif isinstance(arg, np.generic):
                values[position] = arg.item()
        if ours and foreign and check_foreign(self, args):
            return _COUNTERPARTS
        return needs if ours else -1 if foreign else check_given(self, args)

    def _shown(self, result: Any) -> Any:
        """The part of a raw result that the caller gets, without the values for the rules alone."""
        if not isinstance(result, tuple) or self.many:
            return result
        return result[0] if self.returns is None else self.returns(*result[: self.shown])

    def _record(
        self, edges: list[Any], values: list[Any], result: Any, settings: dict[str, Any], needs: int
    ) -> Node | None:
        """The node of this run; None if the result has no gradient."""
        out = result
        if isinstance(result, tuple):
            if not result:
                return None
            out = result[self.live[0]]
        dtype, key = out.dtype, needs
        if dtype not in REAL:
            if not differentiable(dtype):
                return None
            if dtype.is_complex and self.holomorphic:
                key = -needs  # stands for the plan with conjugated rules
        plan = self._plans.get(key)
        if plan is None:
            plan = self._make_plan(key)
            if plan is None:
                return None
        node = Node.__new__(Node)
        node.op, node.plan = self, plan
        node.settings = {**self.defaults, **settings} if settings else self.defaults
        if plan.usual is None or settings:
            node.saved = plan.save(values, result if isinstance(result, tuple) else (result,), node.settings)
            node.versions = self._versions(node.saved)
        else:
            node.saved, node.versions = plan.usual, plan.unversioned
        node.edges = edges
        node.seq = next_seq()
        node.outputs = (len(result) if self.many else len(self.live)) if self.several else 0
        node.hooks = None
        node.shape = shape = out.shape
        node.dtype = dtype
        node.device = None if shape else out.device
        return node

    def _versions(self, saved: tuple[Any, ...]) -> list[int | None]:
        """The current version counter of each saved tensor, None for other values."""
        try:
            return [one._version if isinstance(one, RawTensor) else None for one in saved]
        except RuntimeError:
            raise RuntimeError(INFERENCE.format(op=self.name)) from None

    def _make_plan(self, key: int) -> Plan | None:
        # Here, not in each run: a training loop makes one plan for each kind of op.
        keep_freed()
        self.autocasts = may_cast(self.forward)
        asked = enumerate(reversed(f"{abs(key):b}"))  # a shift of so many bits for each would be quadratic
        wanted = [i for i, bit in asked if bit == "1" and self.inputs[i] not in self.no_gradient]
        if self.differentiable:
            for position in wanted:
                if self.inputs[position] not in self.rules:
                    raise NotImplementedError(
                        f"op {self.name!r} has no gradient rule for {self.inputs[position]!r}: "
                        "detach() it if it should be a constant"
                    )
        makes = wanted and self.differentiable
        plan = self.plan(self, wanted, key < 0) if makes else None
        if self.listed and len(self._plans) * self.arity > _KEPT:
            self._plans = {}
        self._plans[key] = plan
        return plan

    @property
    def in_place(self) -> Twin:
        """The in-place form of the op: it changes its first input and returns it."""
        if self._in_place is None:
            raise AttributeError(f"op {self.name!r} has no in-place twin: declare it with @op(..., inplace=True)")
        return self._in_place


OPS: dict[str, Op] = {}
"""The table: every row by its name."""

ALIASES: dict[str, Op] = {}
"""By another name that torch has for a row, that row: ``exports.found`` finds them."""

OPERATORS: dict[str, Op] = {}
"""By Python's name of an operator, such as ``truediv``, the row that it runs."""


def row_of(name: str) -> Op | None:
    """The row for torch's function or method of that name; None where the table has none."""
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
        return OPERATORS.get(name) or OPS.get(name)
    return OPS.get(name) or ALIASES.get(name)


def row_named(name: str) -> Op:
    """The row of the table that a pickle names.

    Raises:
        KeyError: there is none; the message says what to do.
    """
    if name not in OPS:
        raise KeyError(
            f"the op table has no row {name!r}: import the module that declares it before you read the pickle"
        )
    return OPS[name]


_TENSOR = Tensor
"""The class again, under a name that is declared as a class: so Cython makes an object of it without a look-up."""


def made(raw: torch.Tensor, node: Node | None) -> Tensor:
    """``raw`` as the tensor that ``node`` made, or as a constant. It is faster than a call of ``Tensor``."""
    tensor = _TENSOR.__new__(_TENSOR)
    tensor._data = raw
    tensor._needs_grad = node is not None
    tensor._origin = node
    tensor._grad = tensor._alias = tensor.name = None
    return tensor
