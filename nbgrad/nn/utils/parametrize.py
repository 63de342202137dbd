"""Parameters that are computed: a module's weight becomes a function of other parameters, which are learned instead."""

from collections.abc import Callable, Sequence
from functools import cache
from types import new_class
from typing import Any

from torch.nn.utils import parametrize as theirs

from nbgrad.core.backend.torch_guards import check_asker
from nbgrad.core.engine.state import State, Switch, current, no_grad, restoring
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.containers import ModuleDict, ModuleList
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, the innermost first, and what they are applied to.

    That is ``original``, or ``original0``, ``original1``, ... where the first one takes several tensors.

    Raises:
        ValueError: there are no parametrizations, or they change the tensor's shape or dtype and are not ``unsafe``.
    """

    @restoring
    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new = _undone(self, original, strict=False)
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            _same("right_inverse", "dtype", original.dtype, new.dtype)
            _same("right_inverse", "device", original.device, new.device)
            if new is not original:
                original.data = new.data
            self._keep("original", original, isinstance(original, Parameter))
        else:
            learned = isinstance(original, Parameter)
            for at, one in enumerate(new):
                made = Parameter(one.data.clone(), original.requires_grad) if learned else one.detach()
                self._keep(f"original{at}", made, learned)
        if not unsafe:
            with no_grad():
                result = self()
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {kind_of(result)}.")
            _same("a parametrization", "dtype", original.dtype, result.dtype)
            _same("a parametrization", "shape", tuple(original.shape), tuple(result.shape))

    def _keep(self, name: str, tensor: Any, learned: bool) -> None:
        tensor.name = None  # its path says what it is now
        if learned:
            self.register_parameter(name, tensor)
        else:
            self.register_buffer(name, tensor)

    @property
    def originals(self) -> list[Any]:
        """The original tensor, to which the parametrizations are applied."""
        names = ["original"] if self.is_tensor else [f"original{at}" for at in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    @restoring
    def right_inverse(self, value: Any) -> None:
        """Change the originals so that the parametrizations give ``value``.

        Raises:
            RuntimeError: a parametrization has no ``right_inverse``.
        """
        with no_grad():
            new = _undone(self, value, strict=True)
        for one, original in zip([new] if self.is_tensor else new, self.originals, strict=True):
            original.data.copy_(one.data)

    def forward(self) -> Any:
        computed: Any = current().computed
        if computed is None and theirs._cache_enabled:  # inside torch's own cached()
            computed = theirs._cache
        if computed is not None and id(self) in computed:
            return computed[id(self)]
        first, *others = self
        result = first(*self.originals)
        for module in others:
            result = module(result)
        if computed is not None:
            computed[id(self)] = result
        return result


def _undone(modules: Any, value: Any, *, strict: bool) -> Any:
    """The tensor from which the modules compute ``value``. Unless ``strict``, it skips those that cannot be undone."""
    for module in reversed(list(modules)):
        if not hasattr(module, "right_inverse"):
            if strict:
                raise RuntimeError(
                    f"parametrization {type(module).__name__} does not implement right_inverse: "
                    "no value can be assigned"
                )
            continue
        try:
            value = module.right_inverse(value)
        except NotImplementedError:
            if strict:
                raise
    if not isinstance(value, Tensor | Sequence):
        raise ValueError(
            f"'right_inverse' must return a tensor or a sequence of tensors (list, tuple...). Got {kind_of(value)}"
        )
    return value


def _same(who: str, what: str, old: Any, new: Any) -> None:
    if old != new:
        raise ValueError(f"{who} may not change the {what} of a tensor, unless unsafe=True: from {old} to {new}")


@restoring
def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let ``parametrization`` compute the parameter or buffer ``tensor_name`` of ``module`` from what it was.

    ``module.weight`` is then computed each time it is read. The learned tensors are under
    ``module.parametrizations.weight.original``. A second parametrization is applied to what the first one gives. A
    method ``right_inverse`` of a parametrization returns the tensor from which it computes a given value. If the first
    parametrization has it, the tensor keeps its present value. If all have it, values may be assigned.

    Args:
        module: the module, whose class becomes a subclass of its own.
        tensor_name: the name of its parameter or buffer.
        parametrization: a module from a tensor to one of the same shape; or from several, as ``right_inverse`` returns.
        unsafe: allow that shape or dtype change.

    Raises:
        ValueError: the module has no such tensor, or shape or dtype change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain: Any = _chains(module)[tensor_name]
        with no_grad():
            value = getattr(module, tensor_name)
            result = parametrization(value)
        if not (unsafe and chain.unsafe):
            _same("a parametrization", "dtype", value.dtype, result.dtype)
            _same("a parametrization", "shape", tuple(value.shape), tuple(result.shape))
        chain.append(parametrization)
        chain.unsafe |= unsafe
        return module
    if tensor_name not in {*module._parameters, *module._buffers}:
        raise ValueError(
            f"Module '{type(module).__name__}' does not have a parameter, a buffer, or a parametrized element with "
            f"name '{tensor_name}'"
        )
    chain = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
    delattr(module, tensor_name)
    names = (*_computed(module), tensor_name)
    if not hasattr(module, "parametrizations"):
        module.register_module("parametrizations", ModuleDict())
    _chains(module)[tensor_name] = chain
    module.__class__ = _parametrized(type_before_parametrizations(module), names)
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether ``module`` has parametrizations, or its tensor of that name has."""
    names = _computed(module)
    return bool(names) if tensor_name is None else tensor_name in names


@restoring
def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make ``tensor_name`` an ordinary parameter or buffer again.

    Args:
        module: the module.
        tensor_name: the name of its tensor.
        leave_parametrized: whether it keeps the value that is computed now, or gets back the original.

    Raises:
        ValueError: the tensor has no parametrization, or was made of several and cannot get back the original.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {type(module).__name__} does not have a parametrization on {tensor_name}")
    chain: Any = _chains(module)[tensor_name]
    if not leave_parametrized and not chain.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    value = chain.originals[0]
    if leave_parametrized:
        with no_grad():
            result = chain()
        if chain.is_tensor:
            value.data = result.data
        else:
            value = Parameter(result.data, value.requires_grad) if isinstance(value, Parameter) else result
    kind, names = type_before_parametrizations(module), _computed(module)
    rest = tuple(name for name in names if name != tensor_name)
    module.__class__ = _parametrized(kind, rest) if rest else kind
    del _chains(module)[tensor_name]
    if not rest:
        delattr(module, "parametrizations")
    if isinstance(value, Parameter):
        module.register_parameter(tensor_name, value)
    else:
        module.register_buffer(tensor_name, value)
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The class of ``module`` without its parametrizations."""
    return getattr(type(module), "_kind", type(module))


class cached(Switch):  # noqa: N801  # torch's name
    """Inside, each parametrized tensor is computed once, however often it is read."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()

    def _again(self) -> "cached":
        return cached()

    def _changed(self, before: State) -> State:
        return before.replaced(computed={} if before.computed is None else before.computed, outer=before)


def _chains(module: Any) -> Any:
    """The parametrizations of ``module`` by the name of the tensor."""
    return vars(module)["parametrizations"]


def _shown_chains(module: Any) -> Any:
    """The ``parametrizations`` of a module, for code outside of nbgrad.

    It raises for torch's own functions, which would not recognise them.
    """
    check_asker()
    return _chains(module)


def _computed(module: Module) -> tuple[str, ...]:
    """The names of the tensors of ``module`` that are computed."""
    return getattr(type(module), "_computed_names", ())


def _make_parametrized(kind: Any, names: tuple[str, ...]) -> type[Module]:
    """A subclass of ``kind`` whose attributes of these names are computed."""
    own: dict[str, Any] = {name: _property(name) for name in names}
    own |= {
        "_kind": kind,
        "_computed_names": names,
        "parametrizations": property(_shown_chains),
        "__module__": kind.__module__,
        "__setattr__": _assign,
        "__reduce_ex__": lambda self, _protocol: (_empty, (getattr(kind, "_pickled_class", kind), names), vars(self)),
    }
    made: type[Module] = new_class(f"Parametrized{kind.__name__}", (kind,), {}, lambda space: space.update(own))
    return made


_parametrized: Callable[[Any, tuple[str, ...]], type[Module]] = cache(_make_parametrized)


def _property(name: str) -> property:
    return property(lambda self: _chains(self)[name]())


def _assign(self: Any, name: str, value: Any) -> None:
    """An attribute; a value for a computed tensor goes through its parametrizations backwards."""
    if name in _computed(self):
        _chains(self)[name].right_inverse(value)
    else:
        type(self)._kind.__setattr__(self, name, value)


def _empty(kind: type[Module], names: tuple[str, ...]) -> Any:
    """For copies and pickles: an object without attributes yet."""
    made: Any = _parametrized(kind, names)
    return object.__new__(made)
