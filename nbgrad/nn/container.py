"""Modules made of modules."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, Self, overload

from nbgrad.nn.module import Module


class Sequential(Module):
    """Runs modules one after the other, each on what the one before returned.

    Args:
        args: the modules, named "0", "1", ...; or one ``OrderedDict`` of modules by name.

    Raises:
        TypeError: an argument is no ``Module``.
    """

    @overload
    def __init__(self, *args: Module) -> None: ...
    @overload
    def __init__(self, arg: "OrderedDict[str, Module]", /) -> None: ...
    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def append(self, module: Module) -> Self:
        """Add ``module`` at the end, named after its position."""
        self.add_module(str(len(self)), module)
        return self

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Module]:
        return (module for _, module in self._own("module"))

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> "Sequential": ...
    def __getitem__(self, index: int | slice) -> Module:
        named = list(self._own("module"))
        if isinstance(index, slice):
            return Sequential(OrderedDict(named[index]))
        module: Module = named[self._position(index)][1]
        return module

    def __setitem__(self, index: int, module: Module) -> None:
        name, _ = list(self._own("module"))[self._position(index)]
        self.register_module(name, module)

    def _position(self, index: int) -> int:
        """``index`` as one that exists, counted from the end where it is negative."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range: this Sequential has {len(self)} modules")
        return index
