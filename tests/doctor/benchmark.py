"""``python -m tests.doctor``: runs the programs, and counts what the findings detect, name, locate and remedy."""

import argparse
import gc
import os
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nbgrad
from nbgrad.core.graph.finding import Finding
from tests.doctor.naming import NAMED
from tests.doctor.program import HOSTS, Fault, Host, Program, lines_of

FOLDER = Path(__file__).parent
_PACED = " --every 5"
"""A loop that is recorded in part: much less of it than in a loop of so few and short steps as these."""

HALVES = ("tuned", "kept", "sound")
"""The rules were made with the programs of ``tuned`` in view, and reported on those of ``kept``; ``sound`` has no
faults."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The worth of the findings of one faulty program in one host.

    Attributes:
        program: the name of the program, with its fault.
        cause: of the fault.
        host: where it ran.
        detected: whether there is any finding, or a note on the error that it raised.
        diagnosed: whether one of them is of a kind that names the cause.
        localised: whether such a finding tells the place.
        remedied: whether such a finding has a remedy.
        findings: the texts of all of them, each with its kind.
    """

    program: str
    cause: str
    host: Host
    detected: bool
    diagnosed: bool
    localised: bool
    remedied: bool
    findings: tuple[str, ...]


def programs(half: str) -> list[Program]:
    """All programs of a half."""
    modules = sorted(path.stem for path in (FOLDER / half).glob("*.py") if path.stem != "__init__")
    return [one for name in modules for one in import_module(f"tests.doctor.{half}.{name}").PROGRAMS]


def run(program: Program, host: Host) -> tuple[list[Finding], nbgrad.AutogradGraph | None, str]:
    """Run a program in a notebook's shell.

    Returns:
        The findings, the graph, and the text of the error, if it raised one. The last recorded cell decides.
    """
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    torch.manual_seed(0)
    graph, error = None, ""
    with warnings.catch_warnings(), capture_output() as captured:
        warnings.simplefilter("ignore")
        shell.run_cell("%load_ext nbgrad")
        for text, recorded in program.cells(host):
            result = shell.run_cell(
                f"%%autograd --view none{_PACED if host == 'paced' else ''}\n{text}" if recorded else text,
                store_history=True,
            )
            if recorded:
                last = shell.magics_manager.registry["AutogradMagics"].last
                graph = None if last is None else last.graph
            if result.error_in_exec is not None or result.error_before_exec is not None:
                error = str(result.error_in_exec or result.error_before_exec)
                notes = getattr(result.error_in_exec, "__notes__", ())
                error = "\n".join([error, *notes])
                break
        if host == "function" and not error:
            graph = shell.user_ns["graph"]
        found = [] if graph is None else list(graph.findings())
        shell.run_cell("%unload_ext nbgrad")
    del captured
    shell.user_ns.clear()
    return found, graph, error


def judge(program: Program, fault: Fault, host: Host) -> Verdict:
    """Run ``program`` with ``fault`` and compare its findings with the fault."""
    found, graph, error = run(program.edited(fault), host)
    note = error.partition("nbgrad: ")[2]
    if note and not any(one.kind in ("failed", "inplace") for one in found):  # the error came before a graph began
        found.append(Finding("failed", error, note))
    kinds = NAMED[fault.cause]
    named = [
        one
        for one in found
        if any(kind == one.kind and re.search(words, one.text, re.IGNORECASE) for kind, words in kinds)
    ]
    located = [one for one in named if _tells(one, fault, graph)]
    texts = tuple(f"{one.kind}: {one.text}" for one in found) + ((f"error: {error}",) if error else ())
    return Verdict(
        f"{program.name}: {fault.name}",
        fault.cause,
        host,
        bool(found),
        bool(named),
        bool(located),
        any(one.remedy for one in named),
        texts,
    )


def _tells(finding: Finding, fault: Fault, graph: Any) -> bool:
    """Whether a finding tells where the fault is: by a name, or by its line."""
    text = "\n".join([finding.text, *finding.tensors, *finding.scope])
    if any(re.search(pattern, text, re.IGNORECASE) for pattern in fault.where):
        return True
    records = {} if graph is None else {record.id: record for record in graph.records}
    record = records.get(finding.id or 0)
    places = [finding.place, None if record is None else record.place]
    edited = set(lines_of(tuple(text for edit in fault.edits for text in edit)))
    return any(place is not None and any(line in str(place) for line in edited) for place in places)


def _judged(task: tuple[str, int, int, Host]) -> Verdict:
    half, number, which, host = task
    program = programs(half)[number]
    return judge(program, program.faults[which], host)


def _sound(task: tuple[str, int, Host]) -> tuple[str, Host, list[str], str]:
    half, number, host = task
    program = programs(half)[number]
    found, _, error = run(program, host)
    return program.name, host, [f"{one.kind}: {one.text}" for one in found], error


def _prepare() -> None:
    torch.set_num_threads(1)
    os.environ["NBGRAD_STRICT"] = "1"  # a rule that fails is no finding about a program
    gc.freeze()  # a collection looks at the objects of the programs alone


def share(verdicts: Iterable[Verdict], field: str) -> float:
    """The share of ``verdicts`` whose ``field`` holds."""
    seen = [bool(getattr(one, field)) for one in verdicts]
    return sum(seen) / len(seen) if seen else 0.0


FIELDS = ("detected", "diagnosed", "localised", "remedied")


def table(verdicts: list[Verdict], by: str) -> str:
    """The shares by cause or by host, as Markdown."""
    groups: defaultdict[str, list[Verdict]] = defaultdict(list)
    for one in verdicts:
        groups[str(getattr(one, by))].append(one)
    rows = [(name, several) for name, several in sorted(groups.items())] + [("all", verdicts)]
    head = f"| {by} | programs | {' | '.join(FIELDS)} |\n|---|---:|{'---:|' * len(FIELDS)}"
    return "\n".join(
        [head]
        + [
            f"| {name} | {len(several)} | {' | '.join(f'{share(several, field):.0%}' for field in FIELDS)} |"
            for name, several in rows
        ]
    )


def main(arguments: list[str]) -> int:
    """Run the halves that are named, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.doctor", description=__doc__)
    parser.add_argument("halves", nargs="*", default=list(HALVES), help=f"{', '.join(HALVES)} (default: all)")
    parser.add_argument("--host", action="append", choices=HOSTS, help="run in this host only; may be repeated")
    parser.add_argument("--only", default="", help="programs and faults whose name contains this")
    parser.add_argument("--texts", action="store_true", help="print the findings of each program")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    hosts: list[Host] = options.host or list(HOSTS)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn"), initializer=_prepare) as pool:
        for half in options.halves:
            known = programs(half)
            tasks = [
                (half, number, which, host)
                for number, program in enumerate(known)
                for which, fault in enumerate(program.faults)
                for host in hosts
                if ("loop" if host == "paced" else host) in fault.hosts
                and options.only in f"{program.name}: {fault.name}"
            ]
            verdicts = list(pool.map(_judged, tasks))
            if options.texts:
                for one in verdicts:
                    marks = "".join(
                        field[0].upper() if getattr(one, field) else "-"
                        for field in ("detected", "diagnosed", "localised", "remedied")
                    )
                    print(f"\n{marks} [{one.cause}] {one.program} ({one.host})", *one.findings, sep="\n      ")
            if verdicts:
                print(f"\n## {half}\n\n{table(verdicts, 'cause')}\n\n{table(verdicts, 'host')}")
            twins = [
                (half, number, host)
                for number, program in enumerate(known)
                for host in hosts
                if options.only in program.name
            ]
            alarms = [one for one in pool.map(_sound, twins) if one[2] or one[3]]
            for name, host, texts, error in alarms:
                print(f"\nfalse alarm: {name} ({host})", *texts, error, sep="\n      ")
            print(f"\n{half}: {len(twins)} runs of {len(known)} sound programs, {len(alarms)} with a false alarm")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
