"""Names of Python's own classes by which compiled modules give them attributes that are functions of C.

A ``.pxd`` says which. Under its own name a class cannot have them.
"""

AnyNode: type = object
"""A node of torch's graph."""

Lengths: type = tuple
"""A tuple or a ``torch.Size``."""

Referred: type = object
"""The class of objects to which a weak reference leads."""
