"""Nodes, the state of a thread and the backward walk. It imports ``backend`` alone."""
