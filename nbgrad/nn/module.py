"""Module: the base of every block, which knows its parameters, buffers and children by name."""

from typing import ClassVar, Self

from nbgrad.nn.calling import Calling
from nbgrad.nn.moving import Moving
from nbgrad.nn.saving import Saving


class Module(Calling, Moving, Saving):
    """A block of a network: parameters, child modules, and a ``forward`` that computes with them.

    Subclass it, call ``super().__init__()`` first, assign parameters and modules to attributes, and write ``forward``.
    Names, order and ``state_dict`` keys are torch's. Inside an ``AutogradGraph`` every call is drawn as a box, and an
    error names the path of the block that raised it.

    Attributes:
        training: True in training mode, False after ``eval()``.
        __formula__: what the block computes, in LaTeX; the view shows it with the first line of the docstring. A class
            of your own may say it, too.
    """

    training: bool
    __formula__: ClassVar[str] = ""

    def __init__(self) -> None:
        self.__dict__["_roles"] = {}
        self.training = True

    def train(self, mode: bool = True) -> Self:
        """Switch this module and those below it to training mode, or to evaluation with ``mode=False``.

        Raises:
            ValueError: ``mode`` is not a bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        waiting: list[Module] = [self]
        while waiting:
            module = waiting.pop()
            module.training = mode
            for child in module.children():
                if getattr(child.train, "__func__", None) is Module.train:
                    waiting.append(child)
                else:  # one of the user's
                    child.train(mode)
        return self

    def eval(self) -> Self:
        """Switch this module and those below it to evaluation mode."""
        return self.train(False)

    def parameter_count(self, only_trainable: bool = False) -> int:
        """How many numbers the module learns, shared ones once; with ``only_trainable`` not the frozen ones."""
        return sum(one.numel() for one in self.parameters() if one.requires_grad or not only_trainable)

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        settings = self.extra_repr()
        children = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self._all("module").items()]
        if not children and "\n" not in settings:
            return f"{self._get_name()}({settings})"
        lines = [*(settings.split("\n") if settings else []), *children]
        return "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)"
