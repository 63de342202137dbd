"""Errors for torch's utilities that would do nothing to nbgrad's objects, or fail with an unclear message.

These utilities are plain Python and call no ``__torch_function__``. So a guard can only see which module asks.
"""

from sys import _getframe, modules
from types import FrameType

import torch

TWINS = {
    "torch.amp.grad_scaler": "amp",
    "torch.autograd": "autograd",  # the backward of torch 2.6, which iterates over any object that is no torch tensor
    "torch.autograd.gradcheck": "autograd",
    "torch.nn.modules.batchnorm": "nn",  # SyncBatchNorm converts modules
    "torch.nn.parallel.distributed": "nn.parallel",
    "torch.nn.utils._named_member_accessor": "func",
    "torch.nn.utils.clip_grad": "nn.utils",
    "torch.nn.utils.parametrizations": "nn.utils.parametrizations",
    "torch.nn.utils.parametrize": "nn.utils.parametrize",
    "torch.nn.utils.spectral_norm": "nn.utils",
    "torch.nn.utils.stateless": "func",
    "torch.nn.utils.weight_norm": "nn.utils",
    "torch.optim.swa_utils": "optim.swa_utils",
}
"""torch's modules that work only on torch's own tensors, each with the place of its functions in torch and nbgrad."""

_OLDER = ("torch.nn.utils.spectral_norm", "torch.nn.utils.weight_norm")
"""The modules whose functions nbgrad has only in their present form."""

_ALONE = {
    "torch.nn.parallel.": "spreads modules over devices or processes",
    "torch.distributed.fsdp": "spreads modules over devices or processes",
    "torch.distributed._composable": "spreads modules over devices or processes",
    "torch.distributed.tensor": "spreads modules over devices or processes",
    "torch.jit.": "compiles modules",
    "torch.export": "exports modules",
    "torch._export": "exports modules",
    "torch.ao.": "quantizes modules",
}
"""The beginnings of names of torch's modules that nbgrad has nothing for, and what each does."""


def check_asker() -> None:
    """Raise if the code that called the caller is in one of these modules.

    Raises:
        TypeError: it is; the message names nbgrad's function, or says that there is none.
    """
    frame: FrameType | None = _getframe(1).f_back  # None if the thread runs nothing above it
    asker = frame.f_globals.get("__name__", "") if frame is not None else ""
    if not asker.startswith("torch."):
        return
    place = TWINS.get(asker)
    if place is None:
        _check_alone(asker)
        return
    behind = frame.f_back if frame is not None else None
    if behind is not None and behind.f_globals.get("__name__") == "torch.nn.utils.parametrizations":
        frame, place = behind, TWINS["torch.nn.utils.parametrizations"]  # parametrizations calls parametrize
    name, public = "", modules[f"torch.{place}"]
    while not hasattr(public, name) and frame is not None:  # from helpers and comprehensions up to a public name
        name, frame = frame.f_code.co_qualname.partition(".")[0].lstrip("_"), frame.f_back
    ours = f"{place}.parametrizations" if asker in _OLDER else place
    raise TypeError(
        f"torch.{place}.{name} works only on torch's own tensors and modules: for nbgrad's use nbgrad.{ours}.{name}"
    )


def _check_alone(asker: str) -> None:
    for start, does in _ALONE.items():
        if asker.startswith(start):
            raise TypeError(
                f"{asker} {does}, and accepts only torch's: give it the torch module, not an nbgrad module. %%autograd "
                "and nbgrad.record() show what the torch module does, unmodified"
            )


def check_optimizer() -> None:
    """Raise where torch's optimizer asks for the name of a parameter, to say that it is none of torch's.

    Raises:
        TypeError: it does; the message says which optimizer to use.
    """
    frame: FrameType | None = _getframe(1)
    for _ in range(2):  # up to torch.typename(), then to its caller
        frame = frame.f_back if frame is not None else None
    if frame is None or frame.f_globals.get("__name__") != "torch.optim.optimizer":
        return
    name = type(frame.f_locals.get("self")).__name__
    raise TypeError(
        f"torch.optim.{name} takes torch's own parameters, and got one of nbgrad's: write "
        f"nbgrad.optim.{name}(model.parameters()); or, after model = nbgrad.from_torch(net), "
        f"torch.optim.{name}(net.parameters()), which have the same gradients. A trainer that makes its own optimizer, "
        "such as Lightning's or Hugging Face's, needs the torch module itself, in %%autograd or nbgrad.record()"
    )


def check_flex_attention() -> None:
    """Raise if the caller was called by torch's ``flex_attention``, which compiles what it runs.

    Raises:
        TypeError: it is; the message says what to do.
    """
    frame: FrameType | None = _getframe(1).f_back
    if frame is not None and frame.f_globals.get("__name__") == "torch.nn.attention.flex_attention":
        raise TypeError(
            "flex_attention works only on torch's own tensors, because torch compiles it: call "
            "scaled_dot_product_attention with the mask, or with the score of each pair, as attn_mask=, or leave the "
            "model in torch and record it with nbgrad"
        )


def in_function() -> bool:
    """Whether torch runs the forward of a ``torch.autograd.Function``.

    Only there, and in inference mode, does torch record neither for a backward nor for forward mode. torch itself says
    whether inference mode is on.
    """
    return not (torch._C._is_fwd_grad_enabled() or torch.is_grad_enabled() or torch.is_inference_mode_enabled())


def check_cut(op: str, grad_enabled: bool) -> bool:
    """Raise where torch runs the forward of a ``torch.autograd.Function`` that has got hold of a tensor of ours.

    It gets torch tensors for those of ours among its arguments. Others belong to a module or are captured.

    Args:
        op: the op that is about to run unrecorded, on a tensor that needs a gradient.
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
                f"{op}() inside torch.utils.checkpoint.checkpoint, which runs a torch.autograd.Function: gradients of "
                "nbgrad's tensors would be lost. Write nbgrad.checkpoint(...), or pass use_reentrant=False"
            )
        frame = frame.f_back
    raise RuntimeError(
        f"{op}() inside a torch.autograd.Function, on an nbgrad tensor that is not an argument of apply(): its "
        "gradient would be lost. Pass the tensor to apply(), derive the class from nbgrad.autograd.Function, which "
        "has the same methods, or write 'with nbgrad.no_grad():' if no gradient is needed"
    )
