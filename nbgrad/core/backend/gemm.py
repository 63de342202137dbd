"""The choice between torch's two libraries that can multiply two large matrices.

torch gives a product of float32 to MKL, which uses half of the power of AMD's processors with AVX-512. oneDNN, which
torch contains for convolutions, takes half of its time there (docs/decisions/kernels.md). The processor and shapes
decide, never a trial, so numbers are the same in every run. ``torch.backends.mkldnn.enabled = False`` leaves every
product to MKL, as torch does: the two differ in last digits.
"""

from pathlib import Path
from typing import Any

import torch

_functional = torch.nn.functional

_LEAST = 1 << 24
"""Products of fewer multiplications are left to torch, and equal its own to the bit. Lessons have only these."""

_NARROW = 16
"""With fewer rows or columns, either library spends its time on reading a matrix; a copy of it only costs more."""

_COPY = 1 << 22
"""The most numbers copied at a time, 16 MiB: else the gradient of a large batch would be in memory twice."""

_COPIED = 128
"""With at least this many columns of the second factor it pays to copy a first factor that lies column by column."""


def onednn_is_faster() -> bool:
    """Whether this is a processor on which MKL was measured to take twice as long as oneDNN, and torch has both."""
    return (
        torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and _vendor() == "AuthenticAMD"
    )


def _vendor() -> str:
    """The maker of the processor, which Linux reports. Empty on other systems: nothing was measured there."""
    try:
        with Path("/proc/cpuinfo").open("rb", buffering=0) as processors:  # all of it takes milliseconds on many cores
            first: str = processors.read(1024).decode(errors="replace")
    except OSError:
        return ""
    fields = (line.partition(":")[::2] for line in first.splitlines())
    return {key.strip(): value.strip() for key, value in fields}.get("vendor_id", "")


ONEDNN: bool = onednn_is_faster()


def product(a: Any, b: Any) -> Any:
    """``a @ b``, of raw tensors or recorded ones.

    Shapes: those of ``torch.matmul``. Raises RuntimeError where it does.
    """
    return _by_onednn(a, b.mT) if ONEDNN and _many(a, b) and _fit(a, b, 0) else a @ b


def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``torch.matmul`` of raw tensors: (..., n, k) and (..., k, m) give (..., n, m).

    Raises RuntimeError where it does.
    """
    return _by_onednn(a, b.mT) if ONEDNN and _many(a, b) and _fit(a, b, 0) else torch.matmul(a, b)


def mm(input: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:
    """``torch.mm`` of raw tensors: (n, k) and (k, m) give (n, m). Raises RuntimeError where it does."""
    two = ONEDNN and _many(input, mat2) and input.ndim == 2
    return _by_onednn(input, mat2.mT) if two and _fit(input, mat2, 0) else torch.mm(input, mat2)


def addmm(input: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, beta: Any = 1, alpha: Any = 1) -> torch.Tensor:
    """``torch.addmm`` of raw tensors: (n, k) times (k, m), added to what broadcasts to (n, m).

    Raises RuntimeError where it does.
    """
    two = ONEDNN and _many(mat1, mat2) and mat1.ndim == 2
    if two and beta == alpha == 1 and _fit(mat1, mat2, 0, input):
        return _by_onednn(mat1, mat2.mT, input)  # the layer of a network that keeps its weights transposed
    return torch.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """``torch.nn.functional.linear`` of raw tensors: (..., in), (out, in) and (out,) give (..., out).

    Raises RuntimeError where it does.
    """
    if ONEDNN and _many(input, weight) and _fit(input, weight, 1, bias):
        return _by_onednn(input, weight, bias)
    return _functional.linear(input, weight, bias)


def _many(a: Any, b: Any) -> bool:
    """A quick test whether the product may be large enough for oneDNN. Small factors need no other test.

    The product of the two sizes is the number of multiplications times the length of the common dimension.
    """
    try:
        return bool(a.numel() * b.numel() >= _LEAST * _NARROW)
    except AttributeError:  # something that is no tensor: torch raises the error
        return False


def _fit(a: Any, b: Any, inner: int, bias: Any = None) -> bool:
    """Whether oneDNN can multiply these factors, in less time than torch's own kernel.

    ``inner`` is the dimension of b that is summed over. A ``Tensor`` is refused: its op calls this with raw tensors.
    """
    given = (a, b) if bias is None else (a, b, bias)
    if not all(type(one) in _PLAIN and _is_matrix_of_floats(one) for one in given):
        return False
    if a.ndim < 2 or b.ndim != 2 or a.shape[-1] != b.shape[inner]:
        return False  # vectors, batches of matrices, and shapes that do not fit: torch raises the error
    met, columns = b.shape[inner], b.shape[1 - inner]
    if bias is not None and (bias.shape != (columns,) or not bias.is_contiguous()):
        return False  # oneDNN ignores the strides of a bias
    rows = a.numel() // met
    return (
        rows * met * columns >= _LEAST
        and min(rows, met) >= _NARROW
        and columns >= (_NARROW if a.is_contiguous() else _COPIED)
        and _in_order(b)
        and _only_computes(given)
    )


def _is_matrix_of_floats(one: torch.Tensor) -> bool:
    """Whether this is a dense float32 tensor on a CPU. Nested tensors may not even have a shape."""
    return one.is_cpu and one.dtype is torch.float32 and one.layout is torch.strided and not one.is_nested


def _in_order(matrix: torch.Tensor) -> bool:
    """Whether the rows or the columns are contiguous and do not overlap: oneDNN refuses windows that overlap."""
    (rows, columns), (down, across) = matrix.shape, matrix.stride()
    return (across == 1 and down >= columns) or (down == 1 and across >= rows)


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _only_computes(given: tuple[torch.Tensor, ...]) -> bool:
    """Whether no other part of torch has to differentiate, cast, trace or count this product.

    No part of torch can do that with a product by oneDNN.
    """
    return (
        torch._C._get_mkldnn_enabled()
        and not any(one.requires_grad for one in given)
        and not torch.is_autocast_enabled("cpu")
        and torch._C._get_tracing_state() is None
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch.autograd.forward_ad._current_level < 0
    )


def _by_onednn(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """Return ``input`` times ``weight`` transposed. An input that oneDNN has to copy is copied piece by piece."""
    if input.is_contiguous() or input.ndim > 2 or input.numel() <= _COPY:
        return _pointwise(input, weight, bias)
    made = input.new_empty(len(input), len(weight))
    step = max(_NARROW, _COPY // input.shape[1])
    for first in range(0, len(input), step):
        made[first : first + step] = _pointwise(input[first : first + step], weight, bias)
    return made


def _pointwise(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    made: torch.Tensor = torch.ops.mkldnn._linear_pointwise(input, weight, bias, "none", [], "")
    return made
