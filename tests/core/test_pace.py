"""Paced recording: which steps of a loop are recorded, and what a graph knows of the others."""
