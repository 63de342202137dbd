"""nbgrad outside of a notebook: in scripts, in tests and in trainers."""
