"""The methods that the op table gives to ``Tensor``: empty here, filled row by row when the table is imported.

Type checkers and editors read ``methods.pyi``. A script writes it from the same table, and a test compares the two.
"""


class Conversions:
    """Methods with the names of Python types, such as ``x.float()``. In a class of their own they hide no type."""

    __slots__ = ()


class TensorMethods(Conversions):
    """Base of ``Tensor``: every operator and method that is a row of the op table."""

    __slots__ = ()
