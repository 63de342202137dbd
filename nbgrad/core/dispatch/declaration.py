"""The declarations of a row of the op table: the arguments of ``@op``, each with its type."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbgrad.core.dispatch.samples import REALS, Domain, Samples
from nbgrad.core.engine.broadcast import Sums
from nbgrad.core.engine.traits import NONE, Traits


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The declaration of an op, apart from the forward and the rules.

    Attributes:
        formula: LaTeX of the forward, in the symbols of the inputs.
        symbols: the symbols of inputs, settings, results and their gradients (``g_out``) in the formulas, such as
            ``{"input": "u"}``. Names of one letter and the names in ``formula.LETTERS`` need no entry. ``formula_with``
            replaces these symbols by other names.
        name: the op's name; default: that of the function.
        samples: yields the inputs that the tests run the row on.
        kernel: torch's function, if it is the forward: it takes the inputs in their order, and the settings by their
            names. The decorated function then needs no body: it has the parameters and the docstring.
        broadcasts: True if all inputs broadcast, or the names of those that do. The engine then sums their gradients.
        sums: a function for each input that a fused kernel broadcasts, such as the bias of a convolution. The kernel
            returns the gradient of such an input already summed. The function gets the shapes of output and input, and
            returns this reduction for observers.
        differentiable: False if the op has no gradient.
        no_gradient: inputs that never get a gradient.
        flat: inputs on which the result depends only by jumps, as the gradient of relu depends on its input.
            Their gradient is zeros instead of None, as in torch: a Hessian of such ops exists, and is 0.
        outputs: names of the outputs; the first has a gradient, unless the rules name others as ``g_NAME``.
        aux: names of further results of the forward, after its outputs, which only the rules get.
        many: whether the forward returns a tuple of any length, as ``split`` does; each of its tensors has a gradient.
        holomorphic: True if the op is a holomorphic function, whose rules are written for real numbers: the engine
            conjugates for complex numbers. False if the rules conjugate by themselves, by torch's convention, as for
            ``abs``.
        variadic: the setting that takes all remaining positional arguments, as ``shape`` in ``x.reshape(2, 3)``.
        ranks: the numbers of dimensions of the first input in the samples, if not all from 0 to 5 are possible.
        domain: the interval from which random test inputs are drawn.
        operator: Python's operator for it, as ``add`` for ``+``.
        method: whether ``Tensor`` has it as a method; default: whether torch's has.
        reference: torch's function for the op, if it has another name, and the forward does more than call it.
            ``torch.linalg.det`` has the name of linalg_det.
        policy: torch's function whose autocast policy holds, if the kernel does not have one on every device.
        view: whether the output may share the memory of the first input.
        inplace: whether there is an in-place form, a method with an underscore; or, if torch has no method of that
            name, a function that changes a raw tensor in place.
        random: whether it draws random numbers: a program keeps every such run, in its order.
        mutates: inputs that it changes in place, as batch_norm changes its running statistics.
        unvaried: settings that all samples leave at one value, each with the reason.
        traits: what it does to numbers and gradients: see ``Traits``.
    """

    formula: str
    symbols: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    samples: Samples
    kernel: Callable[..., Any] | None = None
    broadcasts: bool | tuple[str, ...] = False
    sums: dict[str, Sums] = field(default_factory=dict)
    differentiable: bool = True
    no_gradient: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("out",)
    aux: tuple[str, ...] = ()
    many: bool = False
    holomorphic: bool = True
    variadic: str | None = None
    ranks: Sequence[int] = range(6)
    domain: Domain = REALS
    operator: str | None = None
    method: bool | None = None
    reference: Callable[..., Any] | None = None
    policy: Callable[..., Any] | None = None
    view: bool = False
    inplace: bool | Callable[..., None] = False
    random: bool = False
    mutates: tuple[str, ...] = ()
    unvaried: dict[str, str] = field(default_factory=dict)
    traits: Traits = NONE
