"""Functions that make tensors, of constants or at random. It imports ``dispatch`` and below, and other ops."""
