"""The accounts of ``hub/`` in a running JupyterHub, with the packages that the hub has, and without Docker.

Nothing stands for anything but the spawner and the proxy: servers are processes of this user, and the hub is asked
directly. ``make more`` runs these tests.
"""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

pytestmark = [pytest.mark.once, pytest.mark.more("nativeauthenticator"), pytest.mark.timeout(180)]

HUB = Path(__file__).parents[1] / "hub"

CONFIG = """
from jupyterhub.proxy import Proxy

load_subconfig({config!r})


class Direct(Proxy):
    should_start = False

    async def add_route(self, routespec, target, data):
        pass

    async def delete_route(self, routespec):
        pass

    async def get_all_routes(self):
        return {{}}


c.JupyterHub.proxy_class = Direct
c.JupyterHub.hub_port = {port}
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.services, c.JupyterHub.load_roles = [], []
c.SimpleLocalProcessSpawner.home_dir_template = {home!r}
c.Spawner.notebook_dir = {home!r}
c.Spawner.cmd = [{python!r}, "-m", "jupyterhub.singleuser"]
c.Spawner.args += ["--allow-root"]
c.Spawner.cpu_limit = c.Spawner.mem_limit = None
"""

PASSWORD = "the teacher's own"


class Hub:
    """A hub that runs in a folder."""

    def __init__(self, folder: Path, **variables: str) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/hub"
        (folder / "home").mkdir(exist_ok=True)
        (folder / "config.py").write_text(
            CONFIG.format(
                config=str(HUB / "jupyterhub_docker.py"), port=port, home=str(folder / "home"), python=sys.executable
            )
        )
        self.log = folder / "hub.log"
        given = {"HUB_ADMINS": "teacher", "HUB_ADMIN_PASSWORD": PASSWORD, "HUB_IP": "127.0.0.1"} | variables
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("HUB_", "JUPYTER"))}
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "jupyterhub", "-f", str(folder / "config.py")],
                env=environment | given,
                cwd=folder,
                stdout=out,
                stderr=out,
            )

    def wait(self) -> "Hub":
        until = time.monotonic() + 60
        while True:
            try:
                if requests.get(f"{self.url}/health", timeout=5).ok:
                    return self
            except requests.RequestException:
                pass
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(self.log.read_text())
            time.sleep(0.1)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)

    def form(self, page: str, session: requests.Session | None = None, **fields: str) -> requests.Response:
        """The answer of the hub to a form that is filled in, as by a browser."""
        session = session or requests.Session()
        session.get(f"{self.url}/{page}", timeout=30)
        [token] = [one.value for one in session.cookies if one.name == "_xsrf"]
        fields["_xsrf"] = token or ""
        return session.post(f"{self.url}/{page}", data=fields, timeout=30, allow_redirects=False)

    def sign_up(self, name: str, password: str) -> str:
        answer = self.form("signup", username=name, signup_password=password, signup_password_confirmation=password)
        found = re.search(
            r'class="alert[^>]*>\s*<p>\s*(.*?)\s*</p>|<h1>\s*4\d\d.*?<p>\s*(.*?)\s*</p>', answer.text, re.DOTALL
        )
        assert found, answer.text
        return f"{answer.status_code} {found[1] or found[2]}"

    def log_in(self, name: str, password: str) -> requests.Session | None:
        """A browser that is signed in; None if the hub refuses."""
        session = requests.Session()
        answer = self.form("login", session, username=name, password=password)
        return session if answer.status_code == 302 else None

    def may(self, session: requests.Session) -> bool:
        """Whether the hub shows a browser its home, and not the form to log in."""
        return requests.Session.get(session, f"{self.url}/home", timeout=30, allow_redirects=False).status_code == 200


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Hub]]:
    """Starts hubs in one folder, one after another."""
    started: list[Hub] = []

    def run(**variables: str) -> Hub:
        started.append(Hub(tmp_path, **variables))
        return started[-1]

    yield run
    for one in started:
        one.stop()


@pytest.fixture
def hub(start: Callable[..., Hub]) -> Hub:
    return start().wait()


def admin(hub: Hub) -> requests.Session:
    session = hub.log_in("teacher", PASSWORD)
    assert session is not None
    return session


def toggle(hub: Hub, name: str, site: str = "same-origin") -> int:
    headers = {"Sec-Fetch-Site": site}
    return admin(hub).get(f"{hub.url}/authorize/{name}", headers=headers, timeout=60).status_code


def test_who_gets_an_account(hub: Hub) -> None:
    assert "already in use" in hub.sign_up("teacher", "of a stranger")
    assert "Something went wrong" in hub.sign_up("..", "of a stranger")
    assert hub.sign_up("long", "x" * 73).startswith("400 A password has at most 72 bytes")
    assert hub.sign_up("long", "é" * 37).startswith("400 A password has at most 72 bytes")
    assert hub.sign_up("long", "x" * 72) == "200 Your information has been sent to the admin."
    assert hub.log_in("long", "x" * 72) is None, "an admin has not let the student in"
    assert toggle(hub, "long", "cross-site") == 403
    assert hub.log_in("long", "x" * 72) is None
    assert toggle(hub, "long") == 200
    assert hub.log_in("long", "x" * 72) is not None
    assert hub.form("login", username="long", password="x" * 73).status_code == 400

    session = admin(hub)
    home = session.get(f"{hub.url}/home", timeout=30)
    assert 'href="/hub/change-password"' in home.text
    assert 'href="/hub/authorize"' in home.text
    [token] = [one.value for one in session.cookies if one.name == "_xsrf"]
    made = session.post(
        f"{hub.url}/api/users",
        json={"usernames": ["aide"], "admin": True},
        headers={"X-XSRFToken": token or ""},
        timeout=30,
    )
    assert made.status_code == 201
    assert hub.sign_up("aide", "of a stranger").startswith("403 This name is taken")


def test_whoever_is_shut_out_is_out_with_the_server(hub: Hub) -> None:
    hub.sign_up("ada", "of a student")
    toggle(hub, "ada")
    ada = hub.log_in("ada", "of a student")
    assert ada is not None
    ada.get(f"{hub.url}/spawn/ada", timeout=120)
    until = time.monotonic() + 90
    while not (server := admin(hub).get(f"{hub.url}/api/users/ada", timeout=30).json()["server"]):
        assert time.monotonic() < until, hub.log.read_text()
        time.sleep(0.5)
    assert server == "/user/ada/"
    assert hub.may(ada)
    toggle(hub, "ada")
    time.sleep(1.1)
    assert not hub.may(ada)
    assert hub.log_in("ada", "of a student") is None
    while admin(hub).get(f"{hub.url}/api/users/ada", timeout=30).json()["servers"]:
        assert time.monotonic() < until, hub.log.read_text()
        time.sleep(0.5)


def test_after_a_restart(start: Callable[..., Hub]) -> None:
    first = start().wait()
    first.sign_up("ada", "of a student")
    toggle(first, "ada")
    toggle(first, "teacher")  # the last admin, by mistake
    assert first.log_in("teacher", PASSWORD) is None
    first.stop()

    again = start(HUB_PUBLIC_URL="https://hub.school.example").wait()
    answer = requests.get(f"{again.url}/login", timeout=30)
    assert all("Secure" in line and "SameSite=Lax" in line for line in answer.raw.headers.getlist("Set-Cookie"))
    again.stop()

    third = start().wait()
    assert third.log_in("teacher", PASSWORD) is not None
    assert third.log_in("ada", "of a student") is not None
    third.stop()

    refused = start(HUB_ADMINS="teacher,ada")
    assert refused.process.wait(60) != 0
    assert "somebody has signed up as 'ada'" in refused.log.read_text()
