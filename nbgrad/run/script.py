"""A program, found and run as Python itself runs it.

The program gets the module ``__main__`` that Python would give it, and keeps it to the end: ``pickle`` finds its
classes there, and the processes that ``multiprocessing`` starts find its file.
"""

import builtins
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from importlib.util import find_spec
from io import open_code
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any


class ProgramError(Exception):
    """The program cannot be run; the message is one sentence without its full stop."""


@dataclass
class PythonProgram:
    """A program that is ready to run.

    Attributes:
        name: what it is called in messages: the file as it was given, or the module.
        code: of its ``__main__``.
        module: its ``__main__``.
    """

    name: str
    code: CodeType
    module: ModuleType

    def run(self) -> None:
        """Run it in this thread. Every error of the program comes out as it is, ``SystemExit`` too."""
        exec(self.code, vars(self.module))

    @property
    def variables(self) -> dict[str, Any]:
        """The global variables of its ``__main__``."""
        return vars(self.module)


def found_script(path: str, arguments: Sequence[str]) -> PythonProgram:
    """The program in a file of Python, or in a folder or a zip file that has a ``__main__``.

    ``sys.argv``, ``sys.path`` and the module ``__main__`` are from now on those of the program.

    Raises:
        ProgramError: there is none, or it is no program of Python.
    """
    sys.argv[:] = [path, *arguments]
    if path == "-":
        return _of_stdin()
    file = Path(path)
    if not file.exists():
        raise ProgramError(f"there is no file {path!r}")
    if file.suffix == ".ipynb":
        raise ProgramError(f"{path!r} is a notebook: put %%autograd on the first line of a cell of it instead")
    place = os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118  # as Python does, which leaves ./ as it is
    if file.is_dir() or _is_zip(file):
        return _of_archive(path, place)
    _search_first(str(file.resolve().parent))
    loader = _loader(place)
    code = _compiled(path, place) if isinstance(loader, SourceFileLoader) else _code(path, None, loader)
    return PythonProgram(path, code, _main(file=place, loader=loader))


def found_module(name: str, arguments: Sequence[str]) -> PythonProgram:
    """The program in a module, or in the ``__main__`` of a package, as ``python -m`` runs it.

    Raises:
        ProgramError: there is none; or a package around it cannot be imported.
    """
    sys.argv[:] = ["-m", *arguments]
    _search_first(str(Path.cwd()))
    spec = _spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = _spec(f"{name}.__main__")
        if spec is None:
            raise ProgramError(f"the package {name!r} has no __main__, so it cannot be run")
    if spec is None or spec.loader is None:
        raise ProgramError(f"there is no module {name!r}")
    code = _code(name, spec.name, spec.loader)
    sys.argv[0] = str(spec.origin)
    return PythonProgram(name, code, _main(file=spec.origin, loader=spec.loader, spec=spec, package=spec.parent))


def _of_stdin() -> PythonProgram:
    _search_first("")
    return PythonProgram(
        "-", _parsed("the program on stdin", sys.stdin.read(), "<stdin>"), _main(file="<stdin>", loader=BuiltinImporter)
    )


def _of_archive(path: str, place: str) -> PythonProgram:
    """The program of a folder or a zip file: its ``__main__``."""
    sys.path.insert(0, place) if sys.flags.safe_path else _search_first(place)
    spec = PathFinder.find_spec("__main__", [place])
    if spec is None or spec.loader is None:
        raise ProgramError(f"{path!r} has no __main__.py, so it cannot be run")
    code = _code(path, "__main__", spec.loader)
    return PythonProgram(path, code, _main(file=spec.origin, loader=spec.loader, spec=spec, package=""))


def _is_zip(file: Path) -> bool:
    """Whether it is a file that modules can be imported from."""
    return PathFinder.find_spec("__main__", [str(file)]) is not None


def _search_first(folder: str) -> None:
    """Have modules searched in ``folder`` first, in place of the folder of the command."""
    if not sys.flags.safe_path:
        sys.path[0] = folder


def _loader(place: str) -> SourceFileLoader | SourcelessFileLoader:
    kind = SourcelessFileLoader if place.endswith(".pyc") else SourceFileLoader
    return kind("__main__", place)


def _spec(name: str) -> ModuleSpec | None:
    """The specification of a module. To find it, Python imports the packages around it."""
    try:
        return find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            return None
        raise ProgramError(f"the module {name!r} cannot be imported: {error}") from None
    except (ImportError, ValueError) as error:
        raise ProgramError(f"the module {name!r} cannot be run: {error}") from None


def _compiled(path: str, place: str) -> CodeType:
    """The code of a source file. Python's own loader would also write a file with the compiled code."""
    try:
        with open_code(place) as file:
            text = file.read()
    except OSError as error:
        raise ProgramError(f"{path!r} cannot be read: {error.strerror}") from None
    return _parsed(repr(path), text, place)


def _parsed(called: str, text: bytes | str, place: str) -> CodeType:
    try:
        return compile(text, place, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ProgramError(f"{called} is no program of Python: {_mistake(error)}") from None
    except ValueError as error:  # it has zero bytes
        raise ProgramError(f"{called} is no program of Python: {error}") from None


def _code(called: str, name: str | None, loader: Any) -> CodeType:
    """The code that a loader gives for the module ``name``."""
    try:
        code = loader.get_code("__main__" if name is None else name)
    except SyntaxError as error:
        raise ProgramError(f"{called!r} is no program of Python: {_mistake(error)}") from None
    except (ImportError, OSError, ValueError, EOFError) as error:
        raise ProgramError(f"{called!r} cannot be run: {error}") from None
    if not isinstance(code, CodeType):
        raise ProgramError(f"{called!r} has no code of Python to run")
    return code


def _mistake(error: SyntaxError) -> str:
    """The first mistake in a source: the line, if it is known, and what is wrong there."""
    where = "" if error.lineno is None else f"line {error.lineno}: "
    return f"{where}{error.msg}"


def _main(*, file: str | None = None, loader: Any, spec: ModuleSpec | None = None, package: str | None = None) -> Any:
    """A new module ``__main__``, which replaces that of the command, with all that Python sets in it."""
    made, before = ModuleType("__main__"), vars(sys.modules["__main__"])
    set_here: dict[str, Any] = {"__package__": package, "__loader__": loader, "__spec__": spec}
    if file is not None:
        set_here |= {"__file__": file, "__cached__": None if spec is None else spec.cached}
    if "__annotations__" in before:  # of some versions of Python
        set_here["__annotations__"] = {}
    vars(made).update(set_here, __builtins__=builtins)
    _replaced.append(sys.modules["__main__"])
    sys.modules["__main__"] = made
    return made


_replaced: list[ModuleType] = []
"""The module ``__main__`` of the command, which still runs: Python empties a module that is dropped."""
