"""Outside of a notebook: the command ``nbgrad``, which runs a program, records it and reports.

It imports everything below it in the package, at the first use: the command begins without torch.
"""
