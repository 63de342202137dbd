"""Loop nests that compute many small operations in one call, and their engines. A module here imports torch alone."""
