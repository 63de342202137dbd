"""The wheel holds what a user needs and nothing else. With a compiler it is compiled, and without one plain Python."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from email import message_from_string
from email.message import Message
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from zipfile import ZipFile

import pytest

from nbgrad.core.compilation import modules

pytestmark = pytest.mark.once

ROOT = Path(__file__).parents[1]
COMPILED = modules(ROOT / "nbgrad" / "core")
SUFFIX = EXTENSION_SUFFIXES[0]

BUILT = shutil.ignore_patterns("node_modules", "__pycache__", "*.so", "*.pyd", "compiled.json")

PROGRAM = """
import sys; sys.path.insert(0, sys.argv[1])
import nbgrad, nbgrad.magics, nbgrad.widgets.view
from nbgrad.core import compilation
from nbgrad.core.dispatch import table
x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
print(nbgrad.__file__)
print(x.grad.data.tolist())
print(nbgrad.compiled(), table.__file__.endswith(".py"), compilation.why_not())
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources of the wheel: setuptools writes next to its sources."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "nbgrad", copy / "nbgrad", ignore=BUILT, symlinks=True)
    shutil.copytree(ROOT / "notebooks", copy / "notebooks")
    # Cython's output for the environment is copied: Cython does not translate again what is newer than its source.
    if (ROOT / "build" / "cython").is_dir():
        shutil.copytree(ROOT / "build" / "cython", copy / "build" / "cython")
    # npm leaves such files behind on a developer's machine, Python files among them.
    stray = copy / "nbgrad" / "widgets" / "node_modules" / "tool"
    stray.mkdir(parents=True)
    for name in ("__init__.py", "index.js"):
        (stray / name).touch()
    return copy


def test_a_cython_that_translates_the_core_wrongly_compiles_nothing(source: Path, tmp_path: Path) -> None:
    (tmp_path / "Cython" / "Build").mkdir(parents=True)
    (tmp_path / "Cython" / "Compiler").mkdir()
    (tmp_path / "Cython" / "__init__.py").write_text('__version__ = "3.3.0"')
    (tmp_path / "Cython" / "Build" / "__init__.py").write_text(
        "def cythonize(*_, **__): raise SystemExit('translated')"
    )
    (tmp_path / "Cython" / "Compiler" / "__init__.py").touch()
    (tmp_path / "Cython" / "Compiler" / "Nodes.py").write_text("class CClassDefNode: pass")
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--build-lib", str(tmp_path / "made")]
    said = subprocess.run(
        command, cwd=source, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert "with Cython 3.3.0 the core is not compiled" in said.stderr
    assert not (tmp_path / "made").exists()


@pytest.fixture(scope="module")
def plain(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built without a working compiler."""
    return build(source, tmp_path_factory.mktemp("plain"), CC="false", CXX="false")


@pytest.fixture(scope="module")
def compiled(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that is built with a working compiler: without optimization, because only its behaviour is tested."""
    if not any(map(shutil.which, (os.environ.get("CC", "cc"), "gcc", "clang", "cl"))):
        pytest.skip("no C compiler on this machine")
    return build(source, tmp_path_factory.mktemp("compiled"), CFLAGS="-O0 -g0")


@pytest.fixture(scope="module")
def installed(compiled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the installed compiled wheel."""
    return install(compiled, tmp_path_factory.mktemp("installed"))


@pytest.fixture
def site(installed: Path, tmp_path: Path) -> Path:
    """A copy of this folder, which a test may change."""
    return shutil.copytree(installed, tmp_path / "site")


def build(source: Path, out: Path, **variables: str) -> Path:
    # Without build isolation: nothing is fetched, so the test needs no network.
    for made in (source / "build").glob("*"):
        if made.name != "cython":
            shutil.rmtree(made)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", out, source, **variables)
    [wheel] = out.iterdir()
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    pip("install", "--no-deps", "--no-index", "--target", folder, wheel)
    return folder


def pip(*arguments: object, **variables: str) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    result = subprocess.run(command, env=environment(**variables), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, without variables about compiling."""
    mine = {name: value for name, value in os.environ.items() if name not in {"NBGRAD_COMPILED", "PYTHONPATH"}}
    return {**mine, **variables}


def run(site: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the program with the package in the folder ``site``."""
    # -P: Python does not search the folder of the test, so the sources cannot stand in for the wheel.
    command = [sys.executable, "-P", "-c", PROGRAM, str(site)]
    return subprocess.run(
        command, cwd=site, env=environment(**variables), capture_output=True, text=True, check=False, timeout=120
    )


def answer(result: subprocess.CompletedProcess[str], site: Path) -> str:
    """The line that the program prints about the core. Its other lines must be right."""
    assert result.returncode == 0, result.stderr
    place, gradient, core = result.stdout.splitlines()
    assert place.startswith(str(site))
    assert gradient == "[2.0, 4.0]"
    return core


def wanted() -> set[str]:
    """Every module, the stubs for editors, the files for the build, the bundle of the view, and the lessons."""
    sources = ROOT / "nbgrad"
    files = {path for path in sources.rglob("*.*") if path.suffix in {".py", ".pyi", ".pxd", ".c", ".h", ".js"}}
    files = {path for path in files if "node_modules" not in path.parts}
    files |= {path for path in (sources / "widgets" / "static").iterdir() if path.is_file()}
    files |= {
        sources / "py.typed",
        *sources.glob("locale/*/LC_MESSAGES/*.mo"),
        *sources.glob("locale/*/LC_MESSAGES/*.json"),
    }
    assert any(path.suffix == ".js" for path in files), "the view's bundle"
    lessons = {f"nbgrad/lab/notebooks/{path.name}" for path in ROOT.glob("notebooks/*.ipynb")}
    assert lessons
    return {path.relative_to(ROOT).as_posix() for path in files} | lessons


def metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def held(wheel: Path) -> set[str]:
    with ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.mark.rotated(6)
def test_without_a_compiler_the_wheel_is_for_every_machine_and_plain(plain: Path, tmp_path: Path) -> None:
    assert plain.name.endswith("-py3-none-any.whl")
    assert held(plain) == wanted()
    with ZipFile(plain) as archive:
        (scripts,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "nbgrad = nbgrad.run.command:main" in archive.read(scripts).decode()
    site = install(plain, tmp_path / "site")
    core = answer(run(site), site)
    assert core == "False True nothing was compiled when it was installed: that takes a C compiler"
    assert "but nothing was compiled when it was installed" in run(site, NBGRAD_COMPILED="1").stderr


def test_a_package_index_gets_no_link_that_leads_nowhere_and_the_licence(plain: Path) -> None:
    said = metadata(plain)
    assert said["Description-Content-Type"] == "text/markdown"
    text = str(said.get_payload())
    assert "make lab" in text
    assert "Where to go next" in text
    assert not re.findall(r"\]\((?!\w+:)[^)]*\)", text)
    assert said["License-Expression"] == "MIT"
    with ZipFile(plain) as archive:
        licences = [name for name in archive.namelist() if ".dist-info/licenses/" in name]
        assert [Path(name).name for name in licences] == said.get_all("License-File") == ["LICENSE"]


@pytest.mark.rotated(6)
def test_the_tests_run_from_the_source_distribution(tmp_path: Path) -> None:
    """The tests find their helpers, their data and the scripts under test."""
    copy = tmp_path / "project"
    left = shutil.ignore_patterns(
        ".*", "build", "dist", "*.egg-info", "node_modules", "__pycache__", "*.so", "compiled.json"
    )
    shutil.copytree(ROOT, copy, ignore=left)
    program = f"from setuptools import build_meta; print(build_meta.build_sdist({str(tmp_path)!r}))"
    made = subprocess.run(
        [sys.executable, "-c", program],
        cwd=copy,
        env=environment(CC="false"),
        capture_output=True,
        text=True,
        check=True,
    )
    with tarfile.open(tmp_path / made.stdout.split()[-1]) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (root,) = (tmp_path / "unpacked").iterdir()

    def files(folder: Path) -> set[str]:
        return {
            path.relative_to(folder).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and not {"__pycache__", "nbgrad.egg-info"} & set(path.parts)
        }

    assert files(copy) - files(root) <= {"nbgrad/widgets/.npmrc"}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:nbval",
        "-p",
        "no:cacheprovider",
        "tests/core/test_broadcast.py",
    ]
    run = subprocess.run(command, cwd=root, env=environment(), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.rotated(6, together="compiled wheel")
def test_with_a_compiler_the_wheel_holds_what_was_compiled_too(compiled: Path) -> None:
    assert not compiled.name.endswith("-any.whl")
    made = {f"nbgrad/core/{name.replace('.', '/')}{SUFFIX}" for name in COMPILED}
    assert held(compiled) == wanted() | made | {"nbgrad/core/compiled.json"}
    with ZipFile(compiled) as archive:
        assert list(json.loads(archive.read("nbgrad/core/compiled.json"))) == COMPILED


@pytest.mark.rotated(6, together="compiled wheel")
def test_the_compiled_wheel_runs_compiled_and_as_it_is_told(installed: Path) -> None:
    assert answer(run(installed), installed) == "True False None"
    assert answer(run(installed, NBGRAD_COMPILED="1"), installed) == "True False None"
    told = run(installed, NBGRAD_COMPILED="0")
    assert answer(told, installed) == "False True NBGRAD_COMPILED=0 asks for plain Python"
    assert not told.stderr
    assert "NBGRAD_COMPILED is 'no'" in run(installed, NBGRAD_COMPILED="no").stderr


@pytest.mark.rotated(6, together="compiled wheel")
def test_a_source_that_changed_after_it_was_compiled_runs_plain_and_says_so(site: Path) -> None:
    for name in ("dispatch/table.py", "engine/node.pxd"):
        with (site / "nbgrad" / "core" / name).open("a", encoding="utf-8") as file:
            file.write("# changed\n")
    result = run(site)
    why = "dispatch.table, engine.node changed after it was compiled. Install nbgrad again, or run make compile"
    assert answer(result, site) == f"False True {why}"
    assert f"RuntimeWarning: nbgrad runs as plain Python, more slowly: {why}" in result.stderr
    refused = run(site, NBGRAD_COMPILED="1")
    assert refused.returncode != 0
    assert f"ImportError: NBGRAD_COMPILED=1 asks for the compiled core, but {why}" in refused.stderr


@pytest.mark.rotated(6, together="compiled wheel")
def test_a_part_that_was_not_compiled_makes_all_of_it_plain(site: Path) -> None:
    (site / "nbgrad" / "core" / "engine" / f"node{SUFFIX}").unlink()
    result = run(site)
    assert answer(result, site).startswith("False True engine.node was not compiled when the others were")
    assert "RuntimeWarning" in result.stderr


@pytest.mark.rotated(6)
def test_a_compiler_that_fails_at_one_file_leaves_nothing_half_compiled(source: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None or os.name == "nt":
        pytest.skip("no C compiler on this machine that a script can stand before")
    copy = shutil.copytree(source, tmp_path / "source", ignore=shutil.ignore_patterns("build", "*.egg-info"))
    for path in (copy / "nbgrad" / "core").rglob("*.pxd"):
        if path.stem not in {"node", "below_autograd"}:
            path.unlink()
    (copy / "nbgrad" / "core" / "engine" / "node.pxd").write_text("")
    script = tmp_path / "cc"
    script.write_text(f'#!/bin/sh\ncase "$*" in *node.c*) exit 1;; esac\nexec {compiler} "$@"\n')
    script.chmod(0o755)
    wheel = build(copy, tmp_path / "out", CC=str(script), CFLAGS="-O0 -g0")
    assert not [name for name in held(wheel) if name.endswith((SUFFIX, "compiled.json"))]
