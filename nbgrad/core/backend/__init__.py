"""Parts of torch that nbgrad uses: kernels, casts, matrix products, memory. It imports no other layer of the core."""
