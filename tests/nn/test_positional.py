"""Position blocks compared with the formulas of their papers, which plain torch computes in another way."""

import math

import pytest
import torch

import nbgrad
from nbgrad import nn
from tests.nn.alike import as_laid_out, same

TIGHT = {"rtol": 1e-9, "atol": 1e-12}


def gradients(block, reference, *shape):
    """Outputs and input gradients of both."""
    data = torch.randn(shape, dtype=torch.float64)
    x, y = nbgrad.tensor(as_laid_out(data), requires_grad=True), data.requires_grad_()
    out, expected = block(x), reference(y)
    seed = torch.randn_like(expected)
    out.backward(seed)
    expected.backward(seed)
    same([out, x.grad], [expected, y.grad], TIGHT)


def sines(length, size):
    table = torch.zeros(length, size, dtype=torch.float64)
    for position in range(length):
        for feature in range(size):
            angle = position / 10000 ** (2 * (feature // 2) / size)
            table[position, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return table


@pytest.mark.parametrize("size", [6, 5])
def test_sines_and_cosines(size):
    table = sines(9, size)
    made = {"dtype": torch.float64}
    gradients(nn.SinusoidalPosition(9, size, **made), lambda x: x + table[:4, None], 4, 2, size)
    gradients(nn.SinusoidalPosition(9, size, batch_first=True, **made), lambda x: x + table[:4], 2, 4, size)
    gradients(nn.SinusoidalPosition(9, size, batch_first=True, **made), lambda x: x + table[:4], 4, size)
    assert nn.SinusoidalPosition(9, size).state_dict() == {}


def test_learned_vectors():
    block = nn.LearnedPosition(9, 3, dtype=torch.float64)
    weight = torch.nn.Parameter(block.weight.data.clone())
    gradients(block, lambda x: x + weight[:4, None], 4, 2, 3)
    torch.testing.assert_close(block.weight.grad.data, weight.grad, **TIGHT)
    assert 0.001 < block.weight.data.std() < 0.1
    assert list(block.state_dict()) == ["weight"]


def by_complex_numbers(x, offset=0):
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], x.shape[-1] // 2, 2))
    rates = 10000.0 ** (-torch.arange(0, x.shape[-1], 2, dtype=torch.float64) / x.shape[-1])
    angles = torch.outer(torch.arange(offset, offset + x.shape[-2], dtype=torch.float64), rates)
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


@pytest.mark.parametrize("shape", [(5, 6), (2, 5, 6), (2, 3, 5, 6), (2, 0, 6)])
def test_rotation(shape):
    gradients(nn.RotaryPosition(6), by_complex_numbers, *shape)
    gradients(lambda x: nn.RotaryPosition(6)(x, offset=3), lambda x: by_complex_numbers(x, 3), *shape)


def test_a_rotated_product_depends_on_the_distance_alone():
    q, k = (nbgrad.tensor(torch.randn(1, 8, dtype=torch.float64)) for _ in range(2))
    turn = nn.RotaryPosition(8)
    near, far = ((turn(q, at) @ turn(k, at + 2).transpose(0, 1)).item() for at in (0, 100))
    assert near == pytest.approx(far)
    assert near != pytest.approx((q @ k.transpose(0, 1)).item())


def test_alibi_has_the_papers_slopes():
    slopes = [-nn.ALiBi(8).bias(2).data[head, 1, 0].item() for head in range(8)]
    assert slopes == [2**-power for power in range(1, 9)]
    slopes = [-nn.ALiBi(6).bias(2).data[head, 1, 0].item() for head in range(6)]
    assert slopes == pytest.approx([2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3])


@pytest.mark.parametrize("causal", [True, False])
def test_alibi_lowers_scores(causal):
    block = nn.ALiBi(2, causal=causal)
    bias = torch.tensor([[[(-abs(s - 1 - q)) for s in range(4)] for q in range(3)]] * 2, dtype=torch.float64)
    bias = bias * torch.tensor([2.0**-4, 2.0**-8]).reshape(2, 1, 1)
    if causal:
        bias = bias + torch.full((3, 4), -math.inf).triu(2)
    gradients(block, lambda scores: scores + bias, 5, 2, 3, 4)
    q, k, v = (nbgrad.tensor(torch.randn(1, 2, length, 4)) for length in (3, 4, 4))
    mask = block.bias(3, 4)
    out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    weights = torch.softmax(block(q @ k.transpose(-1, -2) / 2).data, -1)
    torch.testing.assert_close(out.data, weights @ v.data)


def test_what_does_not_fit():
    with pytest.raises(ValueError, match="head_dim must be even"):
        nn.RotaryPosition(5)
    with pytest.raises(RuntimeError, match=r"RotaryPosition: expected last dimension 4, got \(2, 6\)"):
        nn.RotaryPosition(4)(nbgrad.tensor(torch.ones(2, 6)))
    with pytest.raises(RuntimeError, match=r"LearnedPosition: expected at most 3 positions of 2 features, got .*4, 2"):
        nn.LearnedPosition(3, 2)(nbgrad.tensor(torch.ones(4, 2)))


def test_reprs():
    assert repr(nn.ALiBi(4)) == "ALiBi(4, causal=True)"
    assert repr(nn.RotaryPosition(4)) == "RotaryPosition(4, base=10000)"
    assert repr(nn.LearnedPosition(3, 2)) == "LearnedPosition(3, 2, batch_first=False)"
