"""Options, fixtures and hooks for all tests."""

import argparse
import gc
import os
import sys
from collections import OrderedDict, defaultdict
from collections.abc import Generator, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.sampling import chosen, rotated
from tools.check_tools import chromium

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell
    from playwright.sync_api import Browser
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

# There are as many test processes as cores, and the tensors in tests are small: a second thread would only wait for the
# first. This is set before anything imports torch, so the processes that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A rule for findings that fails loses nothing but its own findings, and a test that does not look at them would pass.
os.environ.setdefault("NBGRAD_STRICT", "1")

FUNCTION = pytest.StashKey[tuple[str, int]]()
"""Which test function runs in this process, and how many have begun."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let a run take a part of the cases: ``tests/sampling.py`` says which."""
    parser.addoption("--sample", type=int, default=1, metavar="N", help="run one in N cases of each test function")
    parser.addoption("--functions", type=int, default=1, metavar="N", help="run one in N test functions of each file")
    parser.addoption("--sampled", action="store_true", help="run one in N of what is marked sampled(N) or rotated(N)")
    parser.addoption("--rarer", type=int, default=1, metavar="M", help="with --sampled: one in M * N of it")
    parser.addoption("--turn", type=int, default=0, metavar="T", help="which ones: each T takes others")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how to run other cases."""
    if config.option.sample > 1 or config.option.functions > 1 or config.option.sampled:
        terminalreporter.write_line(f"not every case ran: --turn {config.option.turn + 1} takes others")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m browser``, skip every file without a browser test: to import all files takes half a minute."""
    if config.getoption("markexpr") != "browser" or collection_path.suffix != ".py":
        return None
    return True if "mark.browser" not in collection_path.read_text(encoding="utf-8") else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector: none of them is garbage. This saves an eighth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run browser tests last: they are slow, and playwright keeps an event loop running once it has started.

    What needs a package that is not installed is skipped. With ``--sample`` or ``--sampled`` a part of the cases of a
    test function stays, and a part of the rotated tests of a file. With ``--functions`` a part of the functions of a
    file stays.
    """
    functions: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    files: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("rotated"):
            files[item.nodeid.partition("::")[0]].append(item)
        else:
            functions[item.nodeid.partition("[")[0]].append(item)
    if config.getoption("markexpr") != "more":  # whoever asks for these tests does not want them skipped
        skip_what_is_not_installed(items)
    waiting = set(waiting_functions(list(functions), config.option))
    left = [item for name in waiting for item in functions.pop(name)]
    left += [item for name, cases in functions.items() for item in left_out(name, cases, config.option)]
    left += [item for name, tests in files.items() for item in not_their_turn(name, tests, config.option)]
    gone = set(left)
    kept = [item for item in items if item not in gone]
    if left:
        config.hook.pytest_deselected(items=left)
    items[:] = sorted(kept, key=lambda item: item.get_closest_marker("browser") is not None)


def skip_what_is_not_installed(items: list[pytest.Item]) -> None:
    """Skip the tests marked ``more`` whose package is not there."""
    for item in items:
        for mark in item.iter_markers("more"):
            (package,) = mark.args
            if find_spec(package) is None:
                item.add_marker(pytest.mark.skip(reason=f"{package} is not installed: make more"))


def waiting_functions(names: list[str], options: argparse.Namespace) -> Iterator[str]:
    """The test functions that do not run at all."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        files[name.partition("::")[0]].append(name)
    for file, inside in files.items():
        run = rotated(file, len(inside), options.functions, options.turn)
        yield from (name for position, name in enumerate(inside) if position not in run)


def left_out(function: str, cases: list[pytest.Item], options: argparse.Namespace) -> list[pytest.Item]:
    """The cases of a test function that are left out."""
    mark = cases[0].get_closest_marker("sampled") if options.sampled else None
    one_in = max(options.sample, mark.args[0] * options.rarer if mark else 1)
    if one_in == 1:
        return []
    run = chosen(function, len(cases), one_in, options.turn)
    return [case for position, case in enumerate(cases) if position not in run]


def not_their_turn(file: str, tests: list[pytest.Item], options: argparse.Namespace) -> list[pytest.Item]:
    """The tests of a file that are marked ``rotated`` and are left out."""
    if options.sample == 1 and not options.sampled:
        return []
    left: list[pytest.Item] = []
    # Tests that share something that takes long to make count as one.
    together: defaultdict[int, defaultdict[str, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for test in tests:
        mark = test.get_closest_marker("rotated")
        assert mark is not None
        together[mark.args[0]][mark.kwargs.get("together", test.nodeid)].append(test)
    for number, groups in sorted(together.items()):
        one_in = max(options.sample, number * options.rarer)
        run = rotated(f"{file} {number}", len(groups), one_in, options.turn)
        left += [test for position, group in enumerate(groups.values()) if position not in run for test in group]
    return left


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling | None":
    """With ``--dist loadscope``, send the cases of a test function to one process, all at once.

    If a module makes something once for all of its tests, such as a wheel, its tests also go to one process. Such
    groups and those with many cases go first, so that at the end no process waits long for another. The groups are
    read from the files here, because the marks of xdist 3.8 have no effect with pytest 9.2.
    """
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Functions(LoadScopeScheduling):
        # xdist's own methods search for the place of each of tens of thousands of tests, and after each test they count
        # all tests that are done. That takes processor time from the tests.
        def __init__(self) -> None:
            super().__init__(config, log)
            self.places: dict[str, int] = {}

        def _split_scope(self, nodeid: str) -> str:
            module, _, _ = nodeid.partition("::")
            return module if makes_something_once(config.rootpath / module) else nodeid.partition("[")[0]

        def _assign_work_unit(self, node: "WorkerController") -> None:
            if not self.places:
                self.places = {test: place for place, test in enumerate(self.collection or ())}
                self.workqueue = OrderedDict(sorted(self.workqueue.items(), key=lambda group: "::" in group[0]))
            group, tests = self.workqueue.popitem(last=False)
            self.assigned_work[node][group] = tests
            node.send_runtest_some([self.places[test] for test, done in tests.items() if not done])

        def mark_test_complete(self, node: "WorkerController", item_index: int, duration: float = 0) -> None:
            test = self.registered_collections[node][item_index]
            group = self._split_scope(test)
            tests = self.assigned_work[node][group]
            tests[test] = True
            if all(tests.values()):
                del self.assigned_work[node][group]
            self._reschedule(node)

    return Functions()


@cache
def makes_something_once(path: Path) -> bool:
    """Whether a test module has a fixture that is made once for all of its tests."""
    return 'scope="module"' in path.read_text(encoding="utf-8")


def pytest_collection_finish() -> None:
    """Make ready for thousands of tests in this process."""
    if "torch" in sys.modules:
        from tests.seeding import seed_only_what_is_there

        seed_only_what_is_there()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Before the first case of a test function, the collector freezes all existing objects.

    These objects were imported or cached, and stay to the end. Many tests call the collector, which would look at each
    of a million objects every time. A few of them do become garbage: now and then the collector looks at all again.
    """
    function = item.nodeid.partition("[")[0]
    last, number = item.config.stash.get(FUNCTION, ("", 0))
    if function != last:
        item.config.stash[FUNCTION] = function, number + 1
        if number % 200 == 199:
            gc.unfreeze()
        gc.collect()
        gc.freeze()


def pytest_unconfigure() -> None:
    """Drop what wasmtime compiled before Python exits: frozen objects would outlive the modules that they need."""
    module = sys.modules.get("nbgrad.widgets.layout.graphviz_wasm")
    if module is not None:
        module._host.cache_clear()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none, and say so."""
    if item.get_closest_marker("cuda"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device, and torch sees none here")


@pytest.fixture(autouse=True)
def _same_numbers_every_run() -> None:
    """Seed torch's generators; a test that never imports torch does not pay for the import."""
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(0)
        if torch.cuda.is_initialized():  # without CUDA, torch would write down a traceback, to seed it later
            torch.cuda.manual_seed_all(0)


@pytest.fixture(autouse=True)
def _no_hint_given() -> None:
    """A test that asks for a hint gets the first one: ``nbgrad.lab`` counts them for the whole process."""
    if module := sys.modules.get("nbgrad.lab.checks"):
        module._given.clear()


def _hooks_of_all_modules() -> list[tuple[dict[int, Any], list[int]]]:
    """Torch's dictionaries of the hooks that run for every module, and the keys of each."""
    owner = sys.modules.get("torch.nn.modules.module")
    every = (
        [one for name, one in vars(owner).items() if name.startswith("_global_") and isinstance(one, dict)]
        if owner
        else []
    )
    return [(one, list(one)) for one in every]


@pytest.fixture(autouse=True)
def _nothing_left_on_torch() -> Iterator[None]:
    """No graph stays open after a test, and no mode and no hook stays on torch: the next test would run with it."""
    hooked = _hooks_of_all_modules()
    yield
    for hooks, before in hooked:
        left = {key: hook for key, hook in hooks.items() if key not in before}
        for key in left:
            del hooks[key]
        assert left == {}
    if switches := sys.modules.get("nbgrad.core.recorder.switches"):
        left = len(switches._torch.open), sys.modules["torch"]._C._len_torch_function_stack()
        switches.unfollow_to(0)
        assert left == (0, 0), "graphs open, and modes on torch's stack"
    if module := sys.modules.get("nbgrad.core.engine.pacing"):
        paced = (*module.pacers(), *module._ELSEWHERE)
        for one in paced:
            module.remove(one)
            module.remove_elsewhere(one)
        assert [one for one in paced if not one.is_over()] == [], "a graph that rests would record the next test"


@pytest.fixture(autouse=True)
def _nothing_left_in_the_state() -> Iterator[None]:
    """A test that leaves a block or the call of a module open fails itself, and not a later one."""
    yield
    if module := sys.modules.get("nbgrad.core.engine.state"):
        left = {
            name: value for name, value in module.current().fields().items() if value != module.State().fields()[name]
        }
        module.set_state(module.State())
        assert left == {}


@pytest.fixture(autouse=True)
def _collector_on() -> Iterator[None]:
    """A test that leaves the garbage collector off fails itself, and not the next one that asks for it."""
    yield
    on = gc.isenabled()
    gc.enable()
    assert on, "the garbage collector is off"


@pytest.fixture(autouse=True)
def _same_table_every_run() -> Iterator[None]:
    """The op table after a test is what it was before, in the same order: pages and stubs are written in that order."""
    module = sys.modules.get("nbgrad.core.dispatch.op")
    before = dict(module.OPS) if module is not None else {}
    yield
    if module is not None and list(module.OPS) != list(before):
        module.OPS.clear()
        module.OPS.update(before)


@pytest.fixture(autouse=True)
def _no_plugins_left() -> Iterator[None]:
    """The rules and overlays that a test adds from outside end with it."""
    yield
    if module := sys.modules.get("nbgrad.core.graph.plugins"):
        for one in (*module.FINDING_RULES.values(), *module.OVERLAY_KINDS.values()):
            one.remove()


@pytest.fixture(scope="module")
def one_shell() -> "Iterator[InteractiveShell]":
    """An IPython without a front end."""
    from IPython.core.interactiveshell import InteractiveShell

    main = sys.modules["__main__"]
    shell = InteractiveShell.instance()
    sys.modules["__main__"] = main  # the shell puts its own there, from which no process can be spawned
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def shell(one_shell: "InteractiveShell") -> "Iterator[InteractiveShell]":
    """The same shell, empty except for our extension. After the test, nothing of the extension is left."""
    import nbgrad

    main, sys.modules["__main__"] = sys.modules["__main__"], one_shell.user_module
    one_shell.reset(new_session=True)
    nbgrad.load_ipython_extension(one_shell)
    yield one_shell
    nbgrad.unload_ipython_extension(one_shell)
    one_shell.config.pop("Autograd", None)
    sys.modules["__main__"] = main


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """The system's Chromium. A machine without one fails here: a browser test that is skipped proves nothing."""
    from playwright.sync_api import sync_playwright

    from tests.lab.harness import CHROMIUM_FLAGS

    path = chromium()
    if path is None:
        pytest.fail("no Chromium here: sudo apt-get install -y chromium, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()
