"""An engine of one's own, which grows by one file in each lesson. It needs numpy and nothing else."""
