"""Functions that depend on values are single steps of a program, which look at the values in each run."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import nbgrad
from nbgrad.core.dispatch.opaque import check_of_numbers, has_numbers, opaque
from nbgrad.core.ops.linalg.solve import _like_a_fit
from nbgrad.core.symbolic.program import trace
from nbgrad.nn.functional import gaussian_nll_loss


def with_gradient(function: "object") -> "object":
    def both(x: nbgrad.Tensor) -> "object":
        found = function(x)
        return found, nbgrad.grad(found.sum(), x)

    return both


def test_a_program_chooses_by_the_numbers_of_each_run() -> None:
    program = trace(with_gradient(lambda x: x.prod()), nbgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)).optimize()
    assert any(step.opaque for step in program.steps)
    for numbers, expected in (([2.0, 3.0, 4.0], [12.0, 8.0, 6.0]), ([0.0, 3.0, 4.0], [12.0, 0.0, 0.0])):
        assert program(nbgrad.tensor(numbers))[1][0].tolist() == expected


def test_both_ways_are_in_a_program_of_order_2() -> None:
    def function(x: nbgrad.Tensor) -> "object":
        (first,) = nbgrad.grad(x.prod(), x, create_graph=True)
        return nbgrad.grad(first[0] + first[1] * first[2], x)

    x = nbgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    program = trace(function, x).optimize()
    for numbers in ([2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 0.0, 4.0], [1e20, 1e20, 1e-30]):
        given = nbgrad.tensor(numbers, requires_grad=True)
        torch.testing.assert_close(program(given)[0].data, function(given)[0].data, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("function", "good", "bad", "message"),
    [
        (lambda x: nbgrad.linalg.solve(x, x), torch.eye(2), torch.ones(2, 2), "singular"),
        (lambda x: x.sum().quantile(x[0]), torch.tensor([0.5]), torch.tensor([1.5]), "all numbers must be from 0 to 1"),
        (lambda x: gaussian_nll_loss(x, x, x), torch.ones(2), -torch.ones(2), "negative entries"),
        (
            lambda x: nbgrad.linalg.lstsq(x, x[:, :1], driver="gelsd").solution,
            torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
            torch.zeros(3, 2),
            "full rank",
        ),
    ],
)
def test_numbers_are_checked_in_each_run(
    function: "object", good: torch.Tensor, bad: torch.Tensor, message: str
) -> None:
    program = trace(function, nbgrad.tensor(good)).optimize()
    assert torch.equal(program(nbgrad.tensor(good)).data, function(nbgrad.tensor(good)).data)
    with pytest.raises((RuntimeError, ValueError), match=message):
        program(nbgrad.tensor(bad))


@pytest.mark.parametrize("rows", [4, 2])
def test_a_fit_on_a_gpu_is_traced_with_the_results_of_its_driver(rows: int) -> None:
    """There torch's driver is "gels", which gives residuals and no rank; on a CPU it is "gelsy"."""
    expected = torch.linalg.lstsq(torch.rand(rows, 2), torch.rand(rows, 3), driver="gels")
    with FakeTensorMode():
        found = _like_a_fit(torch.empty(rows, 2, device="cuda"), torch.empty(rows, 3, device="cuda"), None, None)
    assert [one.shape for one in found] == [one.shape for one in expected]


def test_a_check_alone_stays_though_nothing_reads_its_result() -> None:
    @check_of_numbers
    def positive(x: torch.Tensor) -> None:
        if (x <= 0).any():
            raise ValueError("not positive")

    def function(x: nbgrad.Tensor) -> nbgrad.Tensor:
        positive(x._data)
        return x * 2

    program = trace(function, nbgrad.tensor([1.0])).optimize()
    assert [step.checks for step in program.steps] == [True, False]
    assert program(nbgrad.tensor([2.0])).tolist() == [4.0]
    with pytest.raises(ValueError, match="not positive"):
        program(nbgrad.tensor([-2.0]))
    with pytest.raises(ValueError, match="not positive"):
        positive(torch.zeros(1))
    positive(torch.zeros(1, device="meta"))


def test_an_opaque_function_inside_of_another_is_part_of_its_step() -> None:
    @opaque(torch.empty_like)
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if (x > 0).all() else x * 3

    @opaque(inner)
    def outer(x: torch.Tensor) -> torch.Tensor:
        assert has_numbers(x)
        return inner(x) + 1

    program = trace(lambda x: nbgrad.Tensor(outer(x._data)), nbgrad.tensor([1.0]))
    assert [step.name for step in program.steps] == ["outer"]
    assert program(nbgrad.tensor([1.0])).tolist() == [3.0]
    assert program(nbgrad.tensor([-1.0])).tolist() == [-2.0]


def test_the_phase_of_complex_eigenvectors_is_checked_in_each_run() -> None:
    def function(matrix: nbgrad.Tensor, weight: nbgrad.Tensor) -> "object":
        vectors = nbgrad.linalg.eigh(matrix).eigenvectors
        return nbgrad.grad((vectors * weight).real.sum() + vectors.abs().sum(), matrix)

    torch.manual_seed(0)
    raw = torch.randn(3, 3, dtype=torch.complex128)
    matrix = nbgrad.tensor(raw + raw.mH, requires_grad=True)
    zero, one = (nbgrad.tensor(torch.full((3, 3), part, dtype=torch.complex128)) for part in (0, 1 + 1j))
    program = trace(function, matrix, zero).optimize()
    assert torch.equal(program(matrix, zero)[0].data, function(matrix, zero)[0].data)
    with pytest.raises(RuntimeError, match="up to a factor"):
        program(matrix, one)
