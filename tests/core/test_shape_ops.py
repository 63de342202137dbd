"""Functions made of the rows that view, join and split tensors, and behaviour that these rows' tests do not cover."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.tensor.tensor import tensor
from tests.core.both import same

F = torch.nn.functional


def of(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (lambda x: x.view(3, 2), [(2, 3)]),
        (lambda x: x.view((-1,)), [(2, 3)]),
        (lambda x: x.flatten(), [()]),
        (lambda x: x.flatten(1, 2), [(2, 3, 4, 1)]),
        (lambda x: x.unflatten(-1, (2, -1)), [(3, 4)]),
        (lambda x: torch.ravel(x) * x.reshape_as(torch.ones(6)), [(2, 3)]),
        (lambda x, y: x.view_as(y) + y.expand_as(y), [(6,), (2, 3)]),
        (lambda x: torch.broadcast_to(x, (4, 2, 3)), [(2, 3)]),
        (lambda x: x.T @ x, [(2, 3)]),
        (lambda x: x.t() @ x.adjoint().mT, [(2, 3)]),
        (lambda x: x.mH @ x, [(5, 2, 3)]),
        (lambda x: torch.movedim(x, (0, -1), (1, 0)), [(2, 3, 4)]),
        (lambda x: torch.moveaxis(x, 0, 2).swapaxes(0, 1), [(2, 3, 4)]),
        (lambda x: x.T.contiguous(), [(2, 3)]),
        (lambda x: torch.cat([x, x]), [(2, 3)]),
        (lambda x, y: torch.concat((x, y, x), dim=-1), [(2, 3), (2, 1)]),
        (lambda x, y: torch.hstack([x, y]), [(3,), (2,)]),
        (lambda x, y: torch.vstack([x, y]), [(3,), (2, 3)]),
        (lambda x, y: torch.dstack([x, y]), [(2, 3), (2, 3)]),
        (lambda x, y: torch.column_stack([x, y]), [(2,), (2, 3)]),
        (torch.block_diag, [(2, 3), (), (2,)]),
        (torch.cartesian_prod, [(3,), (2,)]),
        (lambda x: torch.combinations(x, 3, with_replacement=True), [(3,)]),
        (lambda x, y: torch.meshgrid(x, y, indexing="xy"), [(3,), (2,)]),
        (torch.broadcast_tensors, [(3, 1), (2,)]),
        (torch.atleast_3d, [(), (2, 3)]),
        (lambda x: x.chunk(3, dim=1), [(2, 7)]),
        (lambda x: x.split([2, 0, 3])[::2], [(5, 2)]),
        (lambda x: x.unbind(1)[1], [(5, 2)]),
        (lambda x: torch.tensor_split(x, 3), [(7,)]),
        (lambda x: torch.tensor_split(x, (1, -2, 9), dim=1), [(2, 7)]),
        (lambda x: torch.hsplit(x, 2), [(2, 4)]),
        (lambda x: torch.dsplit(x, [1]), [(2, 1, 4)]),
        (lambda x: torch.diag(x, 1), [(3,)]),
        (lambda x: torch.diag(x, -1), [(3, 3)]),
        (torch.diagflat, [(2, 2)]),
        (lambda x: torch.tile(x, (2,)), [(2, 3)]),
        (lambda x: x.tile(2, 1, 2), [(2, 3)]),
        (lambda x: torch.repeat_interleave(x, 2), [(2, 3)]),
        (lambda x: torch.repeat_interleave(x, torch.tensor([2, 0]), dim=0), [(2, 3)]),
        (lambda x: torch.fliplr(x) * torch.flipud(x), [(2, 3)]),
        *[(lambda x, k=k: torch.rot90(x, k, (0, 1)), [(2, 3)]) for k in range(-1, 3)],
        (lambda x: torch.as_strided(x, (2, 2), (1, 2), 1), [(6,)]),
        (lambda x: x.unfold(0, 3, 2), [(8,)]),
        (lambda x: F.pad(x, (1, 2, 0, -1), value=2.0), [(2, 3)]),
        *[(lambda x, m=m: F.pad(x, (1, 2), mode=m), [(2, 3)]) for m in ("reflect", "replicate", "circular")],
        (lambda x: F.pad(x, (1, -1, 2, 1), mode="circular"), [(2, 3, 4)]),
    ],
)
def test_a_call_means_what_it_means_in_torch(call: Callable[..., Any], shapes: list[tuple[int, ...]]) -> None:
    same(call, *[of(*shape) for shape in shapes])


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t_(),
        lambda x: x.transpose_(0, 1),
        lambda x: x.swapaxes_(0, -1),
        lambda x: x.unsqueeze_(1),
        lambda x: x.unsqueeze_(0).squeeze_(0),
        lambda x: x.tril_(-1),
        lambda x: x.as_strided_((2, 2), (1, 2)),
    ],
)
def test_a_shape_changed_in_place(change: Callable[[Any], Any]) -> None:
    same(lambda x: change(x.exp() * 1) * 2, of(2, 3))


@pytest.mark.parametrize("settings", [{}, {"N": 0}, {"N": 4, "increasing": True}])
def test_powers_of_a_vector(settings: dict[str, Any]) -> None:
    expected = torch.vander(of(3), **settings)  # torch's own second-order gradient of it raises
    assert torch.equal(torch.vander(nbgrad.tensor(of(3)), **settings).data, expected)


def test_a_view_as_another_element_type_shares_the_memory() -> None:
    x = tensor(of(2, 3), requires_grad=True)
    bits = x.view(torch.int64)
    assert not bits.requires_grad
    assert bits.data.data_ptr() == x.data.data_ptr()


def test_a_part_of_a_split_changed_in_place_changes_the_gradient() -> None:
    same_inside = nbgrad.tensor(of(4), requires_grad=True)
    x = same_inside * 1
    first, _ = x.split(2)
    first.mul_(3)
    x.sum().backward()
    assert same_inside.grad is not None
    assert same_inside.grad.tolist() == [3, 3, 1, 1]


def test_one_node_for_all_parts() -> None:
    parts = nbgrad.unbind(nbgrad.tensor(of(3, 2), requires_grad=True))
    assert len({id(part.grad_fn) for part in parts}) == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: x.t(), RuntimeError, "at most 2 dimensions"),
        (lambda x: x[0, 0].mT, RuntimeError, "only for matrices"),
        (lambda x: x.H, RuntimeError, "only for matrices"),
        (lambda x: x.unflatten(0, (3, 3)), RuntimeError, "do not multiply to 2"),
        (lambda x: x.flatten(2, 1), RuntimeError, "start_dim cannot come after end_dim"),
        (lambda x: x.movedim((0, 0), (1, 2)), RuntimeError, "repeated dimension"),
        (lambda x: x.movedim(0, (1, 2)), RuntimeError, "1 dimensions in source, but 2"),
        (lambda x: x.flatten(5), IndexError, "out of range"),
        (lambda x: x.chunk(0), RuntimeError, "greater than 0"),
        (lambda x: x.tensor_split(0), RuntimeError, "greater than 0"),
        (lambda x: x.hsplit(2), RuntimeError, "does not divide into 2 equal parts"),
        (lambda x: x[0].dsplit(2), RuntimeError, "at least 3 dimensions"),
        (nbgrad.diag, RuntimeError, "a vector or a matrix"),
        (nbgrad.meshgrid, RuntimeError, "vectors"),
        (lambda x: nbgrad.meshgrid(x[0, 0], indexing="ab"), RuntimeError, "'xy' or 'ij'"),
        (nbgrad.cartesian_prod, RuntimeError, "vectors"),
        (nbgrad.combinations, RuntimeError, "a vector"),
        (lambda x: nbgrad.combinations(x[0, 0], -1), RuntimeError, "not negative"),
        (nbgrad.block_diag, RuntimeError, "at most 2 dimensions"),
        (lambda x: x.rot90(1, (0, 0)), RuntimeError, "two different dimensions"),
        (lambda x: x[0, 0].fliplr(), RuntimeError, "at least 2 dimensions"),
        (lambda x: x.repeat_interleave(-1), RuntimeError, "not negative"),
        (lambda x: x.expand(2, 2, 3, 4).as_strided((2,), (1,)), NotImplementedError, "one number in memory"),
        (lambda x: F.pad(x, (1,)), RuntimeError, "two widths"),
        (lambda x: F.pad(x, (1, 1), mode="mirror"), NotImplementedError, "mirror"),
        (lambda x: F.pad(x, (1, 1), mode="reflect", value=2.0), ValueError, "takes no value"),
        (lambda x: F.pad(x, (9, 1), mode="circular"), RuntimeError, "at most as wide"),
    ],
)
def test_what_cannot_be_is_an_error(call: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(nbgrad.tensor(of(2, 3, 4), requires_grad=True))


@pytest.mark.parametrize("many", [31, 32, 33, 64, 65, 200])
@pytest.mark.parametrize("join", ["stack", "cat"])
def test_every_one_of_many_inputs_gets_its_gradient(join: str, many: int) -> None:
    leaves = [tensor(of(2), requires_grad=True) for _ in range(many)]
    joined = getattr(nbgrad, join)(leaves)
    assert isinstance(joined, nbgrad.Tensor)
    (joined.reshape(many, 2) * tensor(torch.arange(many, dtype=torch.float64)[:, None])).sum().backward()
    assert [leaf.grad.tolist() for leaf in leaves] == [[at, at] for at in range(many)]


@pytest.mark.parametrize("at", [0, 30, 31, 32, 63, 64, 69])
def test_one_of_many_inputs_gets_its_gradient(at: int) -> None:
    leaves = [tensor(of(2), requires_grad=position == at) for position in range(70)]
    nbgrad.cat(leaves).sum().backward()
    assert [position for position, leaf in enumerate(leaves) if leaf.grad is not None] == [at]
