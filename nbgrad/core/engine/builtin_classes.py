"""Second names of Python's own classes. Under these, compiled modules give the classes attributes that C computes.

A ``.pxd`` file says which attributes. Under its own name a class cannot be given any.
"""

AnyNode: type = object
"""A node of torch's graph."""

Lengths: type = tuple
"""A tuple or a ``torch.Size``."""

Referred: type = object
"""The class of objects to which a weak reference leads."""
