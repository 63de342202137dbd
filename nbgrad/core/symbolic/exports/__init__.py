"""Programs outside of Python: files, graphs of other systems, pages.

The modules that write take a ``Listing``; ``loading`` alone makes a ``Program``.
"""
