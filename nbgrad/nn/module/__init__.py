"""``Module``, in files by topic. It imports ``nn.parameter`` and the core."""
