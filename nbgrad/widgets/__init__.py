"""The pictures of graphs: describe a graph, lay it out, draw it, show it.

Nothing is imported here: each output needs the packages of its own modules alone.
"""
