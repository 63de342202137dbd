"""Common subexpressions: steps that compute what an earlier one has computed."""

from nbgrad.core.dispatch.table import OPERATORS
from nbgrad.core.engine.traits import traits_of
from nbgrad.core.symbolic.ir import ProgramStep, Value
from nbgrad.core.symbolic.passes.forms import row_for
from nbgrad.core.symbolic.passes.rewrite import L, Memory, Note, Passed, Replacement, key_of, note, storages


def merge_common(listing: L) -> Passed[L]:
    """Compute once what several steps compute.

    The order of the operands of a sum or a product does not matter. Two steps are never merged if they draw random
    numbers, if one of them changes memory or makes memory that is changed later, or if the memory that they read is
    changed between them.
    """
    memory, stands = Memory(listing), Replacement()
    leaving = storages(listing.kept())
    seen: dict[object, list[Value]] = {}
    steps, notes = [], list[Note]()
    for given in listing.steps:
        step = stands.step(given)
        made = step.results()
        read = storages(step.inputs())
        fresh = [value for value in made if value.storage not in read]
        if step.random or step.writes or not made or any(value.storage in memory.written for value in fresh):
            memory.pass_step(step)
            steps.append(step)
            continue
        try:
            key = _key(step, memory)
        except TypeError:
            steps.append(step)
            continue
        known = seen.get(key)
        both = known is not None and any(value.storage in leaving for value in fresh) and storages(known) & leaving
        if known is None or both:  # two results that leave the program do not share memory
            seen.setdefault(key, made)
            steps.append(step)
            continue
        for value, other in zip(made, known, strict=True):
            stands.add(value, other)
        notes.append(note("common subexpression", step, known))
    return Passed.of(listing, steps, notes, stands)


def _key(step: ProgramStep, memory: Memory) -> object:
    row = row_for(step.name)
    args = [key_of(one, lambda value: ("value", id(value), memory.epoch(value))) for one in step.args]
    if traits_of(row).commutes and len(args) == 2 and not step.kwargs:
        args.sort(key=repr)
    # Whatever an operator's function is called, it has the same arguments.
    named = row.name if row is not None and row in OPERATORS.values() else step.function
    return (named, *args, key_of(step.kwargs, lambda value: ("value", id(value), memory.epoch(value))))
