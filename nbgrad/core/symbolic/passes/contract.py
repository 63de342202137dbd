"""Contractions: a product and the addition of it in one step."""

from collections import Counter
from typing import Any

import torch

from nbgrad.core.symbolic.ir import Listing, ProgramStep, Value
from nbgrad.core.symbolic.passes.editor import Editor
from nbgrad.core.symbolic.passes.forms import ROUNDED, SUMS, canonical, form_of, is_elementwise
from nbgrad.core.symbolic.passes.rewrite import L, Memory, Note, Passed, note

_OPERANDS = 2


def contract_products(listing: L) -> Passed[L]:
    """``c + x * y`` and ``c - x * y`` as one ``addcmul``, where the sum alone reads the product.

    ``x * y - c`` as well, where several steps subtract the same ``c``. The last digits change: the product is not
    rounded on its own, or it is rounded in another order.
    """
    return _Contraction(listing).passed()


class _Contraction:
    """One pass over a listing."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._written = Memory(listing).written
        self._editor = Editor(listing)
        self._uses = Counter(id(value) for step in listing.steps for value in step.inputs())
        self._uses.update(id(value) for value in listing.kept())
        self._products: dict[int, ProgramStep] = {}
        self._negated: dict[int, ProgramStep] = {}
        self._subtracted: Counter[int] = Counter()

    def passed(self) -> Passed[Any]:
        """The result of the pass."""
        for step in self._listing.steps:
            self._see(step)
        dropped: set[int] = set()
        steps, notes = list[ProgramStep](), list[Note]()
        for step in self._listing.steps:
            made, product = self._contracted(step)
            if made is None or product is None:
                steps.append(step)
                continue
            dropped.add(id(product))
            steps += made
            notes.append(note("product and sum in one", step, made, 0))
        return Passed.of(self._listing, [one for one in steps if id(one) not in dropped], notes)

    def _see(self, step: ProgramStep) -> None:
        """Remember products, and the values subtracted from them."""
        if not _plain(step):
            return
        name, result = canonical(step), step.result
        still = all(value.storage not in self._written for value in (*step.inputs(), result))
        if name == "mul" and still and self._uses[id(result)] == 1:
            self._products[id(result)] = step
        elif name == "sub" and id(step.args[0]) in self._products and form_of(step.args[0]) == form_of(result):
            self._subtracted[id(step.args[1])] += 1

    def _contracted(self, step: ProgramStep) -> tuple[list[ProgramStep] | None, ProgramStep | None]:
        """The steps that replace a sum and the product in it, and the step of the product; None if there is none."""
        name = canonical(step)
        if name not in SUMS or not _plain(step):
            return None, None
        first, second = step.args
        choices = [(first, second)] if name == "sub" else [(first, second), (second, first)]
        for other, one in choices:
            product = self._products.get(id(one))
            if product is None or product.args[0] is other or other is one:
                continue
            settings = {"value": -1} if name == "sub" else {}
            made = self._editor.call(torch.addcmul, (other, *product.args), step, settings, result=step.result)
            if made is not None:
                return [made], product
        product = self._products.get(id(first))
        if name == "sub" and product is not None and self._subtracted[id(second)] > 1:
            return self._from_negative(step, product, second), product
        return None, None

    def _from_negative(self, step: ProgramStep, product: ProgramStep, other: Value) -> list[ProgramStep] | None:
        """``x * y - c`` as ``-c + x * y``; the negative is computed once."""
        if other.storage in self._written:
            return None
        known = self._negated.get(id(other))
        negative = known or self._editor.call(torch.neg, (other,), step)
        if negative is None:
            return None
        made = self._editor.call(torch.addcmul, (negative.result, *product.args), step, result=step.result)
        if made is None:
            return None
        self._negated[id(other)] = negative
        return [made] if known is not None else [negative, made]


def _plain(step: ProgramStep) -> bool:
    """Whether a step computes with two values of one floating type."""
    if not is_elementwise(step, ROUNDED) or len(step.inputs()) != len(step.args) or len(step.args) != _OPERANDS:
        return False
    return bool(step.result.dtype.is_floating_point)
