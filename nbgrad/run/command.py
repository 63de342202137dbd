"""The command ``nbgrad``: its subcommands, each with the function that reads the rest of the line.

This module imports no part of the engine, so ``nbgrad --help`` takes a moment and not the seconds that torch needs.
"""

import os
import sys
from collections.abc import Callable

from nbgrad import __version__
from nbgrad.run.parser import CommandParser


def _run(arguments: list[str]) -> int:
    from nbgrad.run import session

    return session.run(arguments)


def _check(arguments: list[str]) -> int:
    from nbgrad.run import session

    return session.check(arguments)


def _compare(arguments: list[str]) -> int:
    from nbgrad.run import compare

    return compare.compare(arguments)


def _view(arguments: list[str]) -> int:
    from nbgrad.run import view

    return view.view(arguments)


def _doctor(arguments: list[str]) -> int:
    from nbgrad.run import doctor

    parser = CommandParser("nbgrad doctor", description="Check this installation, and say what it lacks.")
    parser.parse_args(arguments)
    return doctor.examine()


FOLDER = "nbgrad-lessons"
"""Where the lessons are copied to, in the current folder, unless another one is named. Those in another language are in
a folder of their own, as nbgrad-lessons-de."""


def _lab(arguments: list[str]) -> int:
    from nbgrad.core.translation import LANGUAGE, SOURCE

    parser = CommandParser("nbgrad lab", description="Copy the lessons into a folder, and open JupyterLab there.")
    parser.add_argument("folder", nargs="?", help=f"where they are copied to; default: {FOLDER}, or {FOLDER}-de")
    parser.add_argument("--no-open", action="store_true", help="copy them only")
    parser.add_argument(
        "--language", default=os.environ.get(LANGUAGE) or SOURCE, help="such as de; default: %(default)s"
    )
    given = parser.parse_args(arguments)
    folder = given.folder or (FOLDER if given.language == SOURCE else f"{FOLDER}-{given.language}")

    from nbgrad.lab import course

    return course.run(folder, opens=not given.no_open, language=given.language)


COMMANDS: dict[str, tuple[str, Callable[[list[str]], int]]] = {
    "run": ("run a program, record it, and report at its end", _run),
    "check": ("run a program, and report only what is probably wrong in it", _check),
    "view": ("open a saved graph in the browser", _view),
    "compare": ("compare two saved graphs: the first op that differs", _compare),
    "doctor": ("check this installation, and say what it lacks", _doctor),
    "lab": ("copy the lessons into a folder, and open JupyterLab there", _lab),
}
"""The subcommands, each with its help."""


def main(arguments: list[str] | None = None) -> int:
    """The command ``nbgrad``.

    Args:
        arguments: the words after ``nbgrad``; default: those of the command line.

    Returns:
        The exit status: that of the program for ``run``, and 0 where a command found nothing wrong.

    Raises:
        SystemExit: the command line cannot be read, with status 2; or the program that runs ends itself so.
        KeyboardInterrupt: it ended the program.
    """
    given = sys.argv[1:] if arguments is None else arguments
    parser = CommandParser(
        "nbgrad", description="An autograd engine you can see.", epilog="nbgrad COMMAND --help explains a command."
    )
    parser.add_argument("--version", action="version", version=f"nbgrad {__version__}")
    commands = parser.add_subparsers(dest="command")
    for name, (told, _) in COMMANDS.items():
        commands.add_parser(name, help=told, add_help=False)
    command = parser.parse_args(given[:1]).command
    if command is None:
        parser.error(f"name a command: {', '.join(COMMANDS)}")
    try:
        return COMMANDS[command][1](given[1:])
    except KeyboardInterrupt:  # Python ends by the signal, without a traceback: a program's own is printed by now
        sys.excepthook = _silent
        raise


def _silent(*_: object) -> None:
    """Print no traceback."""
