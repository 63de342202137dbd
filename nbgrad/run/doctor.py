"""``nbgrad doctor``: what this installation has and lacks."""

import platform
import shutil
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

Finding = tuple[bool, str, str]
"""A check: whether it passed, its name, and the finding."""


def examine() -> int:
    """Print every finding; 1 if something that nbgrad needs is missing."""
    sound = True
    for check in (_versions, _core, _device, _gradient, _drawing, _bitmap, _formulas, _live, _notebook):
        for well, what, found in _run(check):
            print(f"{'ok ' if well else '-- '} {what:<12} {found}")  # noqa: T201  # this is the command's output
            sound = sound and well
    return 0 if sound else 1


def _run(check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of ``check``; where it raises, that is the finding: a doctor looks at broken installations."""
    try:
        yield from check()
    except Exception as error:
        yield False, check.__name__.strip("_"), f"{type(error).__name__}: {error}"


def _versions() -> Iterator[Finding]:
    import torch

    import nbgrad

    yield True, "nbgrad", f"{nbgrad.__version__}, on Python {platform.python_version()}"
    yield True, "torch", torch.__version__


def _core() -> Iterator[Finding]:
    from nbgrad.core.compilation import why_not

    reason = why_not()
    yield True, "core", "compiled" if reason is None else f"plain Python, which is slower: {reason}"


def _device() -> Iterator[Finding]:
    import torch

    cuda = torch.cuda.is_available()
    yield True, "devices", f"cpu, {torch.cuda.get_device_name()}" if cuda else "cpu (torch finds no CUDA device)"

    from nbgrad.core.backend.gemm import ONEDNN

    yield (
        True,
        "products",
        "by oneDNN where they are large, twice as fast on this processor" if ONEDNN else "by torch's choice",
    )


def _gradient() -> Iterator[Finding]:
    import nbgrad

    x = nbgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x**2).sum().backward()
    right = x.grad is not None and x.grad.tolist() == [2.0, 4.0, 6.0]
    yield right, "gradient", "of x^2 is 2x" if right else f"of x^2 at 1, 2, 3 is {x.grad}: please report this"


def _drawing() -> Iterator[Finding]:
    import nbgrad
    from nbgrad.widgets.describe import describe
    from nbgrad.widgets.pipeline import lay_out
    from nbgrad.widgets.render.svg import svg

    with nbgrad.AutogradGraph() as graph:
        nbgrad.tensor([1.0], requires_grad=True).exp().sum().backward()
        start = time.perf_counter()
        drawn = svg(lay_out(describe(graph)))
    taken = (time.perf_counter() - start) * 1000
    yield drawn.startswith("<svg"), "drawing", f"a graph in {taken:.0f} ms, by graphviz in WebAssembly"


def _bitmap() -> Iterator[Finding]:
    from nbgrad.widgets.render.svg import png

    box = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><rect width="9" height="9"/></svg>'
    yield bool(png(box)), "bitmap", "by resvg, for notebooks that are not trusted and for .png"


def _formulas() -> Iterator[Finding]:
    from nbgrad.widgets.describe import typeset

    _, problem = typeset("x^2")
    yield not problem, "formulas", problem or "typeset by latex2mathml"


def _live() -> Iterator[Finding]:
    import nbgrad.widgets.view  # noqa: F401  # which says what it needs

    yield True, "live", "the view under a cell, by anywidget"


def _notebook() -> Iterator[Finding]:
    for package in ("ipywidgets", "anywidget"):
        yield True, package, version(package)
    for package in ("jupyterlab", "notebook"):
        try:
            yield True, package, version(package)
        except PackageNotFoundError:
            yield True, package, f"not installed here: pip install {package}, unless another environment runs it"
    yield True, "dot", shutil.which("dot") or "not on PATH, and not needed"
