"""Ops of neural networks, from activations to attention.

It imports ``dispatch`` and below, and other ops.
"""
