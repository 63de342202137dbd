"""detect_anomaly: the first op that makes a NaN or an Inf, and its cause. Compared with torch where torch looks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import islice, product
from math import inf, isfinite, nan
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.diagnose import anomaly
from nbgrad.core.diagnose.anomaly import AnomalyError
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.engine.state import current
from nbgrad.core.graph import nonfinite
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.allocations import torch_blocks
from tests.core.programs import Library, Program, agree, error, plain


def leaf(*values: Any, dtype: torch.dtype = torch.float32) -> Tensor:
    return tensor(list(values), dtype=dtype, requires_grad=True)


def caught(run: Callable[[], Any]) -> AnomalyError:
    """The error that ``run`` raises inside detect_anomaly."""
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError) as raised:
        run()
    return raised.value


def here() -> int:
    """The line this is called from."""
    return sys._getframe(1).f_lineno


# The forward: op, variable, line, index, operands, cause.


def test_the_forward_error_says_op_variable_line_index_operands_and_cause() -> None:
    x = leaf(1.0, 2.0, -1.0)
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError) as raised:
        x.log()
    found, line = raised.value, here() - 1
    assert (found.op, found.phase, found.kind, found.index) == ("log", "forward", "nan", (2,))
    assert found.place is not None
    assert (found.place.file, found.place.line) == (__file__, line)
    assert found.cause == "log of a negative number: x[2] = -1.0"
    assert str(found).splitlines() == [
        f"log made nan in the forward: tests/core/test_anomaly.py:{line}, `x.log()`",
        "  first bad element: out[2] = nan (1 of 3 are nan)",
        "  operands: x[2] = -1.0",
        "  cause: log of a negative number: x[2] = -1.0",
    ]


A = tensor([[1.0, 2.0], [3.0, 0.0]])
B = tensor([1.0, 0.0])

CAUSES: list[tuple[Callable[[], Any], str, str]] = [
    (A.log, "inf", "log of 0: A[1, 1] = 0.0"),
    ((B - 1).sqrt, "nan", "square root of a negative number: x[1] = -1.0"),
    (lambda: A / B, "nan", "0 / 0: A[1, 1] = 0.0, B[1] = 0.0"),
    (lambda: A[0] / B, "inf", "division by 0: a[1] = 2.0, B[1] = 0.0"),
    (lambda: A / 0, "nan", "0 / 0: A[1, 1] = 0.0, b = 0"),
    (lambda: 1 / B, "inf", "division by 0: a = 1, B[1] = 0.0"),
    (lambda: (A - 2) ** 0.5, "nan", "a negative number to a power that is not a whole number: a[0, 0] = -1.0, b = 0.5"),
    (lambda: A**-1, "inf", "division by 0: 0 to a negative power: A[1, 1] = 0.0, b = -1"),
    ((A * 1000).exp, "inf", "overflow: exp(1000.0) in float32, whose largest number is 3.4e+38"),
    (lambda: A * 3e38, "inf", "overflow: mul(2.0, 3e+38) in float32"),
    (lambda: B * inf, "nan", "0 * inf: B[1] = 0.0, b = inf"),
    (lambda: tensor([inf]) - tensor([inf]), "nan", "inf - inf: a[0] = inf, b[0] = inf"),
    (lambda: (A * 1e38) @ A, "inf", "overflow: matmul in float32"),
    ((A * 1e38).reshape(4)[:3].sum, "inf", "overflow: sum in float32"),
    (lambda: tensor([70000.0]).to(torch.float16), "inf", "overflow: to(70000.0) in float16, whose largest number is"),
    (tensor(torch.ones(0)).mean, "nan", "mean of no elements"),
    (lambda: tensor([[-inf, -inf]]).softmax(dim=-1), "nan", "inf - inf: a row that holds inf, or -inf everywhere"),
    (
        lambda: nbgrad.nn.functional.cross_entropy(A, tensor([-100, -100])),
        "nan",
        "0 / 0: every target is -100, which is ignored",
    ),
]


@pytest.mark.parametrize(("run", "kind", "words"), CAUSES, ids=[words.partition(":")[0] for _, _, words in CAUSES])
def test_the_cause_of_a_forward_is_said_in_words(run: Callable[[], Any], kind: str, words: str) -> None:
    found = caught(run)
    assert found.phase == "forward"
    assert found.kind == kind
    assert words in found.cause


def test_what_a_whole_tensor_makes_is_told_by_its_range() -> None:
    a = tensor([[1e38, -2.0], [3e38, 4.0]])
    found = caught(lambda: a @ a)
    assert "operands: a of shape (2, 2), from -2.0 to 3e+38; a of shape (2, 2), from -2.0 to 3e+38" in str(found)


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x, w: torch.nn.functional.conv2d(x, w, padding=1), (1, 1, 3, 3)),
        (lambda x, w: torch.rnn_relu_cell(x, x, w, w), (2, 2)),
        (lambda x, w: torch.cdist(x, -w, p=3), (2, 2)),
    ],
    ids=["conv2d", "rnn_relu_cell", "cdist"],
)
def test_where_many_numbers_make_one_no_single_ones_are_named_even_if_all_shapes_are_alike(
    call: Callable[[Tensor, Tensor], Any], shape: tuple[int, ...]
) -> None:
    x, w = tensor(torch.full(shape, 1e30), requires_grad=True), tensor(torch.full(shape, 1e30))
    text = str(caught(lambda: call(x, w)))
    assert f"x of shape {shape}, from 1e+30 to 1e+30" in text
    assert "[0, 0" not in text.partition("operands")[2].partition("\n")[0]


LARGE = tensor([1.0, 2e38, 2e38])


@pytest.mark.parametrize(
    ("call", "cause"),
    [
        (lambda: LARGE * LARGE, "overflow: mul(2e+38, 2e+38) in float32"),
        (lambda: tensor([1.0, inf, 2.0]).softmax(0), "inf - inf: a row that holds inf, or -inf everywhere"),
        (lambda: tensor([1.0, inf, 2.0]).log_softmax(0), "inf - inf: a row that holds inf, or -inf everywhere"),
        (lambda: nbgrad.nn.functional.layer_norm(LARGE, (3,)), "inf - inf, after an overflow on the way"),
        (lambda: LARGE.cumsum(0), "overflow: cumsum in float32"),
        (lambda: LARGE.cumprod(0), "overflow: cumprod in float32"),
        (lambda: nbgrad.nn.functional.layer_norm(tensor([2.0, 2.0]), (2,), eps=0), "layer_norm of these values is not"),
    ],
)
def test_one_number_is_named_only_where_it_alone_makes_it(call: Callable[[], Any], cause: str) -> None:
    found = caught(call)
    assert found.cause.startswith(cause)
    operands = str(found).partition("operands: ")[2].partition("\n")[0]
    assert ("[1]" in operands, "of shape" in operands) == ((True, False) if found.op == "mul" else (False, True))


def test_the_numbers_of_a_channel_are_not_looked_for_by_the_last_dimension() -> None:
    x, mean, var = tensor(torch.zeros(1, 2, 2)), tensor([0.0, 0.0]), tensor([1.0, 0.0])
    found = caught(lambda: nbgrad.nn.functional.batch_norm(x, mean, var, eps=0))
    assert (found.index, found.cause) == ((0, 1, 0), "batch_norm of these values is not finite")
    assert "var of shape (2,), from 0.0 to 1.0" in str(found)
    x = tensor([[[1.0, 2.0], [3e38, 4.0]]])
    found = caught(lambda: nbgrad.nn.functional.batch_norm(x, mean, tensor([1e-4, 1e-4]), eps=0))
    assert found.cause.startswith("overflow: batch_norm in float32")


def test_the_numbers_of_a_backward_are_named_only_where_they_alone_make_it() -> None:
    x, g = leaf(1.0, 2.0, 3.0), tensor([1.0, 3e38, 3e38])
    found = caught(lambda: x.cumsum(0).backward(g))
    assert (found.op, found.index) == ("cumsum", (0,))
    assert "incoming gradient of shape (3,), from 1.0 to 3e+38" in str(found)
    assert found.cause == "the rule of cumsum makes it from these values"


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.many is False])
def test_what_is_named_is_what_makes_it_in_every_row(name: str) -> None:
    """All other numbers are replaced by valid ones: the named numbers alone must still make the NaN or Inf."""
    row, other = OPS[name], Make(OPS[name].domain, seed=1)
    if name in CRASHING:
        pytest.skip(f"torch's kernel crashes on a NaN or an Inf: {CRASHING[name]}")
    for sample in islice(row.samples(Make(row.domain)), 12):
        for spoil in (extreme, zeros, infinite):
            args = [spoil(arg) if torch.is_tensor(arg) and arg.dtype is torch.float64 else arg for arg in sample.args]
            seen: list[tuple[Any, ...]] = []
            with watched(seen), nbgrad.detect_anomaly(), suppress(Exception):
                row(*[tensor(arg) if torch.is_tensor(arg) else arg for arg in args], **sample.settings)
            for run, given, kind, index, found in seen:
                spots = {operand.name: operand.at for operand in found}
                values = [one.value for one in given]
                for position, one in enumerate(given):
                    if found and torch.is_tensor(one.value) and one.value.dtype is torch.float64:
                        values[position] = other(*one.value.shape).abs()
                        if one.name in spots:
                            values[position][spots[one.name]] = one.value[spots[one.name]]
                assert not found or nonfinite.holds(kind, run(values)[index]), (sample, spoil, found)


CRASHING = {
    "grid_sampler_backward": "it reads and writes where the grid points",
}


def extreme(x: torch.Tensor) -> torch.Tensor:
    return x * 1e200


def zeros(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x)


def infinite(x: torch.Tensor) -> torch.Tensor:
    """Make the last number infinite."""
    spoiled = x.flatten().clone()
    spoiled[-1:] = inf
    return spoiled.reshape(x.shape)


@contextmanager
def watched(seen: list[tuple[Any, ...]]) -> Iterator[None]:
    """Records the ops whose numbers were searched, and the numbers that were found."""
    asked = nonfinite.operands

    def operands(run: Any, stretched: Any, given: Any, kind: str, result: torch.Tensor) -> Any:
        found = asked(run, stretched, given, kind, result)
        seen.append((run, given, kind, nonfinite.first(kind, result), found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nonfinite, "operands", operands)
        yield


def test_an_op_in_place_is_blamed_for_what_it_wrote() -> None:
    x = tensor([1.0, -2.0])
    found = caught(x.log_)
    assert (found.op, found.kind, found.cause) == ("log_", "nan", "log of a negative number: x[1] = -2.0")
    y = tensor([1e38, 1.0])
    assert caught(lambda: y.mul_(1e3)).cause.startswith("overflow: mul_(1e+38, 1000.0) in float32")
    z = tensor([1.0, inf])
    with nbgrad.detect_anomaly():
        z *= 2  # the Inf was there before; in a constant it may be intended
        with pytest.raises(RuntimeError, match="must match"):
            z *= tensor([1.0, 2.0, 3.0])
        z.clamp(max=1.0)  # the failed op leaves no record of its operands


def test_no_copy_is_kept_of_a_large_tensor_that_an_op_overwrites(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 1 << 22
    x = tensor(torch.ones(size // 4))
    x.name = "x"
    with nbgrad.detect_anomaly():
        assert torch_blocks(lambda: x.mul_(2.0), least=size) == [size]
        monkeypatch.setattr(anomaly, "_KEPT", 1 << 20)
        assert torch_blocks(lambda: x.mul_(2.0), least=size) == []
    x.data[77] = -1.0
    found = caught(x.log_)
    assert (found.op, found.kind, found.index) == ("log_", "nan", (77,))
    assert found.cause == "not known: no copy was kept of what log_ overwrote, which is larger than 1,048,576 bytes"
    assert "operands: x of shape (1048576,)" in str(found)
    with nbgrad.detect_anomaly():
        assert torch_blocks(x.nan_to_num_, least=size) == []
    x.data[5] = inf
    with nbgrad.detect_anomaly():
        x.mul_(2.0)  # the Inf was there before; in a constant it may be intended
    x.data[6] = nan
    found = caught(lambda: x.add_(1.0))
    assert "'x', an input, holds nan before add_ runs" in str(found)
    assert "x of shape (1048576,), 1 of them nan, 1 of them inf" in str(found)


def test_the_copy_of_overwritten_numbers_ends_with_the_op() -> None:
    x = tensor(torch.ones(1 << 20))
    with nbgrad.detect_anomaly():
        x.mul_(2.0)
        (watch,) = [one for one in current().observers if isinstance(one, anomaly._AnomalyObserver)]
        assert watch._before is None


def test_an_overflow_on_the_way_is_told() -> None:
    try:

        @op(formula="a b", samples=lambda make: iter([Sample.of(make(2), make(2))]), method=False)
        def two_steps(a, b):  # type: ignore[no-untyped-def]  # as rows are
            """A product whose kernel rounds each term. A matrix product need not: many kernels add unrounded terms."""
            return torch.sum(torch.mul(a, b))

        a = tensor([3e38, -3e38])
        assert caught(lambda: two_steps(a, a.abs())).cause == "inf - inf, after an overflow on the way to the result"
    finally:
        OPS.pop("two_steps", None)


def test_an_op_that_is_not_recorded_is_checked_too() -> None:
    with nbgrad.no_grad():
        assert caught(lambda: leaf(-1.0).log()).op == "log"
    assert caught(tensor(-1.0).log).id is None


def test_a_recorded_op_is_found_in_the_graph_by_its_id() -> None:
    x = leaf(1.0, -1.0)
    with nbgrad.AutogradGraph() as graph:
        y = x * 2
        found = caught(y.log)
    assert found.id is not None
    assert found.id > y.origin.seq
    assert graph.backwards == 0


# Ops that only pass a NaN or Inf on are not blamed.


def test_what_passes_an_inf_of_a_mask_on_is_not_blamed() -> None:
    x, mask = leaf([1.0, 2.0], [3.0, 4.0]), tensor([[0.0, -inf], [0.0, 0.0]])
    with nbgrad.detect_anomaly():
        shares = ((x + mask) * 2).softmax(dim=-1)
        (shares * shares).sum().backward()
        where = nbgrad.where(mask == 0, x, -inf).softmax(dim=-1)
    assert x.grad is not None
    assert x.grad.data.isfinite().all()
    assert where.data[0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("bad", [nan, inf])
def test_a_leaf_that_holds_it_already_is_named_and_the_op_is_not(bad: float) -> None:
    weight = leaf(1.0, bad)
    found = caught(lambda: weight * 2)
    assert found.op is None
    assert found.index == (1,)
    assert f"'weight', an input, holds {found.kind} before mul runs" in str(found)
    assert "weight[1]" in str(found)


def test_a_constant_that_holds_nan_is_named() -> None:
    data = tensor([nan, 1.0])
    assert "'data', an input, holds nan before mul runs" in str(caught(lambda: leaf(1.0, 2.0) * data))


def test_an_earlier_result_that_holds_it_is_named_with_the_op_that_made_it() -> None:
    y = leaf(-1.0).log()
    assert "'y', the result of an earlier log, holds nan before exp runs" in str(caught(y.exp))


def test_a_name_of_the_tensor_comes_before_the_variable() -> None:
    x = leaf(-1.0)
    x.name = "layers.0.weight"
    assert "layers.0.weight[0] = -1.0" in caught(x.log).cause


# The backward.


def test_the_backward_error_says_op_input_line_index_gradient_values_and_cause() -> None:
    x = leaf(4.0, 0.0)
    with nbgrad.detect_anomaly():
        y, line = x.sqrt(), here()
        with pytest.raises(AnomalyError) as raised:
            y.sum().backward()
    found = raised.value
    assert (found.op, found.phase, found.kind, found.index, found.id) == ("sqrt", "backward", "inf", (1,), y.origin.seq)
    assert found.place is not None
    assert found.place.line == line
    assert str(found).splitlines() == [
        "the backward of sqrt made inf, as the gradient of its input 'x'; it ran at "
        f"tests/core/test_anomaly.py:{line}, `y, line = x.sqrt(), here()`",
        "  first bad element: grad[1] = inf (1 of 2 are inf)",
        "  incoming gradient: 1.0",
        "  saved by the forward: out[1] = 0.0",
        "  local derivative: inf",
        "  cause: local derivative inf: the slope of the square root is infinite at 0",
    ]


def test_zero_times_inf_is_named_with_both_factors() -> None:
    x = leaf(0.0, 4.0)
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError) as raised:
        nbgrad.where(x > 0, x.sqrt(), 0.0).sum().backward()
    assert raised.value.op == "sqrt"
    assert raised.value.cause.startswith("0 * inf: incoming gradient 0, local derivative inf")
    assert "keep the operand away from this value before sqrt" in raised.value.cause


def test_a_product_of_gradients_that_overflows_is_named_with_both_factors() -> None:
    x, w = leaf(1.0, 2.0), leaf(1e38, 1.0)
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError) as raised:
        (x * w).backward(tensor([1e35, 1.0]))
    assert raised.value.cause == "overflow: incoming gradient 1e+35 * local derivative 1e+38 in float32"


def test_the_sum_that_undoes_a_broadcast_is_named() -> None:
    x, b = leaf(*([0.0] * 4)), tensor(0.0, requires_grad=True)
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError) as raised:
        (x + b).backward(tensor([2e38] * 4))
    assert raised.value.op == "add"
    assert raised.value.cause == "overflow in the sum that undoes the broadcast (4,) -> (): sum dim 0, in float32"


def test_a_sum_of_the_gradients_of_several_uses_is_named() -> None:
    x = leaf(1.0)
    with nbgrad.detect_anomaly():
        y = x * 1.0
        with pytest.raises(AnomalyError) as raised:
            (y + y).backward(tensor([3e38]))
    assert "overflow in the sum of the gradients of its uses, in float32" in raised.value.cause
    assert "'y', the result of mul" in str(raised.value)


def test_a_gradient_that_was_given_is_named() -> None:
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError, match="backward\\(\\) was given it to start from"):
        (leaf(1.0) * 2).backward(tensor([nan]))


def test_a_hook_is_named() -> None:
    y = leaf(1.0) * 2
    y.register_hook(lambda g: g * inf)
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError, match="a hook returned it"):
        (y * 3).sum().backward()


def test_an_op_that_ran_before_the_context_has_no_line_and_the_message_says_how_to_get_it() -> None:
    y = leaf(0.0).sqrt()
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError, match="run the forward inside detect_anomaly") as raised:
        y.backward()
    assert raised.value.place is None


def test_every_grad_is_as_it_was() -> None:
    x, z = leaf(0.0), leaf(1.0)
    z.grad = tensor([5.0])
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError):
        (x.sqrt() * z).sum().backward()
    assert x.grad is None
    assert z.grad.tolist() == [5.0]


def test_a_backward_that_records_itself_is_checked_as_rules() -> None:
    x = leaf(0.0)
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError) as raised:
        nbgrad.grad(x.sqrt(), x, create_graph=True)
    assert (raised.value.phase, raised.value.op) == ("backward", "sqrt")


def test_a_function_of_the_user_is_checked() -> None:
    class Broken(nbgrad.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * inf

    x = leaf(1.0)
    with nbgrad.detect_anomaly(), pytest.raises(AnomalyError, match="the backward of Broken made inf"):
        Broken.apply(x).backward()


def test_the_next_backward_after_an_error_starts_anew() -> None:
    x, y = leaf(0.0), leaf(4.0)
    with nbgrad.detect_anomaly():
        with pytest.raises(AnomalyError):
            x.sqrt().backward()
        with pytest.raises(AnomalyError):
            tensor(-1.0).log()
        y.sqrt().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [0.25]


# Compared with torch: where torch raises, nbgrad raises. torch looks only for NaN, and only in the backward.


def detector(lib: Library) -> Any:
    return lib.ops.detect_anomaly() if lib.ops is nbgrad else torch.autograd.detect_anomaly()


def zero_times_inf(lib: Library) -> tuple[Any, ...]:
    with detector(lib):
        x = lib.leaf(0.0, 1.0)
        (x.sqrt() * 0).sum().backward()
    return ()


def nan_gradient_given(lib: Library) -> tuple[Any, ...]:
    with detector(lib):
        (lib.leaf(1.0, 2.0) * 2).backward(lib.constant(nan, 1.0))
    return ()


def power_of_zero(lib: Library) -> tuple[Any, ...]:
    with detector(lib):
        x = lib.leaf(0.0, 1.0)
        ((x**0.5) * 0).sum().backward()
    return ()


def division(lib: Library) -> tuple[Any, ...]:
    with detector(lib):
        x, y = lib.leaf(0.0, 1.0), lib.leaf(1.0, 2.0)
        (x.log() * 0.0 * y).sum().backward()
    return ()


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled", "ignore:.*Error detected in.*")
@pytest.mark.parametrize("program", [zero_times_inf, nan_gradient_given, power_of_zero, division])
def test_it_raises_wherever_torch_does(program: Program) -> None:
    assert "nan" in error(program, Library(torch, torch.autograd.grad)), "torch does not raise"
    assert error(program, Library(nbgrad, nbgrad.grad))


def sound(lib: Library) -> tuple[Any, ...]:
    x, w = lib.leaf(0.5, 1.5), lib.leaf([1.0, 2.0], [3.0, 4.0])
    with detector(lib):
        y = ((x * w).exp() / (x + 1)).log().sum()
        y.backward()
    return y, x.grad, w.grad


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_a_sound_program_gives_what_torch_gives() -> None:
    agree(sound)


# The switch.


def test_it_costs_nothing_when_off_and_is_restored() -> None:
    before = current()
    with nbgrad.detect_anomaly():
        assert len(current().observers) == 1
    assert current() is before
    with pytest.raises(AnomalyError), nbgrad.detect_anomaly():
        tensor(-1.0).log()
    assert current() is before


def test_without_check_nan_it_only_notes_the_lines() -> None:
    x = leaf(-1.0)
    with nbgrad.detect_anomaly(check_nan=False):
        y = x.log()
        y.backward()
    assert y.grad_fn is not None
    assert y.grad_fn.place.text == "y = x.log()"
    with pytest.raises(RuntimeError, match=r"backward through log \(.*y = x.log\(\).*a second time"):
        y.backward()


def test_it_decorates_functions() -> None:
    @nbgrad.detect_anomaly()
    def step(x: Tensor) -> Tensor:
        return x.log()

    assert plain(step(tensor(1.0))).item() == 0.0
    with pytest.raises(AnomalyError):
        step(tensor(-1.0))
    assert tensor(-1.0).log().data.isnan()


def test_it_watches_inside_and_outside_of_a_graph() -> None:
    with nbgrad.detect_anomaly(), nbgrad.AutogradGraph(), pytest.raises(AnomalyError):
        tensor(-1.0).log()
    with nbgrad.AutogradGraph() as graph, nbgrad.detect_anomaly():
        y = leaf(1.0) * 2
        y.backward()
    assert graph.backwards == 1


def test_it_keeps_no_gradient_alive() -> None:
    x = leaf(1.0)
    with nbgrad.detect_anomaly():
        (x * x * x).backward()
        (watch,) = current().observers
        assert watch._incoming == {}  # type: ignore[attr-defined]


NUMBERS = (-inf, -2.5, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, inf)


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.undefined])
def test_the_words_of_a_row_are_about_numbers_without_a_finite_result(name: str) -> None:
    row = OPS[name]
    for applies, words in row.undefined:
        met = [numbers for numbers in product(NUMBERS, repeat=row.arity) if applies(*numbers)]
        bad = [numbers for numbers in met if not row(*map(torch.tensor, numbers)).isfinite()]
        assert bad, words
        assert all(numbers in bad for numbers in met if all(map(isfinite, numbers))), words


@pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.slope])
def test_a_row_with_words_for_an_infinite_slope_has_one(name: str) -> None:
    row = OPS[name]
    slopes = []
    for numbers in product((0.0, 0.5), repeat=row.arity):
        first, *others = [leaf(number) for number in numbers]
        row(first, *others).backward()
        slopes.append(plain(first.grad).isinf())
    assert any(slopes)


@pytest.mark.parametrize("switch", [torch.autograd.detect_anomaly, lambda: torch.autograd.set_detect_anomaly(True)])
def test_torchs_own_search_is_not_silently_blind(switch: Callable[[], Any]) -> None:
    x = leaf(0.0)
    y = x / x
    with (
        pytest.warns(UserWarning, match="Anomaly Detection")
        if switch is torch.autograd.detect_anomaly
        else nullcontext()
    ):
        search = switch()
    with search, pytest.raises(RuntimeError, match=r"with nbgrad\.detect_anomaly"):
        y.backward()
    y.backward()
