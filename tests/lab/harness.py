"""JupyterLab in headless Chromium, for tests: a server of its own, pages that report what they load.

Everything waits on something that the page or the server says, never on a pause.
"""

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from playwright.sync_api import BrowserContext, Locator, Page, Request

ROOT = Path(__file__).parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"

CHROMIUM_FLAGS = [
    "--no-sandbox",  # Chromium refuses to run as root with it, and CI often is root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    # Chromium's own requests would be mixed up with those of the pages.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Lab asks at its first start whether to fetch news. The command line switch alone does not prevent this popup.
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    }
}
JUPYTER_FOLDERS = (
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_RUNTIME_DIR",
    "JUPYTER_DATA_DIR",
    "IPYTHONDIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "JUPYTERLAB_WORKSPACES_DIR",
)


class LabServer:
    """A JupyterLab on a free loopback port, with a random token; all it writes is under ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.notebooks = folder / "notebooks"
        self.token = secrets.token_hex(16)
        self.place = socket.socket()
        # With this option the server can listen on a port that is only bound here. Linux gives the port to no one else.
        self.place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.place.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.place.getsockname()[1]}"

    def start(self) -> None:
        """Start the server and wait until it answers.

        Raises:
            RuntimeError: it ended, or did not answer within two minutes; the message has its log.
        """
        self.notebooks.mkdir(parents=True)
        folders = {name: str(self.folder / name.lower()) for name in JUPYTER_FOLDERS}
        overrides = Path(folders["JUPYTER_CONFIG_DIR"]) / "labconfig" / "default_setting_overrides.json"
        overrides.parent.mkdir(parents=True)
        overrides.write_text(json.dumps(SETTINGS))
        self.log = (self.folder / "server.log").open("w+")
        if sys.platform != "linux":
            self.place.close()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
                f"--ServerApp.ip={urlsplit(self.url).hostname}",
                f"--ServerApp.port={urlsplit(self.url).port}",
                "--ServerApp.port_retries=0",
                f"--ServerApp.root_dir={self.notebooks}",
                f"--IdentityProvider.token={self.token}",
                "--LabApp.expose_app_in_browser=True",  # this gives tests window.jupyterapp
                "--JupyterNotebookApp.expose_app_in_browser=True",
                "--LabApp.news_url=",
                "--LabApp.extension_manager=readonly",
            ],
            env=os.environ | folders,
            stdin=subprocess.DEVNULL,  # with a terminal as input, the server would ask before it stops
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + 120
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.log.seek(0)
                raise RuntimeError(f"JupyterLab did not start:\n{self.log.read()}")
            time.sleep(0.1)
        self.place.close()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/api/status?token={self.token}", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def stop(self) -> None:
        """End the server, which stops its kernels; whatever outlives that is killed and reported.

        Raises:
            RuntimeError: a process was left over, or the server did not end within a minute.
        """
        self.place.close()
        if self.process.poll() is None:
            family = psutil.Process(self.process.pid).children(recursive=True)
            self.process.terminate()  # not an interrupt: a shell's background processes ignore those
        else:
            family = []
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            family.append(psutil.Process(self.process.pid))
        _, left = psutil.wait_procs(family, timeout=5)
        names = [" ".join(process.cmdline()) for process in left]
        for process in left:
            process.kill()
        self.log.close()
        if names:
            raise RuntimeError(f"JupyterLab left processes behind: {names}")

    def add(self, notebook: Path) -> str:
        """Copy a notebook to where the server finds it, so that the original stays as it is; return its name."""
        shutil.copy(notebook, self.notebooks)
        return notebook.name


class NotebookPage:
    """One notebook, open in JupyterLab or in Notebook 7."""

    def __init__(self, page: Page, server: LabServer) -> None:
        self.page = page
        self.server = server

    def open(self, name: str, app: str = "lab/tree") -> None:
        """Open the notebook and wait until its kernel is there; the ``app`` of Notebook 7 is "notebooks"."""
        self.page.goto(f"{self.server.url}/{app}/{name}?reset&token={self.server.token}")
        self.page.wait_for_function(
            "() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
            timeout=60_000,
        )

    def run_all(self, timeout: float = 120) -> None:
        """Run all cells and wait, for so many seconds, until the last has ended; a cell that fails ends the run."""
        self.page.evaluate(
            """() => {
                window.ran = false;
                jupyterapp.commands.execute('notebook:run-all-cells').finally(() => { window.ran = true; });
            }"""
        )
        self.page.wait_for_function("() => window.ran", timeout=1000 * timeout)

    def save(self) -> None:
        """Save the notebook as it is, and wait until that is done."""
        self.page.evaluate("() => jupyterapp.commands.execute('docmanager:save')")

    def shut_down(self) -> None:
        """Shut the kernel down, if the page came as far as having one."""
        self.page.evaluate("() => window.jupyterapp?.shell?.currentWidget?.sessionContext?.shutdown()")

    def cells(self) -> list[dict[str, Any]]:
        """Return the cells as they would be saved now."""
        notebook = self.page.evaluate("() => jupyterapp.shell.currentWidget.content.model.toJSON()")
        return notebook["cells"]

    def errors(self) -> list[str]:
        """Return what every failed cell says."""
        return [
            f"cell {i}: {output['ename']}: {output['evalue']}"
            for i, cell in enumerate(self.cells())
            for output in cell.get("outputs", [])
            if output["output_type"] == "error"
        ]

    def outputs(self, mime: str) -> list[tuple[int, int]]:
        """Return (cell, output) for every output that has this mime type."""
        return [
            (i, j)
            for i, cell in enumerate(self.cells())
            for j, output in enumerate(cell.get("outputs", []))
            if mime in output.get("data", {})
        ]

    def cell(self, index: int) -> Locator:
        """Scroll to a cell, because Lab draws it only then, and return it."""
        self.page.evaluate(
            """async index => {
                const notebook = jupyterapp.shell.currentWidget.content;
                notebook.activeCellIndex = index;
                await notebook.scrollToItem(index, 'smart');
            }""",
            index,
        )
        cell = self.page.locator(f".jp-Notebook .jp-Cell[data-windowed-list-index='{index}']")
        cell.wait_for(state="visible", timeout=10_000)
        return cell

    def output(self, index: int, position: int) -> Locator:
        """Return one output area of a cell."""
        return self.cell(index).locator(".jp-OutputArea-child").nth(position)

    def screenshot(self, name: str) -> Path:
        """Save what the page shows as ``build/screenshots/<name>.png``."""
        return screenshot(self.page, name)


def screenshot(page: Page, name: str) -> Path:
    """Save what a page shows as ``build/screenshots/<name>.png``."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path)
    return path


def is_local(url: str) -> bool:
    """Whether an address stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme in {"data", "blob", "about", "file"} or parts.hostname in {"127.0.0.1", "localhost"}


@contextmanager
def watched_page(context: BrowserContext) -> Iterator[tuple[Page, list[str]]]:
    """Yield a fresh page and the list that every address outside this machine is written to."""
    remote: list[str] = []

    def asked(request: Request) -> None:
        if not is_local(request.url):
            remote.append(request.url)

    blank = context.pages
    context.on("request", asked)
    page = context.new_page()
    page.on("websocket", lambda socket: is_local(socket.url) or remote.append(socket.url))
    try:
        yield page, remote
    finally:
        for one in set(context.pages).difference(blank):
            one.close()
        context.remove_listener("request", asked)
