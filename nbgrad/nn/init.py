"""Initialisation: torch's own functions, with torch's signatures, on tensors of nbgrad.

Good initial weights keep the size of values and of gradients the same from layer to layer, so that neither vanishes
nor explodes with depth. Each function fills its tensor in place and returns it; from the same seed, or the same
``generator=``, the numbers are those that torch draws. Each is a method of ``Tensor`` too: ``x.xavier_uniform_()``.
"""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar

import torch
from torch.nn import init as torchs

from nbgrad.core.dispatch.op import install
from nbgrad.core.engine.state import tell_changed
from nbgrad.core.suggestions import suggesting
from nbgrad.core.tensor.methods import TensorMethods
from nbgrad.core.tensor.tensor import Tensor

P = ParamSpec("P")
T = TypeVar("T", bound=Tensor)


def _on_tensor(fill: Callable[Concatenate[torch.Tensor, P], torch.Tensor]) -> Callable[Concatenate[T, P], T]:
    """``fill`` as a function of a ``Tensor``: recorded nowhere, as it works on the data."""

    @wraps(fill)
    def filled(tensor: T, /, *args: P.args, **kwargs: P.kwargs) -> T:
        fill(tensor.data, *args, **kwargs)
        tell_changed([tensor.data], f"init.{fill.__name__}()")
        return tensor

    return filled


calculate_gain = torchs.calculate_gain


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """The fan-in (inputs of each output) and the fan-out (outputs of each input), under torch's private name."""
    return torchs._calculate_fan_in_and_fan_out(tensor.data)


def _calculate_correct_fan(tensor: Tensor, mode: Literal["fan_in", "fan_out"]) -> int:
    """The fan-in or the fan-out, as ``mode`` says."""
    return torchs._calculate_correct_fan(tensor.data, mode)


constant_ = _on_tensor(torchs.constant_)
zeros_ = _on_tensor(torchs.zeros_)
ones_ = _on_tensor(torchs.ones_)
uniform_ = _on_tensor(torchs.uniform_)
normal_ = _on_tensor(torchs.normal_)
trunc_normal_ = _on_tensor(torchs.trunc_normal_)
sparse_ = _on_tensor(torchs.sparse_)

# The layer returns its input, as far as the shape allows.
eye_ = _on_tensor(torchs.eye_)
dirac_ = _on_tensor(torchs.dirac_)

# Glorot and Bengio 2010: for tanh and other activations that are straight lines around 0.
xavier_uniform_ = _on_tensor(torchs.xavier_uniform_)
xavier_normal_ = _on_tensor(torchs.xavier_normal_)

# He et al. 2015: for relu, which halves the variance, so that weights must double it.
kaiming_uniform_ = _on_tensor(torchs.kaiming_uniform_)
kaiming_normal_ = _on_tensor(torchs.kaiming_normal_)

# Saxe et al. 2014: keeps lengths through any number of layers, and through time in recurrent networks.
orthogonal_ = _on_tensor(torchs.orthogonal_)

# Torch's old names of these, for lines that still have them: they warn, as torch's own do.
uniform = _on_tensor(torchs.uniform)
normal = _on_tensor(torchs.normal)
constant = _on_tensor(torchs.constant)
eye = _on_tensor(torchs.eye)
dirac = _on_tensor(torchs.dirac)
xavier_uniform = _on_tensor(torchs.xavier_uniform)
xavier_normal = _on_tensor(torchs.xavier_normal)
kaiming_uniform = _on_tensor(torchs.kaiming_uniform)
kaiming_normal = _on_tensor(torchs.kaiming_normal)
orthogonal = _on_tensor(torchs.orthogonal)
sparse = _on_tensor(torchs.sparse)

for _fill in (
    *(constant_, zeros_, ones_, uniform_, normal_, trunc_normal_, sparse_, eye_, dirac_),
    *(xavier_uniform_, xavier_normal_, kaiming_uniform_, kaiming_normal_, orthogonal_),
):
    if _fill.__name__ not in vars(TensorMethods):  # unless the op table has a row of this name
        install(_fill.__name__, _fill)


if not TYPE_CHECKING:  # with __getattr__, a type checker would believe that every name exists
    __getattr__ = suggesting(globals())
