"""Blocks without weights: a function of the op table with its settings, declared instead of written out."""

from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from nbgrad.core.dispatch.arguments import parameter_names
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.node import TensorBase
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.adopted import adopting
from nbgrad.nn.module.module import Module

Size = int | tuple[int, ...]
"""A setting of an op on signals, images or volumes: one number for all their dimensions, or one for each."""


_OLD = frozenset({"max_value", "min_value", "reduce", "size_average"})
"""The arguments of constructors that are older forms of other arguments."""


class Block(Module):
    """A module that calls one function with its settings, which are its attributes.

    A class under it says with ``function=`` which function that is, with ``torchs=`` the class of torch with the same
    settings, and with ``dims=`` how many dimensions an input may have. A setting that stands in ``_kept`` is a buffer.
    The function is told whether the module trains if it has an argument ``training``.
    """

    _function: ClassVar[Callable[..., Any]]
    _torchs: ClassVar[type[torch.nn.Module]] = torch.nn.Module
    _dims: ClassVar[tuple[int, ...]] = ()
    _names: ClassVar[tuple[str, ...]] = ()
    _kept: ClassVar[tuple[str, ...]] = ()
    _trains: ClassVar[bool] = False

    def __init_subclass__(
        cls,
        function: Callable[..., Any] | None = None,
        dims: tuple[int, ...] = (),
        torchs: type[torch.nn.Module] | None = None,
    ) -> None:
        super().__init_subclass__()
        if function is not None:
            cls._function = staticmethod(function)
            cls._trains = "training" in parameter_names(function)
            cls.__formula__ = vars(cls).get("__formula__") or formula_of(function) or cls.__formula__
        if torchs is not None:
            cls._torchs = torchs
            cls._names = tuple(name for name in signature(torchs).parameters if name not in _OLD)
            constructor: Any = adopting(torchs)(Block._set)
            cls.__init__ = constructor  # type: ignore[method-assign]
        cls._dims = dims or cls._dims

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # For blocks without settings: torch's take any arguments, so lines written for torch may pass some.
        super().__init__()
        self._check({**dict(enumerate(args)), **kwargs})

    if TYPE_CHECKING:  # the settings

        def __getattr__(self, name: str) -> Any: ...

    def _set(self, **given: Any) -> None:
        """Take the arguments of a constructor."""
        Module.__init__(self)
        self._check(given)
        self._adjust(given)
        for name in self._names:
            if name in self._kept:
                self.register_buffer(name, given[name])
            else:
                setattr(self, name, given[name])

    def _adjust(self, given: dict[str, Any]) -> None:
        """Check the settings, and bring them to the forms that torch shows; a class with such settings overrides it."""

    def forward(self, input: Tensor) -> Any:
        return self._compute(input)

    def _compute(self, *inputs: Any) -> Any:
        settings = {name: getattr(self, name) for name in self._names}
        if self._trains:
            settings["training"] = self.training
        return self._function(*inputs, **settings)

    def _check(self, given: dict[Any, Any]) -> None:
        """Raise where the constructor got a tensor to run on."""
        if any(
            isinstance(value, TensorBase | torch.Tensor) and name not in self._kept for name, value in given.items()
        ):
            kind = type(self).__name__
            raise TypeError(f"{kind}(...) makes a block, of settings, and got a tensor: call the block, {kind}()(...)")

    def _misfit(self, input: Tensor) -> str | None:
        return wrong_rank(input, self._dims)

    def extra_repr(self) -> str:
        return str(self._torchs.extra_repr(self))  # type: ignore[arg-type]  # it reads the settings alone


def formula_of(function: Callable[..., Any]) -> str:
    """The formula of ``function`` if it is a row, else of the row with its name; empty if there is none."""
    row = function if isinstance(function, Op) else OPS.get(function.__name__)
    return "" if row is None else row.formula


def repeated(value: Any, count: int) -> tuple[Any, ...]:
    """A setting for each of ``count`` dimensions: a number counts for all of them."""
    return tuple(value) if hasattr(value, "__iter__") else (value,) * count


def wrong_rank(input: Tensor, dims: tuple[int, ...]) -> str | None:
    """The message about the number of dimensions of an input, if it is none of ``dims``."""
    if not dims or input.ndim in dims:
        return None
    return f"expected {' or '.join(map(str, dims))} dimensions, got {input.ndim}, {of_shape(input)}"


def of_shape(input: Tensor) -> str:
    """The end of a message."""
    return f"in an input of shape {tuple(input.shape)}"
