"""The pytest plugin, run by pytest in this process on small test files."""

import re
import xml.etree.ElementTree as ET
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch._dynamo

import nbgrad
from nbgrad.widgets.layout.graphviz_wasm import run_graphviz

pytest_plugins = ["pytester"]

IMPORTED = (torch._dynamo, nbgrad, run_graphviz("digraph { a }"))
"""pytester forgets the modules that a run in this process imports, and these can be imported only once."""

PREAMBLE = """
import pytest, torch
import torch.nn.functional as F
from torch import nn

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))

def train(probabilities=False, frozen=False):
    model = net()
    model[0].requires_grad_(not frozen)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.randn(16, 4), torch.arange(16) % 3
    for _ in range(3):
        optimizer.zero_grad()
        scores = model(x)
        if probabilities:
            scores = scores.softmax(1)
        loss = F.cross_entropy(scores, y)
        loss.backward()
        optimizer.step()
    return loss
"""

OWN = """
import pytest, torch, nbgrad
from nbgrad import nn, optim
from nbgrad.nn import functional as F

def train(probabilities=False):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    x, y = nbgrad.tensor(torch.randn(16, 4)), nbgrad.tensor(torch.arange(16) % 3)
    for _ in range(3):
        optimizer.zero_grad()
        scores = model(x)
        if probabilities:
            scores = scores.softmax(1)
        F.cross_entropy(scores, y).backward()
        optimizer.step()
"""


ROOT = Path(__file__).parents[2]
PLUGIN = "nbgrad" if any(one.name == "nbgrad" for one in entry_points(group="pytest11")) else "nbgrad.run.pytest_plugin"
"""How ``-p`` names the plugin: one that is installed must not be loaded a second time."""


@pytest.fixture
def run(pytester: pytest.Pytester) -> Any:
    """Runs pytest on the text of a test file."""
    (pytester.path / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider\n")

    def run(text: str, *options: str, preamble: str = PREAMBLE) -> pytest.RunResult:
        pytester.makepyfile(test_it=preamble + dedent(text))
        return pytester.runpytest_inprocess("-p", PLUGIN, *options)

    return run


@pytest.mark.parametrize("preamble", [PREAMBLE, OWN], ids=["torch", "nbgrad"])
def test_a_test_with_a_finding_fails_and_names_its_line(run: Any, preamble: str) -> None:
    result = run(
        """
        def test_sound(nbgrad_sound):
            train()

        def test_unsound(nbgrad_sound):
            train(probabilities=True)
        """,
        preamble=preamble,
    )
    result.assert_outcomes(passed=1, failed=1)
    line = next(number for number, text in enumerate(preamble.strip().splitlines(), 1) if "F.cross_entropy" in text)
    result.stdout.fnmatch_lines(
        [
            "nbgrad: loss input*",
            f"  test_it.py:{line}: error: cross_entropy takes scores * at test_it.py:{line - 1}, `*. [[]loss input[]]",
            'Meant as it is? @pytest.mark.nbgrad(ignore=[[]"loss input"[]]), or *',
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_a_mark_records_and_ignores(run: Any) -> None:
    result = run(
        """
        @pytest.mark.nbgrad
        def test_marked():
            train(probabilities=True)

        @pytest.mark.nbgrad(ignore=["loss input"])
        def test_ignored():
            train(probabilities=True)

        @pytest.mark.nbgrad(ignore="loss-input, frozen")
        def test_ignored_as_text():
            train(probabilities=True)

        def test_not_recorded():
            train(probabilities=True)

        @pytest.mark.nbgrad(ignore=["loss input"])
        class TestClass:
            @pytest.mark.nbgrad(ignore=["frozen"])
            def test_both_marks_count(self):
                train(probabilities=True)
        """
    )
    result.assert_outcomes(passed=4, failed=1)


def test_the_least_severity(run: Any) -> None:
    warns = """
    def layers(n=2):
        x = torch.randn(16, 4)
        nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))(x).square().mean().backward()
    """
    result = run(
        dedent(warns)
        + dedent(
            """
            @pytest.mark.nbgrad
            def test_fails():
                layers()

            @pytest.mark.nbgrad(fail_on="error")
            def test_passes():
                layers()

            @pytest.mark.nbgrad(fail_on="error")
            def test_error():
                train(probabilities=True)

            @pytest.mark.nbgrad(fail_on="error")
            class TestNearest:
                @pytest.mark.nbgrad(fail_on="warning")
                def test_of_the_function(self):
                    layers()
            """
        ),
        "-rA",
    )
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["*test_it.py:*: warning: *[[]no activation[]]"])
    result.stdout.fnmatch_lines(["PASSED test_it.py::test_passes"])


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ('ignore=["los input"]', "*there is no kind of findings 'los input'; did you mean loss input?*"),
        ('ignore="failed"', "*findings of the kind 'failed' cannot be silenced*"),
        ("ignore=3", "*ignore=3: it has to be kinds of findings, such as*"),
        ('fail_on="warnings"', "*fail_on='warnings': it has to be 'error' or 'warning'; did you mean warning?"),
        ('ignored=["frozen"]', "*has no argument ignored, only ignore, fail_on, record; did you mean ignore?"),
        ('"frozen"', "*takes named arguments, as in nbgrad(ignore=*got 'frozen'"),
        ("record=1", "*record=1: it has to be True or False"),
    ],
)
def test_a_wrong_mark_is_an_error_that_suggests(run: Any, mark: str, words: str) -> None:
    result = run(f"@pytest.mark.nbgrad({mark})\ndef test_one():\n    raise SystemError('it ran')\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([words])
    result.stdout.no_fnmatch_line("*it ran*")
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*During handling*")


def test_wrong_settings_are_errors(run: Any, pytester: pytest.Pytester) -> None:
    (pytester.path / "pytest.ini").write_text("[pytest]\nnbgrad = true\nnbgrad_ignore =\n    fozen\n")
    result = run("def test_one():\n    pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*nbgrad_ignore*no kind of findings 'fozen'; did you mean frozen?*"])


def test_settings_of_the_configuration_hold_for_all(run: Any, pytester: pytest.Pytester) -> None:
    (pytester.path / "pytest.ini").write_text(
        "[pytest]\nnbgrad = true\nnbgrad_fail_on = error\nnbgrad_ignore =\n    loss input\n    frozen\n"
    )
    result = run(
        """
        def test_ignored():
            train(probabilities=True)

        def test_warning():
            nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))(torch.randn(16, 4)).square().mean().backward()

        @pytest.mark.nbgrad(fail_on="warning")
        def test_warning_is_asked_for():
            nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))(torch.randn(16, 4)).square().mean().backward()

        def test_error():
            x = torch.zeros(3, requires_grad=True)
            x.log().sum().backward()
        """
    )
    result.assert_outcomes(passed=2, failed=2)


def test_the_option_records_every_test_but_those_that_say_no(run: Any) -> None:
    text = """
    import unittest

    def test_plain():
        assert 1 + 1 == 2

    def test_unsound():
        train(probabilities=True)

    @pytest.mark.nbgrad(record=False)
    def test_left_out():
        train(probabilities=True)

    @pytest.mark.parametrize("bad", [False, True])
    def test_parametrized(bad):
        train(probabilities=bad)

    class TestClass:
        def test_method(self):
            train(probabilities=True)

    class Case(unittest.TestCase):
        def setUp(self):
            self.bad = True

        def test_of_unittest(self):
            train(probabilities=self.bad)

    class Async(unittest.IsolatedAsyncioTestCase):
        async def test_of_unittest(self):
            train(probabilities=True)
    """
    result = run(text, "--nbgrad", "-rf")
    result.assert_outcomes(passed=3, failed=5)
    for name in ("test_unsound", "test_parametrized[[]True[]]", "TestClass::test_method", "Case::test_of_unittest"):
        result.stdout.fnmatch_lines([f"FAILED test_it.py::{name} - Failed: nbgrad: loss input*"])
    result.stdout.fnmatch_lines(["FAILED test_it.py::Async::test_of_unittest - Failed: nbgrad: loss input*"])
    run(text).assert_outcomes(passed=8)


def test_the_failure_of_the_test_itself_comes_first(run: Any) -> None:
    result = run(
        """
        import unittest

        @pytest.mark.nbgrad
        def test_fails():
            loss = train(probabilities=True)
            assert loss < 0, "too large"

        @pytest.mark.nbgrad
        class Case(unittest.TestCase):
            def test_fails(self):
                train(probabilities=True)
                self.assertEqual(1, 2)

        @pytest.mark.nbgrad
        def test_skips():
            train(probabilities=True)
            pytest.skip("no more")

        @pytest.mark.xfail(strict=True)
        @pytest.mark.nbgrad
        def test_is_expected_to_fail():
            train(probabilities=True)

        @pytest.mark.xfail(strict=True)
        @pytest.mark.nbgrad
        def test_is_wrongly_expected_to_fail():
            train()

        @pytest.mark.nbgrad
        def test_fails_inside_of_backward():
            x = torch.ones(3, requires_grad=True)
            y = x.exp()
            y += 1
            y.sum().backward()

        @pytest.mark.nbgrad
        def test_a_caught_error_is_no_failure():
            x = torch.ones(3, requires_grad=True)
            with pytest.raises(RuntimeError, match="scalar"):
                (x * 2).backward()
        """
    )
    result.assert_outcomes(failed=4, skipped=1, xfailed=1, passed=1)
    result.stdout.fnmatch_lines(["E       AssertionError: too large", "*nbgrad*", "nbgrad: loss input*"])
    result.stdout.fnmatch_lines(["E       AssertionError: 1 != 2", "*nbgrad*", "nbgrad: loss input*"])
    result.stdout.fnmatch_lines(["*test_is_wrongly_expected_to_fail*", "[[]XPASS(strict)[]]*"])
    result.stdout.fnmatch_lines(["E * RuntimeError: one of the variables needed*", "*nbgrad*", "*[[]inplace[]]"])


def test_the_fixture_is_the_open_graph(run: Any) -> None:
    run(
        """
        @pytest.fixture
        def model():
            return net()

        def test_graph(nbgrad_sound, model):
            assert nbgrad_sound.records == []
            model(torch.ones(2, 4)).sum().backward()
            assert nbgrad_sound.backwards == 1
            assert {one.full_name for one in nbgrad_sound.records if one.kind == "parameter"} >= {"0.weight", "2.bias"}

        @pytest.mark.usefixtures("nbgrad_sound")
        class TestUsed:
            def test_used(self, request):
                net()(torch.ones(2, 4)).sum().backward()
                assert request.getfixturevalue("nbgrad_sound").backwards == 1
        """
    ).assert_outcomes(passed=2)


def test_a_fixture_that_comes_too_late_says_so(run: Any) -> None:
    result = run(
        """
        def test_late(request):
            request.getfixturevalue("nbgrad_sound")

        @pytest.mark.nbgrad(record=False)
        def test_contradiction(nbgrad_sound):
            pass
        """
    )
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["nbgrad: record=False in a test that uses nbgrad_sound*"])
    result.stdout.fnmatch_lines(["nbgrad_sound: this test is not recorded. Name the fixture*"])


def test_a_test_may_record_by_itself(run: Any) -> None:
    run(
        """
        import nbgrad
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.utils.capture import capture_output

        @pytest.mark.nbgrad(ignore=["loss input"])
        def test_nested():
            with nbgrad.record(view="none") as inner:
                train(probabilities=True)
            assert [one.kind for one in inner.findings()] == ["loss input"]

        def test_cell(nbgrad_sound):
            shell = InteractiveShell.instance()
            with capture_output() as captured:
                shell.run_cell("%load_ext nbgrad")
                cell = "import torch\\nx = torch.ones(3, requires_grad=True)\\n(x * x).sum().backward()"
                shell.run_cell("%%autograd --view text\\n" + cell).raise_error()
                shell.run_cell("%unload_ext nbgrad")
            InteractiveShell.clear_instance()
            assert captured.outputs
            assert nbgrad_sound.backwards == 1

        def test_left_open(nbgrad_sound):
            graph = nbgrad.AutogradGraph()
            graph.__enter__()
            train()
            graph.close()
            assert graph.backwards == 3
        """,
    ).assert_outcomes(passed=3)


@pytest.mark.parametrize("mark", ["anyio"])
def test_coroutines_are_recorded(run: Any, mark: str) -> None:
    result = run(
        f"""
        import asyncio

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @pytest.fixture
        async def model(anyio_backend):
            return net()

        @pytest.mark.{mark}
        async def test_sound(nbgrad_sound, model):
            model(torch.ones(2, 4)).sum().backward()
            await asyncio.sleep(0)
            assert nbgrad_sound.backwards == 1

        @pytest.mark.{mark}
        async def test_unsound(nbgrad_sound, model):
            await asyncio.sleep(0)
            train(probabilities=True)

        @pytest.mark.{mark}
        async def test_raises(nbgrad_sound, model):
            train(probabilities=True)
            raise KeyError("its own")
        """,
        "-p",
        "anyio",
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*[[]loss input[]]", "E * KeyError: 'its own'"])


def test_the_graph_of_a_failing_test_is_saved(run: Any, pytester: pytest.Pytester) -> None:
    text = """
    @pytest.mark.parametrize("bad", ["no / sign", "yes: .. ?"])
    def test_one(bad):
        if bad.startswith("yes"):
            train(probabilities=True)
            assert False, "its own"
        train(probabilities=True)

    @pytest.mark.nbgrad
    def test_unsound():
        train(probabilities=True)

    def test_without_torch():
        assert False

    @pytest.mark.xfail
    def test_expected():
        train()
        assert False
    """
    result = run(text, "--nbgrad-save=out/graphs", "--junitxml=report.xml")
    result.assert_outcomes(passed=1, failed=3, xfailed=1)
    pages = sorted((pytester.path / "out" / "graphs").iterdir())
    assert [page.name.rpartition("-")[0] for page in pages] == ["test_it.py-test_one-yes-..", "test_it.py-test_unsound"]
    assert all("</html>" in page.read_text() for page in pages)
    result.stdout.fnmatch_lines(["graph: out/graphs/test_it.py-test_one-yes-..-*.html"])
    cases = {case.get("name"): case for case in ET.parse(pytester.path / "report.xml").iter("testcase")}
    paths = {
        name: [one.get("value") for one in case.iter("property") if one.get("name") == "nbgrad_graph"]
        for name, case in cases.items()
    }
    assert paths["test_unsound"] == [f"out/graphs/{pages[1].name}"]
    assert sum(map(bool, paths.values())) == 2

    mended = re.sub("assert False.*", "return", text.replace("    @pytest.mark.nbgrad\n", ""))
    run(mended, "--nbgrad-save=out/graphs").assert_outcomes(passed=4, xpassed=1)
    assert not list((pytester.path / "out" / "graphs").iterdir())


def test_file_names_are_short_and_differ(pytester: pytest.Pytester, run: Any) -> None:
    run(
        """
        @pytest.mark.parametrize("one", ["a/b", "a-b", "x" * 300, "x" * 301, "ä", "\\n"])
        def test_one(one):
            train()
            assert False
        """,
        "--nbgrad-save=.",
    ).assert_outcomes(failed=6)
    names = [page.name for page in pytester.path.glob("*.html")]
    assert len(names) == 6
    assert max(map(len, names)) < 100


def test_a_folder_that_cannot_be_written_to(run: Any, pytester: pytest.Pytester) -> None:
    (pytester.path / "file").write_text("")
    text = """
    import pathlib, shutil
    def test_one():
        shutil.rmtree(pathlib.Path(__file__).parent / "out")
        train()
        assert False, "its own"
    """
    result = run(text, "--nbgrad-save=file")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --nbgrad-save=file: no such folder can be made: File exists"])
    result = run(text, "--nbgrad-save=out")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E * its own", "nbgrad could not write the graph to *"])


def test_a_fault_of_nbgrad_itself_is_a_warning(run: Any) -> None:
    result = run(
        """
        @pytest.mark.filterwarnings("default")
        def test_one(nbgrad_sound):
            train()
            nbgrad_sound._fail(RuntimeError("a defect"), "a test")
        """
    )
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(["*UserWarning: test_one: nbgrad could not record a test *a defect*"])


@pytest.mark.rotated(4)
def test_workers_of_xdist_fail_the_same_tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytest.importorskip("xdist")
    pytester.makepyfile(
        test_it=PREAMBLE
        + dedent(
            """
            @pytest.mark.parametrize("bad", [False, True])
            def test_one(bad):
                train(probabilities=bad)
            """
        )
    )
    options = ["-n", "1", "--nbgrad", "--nbgrad-save=out", "--junitxml=report.xml", "-p", PLUGIN]
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*[[]loss input[]]", "graph: out/test_it.py-test_one-True-*.html"])
    assert len(list((pytester.path / "out").iterdir())) == 1
    assert 'name="nbgrad_graph" value="out/' in (pytester.path / "report.xml").read_text()


def test_the_page_on_tests_shows_what_pytest_prints(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(variable, raising=False)  # pytest shortens its summary only outside of such a run
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    program = re.search(r"```py\n(# test_model.py\n.*?)```", page, re.DOTALL)
    console = re.search(r"```console\n\$ pytest (.*?)\n(.*?)```", page, re.DOTALL)
    assert program is not None
    assert console is not None
    pytester.makepyfile(test_model=program[1])
    result = pytester.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider", *console[1].split())
    assert [timeless(one) for one in result.outlines] == [timeless(one) for one in console[2].splitlines()]


def timeless(line: str) -> str:
    return re.sub(r"in [\d.]+s\b", "in N s", line)


def test_a_run_that_records_nothing_imports_no_torch(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(
        test_it="""
        import sys

        def test_plain(request):
            assert "nbgrad" in sys.modules
            assert request.config.pluginmanager.has_plugin("PLUGIN")
            assert not {"torch", "numpy", "IPython", "nbgrad.core"} & set(sys.modules)
        """.replace("PLUGIN", PLUGIN)
    )
    pytester.runpytest_subprocess("-p", PLUGIN).assert_outcomes(passed=1)
