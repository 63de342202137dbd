"""The declarations of a row of the op table: the arguments of ``@op``, each with its type."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nbgrad.core.dispatch.samples import REALS, Domain, Samples
from nbgrad.core.engine.broadcast import Sums


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The declaration of an op, apart from the forward and the rules.

    Attributes:
        formula: LaTeX of the forward, in the symbols of the inputs.
        symbols: the symbols by which the formulas call inputs, settings, results and their gradients (``g_out``), where
            these are not their own letters, nor those of ``formula.LETTERS``: ``{"input": "u"}``. With them
            ``formula_with`` writes the formula with other names.
        name: the op's name; default: that of the function.
        samples: yields the inputs that the tests run the row on.
        kernel: torch's function, where the forward does no more than to hand its inputs on to it, and its settings
            under their names or in its order: a call without settings runs it directly, which saves a frame of Python.
        broadcasts: True if all inputs broadcast, or the names of those that do; the engine undoes it for the rules.
        sums: of inputs that the op stretches by itself, as the bias of a convolution, and whose gradients a fused rule
            gives already summed: by the shapes of the output and the input, what was summed. It is said to observers.
        differentiable: False if the op has no gradient.
        no_gradient: inputs that never get one.
        flat: inputs on which the result depends only by jumps, as the gradient of relu depends on its input.
            Their gradient is zeros and not nothing, as in torch: a Hessian of such ops exists, and is 0.
        outputs: names of the outputs; the first has a gradient, unless the rules name others as ``g_NAME``.
        aux: what the forward returns after its outputs, for the rules alone.
        many: whether the forward returns a tuple of any length, as ``split`` does; each of its tensors has a gradient.
        holomorphic: whether the rules hold for complex numbers as they stand for real ones, as those of a holomorphic
            function do: the engine conjugates them. False if they say themselves what to conjugate, as torch's
            convention has it, as for ``abs``.
        variadic: the setting that takes all remaining positional arguments, as ``shape`` in ``x.reshape(2, 3)``.
        ranks: the numbers of dimensions that the first input has in the samples: where not every one from 0 to 5 is
            possible, those that are.
        domain: where random test inputs are drawn from.
        operator: Python's operator for it, as ``add`` for ``+``.
        method: whether ``Tensor`` has it as a method; default: whether torch's has.
        reference: torch's own function, if it is not the one of the same name.
        policy: torch's function whose autocast policy holds, where the kernel has none of its own on every device.
        view: whether the output may share the memory of the first input.
        inplace: whether there is an in-place twin, a method with an underscore; or what changes a raw tensor so, if
            torch has no method of that name.
        random: whether it draws random numbers: a program keeps every such run, in its order.
        mutates: inputs that it changes in place, as batch_norm changes its running statistics.
        unvaried: settings that all samples leave at one value, each with the reason.
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
