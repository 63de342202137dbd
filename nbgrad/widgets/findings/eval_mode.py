"""Modules that learn in eval mode, where batch normalization measures nothing and dropout drops nothing."""

from collections.abc import Iterator
from typing import Any

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import outwards
from nbgrad.core.graph.finding import Finding
from nbgrad.widgets.description.snapshot import Fact
from nbgrad.widgets.findings.located import located


def evaluating(facts: list[Fact]) -> Iterator[Finding]:
    """The first batch normalization of each model that a step has changed and that is in eval mode, with all of it.

    One that is put into eval mode alone, or whose parameters are frozen, is fine-tuned as it is meant to be.
    """
    learned = {fact.id for fact in facts if fact.since is not None and fact.since.stepped}
    told: set[int] = set()
    for fact in facts:
        if fact.op is None or fact.op.name != "batch_norm" or fact.settings.get("training"):
            continue
        if not any(taken.source in learned for taken in fact.inputs):
            continue
        outer = _called(fact)
        if not outer or any(one.training for one in outer) or id(outer[-1]) in told:
            continue
        told.add(id(outer[-1]))
        name = type(outer[-1]).__name__
        remedy = f"Call train() on the {name} before training"
        text = (
            f"{name} learns in eval mode: this normalization uses its running statistics, which do not change, and "
            f"dropout drops nothing. {remedy}"
        )
        yield located(fact, "eval mode", text, remedy)


def _called(fact: Fact) -> list[Any]:
    """The modules that were called there and still exist, innermost first."""
    modules = [scope.module() for scope in outwards(fact.scope) if isinstance(scope, ModuleScope)]
    return [module for module in modules if module is not None]
