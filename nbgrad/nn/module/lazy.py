"""Modules that take the sizes of their parameters from the first input."""

from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar

from torch.utils.hooks import RemovableHandle

from nbgrad.core.tensor.tensor import Tensor
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter, Uninitialized, UninitializedBuffer, UninitializedParameter

if TYPE_CHECKING:
    _Base = Module
else:
    _Base = object


class Lazy(_Base):
    """A mixin that makes a block lazy: the block omits its first argument, the size of its input, until its first call.

    A subclass says in ``_learn`` what it takes from the first input. After that call it is an ordinary block of the
    class ``becomes``. The parameters stay the same objects, but make an optimizer only after the first call.
    """

    _becomes: ClassVar[type[Module]]
    _initialize_hook: RemovableHandle

    def __init_subclass__(cls, becomes: type[Module] | None = None, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if becomes is not None:
            cls._becomes = becomes
        if becomes is not None and cls.__init__ is Lazy.__init__:
            whole = signature(becomes)
            cls.__signature__ = whole.replace(parameters=[*whole.parameters.values()][1:])  # type: ignore[attr-defined]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, *args, **kwargs)  # the size that is not known yet
        for name, value in list(self._own("parameter", "buffer")):
            if value.is_floating_point():
                kind = UninitializedParameter if isinstance(value, Parameter) else UninitializedBuffer
                setattr(self, name, kind(device=value.device, dtype=value.dtype))
        self._initialize_hook = self.register_forward_pre_hook(_initialize)

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        return any(isinstance(value, Uninitialized) for _, value in self._own("parameter", "buffer"))

    def initialize_parameters(self, input: Tensor) -> None:
        """Give the parameters their shapes, for inputs like this one, and their initial values."""
        waits = self.has_uninitialized_params()  # if not, they were loaded: only settings are missing
        for name, shape in self._learn(input).items():
            value = getattr(self, name)
            if isinstance(value, Uninitialized):
                value.materialize(shape)
        if waits:
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values, once there is something to fill."""
        if "_initialize_hook" in self.__dict__ and not self.has_uninitialized_params():
            super().reset_parameters()  # type: ignore[misc]  # the block that this is mixed into has it

    def _learn(self, input: Tensor) -> dict[str, tuple[int, ...]]:
        """Take the missing size from an input, and return the shapes that follow."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it takes from its first input")


def _initialize(module: Any, args: tuple[Any, ...]) -> None:
    module.initialize_parameters(*args)
    module._initialize_hook.remove()
    del module._initialize_hook
    module.__class__ = module._becomes
