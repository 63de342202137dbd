"""A recorded graph as a program in an exported page, which runs it again with other numbers."""

import json
from collections.abc import Mapping
from typing import Any

from nbgrad.core.graph.rerun import Rerun
from nbgrad.core.graph.saved_graph import AnyGraph, SavedGraph
from nbgrad.widgets.description.ids import node_id
from nbgrad.widgets.description.schema import Term
from nbgrad.widgets.what_if import edge_ids

NUMBERS = 2_000
"""The most numbers that the leaves and inputs of such a graph may have."""

OPS = 300
"""The most ops of such a graph."""


def what_if_program(graph: AnyGraph, root: str, sums: Mapping[str, list[Term]]) -> str:
    """The program as JSON, as ``page_run.ts`` reads it.

    Args:
        graph: the graph.
        root: the name in the picture of the tensor from which the backward began.
        sums: the parts of the losses that are sums, by node.

    Raises:
        ValueError: the graph is too large, or its reader is asked for gradients.
        RerunError: it cannot be run again.
        TraceError: a program cannot do what an op does.
        NotImplementedError: an op has no kernel in a page; the message names the operator and the line.
    """
    from nbgrad.core.symbolic.exports.page import described_program
    from nbgrad.core.symbolic.rerun_program import rerun_program

    rerun = Rerun(graph)
    if not isinstance(graph, SavedGraph) and graph.questions.hidden(graph.records):
        raise ValueError("this graph asks its reader for gradients, and a run in the page would show them")
    count = sum(rerun.numbers(id).numel() for id in rerun.sources)
    if count > NUMBERS or len(rerun) > OPS:
        raise ValueError(
            f"a page runs a graph of at most {OPS} ops, whose leaves and inputs have at most {NUMBERS:,} numbers, and "
            f"this one has {len(rerun)} ops and {count:,} numbers: save it without what_if=True"
        )
    notes = rerun.differences()
    traced = rerun_program(rerun)
    names = {id: node_id(at) for at, id in enumerate(rerun.order)}
    edges = {(call.id, position): edge for edge, call, position in edge_ids(rerun)}
    described = described_program(traced.program, traced.examples, steps=False)
    found: list[list[Any]] = []
    for (kind, *key), made in zip(traced.results, described.pop("results"), strict=True):
        of = edges[tuple(key)] if kind == "edge" else names[key[0]]
        found.append([kind, of, made["v"]])
    seeds = {
        names[id]: None if seed is None or seed.array is None else seed.array.ravel().tolist()
        for id, seed in rerun.roots.items()
    }
    told = {
        **described,
        "nodes_of": [names[id] for id in traced.given],
        "found": found,
        "roots": seeds,
        "root": root,
        "sums": sums,
        "notes": notes,
    }
    return json.dumps(told, allow_nan=False).replace("<", "\\u003c")
