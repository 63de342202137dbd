"""The pytest plugin: it records tests, fails those that have findings, and saves the graphs of those that fail.

pytest imports this module in every run. So torch and nbgrad's core are imported when the first test is recorded.
"""

import hashlib
import os
import re
import warnings
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from nbgrad.core.graph.graph import AutogradGraph

_MARK = 'nbgrad(ignore=[], fail_on="warning", record=True)'
_ARGUMENTS = ("ignore", "fail_on", "record")
_NAMED = 80
"""The name of a file has at most so many signs of the id of its test."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options, and the settings of the configuration file."""
    group = parser.getgroup("nbgrad", "recording by nbgrad")
    group.addoption("--nbgrad", action="store_true", help="record every test, and fail those that have findings")
    group.addoption(
        "--nbgrad-save",
        metavar="FOLDER",
        help="record every test, and write the graph of each one that fails into this folder, as a page",
    )
    parser.addini("nbgrad", "record every test, as --nbgrad does", type="bool", default=False)
    parser.addini("nbgrad_ignore", "kinds of findings that no test fails on, one on each line", type="linelist")
    parser.addini("nbgrad_fail_on", 'the least severity on which a test fails: "warning" or "error"', default="warning")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, and make the folder for graphs."""
    config.addinivalue_line(
        "markers",
        f"{_MARK}: record the test, and fail it if it has findings that are at least as severe as fail_on and not of "
        "the kinds in ignore; record=False: do not record it, not even with --nbgrad",
    )
    folder = config.getoption("nbgrad_save")
    if folder is not None:
        path = Path(folder).expanduser().absolute()  # now: a test may change the working directory
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise pytest.UsageError(f"--nbgrad-save={folder}: no such folder can be made: {error.strerror}") from None
        config.stash[_FOLDER] = path


class Wish(NamedTuple):
    """How a test is recorded.

    Attributes:
        judged: whether it fails on findings.
        ignore: the kinds of findings that are left out.
        fail_on: the least severity on which it fails.
    """

    judged: bool
    ignore: frozenset[str]
    fail_on: Any


class RecordedTest:
    """A test that is recorded, from its setup to its end.

    Attributes:
        graph: of its call; it is open while the test function runs.
        wish: how it is recorded.
        unsound: the findings on which it failed, as text; empty if there are none, or if it failed by itself.
    """

    def __init__(self, item: pytest.Function, wish: Wish) -> None:
        import nbgrad

        self.graph: AutogradGraph = nbgrad.AutogradGraph(item.name, silence=wish.ignore or None, every=None)
        self.wish = wish
        self.unsound = ""
        self._globals = item.module

    @contextmanager
    def recording(self) -> Generator[None, None, None]:
        """Record the block, and name what the variables of the test's module hold."""
        with self.graph:
            try:
                yield
            finally:
                self.graph.name_variables(vars(self._globals))

    def inside(self, run: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """A coroutine function that records ``run``: its task has a context of its own."""

        @wraps(run)
        async def recorded(*args: Any, **kwargs: Any) -> Any:
            with self.recording():
                return await run(*args, **kwargs)

        return recorded

    def judge(self) -> None:
        """Note the findings on which the test fails.

        A fault of nbgrad's own is a warning: findings may be missing.
        """
        from nbgrad.testing.soundness import listed, unsound

        if self.graph.fault is not None:
            warnings.warn(f"{self.graph.name}: {self.graph.fault}", stacklevel=1)
        found = unsound(self.graph, self.wish.fail_on) if self.wish.judged else []
        if found:
            kinds = ", ".join(f'"{one}"' for one in dict.fromkeys(finding.kind for finding in found))
            self.unsound = (
                f"{listed(found)}\n"
                f"Meant as it is? @pytest.mark.nbgrad(ignore=[{kinds}]), or # nbgrad: ignore[kind] on the line"
            )

    def findings(self) -> str:
        """All findings beside the error of the test itself, as text; empty if there are none."""
        from nbgrad.testing.soundness import listed

        found = [one for one in self.graph.findings() if one.kind != "failed"]
        return listed(found) if found else ""


_RECORDED = pytest.StashKey[RecordedTest]()
_FOLDER = pytest.StashKey[Path]()


@pytest.fixture
def nbgrad_sound(request: pytest.FixtureRequest) -> "AutogradGraph":
    """Record the test, and fail it if the graph has findings; the value is the graph, which is open in the test."""
    recorded = request.node.stash.get(_RECORDED, None)
    if recorded is None:
        pytest.fail(
            "nbgrad_sound: this test is not recorded. Name the fixture as an argument of the test, or in "
            "@pytest.mark.usefixtures: the recording begins before the test",
            pytrace=False,
        )
    graph: AutogradGraph = recorded.graph
    return graph


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Make the graph of a test that is recorded."""
    if not isinstance(item, pytest.Function):
        return
    try:
        wish = _wish(item)
        if wish is not None:
            item.stash[_RECORDED] = RecordedTest(item, wish)
    except ValueError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None  # a report would show the cause, too


def _wish(item: pytest.Function) -> Wish | None:
    """How a test is recorded, by its marks, its fixtures and the options; None if it is not.

    Raises:
        ValueError: a mark or a setting has a value that it cannot have.
    """
    marks = [_arguments(one) for one in item.iter_markers("nbgrad")]
    fixture = "nbgrad_sound" in item.fixturenames
    if not next((one["record"] for one in marks if "record" in one), True):
        if fixture:
            raise ValueError("nbgrad: record=False in a test that uses nbgrad_sound: leave out one of them")
        return None
    judged = bool(marks) or fixture or item.config.getoption("nbgrad") or item.config.getini("nbgrad")
    if not judged and _FOLDER not in item.config.stash:
        return None
    from nbgrad.testing.soundness import ignored, severity

    kinds = ignored("nbgrad_ignore", item.config.getini("nbgrad_ignore"))
    kinds = kinds.union(*[ignored("@pytest.mark.nbgrad", one.get("ignore", ())) for one in marks])
    given = next((one["fail_on"] for one in marks if "fail_on" in one), None)
    least = item.config.getini("nbgrad_fail_on") if given is None else given
    return Wish(judged, kinds, severity("nbgrad_fail_on" if given is None else "@pytest.mark.nbgrad", least))


def _arguments(mark: pytest.Mark) -> dict[str, Any]:
    from nbgrad.core.suggestions import nearest

    if mark.args:
        raise ValueError(f"@pytest.mark.nbgrad takes named arguments, as in {_MARK}, and got {mark.args[0]!r}")
    for name in mark.kwargs:
        if name not in _ARGUMENTS:
            raise ValueError(
                f"@pytest.mark.nbgrad has no argument {name}, only {', '.join(_ARGUMENTS)}{nearest(name, _ARGUMENTS)}"
            )
    if not isinstance(mark.kwargs.get("record", True), bool):
        raise ValueError(f"@pytest.mark.nbgrad: record={mark.kwargs['record']!r}: it has to be True or False")
    return dict(mark.kwargs)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record the test, and fail it on its findings. An error of its own comes first."""
    recorded = item.stash.get(_RECORDED, None)
    if recorded is None or not isinstance(item, pytest.Function):
        return (yield)
    if iscoroutinefunction(item.obj):
        holder: tuple[Any, str] = (item.instance, item.originalname) if _is_unittest(item) else (item, "obj")
        plain = item.obj
        setattr(*holder, recorded.inside(plain))
        try:
            result = yield
        finally:
            setattr(*holder, plain)
    else:
        with recorded.recording():
            result = yield
    if not getattr(item, "_excinfo", None):  # errors of a unittest.TestCase are not raised
        recorded.judge()
        if recorded.unsound:
            pytest.fail(recorded.unsound, pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write the graph of a test that failed, and add its findings to the report."""
    report = yield
    recorded = item.stash.get(_RECORDED, None)
    if recorded is None or call.when != "call":
        return report
    path = _path(item)
    if path is not None:
        path.unlink(missing_ok=True)  # of an earlier run
    if report.failed and recorded.graph.records:
        findings = "" if recorded.unsound else recorded.findings()
        saved = "" if path is None else _saved(item, report, recorded.graph, path)
        if findings or saved:
            report.sections.append(("nbgrad", "\n".join(filter(None, [findings, saved]))))
    return report


def _is_unittest(item: pytest.Function) -> bool:
    """Whether unittest runs the test: it looks the test function up itself."""
    from unittest import TestCase

    return item.cls is not None and issubclass(item.cls, TestCase)


def _path(item: pytest.Item) -> Path | None:
    """The file for the graph of a test: readable, and different for each id."""
    folder = item.config.stash.get(_FOLDER, None)
    if folder is None:
        return None
    name = re.sub(r"[^\w.]+", "-", item.nodeid).strip("-")
    digest = hashlib.sha256(item.nodeid.encode(errors="replace")).hexdigest()[:8]
    return folder / f"{name[-_NAMED:].lstrip('-.')}-{digest}.html"


def _saved(item: pytest.Item, report: pytest.TestReport, graph: "AutogradGraph", path: Path) -> str:
    """Write ``graph``, and give its path to the reports; return a sentence."""
    try:
        graph.save(path)
    except Exception as error:  # the report of the test itself matters more
        return f"nbgrad could not write the graph to {path}: {error}"
    here = item.config.invocation_params.dir
    named = path.relative_to(here) if path.is_relative_to(here) else path
    for properties in (item.user_properties, report.user_properties):
        properties.append(("nbgrad_graph", named.as_posix()))
    page = getattr(item.config.option, "htmlpath", None)
    if page and item.config.pluginmanager.hasplugin("html"):
        from pytest_html import extras

        link = Path(os.path.relpath(path, Path(page).absolute().parent)).as_posix()
        extended: Any = report
        extended.extras = [*getattr(report, "extras", []), extras.url(link, name="nbgrad")]
    return f"graph: {named.as_posix()}"


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Let the graph go: pytest keeps each test to the end of the run."""
    if _RECORDED in item.stash:
        del item.stash[_RECORDED]
