"""``nbgrad compare``: the first op that differs in two graphs of files, as text, as a picture and as exit status."""

import sys

from nbgrad.core.graph.comparison import Comparison
from nbgrad.options import check_folder
from nbgrad.run.parser import CommandParser
from nbgrad.run.view import saved_graph

EQUAL, DIFFERENT, TROUBLE = 0, 1, 2
"""The exit status: as those of ``diff``, so that a script can ask for it."""


def compare(arguments: list[str]) -> int:
    """Compare two files of ``graph.save("step.nbgrad")``, and print where they part.

    Args:
        arguments: the words after ``nbgrad compare``.

    Returns:
        0 if all numbers agree, 1 if something differs, 2 if they cannot be compared.
    """
    parser = CommandParser("nbgrad compare", description="Name the first op that differs in two saved graphs.")
    parser.add_argument("left", help="a file that ends in .nbgrad: the reference")
    parser.add_argument("right", help="the other file")
    parser.add_argument("--rtol", type=float, help="the relative distance up to which results agree")
    parser.add_argument(
        "--save", metavar="FILE", help="write a picture of both: .html, .svg, .png, .pdf, .txt or .json"
    )
    given = parser.parse_args(arguments)
    try:
        if given.save is not None:
            check_folder(given.save, shell=True)
        found = Comparison(
            saved_graph(given.left), saved_graph(given.right), (given.left, given.right), rtol=given.rtol
        )
        if given.save is not None:
            found.save(given.save)
    except (OSError, ValueError, ModuleNotFoundError, RuntimeError) as error:
        sys.stderr.write(f"nbgrad compare: {error}\n")
        return TROUBLE
    print(found)  # noqa: T201  # this is the command's output
    return EQUAL if found.equal else DIFFERENT
