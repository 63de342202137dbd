"""Programs outside of Python: files, graphs of other systems, pages.

It imports the rest of ``core.symbolic``. The modules that write take a ``Listing``; ``loading`` alone makes a
``Program``.
"""
