"""Loop nests: what the interpreter computes is what torch computes, one operation after the other."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from nbgrad.core.compilation import compiled
from nbgrad.core.symbolic.nest import interpreter
from nbgrad.core.symbolic.nest.ir import UNARY, Builder, Kernel, KernelError
from nbgrad.core.symbolic.nest.schedule import PIECE, schedule
from tests.core.symbolic.nests import ulps
from tests.sweeps.nests import identical

needs_interpreter = pytest.mark.skipif(not interpreter.available(), reason="the interpreter is not there")


def kernel_of(make: Callable[..., int | list[int]], *shapes: tuple[int, ...]) -> Kernel:
    """A kernel whose outputs ``make`` makes from a builder and its inputs."""
    builder = Builder()
    inputs = [builder.input(shape) for shape in shapes]
    made = make(builder, *inputs)
    return builder.kernel(made if isinstance(made, list) else [made])


def softmax(builder: Builder, x: int) -> int:
    """Softmax over the last dimension."""
    e = builder.apply("exp", builder.apply("sub", x, builder.max(x, [-1])))
    return builder.apply("div", e, builder.sum(e, [-1]))


def layer_norm(builder: Builder, x: int, weight: int, bias: int) -> int:
    """Layer normalization over the last dimension."""
    size = float(builder.shape(x)[-1])
    centred = builder.apply("sub", x, builder.apply("div", builder.sum(x, [-1]), size))
    variance = builder.apply("div", builder.sum(builder.apply("square", centred), [-1]), size)
    scale = builder.apply("rsqrt", builder.apply("add", variance, 1e-5))
    return builder.apply("add", builder.apply("mul", builder.apply("mul", centred, scale), weight), bias)


def numbers() -> torch.Tensor:
    """Float32 numbers of every size, including denormal numbers, infinities and NaN."""
    generator = torch.Generator().manual_seed(0)
    anywhere = torch.randint(-(2**31), 2**31 - 1, (200_000,), generator=generator, dtype=torch.int64).int()
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-45, -1e-45, 3.4e38, 88.8, -103.9])
    return torch.cat([anywhere.view(torch.float32), torch.linspace(-110, 110, 100_001), special])


@needs_interpreter
def test_functions_are_right_to_2_ulp_over_the_whole_range() -> None:
    x = numbers()
    found = interpreter.build(kernel_of(lambda b, v: [b.apply(name, v) for name in UNARY], tuple(x.shape)))(x)
    own = {"copy": torch.clone, "sigmoid": lambda v: 1 / (1 + torch.exp(-v))}
    for name, one in zip(UNARY, found, strict=True):
        right = (own.get(name) or getattr(torch, name))(x.double())
        assert float(ulps(one, right).max()) <= 2, name
        zero = (one == 0) & (right.float() == 0)
        assert name == "relu" or torch.equal(one.signbit()[zero], right.signbit()[zero]), name


@needs_interpreter
def test_arithmetic_is_torchs_to_the_bit() -> None:
    x = numbers()
    y = x[torch.randperm(len(x), generator=torch.Generator().manual_seed(1))]
    names = ("add", "sub", "mul", "div", "maximum", "minimum")
    shape = tuple(x.shape)
    found = interpreter.build(kernel_of(lambda b, v, w: [b.apply(name, v, w) for name in names], shape, shape))(x, y)
    for name, one in zip(names, found, strict=True):
        assert identical(one, getattr(torch, name)(x, y)), name


@needs_interpreter
@pytest.mark.parametrize(
    ("one", "two"),
    [
        ((64, 1), (1, 64)),
        ((64, 64), (64,)),
        ((64, 64), ()),
        ((2, 3, 5, 7), (3, 1, 1)),
        ((2, 3, 5, 7), (2, 1, 5, 1)),
        ((2, 1, 33), (4, 1)),
        ((1, 1), (1,)),
        ((3, 5000), (3, 1)),
        ((5000, 3), (5000, 1)),
        ((), ()),
    ],
)
def test_shapes_broadcast(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    x, y = torch.randn(one), torch.randn(two)

    def make(builder: Builder, a: int, b: int) -> list[int]:
        total = builder.apply("sub", a, b)
        return [total, builder.apply("mul", builder.apply("add", total, b), b)]

    found = interpreter.build(kernel_of(make, one, two))(x, y)
    assert identical(found[0], x - y)
    assert identical(found[1], (x - y + y) * y)


@needs_interpreter
@pytest.mark.parametrize("shape", [(7,), (64, 64), (3, 5000), (5000, 3), (4, 8, 100), (100_003,)])
def test_the_error_of_a_sum_is_no_larger_than_torchs(shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    over = [list(range(len(shape))), [0], [len(shape) - 1]]
    run = interpreter.build(kernel_of(lambda b, v: [b.sum(v, dims) for dims in over], shape))
    ours, torchs = torch.zeros(3), torch.zeros(3)
    for _ in range(max(8, 2000 // math.prod(shape))):
        x = torch.rand(shape, generator=generator) - 0.3
        for k, (dims, found) in enumerate(zip(over, run(x), strict=True)):
            right = x.double().sum(dims, keepdim=True)
            ours[k] += float((found - right).abs().mean())
            torchs[k] += float((x.sum(dims, keepdim=True) - right).abs().mean())
    assert bool((ours <= 1.2 * torchs).all()), (ours, torchs)


@needs_interpreter
@pytest.mark.parametrize("shape", [(5,), (64, 10), (2, 3, 16, 33), (3, 5000)])
def test_softmax_is_right_and_one_nest_where_a_row_fits_the_cache(shape: tuple[int, ...]) -> None:
    kernel = kernel_of(softmax, shape)
    x = torch.randn(shape) * 5
    torch.testing.assert_close(interpreter.build(kernel)(x)[0].double(), x.double().softmax(-1), rtol=1e-6, atol=1e-12)
    assert len(schedule(kernel).nests) == (1 if shape[-1] < 5000 else 3)


@needs_interpreter
def test_a_layer_norm_is_one_nest() -> None:
    kernel = kernel_of(layer_norm, (6, 20, 96), (96,), (96,))
    x, weight, bias = torch.randn(6, 20, 96), torch.randn(96), torch.randn(96)
    (found,) = interpreter.build(kernel)(x, weight, bias)
    right = torch.nn.functional.layer_norm(x.double(), (96,), weight.double(), bias.double())
    torch.testing.assert_close(found.double(), right, rtol=1e-6, atol=2e-6)
    assert len(schedule(kernel).nests) == 1


@needs_interpreter
def test_what_is_reduced_over_all_rows_is_used_by_a_later_nest() -> None:
    def make(builder: Builder, x: int) -> list[int]:
        mean = builder.apply("div", builder.sum(x, [0]), float(builder.shape(x)[0]))
        centred = builder.apply("sub", x, mean)
        return [centred, builder.sum(builder.apply("square", centred))]

    x = torch.randint(-8, 8, (64, 48)).float()
    centred, total = interpreter.build(kernel_of(make, (64, 48)))(x)
    assert identical(centred, x - x.sum(0) / 64)
    torch.testing.assert_close(total.double(), (x.double() - x.double().mean(0)).square().sum().reshape(1, 1))


@needs_interpreter
def test_what_has_one_number_a_row_is_used_by_rows_and_by_elements() -> None:
    def make(builder: Builder, x: int, scale: int) -> int:
        total = builder.apply("mul", builder.sum(x, [1]), scale)
        for _ in range(4):  # several uses, so that it is expanded to the whole block
            x = builder.apply("mul", x, scale)
        return builder.apply("add", x, total)

    x, scale = torch.randint(-3, 4, (20, 24)).float(), torch.randint(-3, 4, (20, 1)).float()
    (found,) = interpreter.build(kernel_of(make, (20, 24), (20, 1)))(x, scale)
    assert identical(found, x * scale**4 + x.sum(1, keepdim=True) * scale)


@needs_interpreter
def test_the_outputs_are_tensors_of_their_own() -> None:
    def make(builder: Builder, x: int) -> list[int]:
        y = builder.apply("neg", x)
        return [x, y, y, builder.reshape(y, (6,)), builder.expand(x, (4, 2, 3))]

    x = torch.randn(2, 3)
    found = interpreter.build(kernel_of(make, (2, 3)))(x)
    for one, right in zip(found, [x, -x, -x, -x.reshape(6), x.expand(4, 2, 3)], strict=True):
        assert identical(one, right)
        assert one.is_contiguous()
    assert len({one.data_ptr() for one in (x, *found)}) == 6


@needs_interpreter
def test_outputs_are_float32_whatever_the_default_is() -> None:
    run = interpreter.build(kernel_of(lambda b, x: b.apply("exp", x), (5,)))
    torch.set_default_dtype(torch.float64)
    try:
        (found,) = run(torch.ones(5, dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == torch.float32


@needs_interpreter
@pytest.mark.parametrize("size", [16, 500_000])
def test_threads_may_call_one_kernel_at_the_same_time(size: int) -> None:
    def make(builder: Builder, x: int) -> list[int]:
        y = builder.apply("tanh", builder.apply("sin", x))
        return [builder.apply("sub", builder.apply("mul", y, y), x), builder.sum(y)]

    run = interpreter.build(kernel_of(make, (size,)))
    inputs = [torch.randn(size) for _ in range(8)]
    alone = [run(x) for x in inputs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            for one, two in zip(alone, pool.map(run, inputs), strict=True):
                assert all(map(identical, one, two))


@needs_interpreter
def test_a_wrong_number_of_inputs_is_refused() -> None:
    run = interpreter.build(kernel_of(lambda b, x: b.apply("exp", x), (5,)))
    with pytest.raises(TypeError, match="takes 1 tensors, not 2"):
        run(torch.ones(5), torch.ones(5))


def test_inputs_are_checked_where_one_asks_for_it() -> None:
    kernel = kernel_of(lambda b, x: b.apply("exp", x), (5, 3))
    kernel.check([torch.ones(5, 3)])
    for wrong, message in [
        (torch.ones(3, 5), r"input 0 of a kernel: expected a contiguous float32 \(5, 3\), got shape \(3, 5\)"),
        (torch.ones(3, 5).T, r"strides \(1, 5\): pass x.contiguous\(\)"),
        (torch.ones(5, 3).double(), "float64"),
        (torch.ones(5, 3).to_sparse(), "sparse"),
    ]:
        with pytest.raises(KernelError, match=message):
            kernel.check([wrong])
    with pytest.raises(KernelError, match="takes 1 tensors, not 0"):
        kernel.check([])


def test_a_builder_refuses_what_no_kernel_computes() -> None:
    with pytest.raises(KernelError, match=r"float32, not in torch.float64: leave these steps to torch"):
        Builder(torch.float64)
    builder = Builder()
    with pytest.raises(KernelError, match="Leave empty tensors to torch"):
        builder.input((3, 0))
    x, y = builder.input((2, 3)), builder.input((4,))
    truth = builder.apply("lt", x, 0.0)
    for call, message in [
        (lambda: builder.apply("gamma", x), "'gamma' is no pointwise operation"),
        (lambda: builder.apply("add", x), "add takes 2 arguments, not 1"),
        (lambda: builder.apply("add", x, y), r"add: shapes \(2, 3\), \(4,\) do not broadcast"),
        (lambda: builder.apply("exp", 1.0), "of constants alone"),
        (lambda: builder.apply("exp", 99), "99 is neither the number of a value nor a float"),
        (lambda: builder.apply("exp", True), "True is neither"),
        (lambda: builder.apply("add", truth, x), "only where and mul take one"),
        (lambda: builder.sum(truth), "result of a comparison"),
        (lambda: builder.kernel([truth]), "would be bools"),
        (lambda: builder.kernel([]), "computes nothing"),
        (lambda: builder.sum(x, [2]), r"dimensions \(2,\) of a tensor of shape \(2, 3\)"),
        (lambda: builder.reshape(x, (5,)), "has 6 numbers"),
        (lambda: builder.expand(y, (3,)), "does not broadcast"),
        (lambda: builder.input((1,)), "declared before"),
    ]:
        with pytest.raises(KernelError, match=message):
            call()


@pytest.mark.skipif(compiled(), reason="the core runs compiled")
def test_without_the_compiled_core_the_interpreter_says_so() -> None:
    assert not interpreter.available()
    with pytest.raises(KernelError, match=r"the interpreter .* is not there .*make compile.*'replay' or 'inductor'"):
        interpreter.build(kernel_of(lambda b, x: b.apply("exp", x), (5,)))


@needs_interpreter
def test_processors_without_wide_vectors_give_the_same_bits() -> None:
    from nbgrad.core.symbolic.nest import machine

    def make(builder: Builder, x: int) -> list[int]:
        made = [builder.apply(name, x) for name in UNARY]
        return [*made, builder.sum(x), builder.sum(x, [0]), builder.max(x, [1]), softmax(builder, x)]

    run = interpreter.build(kernel_of(make, (41, 77)))
    x = torch.randn(41, 77) * 3
    wide = run(x)
    machine.narrow(True)
    try:
        narrow = run(x)
    finally:
        machine.narrow(False)
    assert all(map(identical, wide, narrow))


@needs_interpreter
def test_numbers_that_are_no_program_are_refused() -> None:
    from nbgrad.core.symbolic.nest import machine

    with pytest.raises(ValueError, match="no program of loop nests"):
        machine.Program(b"\xff" * 800, b"", ())
    with pytest.raises(ValueError, match="no program of loop nests"):
        machine.Program(b"", b"", (torch.ones(1),))


def test_blocks_are_cut_where_sums_are() -> None:
    nests = schedule(kernel_of(lambda b, x: b.sum(b.apply("exp", x)), (10_000,))).nests
    assert [(one.block_rows, one.block_columns) for one in nests] == [(1, PIECE)]
