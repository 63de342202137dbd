"""A program gets the ``__main__``, arguments, paths and streams that Python itself would give it.

These tests run without torch: only the part of the command that finds and runs a program.
"""

import json
import os
import zipfile
from pathlib import Path

import pytest

from tests.run.commands import python

pytestmark = pytest.mark.once

DRIVER = """
import sys
from nbgrad.run.script import ProgramError, found_module, found_script
words = sys.argv[1:]
find = found_script
if words[0] == "-m":
    find, words = found_module, words[1:]
try:
    program = find(words[0], words[1:])
except ProgramError as error:
    sys.exit(f"refused: {error}")
assert "torch" not in sys.modules
program.run()
"""

TELLS = """
import json, os, sys
me = sys.modules["__main__"]
told = {name: value for name, value in globals().items() if name not in ("json", "os", "sys", "me", "told")}
told |= {"builtins": type(told.pop("__builtins__")).__name__, "loader": type(told.pop("__loader__")).__name__}
spec = told.pop("__spec__")
told |= {"spec": spec and [spec.name, spec.origin, spec.parent], "argv": sys.argv, "path": sys.path}
told |= {"same": me.__dict__ is globals(), "in": sys.stdin.read(), "safe": sys.flags.safe_path}
print(json.dumps(told, indent=1, sort_keys=True))
"""
"""A program that says all that it can see of how it was started."""


def both(folder: Path, *words: str, options: tuple[str, ...] = (), stdin: str = "text") -> tuple[str, str]:
    """The output of a program under Python, and under the command."""
    (folder / "driver").mkdir(exist_ok=True)
    (folder / "driver" / "nbgrad_driver.py").write_text(DRIVER)
    plain = python(*options, *words, cwd=folder, stdin=stdin)
    ours = python(*options, "driver/nbgrad_driver.py", *words, cwd=folder, stdin=stdin)
    assert plain.returncode == ours.returncode == 0, plain.stderr + ours.stderr
    return plain.stdout, ours.stdout


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the same program as a file, a package, a folder, a zip file and compiled."""
    (tmp_path / "tells.py").write_text(TELLS)
    (tmp_path / "package" / "inner").mkdir(parents=True)
    for place in ("package/__init__.py", "package/inner/__init__.py"):
        (tmp_path / place).write_text("")
    for place in ("package/tells.py", "package/inner/__main__.py"):
        (tmp_path / place).write_text(TELLS)
    (tmp_path / "application").mkdir()
    (tmp_path / "application" / "__main__.py").write_text("import beside\n" + TELLS.replace('"me",', '"me", "beside",'))
    (tmp_path / "application" / "beside.py").write_text("")
    with zipfile.ZipFile(tmp_path / "application.zip", "w") as archive:
        for one in ("__main__.py", "beside.py"):
            archive.write(tmp_path / "application" / one, one)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.py").symlink_to(tmp_path / "tells.py")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("tells.py", "a", "--every", "3", "-m"),
        ("./elsewhere/link.py",),
        ("application", "a"),
        ("application.zip", "--save"),
        ("-m", "package.tells", "-m", "x"),
        ("-m", "package.inner", "x"),
        ("-m", "tells"),
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("options", [(), ("-P",)], ids=["", "safe path"])
def test_a_program_sees_what_python_shows_it(programs: Path, words: tuple[str, ...], options: tuple[str, ...]) -> None:
    if options and words[0] == "-m":
        pytest.skip("with -P neither finds a module of this folder")
    plain, ours = map(json.loads, both(programs, *words, options=options))
    assert ours == plain
    assert ours["in"] == "text"


def test_a_program_on_stdin_runs(programs: Path) -> None:
    plain, ours = both(programs, "-", "a", stdin=TELLS)
    assert ours == plain
    assert json.loads(ours)["argv"] == ["-", "a"]


def test_compiled_programs_run(programs: Path) -> None:
    python("-m", "compileall", "-q", "-b", "tells.py", cwd=programs)
    plain, ours = map(json.loads, both(programs, "tells.pyc"))
    assert ours == plain


SPAWNING = """
import multiprocessing, os, pickle, sys

class Mine:
    def __init__(self, value): self.value = value

def work(thing):
    return type(thing).__module__, thing.value, os.path.basename(sys.modules["__main__"].__file__)

if __name__ == "__main__":
    assert pickle.loads(pickle.dumps(Mine(3))).value == 3
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.map(work, [Mine(1), Mine(2)]))
"""


@pytest.mark.parametrize("start", ["spawn", "forkserver", "fork"])
@pytest.mark.parametrize("module", [False, True])
def test_other_processes_find_the_main_module(tmp_path: Path, start: str, module: bool) -> None:
    (tmp_path / "spawning.py").write_text(SPAWNING)
    plain, ours = both(tmp_path, *(("-m", "spawning") if module else ("spawning.py",)), start)
    assert ours == plain
    assert plain.count("spawning.py") == 2


def refused(folder: Path, *words: str) -> str:
    (folder / "driver.py").write_text(DRIVER)
    result = python("driver.py", *words, cwd=folder)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1, "one sentence"
    assert result.stderr.startswith("refused: ")
    return result.stderr.removeprefix("refused: ").strip()


def test_a_program_that_cannot_run_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("x = 1\ndef f(:\n    pass\n")
    (tmp_path / "zeros.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "latin.py").write_bytes("x = 'é'\n".encode("latin-1"))
    (tmp_path / "notes.ipynb").write_text("{}")
    (tmp_path / "data.bin").write_bytes(bytes(range(256)))
    (tmp_path / "stale.pyc").write_bytes(b"not compiled")
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("other.py", "")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "needs.py").write_text("")
    (tmp_path / "failing").mkdir()
    (tmp_path / "failing" / "__init__.py").write_text("import no_such_thing")
    (tmp_path / "failing" / "one.py").write_text("")
    expected = {
        "missing.py": "there is no file 'missing.py'",
        "broken.py": "'broken.py' is no program of Python: line 2: invalid syntax",
        "zeros.py": "'zeros.py' is no program of Python: source code ",
        "latin.py": "'latin.py' is no program of Python: line 1: (unicode error)",
        "notes.ipynb": "'notes.ipynb' is a notebook: put %%autograd on the first line",
        "data.bin": "'data.bin' is no program of Python: ",
        "stale.pyc": "'stale.pyc' cannot be run: bad magic number",
        "empty": "'empty' has no __main__.py, so it cannot be run",
        "empty.zip": "'empty.zip' is no program of Python: ",
        "-m missing": "there is no module 'missing'",
        "-m package.missing": "there is no module 'package.missing'",
        "-m missing.inner": "there is no module 'missing.inner'",
        "-m package": "the package 'package' has no __main__, so it cannot be run",
        "-m failing.one": "the module 'failing.one' cannot be imported: No module named 'no_such_thing'",
        "-m .relative": "the module '.relative' cannot be run: ",
        "-m sys": "'sys' has no code of Python to run",
    }
    for words, sentence in expected.items():
        assert refused(tmp_path, *words.split()).startswith(sentence), words


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root reads every file")
def test_a_program_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("")
    (tmp_path / "secret.py").chmod(0)
    assert refused(tmp_path, "secret.py") == "'secret.py' cannot be read: Permission denied"
