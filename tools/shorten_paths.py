"""Take the path of this folder out of the tracebacks in notebooks: it is that of one machine."""

import sys
from pathlib import Path

import nbformat

ROOT = f"{Path(__file__).resolve().parents[1]}/"


def shorten(path: Path) -> None:
    """Rewrite the notebook, if there is anything to take out."""
    notebook = nbformat.read(path, as_version=4)
    before = nbformat.writes(notebook)
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.output_type == "error":
                output.traceback = [line.replace(ROOT, "") for line in output.traceback]
    if nbformat.writes(notebook) != before:
        nbformat.write(notebook, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        shorten(Path(name))
