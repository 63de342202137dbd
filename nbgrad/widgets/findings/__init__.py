"""The findings of a graph: everything that is wrong with it. It imports ``description`` and the core."""
