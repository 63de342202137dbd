"""The packages of trainers, which are imported when a callback is asked for."""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any


def wanted(name: str, modules: Sequence[str], install: str) -> Any:
    """The first of ``modules`` that the program has imported, or else the first that can be imported.

    Args:
        name: of the callback that needs it.
        modules: the names under which the package may be installed.
        install: what ``pip install`` is told.

    Raises:
        ModuleNotFoundError: none of them is installed. It says what to install.
    """
    for module in modules:
        if sys.modules.get(module) is not None:
            return sys.modules[module]
    for module in modules:
        try:
            return import_module(module)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{module}.".startswith(f"{error.name}."):
                raise  # it is installed, and lacks something itself
    raise ModuleNotFoundError(
        f"nbgrad.integrations.{name} needs the package {install}: pip install {install}", name=modules[0]
    )
