"""The old names of modules. Pickles of version 0.1.0 contain these names, so modules are found under them too.

This module knows nothing of the rest of nbgrad.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_NAMES = {
    "core.dispatch.exports": "core.naming",
    "core.dispatch.function": "core.function",
    "core.functional.grad": "core.grad",
    "core.functional.jacobian": "core.jacobian",
    "core.functional.products": "core.functional",
    "core.interop.numpy_arrays": "core.arrays",
    "core.interop.torch_functions": "core.interop",
    "core.suggestions": "core.spelling",
    "core.tensor.tensor": "core.tensor",
    "nn.adaptive_softmax": "nn.adaptive",
    "nn.containers": "nn.collection nn.container",
    "nn.extra_blocks": "nn.composite",
    "nn.fold": "nn.columns",
    "nn.function_block": "nn.block",
    "nn.loss": "nn.margin",
    "nn.module.call": "nn.calling",
    "nn.module.lazy": "nn.lazy",
    "nn.module.module": "nn.module",
    "nn.module.state_dict": "nn.saving",
    "nn.normalization": "nn.batchnorm",
    "nn.positional_encoding": "nn.position",
    "nn.recurrent": "nn.cells",
    "nn.upsampling": "nn.vision",
    "nn.utils.clip_grad": "nn.utils.clipping",
    "nn.utils.convert_parameters": "nn.utils.vectors",
    "nn.utils.weight_norm_hooks": "nn.utils.renewing",
    "optim.torch_optimizer": "optim.torchs",
}
"""By the name of a module today: the old names of the modules whose contents it took over."""

_OPS = {
    "_autocast": "casting",
    "create.random": "drawing gammas",
    "create.tensors": "creating",
    "elementwise.arithmetic": "arithmetic",
    "elementwise.comparison": "comparison",
    "elementwise.complex": "complex",
    "elementwise.powers": "logarithms powers",
    "elementwise.rounding": "rounding",
    "elementwise.select": "choosing",
    "elementwise.special": "bessel gamma special",
    "elementwise.trigonometry": "trigonometry",
    "index.assign": "assignment putting",
    "index.getitem": "indexing picking",
    "index.scatter": "scatter scattering",
    "linalg.decompositions": "decomposition lowrank reflections",
    "linalg.diagonals": "diagonals",
    "linalg.einsum": "einsum",
    "linalg.factorizations": "factors",
    "linalg.matmul": "adding linalg",
    "linalg.matrix_functions": "determinants matrices",
    "linalg.solve": "least solving",
    "loss.binary": "binary",
    "loss.classification": "classification",
    "loss.likelihood": "ctc likelihood",
    "loss.margin": "margin ranking",
    "loss.regression": "loss",
    "neural.activations": "activation exponential gates",
    "neural.attention": "attention fused",
    "neural.convolution": "columns convolution",
    "neural.distance": "distance",
    "neural.dropout": "dropout",
    "neural.embedding": "embedding",
    "neural.interpolation": "grids resampling sampling",
    "neural.multihead": "heads",
    "neural.normalization": "normalization normalizing",
    "neural.pooling": "averaging pooling pools",
    "neural.rectifiers": "piecewise rectifier",
    "neural.recurrent": "recurrent steps",
    "neural.rnn": "packing sequence",
    "neural.softmax": "softmax",
    "reduce.cumulative": "scan",
    "reduce.extremes": "extremes",
    "reduce.norms": "norms",
    "reduce.reductions": "products reduction",
    "reduce.sorting": "sorting",
    "reduce.statistics": "statistics",
    "shape.conversion": "conversion",
    "shape.joining": "joining",
    "shape.padding": "padding",
    "shape.repeating": "repeating",
    "shape.splitting": "splitting",
    "shape.strided": "copies windows",
    "shape.views": "dimensions shape",
    "signal.fft": "fourier spectrum",
    "signal.stft": "signals",
    "torch_signatures": "calling",
}
"""The same for ops."""

_MOVED = {
    **{f"nbgrad.{old}": f"nbgrad.{new}" for new, olds in _NAMES.items() for old in olds.split()},
    **{f"nbgrad.core.ops.{old}": f"nbgrad.core.ops.{new}" for new, olds in _OPS.items() for old in olds.split()},
}


_PACKAGES = {new.rpartition(".")[0] for new in _MOVED.values()} & _MOVED.keys()
"""Packages that have the old name of a module: each has ``formerly`` as its ``__getattr__``."""


def formerly(package: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package with the name of a module of version 0.1.0: it finds that module's names."""

    def find(name: str) -> Any:
        if not name.startswith("__") and find_spec(f"{package}.{name}") is None:
            found = getattr(import_module(_MOVED[package]), name, None)
            if found is not None:
                return found
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find


class _Moved(ModuleType):
    """A module under its old name: it reads every attribute from the module that has its contents now."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MOVED[self.__name__]), name)


def add_moved(modules: dict[str, ModuleType]) -> None:
    """Have modules found under their old names too.

    They are not imported, which would put each into its package, where a function may have the same name.

    Args:
        modules: ``sys.modules``.
    """
    for old in _MOVED:
        if old not in _PACKAGES:
            modules.setdefault(old, _Moved(old))
