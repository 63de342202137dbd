"""Products and decompositions that are made of rows, other ways to call them, and what has no gradient."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import nbgrad
from nbgrad.core.dispatch.table import OPS
from nbgrad.core.ops.linalg.matmul import cheapest
from nbgrad.core.tensor.tensor import tensor
from tests.core import rows
from tests.core.both import same
from tests.lacking import case, lacks

L = torch.linalg


def of(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def regular(n: int) -> torch.Tensor:
    return of(n, n) / 4 + torch.eye(n, dtype=torch.float64)


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch says that some of these names are old
@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (lambda x, y: torch.outer(x, y) + torch.ger(x, y), [(3,), (2,)]),
        (torch.inner, [(2, 3), (4, 3)]),
        (torch.inner, [(), (4, 3)]),
        (torch.tensordot, [(2, 3, 4), (3, 4, 5)]),
        (lambda x, y: torch.tensordot(x, y, dims=([0, 2], [1, 0])), [(2, 3, 4), (4, 2, 5)]),
        (lambda x, y: torch.tensordot(x, y, dims=0), [(2,), (3, 1)]),
        (torch.kron, [(2, 3), (4,)]),
        (lambda x, y: L.vecdot(x, y, dim=0), [(3, 2), (3, 1)]),
        (lambda x, y, z: L.multi_dot([x, y, z]), [(2, 3), (3, 5), (5, 4)]),
        (lambda x, y, z: L.multi_dot([x, y, z]), [(3,), (3, 5), (5,)]),
        (lambda x, y: torch.chain_matmul(x, y, x), [(2, 3), (3, 2)]),
        (lambda x, y: torch.einsum(x, [0, 1], y, [1, 2], [0, 2]), [(2, 3), (3, 4)]),
        (lambda x, y: torch.einsum(x, [..., 1], y, [1]), [(2, 3), (3,)]),
        (lambda x, y: torch.einsum("ij,jk", [x, y]), [(2, 3), (3, 4)]),
        (lambda x, y: torch.einsum("Ab,bA", x, y), [(2, 3), (3, 2)]),
        (lambda x: L.matrix_power(x, 5), [(3, 3)]),
        (lambda x: L.matrix_power(x, 0), [(3, 3)]),
        (torch.cov, [(3, 5)]),
        (lambda x: torch.cov(x, correction=0), [(5,)]),
        (lambda x, w: torch.cov(x, aweights=w.detach() ** 2, fweights=torch.arange(1, 6)), [(3, 5), (5,)]),
        (torch.corrcoef, [(3, 5)]),
        (torch.cross, [(2, 3), (2, 3)]),
        *[
            (lambda x, o=o: L.matrix_norm(x, o), [(2, 3, 4)])
            for o in ("fro", "nuc", 1, -1, 2, -2, torch.inf, -torch.inf)
        ],
        (lambda x: L.matrix_norm(x, 2, dim=(0, 2), keepdim=True), [(2, 3, 4)]),
        (L.norm, [(2, 3, 4)]),
        (lambda x: L.norm(x, 1), [(3,)]),
        (lambda x: L.norm(x, 1), [(2, 3)]),
        (lambda x: L.norm(x, 3, dim=1), [(2, 3)]),
        (L.svdvals, [(2, 3)]),
        (L.eigvalsh, [(3, 3)]),
        (torch.svd, [(3, 3)]),
        case(torch.qr, [(3, 2)], reason=lacks("qr")),
        (torch.pinverse, [(3, 2)]),
    ],
)
def test_a_call_means_what_it_means_in_torch(call: Callable[..., Any], shapes: list[tuple[int, ...]]) -> None:
    same(call, *[of(*shape) for shape in shapes])


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch says that some of these names are old
@pytest.mark.parametrize(
    "call",
    [
        torch.inverse,
        lambda a: L.matrix_power(a, -3),
        lambda a: torch.logdet(a @ a.mT),
        lambda a: L.slogdet(a).logabsdet,
        L.cond,
        lambda a: L.tensorinv(a.reshape(2, 2, 4)),
        lambda a: L.tensorsolve(a.reshape(2, 2, 4), a[:2, :2]),
        case(lambda a: torch.cholesky(a @ a.mT, upper=True), reason=lacks("cholesky")),
        lambda a: torch.lu_solve(a, *L.lu_factor(a)),
        lambda a: torch.lu_unpack(*L.lu_factor(a)),
        lambda a: torch.triangular_solve(a, a, transpose=True).solution,
        case(lambda a: L.lstsq(a[:, :2], a).residuals, reason=lacks("linalg_lstsq")),
        lambda a: L.lstsq(a[:, :2], a[:, 3]).solution,
    ],
)
def test_a_function_of_a_regular_matrix_means_what_it_means_in_torch(call: Callable[[Any], Any]) -> None:
    same(call, regular(4))


def test_the_namespace_has_what_torchs_has() -> None:
    torchs = {name for name in dir(L) if not name.startswith("_") and callable(getattr(L, name))}
    torchs -= {"Tensor"}  # torch 2.6 has imported it there for itself
    lacking = {"LinAlgError", "ldl_factor", "ldl_factor_ex", "ldl_solve"}  # torch has no gradient for ldl
    lacking |= {"matrix_sqrth", "polar"}  # torch has them from 2.14 on
    assert set(nbgrad.linalg.__all__) == torchs - lacking


def test_the_order_of_a_chain_is_the_cheapest() -> None:
    # The textbook's example (Cormen et al., Introduction to Algorithms, chapter on dynamic programming).
    cuts = cheapest((30, 35, 15, 5, 10, 20, 25))
    assert (cuts[0, 5], cuts[0, 2], cuts[3, 5]) == (2, 0, 4)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_the_determinant_of_a_singular_matrix_has_torchs_gradient(rank: int) -> None:
    a = of(4, rank) @ of(rank, 4) if rank else torch.zeros(4, 4, dtype=torch.float64)
    theirs, ours = a.clone().requires_grad_(), nbgrad.tensor(a, requires_grad=True)
    (expected,) = torch.autograd.grad(L.det(theirs), theirs)
    (got,) = nbgrad.grad(nbgrad.linalg.det(ours), ours)
    torch.testing.assert_close(got.data, expected, atol=1e-10, rtol=1e-6)
    assert nbgrad.gradgradcheck(nbgrad.linalg.det, ours)


@pytest.mark.parametrize("call", [torch.logdet, lambda a: torch.slogdet(a)[1]], ids=["logdet", "slogdet"])
def test_the_logarithm_of_a_singular_determinant_has_torchs_infinite_gradient(call: Callable[..., Any]) -> None:
    for a in (torch.zeros(3, 3), torch.ones(2, 2), torch.tensor([[1.0, 2.0], [2.0, 4.0]])):
        pair = torch.stack([a, torch.eye(len(a))])
        theirs, ours = pair.clone().requires_grad_(), nbgrad.tensor(pair, requires_grad=True)
        (expected,) = torch.autograd.grad(call(theirs).sum(), theirs)
        (got,) = nbgrad.grad(call(ours).sum(), ours)
        assert not expected[0].isfinite().all()
        rows.close(got.data, expected, "gradient")


def test_a_loss_that_depends_on_a_phase_left_to_chance_is_an_error() -> None:
    a = torch.complex(of(3, 3), of(3, 3).T)
    for name, matrix in (("eigh", a + a.mH), ("eig", a), ("svd", a)):
        for lib, error in ((nbgrad, nbgrad.linalg), (torch, L)):
            x = nbgrad.tensor(matrix, requires_grad=True) if lib is nbgrad else matrix.clone().requires_grad_()
            vectors = getattr(error, name)(x)[0 if name == "svd" else 1]
            with pytest.raises(RuntimeError, match="phi"):
                (vectors * torch.complex(of(3, 3), of(3, 3))).sum().real.backward()


def test_a_basis_of_what_is_left_has_no_gradient() -> None:
    x = nbgrad.tensor(of(4, 2), requires_grad=True)
    with pytest.raises(RuntimeError, match="full_matrices=False"):
        nbgrad.linalg.svd(x).U.sum().backward()
    x.grad = None
    nbgrad.linalg.svd(x).U[:, :2].sum().backward()
    theirs = of(4, 2).requires_grad_()
    L.svd(theirs).U[:, :2].sum().backward()
    assert x.grad is not None
    rows.close(x.grad.data, theirs.grad, "gradient")
    for mode, words in (("complete", "basis"), ("r", "computes no Q")):
        with pytest.raises(RuntimeError, match=words):
            nbgrad.linalg.qr(nbgrad.tensor(of(4, 2), requires_grad=True), mode=mode).R.sum().backward()


def test_a_singular_system_is_an_error() -> None:
    x = nbgrad.tensor(torch.zeros(2, 2), requires_grad=True)
    for call in (nbgrad.linalg.inv, nbgrad.linalg.cholesky, lambda a: nbgrad.linalg.solve(a, a)):
        with pytest.raises(L.LinAlgError):
            call(x)
    assert nbgrad.linalg.inv_ex(x).info.item()
    assert nbgrad.linalg.solve_ex(x, x).info.item()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: nbgrad.outer(x, x), "two vectors"),
        (lambda x: nbgrad.tensordot(x, x, dims=([0], [1])), "contracted dimensions differ"),
        (lambda x: nbgrad.tensordot(x, x, dims=5), "0 to 2 dimensions"),
        (lambda x: nbgrad.linalg.multi_dot([x]), "at least 2"),
        (lambda x: nbgrad.linalg.multi_dot([x, x[0], x]), "takes matrices"),
        (lambda x: nbgrad.linalg.matrix_power(x, 2), "square"),
        (lambda x: nbgrad.linalg.matrix_norm(x[0]), "takes matrices"),
        (lambda x: nbgrad.linalg.matrix_norm(x, 3), "not 3"),
        (lambda x: nbgrad.linalg.matrix_norm(x, dim=(0, 0)), "different"),
        (lambda x: nbgrad.linalg.norm(x[0], "fro"), "matrices"),
        (lambda x: nbgrad.linalg.tensorinv(x, 0), "greater than 0"),
        (lambda x: nbgrad.linalg.tensorinv(x, 1), "same product"),
        (lambda x: nbgrad.linalg.tensorsolve(x, x[:, 0]), "same product"),
        (lambda x: nbgrad.cross(x[:, :2], x[:, :2]), "no dimension of size 3"),
        (lambda x: nbgrad.linalg.vander(x, N=1), "greater than 1"),
        (lambda x: nbgrad.cov(x.reshape(2, 3, 1)), "at most two dimensions"),
    ],
)
def test_what_cannot_be_is_an_error(call: Callable[[Any], Any], words: str) -> None:
    with pytest.raises(RuntimeError, match=words):
        call(nbgrad.tensor(of(2, 3), requires_grad=True))


@pytest.mark.parametrize("name", ["matmul", "linear"])
def test_a_batch_out_of_order_is_one_product_each_way_as_torchs_autograd_has_it(name: str) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(3, 4, 5), torch.randn(5, 6)
    seed = torch.randn(3, 4, 6).transpose(0, 1)

    def run(x: Any, w: Any, function: Any, matrix: Any) -> Any:
        y = function(x.transpose(0, 1), matrix(w))
        y.backward(seed)
        return y

    theirs = [one.clone().requires_grad_() for one in (x, w)]
    ours = [tensor(one.clone(), requires_grad=True) for one in (x, w)]
    matrix = (lambda w: w) if name == "matmul" else (lambda w: w.T)
    expected = run(*theirs, getattr(torch.nn.functional, name, None) or torch.matmul, matrix)
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        found = run(*ours, OPS[name], matrix)
    products = {event.key: event.count for event in seen.key_averages() if event.key in {"aten::mm", "aten::bmm"}}
    assert products == {"aten::mm": 3}
    torch.testing.assert_close(found.data, expected.detach())
    for mine, yours in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.grad.data, yours.grad)
