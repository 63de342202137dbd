"""The ids of the parts of a picture: they are made and taken apart here alone.

An id is a text because JSON, the DOT language and the links of a page need one. What a part is, its fields say.
"""

SIDES = ("a", "b")
"""The beginning of the ids of each of two graphs side by side."""

FRAMES = tuple(f"{side}side" for side in SIDES)
"""The ids of the scopes around these graphs."""


def node_id(at: int) -> str:
    """The id of the node of the record with this position."""
    return f"n{at}"


def edge_id(at: int) -> str:
    """The id of the edge with this position."""
    return f"e{at}"


def scope_id(at: int) -> str:
    """The id of the scope with this position."""
    return f"s{at}"


def folded_id(scope: str) -> str:
    """The id of the node that is drawn for a scope, or for several scopes of which this is the first."""
    return f"f-{scope}"


def copy_id(node: str, number: int) -> str:
    """The id of a copy of a tensor that is drawn once per use; copies are counted from 1."""
    return f"{node}.{number}"


def side_id(side: str, id: str) -> str:
    """An id of one of two graphs side by side, from its id in the graph alone."""
    return side + id


def side_and_id(id: str) -> tuple[str, str]:
    """The side, and the id in the graph alone, of what ``side_id`` made."""
    return id[:1], id[1:]


def cluster_name(scope: str) -> str:
    """The name of a scope in the DOT language."""
    return f"cluster_{scope}"


def mark_name(edge: str) -> str:
    """The name of the mark of a reduction in the DOT language."""
    return f"mark-{edge}"


def half_names(edge: str) -> tuple[str, str]:
    """The names of the two halves of an edge in the DOT language: into its mark, and out of it."""
    return f"{edge}/0", f"{edge}/1"
