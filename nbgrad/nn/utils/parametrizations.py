"""Parametrizations of weights: by length and direction, of spectral norm 1, and orthogonal."""

from typing import Any

import torch

from nbgrad import linalg
from nbgrad.core.ops import cat, dot, matrix_exp, mv, normalize, tril
from nbgrad.core.ops.linalg.weight_norm import norm_except_dim, weight_norm as renewed
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.nn.module.module import Module
from nbgrad.nn.utils.parametrize import register_parametrization


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

    Columns are orthonormal in a tall matrix, rows in a wide one. ``base`` is multiplied with it from the left.
    """

    base: Tensor

    def __init__(self, weight: Any, orthogonal_map: str, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape = weight.shape
        self.orthogonal_map: Any = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    @property
    def _map(self) -> str:
        """The name of the map. A module converted from torch has a member of torch's enum there."""
        return str(getattr(self.orthogonal_map, "name", self.orthogonal_map))

    def forward(self, weight: Any) -> Any:
        wide = weight.shape[-2] < weight.shape[-1]
        x = weight.transpose(-2, -1) if wide else weight
        q = _reflected(x) if self._map == "householder" else _rotated(x, self._map)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.transpose(-2, -1) if wide else q

    def right_inverse(self, value: Any) -> Any:
        if value.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}, got {value.shape}")
        given = value.data
        wide = given.shape[-2] < given.shape[-1]
        q = given.mT if wide else given
        rows, columns = q.shape[-2:]
        if not hasattr(self, "base"):
            if self._map != "householder":
                raise NotImplementedError(
                    f"It is not possible to assign to the {self._map} parametrization when use_trivialization=False."
                )
            a, tau = torch.geqrf(q)
            diagonal = a.diagonal(dim1=-2, dim2=-1)
            diagonal.sign_()
            diagonal[tau == 0] *= -1
            return Tensor(a.mT if wide else a)
        if rows != columns:
            q = torch.cat([q, torch.randn(*q.shape[:-1], rows - columns, dtype=q.dtype, device=q.device)], dim=-1)
        self.base = Tensor(q.clone() if rows == columns and _is_orthogonal(q) else _made_orthogonal(q))
        start = torch.zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1)
        return Tensor(start)


def _rotated(x: Any, kind: str) -> Any:
    """The first columns of the rotation that the lower triangle of a tall matrix stands for."""
    rows, columns = x.shape[-2:]
    lower = tril(x)
    if rows != columns:
        rest = torch.zeros(*x.shape[:-1], rows - columns, dtype=x.dtype, device=x.device)
        lower = cat([lower, rest], dim=-1)
    skew = lower - lower.transpose(-2, -1)
    if kind == "matrix_exp":
        q = matrix_exp(skew)
    else:
        one = torch.eye(rows, dtype=x.dtype, device=x.device)
        q = linalg.solve(one - skew / 2, one + skew / 2)
    return q[..., :columns] if rows != columns else q


def _reflected(x: Any) -> Any:
    """The product of the reflections whose normals stand below the diagonal of a tall matrix."""
    normals = tril(x, -1)
    q = linalg.householder_product(normals, 2 / (1 + (normals * normals).sum(dim=-2)))
    return q * x.data.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)


def _is_orthogonal(q: torch.Tensor) -> bool:
    one = torch.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    return torch.allclose(q.mT @ q, one, atol=10 * q.shape[-2] * torch.finfo(q.dtype).eps)


def _made_orthogonal(a: torch.Tensor) -> torch.Tensor:
    """The Q of the QR decomposition whose R has a positive diagonal."""
    x, tau = torch.geqrf(a)
    q: torch.Tensor = torch.linalg.householder_product(x, tau)
    return q * x.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


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
