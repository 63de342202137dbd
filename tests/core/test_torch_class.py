"""Code for torch's tensors often checks ``isinstance(x, torch.Tensor)``: for our tensors this is true."""

import copy
import pickle
from functools import partial
from types import UnionType
from typing import Any

import numpy as np
import pytest
import torch

import nbgrad
from nbgrad import from_torch, nn, tensor


def asked(written: str, x: Any, **names: Any) -> Any:
    """The value of this expression in the code of another package."""
    held: dict[str, Any] = {"__name__": "package.functions", "torch": torch, "Tensor": torch.Tensor, **names}
    exec(compile(f"def ask(x, kind=Tensor):\n return {written}", "functions.py", "exec"), held)
    return held["ask"](x)


class Kinds:
    tensors = (int, torch.Tensor)


YES = [
    "isinstance(x, torch.Tensor)",
    "isinstance(x, Tensor)",
    "isinstance(x, kind)",
    "isinstance(x, (int, Tensor))",
    "isinstance(x, (int, (float, torch.Tensor)))",
    "isinstance(x, torch.Tensor | int)",
    "isinstance(x, int | Tensor | None)",
    "isinstance(x, kinds)",
    "isinstance(x, Kinds.tensors)",
    "isinstance((lambda: x)(), torch.Tensor)",
    "isinstance(x.detach() + 1, torch.Tensor)",
    "[isinstance(one, kind) for one in [x]][0]",
    "all(isinstance(one, kind) for one in [x])",
    "(lambda one: isinstance(one, kind))(x)",
    "not isinstance(x, int) and isinstance(x, Tensor)",
    "torch.is_tensor(x)",
    "all(map(torch.is_tensor, [x]))",
    "torch.jit.isinstance(x, torch.Tensor)",
    "torch.jit.isinstance([x], list[torch.Tensor])",
]

NO = [
    "isinstance(x, int)",
    "isinstance(x, (int, str))",
    "isinstance(x, torch.nn.Parameter)",
    "isinstance(x, torch.FloatTensor)",
    "isinstance(x, (Tensor, torch.FloatTensor))",  # this class is written in C++, and would read our memory as torch's
    "isinstance(x, by_device)",
    "isinstance(x, torch.nn.Module)",
    "issubclass(type(x), torch.Tensor)",
    "type(x) is torch.Tensor",
    "x.__class__ is torch.Tensor",
    "asks(x, torch.Tensor)",
]


@pytest.mark.parametrize("written", YES)
def test_code_of_other_packages_takes_ours_for_torchs(written: str) -> None:
    names = {"kinds": Kinds.tensors, "Kinds": Kinds}
    for x in (tensor([1.0]), tensor([1.0], requires_grad=True), nn.Parameter(torch.ones(2)), nn.Buffer(torch.ones(2))):
        assert asked(written, x, **names) is True
        assert asked(written, x.data, **names) is True
        assert asked(written, x, __name__="torch.distributions.normal", **names) is True
    assert asked(written, np.ones(2) if "detach" not in written else x, **names) is ("detach" in written)


@pytest.mark.parametrize("written", NO)
def test_other_questions_have_the_true_answer(written: str) -> None:
    asks = partial(isinstance)
    assert asked(written, tensor([1.0]), by_device=torch.FloatTensor, asks=asks) is False


@pytest.mark.parametrize("kinds", [torch.FloatTensor, (torch.Tensor, torch.FloatTensor)])
def test_the_classes_of_a_variable_are_known(kinds: Any) -> None:
    assert asked("isinstance(x, kinds)", tensor([1.0]), kinds=kinds) is False
    assert asked("isinstance(x, kinds)", tensor([1.0]), kinds=torch.Tensor) is True
    assert isinstance(torch.Tensor | int, UnionType)


def test_one_place_that_asks_for_other_classes_each_time() -> None:
    answers = [
        asked("[isinstance(x, one) for one in (int, torch.Tensor, torch.FloatTensor, torch.Tensor)]", tensor([1.0]))
    ]
    assert answers == [[False, True, False, True]]


@pytest.mark.parametrize("asker", ["nbgrad.core.anything", "nbgrad", "torch.nn.functional", "torch"])
def test_nbgrad_and_torch_know_what_is_a_tensor_of_torchs(asker: str) -> None:
    assert asked("isinstance(x, torch.Tensor)", tensor([1.0]), __name__=asker) is False
    assert asked("isinstance(x, torch.nn.Parameter)", nn.Parameter(torch.ones(2)), __name__=asker) is False
    assert asked("torch.is_tensor(x)", tensor([1.0]), __name__=asker) is False
    assert asked("isinstance(x, torch.Tensor)", torch.ones(1), __name__=asker) is True


def test_parameters_are_parameters() -> None:
    ours = nn.Parameter(torch.ones(2))
    shared = next(from_torch(torch.nn.Linear(1, 1)).parameters())
    lazy = next(nn.LazyLinear(2).parameters())
    for one in (ours, shared, lazy):
        assert asked("isinstance(x, torch.nn.Parameter)", one)
        assert asked("isinstance(x, (int, torch.nn.Parameter))", one)
        assert not asked("isinstance(x, torch.nn.parameter.UninitializedParameter)", one)
    assert not asked("isinstance(x, torch.nn.Parameter)", ours.detach())


@pytest.mark.filterwarnings("ignore:.torch.jit.trace.:DeprecationWarning")
def test_what_torch_has_written_in_cpp_reads_no_memory_of_ours() -> None:
    t, needs = tensor([0.0, 1.0]), tensor([1.0], requires_grad=True)
    assert torch.as_tensor(t).tolist() == torch.tensor(t).tolist() == [0.0, 1.0]
    assert torch.ones(3)[t.long(),].tolist() == [1.0, 1.0]
    for take in (torch.as_tensor, torch.tensor, torch.Tensor, torch.FloatTensor):
        with pytest.raises((BufferError, TypeError, RuntimeError)):
            take(needs)
    scripted = torch.jit.trace(torch.sin, torch.ones(1))
    with pytest.raises(RuntimeError, match="Tensor"):
        scripted(needs)
    with pytest.raises(TypeError):
        torch.Tensor.sum(t)


def test_torchs_distributions_take_ours() -> None:
    at, spread, x = (tensor([0.5, 2.0], requires_grad=True) for _ in range(3))
    theirs = [one.data.clone().requires_grad_() for one in (at, spread, x)]
    torch.distributions.Normal(at, spread, validate_args=True).log_prob(x).sum().backward()
    torch.distributions.Normal(*theirs[:2]).log_prob(theirs[2]).sum().backward()
    for ours, other in zip((at, spread, x), theirs, strict=True):
        assert torch.equal(ours.grad.data, other.grad)
    with pytest.raises(ValueError, match="constraint"):
        torch.distributions.Normal(at, -spread, validate_args=True)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_and_pickles_have_the_true_class(again: Any) -> None:
    for one in (tensor([1.0], requires_grad=True), nn.Parameter(torch.ones(2)), nn.Buffer(torch.ones(2))):
        assert type(again(one)) is type(one)


def checked(x: Any) -> Any:
    """A function of a library that checks what it is given."""
    if not isinstance(x, torch.Tensor):
        raise TypeError("x must be a tensor")
    return x


def test_a_model_that_asks_does_what_torchs_does() -> None:
    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.rand(3, 3))
            self.inner = torch.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            given = {"x": x} if isinstance(x, torch.Tensor) else x
            y = checked(given["x"]) @ self.weight if isinstance(self.weight, torch.nn.Parameter) else given["x"]
            return checked(self.inner(y)) * 2 if isinstance(y, (list, torch.Tensor)) else y

    theirs = Graph()
    ours, x = from_torch(copy.deepcopy(theirs)), torch.rand(2, 3)
    ours(nbgrad.tensor(x)).sum().backward()
    theirs(x).sum().backward()
    for mine, yours in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine.grad.data, yours.grad)
