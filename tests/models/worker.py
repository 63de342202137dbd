"""Runs the programs of one package, and writes a line of JSON for each: ``python -m tests.models.worker einops``."""

import argparse
import json
import sys
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from tests.models.check import check, one_line, quiet
from tests.models.package import Package
from tests.models.result import Result
from tests.models.torchvision_ops import provide


def main(arguments: list[str]) -> None:
    """Run the programs. The output of the packages goes to the standard error."""
    parser = argparse.ArgumentParser(prog="python -m tests.models.worker", description=__doc__)
    parser.add_argument("module", help="a module of tests.models.programs, or of another package with its dots")
    parser.add_argument("--only", nargs="*", default=[], metavar="PROGRAM")
    parser.add_argument("--skip", action="append", default=[], metavar="PROGRAM")
    parser.add_argument("--quick", action="store_true", help="measure nothing")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    lines, sys.stdout = sys.stdout, sys.stderr
    quiet()
    provide()

    def say(**facts: object) -> None:
        print(json.dumps(facts), file=lines, flush=True)

    name = options.module if "." in options.module else f"tests.models.programs.{options.module}"
    package: Package = import_module(name).package
    say(package=package.distribution, version=version(package.distribution))
    for program in package.programs:
        if program.name in options.skip or (options.only and program.name not in options.only):
            continue
        say(begins=program.name)
        picture = options.pictures and options.pictures / f"{options.module}-{program.name}.svg"
        try:
            result = check(program, measure=not options.quick, picture=picture)
        except Exception as error:  # the plain program fails
            result = Result(program.name, recorded=f"error without recording: {one_line(error)}")
        quiet()  # some packages change the warning filters
        say(**asdict(result))


if __name__ == "__main__":
    main(sys.argv[1:])
