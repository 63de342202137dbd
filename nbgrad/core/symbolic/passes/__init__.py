"""Passes: each takes a listing and returns another one that computes the same with less, and says what it did.

A module here imports the forms of ``symbolic`` (``ir``, ``structure``, ``numbers``) and nothing that runs a program.
"""
