"""The messages of the product: the texts of the checks and of the pictures, found in the code.

A message is a text that ``translate`` gets, a text among the values of such a call, or another sentence of one of the
modules below: their constants are translated where they are shown. Texts of errors stay English, so that a search for
them finds the same page in every language.
"""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHECKS = ("nbgrad/core/tensor/comparison.py", "nbgrad/core/graph/answers.py", "nbgrad/lab/*.py")
"""The modules with the texts of the checks."""

WORDS = ("column", "first", "gradient", "gradients", "large", "last", "mean", "missing", "row", "shape", "shapes",
         "small", "steps", "sum", "twice", "value")  # fmt: skip
"""Single words of these modules that become a part of a text."""

_NOT_SHOWN = ("course.py", "lesson_text.py", "localization.py", "planted.py", "processes.py")
_SENTENCE = re.compile(r"[^\n]*(?:[a-z]{2,}[,;:]?|\ban?) [a-z]{2,}[^\n]*")
_WORD = re.compile(r"[a-z]{2,}", re.IGNORECASE)
_HOLE = re.compile(r"\{[^{}]*\}")
_SHOWN_ERRORS = ("Refused", "NoNumbers")
"""Errors that become the reason of an outcome."""


def template() -> dict[str, set[str]]:
    """The messages of the product, in the order of its files, each with the files in which it stands."""
    found = {word: {CHECKS[0]} for word in WORDS}
    for pattern in CHECKS:
        for path in sorted(ROOT.glob(pattern)):
            if path.name in _NOT_SHOWN:
                continue
            name = path.relative_to(ROOT).as_posix()
            for text in messages(ast.parse(path.read_text("utf-8"))):
                found.setdefault(text, set()).add(name)
    for path in sorted((ROOT / "nbgrad" / "lab").glob("*.py")):
        # Some tasks hold numbers of the module: they are known when it is imported.
        for exercise in vars(import_module(f"nbgrad.lab.{path.stem}")).get("EXERCISES", ()):
            for text in (exercise.title, exercise.task, *exercise.hints):
                found.setdefault(text, set()).add(path.relative_to(ROOT).as_posix())
    return found


def messages(tree: ast.AST) -> Iterator[str]:
    """The messages of a module."""
    for node in _children(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SENTENCE.fullmatch(node.value):
            yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "translate":
            yield from _of_call(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Deviation":
            for value in node.args[1:]:  # the first one is a kind, which is not shown
                yield from messages(ast.Expression(value))
        else:
            yield from messages(node)


def _of_call(call: ast.Call) -> Iterator[str]:
    """The messages of a call of ``translate``: its text, and the words among its values."""
    [text] = call.args
    if (
        isinstance(text, ast.Constant)
        and isinstance(text.value, str)
        and re.search(r"[a-z]", _HOLE.sub("", text.value))
    ):
        yield text.value
    for value in (one.value for one in call.keywords):
        for node in _within(value):
            if not isinstance(node, ast.Constant):
                yield from messages(ast.Expression(node))
            elif isinstance(node.value, str) and _WORD.search(node.value):
                yield node.value


def _within(value: ast.expr) -> Iterator[ast.expr]:
    """A value and its alternatives: what may become a part of a text."""
    if isinstance(value, ast.IfExp):
        yield from _within(value.body)
        yield from _within(value.orelse)
    elif isinstance(value, ast.BoolOp):
        for one in value.values:
            yield from _within(one)
    else:
        yield value


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that may hold a message: no docstring, no error, no type of an argument."""
    if isinstance(node, ast.Raise) and not (
        isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name) and node.exc.func.id in _SHOWN_ERRORS
    ):
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "format_spec") or isinstance(node, ast.JoinedStr):
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, ast.AST) and not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)):
                yield one
