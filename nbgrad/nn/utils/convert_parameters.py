"""All parameters as one vector, for methods that think of a model as a point."""

from collections.abc import Iterable

import torch

from nbgrad.core.ops import cat
from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.parameter import check_several


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements of the parameters in one vector, in their order; differentiable.

    Args:
        parameters: those of a model, all on one device.

    Raises:
        TypeError: they are on different devices, or a model is passed instead of its parameters.
    """
    check_several("parameters", parameters)
    held = list(parameters)
    _check_devices(held)
    joined: Tensor = cat([param.reshape(-1) for param in held])
    return joined


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let each parameter be its slice of ``vec``, whose memory it shares from now on.

    Args:
        vec: a vector as ``parameters_to_vector`` returns it.
        parameters: those of a model, all on one device.

    Raises:
        TypeError: ``vec`` is no tensor, or the parameters are on different devices.
        ValueError: ``vec`` has another number of elements than the parameters together.
    """
    if not isinstance(vec, Tensor | torch.Tensor):
        raise TypeError(f"expected a tensor, but got: {torch.typename(vec)}")
    check_several("parameters", parameters)
    held = list(parameters)
    _check_devices(held)
    sizes = [param.numel() for param in held]
    if vec.ndim != 1 or sum(sizes) != vec.numel():
        raise ValueError(
            f"the parameters have {sum(sizes)} elements together: a vector of shape {tuple(vec.shape)} does not fit"
        )
    for param, part in zip(held, torch.split(vec.data, sizes), strict=True):
        param.data = part.view(param.shape)


def _check_devices(parameters: list[Tensor]) -> None:
    devices = sorted({str(param.device) for param in parameters})
    if len(devices) > 1:
        raise TypeError(f"parameters on different devices, {', '.join(devices)}, make no vector")
