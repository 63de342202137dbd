"""The messages of the product: the texts of the checks and of the pictures, found in the code.

A message is a constant text that ``translate`` or ``message`` gets, or the noun that ``counted`` gets, which has a
plural. In the modules of the checks, every other sentence is a message, too: their constants are translated where they
are shown. In the scripts of the page, a message is a text that ``translate`` or ``message`` gets. Texts of errors
stay English, so that a search for them finds the same page in every language.
"""

import ast
import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from nbgrad.core.graph.checkup import CHECK_NAMES
from nbgrad.widgets.description.format import plural

ROOT = Path(__file__).resolve().parents[1]
PAGE = "nbgrad/widgets/src/*.ts"
"""The scripts of the page."""

LEGEND = ROOT / "nbgrad" / "widgets" / "render" / "palette.py"

CHECKS = ("nbgrad/core/tensor/comparison.py", "nbgrad/core/graph/answers.py", "nbgrad/lab/*.py")
"""The modules with the texts of the checks."""

WORDS = ("column", "first", "gradient", "gradients", "large", "last", "mean", "missing", "row", "shape", "shapes",
         "small", "steps", "sum", "twice", "value")  # fmt: skip
"""Single words of these modules that become a part of a text."""

_NOT_SHOWN = ("course.py", "lesson_text.py", "localization.py", "planted.py", "processes.py")
_SENTENCE = re.compile(r"[^\n]*(?:[a-z]{2,}[,;:]?|\ban?) [a-z]{2,}[^\n]*")
_HOLE = re.compile(r"\{[^{}]*\}")
_MARKED = re.compile(r"\b(?:translate|translate_count|message|counted|plural)\(")
_TEXT = r"\"((?:[^\"\\]|\\.)*)\""
_SAID = re.compile(rf"\b(?:translate|message)\((?:[^\"()]*\? {_TEXT} : )?{_TEXT}")
"""A text that a script marks, or one of two: it stands in double quotes, and has no line break."""

_SHOWN_ERRORS = ("Refused", "NoNumbers")
"""Errors that become the reason of an outcome."""


Message = str | tuple[str, str]
"""A text; or, for one thing and for several, two of them."""


def template() -> dict[Message, set[str]]:
    """The messages of the product, in the order of its files, each with the files in which it stands."""
    found: dict[Message, set[str]] = {word: {CHECKS[0]} for word in WORDS}
    found |= {name: {"nbgrad/core/graph/checkup.py"} for name in CHECK_NAMES}
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
    for path, message in [*_marked(), *_of_page()]:
        found.setdefault(message, set()).add(path.relative_to(ROOT).as_posix())
    return found


def _marked() -> Iterator[tuple[Path, Message]]:
    for path in sorted((ROOT / "nbgrad").rglob("*.py")):
        yield from [(path, one) for one in marked(path)]


def _of_page() -> Iterator[tuple[Path, Message]]:
    """The messages of the page: those of its scripts, and the words of the legend, which Python writes for it."""
    for path in sorted(ROOT.glob(PAGE)):
        for pair in _SAID.findall(path.read_text("utf-8")):
            yield from [(path, json.loads(f'"{text}"')) for text in pair if text]
    for one in marked(LEGEND):
        yield ROOT / "nbgrad" / "widgets" / "src" / "constants.ts", one


def marked(path: Path) -> Iterator[Message]:
    """The messages that a module marks with ``translate``, ``message`` and ``counted``."""
    text = path.read_text("utf-8")
    for node in ast.walk(ast.parse(text)) if _MARKED.search(text) else ():
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id == "counted" and len(node.args) == 2:
            yield from [plural(str(noun.value)) for noun in _within(node.args[1]) if isinstance(noun, ast.Constant)]
        elif node.func.id == "plural" and isinstance(node.args[0], ast.Constant):
            yield plural(str(node.args[0].value))
        elif node.func.id == "translate_count" and isinstance(node.args[1], ast.Constant):
            yield ast.literal_eval(node.args[1]), ast.literal_eval(node.args[2])
        elif node.func.id in ("translate", "message"):
            for one in _within(node.args[0]):
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and _says(one.value):
                    yield one.value


def messages(tree: ast.AST) -> Iterator[str]:
    """The messages of a module."""
    for node in _children(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SENTENCE.fullmatch(node.value):
            yield node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _TRANSLATING:
            yield from _of_call(node, _TRANSLATING[node.func.id])
        else:
            yield from messages(node)


_TRANSLATING = {"translate": 0, "Deviation": 1}
"""By the name of a function, which of its arguments is the text that it translates."""


def _of_call(call: ast.Call, place: int) -> Iterator[str]:
    """The messages of a call of ``translate`` and the like: its text, and those of the calls among its values."""
    for text in [one for value in call.args[place:] for one in _within(value)]:
        if not isinstance(text, ast.Constant):
            yield from messages(ast.Expression(text))
        elif isinstance(text.value, str) and _says(text.value):
            yield text.value
    for value in call.keywords:
        yield from messages(ast.Expression(value.value))


def _says(text: str) -> bool:
    """Whether a text has a word besides its values."""
    return re.search(r"[a-z]", _HOLE.sub("", text)) is not None


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
