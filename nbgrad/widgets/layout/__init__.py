"""Where each box and line is drawn: graphviz, and the curves. It imports ``folding`` and below."""
