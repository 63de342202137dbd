"""Imports point down only; the contracts stand in pyproject.toml."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as go; go()", "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_every_contract_holds() -> None:
    result = lint_imports(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_an_engine_that_imports_the_notebook_is_caught(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    shutil.copytree(ROOT / "nbgrad", tmp_path / "nbgrad", ignore=shutil.ignore_patterns("node_modules", "static"))
    with (tmp_path / "nbgrad" / "core" / "tensor.py").open("a") as file:
        file.write("\nimport IPython\nimport nbgrad.nn\n")
    (tmp_path / "nbgrad" / "core" / "stray.py").touch()

    result = lint_imports(tmp_path)

    assert result.returncode == 1, result.stdout + result.stderr
    assert "nbgrad.core is not allowed to import IPython" in result.stdout
    assert "nbgrad.core is not allowed to import nbgrad.nn" in result.stdout
    assert "nbgrad.core.stray" in result.stdout, "a module that no contract places"
