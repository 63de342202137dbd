"""Importing nbgrad computes nothing: no kernel of torch runs, and allocator and collector stay as they are."""

import subprocess
import sys

import pytest

COUNTING = """
import importlib
import pkgutil
import sys
import traceback

import torch
import torch.testing
from torch.utils._python_dispatch import TorchDispatchMode


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        lines = [f"{one.filename}:{one.lineno}" for one in traceback.extract_stack() if "nbgrad" in one.filename]
        print(function, *lines[-1:])
        return function(*args, **(kwargs or {}))


with Seen():
    import nbgrad
    for found in pkgutil.walk_packages(nbgrad.__path__, "nbgrad."):
        if not found.name.endswith("__main__"):
            try:
                importlib.import_module(found.name)
            except ImportError as error:  # the plain core has no modules in C; a callback needs its trainer
                if "is written in C" not in str(error) and "needs the package" not in str(error):
                    raise
    MORE
assert "nbgrad.optim.optimizers" in sys.modules and "nbgrad.widgets.view" in sys.modules
"""


def seen(more: str = "pass") -> str:
    """The kernels that run during the import of every module, and then during ``more``."""
    program = [sys.executable, "-W", "ignore", "-c", COUNTING.replace("MORE", more)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.rotated(4)
@pytest.mark.once
def test_importing_every_module_runs_no_kernel() -> None:
    assert seen() == ""


@pytest.mark.rotated(6)
@pytest.mark.once
def test_a_kernel_would_be_seen() -> None:
    assert "aten.exp.default" in seen("torch.exp(torch.empty(3))")


@pytest.mark.rotated(4)
@pytest.mark.once
@pytest.mark.parametrize(("before", "after"), [("", True), ("gc.disable()", False)])
def test_importing_leaves_the_garbage_collector_as_it_was(before: str, after: bool) -> None:
    program = f"import gc\nimport torch\n{before}\nimport nbgrad\nprint(gc.isenabled())"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{after}\n"
