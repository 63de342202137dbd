"""Loop nests that compute many small operations in one call, and their engines; imports torch, numpy and the backend."""
