"""A measure of how hard a layout is, before graphviz is asked: a clock would draw other pictures on a slow machine."""

from nbgrad.widgets.description.schema import Description

MOST = 6_000
"""If lines pass more rows than this, all together, graphviz needs seconds or minutes, and a reader sees a tangle."""

HARD = 1_500
"""If lines pass more rows than this, graphviz has to improve a layout less often. What it finds then is as good."""


def passed(description: Description) -> int:
    """The number of rows that the lines pass. An op stands below all that it takes, a tensor above its first reader."""
    row: dict[str, int] = {}
    made: set[str] = set()
    for edge in description["edges"]:  # those into a node come before those from it
        source, target = edge["source"], edge["target"]
        made.add(target)
        below = row.get(source, 0) + 1 + (edge["reduction"] is not None)
        row[target] = max(row.get(target, 0), below)
    above: dict[str, int] = {}
    for edge in description["edges"]:
        if edge["source"] not in made:
            above[edge["source"]] = min(above.get(edge["source"], row[edge["target"]]), row[edge["target"]])
    return sum(
        [
            row[edge["target"]] - (row[edge["source"]] if edge["source"] in made else above[edge["source"]] - 1)
            for edge in description["edges"]
        ]
    )
