"""The parameters of functions that create tensors, for the stubs.

These functions hand all arguments on to torch's functions, which have no signatures.
"""

_KIND = "dtype: torch.dtype | None = None, device: torch.device | str | int | None = None, requires_grad: bool = False"
_DRAWN = f"generator: torch.Generator | None = None, {_KIND}"
_LIKE = f"{_KIND}, memory_format: torch.memory_format = torch.preserve_format"
_LIKE_DRAWN = f"generator: torch.Generator | None = None, {_LIKE}"
_SIZE = "*size: int | Sequence[int]"
_WINDOW = "window_length: int, periodic: bool = True"
_PAIR = f"row: int, col: int, offset: int = 0, *, {_KIND}"

CREATED = {
    "arange": [
        f"end: Number, *, {_KIND}",
        f"start: Number, end: Number, step: Number = 1, *, {_KIND}",
    ],
    "as_tensor": ["data: Any, dtype: torch.dtype | None = None, device: torch.device | str | int | None = None"],
    "bartlett_window": [f"{_WINDOW}, *, {_KIND}"],
    "blackman_window": [f"{_WINDOW}, *, {_KIND}"],
    "empty": [f"{_SIZE}, {_KIND}, memory_format: torch.memory_format = torch.contiguous_format"],
    "empty_like": [f"input: Array, *, {_LIKE}"],
    "empty_permuted": [f"size: Sequence[int], physical_layout: Sequence[int], *, {_KIND}"],
    "empty_strided": [f"size: Sequence[int], stride: Sequence[int], *, {_KIND}"],
    "eye": [f"n: int, m: int | None = None, *, {_KIND}"],
    "fft_fftfreq": [f"n: int, d: float = 1.0, *, {_KIND}"],
    "fft_rfftfreq": [f"n: int, d: float = 1.0, *, {_KIND}"],
    "full": [f"size: Sequence[int], fill_value: Number | Tensor, *, {_KIND}"],
    "full_like": [f"input: Array, fill_value: Number | Tensor, *, {_LIKE}"],
    "hamming_window": [f"{_WINDOW}, alpha: float = 0.54, beta: float = 0.46, *, {_KIND}"],
    "hann_window": [f"{_WINDOW}, *, {_KIND}"],
    "kaiser_window": [f"{_WINDOW}, beta: float = 12.0, *, {_KIND}"],
    "linspace": [f"start: Number | Tensor, end: Number | Tensor, steps: int, *, {_KIND}"],
    "logspace": [f"start: Number | Tensor, end: Number | Tensor, steps: int, base: float = 10.0, *, {_KIND}"],
    "normal": [
        "mean: Array, std: Operand = 1.0, *, generator: torch.Generator | None = None",
        "mean: Number, std: Array, *, generator: torch.Generator | None = None",
        f"mean: Number, std: Number, size: Sequence[int], *, {_DRAWN}",
    ],
    "ones": [f"{_SIZE}, {_KIND}"],
    "ones_like": [f"input: Array, *, {_LIKE}"],
    "rand": [f"{_SIZE}, {_DRAWN}"],
    "rand_like": [f"input: Array, *, {_LIKE_DRAWN}"],
    "randint": [
        f"high: int, size: Sequence[int], *, {_DRAWN}",
        f"low: int, high: int, size: Sequence[int], *, {_DRAWN}",
    ],
    "randint_like": [
        f"input: Array, high: int, *, {_LIKE_DRAWN}",
        f"input: Array, low: int, high: int, *, {_LIKE_DRAWN}",
    ],
    "randn": [f"{_SIZE}, {_DRAWN}"],
    "randn_like": [f"input: Array, *, {_LIKE_DRAWN}"],
    "randperm": [f"n: int, *, {_DRAWN}"],
    "scalar_tensor": [f"s: Number, *, {_KIND}"],
    "tril_indices": [_PAIR],
    "triu_indices": [_PAIR],
    "zeros": [f"{_SIZE}, {_KIND}"],
    "zeros_like": [f"input: Array, *, {_LIKE}"],
}
"""For each function its parameter lists: one for each way to call it."""
