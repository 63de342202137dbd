"""The methods that the op table gives to ``Tensor``: empty here, filled row by row when the table is imported.

What type checkers and editors read is ``methods.pyi``, which a script writes from the same table and a test compares.
"""


class Conversions:
    """The methods called as Python's own types, ``x.float()``: apart, so that these keep their names elsewhere."""

    __slots__ = ()


class TensorMethods(Conversions):
    """Base of ``Tensor``: every operator and method that is a row of the op table."""

    __slots__ = ()
