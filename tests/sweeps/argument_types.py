"""Arguments of other element types and few dimensions: where torch has a gradient, nbgrad has one of the same type."""

from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tests.core import calls
from tests.core.closeness import SINGLE

CASES = 150

DTYPES = (torch.bool, torch.int32, torch.int64, torch.float32, torch.float64, torch.complex64, torch.complex128)
SHAPES = ((), (), (3,), (3,), (1,), (2, 3), (3, 1), (0, 3))


def check(random: Random) -> None:
    """Call one function with random types, ranks and gradients, and compare with torch up to the second order."""
    name = random.choice(list(CALLS))
    draw = Draw(random)
    args = CALLS[name](draw)
    constant = random.random() < 0.5
    kinds = {one.dtype for one in tree_leaves(args) if isinstance(one, torch.Tensor)}
    mixed = bool(kinds & {torch.float32, torch.complex64}) and bool(kinds & {torch.float64, torch.complex128})
    tolerance = SINGLE if mixed else None
    found = calls.difference(function_of(name), *args, constant_seeds=constant, tolerance=tolerance, exact=False)
    told = [
        (str(one.dtype), tuple(one.shape), one.requires_grad) if isinstance(one, torch.Tensor) else one for one in args
    ]
    assert not found, f"{name}{told}, {constant=}: {found}"


def function_of(name: str) -> Callable[..., Any]:
    """torch's function of that name."""
    function: Any = torch
    for part in name.split("."):
        function = getattr(function, part)
    result: Callable[..., Any] = function
    return result


class Draw:
    """Random tensors of random types."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.generator = torch.Generator().manual_seed(random.randrange(10**9))
        self.dtypes = random.choice([DTYPES, DTYPES[:5], DTYPES[3:], (torch.float32, torch.float64)])

    def tensor(self, *shape: int) -> torch.Tensor:
        """Numbers of a random type. If they can need a gradient, they usually do."""
        dtype = self.random.choice(self.dtypes)
        drawn = torch.randn(shape, generator=self.generator, dtype=torch.float64) * 2
        if dtype.is_complex:
            drawn = torch.complex(drawn, torch.randn(shape, generator=self.generator, dtype=torch.float64))
        made = drawn > 0 if dtype is torch.bool else drawn.to(dtype)
        can = dtype.is_floating_point or dtype.is_complex
        return made.requires_grad_(can and self.random.random() < 0.7)

    def any(self) -> torch.Tensor:
        """A tensor of a random shape."""
        return self.tensor(*self.random.choice(SHAPES))

    def operand(self) -> Any:
        """A tensor, or a number of Python's."""
        return self.random.choice([2, 0.5, True]) if self.random.random() < 0.15 else self.any()

    def index(self, *shape: int, high: int = 3) -> torch.Tensor:
        """Whole numbers."""
        return torch.randint(high, shape, generator=self.generator)


def _pair(draw: Draw) -> list[Any]:
    return [draw.any(), draw.operand()]


def _exponents(draw: Draw) -> list[Any]:
    other = draw.any()
    whole = not (other.is_floating_point() or other.is_complex() or other.dtype is torch.bool)
    return [draw.any(), other.abs() if whole else other]  # for a gradient torch computes 2 ** -1 as 0


def _three(draw: Draw) -> list[Any]:
    return [draw.any(), draw.any(), draw.any()]


def _where(draw: Draw) -> list[Any]:
    return [draw.index(*draw.random.choice(SHAPES)) > 0, draw.operand(), draw.operand()]


def _one(draw: Draw) -> list[Any]:
    return [draw.any()]


def _several(draw: Draw) -> list[Any]:
    return [[draw.tensor(2, 3) for _ in range(draw.random.randint(1, 3))]]


def _blocks(draw: Draw) -> list[Any]:
    return [draw.any() for _ in range(draw.random.randint(1, 3))]


def _scatter(draw: Draw) -> list[Any]:
    rank = draw.random.choice([0, 1, 1])
    source = draw.any() if draw.random.random() < 0.5 else draw.tensor(*(3,) * rank)
    places = draw.random.choice([torch.tensor(1), torch.tensor([2, 0, 1]), torch.tensor([1]), torch.tensor(0)])
    return [draw.tensor(*(3,) * rank), 0, places, source]


def _indexed(draw: Draw) -> list[Any]:
    x = draw.random.choice([(3,), (3, 2), ()])
    index = draw.random.choice([torch.tensor(0), torch.tensor([0]), torch.tensor([2, 0])])
    return [draw.tensor(*x), 0, index, draw.tensor(*index.shape, *x[1:])]


def _filled(draw: Draw) -> list[Any]:
    return [draw.tensor(3), 0, torch.tensor([1, 2]), draw.random.choice([draw.tensor(), 2, 0.5])]


def _masked(draw: Draw) -> list[Any]:
    shape = draw.random.choice(SHAPES)
    return [draw.tensor(*shape), draw.index(*shape, high=2).bool(), draw.random.choice([draw.tensor(), 2, 0.5])]


def _linear(draw: Draw) -> list[Any]:
    x, w, b = (draw.random.choice(shapes) for shapes in (((3,), (2, 3), (4, 2, 3), (0, 3)), ((3,), (2, 3)), ((), (2,))))
    args = [draw.tensor(*x), draw.tensor(*w)]
    return [*args, draw.tensor(*b)] if draw.random.random() < 0.5 else args


def _product(draw: Draw) -> list[Any]:
    return [
        draw.tensor(*draw.random.choice([(3,), (2, 3), (4, 2, 3)])),
        draw.tensor(*draw.random.choice([(3,), (3, 2)])),
    ]


def _vectors(draw: Draw) -> list[Any]:
    return [draw.tensor(3), draw.tensor(3)]


def _added_product(draw: Draw) -> list[Any]:
    return [draw.tensor(*draw.random.choice([(), (2,), (2, 2), (1, 2)])), draw.tensor(2, 3), draw.tensor(3, 2)]


def _cosine(draw: Draw) -> list[Any]:
    return [draw.tensor(2, 3), draw.tensor(*draw.random.choice([(3,), (2, 3), (1, 3)])), 1]


def _alike(draw: Draw) -> list[Any]:
    shape = draw.random.choice(SHAPES)
    return [draw.tensor(*shape), draw.tensor(*shape)]


CALLS: dict[str, Callable[[Draw], list[Any]]] = {
    **dict.fromkeys(
        (
            *("add", "sub", "mul", "div", "pow", "atan2", "hypot", "fmod", "remainder", "maximum", "minimum", "fmax"),
            *("fmin", "copysign", "xlogy", "logaddexp", "logaddexp2", "heaviside", "true_divide", "rsub"),
            *("floor_divide", "special.xlog1py", "float_power", "dist", "outer", "kron", "inner", "Tensor.__rsub__"),
            *("Tensor.__rpow__", "gcd", "complex", "polar", "tensordot", "cdist"),
        ),
        _pair,
    ),
    **dict.fromkeys(("lerp", "addcmul", "addcdiv", "clamp"), _three),
    **dict.fromkeys(
        (
            *("Tensor.mH", "Tensor.H", "Tensor.mT", "Tensor.T"),
            *("sum", "mean", "prod", "var", "std", "cumsum", "abs", "angle", "real", "imag", "sgn", "sign", "exp"),
            *("logsumexp", "norm", "softmax", "trace", "atleast_2d", "conj", "neg", "sqrt", "square", "reciprocal"),
        ),
        _one,
    ),
    **dict.fromkeys(("cat", "stack", "hstack", "vstack", "dstack", "column_stack"), _several),
    **dict.fromkeys(("block_diag", "cartesian_prod", "broadcast_tensors", "meshgrid"), _blocks),
    "where": _where,
    "ldexp": _exponents,
    **dict.fromkeys(("scatter", "scatter_add"), _scatter),
    **dict.fromkeys(("index_add", "index_copy"), _indexed),
    "index_fill": _filled,
    "masked_fill": _masked,
    "nn.functional.linear": _linear,
    **dict.fromkeys(("matmul", "Tensor.__rmatmul__"), _product),
    **dict.fromkeys(("dot", "vdot", "linalg.cross", "linalg.vecdot"), _vectors),
    **dict.fromkeys(("addmm",), _added_product),
    "nn.functional.cosine_similarity": _cosine,
    **dict.fromkeys(
        (
            *("nn.functional.mse_loss", "nn.functional.l1_loss", "nn.functional.smooth_l1_loss"),
            *("nn.functional.huber_loss", "nn.functional.kl_div", "nn.functional.binary_cross_entropy_with_logits"),
            *("nn.functional.soft_margin_loss", "nn.functional.pairwise_distance"),
        ),
        _alike,
    ),
}
