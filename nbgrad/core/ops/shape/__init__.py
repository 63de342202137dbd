"""Ops that move elements and compute nothing. It imports ``dispatch`` and below, and other ops."""
