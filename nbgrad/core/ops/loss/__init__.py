"""Losses, with the reductions of torch. It imports ``dispatch`` and below, and other ops."""
