"""The student's own engine: the package ``mygrad`` in the folder of the notebook, which grows by a part in each lesson.

``catch_up`` writes the parts that a student lacks; the reference parts are in ``nbgrad/lab/mygrad``.
"""

import ast
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from nbgrad.core.files import replace_file
from nbgrad.core.tensor.comparison import Deviation
from nbgrad.core.translation import translate
from nbgrad.lab.running import Refused, answering, patience

PARTS = {
    3: "scalars",
    4: "tensor",
    5: "ops",
    6: "losses",
    7: "modules",
    8: "norm",
    9: "optim",
    10: "conv",
    11: "sequence",
    12: "attention",
}
"""The part of the engine that each lesson adds."""

PACKAGE = "mygrad"
_REFERENCE = Path(__file__).parent / PACKAGE
_LAST = 16


@dataclass(frozen=True)
class CaughtUp:
    """The state of the student's engine. It is true if all parts before the lesson are there and right.

    Attributes:
        lesson: the lesson for which the engine is needed.
        written: the reference parts that were written now.
        yours: the student's own parts, left as they are.
        faults: why a part of the student's own is not ready, by its name.
        copies: the files to which a part of the student's own was moved before it was replaced.
    """

    lesson: int
    written: tuple[str, ...] = ()
    yours: tuple[str, ...] = ()
    faults: tuple[tuple[str, str], ...] = ()
    copies: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.faults

    def __repr__(self) -> str:
        return translate("mygrad, before lesson {lesson}: {names}", lesson=self.lesson, names="; ".join(self._said()))

    def _said(self) -> Iterator[str]:
        if self.written:
            yield translate("reference parts written: {files}", files=_files(self.written))
        if self.yours:
            yield translate("your own, left as they are: {files}", files=_files(self.yours))
        if self.copies:
            yield translate("your files are kept as {names}", names=", ".join(self.copies))
        for part, reason in self.faults:
            yield translate("{part}.py is not ready ({reason})", part=part, reason=reason)
        if self.faults:
            yield translate(
                "repair it, or call lab.catch_up({lesson}, replace=True), which keeps a copy of your file",
                lesson=self.lesson,
            )
        else:
            yield translate("ready")


def _files(parts: tuple[str, ...]) -> str:
    return ", ".join(f"{part}.py" for part in parts)


def reference(part: str) -> str:
    """The source of the reference part of this name.

    Raises:
        ValueError: the engine has no such part.
    """
    if part not in PARTS.values():
        raise ValueError(f"mygrad has no part {part!r}: the parts are {', '.join(PARTS.values())}")
    return (_REFERENCE / f"{part}.py").read_text("utf-8")


def catch_up(lesson: int, *, replace: bool = False) -> CaughtUp:
    """Make the engine of the earlier lessons ready in ``./mygrad``, and import it.

    A part that is missing is written from the reference. A file of the student's own stays as it is, and is checked.
    All parts are imported again, so that a kernel sees the files as they are.

    Args:
        lesson: from 3 to 16; all parts of the lessons before it are needed.
        replace: whether a part of the student's own that is not right is replaced by the reference. Its file is kept
            under another name, such as ``mygrad/losses_mine.py``.

    Returns:
        The state of the engine. It is true if the lesson can begin; a notebook displays it as one sentence.

    Raises:
        TypeError: ``lesson`` is no whole number.
        ValueError: there is no such lesson.
        FileExistsError: a file ``mygrad`` or ``mygrad.py`` in the folder is in the way.
        OSError: the folder cannot be written to.
    """
    if type(lesson) is not int:  # True is none
        raise TypeError(f"catch_up({lesson!r}): the number of a lesson is expected, such as catch_up(7)")
    if not min(PARTS) <= lesson <= _LAST:
        raise ValueError(f"catch_up({lesson}): the engine begins in lesson {min(PARTS)}, and the last one is {_LAST}")
    folder = _folder(Path.cwd())
    forget()
    written, yours, faults, copies = [], [], [], []
    for part in [part for number, part in PARTS.items() if number < lesson]:
        file, right = folder / f"{part}.py", reference(part)
        if not file.exists():
            _write(file, right)
            written.append(part)
        elif file.is_file() and file.read_bytes() == right.encode():
            continue
        elif (wrong := _fault(file)) is None:
            yours.append(part)
        elif replace:
            copies.append(_put_aside(file))
            _write(file, right)
            written.append(part)
        else:
            yours.append(part)
            faults.append((part, str(wrong)))
    if not faults:
        _import_all(folder, lesson)
    return CaughtUp(lesson, tuple(written), tuple(yours), tuple(faults), tuple(copies))


def _folder(beside: Path) -> Path:
    """The folder of the package, made if it is not there; with an ``__init__.py``."""
    folder, module = beside / PACKAGE, beside / f"{PACKAGE}.py"
    for file in (module, folder):
        if file.is_file():
            raise FileExistsError(
                f"the file {file} has the name of the package {PACKAGE}, which is a folder: rename the file"
            )
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise _unwritable(folder, error) from error
    if not (folder / "__init__.py").exists():
        _write(folder / "__init__.py", (_REFERENCE / "__init__.py").read_text("utf-8"))
    return folder


def _write(file: Path, text: str) -> None:
    try:
        replace_file(file, lambda target: target.write_text(text, "utf-8"))
    except OSError as error:
        raise _unwritable(file, error) from error


def _unwritable(path: Path, error: OSError) -> OSError:
    reason = error.strerror or str(error)
    return type(error)(
        translate(
            "{path} cannot be written ({reason}): copy the notebook into a folder of your own", path=path, reason=reason
        )
    )


def _put_aside(file: Path) -> str:
    """Rename a student's file to a name that is free; the new name, as it is displayed."""
    number = 1
    while (kept := file.with_name(f"{file.stem}_mine{'' if number == 1 else f'_{number}'}.py")).exists():
        number += 1
    try:
        file.rename(kept)
    except OSError as error:
        raise _unwritable(kept, error) from error
    return f"{PACKAGE}/{kept.name}"


def _fault(file: Path) -> Deviation | None:
    """Why a part of the student's own is not ready; None if it is."""
    judge: Any = importlib.import_module("nbgrad.lab.engine_checks").JUDGES[file.stem]  # it imports this module
    try:
        with answering(f"{PACKAGE}/{file.name}"), patience():
            found: Deviation | None = judge(file)
    except Refused as error:
        return error.deviation
    return found


def _import_all(folder: Path, lesson: int) -> None:
    for number, part in PARTS.items():
        if number < lesson:
            load(folder / f"{part}.py")


def forget() -> None:
    """Let the next import read all files of the package again."""
    for name in [name for name in sys.modules if name == PACKAGE or name.startswith(f"{PACKAGE}.")]:
        del sys.modules[name]
    importlib.invalidate_caches()


def load(file: Path) -> ModuleType:
    """Import a file of a package, or import it again as it now is. The other files of the package stay imported.

    Raises:
        Exception: whatever the code of the file raises.
    """
    folder = file.resolve().parent
    beside, name = str(folder.parent), f"{folder.name}.{file.stem}"
    loaded = sys.modules.get(folder.name)
    if loaded is not None and str(folder) not in getattr(loaded, "__path__", ()):
        forget()  # a package of the same name, from another folder
    if sys.path[:1] != [beside]:
        sys.path.insert(0, beside)
    with _without_bytecode():
        importlib.invalidate_caches()
        if name not in sys.modules:
            return importlib.import_module(name)
        module = sys.modules[name]
        for own in [own for own in vars(module) if not own.startswith("__")]:
            delattr(module, own)  # a function that is no longer in the file
        return importlib.reload(module)


@contextmanager
def _without_bytecode() -> Iterator[None]:
    """Compiled files have the time of their source in seconds: one that changes twice in a second would be stale."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        yield
    finally:
        sys.dont_write_bytecode = before


def empty_functions(source: str) -> list[str]:
    """The functions of a source whose body is ``...`` or ``pass``, such as "Tensor.__mul__".

    Raises:
        SyntaxError: the source is no Python.
    """
    return list(_empty(ast.parse(source), ""))


def _empty(tree: ast.AST, above: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name = f"{above}{node.name}"
            if isinstance(node, ast.FunctionDef) and all(_does_nothing(one) for one in node.body):
                yield name
            yield from _empty(node, f"{name}.")


def _does_nothing(statement: ast.stmt) -> bool:
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass)
