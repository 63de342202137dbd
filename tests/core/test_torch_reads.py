"""How compiled code reads torch's tensors: the same as plain Python reads, whatever was read before."""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from nbgrad.core.engine.torch_reads import (
    FEW,
    SAMPLE,
    number_of,
    numbers_of,
    plain_number,
    plain_numbers,
    plain_read,
    plain_sample,
    read_tensor,
    sample_of,
)


class Own(torch.Tensor):
    """A class of the user's."""


class Shapeless(torch.Tensor):
    """A class whose attribute is its own."""

    @property
    def shape(self) -> Any:  # type: ignore[override]  # in the stub of torch it is an attribute
        return torch.Size([7])


def _inferred() -> torch.Tensor:
    with torch.inference_mode():
        return torch.rand(3)


def _freed() -> torch.Tensor:
    made = torch.rand(3)
    made.untyped_storage().resize_(0)
    return made


def _ones(dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    return lambda: torch.ones(2, 3).to(dtype)


def _random(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.rand(shape)


DTYPES = (
    *(torch.float16, torch.bfloat16, torch.double, torch.int8, torch.uint8, torch.int64, torch.bool),
    *(torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2),
)

TENSORS: dict[str, Callable[[], torch.Tensor]] = {
    **{str(one): _ones(one) for one in DTYPES},
    **{f"{count} elements": _random(count) for count in (0, 1, FEW - 1, FEW, FEW + 1)},
    **{f"{dims} dimensions": _random(*[1, 2] * (dims // 2), *[2] * (dims % 2)) for dims in range(9)},
    "no elements in two dimensions": lambda: torch.rand(3, 0),
    "not a number": lambda: torch.tensor([float("nan"), float("inf"), -0.0]),
    "a parameter": lambda: torch.nn.Parameter(torch.rand(3)),
    "with a gradient": lambda: torch.rand(3, requires_grad=True) * 2,
    "a view": lambda: torch.rand(4, requires_grad=True)[1:3],
    "a transposed copy": lambda: torch.rand(3, 2).t().clone(memory_format=torch.preserve_format),
    "a row": lambda: torch.rand(4, 6)[1],
    "stretched": lambda: torch.rand(3, 1).expand(3, 4),
    "strides of one element": lambda: torch.rand(2).as_strided((1, 2), (9, 1)),
    "channels last": lambda: torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last),
    "conjugated": lambda: torch.rand(2, dtype=torch.complex64).conj(),
    "negative": lambda: torch._neg_view(torch.rand(3)),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "sparse rows": lambda: torch.eye(3).to_sparse_csr(),
    "meta": lambda: torch.empty(2, 3, device="meta"),
    "an inference tensor": _inferred,
    "freed": _freed,
    "jagged": lambda: torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(1, 3)], layout=torch.jagged),
    "nested": lambda: torch.nested.nested_tensor([torch.rand(2, 3), torch.rand(1, 3)]),
    "a class of the user's": lambda: torch.rand(3).as_subclass(Own),
    "a shape of its own": lambda: torch.rand(3).as_subclass(Shapeless),
}


def answer(read: Callable[..., Any], *args: Any) -> Any:
    """The answer of ``read``, or the class of the error that it raises."""
    try:
        return read(*args)
    except Exception as error:
        return type(error)


@pytest.mark.filterwarnings("ignore")  # torch warns that sparse rows and nested tensors are new
@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_is_read_as_plain_python_reads_it(name: str) -> None:
    tensor = TENSORS[name]()
    for numbers in (True, False, True):
        found = answer(read_tensor, tensor, numbers)
        assert found == answer(plain_read, tensor, numbers)
        assert found is RuntimeError or type(found[0]) is torch.Size
    assert answer(numbers_of, tensor) == answer(plain_numbers, tensor)


NUMBERS: dict[str, Callable[[], torch.Tensor]] = {
    **{str(one): lambda one=one: torch.tensor(1 / 3).to(one) for one in DTYPES[:3]},  # type: ignore[misc]
    "of float32": lambda: torch.tensor(1 / 3),
    "not finite": lambda: torch.tensor(float("-inf")),
    "the smallest": lambda: torch.tensor(2**-24, dtype=torch.float16),
    "a matrix of one number": lambda: torch.rand(1, 1, 1),
    "with a gradient": lambda: torch.rand(3, requires_grad=True).sum(),
    "a parameter": lambda: torch.nn.Parameter(torch.rand(1)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_number_of_a_tensor_is_read_from_its_memory(name: str) -> None:
    tensor = NUMBERS[name]()
    assert number_of(tensor) == plain_number(tensor) == tensor.item()


@pytest.mark.filterwarnings("ignore")  # as above
@pytest.mark.parametrize("name", sorted(TENSORS.keys() - {"1 elements", "0 dimensions", "2 dimensions"}))
def test_other_tensors_have_no_such_number(name: str) -> None:
    tensor = TENSORS[name]()
    if tensor.is_nested or tensor.numel() != 1:
        assert number_of(tensor) is plain_number(tensor) is None


@pytest.mark.parametrize("make", [torch._neg_view, torch.Tensor.view_as, torch.Tensor.conj, torch.Tensor.to_sparse])
def test_a_number_that_memory_alone_does_not_tell_is_not_read(make: Callable[..., torch.Tensor]) -> None:
    one = torch.ones(1, dtype=torch.complex64 if make is torch.Tensor.conj else torch.float32)
    made = make(one, one) if make is torch.Tensor.view_as else make(one)
    assert number_of(made) is plain_number(made) is None


def test_numbers_are_a_copy() -> None:
    tensor = torch.ones(2)
    read = numbers_of(tensor)
    tensor.zero_()
    assert read == torch.ones(2).numpy().tobytes()
    assert numbers_of(tensor) == bytes(8)


LARGE: dict[str, Callable[[], torch.Tensor]] = {
    **{str(one): lambda one=one: torch.randn(50, 40).to(one) for one in DTYPES},  # type: ignore[misc]
    **{f"{count} elements": _random(count) for count in (FEW, FEW + 1, 1 << 20)},
    "transposed": lambda: torch.randn(40, 50).t(),
    "a transposed copy": lambda: torch.randn(40, 50).t().clone(memory_format=torch.preserve_format),
    "channels last": lambda: torch.randn(2, 3, 20, 20).to(memory_format=torch.channels_last),
    "stretched": lambda: torch.randn(50, 1).expand(50, 40),
    "a window": lambda: torch.randn(5000)[7:4000:3],
    "eight dimensions": lambda: torch.randn(*[3] * 8),
    "a parameter": lambda: torch.nn.Parameter(torch.randn(50, 40)),
    "negative": lambda: torch._neg_view(torch.randn(2000)),
    "the imaginary part": lambda: torch.randn(2000, dtype=torch.complex64).conj().imag,
    "meta": lambda: torch.empty(50, 40, device="meta"),
    "sparse": lambda: torch.eye(50).to_sparse(),
    "a class of the user's": lambda: torch.randn(2000).as_subclass(Own),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_sample_is_that_of_plain_python(name: str) -> None:
    tensor = LARGE[name]()
    assert sample_of(tensor) == plain_sample(tensor)


class Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """It counts the ops of torch."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("plain", [True, False])
def test_no_mode_of_torchs_notices_a_reading(plain: bool) -> None:
    small, large = torch.rand(3, 5), torch.rand(40, 50).t()
    read, sample = (plain_numbers, plain_sample) if plain else (numbers_of, sample_of)
    known = read(small), sample(large)
    assert None not in known
    for mode in (FakeTensorMode(), torch.device("meta"), seen := Seen()):
        with mode:
            assert (read(small), sample(large)) == known
    assert not seen.ops


def test_a_sample_lies_at_the_same_positions_in_every_layout() -> None:
    tensor = torch.randn(30, 50)
    known = sample_of(tensor)
    assert known is not None
    assert len(set(torch.frombuffer(bytearray(known), dtype=torch.float32).tolist())) == SAMPLE
    assert sample_of(tensor.t().contiguous().t()) == sample_of(tensor.reshape(-1)) == known


@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_no_order_of_reading_mixes_tensors_up(order: tuple[int, ...]) -> None:
    tensors = [torch.rand(2, 3), torch.rand(3, 2, dtype=torch.float64), torch.ones(6, dtype=torch.int32)]
    for numbers in (True, False):
        for at in order:
            assert read_tensor(tensors[at], numbers) == plain_read(tensors[at], numbers)
            assert numbers_of(tensors[at - 1]) == plain_numbers(tensors[at - 1])


def test_a_tensor_at_the_place_of_one_that_is_gone_is_read_anew() -> None:
    """Python often gives the next object the address of the last one."""
    for size in range(1, 200):
        tensor = torch.full((size % 7 + 1, size), float(size), dtype=torch.float32 if size % 2 else torch.float64)
        assert read_tensor(tensor, True) == plain_read(tensor, True)


def test_a_tensor_that_changes_its_shape_or_its_data_is_read_anew() -> None:
    tensor = torch.rand(2, 3)
    for change in (
        lambda: tensor.resize_(3, 4).fill_(1),
        tensor.t_,
        lambda: tensor.set_(torch.rand(5)),  # type: ignore[call-overload]  # its stub wants a storage
        lambda: setattr(tensor, "data", torch.rand(2, 2, dtype=torch.float64)),
    ):
        read_tensor(tensor, True)
        change()
        assert read_tensor(tensor, True) == plain_read(tensor, True)


def test_more_shapes_than_are_remembered() -> None:
    tensors = [torch.rand(a, b) for a in range(12) for b in range(12)]
    for _ in range(2):
        assert [read_tensor(one, False) for one in tensors] == [plain_read(one, False) for one in tensors]


def test_a_wrapped_tensor_of_torchs_transforms_has_no_numbers() -> None:
    found: list[Any] = []

    def look(x: torch.Tensor) -> torch.Tensor:
        found.append((answer(read_tensor, x, True), answer(plain_read, x, True)))
        return x.sin()

    torch.func.vmap(look)(torch.rand(3, 2))
    torch.func.grad(lambda x: look(x).sum())(torch.rand(2))
    assert len(found) == 2
    assert all(one == other and one[2] is None for one, other in found)
