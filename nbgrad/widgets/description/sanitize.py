"""Clean every string and limit its length: the one boundary that a hostile name has to pass.

It has two parts: the input of graphviz is cleaned first, and the details are written while graphviz works.
"""

from nbgrad.widgets.description.schema import (
    Description,
    Detail,
    Edge,
    Formula,
    MemoryTimeline,
    Node,
    OpText,
    Reduction,
    Step,
)
from nbgrad.widgets.description.text_metrics import clean, clip, clip_middle

LINE = 44
"""How many letters a line in a box has at most."""

_LINES, _MARK, _SCOPE, _TERM, _NAME, _TEXT, _WORDS = 5, 72, 56, 80, 120, 20_000, 600


def clipped(description: Description) -> Description:
    """The description with clean strings of limited length, except those of its details.

    Strings of boxes and edges become one line.

    Give the result, when its details are written, to ``with_clipped_details``.
    """
    scopes = {scope["id"] for scope in description["scopes"]}
    return {
        **description,
        "name": clip(description["name"], 120),
        "summary": clip(description["summary"], 500),
        "notes": [clip(note, _WORDS, lines=True) for note in description["notes"]],
        "nodes": [_node(node, scopes) for node in description["nodes"]],
        "edges": [_edge(edge) for edge in description["edges"]],
        "scopes": [
            {
                **scope,
                "name": clip(scope["name"], _WORDS),
                "like": clip(scope["like"], _WORDS),
                "label": clip_middle(scope["label"], _SCOPE),
                "full": clip(scope["label"], _WORDS) if len(scope["label"]) > _SCOPE else scope["full"],
                "folds": clip(scope["folds"], _TERM),
            }
            for scope in description["scopes"]
        ],
        "ops": {clip(name, _TERM): _op(op) for name, op in description["ops"].items()},
        "formulas": {
            clip(latex, _TEXT): "" if len(mathml) > _TEXT else clean(mathml, lines=True)
            for latex, mathml in description["formulas"].items()
        },
        "overlays": [
            {
                **overlay,
                "label": clip(overlay["label"], _TERM),
                "classes": [clip(name, _TERM) for name in overlay["classes"]],
            }
            for overlay in description["overlays"]
        ],
        "verdicts": [
            {**verdict, "name": clip(verdict["name"], _WORDS), "text": clip(verdict["text"], _WORDS)}
            for verdict in description["verdicts"]
        ],
        "problems": [{**problem, "text": clip(problem["text"], _WORDS)} for problem in description["problems"]],
        "memory": _memory(description["memory"]),
        "outcome": clip(description["outcome"], _WORDS),
        "checked": [clip(line, _WORDS) for line in description["checked"]],
        "hidden": {
            "reductions": [
                {
                    **one,
                    "ends": clip(one["ends"], _TERM),
                    "text": clip(one["text"], _MARK),
                    "warning": one["warning"] and clip(one["warning"], _WORDS),
                }
                for one in description["hidden"]["reductions"]
            ],
            "nodes": [
                {**one, "label": clip(one["label"], _WORDS), "words": clip(one["words"], _TERM)}
                for one in description["hidden"]["nodes"]
            ],
        },
        "ranking": {
            **description["ranking"],
            "rows": [{**one, "name": clip_middle(one["name"], _NAME)} for one in description["ranking"]["rows"]],
        },
        "history": {
            **description["history"],
            "frames": [{**frame, "title": clip(frame["title"], _TERM)} for frame in description["history"]["frames"]],
            "charts": [
                {**chart, "curves": [{**curve, "label": clip(curve["label"], _TERM)} for curve in chart["curves"]]}
                for chart in description["history"]["charts"]
            ],
            "differences": [
                {**difference, "lines": [clip(line, 200) for line in difference["lines"]]}
                for difference in description["history"]["differences"]
            ],
        },
    }


def _memory(memory: MemoryTimeline | None) -> MemoryTimeline | None:
    if memory is None:
        return None
    return {**memory, "text": clip(memory["text"], _WORDS), "ops": [clip(op, _TERM) for op in memory["ops"]]}


def with_clipped_details(description: Description) -> Description:
    """The same with the strings of the details clean too: what a click on a node or on a mark shows, and the steps."""
    nodes: list[Node] = [{**node, "details": list(map(_detail, node["details"]))} for node in description["nodes"]]
    edges: list[Edge] = [
        edge if (reduction := edge["reduction"]) is None else {**edge, "reduction": _told(reduction)}
        for edge in description["edges"]
    ]
    return {**description, "nodes": nodes, "edges": edges, "steps": list(map(_step, description["steps"]))}


def _told(reduction: Reduction) -> Reduction:
    sums = [clip(row, 200) for row in reduction["sums"]]
    return {**reduction, "words": clip(reduction["words"], _WORDS), "sums": sums}


def _detail(row: Detail) -> Detail:
    return {**row, "term": clip(row["term"], _TERM), "text": clip(row["text"], _TEXT, lines=True)}


def _node(node: Node, scopes: set[str]) -> Node:
    label = [clip_middle(line, LINE) if at == 0 else clip(line, LINE) for at, line in enumerate(node["label"][:_LINES])]
    named = " ".join([*node["label"][:1], node["about"]]) if node["about"] else "".join(node["label"][:1])
    shortened = len(node["about"]) > LINE or any(len(line) > LINE for line in node["label"][:1])
    return {
        **node,
        "full": clip(named, _WORDS) if shortened else node["full"],
        "scope": node["scope"] if node["scope"] in scopes else None,
        "label": label or [node["id"]],
        "numbers": [min(line, len(label)) for line in node["numbers"]],
        "about": clip_middle(node["about"], LINE),
        "variable": clip_middle(node["variable"], LINE),
        "op": None if node["op"] is None else clip(node["op"], _TERM),
        "badges": [{**badge, "text": clip(badge["text"], _WORDS)} for badge in node["badges"]],
    }


def _op(op: OpText) -> OpText:
    formulas, symbols = (list(map(_formula, group)) for group in (op["formulas"], op["symbols"]))
    return {"what": clip(op["what"], 2000), "why": clip(op["why"], 2000), "formulas": formulas, "symbols": symbols}


def _formula(formula: Formula) -> Formula:
    return {
        "of": clip(formula["of"], _TERM),
        "latex": clip(formula["latex"], _TEXT),
        "mathml": "" if len(formula["mathml"]) > _TEXT else clean(formula["mathml"], lines=True),
    }


def _edge(edge: Edge) -> Edge:
    reduction = edge["reduction"]
    return {
        **edge,
        "input": clip(edge["input"], _TERM),
        "label": clip(edge["label"], _TERM),
        "back": None if edge["back"] is None else clip(edge["back"], _TERM),
        "gradient": None if edge["gradient"] is None else clip(edge["gradient"], 200),
        "mismatch": None if edge["mismatch"] is None else clip(edge["mismatch"], 200),
        "reduction": None
        if reduction is None
        else {
            **reduction,
            "text": clip(reduction["text"], _MARK),
            "expansion": clip(reduction["expansion"], _MARK),
            "warning": None if reduction["warning"] is None else clip(reduction["warning"], _WORDS),
        },
    }


def _step(step: Step) -> Step:
    if "rewrite" in step:
        rewrite = step["rewrite"]
        step = {**step, "rewrite": {**rewrite, "details": list(map(_detail, rewrite["details"]))}}
    return {
        **step,
        "title": clip(step["title"], 200),
        "incoming": clip(step["incoming"], 200),
        "given": [
            {**given, "text": clip(given["text"], 200), "came": clip(given["came"], 200)} for given in step["given"]
        ],
    }
