"""Optimizers, with torch's names, arguments, defaults and ``state_dict`` format, and the arithmetic of torch's own.

torch's ``SparseAdam`` is not here: it takes nothing but sparse gradients, and the gradients of nbgrad are dense.
"""

from typing import TYPE_CHECKING

import torch

from nbgrad.core.suggestions import suggesting
from nbgrad.optim import lr_scheduler as lr_scheduler, swa_utils as swa_utils
from nbgrad.optim.grad_scaler import GradScaler as GradScaler
from nbgrad.optim.lbfgs import LBFGS as LBFGS
from nbgrad.optim.optimizer import Optimizer as Optimizer
from nbgrad.optim.optimizers import (
    ASGD as ASGD,
    Adadelta as Adadelta,
    Adafactor as Adafactor,
    Adagrad as Adagrad,
    Adam as Adam,
    Adamax as Adamax,
    AdamW as AdamW,
    NAdam as NAdam,
    RAdam as RAdam,
    RMSprop as RMSprop,
    Rprop as Rprop,
)
from nbgrad.optim.sgd import SGD as SGD

if hasattr(torch.optim, "Muon"):  # torch has it from 2.9 on
    from nbgrad.optim.optimizers import Muon as Muon

if not TYPE_CHECKING:  # with __getattr__ every name would exist for a type checker
    _suggest = suggesting(globals())

    def __getattr__(name: str) -> object:
        if name == "Muon":
            raise AttributeError(
                f"nbgrad.optim.Muon runs the step of torch.optim.Muon, which takes torch 2.9 or newer: this is torch "
                f"{torch.__version__}",
                name=name,
            )
        return _suggest(name)
