"""The exercises of lesson 9: optimizers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.tensor.comparison import Deviation, NoNumbers, difference, numbers_of
from nbgrad.core.tensor.tensor import tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise, OwnNumbers
from nbgrad.lab.judges import Case, FunctionJudge, computed, is_near, needs_function, slope_of, truth_of
from nbgrad.lab.running import attempt
from nbgrad.nn.parameter import Parameter
from nbgrad.optim import SGD, Adam

_STEPS = 4
LR, BETA = 0.1, 0.9
BETA1, BETA2, EPS = 0.9, 0.999, 1e-8

Update = Callable[..., Sequence[Any]]
"""Takes the parameter, its gradient, what the optimizer remembers, and perhaps the number of the step."""


def _gradients(memory: int) -> torch.Tensor:
    """The gradients of three parameters in each step. Those of Adam, which remembers two tensors, differ far more."""
    generator = torch.Generator().manual_seed(9)
    small = 0.01 if memory == 1 else 1e-4  # its square is as large as eps: where eps is added makes a difference
    found = torch.randn((_STEPS, 3), generator=generator, dtype=torch.float64) * torch.tensor([1.0, 10.0, small])
    found[0, 2] = 0  # a parameter that was not used in the first step: 0 / 0 without eps
    return found


def _by(optimizer: Callable[[Any], Any], memory: int) -> list[torch.Tensor]:
    """The parameter after each step of one of nbgrad's optimizers."""
    w = tensor(torch.ones(3, dtype=torch.float64), requires_grad=True)
    steps = optimizer([w])
    places = []
    for gradient in _gradients(memory):
        w.grad = tensor(gradient.clone())
        steps.step()
        places.append(numbers_of(w).clone())
    return places


_MOMENTUM_RATE = OwnNumbers("9.2", {"lr": (LR, 0.2, 0.3, 0.4, 0.5, 0.15, 0.25, 0.6)})
_ADAM_RATE = OwnNumbers("9.3", {"lr": (LR, 0.2, 0.3, 0.4, 0.5, 0.15, 0.25, 0.6)})


def _judged(
    answer: Any, form: str, memory: int, right: list[torch.Tensor], wrongs: Any, rate: OwnNumbers
) -> Deviation | None:
    """Whether an update gives the right parameters, step by step.

    Args:
        answer: of the student.
        form: how the function is written.
        memory: how many tensors it remembers from step to step.
        right: the parameter after each step with the rate ``LR``. The gradients are given, so all steps grow with it.
        wrongs: the usual mistakes: an update each, with the kind and the text of its explanation.
        rate: of the student.
    """
    needs_function(answer, form)
    places = _walk(answer, form, memory)
    if isinstance(places, Deviation):
        return places
    lr = rate()["lr"]

    def own(walked: list[Any]) -> list[Any]:
        return [1 + (numbers_of(one) - 1) * (lr / LR) for one in walked]

    def same(walked: list[Any] | Deviation) -> bool:
        return not isinstance(walked, Deviation) and all(
            difference(got, one, equal_nan=True) is None for got, one in zip(places, walked, strict=True)
        )

    usual, right = right, own(right)
    at = next((at for at, (got, one) in enumerate(zip(places, right, strict=True)) if difference(got, one)), None)
    if at is None:
        return None if same(_walk(answer, form, memory)) else Deviation("changed", _REMEMBERS)
    if same(usual):
        return Deviation("factor", "its learning rate is {usual:g}, and {lr:g} is asked for", usual=LR, lr=lr)
    for wrong, kind, text in wrongs:
        walked = _walk(wrong, form, memory)
        if not isinstance(walked, Deviation) and (same(own(walked)) or same(walked)):
            return Deviation(kind, text)
    found = difference(places[at], right[at])
    assert found is not None
    told = computed(found)
    return Deviation(told.kind, "after step {step} the parameter is wrong: {found}", step=at + 1, found=told)


_REMEMBERS = (
    "it gives other numbers when it begins anew: what it remembers from step to step has to be in the tensors that it "
    "gets and gives, and nowhere else"
)


def _walk(update: Update, form: str, memory: int) -> list[Any] | Deviation:
    w = tensor(torch.ones(3, dtype=torch.float64))
    kept = [tensor(torch.zeros(3, dtype=torch.float64)) for _ in range(memory)]
    places: list[Any] = []
    for step, gradient in enumerate(_gradients(memory), 1):
        given = attempt(form, update, w, tensor(gradient.clone()), *kept, *([step] if memory == 2 else []))
        if given is None:
            return Deviation("type", "{said} gives None: the function has to end with return", said=form)
        if not isinstance(given, tuple | list) or len(given) != memory + 1:
            return Deviation(
                "shape",
                "{form} has to give {count} tensors: the parameter and what is remembered",
                form=form,
                count=memory + 1,
            )
        try:
            w, *kept = (tensor(numbers_of(one)) for one in given)
        except NoNumbers as error:
            return Deviation("type", f"{form}: {error}")
        if any(one.shape != (3,) for one in (w, *kept)):
            return Deviation(
                "shape",
                "each tensor has to keep its shape (3,), and {shapes} came",
                shapes=[tuple(one.shape) for one in (w, *kept)],
            )
        places.append(w.clone())
    return places


# 9.2: momentum.


def _momentum(answer: Any) -> Deviation | None:
    right = _by(lambda parameters: SGD(parameters, lr=LR, momentum=BETA), 1)
    return _judged(answer, "momentum(w, g, v)", 1, right, WRONG_MOMENTUM, _MOMENTUM_RATE)


WRONG_MOMENTUM: tuple[tuple[Update, str, str], ...] = (
    (lambda w, g, v: (w - LR * g, v), "numbers", "that is plain SGD: the velocity has no effect"),
    (lambda w, g, v: (w + LR * (BETA * v + g), BETA * v + g), "sign", "it goes along the gradient: a step goes "
        "against it"),
    (lambda w, g, v: (w - LR * (BETA * v + (1 - BETA) * g), BETA * v + (1 - BETA) * g), "factor", "the gradient "
        "is multiplied "
     "by 1 - beta: add it as it is"),
    (lambda w, g, v: (w - LR * v, BETA * v + g), "shifted", "it steps with the old velocity: update v first"),
    (lambda w, g, v: (w - LR * (v + g), v + g), "factor", "the velocity never fades: beta is missing"),
    (lambda w, g, v: (w - (BETA * v + g), BETA * v + g), "factor", "the learning rate is missing"),
    (lambda w, g, v: (w - LR * BETA * (v + g), BETA * (v + g)), "factor", "beta multiplies the gradient, too: it "
     "belongs to the old velocity alone"),
    (lambda w, g, v: (w - LR * ((1 - BETA) * v + BETA * g), (1 - BETA) * v + BETA * g), "order", "beta belongs to the "
     "old velocity: nine tenths of it stay"),
    (lambda w, g, v: (w - LR * (g + BETA * (BETA * v + g)), BETA * v + g), "shifted", "beta and the gradient come in "
     "twice: the step is lr times the new velocity"),
)  # fmt: skip


# 9.3: Adam.


def _adam(answer: Any) -> Deviation | None:
    right = _by(lambda parameters: Adam(parameters, lr=LR, betas=(BETA1, BETA2), eps=EPS), 2)
    return _judged(answer, "adam(w, g, m, v, t)", 2, right, WRONG_ADAM, _ADAM_RATE)


def _adam_like(
    *,
    corrects: bool = True,
    beta2: float = BETA2,
    size: Callable[[Any, float], Any] = lambda square, eps: square**0.5 + eps,
    keeps: bool = False,
    sign: float = 1.0,
    eps: float = EPS,
) -> Update:
    def update(w: Any, g: Any, m: Any, v: Any, t: int) -> Any:
        m = BETA1 * m + (1 - BETA1) * g
        v = beta2 * v + (1 - beta2) * g * g
        mean, square = (m / (1 - BETA1**t), v / (1 - beta2**t)) if corrects else (m, v)
        return w - sign * LR * mean / size(square, eps), *((mean, square) if keeps else (m, v))

    return update


def _adam_with_products(w: Any, g: Any, m: Any, v: Any, t: int) -> Any:
    m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g * g
    return w - LR * m / (1 - BETA1 * t) / ((v / (1 - BETA2 * t)) ** 0.5 + EPS), m, v


def _adam_with_betas_exchanged(w: Any, g: Any, m: Any, v: Any, t: int) -> Any:
    m, v = BETA2 * m + (1 - BETA2) * g, BETA1 * v + (1 - BETA1) * g * g
    return w - LR * m / (1 - BETA2**t) / ((v / (1 - BETA1**t)) ** 0.5 + EPS), m, v


def _adam_of_gradients(w: Any, g: Any, m: Any, v: Any, t: int) -> Any:
    m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * g
    return w - LR * m / (1 - BETA1**t) / ((v / (1 - BETA2**t)) ** 0.5 + EPS), m, v


def _adam_of_squared_means(w: Any, g: Any, m: Any, v: Any, t: int) -> Any:
    m = BETA1 * m + (1 - BETA1) * g
    v = BETA2 * v + (1 - BETA2) * m * m
    return w - LR * m / (1 - BETA1**t) / ((v / (1 - BETA2**t)) ** 0.5 + EPS), m, v


def _adam_of_sizes(w: Any, g: Any, m: Any, v: Any, t: int) -> Any:
    m, v = BETA1 * m + (1 - BETA1) * g, BETA2 * v + (1 - BETA2) * abs(g)
    return w - LR * m / (1 - BETA1**t) / ((v / (1 - BETA2**t)) ** 0.5 + EPS), m, v


def _adam_of_sums(w: Any, g: Any, m: Any, v: Any, t: int) -> Any:
    m, v = BETA1 * m + g, BETA2 * v + g * g
    return w - LR * m / (1 - BETA1**t) / ((v / (1 - BETA2**t)) ** 0.5 + EPS), m, v


WRONG_ADAM: tuple[tuple[Update, str, str], ...] = (
    (_adam_like(corrects=False), "factor", "the correction of the first steps is missing: m and v begin at 0, so "
        "divide "
     "by 1 - beta ** t"),
    (_adam_with_betas_exchanged, "order", "the betas have changed places: 0.9 is that of m, 0.999 that of v"),
    (_adam_like(size=lambda square, eps: square + eps), "numbers", "the root is missing: v is a mean of squares"),
    (_adam_of_sizes, "numbers", "v is a mean of the squares of the gradients"),
    (_adam_like(keeps=True), "element", "it remembers the corrected m and v: the correction is for the step alone"),
    (_adam_like(eps=0.0), "not finite", "eps is not added to the root: a parameter whose gradients are 0 becomes "
     "0 / 0"),
    (_adam_like(size=lambda square, eps: (square + eps) ** 0.5), "numbers", "eps is inside of the root: it is added "
     "to the root"),
    (_adam_with_products, "numbers", "1 - beta * t is no power: divide by 1 - beta ** t"),
    (_adam_like(beta2=BETA1), "numbers", "both means fade with the same beta: 0.9 is that of m, 0.999 that of v"),
    (lambda w, g, m, v, t: _adam_like()(w, g, m, v, t + 1), "shifted", "the first step is counted as the second"),
    (_adam_of_squared_means, "numbers", "v is a mean of the squares of the gradients, and not of the squares of m"),
    (_adam_of_sums, "factor", "m and v are means: the new gradient counts 1 - beta, and not all of itself"),
    (_adam_of_gradients, "numbers", "v is a mean of the squares of the gradients, and not of the gradients"),
    (_adam_like(sign=-1.0), "sign", "it goes along the gradient: a step goes against it"),
    (lambda w, g, m, v, t: (w - LR * g, m, v), "numbers", "that is plain SGD: m and v have no effect"),  # noqa: ARG005
)  # fmt: skip


# 9.1: the largest rate.


def _largest() -> list[Case]:
    cases = []
    for curvature in (
        5.0,
        50.0,
        1.0,
    ):  # for 1, 2 or 4 a wrong formula may give a right rate, or that of another formula
        w = tensor(1.0, dtype=torch.float64, requires_grad=True)
        second = slope_of(slope_of(w * w * (curvature / 2), w), w)
        cases.append(Case((curvature,), 2 / float(numbers_of(second)), f"largest_rate({curvature:g})"))
    return cases


def _about_rate(got: Any, case: Case) -> Deviation | None:
    (curvature,) = case.arguments
    for wrong, kind, text in (
        (1 / curvature, "factor", "with this rate one step goes straight to the lowest point: it may be larger"),
        (curvature / 2, "order", "it grows with the curvature: a steeper valley needs shorter steps"),
        (2 * curvature, "order", "it grows with the curvature: a steeper valley needs shorter steps"),
        (curvature, "order", "it grows with the curvature: a steeper valley needs shorter steps"),
        (2 / curvature**0.5, "numbers", "there is no root in it: look at the factor 1 - rate * curvature"),
        (2 / curvature**2, "numbers", "there is no square in it: look at the factor 1 - rate * curvature"),
    ):
        if is_near(got, wrong) and abs(wrong - case.right) > 1e-3:
            return Deviation(kind, text)
    return None


# 9.4: a rate that is too large, read off the updates.

FAR = 1.0
"""A rate is too large if an update is more than this share of the weight; 1 means the whole weight."""

_RATES: tuple[tuple[str, list[float]], ...] = (
    ("a rate of 0.0001", [1e-4] * 16),
    ("a rate of 0.05", [0.05] * 16),
    ("a rate of 0.2", [0.2] * 16),
    ("a rate of 0.6", [0.6] * 16),
    ("a rate of 1", [1.0] * 16),
    ("a rate of 0.003, except for one step with a rate of 2", [0.003] * 4 + [2.0] + [0.003] * 11),
)


def _recorded(rates: Sequence[float]) -> AutogradGraph:
    """A training with a rate for each step."""
    generator = torch.Generator().manual_seed(94)
    inputs, targets, first = (
        tensor(torch.randn(shape, generator=generator, dtype=torch.float64)) for shape in ((16, 4), (16, 3), (4, 3))
    )
    weight, factor = Parameter(first / 2), Parameter(tensor(0.01, dtype=torch.float64))
    optimizer = Adam([weight, factor])  # the second one is far smaller, so its updates are far larger
    with AutogradGraph() as graph:
        for rate in rates:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            ((inputs @ weight * (1 + factor) - targets) ** 2).mean().backward()
            optimizer.step()
    return graph


def _updates(graph: AutogradGraph) -> list[float]:
    found = [frame.parameters[0].update for frame in graph.history]
    return [one for one in found if one is not None]


def _trainings() -> list[Case]:
    graphs = [(said, _recorded(rates)) for said, rates in _RATES]
    return [
        Case(
            (graph,),
            max(_updates(graph)) > FAR,
            translate("too_large(graph) for a training with {said}", said=translate(said)),
        )
        for said, graph in graphs
    ]


def _about_updates(got: Any, case: Case) -> Deviation | None:
    if truth_of(got) is None:
        return None
    if not case.right:
        text = "no update of the first parameter is as large as the parameter itself: the rate is not too large"
        return Deviation("factor", text)
    return Deviation("element", "one update of the first parameter is larger than the parameter itself: it destroys "
                     "what was learned, whatever the other updates and the loss are")  # fmt: skip


EXERCISES = (
    Exercise(
        "9.2",
        "Momentum",
        f"Write momentum(w, g, v): one step of SGD with lr={{lr:g}} and momentum {BETA:g}. It gets the parameter, its "
        "gradient and the velocity, and gives the new parameter and the new velocity, as a tuple (w, v).",
        _momentum,
        (
            "The velocity is a sum of all gradients so far, in which older ones count less and less.",
            "The new velocity is beta times the old one, plus the gradient.",
            "Then the parameter moves by minus lr times the new velocity.",
        ),
        _MOMENTUM_RATE,
    ),
    Exercise(
        "9.3",
        "Adam",
        f"Write adam(w, g, m, v, t): one step of Adam with lr={{lr:g}}, betas {BETA1:g} and {BETA2:g}, eps {EPS:g}. "
        f"m is the "
        "mean of the gradients, v the mean of their squares, t the number of the step, from 1. Give the new (w, m, v).",
        _adam,
        (
            "Both means fade: m = beta1 * m + (1 - beta1) * g, and the same for v with g * g and beta2.",
            "m and v begin at 0, so they are too small in the first steps: divide them by 1 - beta ** t (not in "
            "place).",
            "With mean and square for the corrected m and v, the step is lr * mean / (square ** 0.5 + eps).",
        ),
        _ADAM_RATE,
    ),
    Exercise(
        "9.4",
        "Too large, from the picture",
        "Write too_large(graph): True if the learning rate of a recorded training was too large, else False. Use "
        'the numbers of the curves "update" in the picture: the rate is too large if an update of the first '
        "parameter is larger than the parameter itself. graph.history has a frame for each step, and "
        "frame.parameters[0].update is the size of the update in units of the parameter, or None where it was not "
        "measured.",
        FunctionJudge(_trainings, "too_large(graph)", _about_updates),
        (
            "Collect the updates that are not None, in a list.",
            "In these units the parameter itself has the size 1.",
            "One such update is enough: look at the largest one.",
        ),
    ),
    Exercise(
        "9.1",
        "A rate that is too large",
        "The loss is curvature / 2 * w * w, so its gradient is curvature * w. Write largest_rate(curvature): the "
        "learning "
        "rate of plain gradient descent above which w grows instead of falling.",
        FunctionJudge(_largest, "largest_rate(curvature)", _about_rate),
        (
            "Write one step: w - rate * curvature * w. By which factor is w multiplied?",
            "w falls as long as that factor lies between -1 and 1.",
            "1 - rate * curvature = -1 is the border.",
        ),
    ),
)
