"""Packages that one kind of output needs. If one is missing or broken, that output alone fails."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

loading = threading.RLock()
"""Held while a package is imported that was not needed before.

No process is forked meanwhile: a child would wait forever for the import that another thread of its parent had begun.
"""

if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(
        before=loading.acquire,
        after_in_parent=loading.release,
        after_in_child=loading._at_fork_reinit,  # type: ignore[attr-defined]  # as Python's own do
    )


class PartError(RuntimeError):
    """One kind of output cannot be made here; the message says why and what to do."""


def reason(error: Exception) -> str:
    """Why an output failed, as a sentence without its full stop."""
    if isinstance(error, PartError | ModuleNotFoundError | ValueError):
        return str(error).removesuffix(".")
    return f"{type(error).__name__}: {error}. This is a defect of nbgrad, please report it"


@contextmanager
def needs(package: str, what: str, install: str, instead: str = "", *, imported: str = "") -> Iterator[None]:
    """Import and call ``package`` inside; whatever is raised becomes a sentence.

    Args:
        package: as pip calls it.
        what: the result, as "a PNG".
        install: what pip is to install.
        instead: what else to do, if there is something.
        imported: the name that Python imports; default: the one that pip uses.

    Raises:
        ModuleNotFoundError: it is not installed, or something that it imports.
        PartError: it raised something else.
    """
    other = f"   (or {instead})" if instead else ""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, PartError):
        raise
    except ModuleNotFoundError as error:
        own = (None, imported or package.replace("-", "_"))
        lacking = package if error.name in own else f"{package} with {error.name}"
        text = f"{what} is made by the package {lacking}, which is not installed. Run: pip install {install}{other}"
        raise ModuleNotFoundError(text, name=error.name) from None
    except BaseException as error:  # packages written in Rust raise a class of their own, which is no Exception
        again = (
            f" Run: pip install --force-reinstall {install}{other}" if isinstance(error, ImportError | OSError) else ""
        )
        because = f"{type(error).__name__}: {error}".rstrip(".: ")
        raise PartError(f"{what} is made by the package {package}, which fails here: {because}.{again}") from error
