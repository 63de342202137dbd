"""Names of Python's own classes by which compiled modules give them attributes that are functions of C.

A ``.pxd`` says which. Under its own name a class cannot have them.
"""

AnyNode = object
"""A node of torch's graph."""

Lengths = tuple
"""A tuple or a ``torch.Size``."""

Referred = object
"""What a weak reference leads to."""
