"""Ops that read and write elements by their position. It imports ``dispatch`` and below, and other ops."""
