"""The choice between the compiled core and its Python sources: no compiled file older than its source is used.

The modules below ``nbgrad/core`` that have a ``.pxd`` file beside them can be compiled, and those that are written in C
have to be. They know each other's memory layout, so either all of them run compiled or none does. Without a compiler
the modules that are written in C do not exist. The compilation writes a file beside them with a fingerprint of every
source. This module knows nothing of the rest of nbgrad, because the build uses it too.

The environment variable ``NBGRAD_COMPILED`` overrides the choice: 0 runs the Python sources, 1 is an error where the
compiled ones cannot run.
"""

import hashlib
import json
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

CORE = Path(__file__).parent
SIGNATURE = "compiled.json"

_why_not: str | None = "nbgrad.core has not yet chosen between the two"


def compiled() -> bool:
    """Whether the core of nbgrad runs compiled; ``nbgrad doctor`` says why not."""
    return _why_not is None


def why_not() -> str | None:
    """Why the core runs as plain Python; None where it runs compiled."""
    return _why_not


def choose() -> None:
    """Decide before the core is imported: from then on either only compiled or only Python modules are imported."""
    global _why_not  # noqa: PLW0603  # said once, at import
    wish = os.environ.get("NBGRAD_COMPILED", "")
    if wish not in {"", "0", "1"}:
        raise ImportError(f"NBGRAD_COMPILED is {wish!r}: 0 asks for plain Python, 1 for the compiled core")
    _why_not = "NBGRAD_COMPILED=0 asks for plain Python" if wish == "0" else obstacle(CORE)
    if _why_not is None:
        return
    if wish == "1":
        raise ImportError(f"NBGRAD_COMPILED=1 asks for the compiled core, but {_why_not}")
    if any(_extension(CORE, name) for name in modules(CORE)):
        sys.meta_path.insert(0, _PlainSources())
        if wish != "0":
            warnings.warn(f"nbgrad runs as plain Python, more slowly: {_why_not}", RuntimeWarning, stacklevel=2)


def obstacle(core: Path) -> str | None:
    """Why the modules of a folder cannot run compiled here; None where they can."""
    names = modules(core)
    missing = [name for name in names if _extension(core, name) is None]
    if len(missing) == len(names):
        return "nothing was compiled when it was installed: that takes a C compiler"
    if missing:
        return f"{', '.join(missing)} was not compiled when the others were. Install nbgrad again"
    try:
        signed = json.loads((core / SIGNATURE).read_bytes())
    except FileNotFoundError:
        signed = {}
    except (OSError, ValueError, RecursionError) as error:
        return f"{SIGNATURE}, which says what was compiled, cannot be read ({error}). Install nbgrad again"
    if not isinstance(signed, dict):
        return f"{SIGNATURE}, which says what was compiled, is damaged. Install nbgrad again"
    stale = sorted(name for name in names if signed.get(name) != fingerprint(core, name))
    if stale:
        return f"{', '.join(stale)} changed after it was compiled. Install nbgrad again, or run make compile"
    return None


def sign(sources: Path, folder: Path) -> None:
    """Write the fingerprints of the sources into ``folder``, which holds the modules compiled from them."""
    signed = {name: fingerprint(sources, name) for name in modules(sources)}
    (folder / SIGNATURE).write_text(json.dumps(signed, indent=2, sort_keys=True) + "\n")


def fingerprint(core: Path, module: str) -> str:
    """A digest of the module and of its declarations, which changes when a source changes."""
    digest = hashlib.sha256()
    for path in sources(core, module):
        digest.update(path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()


def sources(core: Path, module: str) -> list[Path]:
    """The files that a module is compiled from: its own first."""
    if (path := _file(core, module, ".c")).exists():
        return [path, *sorted(path.parent.glob("*.h"))]
    written = [_file(core, module, suffix) for suffix in (".py", ".pxd", ".h")]
    return written if written[2].exists() else written[:2]


def modules(core: Path) -> list[str]:
    """The modules that can be compiled, by their names below ``nbgrad.core``, as ``engine.node``."""
    found = []
    for folder, _, files in os.walk(core):  # it runs at each import, and pathlib's glob is slower
        rooms = Path(folder).relative_to(core).parts
        found += [".".join([*rooms, name.rpartition(".")[0]]) for name in files if name.endswith((".pxd", ".c"))]
    return sorted(found)


def _extension(core: Path, module: str) -> Path | None:
    """The compiled file of a module that this Python would import."""
    for suffix in EXTENSION_SUFFIXES:
        if (path := _file(core, module, suffix)).exists():
            return path
    return None


def _file(core: Path, module: str, suffix: str) -> Path:
    return core.joinpath(*module.split(".")).with_suffix(suffix)


class _PlainSources(MetaPathFinder):
    """Finds the Python source of a module where Python itself would take the compiled file."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002  # what Python calls it with
        target: ModuleType | None = None,  # noqa: ARG002  # and this
    ) -> ModuleSpec | None:
        """The source of a module of the core; nothing for any other."""
        name = fullname.removeprefix("nbgrad.core.")
        if name != fullname and _extension(CORE, name) is not None:
            if not (source := _file(CORE, name, ".py")).exists():
                raise ImportError(f"{fullname} is written in C, and nbgrad runs as plain Python: {_why_not}")
            return spec_from_file_location(fullname, source)
        return None
