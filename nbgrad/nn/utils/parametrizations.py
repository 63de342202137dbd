"""Parametrizations of weights: by length and direction, of spectral norm 1, and orthogonal."""

from typing import Any

import torch
from torch.nn.utils import parametrizations

from nbgrad.core.ops import dot, mv, normalize
from nbgrad.core.ops.linalg.weight_norm import norm_except_dim, weight_norm as renewed
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.module.module import Module
from nbgrad.nn.utils.parametrize import register_parametrization

_torchs: Any = parametrizations  # the types of its arguments are those of torch's tensors


def _weight(module: Module, name: str) -> Any:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{type(module).__name__}' has no parameter or buffer with name '{name}'")
    return weight


class _Renaming:
    """Before a module loads: gives the values of ``nn.utils.weight_norm`` and ``spectral_norm`` the keys they have now.

    Args:
        name: the name of the weight.
        renamed: what the older function called its values in the module, and where they are in the parametrization.
    """

    def __init__(self, name: str, renamed: dict[str, str]) -> None:
        self.name, self.renamed = name, renamed

    def __call__(self, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
        if all(f"{prefix}{old}" in state_dict for old in self.renamed):
            for old, new in self.renamed.items():
                state_dict[f"{prefix}parametrizations.{self.name}.{new}"] = state_dict.pop(f"{prefix}{old}")


class _WeightNorm(Module):
    """A direction times its length: one length for each slice along ``dim``, or one for the whole if ``dim`` is -1."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        return renewed(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Any) -> tuple[Any, Any]:
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn length and direction of a weight apart: w = g v / |v| (Salimans and Kingma 2016).

    The direction's gradient is then orthogonal to it, which makes the best step size depend less on the scale of the
    weights. See https://arxiv.org/abs/1602.07868.

    Args:
        module: the module.
        name: the name of its weight.
        dim: the dimension whose slices have a length each; None for one length of all.

    Raises:
        ValueError: there is no such weight.
    """
    _weight(module, name)
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    renamed = {f"{name}_g": "original0", f"{name}_v": "original1"}
    module._register_load_state_dict_pre_hook(_Renaming(name, renamed))
    return module


class _SpectralNorm(Module):
    """A matrix divided by its largest singular value, which some steps of the power method estimate."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Any, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight).data
            for key, size in zip(("_u", "_v"), matrix.shape, strict=True):
                start = matrix.new_empty(size).normal_()
                self.register_buffer(key, torch.nn.functional.normalize(start, dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Any) -> Any:
        """The weight with ``dim`` first, flattened to a matrix."""
        return weight.movedim(self.dim, 0).reshape(weight.shape[self.dim], -1)

    def _iterate(self, matrix: torch.Tensor, steps: int) -> None:
        """Bring u and v nearer to the singular vectors; on the values alone, in place."""
        u, v = self._u.data, self._v.data
        for _ in range(steps):
            u.copy_(torch.nn.functional.normalize(matrix @ v, dim=0, eps=self.eps))
            v.copy_(torch.nn.functional.normalize(matrix.mH @ u, dim=0, eps=self.eps))

    def forward(self, weight: Any) -> Any:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.data.detach(), self.n_power_iterations)
        u, v = self._u.data.clone(), self._v.data.clone()  # the next forward changes them, maybe before a backward
        return weight / dot(tensor(u), mv(matrix, v))

    def right_inverse(self, value: Any) -> Any:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al. 2018).

    The layer then never enlarges the distance between two inputs. This keeps the discriminator of a GAN smooth. Each
    forward in training takes ``n_power_iterations`` steps of the power method, which keeps two vectors as buffers. See
    https://arxiv.org/abs/1802.05957.

    Args:
        module: the module.
        name: the name of its weight.
        n_power_iterations: how many steps each forward takes in training.
        eps: the least norm that a vector is divided by.
        dim: the dimension that counts outputs; default: 0, and 1 for transposed convolutions.

    Raises:
        ValueError: there is no such weight, or ``n_power_iterations`` is not positive.
    """
    weight = _weight(module, name)
    if dim is None:
        dim = 1 if any(base.__name__.startswith("ConvTranspose") for base in type(module).__mro__) else 0
    made: Any = register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    at = len(made.parametrizations[name]) - 1
    renamed = {f"{name}_orig": "original", f"{name}_u": f"{at}._u", f"{name}_v": f"{at}._v"}
    module._register_load_state_dict_pre_hook(_Renaming(name, renamed))
    return module


class _Orthogonal(Module):
    """Makes any matrix orthogonal, by the exponential or Cayley map of a skew-symmetric matrix, or by reflections.

    Columns are orthonormal in a tall matrix, rows in a wide one. ``base`` is multiplied with it from the left. The
    arithmetic is that of torch's class.
    """

    base: Tensor

    def __init__(self, weight: Any, orthogonal_map: str, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map = _torchs._OrthMaps[orthogonal_map]
        if use_trivialization:
            self.register_buffer("base", None)

    forward = _torchs._Orthogonal.forward

    def right_inverse(self, value: Any) -> Any:
        return Tensor(_torchs._Orthogonal.right_inverse(self, value.data))


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix orthogonal, so that it changes no length, forwards and backwards (Lezcano-Casado 2019).

    Gradients then neither vanish nor explode in a recurrent network. With ``use_trivialization`` a fixed matrix is
    multiplied with the learned one. See https://arxiv.org/abs/1909.09501.

    Args:
        module: the module.
        name: the name of its matrix, or batch of matrices, of real numbers.
        orthogonal_map: "matrix_exp", "cayley" or "householder"; default: the first for square matrices, else the last.
        use_trivialization: whether there is such a fixed matrix; without it the first value can only be kept by
            "householder".

    Raises:
        ValueError: there is no such matrix, or an unknown map.
        NotImplementedError: the matrix is complex.
    """
    weight = _weight(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if weight.is_complex():
        raise NotImplementedError(f"orthogonal takes real matrices, and '{name}' is complex")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in {"matrix_exp", "cayley", "householder"}:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    return register_parametrization(module, name, _Orthogonal(weight, orthogonal_map, use_trivialization), unsafe=True)
