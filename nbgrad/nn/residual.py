"""Residual: a block around which the gradient has a way of its own."""

from typing import Any

from nbgrad.nn.module.module import Module


class Residual(Module):
    """Adds a block's input to its output, so that gradients can bypass it (He et al. 2015, https://arxiv.org/abs/1512.03385).

    Shapes: those of ``body``; the input, or what ``shortcut`` makes of it, is added to its output.

    Args:
        body: the block.
        shortcut: a projection of the input where shapes differ, a 1x1 convolution or a Linear; default: none.
    """

    __formula__ = "x + f(x)"

    def __init__(self, body: Module, shortcut: Module | None = None) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, input: Any) -> Any:
        return self.body(input) + (input if self.shortcut is None else self.shortcut(input))
