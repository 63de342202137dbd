"""Kernels that are forked from a warm process: they work as usual, share its memory, and none stays behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from jupyter_client.manager import KernelManager

from benchmarks.classroom import memory_of

pytestmark = [
    pytest.mark.rotated(6),
    pytest.mark.once,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="warm kernels need Linux"),
]

FILE = Path(__file__).parents[1] / "hub" / "warm_kernel.py"
LIMIT = 120


def warm(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FILE), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Any, Any]]]:
    """Two kernels and their clients. Both kernels come from one new warm process."""
    folder = tmp_path_factory.mktemp("warm")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))  # where the warm process listens
        patch.setenv("JUPYTER_PATH", str(folder / "share" / "jupyter"))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        patch.setenv("OMP_NUM_THREADS", "2")
        told = warm("install", "--prefix", str(folder))
        assert told.stdout.strip() == str(folder / "share" / "jupyter" / "kernels" / "nbgrad-warm"), told.stderr
        made = []
        try:
            for number in range(2):
                patch.setenv("MY_NUMBER", str(number))
                manager = KernelManager(kernel_name="nbgrad-warm")
                manager.start_kernel(cwd=str(folder))
                client = manager.client()
                client.start_channels()
                made.append((manager, client))
                client.wait_for_ready(timeout=LIMIT)
            yield made
        finally:
            for manager, client in made:
                client.stop_channels()
                with suppress(RuntimeError):
                    manager.shutdown_kernel(now=True)
            for one in psutil.process_iter(["cmdline"]):
                line = one.info["cmdline"] or []
                if "serve" in line and any(word.startswith(str(folder)) for word in line):
                    one.kill()


def asked(client: Any, code: str) -> Any:
    """The value of an expression in a kernel."""
    reply = client.execute("", user_expressions={"it": code}, reply=True, timeout=LIMIT)["content"]
    return eval(reply["user_expressions"]["it"]["data"]["text/plain"])


def test_each_has_its_own_environment_and_folder(kernels: list[tuple[Any, Any]], tmp_path: Path) -> None:
    numbers = [asked(client, "__import__('os').environ['MY_NUMBER']") for _, client in kernels]
    assert numbers == ["0", "1"]
    folders = {asked(client, "__import__('os').getcwd()") for _, client in kernels}
    assert len(folders) == 1
    assert Path(folders.pop()).name.startswith("warm")
    path = asked(kernels[0][1], "__import__('sys').path")
    assert "" in path, "modules beside a notebook can be imported"
    assert str(FILE.parent) not in path


def test_each_draws_its_own_random_numbers(kernels: list[tuple[Any, Any]]) -> None:
    draws = ("__import__('torch').rand(1).item()", "__import__('numpy').random.rand()", "__import__('random').random()")
    for draw in draws:
        first, second = (asked(client, draw) for _, client in kernels)
        assert first != second, draw


def test_they_draw_and_compute_in_threads(kernels: list[tuple[Any, Any]]) -> None:
    _, client = kernels[0]
    shown: list[Any] = []
    code = "%load_ext nbgrad\nimport nbgrad, torch\nx = nbgrad.tensor(torch.ones(600, 600), requires_grad=True)"
    client.execute_interactive(code, timeout=LIMIT)
    cell = "%%autograd\nloss = (x @ x).exp().mean()\nloss.backward()"
    reply = client.execute_interactive(cell, timeout=LIMIT, output_hook=shown.append)
    assert reply["content"]["status"] == "ok"
    assert any("image/svg+xml" in message["content"].get("data", {}) for message in shown)
    assert asked(client, "torch.get_num_threads()") == 2


@pytest.mark.rotated(3)
def test_they_share_their_memory(kernels: list[tuple[Any, Any]]) -> None:
    for _, client in kernels:
        memory = memory_of(asked(client, "__import__('os').getpid()"))
        assert memory.own < 130, "a kernel of its own has about 250 MiB"


@pytest.mark.rotated(3)
def test_an_interrupt_reaches_the_kernel(kernels: list[tuple[Any, Any]]) -> None:
    manager, client = kernels[0]
    begun = client.execute("print('begun', flush=True)\nwhile True: pass", stop_on_error=False)
    while client.get_iopub_msg(timeout=LIMIT)["msg_type"] != "stream":
        pass
    manager.interrupt_kernel()
    while (reply := client.get_shell_msg(timeout=LIMIT))["parent_header"].get("msg_id") != begun:
        pass
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert asked(client, "1 + 1") == 2


def test_the_kernel_ends_with_the_process_that_stands_for_it(kernels: list[tuple[Any, Any]]) -> None:
    manager, client = kernels[1]
    kernel = asked(client, "__import__('os').getpid()")
    os.kill(manager.provisioner.pid, signal.SIGKILL)
    ended(kernel)


def test_a_kernel_that_dies_is_seen_to_have_died(kernels: list[tuple[Any, Any]]) -> None:
    manager, client = kernels[0]
    os.kill(asked(client, "__import__('os').getpid()"), signal.SIGKILL)
    until = time.monotonic() + 30
    while manager.is_alive():
        assert time.monotonic() < until
        time.sleep(0.05)
    assert manager.provisioner.process.returncode == -signal.SIGKILL


def ended(process: int) -> None:
    until = time.monotonic() + 30
    while psutil.pid_exists(process):
        assert time.monotonic() < until, "the kernel runs on"
        time.sleep(0.05)


def test_a_module_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    told = warm("kernel", "--preload", "no_such_module", "-f", "nothing.json")
    assert told.returncode == 1
    assert "the warm process did not start" in told.stderr
    assert "No module named 'no_such_module'" in told.stderr


def test_a_module_that_starts_threads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "restless.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(FILE.parents[1])]))
    told = warm("kernel", "--preload", "restless", "-f", "nothing.json")
    assert told.returncode == 1
    assert "the imports have started 1 threads, which a fork loses" in told.stderr


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    folder = tmp_path / f"nbgrad-warm-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    told = warm("kernel", "-f", "nothing.json")
    assert "is to be a folder that belongs to this user alone: remove it" in told.stderr
