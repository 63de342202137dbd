"""What is wrong with a graph. It imports ``description`` and the core."""
