"""Dead code: steps whose results nothing reads."""

from nbgrad.core.symbolic.passes.rewrite import L, Note, Passed, note, storages


def remove_dead_code(listing: L) -> Passed[L]:
    """Leave out the steps that nothing depends on.

    A step stays if one of its results leaves the program or is read later, if it draws random numbers (the next draws
    depend on it), if it checks numbers, or if it writes memory that is seen outside or read later.
    """
    live = {id(value) for value in listing.leaving()}
    seen = listing.external() | storages(listing.leaving())
    kept, notes = [], list[Note]()
    for step in reversed(listing.steps):
        needed = step.random or step.checks or any(id(value) in live for value in step.results())
        needed = needed or any(value.storage in seen for value in step.writes)
        if not needed:
            notes.append(note("dead code", step, ()))
            continue
        kept.append(step)
        for value in (*step.inputs(), *step.writes):
            live.add(id(value))
            seen.add(value.storage)
    if not notes:
        return Passed(listing, [])
    return Passed(listing.with_steps(kept[::-1]), notes[::-1])
