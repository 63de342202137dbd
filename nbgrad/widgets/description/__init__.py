"""A graph as plain data: what is drawn, and every text of it. It imports the core alone."""
