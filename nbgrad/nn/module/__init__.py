"""``Module`` and the helpers that it calls, which do not import it. They import ``nn.parameter`` and the core."""
