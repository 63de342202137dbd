"""The functions of ``nbgrad.masked`` are those of ``torch.masked``, with gradients."""

import pytest
import torch

import nbgrad

MASK = [[True, False, True], [False, True, True]]

CALLS = {
    **{name: {"dim": 1} for name in ("sum", "prod", "amax", "amin", "mean", "median", "var", "std", "logsumexp")},
    **{name: {"dim": 1} for name in ("softmax", "log_softmax", "softmin", "cumsum", "cumprod")},
    "norm": {"ord": 2.0, "dim": 1},
    "normalize": {"ord": 2.0, "dim": 1},
    "argmax": {"dim": 1},
    "argmin": {"dim": 1},
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("ours", [True, False], ids=["nbgrad's mask", "torch's mask"])
def test_value_and_gradient_are_torchs(name, ours):
    found = []
    for library in (torch, nbgrad):
        x = library.tensor([[0.5, 2.0, -1.0], [3.0, -1.0, 0.25]], dtype=torch.float64, requires_grad=True)
        mask = (library if ours else torch).tensor(MASK)
        out = getattr(library.masked, name)(x, mask=mask, **CALLS[name])
        kept = library.where(library.isfinite(out), out, 0 * out) if out.requires_grad else out
        if out.requires_grad:
            (kept * kept).sum().backward()
        assert isinstance(out, library.Tensor)
        found.append((out.tolist(), None if x.grad is None else x.grad.nan_to_num(7.0).tolist()))
    torch.testing.assert_close(found[1], found[0], equal_nan=True)


def test_two_masked_tensors_are_added_in_logarithms():
    found = []
    for library in (torch, nbgrad):
        x = library.tensor([[0.5, 2.0, -1.0], [3.0, -1.0, 0.25]], dtype=torch.float64, requires_grad=True)
        mask = library.tensor(MASK)
        library.masked.logaddexp(x, x * 2, input_mask=mask, other_mask=mask).masked_select(mask).sum().backward()
        found.append(x.grad.tolist())
    torch.testing.assert_close(found[1], found[0])


def test_nothing_of_torchs_is_left_out():
    apart = {"MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"}  # for another kind of tensor
    public = {name for name in torch.masked.__all__ if name not in apart}
    assert public == set(nbgrad.masked.__all__)
    assert all(getattr(nbgrad.masked, name) is getattr(torch.masked, name) for name in public)
