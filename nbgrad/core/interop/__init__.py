"""torch's functions and numpy's arrays on our tensors. It imports ``graph``, ``functional`` and below."""
