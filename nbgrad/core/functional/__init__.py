"""Gradients as functions: grad, jacobian, their products and checkpoint. It imports ``ops`` and below."""
