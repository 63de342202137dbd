"""Interop: torch's and numpy's functions on our tensors, shared memory, copies and files."""

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import resolve_name
from torch.utils.data import DataLoader, TensorDataset

import nbgrad
from nbgrad import nn
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core import rows
from tests.core.programs import Library, Program, agree
from tests.lacking import case, lacks

F = torch.nn.functional
VALUES = [[0.5, 1.5, 1.0], [2.0, 0.25, 1.0]]
CLASSES = torch.tensor([0, 2])
PICKS = torch.tensor([[0], [2]])
OTHER = torch.tensor([[1.0, 2.0, 3.0], [0.5, 2.5, 1.0]], dtype=torch.float64)

TORCH_CALLS: dict[str, Callable[[Any], Any]] = {
    "torch.exp(t)": torch.exp,
    "torch.relu(t)": torch.relu,
    "F.relu(t)": F.relu,
    "torch.nn.ReLU()(t)": torch.nn.ReLU(),
    "torch.add(t, 1)": lambda t: torch.add(t, 1),
    "torch.add(1 other)": lambda t: torch.add(input=t, other=OTHER),
    "torch.add(alpha=1)": lambda t: torch.add(t, OTHER, alpha=1),
    "torch.multiply": lambda t: torch.multiply(t, t),
    "torch.pow": lambda t: torch.pow(t, exponent=2),
    "other * t": lambda t: OTHER * t,
    "other - t": lambda t: OTHER - t,
    "other / t": lambda t: OTHER / t,
    "other ** t": lambda t: OTHER**t,
    "other @ t": lambda t: OTHER.T @ t,
    "other.maximum(t)": OTHER.maximum,
    "torch.maximum": lambda t: torch.maximum(t, OTHER),
    "torch.where": lambda t: torch.where(OTHER > 1, t, 0.0),
    "torch.sum": torch.sum,
    "torch.sum by position": lambda t: torch.sum(t, 1, True),
    "torch.sum by name": lambda t: torch.sum(t, dim=0, keepdim=True),
    "torch.sum axis": lambda t: torch.sum(t, axis=0, keepdims=True),
    "torch.mean": lambda t: torch.mean(t, (0, 1)),
    "torch.max": torch.max,
    "torch.max along": lambda t: torch.max(t, 1).values,
    "torch.gather": lambda t: torch.gather(t, 1, PICKS),
    "torch.reshape": lambda t: torch.reshape(t, (3, 2)),
    "torch.transpose": lambda t: torch.transpose(t, 0, 1),
    "torch.softmax": lambda t: torch.softmax(t, 1),
    "F.softmax": lambda t: F.softmax(t, dim=1),
    "F.log_softmax": lambda t: F.log_softmax(t, 1),
    "torch.special.expit": torch.special.expit,
    "F.linear": lambda t: F.linear(OTHER, t),
    "F.mse_loss": lambda t: F.mse_loss(t, OTHER, reduction="sum"),
    "F.cross_entropy": lambda t: F.cross_entropy(t, CLASSES, label_smoothing=0.1),
    "torch.nn.CrossEntropyLoss": lambda t: torch.nn.CrossEntropyLoss()(t, CLASSES),
}


@pytest.mark.parametrize("name", TORCH_CALLS)
def test_torchs_functions_record_our_ops(name: str) -> None:
    call = TORCH_CALLS[name]
    ours, theirs = tensor(VALUES, dtype=torch.float64), torch.tensor(VALUES, dtype=torch.float64)
    found, expected = call(ours.requires_grad_()), call(theirs.requires_grad_())
    assert isinstance(found, Tensor)
    assert found.grad_fn is not None
    torch.testing.assert_close(found.data, expected.detach())
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(ours.grad.data, theirs.grad)


def test_questions_about_the_data_are_answered() -> None:
    t = tensor(VALUES, requires_grad=True)
    assert torch.is_floating_point(t)
    assert not torch.is_complex(t)
    assert torch.numel(t) == 6
    assert torch.result_type(t, torch.tensor([1], dtype=torch.float64)) is torch.float64
    assert torch.allclose(t, torch.tensor(VALUES))
    assert torch.equal(t, t)
    assert (t.shape, t.dtype, t.device.type, t.size(0), t.dim()) == ((2, 3), torch.float32, "cpu", 2, 2)
    finite = torch.isfinite(t)
    assert isinstance(finite, Tensor)
    assert finite.data.all()


def test_new_data_of_the_same_shape_have_no_history() -> None:
    t = tensor(VALUES, requires_grad=True)
    for made in (torch.zeros_like(t), torch.ones_like(t, dtype=torch.float64), torch.full_like(t, 3.0)):
        assert isinstance(made, Tensor)
        assert made.shape == t.shape
        assert not made.requires_grad
    assert torch.ones_like(t, requires_grad=True).requires_grad
    assert torch.ones_like(t, requires_grad=True).is_leaf


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (torch.geqrf, NotImplementedError, r"no op 'torch.geqrf' yet: use t.data for the values"),
        (torch.special.airy_ai, NotImplementedError, r"no op 'torch.special.airy_ai'"),
        (OTHER.nextafter, NotImplementedError, r"no op 'torch.Tensor.nextafter'"),
        (torch.linalg.ldl_factor, NotImplementedError, r"no op 'torch.linalg.ldl_factor'"),
        (lambda t: torch.gather(t, 1, PICKS, sparse_grad=True), NotImplementedError, "sparse_grad"),
        (lambda t: torch.nn.Parameter(OTHER).add_(t), TypeError, r"torch.Tensor.add_ on a torch tensor .* pass t.data"),
        (lambda t: OTHER.detach().__setitem__(0, t), TypeError, r"other tensors share its memory.* pass t.data"),
    ],
)
def test_what_torch_cannot_do_with_ours_is_an_error_that_says_what_to_do(call: Any, error: Any, words: str) -> None:
    assert not {"geqrf", "nextafter"} & OPS.keys(), "take another function that the table lacks"
    with pytest.raises(error, match=words):
        call(tensor(VALUES, requires_grad=True))


def test_another_library_that_overrides_torchs_functions_is_left_to_answer() -> None:
    class Theirs:
        @classmethod
        def __torch_function__(cls, *_args: Any, **_kwargs: Any) -> str:
            return "theirs"

    assert torch.add(tensor([1.0]), Theirs()) == "theirs"


def torchs_function(row: Op) -> Callable[..., Any] | None:
    """The torch function that the row is tested against; None if the reference is made of several functions."""
    function = rows.reference(row)
    public = str(resolve_name(function)).startswith("torch.") and "Tensor" not in function.__qualname__
    return function if public else None


@pytest.mark.parametrize("row", [row for row in OPS.values() if torchs_function(row)], ids=lambda row: row.name)
def test_every_row_that_torch_has_is_found_by_torchs_name(row: Op) -> None:
    """A new row makes torch's function of its name work too. The interop code needs no new line for it."""
    function = torchs_function(row)
    assert function is not None
    for sample in list(rows.samples(row))[:3]:
        ours = [tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in sample.args]
        if not any(isinstance(arg, Tensor) for arg in ours):
            continue
        expected, found = function(*sample.args, **sample.settings), function(*ours, **sample.settings)
        assert all(isinstance(part, Tensor) for part in rows.parts(found)), rows.describe(sample)
        rows.close(rows.raw(found), rows.parts(expected) if isinstance(found, tuple) else expected, row.name)


def test_most_rows_are_found_so() -> None:
    assert sum(torchs_function(row) is not None for row in OPS.values()) > 200


@pytest.mark.parametrize("name", ["atan2", "matmul", "mul", "lerp", "dot", "masked_fill"])
def test_a_method_of_a_torch_tensor_with_one_of_ours_is_our_op(name: str) -> None:
    tried = 0
    for sample in list(rows.samples(OPS[name]))[:4]:
        first, *others = sample.args
        ours = [tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in others]
        if isinstance(first, torch.Tensor) and any(isinstance(arg, Tensor) for arg in ours):
            tried += 1
            found = getattr(first, name)(*ours, **sample.settings)
            assert isinstance(found, Tensor)
            rows.close(found.data, getattr(first, name)(*others, **sample.settings), rows.describe(sample))
    assert tried


def relu_in_place(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(-1.0, 2.0)
    y = x * 3
    same = F.relu(y, inplace=True)
    z = F.elu(same - 3, 0.5, True)
    F.dropout(z, 0.0, True, True)
    z.sum().backward()
    return same is y, y, z, x.grad


def other_functions_in_place(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(-1.0, 0.5, 2.0)
    y = x * 2
    torch.sin_(y)
    torch.clamp_(y, max=0.7)
    F.hardtanh_(y, -0.5, 0.9)
    y.sum().backward()
    return y, x.grad


def gradients_by_torchs_name(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(0.5, 2.0)
    (slope,) = torch.autograd.grad(x.exp().sum(), x, create_graph=True)
    (curve,) = torch.autograd.grad([(slope * x).sum()], [x], retain_graph=True)
    return slope, curve


def backwards_by_torchs_name(lib: Library) -> tuple[Any, ...]:
    x, y = lib.leaf(0.5, 2.0), lib.leaf(3.0, 0.25)
    torch.autograd.backward(x.exp().sum())
    torch.autograd.backward([(x * y).sum(), x * 3], [None, lib.constant(1.0, 2.0)], retain_graph=True)
    return x.grad, y.grad


def drawn_by_torchs_distributions(lib: Library) -> tuple[Any, ...]:
    torch.manual_seed(0)
    p = lib.constant(0.2, 0.8)
    normal = torch.distributions.Normal(p, 1.0, validate_args=False)  # validation would need a tensor of torch
    return torch.distributions.Categorical(p).sample(), normal.log_prob(p)


def drawn_and_judged(lib: Library) -> tuple[Any, ...]:
    torch.manual_seed(0)
    mean, spread = lib.leaf(0.1, -0.5), lib.leaf(0.5, 1.2)
    normal = torch.distributions.MultivariateNormal(mean, lib.ops.diag(spread), validate_args=False)
    drawn = normal.sample()
    normal.log_prob(drawn).sum().backward()
    return drawn, drawn.requires_grad, mean.grad, spread.grad


def without_a_gradient_in_torchs_words(lib: Library) -> tuple[Any, ...]:
    x, found = lib.leaf(1.0, 2.0), []
    for switch in (torch.no_grad(), torch.inference_mode(), torch.set_grad_enabled(False)):
        with switch:
            found += [(x * 2).requires_grad, lib.ops.is_grad_enabled()]
    with torch.no_grad():
        x.mul_(3)
        with lib.ops.enable_grad():
            y = (x * x).sum()
            found.append(torch.is_grad_enabled())
        found += [y.requires_grad, (y * 2).requires_grad, torch.is_grad_enabled()]
        (gradient,) = lib.grad(y, x, create_graph=True)
    return x, gradient, gradient.requires_grad, *found


def inputs_by_torchs_names(lib: Library) -> tuple[Any, ...]:
    x, y = lib.leaf(0.5, 2.0), lib.leaf(3.0, 0.25)
    found = x.add(other=y), x.pow(exponent=3), x.sub(other=y, alpha=2), x.mul_(other=y) if not x.is_leaf else x
    return *found, lib.ops.add(x, other=y), lib.ops.exp(input=x), lib.ops.where(x > 1, input=x, other=y)


def data_changed_by_hand(lib: Library) -> tuple[Any, ...]:
    w = lib.leaf(1.0, 2.0)
    seen = w.detach()
    for step in range(4):
        (w * w).sum().backward()
        if step % 2:
            w.data -= 0.1 * w.grad
        else:
            w.data = w.data - 0.1 * w.grad
            seen = w.detach()
        w.grad = None
    (w * w).sum().backward()
    return w, w.grad, seen


def data_changed_in_place(lib: Library) -> tuple[Any, ...]:
    w, mask = lib.leaf(1.0, 2.0, 3.0), lib.constant(1.0, 0.0, 1.0) > 0
    (w * w).sum().backward()
    seen = w.detach()
    w.data.copy_(lib.constant(4.0, 5.0, 6.0))
    w.data.add_(w.grad, alpha=-0.25).mul_(w.grad)
    w.data *= lib.constant(1.0, 2.0, 3.0)
    w.data.masked_fill_(mask, 0.5)
    w.data[:1] = lib.constant(7.0)
    return w, seen


def data_of_ours(lib: Library) -> tuple[Any, ...]:
    layer = lib.ops.nn.Linear(2, 1)
    layer.weight.data = lib.constant([[1.0, 2.0]], dtype=torch.float32)
    optimizer = lib.ops.optim.Adam([layer.weight])
    (layer(lib.constant([[3.0, 4.0]], dtype=torch.float32)) - layer.bias).sum().backward()
    optimizer.step()
    return layer.weight, layer.weight.grad


def a_parameter_of_a_tensor(lib: Library) -> tuple[Any, ...]:
    x = lib.constant(1.0, 2.0)
    parameter = lib.ops.nn.Parameter(x)
    x.add_(1)
    return x, parameter


@pytest.mark.parametrize(
    "program",
    [data_changed_by_hand, data_changed_in_place, data_of_ours, a_parameter_of_a_tensor],
    ids=lambda program: program.__name__,
)
def test_data_take_our_values(program: Program) -> None:
    agree(program)


def test_a_backward_where_torch_records_nothing_says_so() -> None:
    x = tensor([0.3, 1.7], requires_grad=True)
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"Here torch\.no_grad\(\) or .* switches gradients off"):
        (x * 2).sum().backward()
    with nbgrad.no_grad(), pytest.raises(RuntimeError, match=r"Here no_grad\(\) or .* switches gradients off"):
        (x * 2).sum().backward()


def test_a_torch_tensor_takes_our_values_where_no_gradient_is_lost() -> None:
    x, raw = tensor([1.0, 2.0], requires_grad=True), torch.nn.Parameter(torch.zeros(2), requires_grad=False)
    for change in (lambda: raw.add_(x), lambda: raw.__setitem__(0, x[0])):
        with pytest.raises(TypeError, match="would lose the gradient"):
            change()
    with nbgrad.no_grad():
        raw += x
    assert raw.tolist() == [1.0, 2.0]
    total: Any = raw
    total += x  # as losses are summed: the total becomes ours, and the torch tensor at the start does not change
    assert (total.tolist(), total.requires_grad, raw.tolist()) == ([2.0, 4.0], True, [1.0, 2.0])


@pytest.mark.parametrize("wrong", [[1.0], None, np.ones(2)])
def test_data_are_a_tensor(wrong: Any) -> None:
    x = tensor([1.0, 2.0])
    with pytest.raises(TypeError, match=r"write nbgrad\.tensor"):
        x.data = wrong
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("make", [lambda: Tensor([1, 2]), lambda: Tensor(2, 3), lambda: nn.Parameter(Tensor(2, 3))])  # type: ignore[arg-type]
def test_a_tensor_is_not_made_of_numbers_by_its_class(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"nbgrad\.tensor\(\[1\.0, 2\.0\]\) for numbers, and nbgrad\.empty"):
        make()


def test_a_tensor_of_a_tensor_is_a_copy() -> None:
    x = tensor([1.0, 2.0])
    tensor(x).add_(1)
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "program",
    [
        *(relu_in_place, other_functions_in_place, gradients_by_torchs_name, inputs_by_torchs_names),
        *(
            case(backwards_by_torchs_name, reason=lacks("autograd.backward")),
            drawn_by_torchs_distributions,
            drawn_and_judged,
            without_a_gradient_in_torchs_words,
        ),
    ],
    ids=lambda program: program.__name__,
)
def test_torchs_way_of_calling_does_what_it_does_in_torch(program: Program) -> None:
    agree(program)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: torch.exp(t, out=OTHER.clone()),
        lambda t: nbgrad.exp(t, out=tensor(VALUES)),
        lambda t: t.exp(out=tensor(VALUES)),
        lambda t: torch.add(t, 1, out=OTHER.clone()),
        lambda t: torch.linalg.norm(t, out=OTHER.clone()),
        lambda t: torch.cat([t, t], out=OTHER.clone()),
        lambda t: torch.vstack([t, t], out=OTHER.clone()),
    ],
)
def test_out_is_an_error_that_says_what_to_do(call: Any) -> None:
    with pytest.raises(NotImplementedError, match=r"takes no out= .* t\.copy_\(\)"):
        call(tensor(VALUES, requires_grad=True))
    assert torch.equal(torch.exp(tensor(VALUES), out=None).data, torch.tensor(VALUES).exp())


def test_conversions_take_torchs_memory_formats() -> None:
    t = tensor(torch.arange(24.0).reshape(1, 2, 3, 4).transpose(1, 2), requires_grad=True)
    for ours, theirs in (
        (t.double(memory_format=torch.contiguous_format), t.data.double(memory_format=torch.contiguous_format)),
        (t.to(torch.float64), t.data.to(torch.float64)),
        (t.float(memory_format=torch.preserve_format), t.data.float(memory_format=torch.preserve_format)),
        (
            t.to("cpu", torch.float64, memory_format=torch.channels_last),
            t.data.double().to(memory_format=torch.channels_last),
        ),
        (t.clone(memory_format=torch.contiguous_format), t.data.clone(memory_format=torch.contiguous_format)),
    ):
        rows.close(ours.data, theirs, "converted")
        assert ours.stride() == theirs.stride()
        (g,) = nbgrad.grad(ours.sum(), t)
        assert g.dtype is torch.float32
    assert t.to(torch.float32) is t
    assert t.to(torch.float32, copy=True) is not t
    assert t.to(torch.float32, False, True).data.data_ptr() != t.data.data_ptr()


def test_a_number_drawn_by_torch_is_a_constant() -> None:
    p = tensor([0.0, 1.0], requires_grad=True)
    assert torch.bernoulli(p).tolist() == [0.0, 1.0]
    assert torch.multinomial(p, 1).tolist() == [1]
    assert not torch.poisson(p * 3).requires_grad
    assert torch.detach(p).requires_grad is False


# numpy


ARRAY = np.array(VALUES) + 1
NUMPY_CALLS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "np.exp": (np.exp, torch.exp),
    "np.sqrt": (np.sqrt, torch.sqrt),
    "np.tanh": (np.tanh, torch.tanh),
    "np.negative": (np.negative, torch.neg),
    "np.add": (lambda t: np.add(ARRAY, t), lambda t: torch.from_numpy(ARRAY) + t),
    "np.multiply": (lambda t: np.multiply(t, ARRAY), lambda t: torch.from_numpy(ARRAY) * t),
    "np.power": (lambda t: np.power(t, 2), lambda t: t**2),
    "np.maximum": (lambda t: np.maximum(t, ARRAY), lambda t: torch.maximum(t, torch.from_numpy(ARRAY))),
    "array - t": (lambda t: ARRAY - t, lambda t: torch.from_numpy(ARRAY) - t),
    "array / t": (lambda t: ARRAY / t, lambda t: torch.from_numpy(ARRAY) / t),
    "array @ t": (lambda t: ARRAY.T @ t, lambda t: torch.from_numpy(ARRAY.T) @ t),
    "scalar * t": (lambda t: np.float32(2) * t, lambda t: 2 * t),
    "np.add.reduce": (np.add.reduce, lambda t: t.sum(0)),
    "np.add.reduce all": (lambda t: np.add.reduce(t, axis=None), lambda t: t.sum()),
    "np.sum": (np.sum, torch.sum),
    "np.sum axis": (lambda t: np.sum(t, axis=1, keepdims=True), lambda t: t.sum(1, True)),
    "np.mean": (lambda t: np.mean(t, axis=0), lambda t: t.mean(0)),
    "np.max": (np.max, torch.amax),
    "np.min": (lambda t: np.min(t, 1), lambda t: t.amin(1)),
    "np.prod": (lambda t: np.prod(t, axis=0), lambda t: t.prod(0)),
    "np.std": (np.std, lambda t: t.std(correction=0)),
    "np.var": (lambda t: np.var(t, axis=1, ddof=1), lambda t: t.var(1)),
    "np.nanmean": (lambda t: np.nanmean(t, axis=(0, 1)), torch.nanmean),
    "np.multiply.reduce": (np.multiply.reduce, lambda t: t.prod(0)),
    "np.minimum.reduce": (lambda t: np.minimum.reduce(t, axis=1), lambda t: t.amin(1)),
    "np.arcsin": (lambda t: np.arcsin(t / 3), lambda t: (t / 3).asin()),
    "np.arctan2": (lambda t: np.arctan2(ARRAY, t), lambda t: torch.from_numpy(ARRAY).atan2(t)),
    "np.arctan2 number": (lambda t: np.arctan2(t, 2), lambda t: t.atan2(torch.tensor(2.0))),
    "np.maximum number": (lambda t: np.maximum(t, 0.75), lambda t: t.clamp(min=0.75)),
    "np.remainder": (lambda t: np.remainder(t, 0.7), lambda t: t.remainder(0.7)),
    "array % t": (lambda t: ARRAY % t, lambda t: torch.from_numpy(ARRAY) % t),
    "np.float_power": (lambda t: np.float_power(t, ARRAY), lambda t: t.float_power(torch.from_numpy(ARRAY))),
    "np.square": (np.square, torch.square),
    "np.degrees": (np.degrees, torch.rad2deg),
    "np.fabs": (np.fabs, torch.abs),
    "np.hypot": (lambda t: np.hypot(t, ARRAY), lambda t: t.hypot(torch.from_numpy(ARRAY))),
}
if hasattr(np, "vecdot"):  # numpy 2
    NUMPY_CALLS["np.vecdot"] = (
        lambda t: np.vecdot(t, ARRAY),
        lambda t: torch.linalg.vecdot(t, torch.from_numpy(ARRAY)),
    )


@pytest.mark.parametrize("name", NUMPY_CALLS)
def test_numpys_functions_record_our_ops(name: str) -> None:
    by_numpy, by_torch = NUMPY_CALLS[name]
    ours, theirs = tensor(VALUES, dtype=torch.float64), torch.tensor(VALUES, dtype=torch.float64)
    found, expected = by_numpy(ours.requires_grad_()), by_torch(theirs.requires_grad_())
    assert isinstance(found, Tensor)
    torch.testing.assert_close(found.data, expected.detach())
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(ours.grad.data, theirs.grad)


def test_numpys_comparisons_are_ours() -> None:
    t = tensor(VALUES)
    assert isinstance(t > ARRAY, Tensor)
    assert np.greater(ARRAY, t).data.all()


def test_numpys_operators_on_whole_numbers_are_ours() -> None:
    array, t = np.array([8, 17, 33]), tensor([1, 2, 3])
    for compute in (
        lambda a, b: a << b,
        lambda a, b: a >> b,
        lambda a, b: a & b,
        lambda a, b: a | b,
        lambda a, b: a ^ b,
        lambda a, b: a % b,
        lambda a, b: a // b,
        np.gcd,
        np.logical_and,
        np.logical_xor,
    ):
        found = compute(array, t)
        assert isinstance(found, Tensor)
        np.testing.assert_array_equal(found.numpy(), compute(array, t.numpy()))
    for alone in (np.invert, np.logical_not, np.isfinite, np.signbit, np.sign):
        found = alone(t)
        assert isinstance(found, Tensor)
        np.testing.assert_array_equal(found.numpy(), alone(t.numpy()))
    assert np.any(t > 2).item() is True
    assert np.argmax(t).item() == 2
    assert np.count_nonzero(t).item() == 3


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (np.cbrt, r"numpy\.cbrt .*detach\(\)\.numpy\(\)"),
        (lambda t: np.std(t, where=ARRAY > 1), r"numpy\.std"),
        (lambda t: np.multiply.outer(t, t), r"numpy\.multiply\.outer"),
        (lambda t: np.exp(t, dtype=np.float32), r"numpy\.exp with dtype"),
        (lambda t: np.exp(t, out=ARRAY.copy()), r"numpy\.exp with out="),
        (lambda t: ARRAY.copy().__iadd__(t), r"numpy\.add with out="),
        (lambda t: np.exp(ARRAY, out=t), r"numpy\.exp\(out=\.\.\.\) cannot write into an nbgrad tensor"),
        (lambda t: np.concatenate([t, t]), r"numpy\.concatenate"),
        (np.linalg.norm, r"numpy\.linalg\.norm"),
    ],
)
def test_numpy_never_loses_a_gradient_silently(call: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        call(tensor(VALUES, requires_grad=True))


def test_numpy_computes_with_constants_as_with_arrays() -> None:
    c = tensor(VALUES, dtype=torch.float64)
    assert isinstance(np.concatenate([c, c]), np.ndarray)
    np.testing.assert_allclose(c, VALUES)
    np.testing.assert_array_equal(np.cbrt(c), np.cbrt(np.array(VALUES)))
    changed = ARRAY.copy()
    changed += c
    np.testing.assert_allclose(changed, ARRAY + np.array(VALUES))


def test_numpy_may_ask_for_the_shape_of_what_needs_a_gradient() -> None:
    t = tensor(VALUES, requires_grad=True)
    assert (np.shape(t), np.ndim(t), np.size(t)) == ((2, 3), 2, 6)


# Shared memory.


def test_numpy_by_force_leaves_the_gradient_behind() -> None:
    t = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match=r"t\.detach\(\)\.numpy\(\)"):
        t.numpy()
    t.numpy(force=True)[0] = 5.0
    assert t.tolist() == [5.0, 2.0]


def test_from_numpy_and_numpy_share_memory() -> None:
    array = np.ones(3)
    t = nbgrad.from_numpy(array)
    array[0] = 5.0
    assert t.tolist() == [5.0, 1.0, 1.0]
    t.numpy()[1] = 7.0
    assert array.tolist() == [5.0, 7.0, 1.0]
    assert t.dtype is torch.float64


def test_torch_tensors_go_in_and_out_without_a_copy() -> None:
    raw = torch.arange(6.0).reshape(2, 3).T
    t = tensor(raw)
    assert t.data.data_ptr() == raw.data_ptr()
    assert t.data.stride() == raw.stride()
    assert torch.as_tensor(t).data_ptr() == raw.data_ptr()


def test_dlpack_shares_memory_both_ways() -> None:
    array = np.ones(3, dtype=np.float32)
    t = nbgrad.from_dlpack(array)
    array[0] = 5.0
    assert t.tolist() == [5.0, 1.0, 1.0]
    assert np.from_dlpack(t).tolist() == [5.0, 1.0, 1.0]
    assert np.shares_memory(np.from_dlpack(t), array)
    assert torch.from_dlpack(t).data_ptr() == t.data.data_ptr()
    assert nbgrad.from_dlpack(t).data.data_ptr() == t.data.data_ptr()
    assert t.__dlpack_device__() == t.data.__dlpack_device__()


@pytest.mark.parametrize("export", [torch.from_dlpack, np.from_dlpack, torch.as_tensor, nbgrad.from_dlpack])
def test_what_needs_a_gradient_is_not_exported(export: Any) -> None:
    with pytest.raises((BufferError, RuntimeError)):  # torch 2.6 raises the RuntimeError
        torch.ones(2, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match=r"export t\.detach\(\)"):
        export(tensor([1.0], requires_grad=True))


# Copies and files.


def reloaded(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS = {"deepcopy": copy.deepcopy, "pickle": lambda value: pickle.loads(pickle.dumps(value)), "torch.save": reloaded}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


class Tied(nn.Module):
    """Two layers with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
        self.b.weight = self.a.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.a(x))


@every_way
def test_a_copied_module_keeps_its_weights_tied_and_learns_on_its_own(way: Any) -> None:
    net = Tied()
    x = tensor([[1.0, 2.0]])
    twin = way(net)
    assert twin.a.weight is twin.b.weight
    assert twin.a.weight is not net.a.weight
    assert torch.equal(twin(x).data, net(x).data)
    twin(x).sum().backward()
    assert twin.a.weight.grad is not None
    assert net.a.weight.grad is None


@every_way
def test_a_copied_tensor_is_copied_as_torchs(way: Any) -> None:
    t, theirs = tensor(torch.ones(2, dtype=torch.bfloat16), requires_grad=True), torch.ones(2, requires_grad=True)
    t.name = "w"
    for one in (t, theirs):
        (one * 3).sum().backward()
    twin, other = way(t), way(theirs)
    assert (twin.tolist(), twin.dtype, twin.name) == ([1.0, 1.0], torch.bfloat16, "w")
    assert (twin.requires_grad, twin.is_leaf) == (other.requires_grad, other.is_leaf)
    assert (twin.grad is None) == (other.grad is None)
    assert twin.grad is None or twin.grad.tolist() == other.grad.tolist() == [3.0, 3.0]
    assert twin.data.data_ptr() != t.data.data_ptr()
    assert t.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("way", [copy.deepcopy, reloaded], ids=["deepcopy", "torch.save"])
def test_memory_that_a_tensor_and_its_gradient_share_stays_shared(way: Any) -> None:
    t = tensor([1.0, 2.0], requires_grad=True)
    t.grad = t.detach()
    twin, gradient = way([t, t.grad])
    assert twin.grad is (gradient if way is copy.deepcopy else None)
    assert gradient.data.data_ptr() == twin.data.data_ptr() != t.data.data_ptr()


@every_way
def test_a_parameter_is_copied_as_torchs(way: Any) -> None:
    ours, theirs = nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    (ours * 2).sum().backward()
    (theirs * 2).sum().backward()
    twin, other = way(ours), way(theirs)
    assert type(twin) is nn.Parameter
    assert twin.grad is other.grad is None
    assert twin.requires_grad


def test_a_state_dict_is_a_file_of_weights_only() -> None:
    net, twin = Tied(), Tied()
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    assert state["a.weight"].data_ptr() == state["b.weight"].data_ptr()
    twin.load_state_dict(state)
    x = tensor([[1.0, 2.0]])
    assert torch.equal(twin(x).data, net(x).data)


def test_a_data_loader_makes_batches_of_our_tensors() -> None:
    x, y = tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), torch.arange(3)
    batches = list(DataLoader(TensorDataset(x, y), batch_size=2))
    assert [type(one) for one in batches[0]] == [nbgrad.Tensor, torch.Tensor]
    assert [batch.tolist() for batch, _ in batches] == [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]


WITHOUT_A_ROW: dict[str, Any] = {
    "two tensors": torch.nextafter,
    "a torch tensor first": lambda t, other: torch.nextafter(other.data, t),
    "several results": lambda t, other: torch.linalg.ldl_factor(t.reshape(3, 1) * other),
    "special": lambda t, other: torch.special.bessel_j0(t) * other,
}


@pytest.mark.parametrize("call", WITHOUT_A_ROW.values(), ids=list(WITHOUT_A_ROW))
def test_a_function_without_a_row_runs_where_no_gradient_is_needed(call: Any) -> None:
    assert not {"nextafter", "ldl_factor", "bessel_j0"} & OPS.keys(), "take another function that the table lacks"
    given = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 1.0, 5.0])
    expected = call(*given)
    learned = tensor(given[0], requires_grad=True)
    with nbgrad.no_grad():
        unrecorded = call(learned, tensor(given[1]))
    for found in (call(tensor(given[0]), tensor(given[1])), unrecorded):
        for mine, yours in zip(each_of(found), each_of(expected), strict=True):
            assert isinstance(mine, Tensor)
            assert torch.equal(mine.data, yours)
            assert not mine.requires_grad
    with pytest.raises(NotImplementedError, match="no op"):
        call(learned, tensor(given[1]))


def each_of(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def test_no_view_and_no_change_in_place_goes_without_a_row() -> None:
    t = tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(NotImplementedError, match="whose result is a view"):
        torch._conj(t.to(torch.complex64))
    with pytest.raises(TypeError, match="would get values"):
        torch.Tensor.nextafter_(t.data, tensor([1.0], requires_grad=True))
    with pytest.raises(NotImplementedError, match="no op"):
        torch.special.bessel_j0(tensor([1.0], requires_grad=True))
    with pytest.raises(NotImplementedError, match="no op"):
        nbgrad.trace(torch.special.bessel_j0, tensor([1.0]))


def test_facts_that_libraries_ask_for() -> None:
    t = tensor([1.0], requires_grad=True)
    assert t._cdata == t.data._cdata != (t * 1)._cdata
    assert torch._C._nn._parse_to(t)[:2] == (t.device, t.dtype)
    assert torch.nn.Linear(1, 1).to(tensor([1.0], dtype=torch.float64)).weight.dtype is torch.float64
