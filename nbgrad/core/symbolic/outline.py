"""A program as a short text for ``print``: its lines by phase and module, with shapes."""

import re

from nbgrad.core.symbolic.ir import Listing
from nbgrad.core.symbolic.source import Source, kind, roots_of, titled

_BREAK = re.compile(r"(?P<open>\()\n\s*|,\n\s*(?P<close>(?=\)))|\n\s*")
"""Where a long call goes on in another line."""

_FIRST, _LAST = 40, 12
"""How many of the first and of the last lines are printed, if a program has more than these together."""


def outline(listing: Listing) -> str:
    """The text: what the program takes, its lines at the level of rows, and what it returns."""
    source = Source(listing, "ops")
    takes = ", ".join(f"{value!r} {kind(value)}" for value in listing.inputs)
    head = [f"program {listing.name}({takes}): {count_of(len(source.lines), 'line')}, {count_of(len(listing), 'step')}"]
    if listing.captured:
        names = [f"{value!r} {kind(value)}" for value in listing.captured]
        more = f", and {len(names) - _LAST} more" if len(names) > _LAST else ""
        head.append(f"captured: {', '.join(names[:_LAST])}{more}")
    roots, phase = roots_of(source.lines), ""
    scope: tuple[str, ...] = ()
    body: list[str] = []
    for line in source.lines:
        if line.phase != phase:
            phase, scope = line.phase, ()
            body.append(f"{phase}:")
        if line.scope != scope:
            scope = line.scope
            body += [f"  {titled(scope, roots)}:"] * bool(scope)
        for target, call, comment in source.statements(line):
            call = _BREAK.sub(_joined, call.removeprefix("ops."))
            text = f"{target} = {call}" if target else call
            body.append(f"{'    ' if scope else '  '}{text}" + (f"  # {comment}" if comment else ""))
    hidden = len(body) - _FIRST - _LAST
    if hidden > 1:
        body[_FIRST:-_LAST] = [f"  ... {hidden} more lines: print(program.source()) has all"]
    gradients = [f"  {owner_name}.grad = {value!r}" for owner_name, value in _gradients(listing)]
    return "\n".join([*head, *body, *gradients, f"return {source.returned}"])


def _joined(found: re.Match[str]) -> str:
    """The text that replaces a line break in one line."""
    return found["open"] or ("" if found[0].startswith(",") else " ")


def _gradients(listing: Listing) -> list[tuple[str, object]]:
    names = {id(value.owner): value.name for value in listing.captured if value.owner is not None}
    return [(names[id(owner)], value) for owner, value in listing.gradients if id(owner) in names]


def count_of(number: int, noun: str) -> str:
    """A number of things: 1 step, 2 steps."""
    return f"{number} {noun}" + ("" if number == 1 else "s")
