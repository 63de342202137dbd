"""Tests as functions of the op table: a new row brings its own."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.op import op
from nbgrad.core.dispatch.samples import Make, Sample, unary
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine.backward import reachable
from nbgrad.core.engine.node import Node
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core import rows

every_row = pytest.mark.parametrize("row", OPS.values(), ids=OPS)
every_device = pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])


def lacks_on_cuda(row: Op, sample: Sample) -> bool:
    """Whether torch itself cannot run the sample on a GPU."""
    if row.name == "linalg_lstsq":  # the other drivers exist only in LAPACK
        return sample.settings.get("driver") not in {None, "gels"}
    return row.name == "multilabel_margin_loss" and sample.args[0].numel() == 0  # torch's sum has the shape (0,)


def check_all(row: Op, device: str = "cpu") -> None:
    for sample in rows.comparable(row):
        if device == "cuda" and lacks_on_cuda(row, sample):
            continue
        try:
            rows.check(row, rows.on(sample, device))
        except Exception as error:
            raise AssertionError(f"{row.name}({rows.describe(sample)}): {error}") from error


@every_device
@every_row
def test_value_gradient_and_second_order_gradient_equal_torchs(row: Op, device: str) -> None:
    check_all(row, device)


# Every row is complete.


@every_row
def test_row_says_what_it_is(row: Op) -> None:
    assert row.formula
    assert row.doc.strip(), f"{row.name} has no docstring"
    assert "Shapes:" in row.doc, f"the docstring of {row.name} says no shapes"
    assert all(rule.formula for rule in row.rules.values()), f"a rule of {row.name} has no formula"


@every_row
def test_row_has_samples_of_every_rank_and_an_empty_one(row: Op) -> None:
    tensors = [[a for a in sample.args if isinstance(a, torch.Tensor)] for sample in rows.samples(row)]
    missing = set(row.ranks) - {given[0].ndim for given in tensors}
    assert not missing, f"{row.name} has no sample of rank {sorted(missing)}"
    if row.name not in {"max", "min"}:  # an empty tensor has no largest element
        assert any(a.numel() == 0 for given in tensors for a in given), f"{row.name} has no sample with an empty tensor"


@every_row
def test_row_has_a_rule_for_every_input_or_says_why_not(row: Op) -> None:
    assert not set(row.rules) & set(row.no_gradient), "a rule for an input that never gets a gradient"
    if not row.differentiable:
        assert not row.rules
        return
    for name in {*row.inputs, *filter(None, [row.listed])} - set(row.rules) - set(row.no_gradient):
        # This is allowed only if torch has no gradient either and raises: then nbgrad raises too.
        sample = next(sample for sample in rows.samples(row) if len(sample.args) > row.inputs.index(name))
        args = [a.clone().requires_grad_() if n == name else a for n, a in zip(row.inputs, sample.args, strict=False)]
        with pytest.raises(RuntimeError, match=r"not differentiable|not implemented"):
            rows.parts(rows.reference(row)(*args, **sample.settings))[0].sum().backward()
        with pytest.raises(NotImplementedError, match=f"op '{row.name}' has no gradient rule for '{name}'"):
            row(*[tensor(a, requires_grad=a.requires_grad) for a in args], **sample.settings)


def has_mask(value: Any) -> bool:
    """Whether the result's shape depends on values, as with a mask: a meta tensor has no values."""
    if isinstance(value, tuple):
        return any(map(has_mask, value))
    return isinstance(value, torch.Tensor) and value.dtype is torch.bool


@pytest.mark.sampled(8)
@every_row
def test_forward_on_the_meta_device_gives_the_same_shape_and_dtype(row: Op) -> None:
    tried = 0
    for sample in rows.comparable(row, table=rows.LACKING_ON_META):
        if has_mask(tuple(sample.settings.values())) or sample.settings.get("device"):
            continue
        tried += 1
        real = row.forward(*sample.args, **{**row.defaults, **sample.settings})
        meta = rows.on(sample, "meta")
        traced = row.forward(*meta.args, **{**row.defaults, **meta.settings})
        for want, got in zip(rows.parts(real), rows.parts(traced), strict=True):
            assert (got.shape, got.dtype, got.device.type) == (want.shape, want.dtype, "meta"), rows.describe(sample)
    assert tried


def ours(row: Op, sample: Sample, copy: bool = False) -> list[Any]:
    """The sample's arguments as nbgrad tensors. Those that can get a gradient require one."""
    wanted = rows.differentiable(row, sample)
    return [
        tensor(a.clone() if copy else a, requires_grad=i in wanted) if isinstance(a, torch.Tensor) else a
        for i, a in enumerate(sample.args)
    ]


def recorded(row: Op) -> Iterator[tuple[Sample, Node, Any]]:
    """For each sample with a gradient: the sample, its recorded node, and the gradients that its rules get."""
    for sample in rows.samples(row):
        seeds = rows.seeds_for(row, sample)
        if seeds:
            given = ours(row, sample)
            out = row(*given, **sample.settings)
            if row.view and out is given[0]:  # the op does nothing here and is not recorded
                continue
            node = rows.live(row, out)[0].grad_fn
            assert node is not None
            yield sample, node, seeds if row.several else seeds[0]


def address(value: torch.Tensor) -> int:
    return value.untyped_storage().data_ptr()


@every_row
def test_a_rule_gives_a_plain_tensor_in_memory_that_nothing_saved_shares(row: Op) -> None:
    for sample, node, seed in recorded(row):
        assert isinstance(node.saved, tuple)
        taken = {address(value) for value in node.saved if isinstance(value, torch.Tensor) and value.numel()}
        for position, result in given(node, seed):
            if result is not None:
                where = f"the rule of {row.name} for {node.op.inputs[position]}, {rows.describe(sample)}"
                assert type(result) is torch.Tensor, where
                assert not result.requires_grad, where
                assert address(result) not in taken, f"{where}: gives memory that a saved value lives in"


def given(node: Node, seed: Any) -> list[tuple[int, Any]]:
    """The gradients that the rules of a node give its inputs, by position."""
    assert isinstance(node.saved, tuple)
    if node.plan.joined:
        needed = tuple(edge is not None for edge in node.edges)
        return [(i, one) for i, one in enumerate(node.plan.joint(seed, needed, *node.saved)) if needed[i]]
    taken = [(i, rule, [node.saved[slot] for slot in needs]) for i, rule, needs in node.plan.rules]
    return [(i, seed if rule is None else rule(seed, *values)) for i, rule, values in taken]


@every_row
def test_a_row_saves_only_what_its_rules_name(row: Op) -> None:
    for _, node, _ in recorded(row):
        assert isinstance(node.saved, tuple)
        asked = [i for i, edge in enumerate(node.edges) if edge is not None]
        named = {name for i in asked for name in getattr(node.op.rules.get(node.op.inputs[i]), "needs", ())}
        assert set(node.plan.saved_names) == {one for name in named for one in node.op.expanded(name, asked)}
        assert len(node.saved) == len(node.plan.saved_names)


# Whether and when it raises is torch's too.

Grab = Callable[[list[Any], Any], torch.Tensor]


def outcome(run: Callable[[], Any]) -> str:
    try:
        run()
    except RuntimeError as error:
        if not any(word in str(error) for word in ("second time", "in-place", "inplace")):
            raise
        return "raises"
    return "runs"


def plain_sample(row: Op) -> Sample:
    """The row's first sample whose tensors all have at least two elements: an ordinary sample."""
    for sample in rows.samples(row):
        if all(a.numel() > 1 for a in sample.args if isinstance(a, torch.Tensor)) and sample.args:
            return sample
    raise AssertionError(f"{row.name} has no ordinary sample")


def on_both(row: Op, program: Callable[[list[Any], list[Any], list[torch.Tensor]], Any]) -> tuple[str, str]:
    """Run ``program(inputs, outputs, seeds)`` after the same call in both libraries. Return whether each raises."""
    sample = plain_sample(row)
    if reason := rows.lacks(row, sample):
        pytest.skip(reason)
    seeds = rows.seeds_for(row, sample)
    assert seeds
    wanted = rows.differentiable(row, sample)
    theirs = [
        a.clone().requires_grad_(i in wanted) if isinstance(a, torch.Tensor) else a for i, a in enumerate(sample.args)
    ]
    outcomes = []
    for call, args in ((rows.reference(row), theirs), (row, ours(row, sample, copy=True))):
        outputs = rows.live(row, call(*args, **sample.settings))
        outcomes.append(outcome(lambda args=args, outputs=outputs: program(args, outputs, seeds)))
    return outcomes[0], outcomes[1]


def backward(outputs: list[Any], seeds: list[torch.Tensor]) -> None:
    """One backward from all outputs, in either library."""
    lib: Any = nbgrad if isinstance(outputs[0], Tensor) else torch.autograd
    lib.backward(outputs, seeds)


DIFFERENT = {
    ("twice", "complex"): "torch saves the parts for their element type alone, we save nothing",
    ("in place", "complex", 0): "torch saves the parts for their element type alone, we save nothing",
    ("in place", "complex", 1): "torch saves the parts for their element type alone, we save nothing",
    ("twice", "as_strided_scatter"): "what stands for it here is a copy and a change in place, we save nothing",
    ("twice", "getitem_backward"): "no op of torch: what stands for it saves its index",
    ("twice", "setitem"): "torch frees a node that it made of a clone and a change in place, we save an index",
    ("twice", "view_scatter"): "no op of torch: what stands for it saves its places",
    ("in place", "gather", 0): "torch saves x for its shape, we save the shape",
    ("in place", "cdist", 0): "torch's kernel saves the vectors as we do, what stands for it here does not",
    ("in place", "cdist", 1): "torch's kernel saves the vectors as we do, what stands for it here does not",
    ("in place", "cdist_backward", 1): "torch's kernel has no gradient, what stands for it here saves differences",
    ("in place", "cdist_backward", 2): "torch's kernel has no gradient, what stands for it here saves differences",
    ("in place", "cummax", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "cummin", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "index_add", 2): "torch saves the source for its shape, we save the shape",
    ("in place", "index_copy", 2): "torch saves the source for its shape, we save the shape",
    ("in place", "index_select_backward", 0): "no op of torch: what stands for it saves g for its shape",
    ("in place", "put", 2): "torch saves the source for its shape, we save the shape",
    ("in place", "take", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "take_backward", 0): "no op of torch: what stands for it saves g for its shape",
    ("twice", "index_put"): "torch does not free the indices, we treat them as any saved value",
    ("in place", "pdist", 0): "torch's kernel saves the vectors as we do, what stands for it here does not",
    ("in place", "pdist_backward", 1): "torch's kernel has no gradient, what stands for it here saves differences",
    ("in place", "multi_margin_loss_backward", 0): "torch's gradient is taken in small steps, which save parts of g",
    ("in place", "multilabel_margin_loss", 0): "torch's gradient is taken in small steps, which save differences",
    ("in place", "multilabel_margin_loss_backward", 3): "torch's gradient is taken in small steps, without it",
    ("in place", "multilabel_margin_loss_backward", 1): "torch's gradient is taken in small steps, as before",
    ("in place", "cross_entropy_backward", 0): "torch saves what its first kernel makes of g, we save g",
    (
        "in place",
        "split",
        0,
    ): "torch refuses to go back through one of several views of what was changed",
    ("in place", "split_with_sizes", 0): "as split",
    ("in place", "unbind", 0): "as split",
    ("twice", "as_strided_backward"): "no op of torch: what stands for it saves its places",
    ("in place", "as_strided_backward", 0): "no op of torch: what stands for it saves its places and a count",
    ("in place", "split", -1): "as above",
    ("in place", "split_with_sizes", -1): "as above",
    ("in place", "unbind", -1): "as above",
    ("in place", "cholesky_solve", 0): "torch saves B, of which no rule needs the values",
    ("in place", "ormqr", -1): "torch saves the result, we make the partial products again",
    ("in place", "max_pool1d_with_indices", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "adaptive_max_pool1d_with_indices", 0): "torch saves the input for its shape, we save the shape",
    ("twice", "avg_pool1d"): "torch saves the input for its shape, we save the shape",
    ("in place", "avg_pool1d", 0): "torch saves the input for its shape, we save the shape",
    ("twice", "adaptive_avg_pool1d"): "torch saves the input for its shape, we save the shape",
    ("in place", "adaptive_avg_pool1d", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "max_pool2d_with_indices", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "adaptive_max_pool2d_with_indices", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "fractional_max_pool2d_with_indices", 0): "torch saves the input for its shape, we save the shape",
    ("twice", "avg_pool2d"): "torch saves the input for its shape, we save the shape",
    ("in place", "avg_pool2d", 0): "torch saves the input for its shape, we save the shape",
    ("twice", "adaptive_avg_pool2d"): "torch saves the input for its shape, we save the shape",
    ("in place", "adaptive_avg_pool2d", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "max_pool3d_with_indices", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "adaptive_max_pool3d_with_indices", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "fractional_max_pool3d_with_indices", 0): "torch saves the input for its shape, we save the shape",
    ("twice", "avg_pool3d"): "torch saves the input for its shape, we save the shape",
    ("in place", "avg_pool3d", 0): "torch saves the input for its shape, we save the shape",
    ("twice", "adaptive_avg_pool3d"): "torch saves the input for its shape, we save the shape",
    ("in place", "adaptive_avg_pool3d", 0): "torch saves the input for its shape, we save the shape",
    ("twice", "fft_r2c"): "torch saves the input for its shape, we save the shape",
    ("in place", "fft_r2c", 0): "torch saves the input for its shape, we save the shape",
    ("in place", "flash_attention", 0): "torch's gradient is taken in small steps, which do not save it",
    ("in place", "flash_attention", 1): "torch's gradient is taken in small steps, which do not save it",
    ("in place", "flash_attention", -1): "torch's gradient is taken in small steps, which do not save it",
    ("in place", "flash_attention_backward", 1): "torch's gradient is taken in small steps, which do not save it",
    ("in place", "flash_attention_backward", 2): "torch's gradient is taken in small steps, which do not save it",
    ("in place", "layer_norm_backward", 1): "torch's gradient is taken in small steps, which do not save it",
    ("in place", "batch_norm_backward", 1): "torch's gradient is taken in small steps, which do not save it",
    ("in place", "embedding_bag", 1): "torch's gradient is taken in small steps, which do not save it",
    ("in place", "embedding_bag_backward", 0): "torch's gradient is taken in small steps, which do not save it",
    ("in place", "embedding_bag_backward", 1): "torch's gradient is taken in small steps, which do not save it",
    ("in place", "layer_norm", 2): "torch saves the bias for its shape, we save nothing of it",
    ("in place", "rnn_tanh_layer", -1): "torch saves the state of each step, we save all of them as the output",
    ("in place", "rnn_relu_layer", -1): "torch saves the state of each step, we save all of them as the output",
    ("in place", "lstm_layer", -1): "torch saves the state of each step, we save all of them as the output",
    ("in place", "gru_layer", -1): "torch saves the state of each step, we save all of them as the output",
    ("in place", "lstm_layer", 5): "for the second order we compute the gates again, which takes the biases",
    ("in place", "lstm_layer", 6): "for the second order we compute the gates again, which takes the biases",
    ("in place", "gru_layer", 4): "for the second order we compute the gates again, which takes the biases",
    ("in place", "gru_layer", 5): "for the second order we compute the gates again, which takes the biases",
    ("in place", "lstm_step", 5): "for the second order we compute the gates again, which takes the biases",
    ("in place", "lstm_step", 6): "for the second order we compute the gates again, which takes the biases",
    ("in place", "gru_step", 4): "for the second order we compute the gates again, which takes the biases",
    ("in place", "gru_step", 5): "for the second order we compute the gates again, which takes the biases",
    ("twice", "col_to_img"): "torch's gradient is taken in small steps, which save something",
    ("twice", "affine_grid_backward"): "torch's gradient is taken in small steps, which save something",
}
"""Cases in which only torch or only nbgrad raises, and why. If neither raises, the gradient is right."""

differentiable_rows = pytest.mark.parametrize("name", [name for name, row in OPS.items() if row.differentiable])


@differentiable_rows
def test_a_second_backward_raises_where_torchs_does(name: str) -> None:
    def twice(_: list[Any], outputs: list[Any], seeds: list[torch.Tensor]) -> None:
        backward(outputs, seeds)
        backward(outputs, seeds)

    torchs, ours = on_both(OPS[name], twice)
    assert (ours != torchs) == (("twice", name) in DIFFERENT), f"torch {torchs}, nbgrad {ours}"


@differentiable_rows
def test_a_change_in_place_raises_where_torchs_does(name: str) -> None:
    def change(position: int) -> Callable[[list[Any], list[Any], list[torch.Tensor]], None]:
        def program(args: list[Any], outputs: list[Any], seeds: list[torch.Tensor]) -> None:
            changed = outputs[0] if position < 0 else args[position]
            (changed.data if isinstance(changed, Tensor) else changed.detach()).mul_(1)
            backward(outputs, seeds)

        return program

    row, sample = OPS[name], plain_sample(OPS[name])
    floats = [i for i, a in enumerate(sample.args) if isinstance(a, torch.Tensor) and a.is_floating_point()]
    for i in floats if name == "expand" else [*floats, -1]:  # torch refuses to change stretched memory in place
        torchs, ours = on_both(row, change(i))
        what = rows.of(row, sample).inputs[i] if i >= 0 else "out"
        assert (ours != torchs) == (("in place", name, i) in DIFFERENT), f"{what}: torch {torchs}, nbgrad {ours}"


# How a row is called.


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.sum(0),
        lambda x: x.sum((0, 1)),
        lambda x: x.sum([0, 1], True),
        lambda x: x.mean(-1, True),
        lambda x: x.transpose(0, 1),
        lambda x: x.reshape(3, 2),
        lambda x: x.reshape((3, 2)),
        lambda x: x.reshape([-1]),
        lambda x: x.reshape(-1),
        lambda x: x.permute(1, 0),
        lambda x: x.permute((1, 0)),
        lambda x: x.expand(4, 2, 3),
        lambda x: x.expand(4, -1, -1),
        lambda x: x.unsqueeze(1).squeeze(1),
        lambda x: x.softmax(-1),
        lambda x: x.log_softmax(dim=0),
        lambda x: x.max(),
        lambda x: x.max(1)[0],
        lambda x: x.max(1, True).values,
        lambda x: x.max(dim=0).values,
        lambda x: x.max(x * 0),
        lambda x: x.amax(0),
        lambda x: x.amax((0, 1), True),
        lambda x: x.pow(2),
        lambda x: x.where(x > 0, -x),
        lambda x: x.gather(1, (x > 0).to(int64(x))),
        lambda x: x.to(float32(x)),
        lambda x: x.to("cpu", float32(x)),
        lambda x: x[0],
        lambda x: x[:, 1:],
        lambda x: x[..., None, 0],
        lambda x: x[[0, 1, 1]],
        lambda x: x[[]],
        lambda x: x[[True, False]],
        lambda x: x[np.array([1, 1])],
        lambda x: x[np.int64(1), [0, 1]],
        lambda x: x[True],
        lambda x: x[False, 0],
        lambda x: x[x > 0],
        lambda x: x[x[:, 0].argmax()],
        lambda x: list(x)[1],
        lambda x: x.sum() / 3 + 1,
    ],
)
def test_a_call_means_what_it_means_in_torch(call: Callable[[Any], Any]) -> None:
    data = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]])
    theirs, ours = data.clone().requires_grad_(), tensor(data.clone(), requires_grad=True)
    expected, got = call(theirs), call(ours)
    rows.close(got.data, expected.detach(), "value")
    expected.sum().backward()
    got.sum().backward()
    assert ours.grad is not None
    rows.close(ours.grad.data, theirs.grad, "gradient")


def int64(_: Any) -> torch.dtype:
    return torch.int64


def float32(_: Any) -> torch.dtype:
    return torch.float32


OTHERS = [
    2,
    2.0,
    np.float64(2),
    np.float32(2),
    np.int64(2),
    torch.tensor(2.0, dtype=torch.float64),
    torch.tensor([[1.0], [2.0]], dtype=torch.float64),
    np.array([1.0, 2.0, 3.0]),
]


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "**", "<", "<=", ">", ">=", "==", "!="])
@pytest.mark.parametrize("other", OTHERS, ids=lambda other: f"{type(other).__module__}.{type(other).__name__}")
def test_operators_work_on_either_side(symbol: str, other: Any) -> None:
    data = torch.tensor([0.5, 1.5, 2.5], dtype=torch.float64)
    for text in (f"x {symbol} other", f"other {symbol} x"):
        theirs, ours = data.clone().requires_grad_(), tensor(data, requires_grad=True)
        same = torch.from_numpy(other) if isinstance(other, np.ndarray) else other
        same = same.item() if isinstance(same, np.generic) else same  # else numpy's operator would answer, not torch's
        expected = eval(text, {"x": theirs, "other": same})
        got = eval(text, {"x": ours, "other": other})
        assert type(got) is Tensor, text
        rows.close(got.data, expected.detach(), text)
        if got.requires_grad:
            expected.sum().backward()
            got.sum().backward()
            assert ours.grad is not None
            rows.close(ours.grad.data, theirs.grad, f"gradient of {text}")
        assert got.requires_grad == expected.requires_grad


@pytest.mark.parametrize("make", [torch.Tensor.clone, torch.Tensor.numpy], ids=["torch", "numpy"])
def test_matmul_works_on_either_side(make: Callable[[torch.Tensor], Any]) -> None:
    a, b = torch.rand(2, 3), torch.rand(3, 4)
    x, w = tensor(a, requires_grad=True), tensor(b, requires_grad=True)
    rows.close((x @ make(b)).data, a @ b, "x @ other")
    rows.close((make(a) @ w).data, a @ b, "other @ w")
    (make(a) @ w).sum().backward()
    assert w.grad is not None
    rows.close(w.grad.data, a.T @ torch.ones(2, 4), "gradient")


@pytest.mark.parametrize("other", ["two", None, [1.0], object()], ids=lambda other: type(other).__name__)
def test_operators_leave_what_they_do_not_know_to_python(other: Any) -> None:
    x = tensor([1.0, 2.0])
    for text in ("x + other", "other - x", "x @ other", "x < other"):
        with pytest.raises(TypeError):
            eval(text, {"x": x, "other": other})
    assert (x == other) is False
    assert (x != other) is True


def test_a_row_on_torch_tensors_alone_gives_a_torch_tensor() -> None:
    assert type(nbgrad.mul(torch.ones(2), 3)) is torch.Tensor
    assert type(nbgrad.max(torch.ones(2, 3), 1).values) is torch.Tensor


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (nbgrad.add, ["add", "'b'", "a, b"]),
        (lambda x: nbgrad.maximum(x, x, x), ["maximum", "3 arguments", "maximum(a, b)"]),
        (nbgrad.Tensor.softmax, ["softmax", "'dim'"]),
        (lambda x: x.sum(dims=0), ["sum", "'dims'", "*, dim, keepdim, dtype"]),
        (lambda x: x.transpose(0), ["transpose", "'dim1'"]),
    ],
)
def test_a_wrong_call_says_how_the_row_is_called(call: Callable[[Tensor], Any], words: list[str]) -> None:
    with pytest.raises(TypeError) as caught:
        call(tensor([1.0, 2.0]))
    assert all(word in str(caught.value) for word in words), caught.value


# Ties and edges follow torch.


def test_three_ties_share_a_float64_gradient_to_the_last_bit() -> None:
    x = tensor(torch.zeros(3, dtype=torch.float64), requires_grad=True)
    x.amax().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1 / 3] * 3


@pytest.mark.parametrize("name", ["maximum", "amax", "relu", "pow", "where", "max_along"])
def test_nan_flows_as_in_torch(name: str) -> None:
    nan = float("nan")
    a, b = torch.tensor([nan, 1.0, 2.0]), torch.tensor([1.0, nan, 2.0])
    calls: dict[str, Callable[[Any, Any, Any], Any]] = {
        "maximum": lambda lib, x, y: lib.maximum(x, y),
        "amax": lambda lib, x, y: lib.amax(x) + lib.amax(y),
        "relu": lambda lib, x, y: lib.relu(x) * lib.relu(y),
        "pow": lambda lib, x, y: lib.pow(x, y),
        "where": lambda lib, x, y: lib.where(x > y, x, y),
        "max_along": lambda lib, x, y: lib.max(x, 0).values + lib.max(y, 0).values,
    }
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    u, v = tensor(a, requires_grad=True), tensor(b, requires_grad=True)
    calls[name](torch, x, y).sum().backward()
    calls[name](nbgrad, u, v).sum().backward()
    assert u.grad is not None
    assert v.grad is not None
    rows.close(u.grad.data, x.grad, "first input")
    rows.close(v.grad.data, y.grad, "second input")


# The tester is tested.


@pytest.fixture
def cube() -> Iterator[Callable[..., Op]]:
    """Makes a row x ** 3 with the given rule, and removes it from the table afterwards."""

    def make(rule: Callable[..., Any]) -> Op:
        row = op(formula="x^3", samples=unary, reference=lambda x: x**3)(forward)
        row.rule("x", r"3 x^2 \bar{y}")(rule)
        return row

    def forward(x: torch.Tensor) -> torch.Tensor:
        return x**3

    forward.__name__ = "cube_for_a_test"
    yield make
    OPS.pop("cube_for_a_test")


def test_a_right_rule_passes(cube: Callable[..., Op]) -> None:
    check_all(cube(lambda g, x: g * 3 * x * x))


def test_a_rule_that_is_wrong_by_a_thousandth_fails(cube: Callable[..., Op]) -> None:
    with pytest.raises(AssertionError, match=r"cube_for_a_test\(float64\[\]\): gradient 0"):
        check_all(cube(lambda g, x: g * 3.003 * x * x))


def test_a_rule_that_is_wrong_only_at_second_order_fails(cube: Callable[..., Op]) -> None:
    def rule(g: Any, x: Any) -> Any:
        return g * 3 * x * (x.data if isinstance(x, Tensor) else x)  # the second x is detached

    with pytest.raises(AssertionError, match="second-order gradient 0"):
        check_all(cube(rule))


def test_a_rule_that_depends_on_how_it_is_run_fails(cube: Callable[..., Op]) -> None:
    def rule(g: Any, x: Any) -> Any:
        return g * 3 * x * x if isinstance(x, Tensor) else g * 3.003 * x * x

    with pytest.raises(AssertionError, match="create_graph changes the gradient"):
        check_all(cube(rule))


def test_a_forward_that_is_wrong_by_a_thousandth_fails(cube: Callable[..., Op]) -> None:
    row = cube(lambda g, x: g * 3 * x * x)
    row.reference = lambda x: 1.001 * x**3
    with pytest.raises(AssertionError, match="value"):
        check_all(row)


def test_a_row_that_is_there_already_is_refused(cube: Callable[..., Op]) -> None:
    cube(lambda g: g)
    with pytest.raises(ValueError, match="already has a row 'cube_for_a_test'"):
        cube(lambda g: g)


def test_a_rule_that_is_written_again_counts_from_then_on(cube: Callable[..., Op]) -> None:
    row = cube(lambda g, x: g)
    x = tensor([2.0], requires_grad=True)
    row(x).sum().backward()
    row.rule("x", "")(lambda g, x: g * 100)
    row(x).sum().backward()
    assert x.grad is not None
    assert x.grad.item() == 101


def test_a_cell_that_makes_a_row_can_run_again(cube: Callable[..., Op], monkeypatch: pytest.MonkeyPatch) -> None:
    row = cube(lambda g, x: g)
    monkeypatch.setattr(row.forward, "__module__", "__main__")
    again = op(formula="x^3", samples=unary)(row.forward)
    assert OPS[row.name] is again


def test_a_cell_of_a_notebook_cannot_replace_a_row_that_it_did_not_make(monkeypatch: pytest.MonkeyPatch) -> None:
    def mul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a - b

    monkeypatch.setattr(mul, "__module__", "__main__")
    with pytest.raises(ValueError, match="already has a row 'mul'"):
        op(formula="a - b", samples=unary)(mul)
    assert nbgrad.tensor(6.0).mul(7.0).item() == 42


def test_what_only_the_rules_need_is_saved_and_not_returned() -> None:
    try:

        @op(formula="|x|", aux=("signs",), samples=unary, method=False)
        def size_for_a_test(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x.abs(), x.sign()

        size_for_a_test.rule("x", "")(lambda g, signs: g * signs)
        x = tensor([-2.0, 3.0], requires_grad=True)
        y = size_for_a_test(x)
        y.sum().backward()
        assert y.tolist() == [2.0, 3.0]
        assert x.grad is not None
        assert x.grad.tolist() == [-1.0, 1.0]
        assert torch.equal(size_for_a_test(x.data), x.data.abs())
    finally:
        OPS.pop("size_for_a_test", None)


def test_a_rule_for_an_unknown_input_or_with_an_unknown_need_is_refused(cube: Callable[..., Op]) -> None:
    row = cube(lambda g: g)
    with pytest.raises(ValueError, match="has no input 'z': its inputs are x"):
        row.rule("z", "")
    with pytest.raises(ValueError, match=r"names \['y'\]"):
        row.rule("x", "")(lambda g, y: g * y)


def test_the_samples_are_the_same_each_time() -> None:
    for row in OPS.values():
        for first, second in zip(rows.samples(row), rows.samples(row), strict=True):
            assert rows.describe(first) == rows.describe(second)
    assert torch.equal(Make(OPS["add"].domain)(3), Make(OPS["add"].domain)(3))


def test_no_row_is_an_orphan() -> None:
    """Every rule uses only rows of the table: the graph of a gradient has no other op."""
    for row in OPS.values():
        for sample in rows.samples(row):
            seeds = rows.seeds_for(row, sample)
            if seeds and all(seed.numel() for seed in seeds):
                args = ours(row, sample)
                outputs = rows.live(row, row(*args, **sample.settings))
                inputs = [args[i] for i in rows.differentiable(row, sample)]
                starts = [tensor(seed, requires_grad=True) for seed in seeds]
                made = nbgrad.grad(outputs, inputs, starts, create_graph=True)
                origins = reachable([g.origin for g in made if g is not None])
                assert {o.op.name for o in origins if isinstance(o, Node)} <= set(OPS)
                break
