"""Programs: functions traced without numbers, their gradients, passes over them, and what runs them.

It imports every other part of the core, and nothing in the core imports it.
"""
