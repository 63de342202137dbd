"""The same program on torch and on nbgrad: values, gradients, and whether it raises."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

import nbgrad
from nbgrad.core.tensor.tensor import Tensor
from tests.core import rows
from tests.lacking import lacks


@dataclass(frozen=True)
class Library:
    """The functions that a program uses of torch or of nbgrad; ``ops`` is the package itself."""

    ops: Any
    grad: Callable[..., Any]

    def leaf(self, *values: Any, dtype: torch.dtype = torch.float64) -> Any:
        """A tensor that needs a gradient."""
        return self.constant(*values, dtype=dtype).requires_grad_()

    def constant(self, *values: Any, dtype: torch.dtype = torch.float64) -> Any:
        """A tensor of one number, or of several in a row."""
        return self.ops.tensor(values[0] if len(values) == 1 else values, dtype=dtype)

    def raw(self, x: Any) -> torch.Tensor:
        """The torch tensor in ``x``, in the same memory, with the same version counter."""
        return x.data if isinstance(x, Tensor) else x.detach()


TORCH = Library(torch, torch.autograd.grad)
OURS = Library(nbgrad, nbgrad.grad)
Program = Callable[[Library], tuple[Any, ...]]


def plain(value: Any) -> Any:
    return value.data if isinstance(value, Tensor) else value.detach() if isinstance(value, torch.Tensor) else value


def agree(program: Program) -> None:
    """``program`` returns the same on both: tensors within torch's tolerance, everything else equal."""
    for position, (ours, theirs) in enumerate(zip(program(OURS), program(TORCH), strict=True)):
        mine, yours = plain(ours), plain(theirs)
        if isinstance(yours, torch.Tensor):
            rows.close(mine, yours, f"result {position}")
        else:
            assert mine == yours, f"result {position}"


def error(program: Program, library: Library) -> str:
    """The text of the RuntimeError that ``program`` raises; empty if it raises none. For one error an older torch has a
    ValueError.
    """
    try:
        program(library)
    except RuntimeError as raised:
        return str(raised)
    except ValueError as raised:
        if library is not TORCH or not lacks("grad of nothing"):
            raise
        return str(raised)
    return ""


def kind(raised: RuntimeError) -> type:
    """The class of an error. If this torch has no special class for a missing kernel, it is RuntimeError for all."""
    return RuntimeError if lacks("error without a kernel") else type(raised)


def both_raise(program: Program, *words: str) -> None:
    """``program`` raises RuntimeError on both, and our text has ``words`` in it."""
    assert error(program, TORCH), "torch does not raise"
    text = error(program, OURS)
    assert text, "nbgrad does not raise"
    assert all(word in text for word in words), text


@contextmanager
def garbage() -> Iterator[list[Any]]:
    """Collects the tensors made in the block, ours and torch's, that only the garbage collector can free."""
    found: list[Any] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found += [
            thing
            for thing in gc.garbage
            if type(thing).__module__.startswith("nbgrad") or isinstance(thing, torch.Tensor)
        ]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
