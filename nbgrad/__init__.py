"""nbgrad: an autograd engine that you can see."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nbgrad.unloaded import announce as _announce

if TYPE_CHECKING:
    import builtins  # ``bool`` alone is an element type here
    from collections.abc import Callable, Iterable
    from os import PathLike
    from typing import TypeVar

    import torch

    from nbgrad.core.graph.comparison import Comparison, Recorded
    from nbgrad.core.graph.saved_graph import SavedGraph
    from nbgrad.core.symbolic.passes.optimize import Level
    from nbgrad.drawing.graph import DrawnGraph
    from nbgrad.exports import *  # noqa: F403
    from nbgrad.exports import Tensor, nn
    from nbgrad.integrations.loop import WatchedLoader
    from nbgrad.recording import record as record
    from nbgrad.run.files import SavedRun
    from nbgrad.watching import Watch

    Batch = TypeVar("Batch")

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


def watched(
    loader: "Iterable[Batch]", model: "nn.Module | torch.nn.Module | None" = None, **options: Any
) -> "WatchedLoader[Batch]":
    """The batches of ``loader``, while the loop over them is recorded, each pass from its first batch to its end.

    Args:
        loader: anything that a loop can run over.
        model: what learns: parameters have their names in it.
        options: ``save``, ``suffix``, ``norms`` and ``writers`` as for ``nbgrad.integrations.watched``, and those of
            ``record`` that say which steps are recorded, and what is kept of them.

    Returns:
        A ``WatchedLoader``: it has the length of the loader, and the graph of the last pass as ``graph``.

    Raises:
        TypeError, ValueError, OSError: as ``nbgrad.integrations.watched`` says.
    """
    from nbgrad.integrations import watched

    return watched(loader, model, **options)


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


def draw(root: object, *, name: str | None = None, against: "builtins.bool" = False) -> "DrawnGraph":
    """Draw the graph of another engine: one that you wrote, micrograd, minitorch, needle, autograd, a jaxpr, torch.fx.

    The objects are read as they are, so draw after the backward. See ``nbgrad.drawing`` for engines that nbgrad does
    not know.

    Args:
        root: the object whose graph is drawn, such as a loss; a list of several; or a whole program.
        name: the title of the picture; default: the name of the variable that holds ``root``.
        against: whether to compare the numbers with those of nbgrad's own ops and rules. Then the picture marks the
            first value or gradient that differs, and says what is probably missing. ``nbgrad.drawing.verdict`` does
            the same without a picture.

    Returns:
        A ``DrawnGraph``: the last line of a cell draws it, ``print`` shows it as a table, and ``save("net.html")``
        writes it. It is an ``AutogradGraph`` that does not change.

    Raises:
        nbgrad.drawing.UnreadableError: no reader knows an object, or reading it raises an error. It is a TypeError, and
            says which attributes a class needs.
        nbgrad.drawing.GraphCycleError: an object was computed from itself. It is a ValueError.
    """
    from nbgrad.drawing import caller

    return caller.draw(root, name, against=against)


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
) -> Any:
    """Run a loss function or a training step as a program: see ``nbgrad.symbolic.compile``.

    Args:
        function: the function to compile; without it, ``compile`` is a decorator.
        backend: the name of the backend that runs the program.
        level: "exact" changes no digit of any result, "reassociate" may change the last digits.

    Returns:
        A function with the same arguments.
    """
    from nbgrad.core.symbolic import compiled as compiling

    return compiling.compile(function, backend=backend, level=level)


def _load() -> None:
    """Load the engine, with all names of ``nbgrad.exports``.

    It takes seconds, most of them for torch. So ``import nbgrad`` leaves it to the first use of a name or of a part of
    the engine: the command ``nbgrad`` and the plugin of pytest begin without torch.
    """
    names = vars(import_module("nbgrad.exports"))  # not all of them, if a part of it asks while it is loaded
    globals().update({name: names[name] for name in names if not name.startswith("_") and name not in globals()})


_announce()


if not TYPE_CHECKING:  # with __getattr__ every name would exist for a type checker

    def __getattr__(name: str) -> Any:
        """Load the engine or a module at its first use. For a missing name, the error says what to use instead."""
        if name.startswith("__") and name != "__all__":  # Python's own names; a star import asks for __all__
            raise AttributeError(f"module 'nbgrad' has no attribute {name!r}", name=name)
        _load()
        if name == "record":
            globals()[name] = import_module("nbgrad.recording").record
        if name in globals():
            return globals()[name]
        import torch

        from nbgrad.core.suggestions import suggesting

        hint = {
            "GradScaler": ": it is nbgrad.amp.GradScaler, as torch's is torch.amp.GradScaler",
            "distributions": ": use torch.distributions itself",
            "is_tensor": ": ask isinstance(x, nbgrad.Tensor)",
        }.get(name, "")
        if hint:
            raise AttributeError(f"module 'nbgrad' has no attribute {name!r}{hint}", name=name)
        return suggesting(globals(), torch, ("drawing", "integrations", "lab", "symbolic", "testing"))(name)

    def __dir__() -> list[str]:
        _load()
        return sorted({*globals(), "record"})


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext nbgrad``: the magics, and rich display of graphs."""
    from nbgrad import magics

    magics.load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext nbgrad``: remove the magics and the displays that ``%load_ext`` added."""
    from nbgrad import magics

    magics.unload(shell)
