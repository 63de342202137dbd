"""nbgrad: an autograd engine that you can see."""

from typing import TYPE_CHECKING, Any

from torch import (
    bfloat16 as bfloat16,
    bool as bool,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    int32 as int32,
    int64 as int64,
    manual_seed as manual_seed,
)

from nbgrad import (
    amp as amp,
    autograd as autograd,
    extend as extend,
    fft as fft,
    func as func,
    linalg as linalg,
    masked as masked,
    nn as nn,
    optim as optim,
    special as special,
    utils as utils,
)
from nbgrad.core.backend.autocast import autocast as autocast
from nbgrad.core.compilation import compiled as compiled
from nbgrad.core.diagnose.anomaly import AnomalyError as AnomalyError, detect_anomaly as detect_anomaly
from nbgrad.core.diagnose.gradcheck import (
    GradcheckError as GradcheckError,
    gradcheck as gradcheck,
    gradgradcheck as gradgradcheck,
)
from nbgrad.core.dispatch.function import Function as Function, once_differentiable as once_differentiable
from nbgrad.core.dispatch.op import op as op
from nbgrad.core.engine.scope import scope as scope
from nbgrad.core.engine.state import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from nbgrad.core.functional.checkpoint import checkpoint as checkpoint
from nbgrad.core.functional.grad import backward as backward, grad as grad
from nbgrad.core.functional.jacobian import hessian as hessian, jacobian as jacobian
from nbgrad.core.functional.products import hvp as hvp, jvp as jvp, vhp as vhp, vjp as vjp
from nbgrad.core.graph.finding import Finding as Finding
from nbgrad.core.graph.graph import AutogradGraph as AutogradGraph
from nbgrad.core.graph.renderer import register_renderer as _register_renderer
from nbgrad.core.interop import einops_backend as _einops, entering as _entering, torch_contexts as _contexts  # noqa: F401  # importing them makes einops and torch accept nbgrad's tensors
from nbgrad.core.interop.numpy_arrays import from_numpy as from_numpy
from nbgrad.core.interop.torch_functions import from_dlpack as from_dlpack
from nbgrad.core.suggestions import suggesting
from nbgrad.core.tensor.broadcast_check import BroadcastError as BroadcastError, strict_broadcast as strict_broadcast
from nbgrad.core.tensor.tensor import Tensor as Tensor, tensor as tensor
from nbgrad.display import GraphRenderer as _GraphRenderer
from nbgrad.functions import *  # noqa: F403  # functions such as exp: from the op table, listed in functions.pyi
from nbgrad.nn.from_torch import from_torch as from_torch
from nbgrad.nn.safetensors import load_safetensors as load_safetensors, save_safetensors as save_safetensors
from nbgrad.recording import record as record
from nbgrad.unloaded import announce as _announce

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    import torch

    from nbgrad.core.graph.comparison import Comparison, Recorded
    from nbgrad.core.graph.saved_graph import SavedGraph
    from nbgrad.core.symbolic.passes.optimize import Level
    from nbgrad.run.files import SavedRun
    from nbgrad.watching import Watch

__version__ = "0.1.0"


def watch(model: "nn.Module | torch.nn.Module", *, every: float = 0.5, **options: Any) -> "Watch":
    """Show the last backward through ``model`` in one live view, from this cell until it is closed.

    Args:
        model: only backwards that reach a parameter of it are shown.
        every: the least number of seconds between two pictures.
        options: ``name``, ``depth``, ``nodes``, ``direction``, ``history`` and ``budget``, as for ``record``.

    Returns:
        A ``Watch``, which is a context manager too: its ``graph`` is the recorded graph, ``show()`` displays the view
        once more, ``close()`` ends the recording and returns the graph.

    Raises:
        RuntimeError: there is no notebook to draw in.
        TypeError, ValueError: an option that is not one of these, or that cannot have that value.
    """
    from nbgrad.watching import Watch

    return Watch(model, every=every, **options)


def compare(
    left: "Recorded", right: "Recorded", names: "tuple[str, str] | None" = None, *, rtol: float | None = None
) -> "Comparison":
    """Compare two graphs: find the first op whose inputs agree and whose result does not.

    Records belong together if their numbers agree, if ops of the same kind take inputs that belong together, or if they
    have the same name. So other names, another order of branches, and one op against its parts make no difference.

    Args:
        left: a graph, which may be open, or one that ``load`` has read: the reference, whose order of ops counts.
        right: another one.
        names: what they are called in the answer and in the picture; default: their own names.
        rtol: the largest norm of a difference, as a part of the norm, that is none. Default: by the element types, from
            1e-12 for float64 and 1e-5 for float32 to 4e-2 for bfloat16; the coarsest among an op and those before it.

    Returns:
        A ``Comparison``: ``print`` shows the answer, the last line of a cell draws both side by side, and
        ``save("both.html")`` writes them. ``first`` and ``first_gradient`` are where forward and backward part.

    Raises:
        TypeError: one of them is no graph.
        ValueError: there are not two names; ``rtol`` is no relative distance; or a graph was recorded with ``ask``, and
            some of its gradients are not answered yet.
    """
    from nbgrad.core.graph.comparison import Comparison

    return Comparison(left, right, names, rtol=rtol)


def load(path: "str | PathLike[str]") -> "SavedGraph | SavedRun":
    """Read a graph that ``graph.save("step.nbgrad")`` wrote, or all graphs of a folder. No code of a file runs.

    Args:
        path: a file, or a folder of files that end in ``.nbgrad``.

    Returns:
        A graph that is drawn, queried and compared as the one that was saved; it has no tensors, so it cannot be run
        again with other numbers. Of a folder a sequence of its graphs in the order of their names, in which step 10
        comes after step 9, with their ``history`` and ``losses``.

    Raises:
        GraphFileError: a file is no such graph, is damaged, or was written by a newer nbgrad. It is a
            ValueError.
        FileNotFoundError: there is no such file or folder, or no graph in the folder.
        OSError: a file cannot be read.
    """
    from nbgrad.run import files

    return files.load(path)


def trace(  # type: ignore[no-redef]  # replaces the op ``trace``, and calls that op for a matrix
    function: "Callable[..., Any] | Tensor | None" = None, *examples: Any, **matrix: "Tensor"
) -> Any:
    """Trace ``function`` as a program; or give the sum of the diagonal of a matrix, as ``torch.trace``.

    A trace computes nothing: the function runs once on tensors without numbers, and nbgrad writes down its ops. See
    ``nbgrad.symbolic.trace``.

    Args:
        function: a function of tensors, or of nested lists, tuples and dicts of tensors; or a matrix.
        examples: its arguments, or a ``nbgrad.symbolic.Spec`` in the place of a tensor.
        matrix: the matrix, by torch's name ``input``.

    Returns:
        A ``nbgrad.symbolic.Program``; the sum of the diagonal for a matrix.

    Raises:
        TypeError: an argument of the function has a name: give the examples in order.
        nbgrad.symbolic.TraceError: the function does what a program cannot do.
    """
    if not callable(function):
        from nbgrad.core.ops.linalg.diagonals import trace as sum_of_diagonal

        given = examples if function is None else (function, *examples)
        return sum_of_diagonal(*given, **matrix)
    if matrix:
        raise TypeError(f"trace() takes the examples in order, without names such as {next(iter(matrix))!r}")
    from nbgrad.core.symbolic import program

    return program.trace(function, *examples)


def compile(  # torch's name
    function: "Callable[..., Any] | None" = None,
    *,
    backend: str = "auto",
    level: "Level" = "exact",
    budget: float | None = None,
) -> Any:
    """Run a loss function or a training step as a program: see ``nbgrad.symbolic.compile``.

    Args:
        function: the function to compile; without it, ``compile`` is a decorator.
        backend: the name of the backend that runs the program.
        level: "exact" changes no digit of any result, "reassociate" may change the last digits.
        budget: how many bytes the results of all steps may take together. A number up to 1 is a fraction of the bytes
            that they take without a budget.

    Returns:
        A function with the same arguments.
    """
    from nbgrad.core.symbolic import compiled as compiling

    return compiling.compile(function, backend=backend, level=level, budget=budget)


_register_renderer(_GraphRenderer())
_announce()


if not TYPE_CHECKING:  # with __getattr__ every name would exist for a type checker

    def __getattr__(name: str) -> Any:
        """Load a module at its first use. For a missing name, raise an error that says what to use instead."""
        import torch

        hint = {
            "GradScaler": ": it is nbgrad.amp.GradScaler, as torch's is torch.amp.GradScaler",
            "distributions": ": use torch.distributions itself",
            "is_tensor": ": ask isinstance(x, nbgrad.Tensor)",
        }.get(name, "")
        if hint:
            raise AttributeError(f"module 'nbgrad' has no attribute {name!r}{hint}", name=name)
        return suggesting(globals(), torch, ("lab", "symbolic", "testing"))(name)


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext nbgrad``: the magics, and rich display of graphs."""
    from nbgrad import magics

    magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext nbgrad``: remove the magics and the displays that ``%load_ext`` added."""
    from nbgrad import magics

    magics.unload(shell)
