"""The op table: ``@op`` puts a row into it, and gives ``Tensor`` the method and the operator of that name."""

from collections.abc import Callable
from inspect import Signature, isfunction, signature
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
import torch

from nbgrad.core.dispatch.declaration import Declaration
from nbgrad.core.dispatch.formula import check_symbols
from nbgrad.core.dispatch.inplace import InPlace
from nbgrad.core.dispatch.table import OPERATORS, OPS, Op
from nbgrad.core.dispatch.torch_parser import as_parsed
from nbgrad.core.tensor.methods import TensorMethods
from nbgrad.core.tensor.tensor import Tensor

R = TypeVar("R")

if TYPE_CHECKING:

    class TypedOp(Op, Generic[R]):
        """A row as a type checker sees it: with the type of the result of a call."""

        def __call__(self, *args: Any, **settings: Any) -> R: ...


class op(Declaration):  # noqa: N801  # it is used as a function
    __doc__ = f"""Decorate the forward of an op: positional parameters are tensors, keyword-only ones are settings.

    A parameter ``*tensors`` takes a list of tensors: users pass one list, as to torch's ``cat``.

    Raises:
        ValueError: a row of that name exists already; ``unvaried`` or ``symbols`` has a name that the row does not
            have; or a symbol in ``symbols`` is not in the formula.

    Args:{(Declaration.__doc__ or "").partition("Attributes:")[2]}"""

    if TYPE_CHECKING:

        @overload
        def __call__(self, forward: Callable[..., torch.Tensor]) -> TypedOp[Tensor]: ...
        @overload
        def __call__(self, forward: Callable[..., Any]) -> TypedOp[Any]: ...

    def __call__(self, forward: Callable[..., Any]) -> Op:
        """Make the row, and put it into the table."""
        made = Op(forward, self)
        held = OPS.get(made.name)
        again = held is not None and held.__wrapped__.__module__ == forward.__module__ == "__main__"
        if held is not None and not again:  # a cell of a notebook may run again and replace its own row, no other
            raise ValueError(f"the op table already has a row {made.name!r}")
        if unknown := sorted(set(self.unvaried) - set(made.defaults)):
            known = ", ".join(made.defaults) or "none"
            raise ValueError(f"op {made.name!r} has no setting {unknown[0]!r}: its settings are {known}")
        check_symbols(made, self.symbols)
        for input in self.flat:
            made.rule(input, "0")(zeros_for(input))
        OPS[made.name] = made
        if self.method or (self.method is None and hasattr(torch.Tensor, made.name)):
            install(made.name, made)
        if self.operator is not None:
            install_operator(self.operator, made)
        if self.inplace:
            made._in_place = in_place = InPlace(made, self.inplace, OPS)
            if self.method is not False:
                install(f"{made.name}_", in_place)
            if self.operator is not None and made.arity == 2:
                install_in_place(f"i{self.operator}", in_place)
        return made


def zeros_for(input: str) -> Callable[..., Any]:
    """The rule of an input in which the result is flat: zeros."""

    def zeros(g: Any, shape: tuple[int, ...]) -> Any:
        return g.new_zeros(shape)

    first, second = signature(zeros).parameters.values()
    zeros.__signature__ = Signature([first, second.replace(name=f"{input}_shape")])  # type: ignore[attr-defined]
    return zeros


def install(name: str, function: Callable[..., Any]) -> None:
    """Make ``function`` a method of ``Tensor``, the tensor as its first argument."""
    if isfunction(function) and not name.startswith("__"):  # an index, and other methods of Python's, parse nothing
        function = as_parsed(function, numpys=not isfunction(getattr(torch.Tensor, name, None)), out=False)

    def calling(self: Tensor, *args: Any, **settings: Any) -> Any:
        return function(self, *args, **settings)

    def running(self: Tensor, *args: Any, **settings: Any) -> Any:
        return Op.call(function, (self, *args), settings)  # type: ignore[arg-type]  # it is a row

    method = running if isinstance(function, Op) else calling
    method.__name__, method.__doc__ = name, function.__doc__
    method.__wrapped__ = function  # type: ignore[attr-defined]  # whose signature help() shows
    setattr(TensorMethods, name, method)


def named(function: Any, name: str, signature: Signature, doc: str) -> Any:
    """Give ``function`` a name, a signature and a docstring, and return it."""
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

    OPERATORS[operator] = row
    setattr(TensorMethods, f"__{operator}__", straight if row.inputs[1:] or row.defaults else alone)
    if hasattr(torch.Tensor, f"__r{operator}__"):
        setattr(TensorMethods, f"__r{operator}__", reflected)


def install_in_place(operator: str, twin: InPlace) -> None:
    """Make ``twin`` what Python's operator of that name calls, such as ``iadd`` for ``+=``."""

    def change(self: Tensor, other: Any) -> Any:
        return twin.run((self, other), _NO_SETTINGS) if isinstance(other, _OPERANDS) else NotImplemented

    setattr(TensorMethods, f"__{operator}__", change)


_NO_SETTINGS: dict[str, Any] = {}
"""An operator has no settings. No call changes its dict of settings, so all operators share this one."""

_OPERANDS = (Tensor, torch.Tensor, int, float, complex, np.ndarray, np.generic)
"""The types that an operator accepts as its other operand; for any other type Python asks that operand."""
