"""Module: the base of every block, which knows its parameters, buffers and children by name."""

from typing import Any, ClassVar, Self

from nbgrad.core.backend.torch_guards import check_asker
from nbgrad.nn.module.call import Calling
from nbgrad.nn.module.convert import Moving
from nbgrad.nn.module.state_dict import Saving

_NEVER_CALLED = {
    "_call_impl": "override __call__ or forward, or register a hook",
    "_wrapped_call_impl": "override __call__ or forward, or register a hook",
    "_slow_forward": "override forward",
    "_get_backward_hooks": "register_full_backward_hook() adds a hook",
    "_get_backward_pre_hooks": "register_full_backward_pre_hook() adds a hook",
    "_maybe_warn_non_full_backward_hook": "there are only full backward hooks",
    "_replicate_for_data_parallel": "there is no DataParallel",
}
"""Methods of torch's Module that a subclass would override for nothing, and what to do instead."""


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

    call_super_init: ClassVar[bool] = False
    """Whether ``Module.__init__`` hands on what it is given to the next class, for a class with several bases."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            given = f"keyword argument {next(iter(kwargs))!r}" if kwargs else f"{len(args)} positional arguments"
            raise TypeError(f"{type(self).__name__}.__init__() takes nothing that Module.__init__() could: got {given}")
        self.__dict__["_roles"] = {}
        self.training = True
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        for name, instead in _NEVER_CALLED.items():
            if name in cls.__dict__:
                raise TypeError(
                    f"{cls.__name__} overrides torch's private {name}(), which nbgrad never calls: {instead}"
                )

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes of a copy or pickle; a subclass with older pickles overrides it."""
        self.__dict__.update(state)

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
        check_asker()  # some of torch's look for tensors of their own alone, and say that this has no such
        settings = self.extra_repr()
        children = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self._all("module").items()]
        if not children and "\n" not in settings:
            return f"{self._get_name()}({settings})"
        lines = [*(settings.split("\n") if settings else []), *children]
        return "\n  ".join([f"{self._get_name()}(", *lines]) + "\n)"
