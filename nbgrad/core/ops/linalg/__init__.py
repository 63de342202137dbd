"""Matrix products, decompositions and functions of matrices. It imports ``dispatch`` and below, and other ops."""
