"""``Tracer``: watches a function run on tensors without numbers, and writes its steps down."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from nbgrad.core.backend.below_autograd import outside
from nbgrad.core.dispatch.table import ALIASES, OPS
from nbgrad.core.engine.backward import reachable
from nbgrad.core.engine.call_site import user_place
from nbgrad.core.engine.node import Leaf, Node, OpInfo, Output, TensorBase, raw_of
from nbgrad.core.engine.observer import Observer
from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import current, outwards
from nbgrad.core.structure import leaves, mapped
from nbgrad.core.symbolic.around import Around
from nbgrad.core.symbolic.errors import ColdOptimizer, TraceError, error_at
from nbgrad.core.symbolic.fake import NEEDS_NUMBERS, FakeMemory, Fakes, is_fake, storage_of
from nbgrad.core.symbolic.ir import Event, Phase, ProgramStep, RowCall, Value, name_of
from nbgrad.core.symbolic.numbers import Number

_READS_NUMBERS = {
    **dict.fromkeys(("item", "__bool__", "__int__", "__float__", "__index__", "__complex__", "is_nonzero"), "a number"),
    **dict.fromkeys(("tolist", "numpy", "__array__", "__contains__"), "the numbers"),
    **dict.fromkeys(("nonzero", "unique", "unique_consecutive", "masked_select", "argwhere"), "a size"),
    **dict.fromkeys(("__repr__", "__str__", "__format__"), "the numbers"),
}
"""Functions that need numbers, and what they would give."""

_VIEWS = {
    f"{name}_": getattr(torch, name)
    for name, row in (*OPS.items(), *ALIASES.items(), ("t", OPS["transpose"]))
    if row.view and row._in_place is None and hasattr(torch.Tensor, f"{name}_")
}
"""For each method that changes the shape of a tensor in place, the function that gives a view of that shape.

A program calls the function. So each of its values has one shape, and passes may use one value in place of another.
"""

_QUIET = frozenset(
    (
        *("size", "dim", "ndim", "stride", "numel", "nelement", "is_contiguous", "storage_offset", "element_size"),
        *("is_floating_point", "is_complex", "is_conj", "is_neg", "is_inference", "is_pinned", "is_same_size"),
        *("__len__", "untyped_storage", "shape", "dtype", "device", "layout", "is_cuda", "is_cpu", "is_sparse"),
        *("is_meta", "is_quantized", "requires_grad", "_version", "_base", "is_leaf", "grad_fn", "names", "nbytes"),
        *(
            "itemsize",
            "get_device",
            "is_nested",
            "is_mkldnn",
            "is_mps",
            "is_xla",
            "is_signed",
            "_is_view",
            "result_type",
        ),
        *("__hash__", "is_tensor", "can_cast", "promote_types", "get_default_dtype", "grad", "type"),
    )
)
"""Functions and attributes that tell facts, which the trace knows too. None of them makes a tensor."""


class Tracer(TorchFunctionMode):
    """One trace.

    Attributes:
        inputs, captured, steps: those of the program.
        modules: the outermost modules that were called, by their ids.
        guards: what decided how the function was traced, such as comparisons of settings of optimizers.
        events: the changes of ``.grad`` and ``requires_grad``, in order.
        found_gradients: tensors with the ``.grad`` that they had before the function touched it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fakes = Fakes()
        self.inputs: list[Value] = []
        self.captured: list[Value] = []
        self.steps: list[ProgramStep] = []
        self.modules: dict[int, Any] = {}
        self.guards: list[tuple[str, Callable[[], Any], Any]] = []
        self.found_gradients: list[tuple[TensorBase, torch.Tensor | None]] = []
        self.events: list[Event] = []
        self.phase: Phase | None = None
        self.watch = TraceObserver(self)
        self._around = Around()
        self._numbers = count()
        self._values: dict[int, Value] = {}
        self._names: dict[Any, str] = {}
        self._held: list[torch.Tensor] = []  # an id belongs to one tensor as long as that lives
        self._twins: dict[int, torch.Tensor] = {}
        self._originals: dict[int, torch.Tensor] = {}
        self._adopted: dict[int, tuple[TensorBase, torch.Tensor, Any]] = {}
        self._optimizers: dict[int, tuple[Any, dict[Any, dict[str, Any]]]] = {}
        self._seen: dict[int, Any] = {}
        self._guarded: dict[int, Any] = {}
        self._watched: list[tuple[dict[str, Any], str, Any, float]] = []
        self._flags: dict[int, tuple[Any, bool]] = {}
        self._attributes: dict[int, tuple[Any, tuple[dict[str, Any], dict[str, Any]]]] = {}
        self._depth = 0
        self._mark = 0
        self._made: tuple[Any, ...] = ()

    # ---------------------------------------------------------------------------------------------- values

    def input(self, data: torch.Tensor, name: str) -> torch.Tensor:
        """A fake tensor for an argument of the function."""
        fake = self.fakes.of(data)
        value = self._register(fake, "input")
        value.name = name
        self.inputs.append(value)
        return fake

    def value(self, data: torch.Tensor) -> Value:
        """The value that stands for a tensor in the program; a tensor from outside of the function is captured."""
        known = self._values.get(id(data))
        if known is None:
            if is_fake(data):
                raise error_at(
                    user_place(),
                    f"a tensor of shape {tuple(data.shape)} comes from a function that the trace does not see",
                    "Write that part with functions of torch or of nbgrad",
                )
            known = self._values[id(self._twin(data))]
        return known

    def _register(self, data: torch.Tensor, kind: Any) -> Value:
        stride = tuple(data.stride()) if data.layout is torch.strided else None
        value = Value(next(self._numbers), tuple(data.shape), stride, data.dtype, data.device, storage_of(data), kind)
        self._values[id(data)] = value
        self._held.append(data)
        return value

    def _twin(self, data: torch.Tensor) -> torch.Tensor:
        """The fake tensor that stands for a tensor with numbers, which the program captures."""
        twin = self._twins.get(id(data))
        if twin is None:
            if data.requires_grad:
                raise error_at(
                    user_place(),
                    f"a torch tensor of shape {tuple(data.shape)} requires a gradient, and a program differentiates "
                    "nbgrad's tensors",
                    "Convert the module with nbgrad.from_torch(...), or the tensor with nbgrad.tensor(...)",
                )
            twin = self._twins[id(data)] = self.fakes.twin(data)
            self._originals[id(twin)] = data
            self._held.append(data)
            value = self._register(twin, "captured")
            value.data = data
            self._values[id(data)] = value
            self.captured.append(value)
        return twin

    def adopt(self, tensor: TensorBase, reads_grad: bool = True) -> None:
        """Let a tensor of nbgrad from outside of the function have a fake tensor as data, until the trace ends.

        Args:
            tensor: any tensor; one that the trace has made or adopted stays as it is.
            reads_grad: whether a backward may read the ``.grad`` that it has now.
        """
        data = tensor._data
        if is_fake(data) or id(tensor) in self._adopted:
            return
        if isinstance(tensor._origin, Node | Output) and tensor._needs_grad:
            raise error_at(
                user_place(),
                f"a tensor of shape {tuple(data.shape)} was computed outside of the traced function and requires grad",
                "Compute it inside, or pass tensor.detach()",
            )
        twin = self._twin(data)
        self._values[id(twin)].owner = tensor
        self._adopted[id(tensor)] = (tensor, data, tensor._grad)
        if reads_grad:
            self.found_gradients.append((tensor, None if tensor._grad is None else tensor._grad._data))
        tensor._data = twin

    def adopt_all(self, args: Any) -> None:
        """Adopt every tensor among the arguments of a call."""
        for one in leaves(args):
            if isinstance(one, TensorBase):
                self.adopt(one)

    def asked(self, tensor: Any, question: Callable[[torch.Tensor], bool], remedy: str) -> bool:
        """The answer to a question about the numbers of a tensor that the function uses from outside.

        The program holds as long as nothing changes that tensor in place.

        Args:
            tensor: of nbgrad or torch.
            question: takes the tensor's data.
            remedy: for the error if the function takes or computes the tensor: what the user can do.
        """
        data = raw_of(tensor)
        held = self._originals.get(id(data)) if is_fake(data) else data
        if held is None:
            raise error_at(
                user_place(), f"a choice depends on the numbers of a tensor of shape {tuple(data.shape)}", remedy
            )
        version = held._version
        text = f"'a tensor of shape {tuple(held.shape)} has the numbers that decided what was traced'"
        self.guards.append((text, lambda: held._version == version, True))
        with torch._C.DisableTorchFunction():
            return question(held)

    def gradient_set(self, tensor: TensorBase) -> None:
        """A tensor has got another ``.grad``, or None."""
        grad = tensor._grad
        value = None if grad is None else self.value(grad._data)
        self.events.append(Event(len(self.steps), tensor, True, value))

    def requiring_set(self, tensor: TensorBase, before: bool) -> None:
        """A leaf has got another ``requires_grad``, which was ``before``."""
        self._flags.setdefault(id(tensor), (tensor, before))
        self.events.append(Event(len(self.steps), tensor, False, tensor._needs_grad))

    def refuse_data(self, tensor: TensorBase) -> None:
        """Raise an error: the function gives a tensor other data, and a program cannot do that when it runs."""
        raise error_at(
            user_place(),
            f"t.data = ... gives a tensor of shape {tuple(tensor._data.shape)} other memory, which a program cannot do",
            "Change it in place instead: with nbgrad.no_grad(): t.copy_(...)",
        )

    def restore_modules(self) -> list[str]:
        """Give attributes of modules back what they held, if they have become tensors without numbers.

        Returns:
            The names of these attributes.
        """
        wrong = []
        for module, held in self._attributes.values():
            for space, before in ((module.__dict__, held[0]), (module._buffers, held[1])):
                for name, one in list(space.items()):
                    if isinstance(one, TensorBase) and is_fake(one._data):
                        wrong.append(f"{type(module).__name__}.{name}")
                        if name in before:
                            space[name] = before[name]
                        else:
                            del space[name]
        return wrong

    def release(self) -> list[tuple[TensorBase, Value | None]]:
        """Give all adopted tensors their data back.

        Returns:
            The tensors whose ``.grad`` the function has replaced, with the value of the new one.
        """
        gradients = []
        for tensor, data, grad in self._adopted.values():
            replaced = tensor._grad
            if replaced is not grad:
                gradients.append((tensor, None if replaced is None else self.value(replaced._data)))
            tensor._data, tensor._grad = data, grad
        for owner, before in self._flags.values():
            owner.requires_grad = before
        for optimizer, state in self._optimizers.values():
            for param in list(optimizer.state):
                if param in state:
                    optimizer.state[param].clear()
                    optimizer.state[param].update(state[param])
                else:
                    del optimizer.state[param]
        return gradients

    # ---------------------------------------------------------------------------------------------- optimizers

    def sees_into(self, optimizer: Any) -> bool:
        """Whether the arithmetic of an optimizer is traced. Others read their count of steps: they run as they are."""
        name = type(optimizer).__name__
        adam = name in _ADAM and all(_may_fuse(group) for group in optimizer.param_groups)
        return name == "SGD" or adam

    def groups(self, optimizer: Any) -> list[dict[str, Any]]:
        """The groups of an optimizer, with settings that the program reads anew in each run."""
        self._guard_groups(optimizer)
        if not self.sees_into(optimizer):
            return list(optimizer.param_groups)
        if id(optimizer) not in self._optimizers:
            _move_counts(optimizer)
            self._optimizers[id(optimizer)] = (
                optimizer,
                {param: dict(held) for param, held in optimizer.state.items()},
            )
        name = self._name_of(optimizer)
        return [
            {key: self._setting(f"{name}.param_groups[{place}]", group, key) for key in group}
            | _kernels(optimizer, group)
            for place, group in enumerate(optimizer.param_groups)
        ]

    def _name_of(self, optimizer: Any) -> str:
        """The name of an optimizer in the names of its settings: two of one class have two names."""
        self._seen.setdefault(id(optimizer), optimizer)
        alike = [key for key, one in self._seen.items() if type(one) is type(optimizer)]
        number = alike.index(id(optimizer)) + 1
        return type(optimizer).__name__ + (f"_{number}" if number > 1 else "")

    def _guard_groups(self, optimizer: Any) -> None:
        """Let the program hold only while the settings of the groups that it does not read anew stay the same."""
        if id(optimizer) in self._guarded:
            return
        self._guarded[id(optimizer)] = optimizer
        name, groups = self._name_of(optimizer), optimizer.param_groups
        counts = [len(group["params"]) for group in groups]
        text = f"{name} with {len(groups)} groups of {counts} parameters"
        self.guards.append((text, lambda: [len(group["params"]) for group in optimizer.param_groups], counts))
        for place, group in enumerate(groups):
            for key, value in group.items():
                if key != "params" and type(value) in (bool, int, str, type(None)):
                    self.guards.append((f"{name}.param_groups[{place}][{key!r}]", partial(group.get, key), value))

    def watch_settings(self, held: list[Any]) -> None:
        """Have the function read settings of these optimizers as numbers that the program reads anew in each run."""
        for optimizer in {id(one): one for one in held if isinstance(one, torch.optim.Optimizer)}.values():
            name = self._name_of(optimizer)
            self._guard_groups(optimizer)
            for place, group in enumerate(optimizer.param_groups):
                for key, value in list(group.items()):
                    if type(value) is float:
                        number = group[key] = self._setting(f"{name}.param_groups[{place}]", group, key)
                        self._watched.append((group, key, number, value))

    def optimizers(self) -> list[Any]:
        """The optimizers that were found."""
        return [*self._guarded.values()]

    def changed_settings(self) -> list[str]:
        """The names of the settings that the function has changed."""
        return [number.text for group, key, number, _ in self._watched if group.get(key) is not number]

    def release_settings(self) -> list[str]:
        """Give the optimizers plain numbers again.

        Returns:
            The names of the settings that the function has changed.
        """
        changed = self.changed_settings()
        for group, key, _, value in self._watched:
            group[key] = value
        return changed

    def write_update(self, optimizer: Any, params: list[Any], grads: list[torch.Tensor], group: dict[str, Any]) -> None:
        """Write down the update of an optimizer as one step, which runs the optimizer itself."""
        self.adopt_all(params)
        values = [self.value(param._data) for param in params]
        update = OptimizerUpdate(optimizer, params, group)
        args = ([self.value(grad) for grad in grads],)
        about = tuple(values), False, "update", None, user_place()
        self.steps.append(ProgramStep(update, args, {}, None, *about, order=len(self.steps)))  # type: ignore[arg-type]

    def check_warm(self) -> None:
        """Raise an error if a step has made state of an optimizer, or changed a number in it."""
        for optimizer, before in self._optimizers.values():
            for param, held in optimizer.state.items():
                known = before.get(param, {})
                if any(known.get(key) is not one for key, one in held.items() if isinstance(one, torch.Tensor)):
                    raise ColdOptimizer(
                        f"{type(optimizer).__name__} has no state yet, and its first step is another program than the "
                        "later ones: run one step without tracing first. nbgrad.compile(...) does that by itself"
                    )

    def _setting(self, name: str, group: dict[str, Any], key: str) -> Any:
        value = group[key]
        if type(value) is float:
            return Number(value, f"{name}[{key!r}]", lambda: group[key], self.guards)
        if type(value) is tuple and value and all(type(one) is float for one in value):
            return tuple(
                Number(one, f"{name}[{key!r}][{place}]", partial(_entry, group, key, place), self.guards)
                for place, one in enumerate(value)
            )
        return value

    def state_names(self) -> dict[int, tuple[TensorBase, str]]:
        """By the id of each tensor in the states of the optimizers: its parameter and its key."""
        return {
            id(raw_of(one)): (param, key)
            for _, param, key, one in self._state_entries()
            if isinstance(one, TensorBase | torch.Tensor)
        }

    def states(self) -> list[tuple[Any, Any, str, torch.Tensor]]:
        """The tensors in the states of the optimizers that were stepped: optimizer, parameter, key, tensor."""
        return [entry for entry in self._state_entries() if isinstance(entry[-1], torch.Tensor)]

    def _state_entries(self) -> Iterator[tuple[Any, Any, str, Any]]:
        for optimizer, _ in self._optimizers.values():
            for param, held in optimizer.state.items():
                for key, one in held.items():
                    yield optimizer, param, key, one

    # ---------------------------------------------------------------------------------------------- rows

    def enter(self, args: tuple[Any, ...]) -> None:
        """A row of the op table is about to run on ``args``."""
        self.adopt_all(args)
        if not self._depth:
            self._mark, self._made = len(self.steps), ()
        self._depth += 1

    def heard(self, results: tuple[Any, ...]) -> None:
        """A row gave these results, which include those that only its own rules need."""
        if self._depth == 1:
            self._made = results

    def leave(self, op: Any, args: tuple[Any, ...], settings: dict[str, Any], result: Any) -> None:
        """It ran; ``result`` is None if it raised."""
        self._depth -= 1
        if self._depth or result is None or len(self.steps) == self._mark:
            return
        scope = current().scope
        outer = [one for one in outwards(scope) if isinstance(one, ModuleScope)]
        if outer and (module := outer[-1].module()) is not None and id(module) not in self.modules:
            self.modules[id(module)] = module
            self._attributes |= {id(one): (one, (dict(vars(one)), dict(one._buffers))) for one in module.modules()}
        steps = self.steps[self._mark :]
        call = RowCall(
            op,
            mapped(self._told, args),
            mapped(self._told, settings),
            tuple(self._told(one) for one in self._made or leaves(result)),
            () if scope is None else scope.path(),
            steps[0].place,
            len(steps),
        )
        for step in steps:
            step.row = call

    def _told(self, given: Any) -> Any:
        if isinstance(given, TensorBase):
            return self.value(given._data)
        return self.value(given) if isinstance(given, torch.Tensor) else given

    def _now(self) -> Phase:
        if self.phase is not None:
            return self.phase
        return "forward" if current().walking is None else "backward"

    # ---------------------------------------------------------------------------------------------- calls of torch

    def __torch_function__(  # noqa: PLR0911  # a case for each kind of function
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = self._name(func)
        if name in _QUIET and len(args) == 1 and is_fake(args[0]) and name != "untyped_storage":
            return func(*args, **kwargs)
        given = leaves((args, kwargs))
        for one in given:
            if issubclass(type(one), TensorBase):  # a function of torch on nbgrad's tensor runs rows, which call torch
                with self:
                    return type(one).__torch_function__(func, types, args, kwargs)
        if name == "untyped_storage" and is_fake(args[0]) and args[0].layout is torch.strided:
            return FakeMemory(args[0])
        if name in _QUIET:
            return func(*args, **kwargs)
        self._around.check(func, in_row=self._depth > 0)
        if name == "_fused_sdp_choice":  # for fake tensors torch always names the slow kernel
            asked, named = mapped(_stand_in, (args, kwargs))
            return func(*asked, **named)
        if name == "data_ptr":  # tells whether two tensors share memory
            return storage_of(args[0])
        if name in _READS_NUMBERS and any(isinstance(one, torch.Tensor) for one in given):
            raise _needs_numbers(name, _READS_NUMBERS[name])
        fake_args, fake_kwargs = mapped(self._fake, args), mapped(self._fake, kwargs)
        try:
            like = getattr(func, "like", func)  # an opaque function has one
            ran = self._around.run(self.fakes.run, like, fake_args, fake_kwargs)
        except NEEDS_NUMBERS:
            raise _sized_by_numbers(name) from None
        result = self._write(func, fake_args, fake_kwargs, ran)
        # A function such as conj() returns an argument itself: its caller gets back what it has given.
        own = {id(self._twins[id(one)]): one for one in given if id(one) in self._twins}
        return mapped(lambda one: own.get(id(one), one), result) if own else result

    def _name(self, function: Callable[..., Any]) -> str:
        try:
            name = self._names.get(function)
        except TypeError:  # it cannot be hashed
            return name_of(function)
        if name is None:
            name = self._names[function] = name_of(function)
        return name

    def _fake(self, given: Any) -> Any:
        if isinstance(given, torch.Tensor):
            if not is_fake(given):
                return self._twin(given)
            self.value(given)
        return given

    def _write(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], ran: Any) -> Any:
        """Write the call down, and return its result."""
        result, writes, told = ran.result, ran.writes, mapped(self._told, args)
        view = _VIEWS.get(self._name(func))
        if view is not None:
            self._turn(result, self._name(func))
            func, writes = view, ()
        alone = isinstance(result, torch.Tensor)
        made = [result] if alone else [one for one in leaves(result) if isinstance(one, torch.Tensor)]
        fresh = [one for one in made if id(one) not in self._values]
        checks = getattr(func, "checks", False)
        if fresh or writes or ran.random or checks or view is not None:
            settings = {key: value for key, value in kwargs.items() if not (key == "out" and value is None)}
            for one in fresh:
                if id(one) not in self._values:
                    self._register(one, "result")
            step = ProgramStep(
                func,
                told,
                mapped(self._told, settings),
                self.value(result)
                if alone
                else mapped(lambda one: self.value(one) if isinstance(one, torch.Tensor) else None, result),
                tuple(self.value(one) for one in writes),
                ran.random,
                self._now(),
                None,
                user_place(),
                () if (scope := current().scope) is None else scope.path(),
                checks,
                len(self.steps),
            )
            self.steps.append(step)
        return result

    def _turn(self, data: torch.Tensor, name: str) -> None:
        """Let a tensor whose shape was changed in place be another value from now on: a view of the value before."""
        if self.value(data).kind != "result":
            raise error_at(
                user_place(),
                f"{name}() changes the shape of a tensor that was not made in the function, to {tuple(data.shape)}",
                f"Make a view of it: y = x.{name.removesuffix('_')}(...)",
            )
        self._register(data, "result")


class TraceObserver(Observer):
    """Hears from the engine what each step is for."""

    __slots__ = ("_freed", "_results", "_tracer")

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._freed: list[Any] = []
        self._results: dict[Any, tuple[torch.Tensor, ...]] = {}

    def on_result(
        self,
        op: OpInfo,  # noqa: ARG002
        args: tuple[Any, ...],  # noqa: ARG002
        settings: dict[str, Any],  # noqa: ARG002
        results: tuple[Any, ...],
        node: Node | None,
    ) -> None:
        self._tracer.heard(results)
        if node is not None:
            self._results[node] = results

    def on_backward_begin(self, roots: list[tuple[Any, Any]]) -> None:
        walk: Any = current().walking
        if not walk.retain_graph:
            self._freed += [origin for origin, _ in roots]

    def has_backward(self, tensor: TensorBase) -> bool:
        """Whether a backward can start at a tensor: it needs a gradient, and no backward has freed its graph."""
        return tensor._needs_grad and (not self._freed or tensor.origin not in set(reachable(self._freed)))

    def on_gradient(self, origin: Any, gradient: Any, lone: bool) -> None:  # noqa: ARG002
        raw = gradient._data if isinstance(gradient, TensorBase) else gradient
        if isinstance(origin, Leaf):
            tensor = origin.ref()
            of = None if tensor is None else tensor._data
        else:
            node, place = (origin.node, origin.index) if isinstance(origin, Output) else (origin, 0)
            results = self._results.get(node)
            of = None if results is None else results[place if node.op.many else node.op.live[place]]
        if of is not None and isinstance(raw, torch.Tensor):
            value, source = self._tracer.value(raw), self._tracer.value(of)
            if source.gradient is None:
                source.gradient = value
            if value.gradient_of is None and value.kind == "result":
                value.gradient_of = source

    def on_step_begin(self, params: Sequence[Any], evaluates: bool = False) -> None:
        if evaluates:
            raise error_at(
                user_place(),
                "the optimizer runs forward and backward itself, as often as the numbers ask",
                "Compile the loss alone, and call the optimizer outside",
            )
        for param in params:
            self._tracer.adopt(param)
        self._tracer.phase = "update"

    def on_step_end(self, params: Sequence[Any], what: str) -> None:  # noqa: ARG002
        self._tracer.phase = None
        self._tracer.check_warm()


def _stand_in(given: Any) -> Any:
    """A tensor with any numbers that lies in memory as ``given`` does."""
    if not isinstance(given, torch.Tensor):
        return given
    return torch.empty_strided(given.shape, given.stride(), dtype=given.dtype, device=given.device)


def _entry(group: dict[str, Any], key: str, place: int) -> float:
    """A number of a setting that has several."""
    value: float = group[key][place]
    return value


class OptimizerUpdate:
    """A step of a program that runs an optimizer as it is.

    Attributes:
        optimizer, params, group: the optimizer, the parameters of one of its groups, and the group.
    """

    def __init__(self, optimizer: Any, params: list[Any], group: dict[str, Any]) -> None:
        self.optimizer, self.params, self.group = optimizer, params, group
        self.__name__ = f"{type(optimizer).__name__}_update"

    def __call__(self, grads: list[torch.Tensor]) -> None:
        """Change the parameters by their gradients."""
        outside(self.optimizer.update, self.params, grads, self.group)


_ADAM = frozenset(("Adam", "AdamW"))
"""The optimizers of which torch has a fused kernel that does not read the count of steps."""


def _may_fuse(group: dict[str, Any]) -> bool:
    """Whether the fused kernel does what a group of Adam asks for, and no other kernel was chosen."""
    if group.get("fused") or group.get("capturable"):
        return True
    unchosen = group.get("fused") is None and group.get("foreach") is None and not group.get("differentiable")
    return unchosen and not isinstance(group.get("lr"), torch.Tensor)


def _move_counts(optimizer: Any) -> None:
    """Move the counts of steps to the devices of their parameters, where a fused kernel reads them."""
    for param, held in optimizer.state.items():
        count, device = held.get("step"), raw_of(param).device
        if isinstance(count, torch.Tensor) and count.device != device:
            with torch._C.DisableTorchFunction():
                held["step"] = count.to(device)


def _kernels(optimizer: Any, group: dict[str, Any]) -> dict[str, Any]:
    """The kernel that a program takes where none was chosen."""
    chosen = group.get("fused") or group.get("capturable") or type(optimizer).__name__ not in _ADAM
    return {} if chosen else {"fused": True}


_CHOICE = "Use nbgrad.where(condition, a, b) in place of a choice by numbers"
_NUMBER = "Use the tensor itself in the arithmetic, and return it to get the number outside of the function"
_PLACE = "Use nbgrad.index_select(x, dim, i.reshape(1)) in place of x[i], and a Python number for a size or a count"
_MASK = "Use x * mask or nbgrad.where(mask, x, 0) in place of x[mask]: the shape stays the same"
_LOG = "Return the tensor from the function, and print or log it outside"
_REMEDIES = {
    **dict.fromkeys(("__bool__", "is_nonzero", "__contains__", "equal", "allclose"), _CHOICE),
    **dict.fromkeys(("item", "__float__", "__complex__", "tolist", "numpy", "__array__"), _NUMBER),
    **dict.fromkeys(("__int__", "__index__"), _PLACE),
    **dict.fromkeys(("nonzero", "argwhere", "masked_select", "__getitem__", "unique", "unique_consecutive"), _MASK),
    **dict.fromkeys(("__repr__", "__str__", "__format__"), _LOG),
    "one_hot": "Give num_classes",
    "bincount": "Use nbgrad.zeros(n).index_add(0, x, ones) for a known number n of bins",
    "repeat_interleave": "Give output_size",
}
"""The remedy for each function that needs numbers."""
_CALLS = {
    "__bool__": "bool(x), as in `if x:`,",
    "__contains__": "`in`",
    "__int__": "int(x), as in y[x],",
    "__index__": "x as an index or a size",
    "__float__": "float(x)",
    "__complex__": "complex(x)",
    "__getitem__": "x[mask]",
    "__array__": "numpy",
    "__repr__": "print(x)",
    "__str__": "str(x)",
    "__format__": "f'{x}'",
}
"""How users write these functions."""


def _needs_numbers(name: str, what: str) -> TraceError:
    remedy = _REMEDIES.get(name, f"{_CHOICE}. {_NUMBER}")
    reason = f"{_CALLS.get(name, name)} asks for {what} of a tensor, and a traced tensor has no numbers"
    return error_at(user_place(), reason, remedy)


def _sized_by_numbers(name: str) -> TraceError:
    called = _CALLS.get(name, name)
    reason = f"the size of the result of {called} depends on numbers, and a traced tensor has no numbers"
    return error_at(user_place(), reason, _REMEDIES.get(name, f"{_MASK}. {_CHOICE}"))
