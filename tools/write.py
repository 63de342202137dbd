"""Write all that is made from the code: stub files, and what the front end takes from Python."""

import os
import sys
from pathlib import Path

if __name__ == "__main__":  # where a test imports this module, its process has made the choice
    os.environ["NBGRAD_COMPILED"] = "0"  # Python cannot see the signatures behind compiled functions
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the table of this checkout, also where nbgrad is not installed

import nbgrad  # noqa: E402
from tools import write_functions, write_methods, write_view  # noqa: E402


def made() -> dict[Path, str]:
    """Every generated file with its new text."""
    return {write_methods.STUB: write_methods.stub(), **write_functions.stubs(), **write_view.made()}


def main() -> None:
    """Write the files whose text changed. Name the parameters that have no type."""
    if nbgrad.compiled():  # a compiled core hides the signatures
        sys.exit("the stubs are made from the plain core: run make write, or NBGRAD_COMPILED=0 python tools/write.py")
    for path, text in made().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    for what in dict.fromkeys([*write_methods.unknown(), *write_functions.unknown()]):
        print(f"tools/annotations.py is to say what this takes: {what}")


if __name__ == "__main__":
    main()
