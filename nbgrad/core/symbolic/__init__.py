"""Programs: functions traced without numbers, their gradients, passes over them, and what runs them.

It imports every other part of the core. Nothing in the core imports this folder.
"""
