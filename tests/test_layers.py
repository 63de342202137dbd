"""Imports point down only; the contracts stand in pyproject.toml."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest
import rustworkx

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
    with (tmp_path / "nbgrad" / "core" / "tensor" / "tensor.py").open("a") as file:
        file.write("\nimport IPython\nimport nbgrad.nn\n")
    (tmp_path / "nbgrad" / "core" / "stray.py").touch()

    result = lint_imports(tmp_path)

    assert result.returncode == 1, result.stdout + result.stderr
    assert "nbgrad.core is not allowed to import IPython" in result.stdout
    assert "nbgrad.core is not allowed to import nbgrad.nn" in result.stdout
    assert "nbgrad.core.stray" in result.stdout, "a module that no contract places"


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The circles of modules that import each other. Each circle is sorted."""
    graph = rustworkx.PyDiGraph()
    at = {module: graph.add_node(module) for module in imports}
    graph.add_edges_from_no_data([(at[one], at[other]) for one in imports for other in imports[one]])
    return [
        sorted(graph[i] for i in found) for found in rustworkx.strongly_connected_components(graph) if len(found) > 1
    ]


def test_no_two_modules_import_each_other_not_even_for_their_types() -> None:
    graph = grimp.build_graph("nbgrad", cache_dir=None)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    assert len(imports) > 200
    assert circles(imports) == []
    leaf, top = "nbgrad.core.engine.node", "nbgrad.core.graph.graph"
    assert circles(imports | {leaf: {*imports[leaf], top}}), "the tester"


def test_no_two_files_of_the_front_end_import_each_other() -> None:
    sources = list((ROOT / "nbgrad" / "widgets" / "src").glob("*.ts"))
    imports = {one.stem: set(re.findall(r'from "\./(\w+)"', one.read_text("utf-8"))) for one in sources}
    assert len(imports) > 15
    assert circles(imports) == []
