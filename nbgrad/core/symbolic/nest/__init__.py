"""Loop nests that compute many small operations in one call, and their two engines.

It imports torch and ``core/compilation.py``, and nothing else of nbgrad: a kernel knows no program.
"""
