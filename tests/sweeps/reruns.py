"""Recorded programs run again. With the same numbers they repeat their results; with others they equal a fresh run.

The recorded path may not give the recorded numbers, as after a change that was not recorded. Then the graph says so.
"""

from collections.abc import Iterable
from random import Random
from typing import Any

import torch

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.rerun import Rerun, RerunError, RerunOutcome
from tests.core.random_programs import total
from tests.sweeps.traced_programs import DRAWS, RAISES, Choice, chosen, leaves, run

CASES = 12

KEPT = {"detach", "where", "mask = number", "backward inside", "constant", *DRAWS}
"""Steps that draw random numbers, or whose results a rerun keeps. With other numbers a fresh run would differ."""


def recorded(given: list[Any], choices: list[Choice], log: list[str]) -> tuple[AutogradGraph, list[Any], Any]:
    """A graph of a program with its backward, its leaves, and the objects that keep its tensors alive."""
    mine = [nbgrad.tensor(one.data.clone(), requires_grad=one.requires_grad) for one in given]
    torch.manual_seed(1)
    with AutogradGraph() as graph:
        live = run(mine, choices, log)
        end = total(live)
        if getattr(end, "requires_grad", False):
            end.backward()
    return graph, mine, (live, end)


def check(random: Random) -> None:
    """Record a program, run it again with the same numbers or with others, and compare with fresh runs."""
    other = random.random() < 0.6
    choices, given = chosen(random), leaves(random)
    if other:
        choices = [one for one in choices if one.name not in KEPT and not one.silent]
        given = [nbgrad.tensor(one.data, requires_grad=True) for one in given]
    log: list[str] = [RAISES]
    while any(line.endswith(RAISES) for line in log):
        log.clear()
        try:
            graph, mine, held = recorded(given, choices, log)
        except (RuntimeError, IndexError, ValueError):
            return  # its backward raises
        choices = [one for one, line in zip(choices, log, strict=True) if not line.endswith(RAISES)]
    if not graph.backwards:
        return
    ids = [
        next((one.id for one in graph.records if one.leaf is not None and one.leaf() is leaf), None) for leaf in mine
    ]
    text = "\n".join(log)
    if other:
        with_others(Rerun(graph), mine, choices, ids, text)
        return
    try:
        rerun = Rerun(graph)
        told = rerun.differences()
    except RerunError:
        return
    if not told:
        same(rerun.run({}), zip(ids, mine, strict=True), held[1], text)


def with_others(rerun: Rerun, given: list[Any], choices: list[Choice], ids: list[int | None], text: str) -> None:
    """Run it again with other numbers in all leaves."""
    told = rerun.differences()
    assert told == [], f"{told}\n{text}"
    fresh = [nbgrad.tensor((one.data * 0.7 + 0.1).clone(), requires_grad=True) for one in given]
    log: list[str] = []
    try:
        _, new, (_, end) = recorded(fresh, choices, log)
    except (RuntimeError, IndexError, ValueError):
        return
    if "\n".join(log) == text:
        changes = {number: one.data for number, one in zip(ids, fresh, strict=True) if number is not None}
        same(rerun.run(changes), zip(ids, new, strict=True), end, text)


def same(outcome: RerunOutcome, leaves: Iterable[tuple[int | None, Any]], end: Any, text: str) -> None:
    """The rerun has the final number and the gradients of a recorded program."""
    assert outcome.root is not None
    close(torch.tensor(outcome.root, dtype=torch.float64), end.data, f"the end\n{text}")
    for number, leaf in leaves:
        if leaf.grad is None:
            continue
        assert number is not None, text
        got = outcome.gradients.get(number)
        assert isinstance(got, torch.Tensor), text
        close(got, leaf.grad.data, f"a gradient\n{text}")


def close(one: torch.Tensor, other: torch.Tensor, text: str) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9, equal_nan=True, msg=lambda told: f"{told}\n{text}")
