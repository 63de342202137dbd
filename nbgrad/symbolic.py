"""Programs: the results of ``nbgrad.trace`` and ``nbgrad.compile``, and the classes that describe them.

They are loaded when they are asked for: torch's fake tensors, which they need, take a while to import.
"""

from nbgrad.core.symbolic.backends import BACKENDS
from nbgrad.core.symbolic.compiled import Compiled, compile  # torch's name
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.ir import ProgramStep, RowCall, Value
from nbgrad.core.symbolic.passes.rewrite import Note
from nbgrad.core.symbolic.program import Program, trace
from nbgrad.core.symbolic.tracing import Spec

__all__ = (
    "BACKENDS",
    "Compiled",
    "Note",
    "Program",
    "ProgramStep",
    "RowCall",
    "Spec",
    "TraceError",
    "Value",
    "compile",
    "trace",
)
