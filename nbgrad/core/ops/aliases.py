"""torch's other names for rows. Each is the same row, with the same in-place method."""

import torch

from nbgrad.core.dispatch.op import install, install_operator
from nbgrad.core.dispatch.table import Op
from nbgrad.core.ops.elementwise import arithmetic, comparison, powers, rounding, select, special, trigonometry
from nbgrad.core.ops.linalg import matmul
from nbgrad.core.ops.neural import activations


def _also(name: str, row: Op) -> Op:
    """Give ``Tensor`` the row and its in-place twin as methods ``name``, if torch has them; return the row."""
    if hasattr(torch.Tensor, name):
        install(name, row)
    if hasattr(torch.Tensor, f"{name}_"):
        install(f"{name}_", row.in_place)
    return row


absolute = _also("absolute", arithmetic.abs)
divide = _also("divide", arithmetic.div)
multiply = _also("multiply", arithmetic.mul)
negative = _also("negative", arithmetic.neg)
subtract = _also("subtract", arithmetic.sub)
true_divide = _also("true_divide", arithmetic.div)
install_operator("div", arithmetic.div)  # torch still has __rdiv__, a method of Python 2

fix = _also("fix", rounding.trunc)
clip = _also("clip", select.clamp)

greater = _also("greater", comparison.gt)
greater_equal = _also("greater_equal", comparison.ge)
less = _also("less", comparison.lt)
less_equal = _also("less_equal", comparison.le)
not_equal = _also("not_equal", comparison.ne)

arccos = _also("arccos", trigonometry.acos)
arccosh = _also("arccosh", trigonometry.acosh)
arcsin = _also("arcsin", trigonometry.asin)
arcsinh = _also("arcsinh", trigonometry.asinh)
arctan = _also("arctan", trigonometry.atan)
arctan2 = _also("arctan2", trigonometry.atan2)
arctanh = _also("arctanh", trigonometry.atanh)

spmm = matmul.mm  # the product of a sparse matrix of torch's and a dense one: mm takes both

# torch names the functions of torch.special special_NAME, even if torch.NAME exists too.
special_digamma = special_psi = special.digamma
special_erf = special.erf
special_erfc = special.erfc
special_erfinv = special.erfinv
special_exp2 = powers.exp2
special_expit = activations.sigmoid
special_expm1 = powers.expm1
special_gammaln = special.lgamma
special_i0 = special.i0
special_log1p = powers.log1p
special_gammainc = special.igamma
special_gammaincc = special.igammac
special_logit = special.logit
special_multigammaln = special.mvlgamma
special_ndtr = special.ndtr
special_polygamma = special.polygamma
special_round = rounding.round
special_sinc = trigonometry.sinc
special_xlogy = powers.xlogy
