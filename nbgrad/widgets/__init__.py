"""From a graph to what a reader sees: describe, lay out, draw, show.

Nothing is imported here: each output needs the packages of its own modules alone.
"""
