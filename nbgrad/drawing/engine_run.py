"""``EngineRun``: the graph of somebody else's engine, and what nbgrad computes from the engine's own numbers.

Every op is checked alone: from the engine's values of its inputs follows nbgrad's value, and from the engine's
gradients of the ops that use a part follows nbgrad's gradient of the part. So a fault shows where it is made, and not
where it arrives.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any

import torch

from nbgrad.core.tensor.comparison import NoNumbers, numbers_of
from nbgrad.core.translation import translate
from nbgrad.drawing.calls import Numbers, OpCall, calls_of, numbers, operands_of, rule_name
from nbgrad.drawing.faults import RuleStep
from nbgrad.drawing.part import Part

_RELATIVE = {torch.float16: 1e-2, torch.bfloat16: 3e-2, torch.float32: 1e-4}
_DOUBLE = 1e-6
"""The allowed relative differences by element type. Other types are as exact as Python's numbers."""

_MOVES = 8
"""How many patterns of small changes are tried, to see how far rounding may lead."""

_WAYS = 64
"""The most combinations of calls that are tried for one part."""

NO_NAMES: Mapping[int, str] = MappingProxyType({})

Use = tuple[int, int]
"""The position of a part that uses another one, and which tensor argument of its call that is."""


class EngineRun:
    """The parts of an engine with their numbers, and nbgrad's.

    Attributes:
        parts: the parts, parents first.
        names: the user's names of objects, by their ``id``.
        values: the engine's values, float64; None where they are not known.
        gradients: the engine's gradients, in the shape in which the engine has them; None where there are none.
        calls: for each part that an op made, the calls of nbgrad's that reproduce its value. The first is the one whose
            gradients are asked for.
        wrong_values: by position of a part, nbgrad's value, where the engine's differs.
        possible: by position of a part with a wrong value, all calls that it may stand for.
        rules: the name of the rule of each part, which may be the same for several ops; None for a leaf.
        unchecked: by position of a part, why its op could not be checked.
    """

    def __init__(self, parts: Sequence[Part], names: Mapping[int, str] = NO_NAMES) -> None:
        self.parts = list(parts)
        self.names = names
        self.at = {id(part.source): at for at, part in enumerate(self.parts)}
        self.values = [numbers(part.value) for part in self.parts]
        self.limit = max([_limit(part) for part in self.parts], default=_DOUBLE)
        self.gradients = [self._gradient(at) for at in range(len(self.parts))]
        self.unchecked: dict[int, str] = {}
        self.wrong_values: dict[int, Numbers] = {}
        self.possible: dict[int, list[OpCall]] = {}
        self.rules = [None if part.op is None else rule_name(part.op) for part in self.parts]
        self.calls: list[list[OpCall]] = [self._calls(at) for at in range(len(self.parts))]
        self.children = self._children()

    # Values.

    def _gradient(self, at: int) -> Numbers | None:
        part = self.parts[at]
        found = None if part.settings.get("requires_grad") is False else numbers(part.gradient)
        value = self.values[at]
        if found is not None and value is not None and found.numel() == 1 and found.ndim == 0 and value.ndim:
            return found.expand(value.shape)  # the 0.0 with which engines begin
        return found

    def _calls(self, at: int) -> list[OpCall]:
        """The calls that reproduce the value of a part; the most probable one if none does."""
        part = self.parts[at]
        if part.op is None:
            return []
        given = [self._argument(one) for one in part.parents]
        if any(one is None for one in given):
            self.unchecked[at] = translate("the value of an input is not known")
            return []
        made = calls_of(self._operands(at, [one for one in given if one is not None]))
        if made is None:
            self.unchecked[at] = translate("nbgrad does not know this op")
            return []
        results = [(call, call.run([given[slot] for slot in call.slots])) for call in made]  # type: ignore[misc]
        ran = [(call, found) for call, found in results if found is not None]
        value = self.values[at]
        if not ran or value is None:
            self.unchecked[at] = translate(
                "the arguments of the op are not known" if value is not None else "it has no numbers"
            )
            return []
        fitting = [call for call, found in ran if self.close(value, found, given)]
        fitting = fitting or [call for call, found in ran if self._is_rounded(at, call, value, found)]
        if not fitting:
            self.possible[at] = [call for call, _ in ran]
            self.wrong_values[at] = ran[0][1]
            return [ran[0][0]]
        return fitting

    def _operands(self, at: int, given: list[Numbers]) -> Any:
        part = self.parts[at]
        found = operands_of(part, given, self.values[at])
        return replace(found, slots=tuple(slot for slot in found.slots if id(part.parents[slot]) in self.at))

    def _argument(self, parent: object) -> Numbers | None:
        position = self.at.get(id(parent))
        return numbers(parent) if position is None else self.values[position]

    def arguments(self, at: int, call: OpCall, values: Sequence[Numbers | None] | None = None) -> list[Numbers] | None:
        """The numbers of the tensor arguments of a call: the engine's, or those of ``values``."""
        held = self.values if values is None else values
        found = [held[self.at[id(self.parts[at].parents[slot])]] for slot in call.slots]
        return None if any(one is None for one in found) else [one for one in found if one is not None]

    def close(self, got: Numbers, want: Numbers, scale: Sequence[Numbers | None] = ()) -> bool:
        """Whether two numbers agree, as exactly as the engine's types allow; ``scale`` are those they are made of."""
        if got.shape != want.shape:
            if got.numel() != 1 or want.numel() != 1:
                return False
            got, want = got.reshape(()), want.reshape(())
        size = max([_size(want), *[_size(one) for one in scale if one is not None]])
        return bool(
            torch.isclose(got, want, rtol=self.limit, atol=self.limit * 0.01 * size + 1e-12, equal_nan=True).all()
        )

    # Gradients.

    def _children(self) -> list[list[int]]:
        """For each part, the parts that use it, in the order of the backward, each once."""
        found: list[dict[int, None]] = [{} for _ in self.parts]
        for at in reversed(range(len(self.parts))):
            for parent in self.parts[at].parents:
                if id(parent) in self.at:
                    found[self.at[id(parent)]][at] = None
        return [list(one) for one in found]

    def uses(self, at: int, steps: "Sequence[RuleStep | None] | None" = None) -> list[Use]:
        """The calls that use a part, and as which of their arguments, in the order of the backward."""
        found = []
        for child in self.children[at]:
            step = None if steps is None else steps[child]
            calls = self.calls[child] if step is None else [step.call]
            for argument, slot in enumerate(calls[0].slots if calls else ()):
                if self.at[id(self.parts[child].parents[slot])] == at:
                    found.append((child, argument))
        return found

    @cached_property
    def roots(self) -> list[int]:
        """The parts that no other part has as a parent."""
        parents = {id(parent) for part in self.parts for parent in part.parents}
        return [at for at, part in enumerate(self.parts) if id(part.source) not in parents]

    @cached_property
    def blocked(self) -> set[int]:
        """The parts that an op uses whose rule cannot be checked."""
        held: set[int] = set()
        for at, part in enumerate(self.parts):
            if part.op is not None and not self.calls[at]:
                held |= {self.at[id(one)] for one in part.parents if id(one) in self.at}
        return held

    @cached_property
    def has_gradients(self) -> bool:
        """Whether a backward from a root has run: there is a gradient that is not 0.

        Where all ops have the gradient 0, those of leaves are older: they come from a backward of another graph. A root
        alone does not say so: an engine may hand its 1 on without keeping it.
        """
        ops = {at for at, part in enumerate(self.parts) if part.op is not None}
        idle = not ops <= self.roots_set and all(
            (one := self.gradients[at]) is not None and not one.any() for at in ops
        )
        return not idle and any(one is not None and bool(one.any()) for one in self.gradients)

    @cached_property
    def hides(self) -> bool:
        """Whether the engine keeps the gradients of leaves only."""
        inner = [self.gradients[at] for at, part in enumerate(self.parts) if part.op is not None]
        return self.has_gradients and not any(one is not None and bool(one.any()) for one in inner)

    def stored(self, at: int) -> Numbers | None:
        """The engine's gradient of a part; None if it keeps none."""
        found, value = self.gradients[at], self.values[at]
        if self.hides and self.parts[at].op is not None:
            return None
        missing = found is None and value is not None and (self.reaches_no_leaf or self.skipped[at])
        return torch.zeros_like(value) if missing and value is not None else found

    @cached_property
    def skipped(self) -> list[bool]:
        """By part, whether it has no gradient and was computed from a leaf that has one: the backward passed it by."""
        learns: list[bool] = []
        for at, part in enumerate(self.parts):
            above = [learns[self.at[id(one)]] for one in part.parents if id(one) in self.at]
            learns.append(any(above) if above else self.gradients[at] is not None)
        return [
            one and part.op is not None and self.gradients[at] is None and not self.hides
            for at, (one, part) in enumerate(zip(learns, self.parts, strict=True))
        ]

    @cached_property
    def reaches_no_leaf(self) -> bool:
        """Whether a backward began at a root, and no leaf that may learn has a gradient."""
        leaves = [at for at, part in enumerate(self.parts) if part.op is None and at not in self.roots_set]
        able = [at for at in leaves if self.parts[at].settings.get("requires_grad") is not False]
        began = any(self.gradients[at] is not None for at in self.roots)
        return began and bool(able) and all(self.gradients[at] is None for at in able)

    @cached_property
    def unreached(self) -> list[int]:
        """The parts without a gradient, in an engine that keeps those of others, where nbgrad has one that is not 0."""
        return [
            at
            for at, want in enumerate(self.right)
            if self.has_gradients
            and self.stored(at) is None
            and not (self.hides and self.parts[at].op is not None)
            and self.parts[at].settings.get("requires_grad") is not False
            and want is not None
            and bool(want.any())
        ]

    def seed(self, at: int) -> Numbers | None:
        """The gradient with which a backward begins at a root."""
        value, given = self.values[at], self.stored(at)
        if value is None:
            return None
        return torch.ones_like(value) if value.numel() == 1 or given is None else given

    @property
    def steps(self) -> list[RuleStep | None]:
        """The ops in the backward, each with the engine's gradient of its result, or nbgrad's where it keeps none."""
        return self._walked[0]

    @property
    def right(self) -> list[Numbers | None]:
        """The gradient that nbgrad has for each part, from the engine's of the parts that use it; None if unknown."""
        return self._walked[1]

    @cached_property
    def _walked(self) -> tuple[list[RuleStep | None], list[Numbers | None]]:
        """Walk from the roots to the leaves; where several calls reproduce a value, choose those that fit here."""
        count = len(self.parts)
        right: list[Numbers | None] = [None] * count
        steps: list[RuleStep | None] = [None] * count
        for at in reversed(range(count)):
            right[at] = self._chosen(at, steps)
            stored = self.stored(at)
            steps[at] = self.step(at, right[at] if stored is None else stored)
        return steps, right

    def step(self, at: int, gradient: Numbers | None, call: OpCall | None = None) -> RuleStep | None:
        """The op of a part in the backward, if its result has this gradient."""
        value = self.values[at]
        if gradient is None or value is None or not self.calls[at]:
            return None
        call = call or self.calls[at][0]
        values = self.arguments(at, call)
        return None if values is None else RuleStep(call, tuple(values), value, gradient)

    def _chosen(self, at: int, steps: list[RuleStep | None]) -> Numbers | None:
        """The gradient that nbgrad has for a part, with those calls of its users that give the engine's."""
        total, stored = self.total(at, steps), self.stored(at)
        unsure = [one for one in self.children[at] if len(self.calls[one]) > 1]
        if total is None or stored is None or not unsure or self.close(stored, total):
            return total
        ways = [self.calls[one] for one in unsure]
        if prod(map(len, ways)) > _WAYS:
            return total
        for chosen in product(*ways):
            tried = list(steps)
            for one, call in zip(unsure, chosen, strict=True):
                old = tried[one]
                tried[one] = None if old is None else self.step(one, old.gradient, call)
            found = self.total(at, tried)
            if found is not None and self.close(stored, found):
                for one, call in zip(unsure, chosen, strict=True):
                    self.calls[one] = [call]
                steps[:] = tried
                return found
        return total

    def shares(self, at: int, steps: Sequence[RuleStep | None]) -> list[Numbers] | None:
        """The gradients that arrive at a part, one from each use; None if one is not known."""
        if at in self.blocked:
            return None
        found = []
        for child, argument in self.uses(at, steps):
            step = steps[child]
            right = None if step is None else step.right
            if right is None:
                return None
            found.append(right[argument])
        return found

    def total(self, at: int, steps: Sequence[RuleStep | None]) -> Numbers | None:
        """The gradient that nbgrad has for a part: the sum of those that arrive at it; the seed at a root."""
        if at in self.roots_set:
            return self.seed(at)
        shares = self.shares(at, steps)
        return None if not shares else sum(shares[1:], shares[0])

    @cached_property
    def roots_set(self) -> set[int]:
        """The roots, for a quick look-up."""
        return set(self.roots)

    @cached_property
    def wrong_gradients(self) -> dict[int, Numbers]:
        """By position, nbgrad's gradient of each part of which the engine has another one, in backward order."""
        found = {}
        for at in reversed(range(len(self.parts))):
            want, got = self.right[at], self.stored(at)
            if want is not None and got is not None and not self._agrees(at, got, want):
                found[at] = want
        return found

    def _agrees(self, at: int, got: Numbers, want: Numbers) -> bool:
        shares = self.shares(at, self.steps) or []
        return self.close(got, want, shares) or self._at_kink(at, got) or self._cancels(at, got, want)

    def _is_rounded(self, at: int, call: OpCall, got: Numbers, want: Numbers) -> bool:
        """Whether a value is right up to the rounding of numbers that cancel, such as those of a product of matrices.

        How far rounding may lead is seen where the arguments change a little.
        """
        values = self.arguments(at, call)
        return values is not None and self._within(got, want, [call.run(moved) for moved in self._moved(values)])

    def _cancels(self, at: int, got: Numbers, want: Numbers) -> bool:
        """Whether a gradient is right up to the rounding of numbers that cancel, as in the sum over a broadcast."""
        uses, moves = self.uses(at, self.steps), []
        gradients = [None if step is None else step.gradient for step in self.steps]
        for moved in self._moved(gradients):
            steps = list(self.steps)
            for child in {child for child, _ in uses}:
                step, gradient = steps[child], moved[child]
                steps[child] = None if step is None or gradient is None else replace(step, gradient=gradient)
            moves.append(self.total(at, steps))
        return self._within(got, want, moves)

    def _moved(self, numbers: Sequence[Any]) -> list[list[Any]]:
        """The numbers a little larger and smaller, in a few fixed patterns."""
        coin, size = torch.Generator().manual_seed(0), self.limit * 0.01
        return [
            [None if one is None else one * (1 + size * _signs(one, coin)) for one in numbers] for _ in range(_MOVES)
        ]

    @staticmethod
    def _within(got: Numbers, want: Numbers, moves: Sequence[Numbers | None]) -> bool:
        known = [one for one in moves if one is not None and one.shape == want.shape]
        if not known or got.shape != want.shape:
            return False
        slack = torch.stack([(one - want).abs() for one in known]).amax(0)
        return bool(((got - want).abs() <= slack).all())

    def _at_kink(self, at: int, got: Numbers) -> bool:
        """Whether a gradient is one of those that are right at a kink, such as that of relu at 0."""
        low: Any = 0.0
        high: Any = 0.0
        kinked = False
        for child, argument in self.uses(at, self.steps):
            step = self.steps[child]
            if step is None or step.right is None:
                return False
            bounds = step.bounds(argument) or (step.right[argument], step.right[argument])
            kinked |= not torch.allclose(*bounds, rtol=1e-3, atol=1e-9)
            low, high = low + bounds[0], high + bounds[1]
        if not kinked or got.shape != low.shape:
            return False
        slack = self.limit * (1 + _size(high) + _size(low))
        return bool(((got >= low - slack) & (got <= high + slack)).all())

    # The whole graph, by nbgrad alone.

    def truth(self) -> tuple[list[Numbers | None], list[Numbers | None]]:
        """The values and the gradients that nbgrad computes from the leaves alone; None where they are not known."""
        values: list[Numbers | None] = []
        for at, part in enumerate(self.parts):
            found = self.values[at]
            if part.op is not None and self.calls[at]:
                given = self.arguments(at, self.calls[at][0], [*values, *[None] * (len(self.parts) - len(values))])
                found = None if given is None else self.calls[at][0].run(given)
            values.append(found)
        return values, self.free(values)

    def free(self, values: Sequence[Numbers | None]) -> list[Numbers | None]:
        """The gradients that nbgrad computes from these values and the seeds alone."""
        made: list[RuleStep | None] = [None] * len(self.parts)
        gradients: list[Numbers | None] = [None] * len(self.parts)
        for at in reversed(range(len(self.parts))):
            total = self.total(at, made)
            value = values[at]
            gradients[at] = total
            if total is None or value is None or not self.calls[at]:
                continue
            given = self.arguments(at, self.calls[at][0], values)
            made[at] = None if given is None else RuleStep(self.calls[at][0], tuple(given), value, total)
        return gradients

    def parents(self, at: int) -> list[int]:
        """The positions of the tensor arguments of the call of a part."""
        return [
            self.at[id(self.parts[at].parents[slot])] for slot in (self.calls[at][0].slots if self.calls[at] else ())
        ]

    def all_notes(self) -> Mapping[int, str]:
        """By position, what was inferred of an op and could not be checked."""
        return {at: calls[0].note for at, calls in enumerate(self.calls) if calls and calls[0].note}


def _signs(like: Numbers, coin: torch.Generator) -> Numbers:
    return torch.randint(0, 2, tuple(like.shape), generator=coin, dtype=torch.float64) * 2 - 1


def _limit(part: Part) -> float:
    """The allowed relative difference of the numbers of a part."""
    try:
        return _RELATIVE.get(numbers_of(part.value).dtype, _DOUBLE)
    except NoNumbers:
        return 0.0


def _size(one: Numbers) -> float:
    finite = one[torch.isfinite(one)]
    return float(finite.abs().max()) if finite.numel() else 0.0
