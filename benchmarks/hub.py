"""A class on JupyterHub on this machine: start the hub of ``hub/``, and let students log in and run a lesson.

``python -m benchmarks.hub 3`` needs the extra hub and configurable-http-proxy. Everything that it
writes is in a folder that is removed at the end. Each student logs in with the form, waits for the server, and runs the
cells of lesson 1 over the websocket of a kernel, through the proxy. Memory is read from /proc, as PSS.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from secrets import token_hex
from statistics import median
from time import monotonic, sleep
from typing import Any, NamedTuple

import psutil
import requests
import websocket

from benchmarks.classroom import LESSON, PICTURE, code_cells, memory_of

CONFIG = Path(__file__).parents[1] / "hub" / "jupyterhub_config.py"
LIMIT = 300.0
"""The longest time in seconds that anything may take."""


class Visit(NamedTuple):
    """The times at which one student saw things, in seconds since the log-in.

    Attributes:
        server: when the server answered.
        picture: when the first picture was there.
        ended: when the last cell had ended.
    """

    server: float
    picture: float
    ended: float


def free_port() -> int:
    """A port that nothing uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def running_hub(folder: Path, config: Path) -> Iterator[tuple[str, str, int]]:
    """Start the hub. Yield its address, the password, and the id of its process."""
    password = token_hex(8)
    ports = [f"http://127.0.0.1:{free_port()}" for _ in range(3)]
    urls = dict(zip(("HUB_URL", "HUB_INNER_URL", "HUB_PROXY_URL"), ports, strict=True))
    environment = {**os.environ, **urls, "HUB_PASSWORD": password, "HUB_DATA": str(folder / "data")}
    log, own = folder / "hub.log", folder / "jupyterhub_config.py"
    # Jupyter refuses to run as root, which the user of a container may be.
    root = os.geteuid() == 0
    own.write_text(f"load_subconfig({str(config)!r})\n" + ('c.Spawner.args += ["--allow-root"]\n' if root else ""))
    with log.open("w") as out:
        command = [sys.executable, "-m", "jupyterhub", "-f", str(own)]
        hub = subprocess.Popen(command, env=environment, stdout=out, stderr=out, cwd=folder, start_new_session=True)
    started = [hub.pid]
    try:
        wait_for(lambda: requests.get(f"{ports[0]}/hub/health", timeout=5).ok, lambda: hub.poll() is not None, log)
        yield ports[0], password, hub.pid
        started += [one.pid for one in psutil.Process(hub.pid).children(recursive=True)]
    finally:
        hub.send_signal(signal.SIGTERM)
        try:
            hub.wait(30)
        except subprocess.TimeoutExpired:
            hub.kill()
        for number in started:
            if psutil.pid_exists(number):
                psutil.Process(number).kill()


def wait_for(ready: Callable[[], bool], failed: Callable[[], bool], log: Path) -> None:
    """Return once ``ready()`` is true. Raise with the log if ``failed()`` is true or the time is over."""
    until = monotonic() + LIMIT
    while True:
        try:
            if ready():
                return
        except requests.RequestException:
            pass
        if failed() or monotonic() > until:
            raise RuntimeError(f"the hub did not start:\n{log.read_text()}")
        sleep(0.1)


def log_in(url: str, name: str, password: str) -> requests.Session:
    """Log in with the form, as a browser does."""
    session = requests.Session()
    session.get(f"{url}/hub/login", timeout=LIMIT)
    form = {"username": name, "password": password, "_xsrf": session.cookies.get("_xsrf", path="/hub/")}
    answer = session.post(f"{url}/hub/login", data=form, timeout=LIMIT, allow_redirects=False)
    if answer.status_code != 302:
        raise RuntimeError(f"{name} could not log in: {answer.status_code}\n{answer.text[:2000]}")
    return session


def spawned(url: str, name: str, session: requests.Session) -> None:
    """Ask for the student's server, and wait until it answers."""
    session.get(f"{url}/hub/spawn/{name}", timeout=LIMIT)
    until = monotonic() + LIMIT
    while True:
        answer = session.get(f"{url}/user/{name}/api/status", timeout=LIMIT)
        if answer.ok and "kernels" in answer.text[:1000]:
            return
        page = session.get(f"{url}/user/{name}/lab", timeout=LIMIT)  # through the hub, which sets the cookie
        if page.status_code >= 500 or monotonic() > until:
            raise RuntimeError(f"the server of {name} did not start: {page.status_code} {answer.text[:1000]}")
        sleep(0.2)


def visit(url: str, name: str, password: str, cells: list[str], kernel: str) -> Visit:
    """One student, from the log-in to the last cell."""
    begin = monotonic()
    session = log_in(url, name, password)
    spawned(url, name, session)
    server = monotonic() - begin
    path = f"/user/{name}"
    token = session.cookies.get("_xsrf", path=f"{path}/")
    headers = {"X-XSRFToken": token} if token else {}
    made = session.post(f"{url}{path}/api/kernels", json={"name": kernel}, headers=headers, timeout=LIMIT)
    made.raise_for_status()
    cookies = "; ".join(f"{one.name}={one.value}" for one in session.cookies if one.path in {"/", f"{path}/"})
    address = f"{url.replace('http', 'ws', 1)}{path}/api/kernels/{made.json()['id']}/channels"
    channel = websocket.create_connection(address, timeout=LIMIT, cookie=cookies, origin=url)
    picture = 0.0
    try:
        for code in cells:
            drawn = run_cell(channel, code)
            if drawn and not picture:
                picture = monotonic() - begin
    finally:
        channel.close()
    return Visit(server, picture, monotonic() - begin)


def run_cell(channel: Any, code: str) -> bool:
    """Run one cell over the websocket, and return whether it drew a picture."""
    number = token_hex(8)
    header = {"msg_id": number, "msg_type": "execute_request", "username": "", "session": number, "version": "5.3"}
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "user_expressions": {}}
    parts = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    channel.send(json.dumps({**parts, "buffers": []}))
    drawn = replied = idle = False
    while not (replied and idle):
        told = channel.recv()
        if not isinstance(told, str):  # with buffers: what a widget sends
            continue
        message = json.loads(told)
        if message["parent_header"].get("msg_id") != number:
            continue
        content, kind = message["content"], message["header"]["msg_type"]
        drawn = drawn or PICTURE in content.get("data", {})
        idle = idle or (kind == "status" and content["execution_state"] == "idle")
        if kind == "execute_reply":
            replied = True
            if content["status"] != "ok":
                raise RuntimeError(f"a cell raised:\n{code}\n" + "\n".join(content.get("traceback", [])))
    return drawn


def kinds_of(hub: int) -> dict[str, list[float]]:
    """The PSS in MiB of the processes that belong to the hub, by what they are."""
    found: dict[str, list[float]] = {"hub and proxy": [], "server": [], "kernel": []}
    for one in [psutil.Process(hub), *psutil.Process(hub).children(recursive=True)]:
        line = " ".join(one.cmdline())
        kind = "kernel" if "kernel" in line else "server" if "singleuser" in line else "hub and proxy"
        found[kind].append(memory_of(one.pid).pss)
    return found


def main(arguments: list[str] | None = None) -> int:
    """Start the hub, let the students work, and print what they saw and what it took."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub", description=__doc__)
    parser.add_argument("students", type=int, nargs="?", default=1, help="how many; default: %(default)s")
    parser.add_argument("--lesson", type=Path, default=LESSON, help="a notebook; default: lesson 1")
    parser.add_argument("--kernel", default="python3", help="the name of the kernel; default: %(default)s")
    parser.add_argument("--config", type=Path, default=CONFIG, help="of the hub; default: hub/jupyterhub_config.py")
    options = parser.parse_args(arguments)
    cells = code_cells(options.lesson)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all processes that it started end, too
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        url, password, hub = stack.enter_context(running_hub(folder, options.config))
        with ThreadPoolExecutor(options.students) as threads:
            names = [f"student{number}" for number in range(options.students)]
            visits = list(threads.map(lambda name: visit(url, name, password, cells, options.kernel), names))
        memory = kinds_of(hub)
    for what in Visit._fields:
        times = sorted(getattr(one, what) for one in visits)
        print(f"{what}: half within {median(times):.1f} s, all within {times[-1]:.1f} s")
    for kind, sizes in memory.items():
        print(
            f"{kind}: {len(sizes)} processes, PSS {sum(sizes):.0f} MiB, the middle one {median(sizes or [0]):.0f} MiB"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
