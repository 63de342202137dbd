"""torch's first way to compute a weight: a hook before each forward. Today's way is ``parametrizations``.

The weight is then no parameter but the result of the last forward's hook, and ``state_dict`` has what it is made of.
"""

import warnings
from typing import Any, TypeVar

from torch.nn.functional import normalize

from nbgrad.core.engine.state import no_grad, restoring
from nbgrad.core.ops import dot, mv
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.module.module import Module
from nbgrad.nn.parameter import Parameter, is_lazy
from nbgrad.nn.utils.parametrizations import _WeightNorm

M = TypeVar("M", bound=Module)


class _Renewed:
    """Makes the weight ``name`` of a module anew before each forward.

    Attributes:
        kind: the name of the function that adds the hook.
        parts: the suffixes that make the names of the weight's parts from its name.
    """

    kind: str
    parts: tuple[str, ...]

    def __init__(self, name: str) -> None:
        self.name = name

    def begin(self, module: Module) -> Any:
        """Take the parameter away from the module, and return it.

        Raises:
            RuntimeError: the weight is made so already.
            ValueError: there is no such parameter, or it has no shape yet.
        """
        if any(isinstance(hook, type(self)) and hook.name == self.name for hook in module._forward_pre_hooks.values()):
            raise RuntimeError(f"Cannot register two {self.kind} hooks on the same parameter {self.name}")
        weight = module._parameters.get(self.name)
        if weight is None:
            raise ValueError(f"{self.kind}(): {type(module).__name__} has no parameter {self.name!r}")
        if is_lazy(weight):
            raise ValueError(f"{self.kind}(): parameter {self.name!r} has no shape yet: run a forward first")
        delattr(module, self.name)
        return weight

    def made(self, module: Module) -> Any:
        """The weight from its parts."""
        raise NotImplementedError

    @restoring
    def remove(self, module: Module) -> None:
        """Make the weight, as it is now, a parameter again."""
        with no_grad():
            weight = self.made(module)
        for name in (self.name, *(self.name + part for part in self.parts)):
            delattr(module, name)
        module.register_parameter(self.name, Parameter(weight.data))

    def __call__(self, module: Module, _inputs: Any) -> None:
        setattr(module, self.name, self.made(module))


def _removed(module: M, kind: type[_Renewed], name: str) -> M:
    for number, hook in list(module._forward_pre_hooks.items()):
        if isinstance(hook, kind) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"{kind.kind} of '{name}' not found in {module}")


class WeightNorm(_Renewed):
    """The hook that ``weight_norm`` puts before the forward."""

    kind, parts = "weight_norm", ("_g", "_v")

    def __init__(self, name: str, dim: int | None) -> None:
        super().__init__(name)
        self._norm = _WeightNorm(dim)

    def made(self, module: Module) -> Any:
        return self._norm(getattr(module, f"{self.name}_g"), getattr(module, f"{self.name}_v"))


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Learn the length and the direction of a weight separately, as the parameters NAME_g and NAME_v.

    Deprecated, as in torch: ``parametrizations.weight_norm`` does it now.

    Args:
        module: the module.
        name: the name of its weight.
        dim: the dimension whose slices have a length each; None for one length of all.

    Raises:
        RuntimeError: the weight has a weight norm already.
        ValueError: there is no such parameter, or it has no shape yet.
    """
    warnings.warn(
        "nn.utils.weight_norm is deprecated in favor of nn.utils.parametrizations.weight_norm",
        FutureWarning,
        stacklevel=2,
    )
    hook = WeightNorm(name, dim)
    weight = hook.begin(module)
    lengths, direction = no_grad()(hook._norm.right_inverse)(weight)
    module.register_parameter(f"{name}_g", Parameter(lengths.data))
    module.register_parameter(f"{name}_v", Parameter(direction.data))
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Undo ``weight_norm``: the present weight becomes a parameter again. Raises ValueError if there is none."""
    return _removed(module, WeightNorm, name)


class SpectralNorm(_Renewed):
    """The hook that ``spectral_norm`` puts before the forward."""

    kind, parts = "spectral_norm", ("_u", "_v", "_orig")

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__(name)
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps

    def matrix(self, weight: Any) -> Any:
        """The weight with ``dim`` first, flattened to a matrix."""
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)

    def made(self, module: Module, steps: int = 0) -> Any:
        weight, u, v = (getattr(module, self.name + part) for part in ("_orig", "_u", "_v"))
        raw = self.matrix(weight.data)
        for _ in range(steps):
            v.data.copy_(normalize(raw.mH @ u.data, dim=0, eps=self.eps))
            u.data.copy_(normalize(raw @ v.data, dim=0, eps=self.eps))
        left, right = tensor(u.data.clone()), tensor(v.data.clone())  # the next forward changes u and v
        return weight / dot(left, mv(self.matrix(weight), right))

    def __call__(self, module: Module, _inputs: Any) -> None:
        setattr(module, self.name, self.made(module, self.n_power_iterations if module.training else 0))


def spectral_norm(
    module: M, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> M:
    """Divide a weight, now the parameter NAME_orig, by its largest singular value; ``parametrizations`` has it too.

    Args:
        module: the module.
        name: the name of its weight.
        n_power_iterations: how many steps of the power method each forward takes in training.
        eps: the least norm that a vector is divided by.
        dim: the dimension that counts outputs; default: 0, and 1 for transposed convolutions.

    Raises:
        RuntimeError: the weight has a spectral norm already.
        ValueError: there is no such parameter, it has no shape yet, or ``n_power_iterations`` is not positive.
    """
    if dim is None:
        dim = 1 if any(base.__name__.startswith("ConvTranspose") for base in type(module).__mro__) else 0
    hook = SpectralNorm(name, n_power_iterations, dim, eps)
    weight: Tensor = hook.begin(module)
    starts = [weight.data.new_empty(size).normal_(0, 1) for size in hook.matrix(weight.data).shape]
    module.register_parameter(f"{name}_orig", weight)  # type: ignore[arg-type]  # it was one
    setattr(module, name, tensor(weight.data))
    for part, start in zip(("_u", "_v"), starts, strict=True):
        module.register_buffer(name + part, normalize(start, dim=0, eps=eps))
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Undo ``spectral_norm``: the present weight becomes a parameter again. Raises ValueError if there is none."""
    return _removed(module, SpectralNorm, name)
