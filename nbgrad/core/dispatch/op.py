"""The op table: ``@op`` puts a row into it, and gives ``Tensor`` the method and the operator of that name."""

from collections.abc import Callable, Iterator
from inspect import Signature, isfunction, signature
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

import numpy as np
import torch

from nbgrad.core.dispatch.inplace import InPlace
from nbgrad.core.dispatch.samples import REALS, Domain, Make, Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.dispatch.torch_parser import as_parsed
from nbgrad.core.engine.broadcast import Sums
from nbgrad.core.tensor.methods import TensorMethods
from nbgrad.core.tensor.tensor import Tensor

R = TypeVar("R")

if TYPE_CHECKING:

    class TypedOp(Op, Generic[R]):
        """A row to a type checker, which so knows the type of the result of a call."""

        def __call__(self, *args: Any, **settings: Any) -> R: ...

    class Decorator(Protocol):
        """The type of ``op(...)``: where the forward says that it gives one tensor, the row gives a ``Tensor``."""

        @overload
        def __call__(self, forward: Callable[..., torch.Tensor]) -> TypedOp[Tensor]: ...
        @overload
        def __call__(self, forward: Callable[..., Any]) -> TypedOp[Any]: ...


def op(
    *,
    formula: str,
    name: str | None = None,
    samples: Callable[[Make], Iterator[Sample]],
    broadcasts: bool | tuple[str, ...] = False,
    sums: dict[str, Sums] | None = None,
    differentiable: bool = True,
    no_gradient: tuple[str, ...] = (),
    flat: tuple[str, ...] = (),
    outputs: tuple[str, ...] = ("out",),
    aux: tuple[str, ...] = (),
    many: bool = False,
    holomorphic: bool = True,
    variadic: str | None = None,
    domain: Domain = REALS,
    operator: str | None = None,
    method: bool | None = None,
    reference: Callable[..., Any] | None = None,
    view: bool = False,
    inplace: bool | Callable[..., None] = False,
    unvaried: dict[str, str] | None = None,
) -> "Decorator":
    """Decorate the forward of an op: positional parameters are tensors, keyword-only ones are settings.

    A parameter ``*tensors`` is a list of tensors, which is called with one list as torch's ``cat`` is.

    Args:
        formula: LaTeX of the forward, in the names of the inputs.
        name: the op's name; default: that of the function.
        samples: yields the inputs that the tests run the row on.
        broadcasts: True if all inputs broadcast, or the names of those that do; the engine undoes it for the rules.
        sums: of inputs that the op stretches by itself, as the bias of a convolution, and whose gradients a fused rule
            gives already summed: by the shapes of the output and the input, what was summed. It is said to observers.
        differentiable: False if the op has no gradient.
        no_gradient: inputs that never get one.
        flat: inputs that the result does not change with but for jumps, as the gradient of relu with where it is open.
            Their gradient is zeros and not nothing, as in torch: a Hessian of such ops exists, and is 0.
        outputs: names of the outputs; the first has a gradient, unless the rules name others as ``g_NAME``.
        aux: what the forward returns after its outputs, for the rules alone.
        many: whether the forward returns a tuple of any length, as ``split`` does; each of its tensors has a gradient.
        holomorphic: whether the rules hold for complex numbers as they stand for real ones, as those of a holomorphic
            function do: the engine conjugates them. False if they say themselves what to conjugate, as torch's
            convention has it, as for ``abs``.
        variadic: the setting that takes all remaining positional arguments, as ``shape`` in ``x.reshape(2, 3)``.
        domain: where random test inputs are drawn from.
        operator: Python's operator for it, as ``add`` for ``+``.
        method: whether ``Tensor`` has it as a method; default: whether torch's has.
        reference: torch's own function, if it is not the one of the same name.
        view: whether the output may share the memory of the first input.
        inplace: whether there is an in-place twin, a method with an underscore; or what changes a raw tensor so, if
            torch has no method of that name.
        unvaried: settings that all samples leave at one value, each with the reason.
    """
    row = {name: value for name, value in locals().items() if name not in {"operator", "method", "inplace"}}

    def decorate(forward: Callable[..., Any]) -> Op:
        made = Op(forward, **row)
        held = OPS.get(made.name)
        again = held is not None and held.forward.__module__ == forward.__module__ == "__main__"
        if held is not None and not again:  # a cell of a notebook may run again and replace its own row, no other
            raise ValueError(f"the op table already has a row {made.name!r}")
        if unknown := sorted(set(made.unvaried) - set(made.defaults)):
            known = ", ".join(made.defaults) or "none"
            raise ValueError(f"op {made.name!r} has no setting {unknown[0]!r}: its settings are {known}")
        for input in flat:
            made.rule(input, "0")(zeros_for(input))
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
                install_in_place(f"i{operator}", in_place)
        return made

    return decorate  # type: ignore[return-value]  # a row is not an object of the class for type checkers


def zeros_for(input: str) -> Callable[..., Any]:
    """The rule of an input that the result is flat in."""

    def zeros(g: Any, shape: tuple[int, ...]) -> Any:
        return g.new_zeros(shape)

    first, second = signature(zeros).parameters.values()
    zeros.__signature__ = Signature([first, second.replace(name=f"{input}_shape")])  # type: ignore[attr-defined]
    return zeros


def install(name: str, function: Callable[..., Any]) -> None:
    """Make ``function`` a method of ``Tensor``, the tensor as its first argument."""
    if isfunction(function) and not name.startswith("__"):  # Python's own, as an index, take what they are given
        function = as_parsed(function, numpys=not isfunction(getattr(torch.Tensor, name, None)), out=False)

    def calling(self: Tensor, *args: Any, **settings: Any) -> Any:
        return function(self, *args, **settings)

    def running(self: Tensor, *args: Any, **settings: Any) -> Any:
        return Op.call(function, (self, *args), settings)  # type: ignore[arg-type]  # it is a row

    method = running if isinstance(function, Op) else calling
    method.__name__, method.__doc__ = name, function.__doc__
    # A row has made its signature, which takes time that an import can do without.
    method.__signature__ = getattr(function, "__signature__", None) or signature(function)  # type: ignore[attr-defined]
    setattr(TensorMethods, name, method)


def named(function: Any, name: str, signature: Signature, doc: str) -> Any:
    """``function`` of any arguments, with the name, the signature and the docstring that it is to show."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    function.__signature__ = signature
    return function


def install_property(
    name: str, function: Callable[[Any], Any], change: Callable[[Any, Any], None] | None = None
) -> None:
    """Make ``function`` of the tensor alone an attribute of ``Tensor``, as ``x.T`` is; ``change`` assigns to it."""

    def part(self: Tensor) -> Any:
        return function(self)

    setattr(TensorMethods, name, property(part, change, doc=function.__doc__))


def install_operator(operator: str, row: Op) -> None:
    """Make ``row`` what Python's operator of that name calls, reflected too where it has two operands."""

    def straight(self: Tensor, other: Any) -> Any:
        return Op.run(row, (self, other), _NO_SETTINGS) if isinstance(other, _OPERANDS) else NotImplemented

    def reflected(self: Tensor, other: Any) -> Any:
        return Op.run(row, (other, self), _NO_SETTINGS) if isinstance(other, _OPERANDS) else NotImplemented

    def alone(self: Tensor) -> Any:
        return Op.run(row, (self,), _NO_SETTINGS)

    setattr(TensorMethods, f"__{operator}__", straight if len(signature(row).parameters) > 1 else alone)
    if hasattr(torch.Tensor, f"__r{operator}__"):
        setattr(TensorMethods, f"__r{operator}__", reflected)


def install_in_place(operator: str, twin: InPlace) -> None:
    """Make ``twin`` what Python's operator of that name calls, such as ``iadd`` for ``+=``."""

    def change(self: Tensor, other: Any) -> Any:
        return twin.run((self, other), _NO_SETTINGS) if isinstance(other, _OPERANDS) else NotImplemented

    setattr(TensorMethods, f"__{operator}__", change)


_NO_SETTINGS: dict[str, Any] = {}
"""Nobody changes the settings of a call: one dict will do for all operators."""

_OPERANDS = (Tensor, torch.Tensor, int, float, complex, np.ndarray, np.generic)
"""What an operator knows as its other operand; Python asks any other operand itself."""
