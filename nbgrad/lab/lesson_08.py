"""The exercises of lesson 8: gradients that vanish and explode, a network of fifty layers, and gains."""

import math
from collections.abc import Callable
from typing import Any

import torch

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.ops import relu, sigmoid, tanh
from nbgrad.core.suggestions import kind_of
from nbgrad.core.tensor.comparison import Deviation, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise
from nbgrad.lab.judges import Case, FunctionJudge, is_near, needs_function, number_of
from nbgrad.lab.running import Refused, attempt
from nbgrad.nn.functional import cross_entropy
from nbgrad.nn.module.module import Module
from nbgrad.nn.modules.module import register_module_forward_hook
from nbgrad.optim import SGD

# 8.1: what is left after some sigmoids.


def _lefts() -> list[Case]:
    cases = []
    for layers in (1, 3, 4, 12):
        x = tensor(0.0, dtype=torch.float64, requires_grad=True)
        sigmoid(x).backward()
        cases.append(Case((layers,), float(numbers_of(x.grad)) ** layers, f"kept({layers})"))
    return cases


def _about_left(got: Any, case: Case) -> Deviation | None:
    (layers,) = case.arguments
    value = number_of(got)
    if value is None:
        return None
    slope = case.right ** (1 / layers)
    if layers > 1 and math.isclose(value, slope, rel_tol=1e-3):
        return Deviation("numbers", "it is what one sigmoid leaves: it has to depend on the number of layers")
    if layers == 1 and value == 1:
        return Deviation("shifted", "one sigmoid does not leave the whole gradient: it multiplies by its slope, too")
    for wrong, kind, text in (
        (0.5**layers, "numbers", "it takes the value of a sigmoid at 0: the gradient is multiplied by its slope there"),
        (1 / case.right, "factor", "it grows with the number of layers: less is left after each of them"),
        (slope * layers, "numbers", "the slopes of layers in a row are multiplied, and not added"),
        (slope / layers, "numbers", "it is divided by the number of layers: each layer multiplies once more"),
        (0.5 ** (layers + 1), "numbers", "the power belongs to the whole slope: parentheses are missing around it, "
         "(h * (1 - h))"),
        (_in_a_row(layers), "numbers", "that is the share for x = 0, where only the first sigmoid is at its "
         "steepest. The largest share is asked for: each sigmoid at its steepest"),
        (100 * case.right, "factor", "that is in percent: a share is a part of 1"),
        (case.right * slope, "shifted", "that is one sigmoid too many"),
        (1 - case.right, "offset", "that is the share that is lost: the share that is left is asked for"),
    ):  # fmt: skip
        if math.isclose(value, wrong, rel_tol=1e-3):
            return Deviation(kind, text)
    if value in (round(case.right, digits) for digits in range(8)):
        return Deviation("rounding", "the function rounds it: give the number as it is")
    return None


def _in_a_row(layers: int) -> float:
    """The gradient that ``layers`` sigmoids leave. The first gets 0, each other one the value before it."""
    x = tensor(0.0, dtype=torch.float64, requires_grad=True)
    h = x
    for _ in range(layers):
        h = sigmoid(h)
    h.backward()
    return float(numbers_of(x.grad))


def _kept(answer: Any) -> Deviation | None:
    # Twelve layers leave less than the tolerance that suits other exercises: here the logarithms are compared.
    judge = FunctionJudge(_lefts, "kept(layers)", _about_left)
    if (found := judge(answer)) is not None:
        return found
    for case in _lefts():
        value = number_of(attempt(case.said, answer, *case.arguments))
        if value is None or value <= 0 or abs(math.log(value / case.right)) > 1e-3:
            told = None if value is None else _about_left(value, case)
            return Deviation(
                "numbers",
                "{said}: {reason}",
                said=translate(case.said),
                reason=told or translate("it is right for few layers only"),
            )
    return None


# 8.2: fifty layers.

_LAYERS, _WIDTH, _FEW = 50, 32, 3

_RELUS = {"relu", "relu_", "clamp", "clamp_", "maximum", "threshold", "leaky_relu"}
"""Ops that a ReLU may be written with."""


def _cured(answer: Any) -> Deviation | None:
    if isinstance(answer, Module):
        return Deviation("type", "a function that makes the network is expected, deep_cured(layers), not a network")
    needs_function(answer, "deep_cured(layers)")
    generator = torch.Generator().manual_seed(83)
    x = torch.rand((64, 64), generator=generator, dtype=torch.float64)
    labels = torch.randint(10, (64,), generator=generator)
    net, few = (attempt(f"deep_cured({layers})", answer, layers) for layers in (_LAYERS, _FEW))
    for layers, one in ((_LAYERS, net), (_FEW, few)):
        if not isinstance(one, Module):
            text = "deep_cured({layers}) has to give a network, a Module: is there a return?"
            return Deviation("type", text, layers=layers)
    kind = next((one.dtype for one in net.parameters()), torch.float64)
    images = tensor(x.to(kind))
    said = translate("the network of deep_cured({layers})", layers=_LAYERS)
    found: Deviation | None = attempt(said, _of_network, net, images, tensor(labels))
    if found is None and len(_inner(few)) == len(_inner(net)):
        text = "deep_cured({few}) makes as many layers as deep_cured({layers}): the argument says how many"
        return Deviation("shape", text, few=_FEW, layers=_LAYERS)
    return found


def _inner(net: Module) -> list[Any]:
    """The weights of the layers that have a way around."""
    return [one for one in net.parameters() if tuple(one.shape) == (_WIDTH, _WIDTH)]


def _size_of(values: Tensor) -> float:
    """The root of the mean square."""
    return float((numbers_of(values).double() ** 2).mean() ** 0.5)


class _Seen:
    """Measures in a ``with`` block the largest result of any module: a last norm may hide values that have grown."""

    def __init__(self) -> None:
        self.size = 0.0

    def __enter__(self) -> None:
        self._handle = register_module_forward_hook(self._look)

    def __exit__(self, *_: object) -> None:
        self._handle.remove()

    def _look(self, _: Any, __: Any, result: Any) -> None:
        if isinstance(result, Tensor):
            size = _size_of(result)
            self.size = max(self.size, size) if math.isfinite(size) else math.inf

    def grown(self) -> Deviation | None:
        """The message for values that have grown; None if they have not."""
        if self.size < 100:
            return None
        return Deviation(
            "factor" if math.isfinite(self.size) else "not finite",
            "inside of a fresh network values have the size {size:.1e}: they grow from block to block",
            size=self.size,
        )


def _of_network(net: Module, images: Tensor, labels: Tensor) -> Deviation | None:
    seen = _Seen()
    with AutogradGraph() as graph, seen:
        scores = net(images)
    bent = sum(record.op is not None and record.op.name in _RELUS for record in graph.records)
    if (found := seen.grown()) is not None:
        return found
    if (found := _of_scores(scores)) is not None:
        return found
    inner = _inner(net)
    if len(inner) < _LAYERS:
        return Deviation(
            "shape",
            "a weight of shape ({width}, {width}) is expected in each of {layers} layers, so that the network is "
            "still the one to cure; the answer has {count}",
            count=len(inner),
            width=_WIDTH,
            layers=_LAYERS,
        )
    if bent < _LAYERS:
        return Deviation(
            "element", "it has {bent} ReLU: one in each of {layers} layers is expected", bent=bent, layers=_LAYERS
        )
    cross_entropy(scores, labels).backward()
    sizes = [0.0 if one.grad is None else float(numbers_of(one.grad).norm()) for one in inner]
    if (dead := sizes.count(0.0)) > 0:
        return Deviation(
            "zero", "{dead} of the {layers} layers get no gradient at all: they cannot learn", dead=dead, layers=_LAYERS
        )
    others = [numbers_of(one.grad) for one in net.parameters() if one.grad is not None and one.grad.ndim == 2]
    if max(float(one.norm()) for one in others) / min(sizes) > 1e4:
        return Deviation(
            "row",
            "the largest gradient of a layer is more than 10,000 times the smallest. Is there a way around each layer? "
            "Do the blocks add too little, or is their sum made smaller again and again?",
        )
    if not _goes_around(net, images, inner):
        return Deviation(
            "element",
            "as a test the weights of the layers were set to 0, and nothing of the image reached the scores: keep a "
            "way around each layer",
        )
    return _after_steps(net, images, labels, _size_of(scores))


def _of_scores(scores: Any) -> Deviation | None:
    if not isinstance(scores, Tensor):
        return Deviation("type", "the network gives {kind}, where a tensor is expected", kind=kind_of(scores))
    if tuple(scores.shape) != (64, 10):
        return Deviation(
            "shape", "for images of shape (64, 64) it gives {shape}: (64, 10) is expected", shape=tuple(scores.shape)
        )
    values = numbers_of(scores)
    if float(values.min()) >= 0 and is_near(values.sum(1), torch.ones(64, dtype=values.dtype)):
        text = (
            "its ten scores are probabilities, with the sum 1: cross_entropy has a softmax inside, so end without one"
        )
        return Deviation("numbers", text)
    return None


def _goes_around(net: Module, images: Tensor, inner: "list[Any]") -> bool:
    """Whether the image reaches the scores past the layers."""
    kept = [numbers_of(one).clone() for one in inner]
    for one in inner:
        one.data.zero_()
    scores = numbers_of(net(images))
    for one, old in zip(inner, kept, strict=True):
        one.data.copy_(old)
    return bool(scores.std(0).max() > 1e-6)


def _after_steps(net: Module, images: Tensor, labels: Tensor, size: float) -> Deviation | None:
    """Train a little, as the lesson does."""
    optimizer = SGD(net.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(numbers_of(loss)))
    if not all(map(math.isfinite, losses)):
        step = next(at for at, one in enumerate(losses) if not math.isfinite(one))
        return Deviation("not finite", "after {step} steps of training the loss is NaN or Inf", step=step)
    if losses[-1] > losses[0] + 1:
        text = translate("what the blocks add is still too large, or changes too much in a step")
        scores = translate("The scores of the fresh network have the size {size:.2g}", size=size)
        return Deviation(
            "numbers", "in twenty steps the loss rises by more than 1: {reason}. {scores}", reason=text, scores=scores
        )
    return None


# 8.3: the gain of an activation.

_ACTIVATIONS: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("the identity", lambda z: z),  # the first one: it shows whether the numbers are normally distributed
    ("relu", relu),
    ("tanh", tanh),
    ("sigmoid", sigmoid),
    ("the sign, times two", lambda z: z.sign() * 2),
)
_CLOSE = 0.03
"""How far a gain that was measured on random numbers may be off."""


_MANY = 100_000
"""On how many numbers it has to be measured."""


def _moments(activation: Callable[[Any], Any]) -> tuple[float, float]:
    """The mean of the squares of what an activation gives for normal numbers, and its variance."""
    z = torch.linspace(-9, 9, 20001, dtype=torch.float64)
    weight = torch.exp(-z * z / 2)
    weight /= weight.sum()
    value = numbers_of(activation(tensor(z)))
    square, mean = float((weight * value * value).sum()), float((weight * value).sum())
    return square, square - mean * mean


def _gains() -> list[Case]:
    return [Case((one,), _moments(one)[0] ** -0.5, f"gain({translate(name)})") for name, one in _ACTIVATIONS]


def _about_gain(got: Any, case: Case) -> Deviation | None:
    value = number_of(got)
    if value is None:
        return None
    if case.said.endswith("(the identity)"):
        if math.isclose(value, (math.pi / 2) ** 0.5, rel_tol=0.01):
            return Deviation(
                "numbers", "it takes the mean of the sizes: take the mean of the squares, and then its root"
            )
        if any(math.isclose(value, _moments(one)[0] ** -0.5, rel_tol=0.01) for one in (relu, tanh)):
            return Deviation("numbers", "that is the gain of another activation: call the one that is given")
        return Deviation(
            "factor",
            "the identity changes nothing, so no factor is needed. Do the numbers come from nbgrad.randn, and are they "
            "100,000? Those of rand have another mean square, and that of few numbers varies",
        )
    square, variance = _moments(case.arguments[0])
    for wrong, kind, text in (
        (variance**-0.5, "offset", "it uses the variance: a layer's inputs need not have the mean 0, and the "
         "mean counts too. Take the mean of the squares"),
        (square**0.5, "factor", "it is upside down: an activation that makes values smaller needs a larger gain"),
        (1 / square, "factor", "a square root is missing: the mean square is in squared units"),
        (1 / variance, "offset", "it divides by the variance: take the root of the mean of the squares"),
        (square, "factor", "that is the mean square itself: which factor brings it back to 1?"),
    ):  # fmt: skip
        if math.isclose(value, wrong, rel_tol=_CLOSE):
            return Deviation(kind, text)
    return None


def _measured(answer: Any) -> Deviation | None:
    try:
        found = FunctionJudge(_gains, "gain(activation)", _about_gain, rtol=_CLOSE)(answer)
    except Refused as error:
        if "numpy.ndarray" not in (text := error.deviation.text):
            raise
        return Deviation(
            "raised", "{reason}. Make the numbers with nbgrad.randn: the activation needs a tensor", reason=text
        )
    if found is None or found.kind == "rounding":
        counts: list[int] = []

        def counted(z: Any) -> Any:
            counts.append(numbers_of(z).numel())
            return z

        attempt("gain(activation)", answer, counted)
        if 0 < (many := sum(counts)) < _MANY:
            few = translate(
                "gain is measured on {many:,} numbers, where chance moves it: {least:,} or more are asked for",
                many=many,
                least=_MANY,
            )
            return Deviation("numbers", few)
    return found


EXERCISES = (
    Exercise(
        "8.1",
        "What is left of a gradient",
        "Write kept(layers): the largest share of a gradient that can be left after this number of sigmoids in a "
        "row. For example, kept(1) is the share for one sigmoid.",
        _kept,
        (
            "Each sigmoid multiplies the gradient by its slope. Where is a sigmoid steepest?",
            "With h = sigmoid(x) the slope is h * (1 - h). For which h between 0 and 1 is that largest?",
            "Factors in a row multiply. Equal factors give a power, and its exponent is the number of layers.",
        ),
    ),
    Exercise(
        "8.2",
        "Fifty layers",
        f"Write deep_cured(layers): a network that takes images of 64 numbers and gives 10 scores. The argument is the "
        f"number of its layers of nn.Linear({_WIDTH}, {_WIDTH}) and ReLU, each with a way around it. With {_LAYERS} "
        "layers its values must not explode, each layer has to get a gradient, and in twenty steps of SGD with lr=0.01 "
        "and momentum=0.9 the loss must neither rise by more than 1 nor end in NaN.",
        _cured,
        (
            "x + f(x) is larger than x. By how much, after fifty times? Print the size of the values after each block.",
            "f(x) has to be small beside x: either make f(x) small, or bring the input of f to size 1 first.",
            "Two usual cures: end the body of each block with a module that multiplies by a small number, such as "
            "Times(1 / layers), or begin it with nn.LayerNorm(32), which brings its input to size 1.",
        ),
    ),
    Exercise(
        "8.3",
        "Measure the gain",
        "An activation makes the mean square of normally distributed numbers smaller. Larger weights make up for "
        "that. Write "
        "gain(activation): the factor by which the weights have to be larger. Measure it: give the activation "
        "100,000 normal numbers or more, as nbgrad.randn makes them, and compute the mean square of its results. An "
        f"answer may be off by {_CLOSE:.0%}.",
        _measured,
        (
            "Normal numbers have the mean square 1. Which mean square do they have after the activation?",
            "Weights that are g times larger make the values g times larger, and their mean square g * g times.",
            "So g * g times the mean square after the activation has to be 1.",
        ),
    ),
)
