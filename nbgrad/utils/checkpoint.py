"""Checkpointing, under the names of ``torch.utils.checkpoint``."""

from nbgrad.core.functional.checkpoint import checkpoint

__all__ = ["checkpoint"]
