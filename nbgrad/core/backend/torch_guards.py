"""Errors for torch's utilities that would do nothing to nbgrad's objects, or fail with an unclear message.

These utilities are plain Python and call no ``__torch_function__``. So a guard can only see which module asks.
"""

from sys import _getframe, modules
from types import FrameType

import torch

TWINS = {
    "torch.amp.grad_scaler": "amp",
    "torch.autograd": "autograd",  # the backward of torch 2.6, which iterates over what is no tensor of its own
    "torch.autograd.gradcheck": "autograd",
    "torch.nn.utils.clip_grad": "nn.utils",
    "torch.nn.utils.parametrizations": "nn.utils.parametrizations",
    "torch.nn.utils.parametrize": "nn.utils.parametrize",
    "torch.nn.utils.spectral_norm": "nn.utils",
    "torch.nn.utils.weight_norm": "nn.utils",
    "torch.optim.swa_utils": "optim.swa_utils",
}
"""torch's modules that work on torch's own tensors alone; beside them where torch and nbgrad have their functions."""


def check_asker() -> None:
    """Raise where what called the caller is in one of these modules.

    Raises:
        TypeError: it is; the message names nbgrad's function.
    """
    frame: FrameType | None = _getframe(1).f_back  # none, where a thread runs no more than this
    place = TWINS.get(frame.f_globals.get("__name__", "")) if frame is not None else None
    if place is None:
        return
    behind = frame.f_back if frame is not None else None
    if behind is not None and behind.f_globals.get("__name__") == "torch.nn.utils.parametrizations":
        frame, place = behind, TWINS["torch.nn.utils.parametrizations"]  # it registers what it makes
    name, public = "", modules[f"torch.{place}"]
    while not hasattr(public, name) and frame is not None:  # helpers and comprehensions run for what torch shows
        name, frame = frame.f_code.co_qualname.partition(".")[0].lstrip("_"), frame.f_back
    raise TypeError(
        f"torch.{place}.{name} works on torch's own tensors and modules alone: nbgrad.{place}.{name} is the one for "
        "nbgrad's"
    )


def check_flex_attention() -> None:
    """Raise where what called the caller is torch's ``flex_attention``, which compiles what it runs.

    Raises:
        TypeError: it is; the message says what to do.
    """
    frame: FrameType | None = _getframe(1).f_back
    if frame is not None and frame.f_globals.get("__name__") == "torch.nn.attention.flex_attention":
        raise TypeError(
            "flex_attention works on torch's own tensors alone, as torch compiles it: call "
            "scaled_dot_product_attention with the mask, or the score of each pair, as attn_mask=, or leave the model "
            "in torch, whose own autograd nbgrad records"
        )


def in_function() -> bool:
    """Whether torch runs the forward of a ``torch.autograd.Function``: both its kinds of recording are off only there.

    Inference switches them off too, and says so.
    """
    return not (torch._C._is_fwd_grad_enabled() or torch.is_grad_enabled() or torch.is_inference_mode_enabled())


def check_cut(op: str, grad_enabled: bool) -> bool:
    """Raise where torch runs the forward of a ``torch.autograd.Function`` that has got hold of a tensor of ours.

    It gets torch tensors for those of ours among its arguments. Others belong to a module or are captured.

    Args:
        op: what is about to run unrecorded, on a tensor that needs a gradient.
        grad_enabled: whether nbgrad is to record; nothing is lost where it is not.

    Returns:
        False.

    Raises:
        RuntimeError: it does, and the gradient would be lost; the message says what to write instead.
    """
    if not grad_enabled or not in_function():
        return False
    frame: FrameType | None = _getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.utils.checkpoint":
            raise RuntimeError(
                f"{op}() inside torch.utils.checkpoint.checkpoint, which as a rule is a torch.autograd.Function: "
                "gradients of nbgrad's tensors would be lost. Write nbgrad.checkpoint(...), or pass use_reentrant=False"
            )
        frame = frame.f_back
    raise RuntimeError(
        f"{op}() inside a torch.autograd.Function, on an nbgrad tensor that is no argument of its apply(): the "
        "gradient would be lost. Pass the tensor to apply(), derive the class from nbgrad.autograd.Function, which has "
        "the same methods, or write with nbgrad.no_grad():, where no gradient is meant"
    )
