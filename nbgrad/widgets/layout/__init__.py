"""The positions of boxes and lines: graphviz, and the curves. It imports ``folding`` and below."""
