"""Checkpointing, under the names of ``torch.utils.checkpoint``."""

from nbgrad.core.checkpoint import checkpoint

__all__ = ["checkpoint"]
