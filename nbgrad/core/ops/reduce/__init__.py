"""Ops that combine many elements into few: sums, extremes, norms, statistics and order.

It imports ``dispatch`` and below, and other ops.
"""
