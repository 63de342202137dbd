"""Ops of neural networks: activations, convolution, pooling, normalization, attention, recurrence. It imports ``dispatch`` and below, and other ops."""
