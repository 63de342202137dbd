"""Optimizers, with torch's names, arguments, defaults and ``state_dict`` format."""

from nbgrad.optim.optimizer import Optimizer as Optimizer
from nbgrad.optim.sgd import SGD as SGD
