"""A graph as plain data: everything that is drawn, with its texts. It imports the core alone."""
