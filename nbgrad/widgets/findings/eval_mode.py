"""Modules that learn in eval mode, where batch normalization measures nothing and dropout drops nothing."""

from collections.abc import Iterator
from typing import Any

from nbgrad.core.engine.scope import ModuleScope
from nbgrad.core.engine.state import outwards
from nbgrad.core.graph.finding import Finding
from nbgrad.core.graph.record import Record
from nbgrad.core.translation import translate
from nbgrad.widgets.findings.examination import Examination
from nbgrad.widgets.findings.located import located


def evaluating(records: list[Record]) -> Iterator[Finding]:
    """The first batch normalization of each model that is wholly in eval mode although a step has changed it.

    A single normalization in eval mode, or one with frozen parameters, is usual in fine-tuning and no finding.
    """
    yield from _dropless(records)
    learned = {record.id for record in records if record.since is not None and record.since.stepped}
    told: set[int] = set()
    for record in records:
        if record.op is None or record.op.name != "batch_norm" or record.settings.get("training"):
            continue
        if not any(taken.source in learned for taken in record.inputs):
            continue
        outer = _called(record)
        if not outer or any(one.training for one in outer) or id(outer[-1]) in told:
            continue
        told.add(id(outer[-1]))
        name = type(outer[-1]).__name__
        text = translate(
            "{name} learns in eval mode: this normalization uses its running statistics, which do "
            "not change, and dropout drops nothing.",
            name=name,
        )
        yield located(record, "eval mode", text, translate("Call train() on the {name} before training", name=name))


def _dropless(records: list[Record]) -> Iterator[Finding]:
    """The models in eval mode with dropout and without batch normalization, although a step has changed them."""
    stepped = [record for record in records if record.since is not None and record.since.stepped and record.scope]
    # The present mode may be that of a validation after the last backward: a dropout that ran was in train mode.
    normalized = any(
        record.op is not None and (record.op.name == "batch_norm" or "dropout" in record.op.name) for record in records
    )
    told: set[int] = set()
    for record in () if normalized else stepped:
        outer = _called(record)
        if not outer or id(outer[-1]) in told:
            continue
        model = outer[-1]
        told.add(id(model))
        drops = _dropouts(model)
        if not drops or model.training or any(one.training for one in drops):
            continue
        name = type(model).__name__
        text = translate("{name} learns in eval mode: its dropout drops nothing.", name=name)
        yield located(record, "eval mode", text, translate("Call train() on the {name} before training", name=name))


def partly(case: Examination) -> Iterator[Finding]:
    """A part of a model in train mode that is in eval mode itself, and that steps change.

    A single normalization in eval mode is usual, and so is a part that was trained before: its normalizations have
    statistics of their own.
    """
    told: set[int] = set()
    for record in case.records:
        modules = _called(record) if record.since is not None and record.since.stepped else []
        still = [one for one in modules if not one.training]
        if not still or not modules[-1].training or id(still[-1]) in told:
            continue
        part = still[-1]
        told.add(id(part))
        norms, drops = [one for one in part.modules() if getattr(one, "running_var", None) is not None], _dropouts(part)
        untrained = norms and all(not one.running_mean.any() and bool((one.running_var == 1).all()) for one in norms)
        if part in norms or not (untrained or (drops and not norms)):
            continue
        does = translate("its normalizations have never measured a batch" if untrained else "its dropout drops nothing")
        name = type(part).__name__
        within = "" if record.scope is None else f" ({' > '.join(record.scope.path())})"
        text = translate(
            "{name}{within} learns in eval mode, inside of a model in train mode: {does}.",
            name=name,
            within=within,
            does=does,
        )
        yield located(record, "eval mode", text, translate("Call train() on the {name}, too", name=name))


def _dropouts(model: Any) -> list[Any]:
    """The modules of ``model`` that drop a part of their numbers in train mode."""
    return [one for one in model.modules() if "Dropout" in type(one).__name__ and getattr(one, "p", None)]


def _called(record: Record) -> list[Any]:
    """The modules that were called there and still exist, innermost first."""
    modules = [scope.module() for scope in outwards(record.scope) if isinstance(scope, ModuleScope)]
    return [module for module in modules if module is not None]
