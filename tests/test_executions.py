"""A graph belongs to one run of a cell and ends with it, whoever else runs cells meanwhile, and in whatever way."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

import nbgrad
from nbgrad import executions

X = "import nbgrad\nx = nbgrad.tensor(1.0, requires_grad=True)\n"


def seen(shell: InteractiveShell, *cells: str) -> list[str]:
    """The first words of each output that the cells display."""
    with capture_output() as captured:
        for cell in cells:
            shell.run_cell(cell)
    return [output.data["text/plain"].partition(",")[0] for output in captured.outputs]


def recorded(name: str, body: str) -> str:
    return f"%%autograd --view text --name {name}\n{body}"


@pytest.fixture(autouse=True)
def _with_x(shell: InteractiveShell) -> None:
    shell.run_cell(X)


INNER = recorded("inner", "b = x * 3\nc = b * 3")
HOSTS = {
    "an empty cell": ("get_ipython().run_cell('')", []),
    "a silent cell": ("get_ipython().run_cell('1', silent=True)", []),
    "a recorded silent cell": (f"get_ipython().run_cell({INNER!r}, silent=True)", ["inner: 2 ops"]),
    "a recorded cell": (f"get_ipython().run_cell({INNER!r})", ["inner: 2 ops"]),
    "a recorded cell that raises": (f"get_ipython().run_cell({INNER + chr(10) + '1 / 0'!r})", ["inner: 2 ops"]),
    "a cell with an error of syntax": ("get_ipython().run_cell('1 +')", []),
    "the magic called by hand": (
        "get_ipython().run_cell_magic('autograd', '--view text --name i', 'b = x * 3')",
        ["i: 1 op"],
    ),
}


@pytest.mark.parametrize("name", HOSTS)
def test_what_runs_inside_a_recorded_cell_does_not_end_it(shell: InteractiveShell, name: str) -> None:
    inside, pictures = HOSTS[name]
    found = seen(shell, recorded("outer", f"a = x * 2\n{inside}\nd = a * 4"))
    outer = 2 + sum(int(picture.split()[1]) for picture in pictures)  # the outer graph has the inner ops too
    assert found == [*pictures, f"outer: {outer} ops"]


@pytest.mark.parametrize("error", ["1 / 0", "raise KeyboardInterrupt", "raise SystemExit", "raise GeneratorExit"])
def test_a_cell_ends_its_graph_whatever_ends_the_cell(shell: InteractiveShell, error: str) -> None:
    inner = recorded("inner", f"b = x * 2\n{error}")
    outer = recorded("outer", f"get_ipython().run_cell({inner!r})\na = b * 2\n{error}")
    shown = [] if "GeneratorExit" in error else ["inner: 1 op", "outer: 2 ops"]
    assert seen(shell, outer, recorded("next", "c = x * 2")) == [*shown, "next: 1 op"]


def test_a_thread_that_runs_cells_records_its_own(shell: InteractiveShell) -> None:
    run = f"t = Thread(target=get_ipython().run_cell, args=[{INNER!r}])\nt.start()\nt.join()"
    thread = f"from threading import Thread\n{run}"
    assert seen(shell, recorded("outer", f"a = x * 2\n{thread}")) == ["inner: 2 ops", "outer: 1 op"]
    on = seen(shell, "%autograd on --view text", f"e = x * 2\n{thread}", "%autograd off")
    assert on[0] == "inner: 2 ops"
    assert on[1].endswith(": 1 op")


def test_a_task_records_until_its_own_cell_ends(shell: InteractiveShell) -> None:
    body = "{0}1 = x * 2\nimport asyncio\nawait asyncio.sleep(0)\n{0}2 = {0}1 * 2"
    calls = [
        f"get_ipython().run_cell_async({c!r}, transformed_cell=get_ipython().transform_cell({c!r}))"
        for c in [recorded(name, body.format(name)) for name in ("one", "two")]
    ]
    assert seen(shell, recorded("outer", f"import asyncio\nawait asyncio.gather({', '.join(calls)})")) == [
        "one: 2 ops",
        "two: 2 ops",
        "outer: 4 ops",
    ]


def test_a_line_that_runs_again_replaces_what_it_recorded_and_another_does_not(shell: InteractiveShell) -> None:
    assert seen(shell, f"%%timeit -n 3 -r 2\n{recorded('timed', 'global a; a = x * 2')}") == ["timed: 1 op"]
    two = "\n".join(f"exec(get_ipython().transform_cell({recorded(name, f'{name} = x * 2')!r}))" for name in "ab")
    assert seen(shell, two) == ["b: 1 op", "a: 2 ops"], "both end with the cell, the last that began first"


def test_where_no_cell_runs_nothing_is_recorded_and_the_message_says_what_to_do(shell: InteractiveShell) -> None:
    assert executions.current() is None
    with pytest.raises(UsageError, match=r"no cell runs here.*nbgrad\.record"):
        shell.run_line_magic("_autograd_begin", "")


def test_the_graph_stands_below_what_others_show_at_the_end_of_the_cell(shell: InteractiveShell) -> None:
    shown = lambda: shell.display_pub.publish({"text/plain": "a plot"})  # noqa: E731
    shell.events.register("post_execute", shown)  # matplotlib shows its figures in this way
    try:
        assert seen(shell, recorded("below", "a = x * 2")) == ["a plot", "below: 1 op"]
    finally:
        shell.events.unregister("post_execute", shown)


def test_another_who_follows_cells_stays_when_we_go(one_shell: InteractiveShell) -> None:
    nbgrad.unload_ipython_extension(one_shell)
    run = one_shell.run_cell_async
    nbgrad.load_ipython_extension(one_shell)
    ours = one_shell.run_cell_async
    calls = []

    def theirs(*args: Any, **kwargs: Any) -> Any:
        calls.append(args[0])
        return ours(*args, **kwargs)

    one_shell.run_cell_async = theirs  # type: ignore[method-assign]
    nbgrad.unload_ipython_extension(one_shell)
    assert one_shell.run_cell_async is theirs
    one_shell.run_cell("pass")
    assert calls == ["pass"]
    del one_shell.run_cell_async
    assert one_shell.run_cell_async == run
    nbgrad.load_ipython_extension(one_shell)
    nbgrad.unload_ipython_extension(one_shell)
    assert "run_cell_async" not in vars(one_shell)


# Over the kernel protocol: cells of subshells run at the same time, and widgets call when no cell runs.


@contextmanager
def _a_kernel() -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    manager, client = start_new_kernel(kernel_name="python3", extra_arguments=["--log-level=ERROR"])
    try:
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


class Talk:
    """The displays of a kernel, by the message that asked for it."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self.client = client
        self.pictures: dict[str, list[str]] = {}
        self.idle: set[str] = set()
        self.replies: dict[str, Any] = {}

    def send(self, kind: str, content: dict[str, Any], subshell: str | None = None) -> str:
        message = self.client.session.msg(kind, content)
        message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def execute(self, code: str, subshell: str | None = None) -> str:
        return self.send("execute_request", {"code": code, "silent": False, "allow_stdin": False}, subshell)

    def until(self, *requests: str) -> None:
        """Read until each of the requests is done."""
        while not self.idle.issuperset(requests):
            self.read(30)

    def read(self, timeout: float) -> None:
        message = self.client.get_iopub_msg(timeout=timeout)
        asked, content = message["parent_header"].get("msg_id", ""), message["content"]
        if message["msg_type"] == "display_data":
            self.pictures.setdefault(asked, []).append(content["data"]["text/plain"].partition(",")[0])
        if message["msg_type"] == "comm_open":
            self.replies[asked] = content["comm_id"]
        if content.get("execution_state") == "idle":
            self.idle.add(asked)


@pytest.fixture(scope="module")
def kernel() -> Iterator[tuple[KernelManager, Talk]]:
    with _a_kernel() as (manager, client):
        talk = Talk(client)
        talk.until(talk.execute(f"%load_ext nbgrad\nimport asyncio, threading\n{X}"))
        yield manager, talk


@pytest.mark.rotated(3)
def test_cells_of_two_subshells_each_have_their_own_picture(kernel: tuple[KernelManager, Talk]) -> None:
    _, talk = kernel
    control = talk.client.control_channel
    control.send(talk.client.session.msg("create_subshell_request"))
    subshell = control.get_msg(timeout=30)["content"]["subshell_id"]
    talk.until(talk.execute("begun, other = threading.Event(), threading.Event()"))
    main = talk.execute(recorded("main", "a = x * 2\nbegun.set()\nassert other.wait(30)\nb = a * 2"))
    aside = talk.execute(recorded("aside", "assert begun.wait(30)\nc = x * 2\nd = c * 2\ne = d * 2"), subshell)
    talk.until(aside)
    assert talk.pictures == {aside: ["aside: 3 ops"]}
    last = talk.execute("other.set()", subshell)
    talk.until(last, main)
    assert talk.pictures == {aside: ["aside: 3 ops"], main: ["main: 2 ops"]}


def test_a_widget_that_runs_a_cell_has_its_own_picture(kernel: tuple[KernelManager, Talk]) -> None:
    _, talk = kernel
    talk.pictures.clear()
    clicked = recorded("clicked", "c = x * 2")
    run = f"button = ipywidgets.Button()\nbutton.on_click(lambda _: get_ipython().run_cell({clicked!r}))"
    made = talk.execute(recorded("made", f"import ipywidgets\n{run}\na = x * 2\nb = a * 2"))
    talk.until(made)
    assert talk.pictures == {made: ["made: 2 ops"]}
    click = {"comm_id": talk.replies[made], "data": {"method": "custom", "content": {"event": "click"}}}
    pressed = talk.send("comm_msg", click)
    talk.until(pressed)
    assert talk.pictures == {made: ["made: 2 ops"], pressed: ["clicked: 1 op"]}


def test_stopping_a_cell_that_waits_ends_its_graph(kernel: tuple[KernelManager, Talk]) -> None:
    manager, talk = kernel
    talk.pictures.clear()
    waits = talk.execute(recorded("waits", "a = x * 2\nprint('now')\nawait asyncio.sleep(1)"))
    while talk.client.get_iopub_msg(timeout=30)["msg_type"] != "stream":
        pass
    manager.signal_kernel(signal.SIGINT)
    talk.until(waits)
    after = talk.execute(recorded("after", "a = x * 2\nb = a * 2"))
    talk.until(after)
    assert talk.pictures == {waits: ["waits: 1 op"], after: ["after: 2 ops"]}
