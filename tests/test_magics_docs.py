"""The cells of the docs run in IPython, in order, and say what the page says."""

import re
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from nbgrad.options import TABLE, flag

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "magics.md").read_text(encoding="utf-8")
CELL = re.compile(
    r"^```(?:ipython|python)\n(%.*?|(?<=ipython\n).*?)^```\n(?:```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL
)


def told(shell: InteractiveShell, cell: str) -> str:
    """The prints, errors and displays of a cell, as text."""
    with capture_output() as captured:
        result = shell.run_cell(cell, store_history=True)
    error = result.error_in_exec
    if error is not None:
        return f"{type(error).__name__}: {error}"
    displayed = [output.data.get("text/plain", "") for output in captured.outputs]
    return "\n".join([captured.stdout.rstrip(), *displayed]).strip()


@pytest.mark.rotated(3)
@pytest.mark.parametrize("page", ["README.md", "docs/magics.md", "docs/teaching.md"])
def test_the_cells_run_and_say_what_the_page_says(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nbgrad.core.graph.graph._next_number", iter(range(1, 100)).__next__)
    cells = CELL.findall((ROOT / page).read_text(encoding="utf-8"))
    assert len(cells) >= 2
    for cell, wanted in cells:
        cell = cell.replace("%load_ext nbgrad\n", "")  # it is loaded, and the shell is not asked to load it anew
        found = told(shell, cell)
        if wanted:
            assert found.startswith(wanted.strip()), cell
        else:
            assert "Error" not in found, cell


def test_the_page_has_every_option() -> None:
    for one in TABLE:
        example = one.metadata["example"]
        assert f"| `{example}` |" in PAGE, example
        cells = "\n".join(cell for cell, _ in CELL.findall(PAGE))
        assert flag(one) in cells or f"--no-{flag(one)[2:]}" in cells, f"{one.name} has no cell"
