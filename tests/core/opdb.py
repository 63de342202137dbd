"""torch's own op database as a yardstick: its samples run on torch and on nbgrad, and the two are compared."""

import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from time import perf_counter
from types import FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

import nbgrad
from nbgrad.core.tensor.tensor import Tensor
from tests.core import closeness
from tests.core.result import Result

COLUMNS = ("value", "gradient", "second order", "method", "in place")
"""The columns of a comparison. The last two compare value and gradient of the method and of the in-place method."""

SKIPPED = {
    "sparse.sampled_addmm": "its input is a sparse tensor, a layout that nbgrad does not have",
    "sparse.mm.reduce": "its input is a sparse tensor, a layout that nbgrad does not have",
    "to_sparse": "its result is a sparse tensor, a layout that nbgrad does not have",
}
"""Entries that are not run, and why."""

COMPLEX = ":complex128"

UNSETTLED = dict.fromkeys(
    ["pca_lowrank:complex128", "svd_lowrank:complex128"],
    "the phases of complex singular vectors are free: they agree or not by how a processor rounds",
)
"""Cases that stay in the list of differing cases, whatever their result here, and why."""

AGREED = Path(__file__).with_name("opdb_agreed.txt")
DIFFERENT = Path(__file__).with_name("opdb_different.txt")
"""The kept lists: the cases that agree in all samples; and every other case, with its first differing sample."""


@cache
def entries() -> dict[str, Any]:
    """Every differentiable entry, by torch's name. A variant of a function is its own entry: ``max.binary``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import tries sparse layouts, which warn
        from torch.testing._internal.common_methods_invocations import op_db

    return {entry.full_name: entry for entry in op_db if entry.supports_autograd}


def cases() -> list[str]:
    """The cases: an entry in float64 under its own name, and in complex128 if the entry has complex gradients."""
    names = []
    for name, entry in entries().items():
        if name not in SKIPPED:
            dtypes = entry.supported_backward_dtypes("cpu")
            names += [name] if torch.float64 in dtypes else []
            names += [name + COMPLEX] if torch.complex128 in dtypes else []
    return names


def check(case: str, at_most: int | None = None, only: int | None = None) -> Result:
    """Run the samples of a case.

    Args:
        case: one of ``cases()``.
        at_most: run this many, spread evenly; default: all.
        only: run the sample of this number, and no other.
    """
    begin = perf_counter()
    entry = entries()[case.removesuffix(COMPLEX)]
    samples = samples_of(entry, torch.complex128 if case.endswith(COMPLEX) else torch.float64)
    numbers: Iterable[int] = range(len(samples))
    if only is not None:
        numbers = [only] if only < len(samples) else []
    elif at_most is not None and at_most < len(samples):
        numbers = sorted({round(i * (len(samples) - 1) / max(at_most - 1, 1)) for i in range(at_most)})
    result = Result(case)
    for number in numbers:
        result.add(number, compare(entry, samples[number]))
    result.seconds = perf_counter() - begin
    return result


def samples_of(entry: Any, dtype: torch.dtype) -> list[Any]:
    """The entry's samples, the same ones each time."""
    torch.manual_seed(0)
    np.random.seed(0)  # torch's samples use numpy's global generator
    random.seed(0)
    drawn = entry.sample_inputs("cpu", dtype, requires_grad=True)
    return [sample for sample in drawn if any(isinstance(leaf, torch.Tensor) for leaf in leaves_of(sample))]


def leaves_of(sample: Any) -> list[Any]:
    """All arguments of a sample. A call without a tensor among them would run in torch, also from nbgrad."""
    return tree_leaves((sample.input, tuple(sample.args), sample.kwargs))


# One sample.


def compare(entry: Any, sample: Any) -> dict[str, str]:
    """For each column that applies to the sample the difference, or "" if there is none."""
    orders = ("value", "gradient", "second order") if entry.supports_gradgrad else ("value", "gradient")
    found = differences(entry.op, sample, orders)
    if entry.method_variant is not None:
        # A lambda here calls torch's own method under a fixed seed. Every run has a fixed seed, so take the method.
        named = isinstance(entry.method_variant, FunctionType) and entry.method_variant.__name__ == "<lambda>"
        method = getattr(torch.Tensor, entry.name) if named else entry.method_variant
        found |= joined("method", differences(method, sample, ("value", "gradient")))
    if entry.inplace_variant is not None and entry.supports_inplace_autograd and not sample.broadcasts_input:
        found |= joined("in place", differences(entry.inplace_variant, sample, ("value", "gradient"), in_place=True))
    return found


def joined(column: str, found: dict[str, str]) -> dict[str, str]:
    """Several comparisons as one column: its text is the first difference."""
    return {column: next(filter(None, found.values()), "")} if found else {}


def differences(
    function: Callable[..., Any], sample: Any, orders: Sequence[str], *, in_place: bool = False
) -> dict[str, str]:
    """The differences between torch's call and nbgrad's, order by order, up to the order that torch supports."""
    theirs, ours = (Run(library, function, sample, in_place) for library in (TORCH, NBGRAD))
    found = {}
    for order in orders:
        try:
            expected = theirs.by_order(order)
        except (RuntimeError, NotImplementedError) as error:
            if order == "value" and not in_place:
                found[order] = f"torch's own call fails: {one_line(error)}"
            break  # torch lacks this gradient, or cannot change such a tensor in place
        try:
            close(ours.by_order(order), expected)
            found[order] = ""
        except Exception as error:
            found[order] = one_line(error)
    return found


def close(ours: list[Any], theirs: list[Any], tolerance: float | None = None) -> None:
    """Tensors equal within ``tolerance``, by default torch's own for their dtype, and all else equal.

    Shape and dtype are compared too.
    """
    assert len(ours) == len(theirs), f"{len(ours)} results, but torch has {len(theirs)}"
    for place, (mine, yours) in enumerate(zip(ours, theirs, strict=True)):
        if isinstance(mine, torch.Tensor) and isinstance(yours, torch.Tensor):
            closeness.close(mine, yours, f"number {place}", tolerance)
        else:
            assert mine == yours, f"number {place}: {mine!r}, but torch has {yours!r}"


class Library(NamedTuple):
    """The operations that the two libraries do in different ways."""

    kind: type
    make: Callable[[torch.Tensor], Any]
    grad: Callable[..., Sequence[Any]]
    raw: Callable[[Any], torch.Tensor]
    bound: Callable[[Callable[..., Any]], Callable[..., Any]]


def bound(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``. A method of torch's Tensor becomes the method of the same name of the first argument."""
    written_in_c = isinstance(function, MethodDescriptorType | WrapperDescriptorType)
    if written_in_c or (isinstance(function, FunctionType) and function.__qualname__.startswith("Tensor.")):
        name = function.__name__
        return lambda tensor, *args, **settings: getattr(tensor, name)(*args, **settings)
    return function


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """A copy of the tensor with its whole storage, which ``as_strided`` can see."""
    data = tensor.detach()
    if data.is_conj() or data.is_neg():  # the storage does not hold the values
        return data.clone()
    place = (data.storage_offset(), data.shape, data.stride())
    memory = data.untyped_storage().clone()  # type: ignore[no-untyped-call]
    return torch.empty(0, dtype=data.dtype).set_(memory, *place)


TORCH = Library(
    torch.Tensor,
    lambda t: copied(t).requires_grad_(t.requires_grad),
    torch.autograd.grad,
    lambda t: t.detach(),
    lambda function: function,
)
NBGRAD = Library(
    Tensor,
    lambda t: nbgrad.tensor(copied(t), requires_grad=t.requires_grad),
    nbgrad.grad,
    lambda t: t.data,
    bound,
)


class Run:
    """A call in one library, and its gradients. Each result is computed when somebody asks for it."""

    def __init__(self, library: Library, function: Callable[..., Any], sample: Any, in_place: bool) -> None:
        self.library = library
        self.function = library.bound(function)
        self.sample = sample
        self.in_place = in_place
        self._ends: list[Any] | None = None

    def by_order(self, order: str) -> list[Any]:
        """The results of that order, which are compared."""
        return {"value": self.values, "gradient": self.gradients, "second order": self.seconds}[order]()

    def values(self) -> list[Any]:
        """The results of the call as raw tensors, any other results, and which of them have a gradient."""
        made: dict[int, Any] = {}  # if one tensor is passed twice, this library also gets one tensor twice

        def convert(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            return made.setdefault(id(value), self.library.make(value))

        first, args, settings = tree_map(convert, (self.sample.input, tuple(self.sample.args), self.sample.kwargs))
        self._inputs = [one for one in made.values() if one.requires_grad]
        torch.manual_seed(0)
        changed = first.clone() if self.in_place else first
        result = self.function(changed, *args, **settings)
        if self.in_place:
            assert result is changed, "gives back another tensor than the one it changed"
        leaves = tree_leaves(result)
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor) and not isinstance(leaf, self.library.kind):
                raise TypeError("the result is a tensor of torch's: its gradient is lost")
        processed = result if self.in_place else self.sample.output_process_fn_grad(result)
        self._ends = [leaf for leaf in tree_leaves(processed) if isinstance(leaf, self.library.kind)]
        flags = [leaf.requires_grad for leaf in self._ends]
        self._ends = [leaf for leaf in self._ends if leaf.requires_grad]
        raw = [self.library.raw(leaf) if isinstance(leaf, self.library.kind) else leaf for leaf in leaves]
        return [*map(resolved, raw), flags]

    def gradients(self) -> list[torch.Tensor]:
        """The gradients of all outputs that have one, with respect to every input that needs one."""
        grads = self._first(create_graph=False)
        return self._raw(self._inputs, grads)

    def seconds(self) -> list[torch.Tensor]:
        """The gradients of the recorded gradients, for every input and for the gradients that started the backward."""
        grads = self._first(create_graph=True)
        first = self._raw(self._inputs, grads)
        wanted = [*self._inputs, *self._starts]
        recorded = [grad for grad in grads if grad is not None and grad.requires_grad]
        if not recorded:
            return first + self._raw(wanted, [None] * len(wanted))
        weights = [self.library.make(drawn(self.library.raw(grad), 1)) for grad in recorded]
        return first + self._raw(wanted, self.library.grad(recorded, wanted, weights, allow_unused=True))

    def _first(self, *, create_graph: bool) -> Sequence[Any]:
        if self._ends is None:
            self.values()
        assert self._ends is not None
        starts = [drawn(self.library.raw(end), 2 + place) for place, end in enumerate(self._ends)]
        self._starts = [self.library.make(start.requires_grad_(create_graph)) for start in starts]
        if not self._ends or not self._inputs:
            return [None] * len(self._inputs)
        settings = {"retain_graph": True, "create_graph": create_graph, "allow_unused": True}
        return self.library.grad(self._ends, self._inputs, self._starts, **settings)

    def _raw(self, wanted: Sequence[Any], grads: Sequence[Any]) -> list[torch.Tensor]:
        """Raw gradients: zeros where a library says None."""
        raw = self.library.raw
        return [
            torch.zeros_like(raw(one)) if grad is None else resolved(raw(grad))
            for one, grad in zip(wanted, grads, strict=True)
        ]


def drawn(like: torch.Tensor, seed: int) -> torch.Tensor:
    """Fixed random numbers of a tensor's shape and dtype."""
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed), dtype=like.dtype)


def resolved(value: Any) -> Any:
    """A tensor with its lazy conjugation and negation resolved, because these are no part of its value."""
    return value.resolve_conj().resolve_neg() if isinstance(value, torch.Tensor) else value


def one_line(error: Exception) -> str:
    """An error as one short line for a table."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = text.replace("Tensor-likes are not close! ", "").split(" The failure occurred for item")[0]
    return text if len(text) <= 200 else f"{text[:197]}..."


# The kept lists.


def read_agreed() -> list[str]:
    """The cases that agree."""
    return AGREED.read_text().split()


def read_different() -> dict[str, int]:
    """The cases that do not, each with the number of a sample that shows it."""
    lines = map(str.split, DIFFERENT.read_text().splitlines())
    return {case: int(number) for case, number in lines}


def lists(results: Iterable[Result]) -> tuple[str, str]:
    """The new texts of both lists. Only the cases in ``results`` change: they ran with all their samples."""
    agreed, different = set(read_agreed()), read_different()
    for result in results:
        if result.case in UNSETTLED:
            continue
        agreed.discard(result.case)
        different.pop(result.case, None)
        if result.agrees:
            agreed.add(result.case)
        else:
            different[result.case] = result.failing or 0
    known = cases()
    return (
        "".join(f"{case}\n" for case in sorted(agreed.intersection(known))),
        "".join(f"{case} {different[case]}\n" for case in sorted(different.keys() & known)),
    )
