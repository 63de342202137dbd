"""One op: it is declared, gets its arguments and runs. It imports ``tensor`` and below."""
