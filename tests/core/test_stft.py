"""Spectrograms, slopes, sampled images, low rank, new tensors: behaviour that torch's own samples do not cover."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.tensor.tensor import Tensor, tensor
from tests.core.both import same
from tests.lacking import case, lacks, need

functional = torch.nn.functional


def double(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


WINDOW = torch.hann_window(8, dtype=torch.float64) + 0.1

CALLS: dict[str, Callable[..., Any]] = {
    "windows where hops lead": lambda x: torch.view_as_real(
        torch.stft(x, 12, 3, 8, WINDOW, center=False, align_to_window=True, return_complex=True)
    ),
    "a window shorter than a frame": lambda x: torch.stft(x, 12, 3, 8, WINDOW, return_complex=False),
    "a signal and back, cut": lambda x: torch.istft(
        torch.stft(x, 8, 2, window=WINDOW, return_complex=True), 8, 2, window=WINDOW, length=20
    ),
    "slopes along one dimension": lambda x: torch.gradient(x.reshape(2, 3, 5), spacing=0.5, dim=1, edge_order=2)[0],
    "slopes between places": lambda x: torch.gradient(x, spacing=[torch.linspace(0, 2, 30, dtype=torch.float64) ** 2])[
        0
    ],
    "a nuclear norm that stays": lambda x: x.reshape(2, 3, 5).norm("nuc", (0, 2), keepdim=True),
    "a mantissa": lambda x: torch.frexp(x)[0],
}


@pytest.mark.filterwarnings("ignore:.*stft")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_means_what_it_means_in_torch(name: str) -> None:
    if name == "windows where hops lead":
        need("align_to_window")
    same(CALLS[name], double(30))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_an_image_sampled_at_an_affine_grid(mode: str, align_corners: bool) -> None:
    need("grid_sampler")

    def call(image: Any, theta: Any) -> Any:
        grid = functional.affine_grid(theta, (2, 3, 4, 4), align_corners)
        return functional.grid_sample(image, grid, mode, "reflection", align_corners)

    same(call, double(2, 3, 5, 6), double(2, 2, 3))


def test_the_image_itself_at_its_own_places() -> None:
    x = tensor(double(1, 2, 3, 4))
    grid = functional.affine_grid(tensor(torch.eye(2, 3).double()[None]), (1, 2, 3, 4), align_corners=True)
    torch.testing.assert_close(functional.grid_sample(x, grid, align_corners=True).data, x.data)


def test_what_was_overwritten_by_strides_gets_no_gradient() -> None:
    """torch gives a gradient to exactly the overwritten places: its own gradcheck fails."""
    x, source = tensor(double(3, 3), requires_grad=True), tensor(double(2, 2), requires_grad=True)
    assert nbgrad.gradcheck(lambda a, b: torch.as_strided_scatter(a, b, (2, 2), (1, 3), 1), (x, source))
    torch.as_strided_scatter(x, source, (2, 2), (1, 3), 1).sum().backward()
    assert x.grad is not None
    assert x.grad.data.tolist() == [[1, 0, 0], [1, 0, 0], [1, 1, 1]]


def test_the_mantissa_of_a_tiny_number_has_a_gradient() -> None:
    x = tensor([2.0**-1000], dtype=torch.float64, requires_grad=True)
    torch.frexp(x)[0].sum().backward()
    assert x.grad is not None
    assert x.grad.data.tolist() == [2.0**999]


def test_the_largest_components_are_those_of_all() -> None:
    torch.manual_seed(0)
    x = tensor(double(30, 3) @ double(3, 20))
    for found, given in ((torch.svd_lowrank(x, 3), x), (torch.pca_lowrank(x, 3), x - x.mean(0, keepdim=True))):
        torch.testing.assert_close(found[1].data, torch.linalg.svdvals(given.data)[:3])
        torch.testing.assert_close(((found[0] * found[1]) @ found[2].mT).data, given.data)


def test_what_is_drawn_has_the_gradient_0_and_one_seed_draws_the_same() -> None:
    p = tensor([0.3, 0.6], requires_grad=True)
    torch.manual_seed(0)
    ours = [torch.bernoulli(p), p.bernoulli(0.5), torch.normal(p, p), torch.normal(p, 2.0), torch.normal(1.0, p)]
    torch.manual_seed(0)
    raw = p.data
    theirs = [torch.bernoulli(raw), raw.bernoulli(0.5), torch.normal(raw, raw), torch.normal(raw, 2.0)]
    theirs.append(torch.normal(1.0, raw))
    for mine, yours in zip(ours, theirs, strict=True):
        assert torch.equal(mine.data, yours)
        (g,) = nbgrad.grad(mine.sum(), p)
        assert g.data.tolist() == [0.0, 0.0]


def test_a_new_tensor_is_a_constant_of_the_same_element_type() -> None:
    x = tensor([1.0], dtype=torch.float64, requires_grad=True)
    made = {
        "zeros": (x.new_zeros(2, 3), torch.zeros(2, 3, dtype=torch.float64)),
        "ones": (x.new_ones((2,)), torch.ones(2, dtype=torch.float64)),
        "full": (x.new_full((2,), 7), torch.full((2,), 7, dtype=torch.float64)),
        "tensor": (x.new_tensor([1, 2]), torch.tensor([1, 2], dtype=torch.float64)),
        "another type": (x.new_zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)),
    }
    for mine, yours in made.values():
        assert type(mine) is Tensor
        assert not mine.requires_grad
        torch.testing.assert_close(mine.data, yours)
    assert x.new_empty(4, 5).shape == (4, 5)
    assert x.new_ones(2, requires_grad=True).is_leaf
    assert x.new_ones(2, requires_grad=True).requires_grad


def test_options_of_linear_cross_entropy_are_said_to_be_unused() -> None:
    need("linear_cross_entropy")
    options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=2)
    x, w, target = tensor(double(4, 3)), tensor(double(5, 3)), torch.tensor([0, 1, 4, 2])
    with pytest.warns(UserWarning, match="options to save memory are not used"):
        loss = functional.linear_cross_entropy(x, w, target, options=options)
    torch.testing.assert_close(loss.data, functional.cross_entropy(x.data @ w.data.T, target))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: torch.stft(x, 8), RuntimeError, "needs return_complex"),
        (lambda x: torch.stft(x, 60, center=False, return_complex=True), RuntimeError, "between 1 and .* 30 places"),
        (lambda x: torch.stft(x, 8, 0, return_complex=True), RuntimeError, "hop_length must be 1 or more"),
        (
            lambda x: torch.stft(x, 8, window=WINDOW[:5], return_complex=True),
            RuntimeError,
            r"the shape \(8,\), not \(5,\)",
        ),
        (lambda x: torch.istft(x.reshape(5, 6), 8), RuntimeError, "takes complex numbers"),
        (lambda x: torch.istft((x + 0j).reshape(5, 6), 8, window=WINDOW * 0), RuntimeError, "overlap to nearly 0"),
        (lambda x: torch.istft((x + 0j).reshape(6, 5), 8), RuntimeError, "6 frequencies do not belong to n_fft=8"),
        (lambda x: torch.gradient(x, spacing=[1.0, 2.0]), RuntimeError, "one spacing for each of 1 dimensions"),
        (lambda x: torch.gradient(x[:2], edge_order=2), RuntimeError, "needs 3 places"),
        (lambda x: torch.pca_lowrank(x.reshape(5, 6), 7), ValueError, "between 0 and 5, not 7"),
        (lambda x: x.norm("nuc"), RuntimeError, "takes a matrix"),
        (
            lambda x: functional.grid_sample(x, x, "cubic"),
            ValueError,
            "bilinear, nearest, bicubic for mode, not 'cubic'",
        ),
        case(
            lambda x: functional.linear_cross_entropy(x, x, x),
            RuntimeError,
            r"weights \(C, ..., I\)",
            reason=lacks("linear_cross_entropy"),
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*stft")
def test_what_cannot_be_is_an_error(call: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(tensor(double(30)))
