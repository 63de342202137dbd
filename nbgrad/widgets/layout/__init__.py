"""The positions of boxes and edges: graphviz, and the curves. It imports ``description``."""
