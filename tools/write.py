"""Write all that is made from the op table, the stub files and docs/ops.md: run it after a change of the table."""

import os
import sys
from pathlib import Path

os.environ["NBGRAD_COMPILED"] = "0"  # of compiled functions Python cannot tell what they were made of
ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the table of this checkout, also where nbgrad is not installed

from tools import write_functions, write_methods, write_ops  # noqa: E402


def made() -> dict[Path, str]:
    """Every file with what is to stand in it."""
    return {write_methods.STUB: write_methods.stub(), **write_functions.stubs(), write_ops.PAGE: write_ops.page()}


def main() -> None:
    """Write what differs, and name what cannot be written well."""
    for path, text in made().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    for what in dict.fromkeys([*write_methods.unknown(), *write_functions.unknown()]):
        print(f"tools/annotations.py is to say what this takes: {what}")


if __name__ == "__main__":
    main()
