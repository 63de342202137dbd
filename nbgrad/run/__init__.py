"""nbgrad outside of a notebook: commands, files of graphs, tests and trainers."""
