"""Convolutions and columns (unfold, fold): the parts that their rows do not test."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.ops.neural import convolution

functional = torch.nn.functional


def double(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_only_the_gradients_that_are_asked_for_are_computed(
    wanted: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    masks = []
    kernel = convolution._kernel

    def spy(g: Any, x: Any, weight: Any, mask: Any, *geometry: Any) -> Any:
        masks.append(mask)
        return kernel(g, x, weight, mask, *geometry)

    monkeypatch.setattr(convolution, "_kernel", spy)
    raw = (double(1, 2, 5), double(3, 2, 2), double(3))
    args = [nbgrad.tensor(one, requires_grad=i in wanted) for i, one in enumerate(raw)]
    nbgrad.conv1d(*args).sum().backward()
    assert masks == [tuple(i in wanted for i in range(3))]
    theirs = [one.clone().requires_grad_() for one in raw]
    torch.conv1d(*theirs).sum().backward()
    for i in wanted:
        grad = args[i].grad
        assert grad is not None
        torch.testing.assert_close(grad.data, theirs[i].grad)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_same_padding_of_an_even_kernel_adds_one_more_after(rank: int) -> None:
    name = f"conv{rank}d"
    raw = (double(2, 2, *(5, 4, 3)[:rank]), double(2, 2, *(2, 4, 2)[:rank]))
    theirs, ours = [one.clone().requires_grad_() for one in raw], [nbgrad.tensor(o, requires_grad=True) for o in raw]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says once that it copies the input for this
        expected = getattr(torch, name)(*theirs, padding="same")
        got = getattr(nbgrad, name)(*ours, padding="same")
    torch.testing.assert_close(got.data, expected.detach())
    seed = double(*expected.shape)
    expected.backward(seed)
    got.backward(seed)
    for mine, yours in zip(ours, theirs, strict=True):
        assert mine.grad is not None
        torch.testing.assert_close(mine.grad.data, yours.grad)


def test_a_node_is_called_like_the_function() -> None:
    x = nbgrad.tensor(double(1, 2, 5, 5), requires_grad=True)
    assert repr(nbgrad.conv2d(x, double(1, 2, 3, 3)).grad_fn) == "<conv2d>"
    assert repr(functional.conv2d(x, nbgrad.tensor(double(1, 2, 3, 3))).grad_fn) == "<conv2d>"


@pytest.mark.parametrize("name", ["unfold", "fold"])
def test_unfold_and_fold_of_torch_run_our_rows(name: str) -> None:
    call: Callable[..., Any] = getattr(functional, name)
    raw, size = (double(2, 3, 4, 5), ()) if name == "unfold" else (double(2, 12, 12), ((4, 5),))
    theirs, ours = raw.clone().requires_grad_(), nbgrad.tensor(raw, requires_grad=True)
    expected, got = call(theirs, *size, (2, 2)), call(ours, *size, (2, 2))
    torch.testing.assert_close(got.data, expected.detach())
    seed = double(*expected.shape)
    expected.backward(seed)
    got.backward(seed)
    assert ours.grad is not None
    torch.testing.assert_close(ours.grad.data, theirs.grad)


def test_columns_times_the_kernel_are_a_convolution() -> None:
    x, w = double(2, 3, 4, 3, 5), double(4, 3, 2, 2, 3)
    found = w.reshape(4, -1) @ convolution.img_to_col(x, kernel_size=(2, 2, 3), padding=1)
    expected = torch.conv3d(x, w, padding=1)
    torch.testing.assert_close(found.reshape(expected.shape), expected)


def test_an_image_without_room_for_a_window_says_so() -> None:
    with pytest.raises(RuntimeError, match="img_to_col"):
        convolution.img_to_col(nbgrad.tensor(double(1, 2, 3)), kernel_size=(4,))
