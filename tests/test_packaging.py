"""The wheel holds what a user needs and nothing else, and works from where it is installed."""

import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy, because setuptools writes beside the sources."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(
        ROOT / "nbgrad", copy / "nbgrad", ignore=shutil.ignore_patterns("node_modules", "__pycache__"), symlinks=True
    )
    # What npm leaves behind on a developer's machine, Python files included.
    stray = copy / "nbgrad" / "widgets" / "node_modules" / "tool"
    stray.mkdir(parents=True)
    for name in ("__init__.py", "index.js"):
        (stray / name).touch()
    out = tmp_path_factory.mktemp("wheel")
    # Without build isolation: nothing is fetched, so the test needs no network.
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", out, copy)
    [wheel] = out.iterdir()
    return wheel


def pip(*arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_wheel_is_pure(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")


def test_the_wheel_holds_every_module_the_bundle_and_nothing_else(wheel: Path) -> None:
    sources = ROOT / "nbgrad"
    wanted = {path for path in sources.rglob("*.py*") if path.suffix in {".py", ".pyi"}}
    wanted = {path for path in wanted if "node_modules" not in path.parts}
    wanted |= {path for path in (sources / "widgets" / "static").iterdir() if path.is_file()}
    wanted.add(sources / "py.typed")
    names = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {path.relative_to(ROOT).as_posix() for path in wanted}
    assert any(name.endswith(".js") for name in names), "the view's bundle"


def test_the_installed_wheel_works_far_from_the_sources(wheel: Path, tmp_path: Path) -> None:
    pip("install", "--no-deps", "--no-index", "--target", tmp_path / "site", wheel)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import nbgrad, nbgrad.magics, nbgrad.widgets.view\n"
        "print(nbgrad.__file__)\n"
        "x = nbgrad.tensor([1.0, 2.0], requires_grad=True)\n"
        "(x * x).sum().backward()\n"
        "print(x.grad.data.tolist())\n"
    )
    # -P: the folder that the test happens to run in is not searched, so the sources cannot stand in for the wheel.
    command = [sys.executable, "-P", "-c", code, str(tmp_path / "site")]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    place, gradient = result.stdout.splitlines()
    assert place.startswith(str(tmp_path))
    assert gradient == "[2.0, 4.0]"
