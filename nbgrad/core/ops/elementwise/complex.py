"""Complex numbers: their parts, and ops that make them. Gradients follow torch's convention.

The gradient of a real loss L with respect to z = x + iy is dL/dx + i dL/dy, the direction of steepest ascent: what
gradient descent needs. For a holomorphic function it is the incoming gradient times the conjugate of its derivative:
the engine conjugates. The rows here are not holomorphic: their rules conjugate by themselves.
"""

import torch

from nbgrad.core.dispatch.op import install_property, op
from nbgrad.core.dispatch.samples import Make, Sample, unary
from nbgrad.core.engine.node import identity
from nbgrad.core.engine.traits import Traits
from nbgrad.core.ops.elementwise.rounding import sgn
from nbgrad.core.ops.elementwise.select import where
from nbgrad.core.ops.index.assign import copy


def complex_unary(make: Make):
    """Every shape, real and complex."""
    for sample in unary(make):
        yield Sample.of(make.complex(*sample.args[0].shape))


def _either(make: Make):
    yield from unary(make)
    yield from complex_unary(make)


@op(formula=r"\bar{z}", kernel=torch.conj, samples=_either, holomorphic=False, view=True)
def conj(input):
    """The complex conjugate: the imaginary part with the other sign. A real tensor is as it was.

    Shapes: output as input.
    """


@conj.rule("input", r"\overline{\bar{y}}")
def _(g):
    return conj(g)


@op(formula=r"\bar{z}", kernel=torch.conj_physical, samples=_either, holomorphic=False, view=True, inplace=True)
def conj_physical(input):
    """The complex conjugate, computed: ``conj`` only marks the tensor to be read so.

    Shapes: output as input.
    """


@conj_physical.rule("input", r"\overline{\bar{y}}")
def _(g):
    return conj(g)


@op(formula=r"z", kernel=torch.resolve_conj, samples=_either, holomorphic=False, view=True)
def resolve_conj(input):
    """The same numbers; a conjugation that was only marked is carried out in memory.

    Shapes: output as input.
    """


@resolve_conj.rule("input", r"\bar{y}", kernel=identity)
def _(g):
    return g


@op(formula=r"z", kernel=torch.resolve_neg, samples=_either, holomorphic=False, view=True)
def resolve_neg(input):
    """The same numbers; a change of sign that was only marked is carried out in memory.

    The imaginary part of a conjugate is so marked.

    Shapes: output as input.
    """


@resolve_neg.rule("input", r"\bar{y}", kernel=identity)
def _(g):
    return g


@op(formula=r"\operatorname{Re} z", kernel=torch.real, samples=_either, holomorphic=False, view=True, method=False)
def real(input):
    """The real part, in the memory of the complex tensor. A real tensor is as it was.

    Shapes: output as input, of the real element type.
    """


@real.rule("input", r"\bar{y}", kernel=identity)
def _(g):
    return g


@op(
    formula=r"\operatorname{Im} z", kernel=torch.imag, samples=complex_unary, holomorphic=False, view=True, method=False
)
def imag(input):
    """The imaginary part, in the memory of the complex tensor.

    Shapes: output as input, of the real element type. Raises RuntimeError on a real tensor.
    """


@imag.rule("input", r"i \bar{y}")
def _(g):
    return complex(g.new_zeros(()), g)  # a product with i would make NaN of an infinite gradient


def _pairs(make: Make):
    yield from (Sample.of(make(*shape), make(*shape)) for shape in ((), (3,), (2, 3), (2, 1, 3), (0,)))
    yield Sample.of(make(2, 2, 1, 3), make(2, 1))
    yield Sample.of(make(1, 2, 2, 1, 2), make(3, 1, 2, 2, 1))


@op(
    formula=r"a + i b",
    symbols={"real": "a", "imag": "b"},
    kernel=torch.complex,
    samples=_pairs,
    broadcasts=True,
    holomorphic=False,
)
def complex(real, imag):
    """The complex number with these two parts.

    Shapes: both broadcast to the output. Raises RuntimeError where the parts have different or no real element types.
    """


@complex.rule("real", r"\operatorname{Re} \bar{y}")
def _(g):
    return real_part(g)


@complex.rule("imag", r"\operatorname{Im} \bar{y}")
def _(g):
    return imag(g)


@op(
    formula=r"r (\cos \varphi + i \sin \varphi)",
    symbols={"abs": "r", "angle": r"\varphi"},
    kernel=torch.polar,
    samples=_pairs,
    broadcasts=True,
    holomorphic=False,
)
def polar(abs, angle):
    """The complex number of this size and this angle.

    Shapes: both broadcast to the output. Raises RuntimeError where the two have different or no real element types.
    """


@polar.rule("abs", r"\operatorname{Re}(\bar{y}\, e^{-i \varphi})")
def _(g, out):
    return real_part(g * conj(sgn(out)))


@polar.rule("angle", r"\operatorname{Re}(\bar{y}\, \overline{i y})")
def _(g, out):
    return real_part(g * conj(1j * out))


def _with_two(make: Make):
    yield from (Sample.of(make(*shape, 2)) for shape in ((), (3,), (2, 3), (2, 1, 3), (2, 2, 1, 3), (0,)))


@op(
    formula=r"x_{..., 0} + i x_{..., 1}",
    kernel=torch.view_as_complex,
    samples=_with_two,
    ranks=range(1, 6),
    holomorphic=False,
    view=True,
    traits=Traits(laid=True),
)
def view_as_complex(input):
    """Pairs of real numbers, read as complex ones in the same memory.

    Shapes: (..., 2) gives (...). Raises RuntimeError where the last dimension is not 2.
    """


@view_as_complex.rule("input", r"(\operatorname{Re} \bar{y}, \operatorname{Im} \bar{y})")
def _(g):
    return view_as_real(resolve_conj(g))


@op(
    formula=r"(\operatorname{Re} z, \operatorname{Im} z)",
    kernel=torch.view_as_real,
    samples=complex_unary,
    holomorphic=False,
    view=True,
    traits=Traits(laid=True),
)
def view_as_real(input):
    """Complex numbers, read as pairs of real ones in the same memory.

    Shapes: (...) gives (..., 2). Raises RuntimeError on a real tensor.
    """


@view_as_real.rule("input", r"\bar{y}_{..., 0} + i \bar{y}_{..., 1}")
def _(g):
    return complex(g[..., 0], g[..., 1])


@op(formula=r"\arg z", kernel=torch.angle, samples=_either, holomorphic=False, traits=Traits(jumps=True))
def angle(input):
    """The angle of a complex number, between -pi and pi; of a real one 0 or pi, with no gradient.

    Shapes: output as input, of the real element type.
    """


@angle.rule("input", r"\bar{y} \frac{i z}{|z|^2}")
def _(g, input):
    if not input.is_complex():
        return torch.zeros_like(g)
    size = real_part(input) ** 2 + imag(input) ** 2
    there = size != 0
    return where(there, g / where(there, size, 1.0), 0.0) * (1j * input)


def real_part(x):
    """The real part of a complex tensor; a real tensor is returned as it is, without a call of the row."""
    return real(x) if x.is_complex() else x


def _set_real(self, value):
    copy.in_place(real(self), value)


def _set_imag(self, value):
    copy.in_place(imag(self), value)


install_property("real", real, _set_real)
install_property("imag", imag, _set_imag)
