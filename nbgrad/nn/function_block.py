"""Blocks without weights: a function of the op table with its settings, declared instead of written out."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ClassVar, TypeVar, dataclass_transform

import torch

from nbgrad.core.dispatch.arguments import parameter_names
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.node import TensorBase
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.module.module import Module

T = TypeVar("T", bound=type["Block"])
Size = int | tuple[int, ...]
"""A setting of an op on signals, images or volumes: one number for all their dimensions, or one for each."""


class Block(Module):
    """A module that calls one function with its settings, which are its attributes.

    A class under it says with ``function=`` which function that is, and with ``dims=`` how many dimensions an input
    may have. The decorator ``settings`` makes its annotated names the arguments of its constructor. A setting that
    stands in ``_kept`` is a buffer. The function is told whether the module trains if it has an argument ``training``.
    """

    _function: ClassVar[Callable[..., Any]]
    _dims: ClassVar[tuple[int, ...]] = ()
    _names: ClassVar[tuple[str, ...]] = ()
    _shown: ClassVar[str] = ""
    _kept: ClassVar[tuple[str, ...]] = ()
    _trains: ClassVar[bool] = False

    def __init_subclass__(cls, function: Callable[..., Any] | None = None, dims: tuple[int, ...] = ()) -> None:
        super().__init_subclass__()
        if function is not None:
            cls._function = staticmethod(function)
            cls._trains = "training" in parameter_names(function)
            cls.__formula__ = vars(cls).get("__formula__") or formula_of(function) or cls.__formula__
        cls._dims = dims or cls._dims

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # For blocks without settings: torch's take any arguments, so lines written for torch may pass some.
        super().__init__()
        self._check({**dict(enumerate(args)), **kwargs})

    def __post_init__(self, *_: Any) -> None:
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
        values = {name: getattr(self, name) for name in self._names}
        in_place = "inplace=True" if values.get("inplace") else ""
        return self._shown.format(**values, in_place=in_place).removesuffix(", ")


@dataclass_transform(eq_default=False)
def settings(shown: str = "") -> Callable[[T], T]:
    """The annotated names of a ``Block`` as the arguments of its constructor, in order and with their defaults.

    Args:
        shown: what ``repr`` shows, a format of the settings; ``{in_place}`` is "inplace=True" or nothing.
    """

    def decorate(kind: T) -> T:
        made: Any = dataclass(eq=False, repr=False)(kind)
        fill = made.__init__
        names = parameter_names(fill)[1:]

        @wraps(fill)
        def construct(self: Any, *args: Any, **kwargs: Any) -> None:
            Module.__init__(self)
            self._check({**dict(zip(names, args, strict=False)), **kwargs})
            for name in self._kept:
                self.register_buffer(name, None)
            fill(self, *args, **kwargs)

        made.__init__ = construct
        made._names = tuple(field.name for field in fields(made))
        made._shown = shown
        for name in names:
            if name in vars(made):  # the constructor has the default: a class attribute would hide a buffer
                delattr(made, name)
        return kind

    return decorate


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
