"""A program that loads the extension, records a cell, unloads it, and prints what is not as it was before."""

import sys
import threading
from typing import Any

import torch
import torch._dynamo
import torch.utils.checkpoint
import torch.utils.flop_counter
from IPython.core.interactiveshell import InteractiveShell

OF = ("torch", "IPython")
SHELL = InteractiveShell.instance()
CELL = """%%autograd
import torch
w = torch.ones(2, requires_grad=True)
(w * w).sum().backward()"""


def objects() -> dict[Any, Any]:
    """Every object in the modules of torch and IPython, and in their classes."""
    found: dict[Any, Any] = {}
    for name, module in list(sys.modules.items()):
        if module is None or name.partition(".")[0] not in OF:
            continue
        for key, value in list(vars(module).items()):
            found[name, key] = value
            if isinstance(value, type) and str(type.__getattribute__(value, "__module__")).partition(".")[0] in OF:
                found |= {(name, key, inner): one for inner, one in list(vars(value).items())}
    return found


def places() -> dict[Any, Any]:
    """The places of the shell and of Python that an extension may add something to."""
    manager, completer = SHELL.magics_manager, SHELL.Completer
    assert SHELL.display_formatter is not None
    found: dict[Any, Any] = {
        ("magic", kind, name): one for kind in manager.magics for name, one in manager.magics[kind].items()
    }
    found |= {("class of magics", name): one for name, one in manager.registry.items()}
    found |= {("callback", event): list(them) for event, them in SHELL.events.callbacks.items()}
    found |= {("type", name): dict(one.type_printers) for name, one in SHELL.display_formatter.formatters.items()}
    return found | {
        # NBGRAD_COMPILED=0 asks for a finder too, which stays.
        "finders": [one for one in sys.meta_path if type(one).__module__.startswith("nbgrad.core.interop")],
        "threads": set(threading.enumerate()),
        "settings": list(SHELL.configurables),
        "completions": list(completer.custom_matchers),
        "transformers": list(SHELL.input_transformers_cleanup),
        "handlers": SHELL.custom_exceptions,
        "run_cell_async": vars(SHELL).get("run_cell_async"),
        "modes": torch._C._len_torch_function_stack(),
        "profile": sys.getprofile(),
    }


def main() -> None:
    """Print the differences."""
    SHELL.extension_manager  # noqa: B018  # made at its first use
    for command in ("load_ext", "unload_ext", "load_ext math", "unload_ext math"):
        SHELL.run_cell(f"%{command}")  # IPython loads the magics of extensions at their first use
    for _ in range(2):
        before, around = objects(), places()
        SHELL.run_cell("%load_ext nbgrad").raise_error()
        SHELL.run_cell(CELL).raise_error()
        SHELL.run_cell("%unload_ext nbgrad").raise_error()
        after, then = objects(), places()
        print("differences", [key for key, value in before.items() if key not in after or after[key] is not value])
        print("places", [key for key in around.keys() | then.keys() if around.get(key) != then.get(key)])


if __name__ == "__main__":
    main()
