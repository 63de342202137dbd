"""Functions that make tensors from constants or random numbers. It imports ``dispatch`` and below, and other ops."""
