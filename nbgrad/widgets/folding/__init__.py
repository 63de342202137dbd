"""Which modules and repetitions are drawn as one box. It imports ``description``."""
