"""Counts of changes of module attributes: a result computed from them is valid while the count stays the same."""

import torch.nn.modules.module as every_module

GLOBAL_FORWARD_PRE_HOOKS = every_module._global_forward_pre_hooks
GLOBAL_FORWARD_HOOKS = every_module._global_forward_hooks
GLOBAL_BACKWARD_PRE_HOOKS = every_module._global_backward_pre_hooks
GLOBAL_BACKWARD_HOOKS = every_module._global_backward_hooks
"""The hooks of all modules: torch's own tables, which it changes and never replaces."""

TABLES = (GLOBAL_FORWARD_PRE_HOOKS, GLOBAL_FORWARD_HOOKS, GLOBAL_BACKWARD_PRE_HOOKS, GLOBAL_BACKWARD_HOOKS)


class ModuleChanges:
    """A count of changes.

    Attributes:
        count: the number of changes.
        hooks: how often a hook was added to a module, or taken from one.
    """

    def __init__(self) -> None:
        self.count = 0
        self.hooks = 0


module_changes = ModuleChanges()
"""Changes of attributes of all modules: a mode, a setting, a child, a hook, but not the numbers of a parameter."""


def global_hooks() -> tuple[tuple[int, ...], ...]:
    """The ids of the hooks that run for all modules."""
    return tuple(map(tuple, TABLES)) if any(TABLES) else ()
