"""Ops that compute each element by itself. It imports ``dispatch`` and below, and other ops."""
