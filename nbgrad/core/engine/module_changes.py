"""How often an attribute of some module has changed: what was made from the attributes holds as long as this stays."""


class ModuleChanges:
    """A count of changes.

    Attributes:
        count: how many there were.
    """

    def __init__(self) -> None:
        self.count = 0


module_changes = ModuleChanges()
"""The changes of attributes of all modules: a mode, a setting, a child. The numbers in a parameter are none."""
