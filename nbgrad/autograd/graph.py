"""The values saved for a backward, and the places of gradients, under the names of ``torch.autograd.graph``."""

from typing import TYPE_CHECKING

from torch.autograd.graph import allow_mutation_on_saved_tensors

from nbgrad.core.engine.node import Node
from nbgrad.core.functional.gradient_edge import (
    GradientEdge,
    get_gradient_edge,
    increment_version,
    register_multi_grad_hook,
)
from nbgrad.core.functional.saved_tensors import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
from nbgrad.core.suggestions import suggesting

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]

if not TYPE_CHECKING:  # with __getattr__ every name would exist for a type checker
    __getattr__ = suggesting(globals())
