"""Ops that make fewer elements of many: sums, extremes, norms, statistics and order.

It imports ``dispatch`` and below, and other ops.
"""
