"""Element types and devices: promotion, the types of gradients, conversions, and a graph across devices."""

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses import fake_tensor

import nbgrad
from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.engine import backward
from nbgrad.core.tensor.methods import Conversions
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core import rows
from tests.core.programs import OURS, TORCH, Library, Program, agree, kind, plain

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES = (*FLOATS, torch.int64, torch.uint8, torch.bool)
TOLERANCE = {torch.bfloat16: 3e-2, torch.float16: 4e-3}


def typed(row: Op) -> Iterator[tuple[Sample, Callable[..., Any]]]:
    """The row's samples with up to two numbers of each shape, in every pair of element types."""
    seen = set()
    for sample in rows.samples(row):
        ranks = tuple(arg.ndim if isinstance(arg, torch.Tensor) else type(arg) for arg in sample.args)
        if ranks in seen:  # one sample for each combination of ranks and kinds of numbers is enough
            continue
        seen.add(ranks)
        reference = rows.own(row, sample)
        if reference is None:
            continue
        floats = [i for i, arg in enumerate(sample.args) if isinstance(arg, torch.Tensor) and arg.is_floating_point()]
        for dtypes in product(DTYPES, repeat=min(len(floats), 2)):
            args = list(sample.args)
            for place, dtype in zip(floats, dtypes, strict=False):
                args[place] = args[place].to(dtype)
            yield Sample(tuple(args), sample.settings), reference


def outcome(row: Op, run: Callable[..., Any], args: list[Any], settings: dict[str, Any]) -> list[torch.Tensor]:
    """The value, and the gradients where there are any."""
    out = run(*args, **settings)
    first = out[0] if isinstance(out, tuple) else out
    inputs = [arg for arg in args if isinstance(arg, Tensor | torch.Tensor) and arg.requires_grad]
    if not first.requires_grad or not inputs:
        return [plain(first)]
    seed = torch.ones_like(plain(first))
    if isinstance(first, Tensor):
        return [first.data, *(g.data for g in nbgrad.grad(first, inputs, seed, materialize_grads=True))]
    return [first.detach(), *torch.autograd.grad(first, inputs, seed, materialize_grads=True)]


def check(row: Op, sample: Sample, reference: Callable[..., Any]) -> None:
    positions = rows.differentiable(row, sample)
    pairs = [(arg, isinstance(arg, torch.Tensor), i in positions) for i, arg in enumerate(sample.args)]
    theirs = [arg.clone().requires_grad_(needs) if is_tensor else arg for arg, is_tensor, needs in pairs]
    ours = [tensor(arg.clone(), requires_grad=needs) if is_tensor else arg for arg, is_tensor, needs in pairs]
    try:
        expected = outcome(row, reference, theirs, sample.settings)
    except (RuntimeError, IndexError, TypeError, ValueError):  # torch has no kernel for these types
        return
    found = outcome(row, row, ours, sample.settings)
    assert [part.dtype for part in found] == [part.dtype for part in expected]
    gradients = found[1:]
    inputs = [arg for arg in ours if isinstance(arg, Tensor) and arg.requires_grad]
    assert [part.dtype for part in gradients] == [arg.dtype for arg in inputs] or not gradients
    coarsest = max((TOLERANCE.get(arg.dtype, 1e-5) for arg, is_tensor, _ in pairs if is_tensor), default=1e-5)
    for mine, yours in zip(found, expected, strict=True):
        rows.close(mine, yours, "value or gradient", coarsest)


@pytest.mark.sampled(8)
@pytest.mark.filterwarnings("ignore:.*(target size|ComplexHalf|Mismatch dtype|size_average|index_reduce|align_corners)")
@pytest.mark.parametrize(
    "row",
    # Other rows get mixed types through the row that they are the gradient of.
    [row for row in OPS.values() if not row.name.endswith("_backward")],
    ids=lambda row: row.name,
)
def test_every_row_promotes_as_torch_and_gives_gradients_of_the_inputs_types(row: Op) -> None:
    for sample, reference in typed(row):
        try:
            check(row, sample, reference)
        except Exception as error:
            raise AssertionError(f"{row.name}({rows.describe(sample)}): {error}") from error


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "**": lambda a, b: a**b,
    "<": lambda a, b: a < b,
}
NUMBERS = (2, 0.5, True, np.float32(2), np.int64(3))


@pytest.mark.parametrize("sign", OPERATORS)
def test_numbers_and_tensors_without_dimensions_promote_as_torchs(sign: str) -> None:
    compute = OPERATORS[sign]
    for dtype, number, swapped in product(DTYPES, NUMBERS, (False, True)):
        results = []
        for lib in (OURS, TORCH):
            x = lib.ops.tensor([1, 2], dtype=dtype)
            x.requires_grad_(dtype.is_floating_point)
            if isinstance(number, np.generic) and swapped:
                continue  # numpy answers first, with an array
            try:
                y = compute(number, x) if swapped else compute(x, number)
            except RuntimeError as error:
                results.append(kind(error))
                continue
            results.append((plain(y).tolist(), y.dtype, y.requires_grad))
        assert len(set(map(str, results))) <= 1, f"{dtype} {sign} {number!r}: {results}"


@pytest.mark.parametrize("sign", OPERATORS)
def test_a_tensor_without_dimensions_promotes_as_torchs(sign: str) -> None:
    compute = OPERATORS[sign]

    def program(lib: Library) -> tuple[Any, ...]:
        found: list[Any] = []
        for long, short in product(DTYPES, DTYPES):
            x, number = lib.ops.tensor([1, 2], dtype=long), lib.ops.tensor(2, dtype=short)
            for part in (x, number):
                part.requires_grad_(part.dtype.is_floating_point)
            try:
                y = compute(x, number)
                found.append(y.dtype)
                if y.requires_grad:
                    y.sum().backward()
                    found += [part.grad.dtype for part in (x, number) if part.requires_grad]
            except RuntimeError as error:
                found.append(kind(error))
        return tuple(found)

    agree(program)


# Conversions.


def through_types(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf([0.5, 1.5, 2.5])
    steps = (x.float(), x.half(), x.bfloat16(), x.double(), x.to(torch.float32), x.type_as(lib.constant(1).float()))
    total = sum(step.double().sum() * (i + 1) for i, step in enumerate(steps))
    total.backward()
    return *steps, *(step.dtype for step in steps), x.grad, x.grad.dtype


def whole_numbers(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf([0.5, 1.5, 0.0])
    made = (x.int(), x.long(), x.bool(), x.to(torch.uint8))
    return *made, *(one.dtype for one in made), *(one.requires_grad for one in made)


def the_same_tensor_where_nothing_changes(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf([1.0, 2.0])
    same = (x.double(), x.to(torch.float64), x.to("cpu"), x.cpu(), x.type_as(x), x.to(x), x.to(device="cpu"))
    return tuple(one is x for one in same)


def mixed_precision_by_hand(lib: Library) -> tuple[Any, ...]:
    w, x = lib.leaf([[0.5, -1.0], [2.0, 0.25]], dtype=torch.float32), lib.constant([[1.0, 2.0]], dtype=torch.float32)
    y = (x.bfloat16() @ w.bfloat16()).float()
    y.exp().sum().backward()
    return y, w.grad, w.grad.dtype


def types_of_accumulated_gradients(lib: Library) -> tuple[Any, ...]:
    x = lib.leaf([1.0, 2.0], dtype=torch.float16)
    wide = lib.leaf([3.0, 4.0], dtype=torch.float64)
    (x * wide).sum().backward()
    (x * 2).sum().backward()
    return x.grad, x.grad.dtype, wide.grad, wide.grad.dtype


@pytest.mark.parametrize(
    "program",
    [
        through_types,
        whole_numbers,
        the_same_tensor_where_nothing_changes,
        mixed_precision_by_hand,
        types_of_accumulated_gradients,
    ],
    ids=lambda program: program.__name__,
)
def test_conversions_are_torchs(program: Program) -> None:
    agree(program)


def test_the_stub_has_the_conversions() -> None:
    stub = Path(nbgrad.core.tensor.methods.__file__).with_suffix(".pyi")
    classes = {node.name: node for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef)}
    written = {node.name for node in classes["Conversions"].body if isinstance(node, ast.FunctionDef)}
    assert written == {name for name, value in vars(Conversions).items() if callable(value)}


def test_the_default_type_is_torchs() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        x = tensor([1.0, 2.0], requires_grad=True)
        y = tensor([1, 2]) * 0.5
        net = nbgrad.nn.Linear(2, 1)
    finally:
        torch.set_default_dtype(torch.float32)
    assert x.dtype is y.dtype is net.weight.dtype is torch.float64
    assert tensor([1.0]).dtype is torch.float32


def test_is_floating_point() -> None:
    assert tensor([1.0]).is_floating_point()
    assert not tensor([1]).is_floating_point()


# Devices.


def across(device: str) -> tuple[Tensor, Tensor, Tensor]:
    """A graph from main memory to ``device`` and back: its result, and its leaves."""
    here = tensor(torch.ones(2, 3), requires_grad=True)
    there = tensor(torch.ones(2, 3, device=device), requires_grad=True)
    y = ((here.to(device).exp() * there).to("cpu") * here).sum()
    return y, here, there


@contextmanager
def pretended_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors without numbers that claim to be on a GPU: on any machine they show on which device each op runs."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(fake_tensor, "init_gpu_context", lambda _: None)  # otherwise a tensor would go to a real GPU
    monkeypatch.setattr(backward, "memory_of", id)  # these tensors have no address
    with fake_tensor.FakeTensorMode():
        yield


def test_one_graph_on_two_devices_gives_each_leaf_its_gradient_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended_gpu(monkeypatch):
        y, here, there = across("cuda")
        assert y.device.type == "cpu"
        gradients = nbgrad.grad(y, [here, there])
        assert [g.device.type for g in gradients] == ["cpu", "cuda"]
        assert here.cuda().device.type == here.cuda(0).device.type == here.to(there).device.type == "cuda"
        assert there.cuda() is there
        assert there.to("cuda:0") is there
        assert there.cpu().device.type == "cpu"


def test_a_number_in_main_memory_mixes_with_tensors_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretended_gpu(monkeypatch):
        for shape in ((2, 3), ()):
            there = tensor(torch.ones(shape, device="cuda"), requires_grad=True)
            number = tensor(torch.tensor(2.0), requires_grad=True)
            y = (there * number).sum()
            gradients = nbgrad.grad(y, [there, number])
            assert [g.device.type for g in gradients] == ["cuda", "cpu"]
            gradients = nbgrad.grad((there / number).sum(), [number], create_graph=True)
            assert gradients[0].device.type == "cpu"


def test_a_graph_that_ends_on_the_meta_device_infers_shapes_and_types() -> None:
    x = tensor([[1.0, 2.0]], requires_grad=True)
    y = x.to("meta").half() @ tensor(torch.ones(2, 3, device="meta", dtype=torch.float16))
    assert (y.device.type, y.dtype, y.shape) == ("meta", torch.float16, (1, 3))


@pytest.mark.parametrize("ask", [lambda x: x.cuda(), lambda x: x.to("cuda"), lambda x: x.to(device="cuda:1")])
def test_a_gpu_that_is_not_there_is_an_error_that_says_so(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(RuntimeError, match="torch finds no CUDA device"):
        ask(tensor([1.0]))


@pytest.mark.cuda
def test_one_graph_on_cpu_and_gpu_is_torchs() -> None:
    def program(lib: Library) -> tuple[Any, ...]:
        here, number = lib.leaf([[1.0, 2.0, 3.0]]), lib.leaf(0.5)
        there = lib.ops.tensor([[3.0, 2.0, 1.0]], dtype=torch.float64, device="cuda").requires_grad_()
        y = ((here.cuda().exp() * there).cpu() * here).sum() + (there * number).sum().cpu()
        y.backward()
        return y, here.grad, there.grad, number.grad, there.grad.device, number.grad.device

    agree(program)
