"""A Function under autocast: ``amp.custom_fwd`` and ``amp.custom_bwd`` are torch's on nbgrad's tensors."""

from typing import Any

import pytest
import torch

import nbgrad

SEEN: list[Any] = []


def product(library: Any, dtype: torch.dtype | None) -> Any:
    """A product of matrices that notes which element types its forward and its backward see."""

    class Product(library.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        @library.amp.custom_fwd(device_type="cpu", cast_inputs=dtype)
        def forward(ctx: Any, a: Any, pair: Any) -> Any:
            ctx.save_for_backward(a, pair[0])
            out = a @ pair[0]
            SEEN.append((a.dtype, pair[0].dtype, out.dtype, torch.is_autocast_enabled("cpu")))
            return out

        @staticmethod
        @library.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Any) -> Any:
            a, b = ctx.saved_tensors
            SEEN.append((g.dtype, torch.is_autocast_enabled("cpu"), (a @ b).dtype))
            return g @ b.t().to(g.dtype), None

    return Product


@pytest.mark.parametrize("dtype", [None, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("given", [torch.float32, torch.float64])
@pytest.mark.parametrize("enabled", [True, False])
def test_a_function_casts_as_torchs(dtype, given, enabled):
    seen = []
    for library in (torch, nbgrad):
        SEEN.clear()
        a = library.tensor([[0.5, 2.0], [3.0, -1.0]], dtype=given, requires_grad=True)
        b = library.tensor([[1.0, 0.25], [-2.0, 1.0]], dtype=given)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = product(library, dtype).apply(a, [b])
        out.sum().backward()
        seen.append([*SEEN, out.dtype, out.tolist(), a.grad.dtype, a.grad.tolist()])
    assert seen[1] == seen[0]


def test_the_kind_of_device_is_a_text():
    with pytest.raises(ValueError, match="device_type"):
        nbgrad.amp.custom_fwd(lambda ctx, x: x, device_type=torch.device("cpu"))  # type: ignore[arg-type]
