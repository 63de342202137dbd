"""The command begins without torch, and all of nbgrad is there at the first use of a name or of a part."""

import subprocess
import sys
from time import perf_counter

import pytest

from nbgrad.run.command import main
from tests.run.commands import ROOT, environment

pytestmark = pytest.mark.once


def output(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_the_command_imports_neither_torch_nor_numpy() -> None:
    code = (
        "import sys\nfrom nbgrad.run.command import main\nimport nbgrad\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(nbgrad.__version__, {'torch', 'numpy', 'nbgrad.core', 'IPython'} & sys.modules.keys())"
    )
    assert output(code).endswith(" set()")


def test_help_takes_a_moment() -> None:
    seconds = []
    for _ in range(5):
        begin = perf_counter()
        subprocess.run([sys.executable, "-m", "nbgrad", "--help"], cwd=ROOT, capture_output=True, check=True)
        seconds.append(perf_counter() - begin)
    assert min(seconds) < 0.3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("run --evry 10 x.py", "nbgrad run: error: there is no option --evry; did you mean --every?"),
        ("run --evry=10 -m x --steps", "nbgrad run: error: there is no option --evry; did you mean --every?"),
        ("check --fail-onn error x.py", "nbgrad check: error: there is no option --fail-onn; did you mean --fail-on?"),
        ("check --format sarfi x.py", "'sarif', 'json'); did you mean sarif?"),
        ("compare --rtl 1 a b", "nbgrad compare: error: there is no option --rtl; did you mean --rtol?"),
        ("compare a b c", "nbgrad compare: error: unrecognized arguments: c"),
        ("view --out page.html run.nbgrad", "nbgrad view: error: there is no option --out; did you mean --output?"),
        ("doctor --strange", "nbgrad doctor: error: there is no option --strange"),
        ("lab --no-opn", "nbgrad lab: error: there is no option --no-opn; did you mean --no-open?"),
        ("comapre a b", "did you mean compare?"),
        ("--vesion", "nbgrad: error: there is no option --vesion; did you mean --version?"),
        ("", "nbgrad: error: name a command: run, check, view, compare, doctor, lab"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(words: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(told)


@pytest.mark.rotated(3)
def test_every_name_is_there_when_it_is_used() -> None:
    assert output("import nbgrad\nprint(nbgrad.tensor([1.0]))") == "tensor([1.])"
    code = "from nbgrad import *\nprint(tensor([2.0]), nn.Linear(1, 1), trace, 'record' in globals())"
    assert output(code).startswith("tensor([2.]) Linear(in_features=1, out_features=1, bias=True) <function trace")
    code = (
        "import nbgrad\nprint({'record', 'tensor', 'exp', 'watch', 'nn'} <= set(dir(nbgrad)), nbgrad.record.__name__)"
    )
    assert output(code) == "True record"


FIRST = """
import importlib, os, pkgutil, sys
import torch, IPython
import nbgrad
names = [one.name for one in pkgutil.iter_modules(nbgrad.__path__, "nbgrad.")]
names += ["nbgrad.core.tensor.tensor", "nbgrad.nn.functional", "nbgrad.widgets.view", "nbgrad.optim.lr_scheduler"]
assert "nbgrad.core" not in sys.modules
for name in names:
    if name == "nbgrad.__main__":
        continue
    if os.fork() == 0:
        status = 1
        try:
            importlib.import_module(name)
            assert nbgrad.tensor([1.0], requires_grad=True).exp().sum().backward() is None
            assert "nbgrad.core.interop.entering" in sys.modules
            status = 0
        except BaseException:
            print(name, flush=True)
            raise
        finally:
            sys.stdout.flush()
            os._exit(status)
    assert os.wait()[1] == 0, name
print(len(names) > 25)
"""


@pytest.mark.rotated(6)
@pytest.mark.skipif(sys.platform == "win32", reason="no fork here")
def test_each_part_can_be_imported_first() -> None:
    assert output(FIRST) == "True"
