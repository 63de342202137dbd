"""``nbgrad run`` and ``nbgrad check``: the command line is read, the program runs, and its report is written.

Before the program has imported torch, nothing here imports the engine.
"""

import argparse
import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from nbgrad.arguments import argument_of
from nbgrad.choices import SEVERITIES
from nbgrad.options import SUFFIXES, TABLE, Options, check_folder, check_package, suffix_of
from nbgrad.run.parser import CommandParser
from nbgrad.run.script import ProgramError, PythonProgram, found_module, found_script
from nbgrad.run.terminal import StatusLine
from nbgrad.run.watched import WatchedProgram, run_alone

if TYPE_CHECKING:
    from nbgrad.run.recorded import ProgramRecording

RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""The variables in which launchers of several processes say which one this is."""


def run(arguments: list[str]) -> int:
    """Run a program and report at its end: ``nbgrad run``.

    Returns:
        The exit status of the program; 2 if it cannot be run.
    """
    parser = _parser("run", "Run a program as Python runs it, record its training, and report at its end.")
    parser.add_argument(
        "--save",
        action="append",
        default=[],
        metavar="FILE",
        help=f"write the graph to a file that ends in {', '.join(SUFFIXES)}; it can be given several times",
    )
    given = parser.parse_args(arguments)
    lead = _rank() == 0
    files = [_file(parser, one) for one in given.save] if lead else []
    stream = sys.stderr

    def then(recording: "ProgramRecording | None") -> None:
        missing = [f"{_shown(file)} was not written" for file in files]
        if recording is None:
            _tell(stream, [f"nbgrad: {'; '.join([f'{program.name}: {_without_torch()}', *missing])}"] if lead else [])
            return
        graph = recording.graph
        if not lead and graph.ending is None:
            return
        from nbgrad.run.report import report

        seconds, goes_on, others = recording.seconds, recording.goes_on, recording.others.found
        lines = report(graph, program.name, seconds, goes_on=goes_on, thread=recording.thread, others=others)
        if not _has_recorded(recording):
            _tell(stream, [*lines, *[f"  {one}" for one in missing]])
            return
        _tell(stream, lines)
        for file in files:
            try:
                graph.save(file, **options.drawn())
            except Exception as error:  # the program has run, and its result must not be lost
                _tell(stream, [f"nbgrad: {_sentence(error)}"])
            else:
                _tell(stream, [f"  wrote {_shown(file)}"])

    wanted, options, program = _prepared(parser, given)
    if not lead and not options.ranks:
        return run_alone(program)
    line = StatusLine.of(stream) if lead else None
    return WatchedProgram(program, wanted, then, steps=given.steps, line=line).run()


def check(arguments: list[str]) -> int:
    """Run a program and report only what is probably wrong in it: ``nbgrad check``.

    The findings go to stdout, so everything that the program prints goes to stderr.

    Returns:
        The exit status of the program, if it is not 0; else 1 if there are findings, and 2 if nothing was recorded.
    """
    from nbgrad.run.formats import FORMATS

    parser = _parser(
        "check", "Run a program as Python runs it, and report only what is probably wrong in its training."
    )
    parser.add_argument("--format", choices=FORMATS, default="text", help="how findings are written; default: text")
    parser.add_argument("--output", metavar="FILE", help="write them to a file, and not to stdout")
    parser.add_argument(
        "--fail-on",
        choices=SEVERITIES,
        default="warning",
        help="the least severity of a finding with which the exit status is 1; default: warning",
    )
    given = parser.parse_args(arguments)
    lead = _rank() == 0
    output = _file(parser, given.output, any_suffix=True) if lead and given.output else None
    wanted, _, program = _prepared(parser, given)
    if not lead:
        return run_alone(program)
    status, out, stream = [2], _taken_stdout(), sys.stderr

    def then(recording: "ProgramRecording | None") -> None:
        findings = [] if recording is None else recording.graph.findings()
        if _has_recorded(recording):
            status[0] = int(any(one.reaches(given.fail_on) for one in findings))
        else:
            _tell(stream, [f"nbgrad: {program.name}: {_unrecorded(recording)}"])
        text = FORMATS[given.format](findings)
        if output is None:
            _tell(out, [text] if text else [])
            return
        try:
            output.write_text(f"{text}\n" if text else "", "utf-8")
        except OSError as error:
            status[0] = 2
            _tell(stream, [f"nbgrad: {_sentence(error)}"])

    try:
        return WatchedProgram(program, wanted, then, steps=given.steps).run() or status[0]
    except SystemExit as left:
        if left.code in (None, 0):
            return status[0]
        raise


def _has_recorded(recording: "ProgramRecording | None") -> bool:
    """Whether there is something to report and to save: ops, or the error that ended the program."""
    return recording is not None and bool(recording.graph.records or recording.graph.ending is not None)


def _unrecorded(recording: "ProgramRecording | None") -> str:
    """The sentence about a program of which nothing was recorded."""
    if recording is None:
        return _without_torch()
    from nbgrad.run.report import nothing

    return nothing(recording.others.found)


def _without_torch() -> str:
    """The sentence about a program whose recording did not begin."""
    why = "the recording did not begin" if "torch" in sys.modules else "the program has not imported torch"
    return (
        f"nothing was recorded, because {why}. If it starts other processes that train, start each of them with "
        "nbgrad run"
    )


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    """A parser with the options of ``record`` that a command can have."""
    parser = CommandParser(
        f"nbgrad {name}",
        usage=f"nbgrad {name} [options] (script.py | folder | file.zip | -m module) [arguments of the program]",
        description=description,
    )
    parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help="run a module, with its arguments")
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    for one in TABLE:
        if one.name != "save" and one.metadata.get("command", True):
            flag, form = argument_of(one)
            parser.add_argument(flag, default=argparse.SUPPRESS, **form)
    parser.add_argument(
        "--steps", type=_whole, metavar="N", help="record so many steps of training, then let the program go on alone"
    )
    return parser


def _whole(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, 1 or more")
    return number


def _prepared(
    parser: argparse.ArgumentParser, given: argparse.Namespace
) -> tuple[dict[str, Any], Options, PythonProgram]:
    """The options that were given for ``record``, all options, and the program.

    If one of them cannot be, the command ends with status 2 and a sentence.
    """
    words = given.module or given.program
    if not words:
        parser.error("name a program: a script, a folder or a zip file with a __main__.py, or -m and a module")
    wanted = {one.name: getattr(given, one.name) for one in TABLE if one.name != "save" and one.name in given}
    wanted = {"name": Path(words[0]).name, **wanted, "view": "none"}
    try:
        options = Options(**wanted)
    except (OSError, RuntimeError, ValueError) as error:
        parser.error(str(error))
    find = found_script if given.module is None else found_module
    try:
        return wanted, options, find(words[0], words[1:])
    except ProgramError as error:
        _refuse(parser, str(error))


def _refuse(parser: argparse.ArgumentParser, sentence: str) -> NoReturn:
    """End the command with a sentence: the line could be read, so its usage does not help."""
    parser.exit(2, f"{parser.prog}: {sentence}\n")


def _file(parser: argparse.ArgumentParser, path: str, *, any_suffix: bool = False) -> Path:
    """The file that is to be written at the end: in this folder, whichever the program changes to."""
    try:
        if not any_suffix:
            suffix_of(path)
            check_package(path)
        check_folder(path, shell=True)
        file = Path(path).expanduser().absolute()
        _try(file)
    except ModuleNotFoundError as error:
        _refuse(parser, str(error))
    except (OSError, ValueError) as error:
        _refuse(parser, _sentence(error))
    return file


def _sentence(error: Exception) -> str:
    """Why a file was not written, as a sentence without its full stop."""
    from nbgrad.export import unsaved  # late: it loads all that draws

    return str(error) if isinstance(error, OSError) and error.strerror is None else unsaved(error)


def _try(file: Path) -> None:
    """Raise an OSError if ``file`` cannot be written: the folder is not there or takes no file, or the disk is full."""
    if file.exists() and not os.access(file, os.W_OK):
        raise PermissionError(13, "it is write-protected", str(file))
    if file.exists() and not file.is_file():
        return  # a device or a pipe
    beside = file.with_name(f".nbgrad-{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as tried:
            tried.write(bytes(_TRIED))
            tried.flush()
            os.fsync(tried.fileno())
    except OSError as error:
        error.filename = str(file)
        raise
    finally:
        with suppress(OSError):
            beside.unlink()


_TRIED = 1 << 16
"""So many bytes have to fit on a disk before a program runs: a graph is at least as large."""


def _rank() -> int:
    """The number of this process among those that a launcher has started; 0 of a program that runs alone."""
    for name in RANKS:
        if os.environ.get(name, "").isdecimal():
            return int(os.environ[name])
    return 0


def _taken_stdout() -> TextIO:
    """The stdout of the command. From now on the program writes to stderr, also the processes that it starts."""
    sys.stdout.flush()
    taken = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(taken, "w", encoding=sys.stdout.encoding, errors="replace")


def _tell(stream: Any, lines: list[str]) -> None:
    """Write ``lines``, below what the program has printed."""
    with suppress(Exception):
        sys.stdout.flush()
    text = "".join(f"{line}\n" for line in lines)
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        from nbgrad.run.report import plain

        text = plain(text).encode(encoding, "replace").decode(encoding)
    with suppress(OSError, ValueError):  # nothing reads it any more, or the program has closed it
        stream.write(text)
        stream.flush()


def _shown(file: Path) -> str:
    """The path of a file, relative to the current folder where it lies in it."""
    return str(file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file)
