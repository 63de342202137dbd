"""Functions that change modules and their tensors, under the names of ``torch.nn.utils``."""

from typing import TYPE_CHECKING, Any

from nbgrad.core.suggestions import suggesting
from nbgrad.nn.utils import parametrizations as parametrizations, parametrize as parametrize, rnn as rnn
from nbgrad.nn.utils.clip_grad import (
    clip_grad_norm_ as clip_grad_norm_,
    clip_grad_value_ as clip_grad_value_,
    clip_grads_with_norm_ as clip_grads_with_norm_,
    get_total_norm as get_total_norm,
)
from nbgrad.nn.utils.convert_parameters import (
    parameters_to_vector as parameters_to_vector,
    vector_to_parameters as vector_to_parameters,
)

if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        if name in {"spectral_norm", "weight_norm"}:
            raise AttributeError(
                f"nbgrad.nn.utils has no {name}, whose hooks are torch's older way: use "
                f"nbgrad.nn.utils.parametrizations.{name}, which also loads the older files",
                name=name,
            )
        return suggesting(globals())(name)
