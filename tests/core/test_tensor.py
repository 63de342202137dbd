"""The tensor itself: how it is made, what it shows, what it refuses."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad.core.engine.node import Leaf, Node
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn import functional
from tests.core.programs import Library, agree, both_raise


@pytest.fixture
def no_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    "data",
    [1, 1.5, True, [1, 2], [[1.0, 2.0], [3.0, 4.0]], [], (1.0, 2.0), np.float32(2), np.arange(3), np.ones((2, 2))],
    ids=repr,
)
def test_data_becomes_what_torch_makes_of_it(data: Any) -> None:
    made = tensor(data)
    expected = torch.tensor(data)
    assert torch.equal(made.data, expected)
    assert (made.dtype, made.shape, made.device) == (expected.dtype, expected.shape, expected.device)
    assert not made.requires_grad


def test_a_torch_tensor_shares_its_memory_and_leaves_its_history_behind() -> None:
    source = torch.ones(2, requires_grad=True)
    made = tensor(source, requires_grad=True)
    assert made.data.data_ptr() == source.data_ptr()
    assert not made.data.requires_grad
    source.detach().add_(1)
    assert made.tolist() == [2.0, 2.0]
    assert made.data._version == source._version, "a change through either name is seen by both"


def test_numbers_and_arrays_are_copied() -> None:
    array = np.ones(2)
    made = tensor(array)
    array[0] = 5.0
    assert made.tolist() == [1.0, 1.0]


def test_dtype_device_and_tensor_are_taken() -> None:
    assert tensor([1, 2], dtype=nbgrad.float64).dtype is torch.float64
    assert tensor(torch.ones(2), dtype=nbgrad.float16).dtype is torch.float16
    assert tensor([1.0], device="meta").device.type == "meta"
    first = tensor([1.0])
    again = tensor(first)
    assert again is not first
    assert again.data.data_ptr() != first.data.data_ptr(), "a copy, as torch.tensor(t) makes one"


def test_cuda_asked_for_without_cuda_says_so(no_cuda: None) -> None:
    for ask in (
        lambda: tensor([1.0], device="cuda"),
        lambda: tensor([1.0], device=torch.device("cuda:1")),
        lambda: nbgrad.AutogradGraph(device="cuda"),
    ):
        with pytest.raises(
            RuntimeError, match=r"'cuda(:1)?' was asked for, but torch finds no CUDA device .* device='cpu'"
        ):
            ask()


def integers_requiring_grad(lib: Library) -> tuple[Any, ...]:
    return (lib.ops.tensor([1, 2], requires_grad=True),)


def booleans_requiring_grad_later(lib: Library) -> tuple[Any, ...]:
    return (lib.ops.tensor([True]).requires_grad_(),)


def result_switched_off(lib: Library) -> tuple[Any, ...]:
    y = lib.leaf(1.0) * 2
    y.requires_grad = False
    return (y,)


def gradient_of_another_shape_assigned(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    x.grad = lib.constant(1.0, 2.0, 3.0)
    return (x,)


def gradient_of_another_type_assigned(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    x.grad = lib.constant(1.0, 2.0, dtype=torch.float32)
    return (x,)


def numpy_of_what_needs_a_gradient(lib: Library) -> tuple[Any, ...]:
    return (lib.leaf(1.0).numpy(),)


def shapes_that_do_not_broadcast(lib: Library) -> tuple[Any, ...]:
    return (lib.leaf(1.0, 2.0, 3.0) * lib.leaf(1.0, 2.0, 3.0, 4.0),)


def matrices_that_do_not_fit(lib: Library) -> tuple[Any, ...]:
    return (lib.leaf([[1.0, 2.0, 3.0]]) @ lib.leaf([[1.0, 2.0]]),)


def backward_of_what_has_no_gradient(lib: Library) -> tuple[Any, ...]:
    return (lib.leaf(1.0, 2.0).argmax().backward(),)


def a_leaf_changed_by_an_index(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf(1.0, 2.0)
    x[0] = 3.0
    return (x,)


def copy_of_a_result(lib: Library) -> tuple[Any, ...]:
    return (copy.deepcopy(lib.leaf(1.0) * 2),)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (integers_requiring_grad, ["floating point", "torch.int64", "dtype=torch.float32"]),
        (booleans_requiring_grad_later, ["floating point", "torch.bool"]),
        (result_switched_off, ["mul", "detach()"]),
        (gradient_of_another_shape_assigned, ["(3,)", "(2,)"]),
        (gradient_of_another_type_assigned, ["float32", "float64"]),
        (numpy_of_what_needs_a_gradient, ["detach().numpy()"]),
        (shapes_that_do_not_broadcast, ["mul(", "a of shape (3,)", "b of shape (4,)", "float64"]),
        (matrices_that_do_not_fit, ["matmul(", "(1, 3)", "(1, 2)"]),
        (backward_of_what_has_no_gradient, ["requires_grad=True", "detach()", "no gradient, such as argmax"]),
        (a_leaf_changed_by_an_index, ["setitem_", "(2,)", "y = x.clone(); y[0] = 1"]),
        (copy_of_a_result, ["leaf", "mul", "detach()"]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_error_is_torchs_and_says_what_to_do(program: Any, words: list[str]) -> None:
    both_raise(program, *words)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda x: functional.cross_entropy(x, [0, 1]), "target"),
        (lambda x: functional.linear([[1.0, 2.0]], x), "input"),
        (lambda x: nbgrad.matmul(x, [[1.0], [2.0]]), "b"),
    ],
)
def test_a_list_where_a_tensor_belongs_is_named_with_what_makes_one_of_it(call: Any, named: str) -> None:
    words = rf"\w+\(.*\): {named} is a list: write nbgrad\.tensor\({named}\)"
    with pytest.raises(TypeError, match=words):
        call(tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True))


def test_a_format_of_numbers_is_for_one_number() -> None:
    with pytest.raises(TypeError, match=r"'\.2f'.*shape \(2,\).*f'\{t\.item\(\):\.2f\}'"):
        f"{tensor([1.0, 2.0]):.2f}"
    assert f"{tensor([1.0]):>13}" == " tensor([1.])"


def test_an_index_out_of_range_is_an_index_error_that_names_the_op() -> None:
    with pytest.raises(IndexError, match=r"softmax\(\w+ of shape \(2,\).*Dimension out of range"):
        tensor([1.0, 2.0]).softmax(3)
    with pytest.raises(IndexError, match=r"getitem\(\w+ of shape \(2,\)"):
        tensor([1.0, 2.0])[5]


def what_data_tells(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf([[1.0, 2.0, 3.0]])
    return (
        (x.shape, x.ndim, x.dim(), x.size(), x.size(1), x.numel(), x.dtype, x.device),
        (len(x), x.tolist(), x.is_leaf, x.requires_grad),
        (x * 2).is_leaf,
        (float(x.detach()[0, 0]), int(x.detach()[0, 1]), x[0, 2].item(), bool(x[0, 0] > 2), f"{x[0, 0].detach():.2f}"),
        [1, 2, 3][lib.constant(1, dtype=torch.int64)],
        [part.tolist() for part in x[0]],
        x.detach().requires_grad,
        x.detach().numpy().tolist(),
        np.asarray(x.detach(), dtype=np.float32).dtype.name,
        (x.nelement(), x.ndimension(), x.itemsize, x.nbytes, x.get_device(), x.is_cpu, x.storage_offset()),
        (x[:, 1:].storage_offset(), x[:, 1:].data_ptr() - x.data_ptr(), x.type(), x.type(torch.float32).dtype),
        (x.type(torch.FloatTensor).dtype, x.type("torch.LongTensor").dtype, x.type(torch.float64) is x),
        (x.is_same_size(x), x.is_same_size(x[0]), x.is_inference(), x.untyped_storage().nbytes()),
    )


def test_what_a_tensor_tells_is_what_torchs_tells() -> None:
    agree(what_data_tells)


def test_iterating_over_a_number_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="item"):
        iter(tensor(1.0))
    with pytest.raises(TypeError):
        len(tensor(1.0))


def test_iterating_is_one_op_whose_backward_makes_one_gradient_for_all_slices() -> None:
    x = tensor(torch.arange(6.0).reshape(3, 2), requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        first, _, last = x
        (first * last).sum().backward()
    assert first.grad_fn.op.name == "unbind", "as torch has it"
    assert x.grad.tolist() == [[4.0, 5.0], [0.0, 0.0], [0.0, 1.0]]
    assert [record.op.name for record in graph.records if record.op is not None] == ["unbind", "mul", "sum"]
    assert list(tensor(torch.empty(0, 2))) == []
    for row in (constant := tensor(torch.ones(2, 2))):
        row.mul_(3)
    assert constant.tolist() == [[3.0, 3.0], [3.0, 3.0]], "the slices share its memory"


def test_a_tensor_is_a_key_by_identity() -> None:
    a, b = tensor([1.0]), tensor([1.0])
    assert {a: 1, b: 2}[a] == 1
    assert len({a, b, a}) == 2


def test_repr_says_how_it_was_made_and_has_no_address() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    assert repr(tensor([1.0, 2.0])) == "tensor([1., 2.])"
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 4.], grad_fn=<mul>)"
    assert f"{x.sum():.1f}" == "3.0"
    assert f"{x.sum()}" == "3.0", "one number is written as torch writes it"
    assert f"{x}" == repr(x)


def test_kind_and_origin() -> None:
    x, c = tensor(1.0, requires_grad=True), tensor(1.0)
    y = x * c
    assert (x.kind, c.kind, y.kind) == ("leaf", "constant", "op")
    assert isinstance(x.origin, Leaf)
    assert x.origin is x.origin
    assert isinstance(y.origin, Node)
    assert y.grad_fn is y.origin
    assert x.grad_fn is None
    assert x.origin.seq < y.origin.seq
    assert (repr(x.origin), repr(y.origin)) == ("<leaf ()>", "<mul>")


def test_grad_takes_a_torch_tensor_and_none() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    x.grad = torch.tensor([3.0, 4.0])
    assert isinstance(x.grad, Tensor)
    assert x.grad.tolist() == [3.0, 4.0]
    x.grad = None
    assert x.grad is None


def test_what_torchs_code_asks_of_a_tensor_and_of_its_history() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        w = lib.leaf([1.0, 2.0])
        x = w * 3
        before = x._version
        x.add_(1)
        ends = x.grad_fn.next_functions
        (leaf, slot), constant = ends[0][0].next_functions
        values, _ = lib.ops.sort(x)
        middle = (values * 2).grad_fn.next_functions[0]
        return (
            *(x._version - before, x.is_pinned(), slot, constant, leaf.variable is w, leaf.next_functions),
            *(middle[0] is values.grad_fn, middle[1], x.broadcast_to(3, 2), x.broadcast_to((3, 2))),
            x.broadcast_to(size=(1, 2)),
        )

    agree(program)


def test_detach_shares_memory_and_the_version_that_errors_rest_on() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x.exp()
    y.detach().data.add_(1)
    with pytest.raises(RuntimeError, match="in-place"):
        y.sum().backward()


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "deepcopy", "pickle"]
)
def test_a_copy_is_a_leaf_of_its_own(copied: Any) -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    x.name = "w"
    (x * 5).sum().backward()
    reference = torch.tensor([1.0, 2.0], requires_grad=True)
    (reference * 5).sum().backward()
    twin, expected = copied(x), copied(reference)
    assert (twin.tolist(), twin.requires_grad, twin.name) == ([1.0, 2.0], True, "w")
    if expected.grad is None:
        assert twin.grad is None
    else:
        assert twin.grad.tolist() == expected.grad.tolist()
    twin.grad = None
    (twin * 3).sum().backward()
    assert twin.grad.tolist() == [3.0, 3.0]
    assert x.grad is not None
    assert x.grad.tolist() == [5.0, 5.0], "the copy gave its gradient to the original"


def test_a_deep_copy_has_memory_of_its_own() -> None:
    x = tensor([1.0, 2.0])
    copy.deepcopy(x).data.zero_()
    assert x.tolist() == [1.0, 2.0]


class Tagged(Tensor):
    """A user's subclass, which has more to copy than a Tensor."""

    tag: str

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return (*super().__reduce_ex__(protocol), {"tag": self.tag})


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "deepcopy", "pickle"]
)
def test_a_class_of_the_users_says_what_else_is_copied(copied: Any) -> None:
    x = Tagged(torch.tensor([1.0, 2.0]), requires_grad=True)
    x.tag = "mine"
    twin = copied(x)
    assert (type(twin), twin.tag, twin.tolist()) == (Tagged, "mine", [1.0, 2.0])
