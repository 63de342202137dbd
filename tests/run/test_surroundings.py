"""A program runs as under Python in all that it can ask about: torch is imported when the program does so itself."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.commands import OWN, nbgrad, python

pytestmark = pytest.mark.once

PROGRAM = Path(__file__).with_name("surroundings.py")
MORE_MODULES = {"torch.utils.flop_counter", "torch.utils.module_tracker"}
"""The modules of torch that only nbgrad needs. None of them reads a setting when it is imported."""


def surroundings(result: "subprocess.CompletedProcess[str]", text: str) -> tuple[dict[str, str], str, int]:
    """The answers of the program, the rest of what it printed, and its exit status."""
    begin, end = text.index("{"), text.rindex("}") + 1
    rest = "".join(f"{line}\n" for line in text[end:].splitlines() if line and not line.startswith("nbgrad: "))
    return json.loads(text[begin:end]), rest, result.returncode


@pytest.mark.rotated(2)
@pytest.mark.skipif(sys.platform != "linux", reason="the program asks for limits and signals of Linux")
@pytest.mark.parametrize("command", ["run", "check"])
def test_a_program_finds_what_it_finds_under_python(tmp_path: Path, command: str) -> None:
    words, more = (str(PROGRAM), "threads", "errors"), {"PYTHONHASHSEED": "7"}
    before, ended, status = surroundings(plain := python(*words, cwd=tmp_path, **more), plain.stdout)
    ours = nbgrad(command, *words, cwd=tmp_path, **more)
    after, told, ours_status = surroundings(ours, ours.stdout if command == "run" else ours.stderr)
    assert (ended, status) == ("second registered, first called\nfirst registered, last called\n", 4)
    assert (told, ours_status) == (ended, status)
    modules = [{*ast.literal_eval(one.pop("modules of torch"))} for one in (after, before)]
    assert modules[0] - modules[1] == MORE_MODULES
    assert after == before
    assert before["torch is there"] == "[]"
    assert before["torch.get_num_threads()"] == "1", "as the program set it before it imported torch"
    assert len(before) > 100


STEPS = """
w = torch.ones(3, requires_grad=True)
for step in range(4):
    (w * w).sum().backward()
print(w.grad)
"""
IMPORTED = {
    "in a function": "def load():\n    global torch\n    import torch\nload()" + STEPS,
    "in another thread": (
        "import threading\nthread = threading.Thread(target=__import__, args=('torch',))\nthread.start()\n"
        "thread.join()\nimport torch" + STEPS
    ),
    "in a task": (
        "import asyncio\nasync def main():\n    import torch" + STEPS.replace("\n", "\n    ") + "\nasyncio.run(main())"
    ),
    "with nbgrad": "from nbgrad.nn import Linear\n" + OWN,
    "lazily": (
        "import importlib.util, sys\nspec = importlib.util.find_spec('torch')\n"
        "assert set(vars(spec.loader)) >= {'name', 'path'}\n"
        "spec.loader = importlib.util.LazyLoader(spec.loader)\nmodule = importlib.util.module_from_spec(spec)\n"
        "sys.modules['torch'] = module\nspec.loader.exec_module(module)\nimport torch" + STEPS
    ),
    "twice, as the first time fails": (
        "import sys\nsys.modules['torch._C'] = None\ntry:\n    import torch\nexcept ImportError:\n"
        "    for name in [one for one in sys.modules if one.partition('.')[0] == 'torch']:\n"
        "        del sys.modules[name]\nimport torch" + STEPS
    ),
}


@pytest.mark.rotated(6)
@pytest.mark.parametrize("way", IMPORTED)
def test_the_recording_begins_wherever_torch_is_imported(tmp_path: Path, way: str) -> None:
    (tmp_path / "train.py").write_text(IMPORTED[way])
    plain, ours = python("train.py", cwd=tmp_path), nbgrad("run", "train.py", cwd=tmp_path)
    assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode), ours.stderr
    assert f"{5 if way == 'with nbgrad' else 4} backwards, all recorded" in ours.stderr


def test_a_program_without_torch_ends_without_it(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        "import atexit, sys\natexit.register(lambda: print({'torch', 'numpy'} & sys.modules.keys()))\n"
        "if len(sys.argv) > 1:\n    raise LookupError('here')\n"
    )
    result = nbgrad("run", "--save", "run.html", "--silence", "frozen", "--history", "9", "plain.py", cwd=tmp_path)
    assert (result.stdout, result.returncode) == ("set()\n", 0)
    assert result.stderr == (
        "nbgrad: plain.py: nothing was recorded, because the program has not imported torch. If it starts other "
        "processes that train, start each of them with nbgrad run; run.html was not written\n"
    )
    failed, plain = (one("plain.py", "fail", cwd=tmp_path) for one in (lambda *w, **k: nbgrad("run", *w, **k), python))
    assert (failed.stdout, failed.returncode) == (plain.stdout, plain.returncode) == ("set()\n", 1)
    assert failed.stderr.startswith(plain.stderr)
    checked = nbgrad("check", "--format", "json", "plain.py", cwd=tmp_path)
    assert (checked.stdout, checked.returncode) == ("[]\n", 2)


def test_warnings_that_the_program_makes_errors_of_do_not_reach_nbgrad(tmp_path: Path) -> None:
    (tmp_path / "strict.py").write_text("import warnings\nwarnings.simplefilter('error')\nimport torch" + STEPS)
    result = nbgrad("run", "strict.py", cwd=tmp_path, NBGRAD_COMPILED="", PYTHONWARNINGS="default")
    assert (result.stdout, result.returncode) == ("tensor([8., 8., 8.])\n", 0)
    assert "all recorded in" in result.stderr
    assert "defect" not in result.stderr
