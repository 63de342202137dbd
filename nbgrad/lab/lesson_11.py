"""The exercises of lesson 11: recurrent networks, and a backward through time."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbgrad.core.functional.grad import grad
from nbgrad.core.ops import tanh
from nbgrad.core.tensor.comparison import Deviation, difference, numbers_of
from nbgrad.core.tensor.tensor import Tensor, tensor
from nbgrad.core.translation import translate
from nbgrad.lab.exercise import Exercise
from nbgrad.lab.judges import Case, FunctionJudge, is_near, needs_function, slip
from nbgrad.lab.running import attempt, by_hand


def _number(value: float) -> Tensor:
    return tensor(value, dtype=torch.float64, requires_grad=True)


# 11.1: the decay.


def _decays() -> list[Case]:
    cases = []
    for at, start, steps in ((0.5, 4.0, 3), (-1.5, 1.0, 4), (0.9, 2.0, 20), (-0.5, -3.0, 3), (0.5, 4.0, 1)):
        w, first = _number(at), _number(start)
        h = first
        for _ in range(steps):
            h = w * h
        right = [float(numbers_of(one)) for one in grad(h, [first, w])]
        cases.append(Case((at, start, steps), right, f"decay(w={at:g}, h0={start:g}, steps={steps})"))
    return cases


def _about_decay(got: Any, case: Case) -> Deviation | None:
    w, start, steps = case.arguments
    of_start, of_w = case.right
    if steps == 1:
        return None
    slips = (
        ([of_w, of_start], "order", "the two have changed places: first the gradient of h0"),
        ([of_start, of_w / steps], "factor", "that of w is the share of one step: w is used in each of them, and the "
         "shares add up"),
        ([w ** (steps - 1), of_w], "shifted", "the gradient of h0 has one factor w too few"),
        ([w * steps, of_w], "numbers", "that of h0 adds the steps: factors in a row multiply"),
        ([of_start * start, of_w], "numbers", "that of h0 is the value of the last h: its slope is asked for"),
        ([of_start, steps * w ** (steps - 1)], "factor", "the gradient of w lacks the factor h0"),
        ([of_start, steps * w**steps * start], "factor", "that of w has one factor w too many: the exponent falls by "
         "one"),
    )  # fmt: skip
    return slip(got, slips) or _about_one(got, case)


def _about_one(got: Any, case: Case) -> Deviation | None:
    """Which of the two derivatives alone is wrong."""
    given = numbers_of(got)
    if given.shape != (2,):
        return None
    fine = [is_near(one, right) for one, right in zip(given, case.right, strict=True)]
    if sum(fine) != 1:
        return None
    right, wrong = ("h0", "w") if fine[0] else ("w", "h0")
    text = "the derivative with respect to {right} is right, that with respect to {wrong} is not"
    return Deviation("element", text, right=right, wrong=wrong)


# 11.2: detach.


_INPUTS = (0.5, -0.2, 0.8, 0.1, -0.4, 0.3, 0.6, -0.1)


def _run(cell: Callable[[Any, Any], Tensor], h: Tensor, inputs: Sequence[float], every: int) -> Tensor:
    for at, x in enumerate(inputs):
        h = cell(x, h.detach() if at and at % every == 0 else h)
    return h


def _truncated(answer: Any) -> Deviation | None:
    needs_function(answer, "truncated(cell, h, inputs, every)")
    runs = ((3, 8), (5, 8), (5, 4), (3, 6))  # the third one ends before the first cut, the last one just before a cut
    return next((found for every, count in runs if (found := _of_cuts(answer, every, count)) is not None), None)


def _of_cuts(answer: Any, every: int, count: int) -> Deviation | None:
    w, first, inputs = _number(1.2), _number(0.3), list(_INPUTS[:count])
    cut: list[bool] = []

    def cell(x: Any, h: Any) -> Any:
        cut.append(not (isinstance(h, Tensor) and h.requires_grad))
        return tanh(w * h + x)

    right = _run(cell, first, inputs, every)
    said = translate("truncated(cell, h, inputs, {every}) for {count} inputs", every=every, count=count)
    cut.clear()
    got = attempt(said, answer, cell, first, inputs, every)
    if (found := difference(got, right)) is not None:
        found = _about_values(got, inputs, every) or found
        return Deviation(found.kind, "{said}: the last h: {found}", said=said, found=found)
    if len(cut) != count:
        return Deviation("shape", "{said}: the number of calls of the cell is {count}", said=said, count=len(cut))
    if not (isinstance(got, Tensor) and got.requires_grad):
        return Deviation(
            "zero", "{said}: the last h has no history: it is detached after the last steps, too", said=said
        )
    own, wanted = (
        [0.0 if one is None else float(numbers_of(one)) for one in grad(last, [w, first], allow_unused=True)]
        for last in (got, right)
    )
    if difference(own, wanted, atol=1e-9) is None:
        return None
    return Deviation(*_about_places([at for at, one in enumerate(cut) if one], every, count, said))


def _about_values(got: Any, inputs: Sequence[float], every: int) -> Deviation | None:
    """Why the last h has another value: a cut changes no value."""

    def of(turned: bool, begins: bool) -> Any:
        h: Any = _number(0.3)
        for at, x in enumerate(inputs):
            h = h * 0 if begins and at and at % every == 0 else h
            h = tanh(_number(1.2) * (x if turned else h) + (h if turned else x))
        return h

    slips = (
        (of(turned=False, begins=True), "zero", "it begins again at 0 after each cut: detach() keeps the value, and "
         "cuts the path alone"),
        (of(turned=True, begins=False), "order", "x and h have changed places: it is cell(x, h)"),
    )  # fmt: skip
    return slip(got, slips)


def _about_places(places: list[int], every: int, count: int, said: str) -> tuple[str, str]:
    """How the steps before which h is cut are wrong: the kind and the sentence."""
    later = [at for at in places if at]
    if later == [at for at in range(1, count) if at % every == 0]:
        return "shifted", translate(
            "{said}: h is cut before step 0, too. The first cut is before the step every", said=said
        )
    if not later:
        return "offset", translate("{said}: the gradient still goes through all steps: nothing is detached", said=said)
    if len(later) == count - 1:
        return "element", translate(
            "{said}: h is detached before each step, so the gradient goes through the last step only", said=said
        )
    listed = ", ".join(map(str, places))
    steps = (
        translate("the steps {listed}", listed=listed) if len(places) > 1 else translate("step {listed}", listed=listed)
    )
    return "shifted", translate(
        "{said}: h is cut before {steps}. It belongs before every, 2 * every, ..., counted from 0",
        said=said,
        steps=steps,
    )


# 11.3: clip.


def _clips() -> list[Case]:
    generator = torch.Generator().manual_seed(11)
    cases = []
    for size, limit in ((10.0, 1.0), (0.1, 5.0), (3.0, 8.0), (1.0, 5.0), (0.0, 1.0)):
        parts = [torch.randn((2, 3), generator=generator, dtype=torch.float64) * size for _ in range(2)]
        norm = float(torch.stack(parts).norm())
        right = torch.stack(parts) * limit / max(norm, limit)
        small = " (which is below the limit)" if norm < limit else ""
        cases.append(
            Case(
                ([tensor(one) for one in parts], limit),
                right,
                translate("clip of gradients of norm {norm:.3g}{small}", norm=norm, small=translate(small)),
            )
        )
    return cases


def _about_clip(got: Any, case: Case) -> Deviation | None:
    parts = torch.stack([one.data for one in case.arguments[0]])
    limit, norm = case.arguments[1], float(parts.norm())
    if not norm:
        return Deviation("not finite", "a norm of 0 divides nothing: it is below the limit, and the gradients stay")
    own = parts.flatten(1).norm(dim=1)[:, None, None]
    for wrong, kind, text in (
        (parts, "factor", "nothing is clipped"),
        (parts / norm, "factor", "the norm becomes 1, and not the limit"),
        (parts * norm / limit, "factor", "the factor is upside down: it is limit / norm"),
        (parts * min(1.0, limit / float(parts.abs().max())), "factor", "that is the largest number, and not the norm "
         "of all"),
        (parts * limit / norm, "factor", "short gradients become longer: only those above the limit are changed"),
        (parts.clamp(-limit, limit), "numbers", "each number is cut off by itself: that turns the direction. Multiply "
         "all by one factor"),
        (parts * (limit / own).clamp(max=1), "row", "each tensor is clipped by its own norm: take the norm of all "
         "together"),
        (parts * min(1.0, limit / norm**2), "factor", "it divides by the square of the norm: take the root of the "
            "sum of "
         "squares"),
        (parts * min(1.0, limit / float(own.sum())), "factor", "the norms of the tensors are added: add their squares, "
         "then take the root"),
    ):  # fmt: skip
        if is_near(got, wrong) and not is_near(wrong, case.right):
            return Deviation(kind, text)
    return None


EXERCISES = (
    Exercise(
        "11.1",
        "Predict the decay",
        "In each step h becomes w * h, beginning with h0. Write decay(w, h0, steps), which gives a tuple of two "
        "derivatives of the last h: first with respect to h0, then with respect to w. Work them out: call neither "
        "backward nor grad.",
        FunctionJudge(_decays, "decay(w, h0, steps)", _about_decay, call=by_hand),
        (
            "Write the last h as a formula, for 2 and for 3 steps.",
            "It is w ** steps * h0. The derivative with respect to h0 is easy.",
            (
                "For the derivative with respect to w, the exponent becomes a factor. This factor is the number of "
                "steps, because each step uses w once."
            ),
        ),
    ),
    Exercise(
        "11.2",
        "Detach",
        "Write truncated(cell, h, inputs, every): it runs h = cell(x, h) for each x of inputs and gives the last "
        "h. It cuts the path through h before some steps, counted from 0: with every=5 before the steps 5, 10, 15, and "
        "so on.",
        _truncated,
        (
            "Which method gives the same value without a history?",
            "enumerate(inputs) counts the steps. When is a number a multiple of every?",
            "h = h.detach() before the cell, if step is such a multiple and not 0. Not after the last step: the result "
            "needs its history.",
        ),
    ),
    Exercise(
        "11.3",
        "Clip",
        "Write clip(gradients, limit): it gets a list of tensors and gives a list of the same shapes. If the norm "
        "of all their numbers together is above the limit, all tensors are multiplied by one factor, so that the "
        "norm becomes the limit. Otherwise they stay the same.",
        FunctionJudge(_clips, "clip(gradients, limit)", _about_clip),
        (
            "The norm of all together: the root of the sum of the squares of all numbers of all tensors.",
            "The factor is limit / norm.",
            "If the norm is not above the limit, nothing is multiplied: it may even be 0.",
        ),
    ),
)
