"""Passes: each takes a listing and returns another one that computes the same with less, and says what it did.

It imports the forms of ``symbolic`` (``ir``, ``structure``, ``numbers``) and nothing that runs a program.
"""
