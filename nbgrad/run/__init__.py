"""nbgrad outside of a notebook: commands, files of graphs, tests and trainers.

It imports everything below it in the package, at the first use: a command begins without torch.
"""
