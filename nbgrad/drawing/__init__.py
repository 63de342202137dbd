"""The graphs of other engines: readers that understand their objects.

It imports the core and the view.
"""
