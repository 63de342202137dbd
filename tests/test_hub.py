"""The two configurations of ``hub/``, read as JupyterHub reads them. They refuse settings that would let anyone in."""

import ast
import asyncio
import json
import os
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tornado.web import HTTPError
from traitlets.config import Config

from benchmarks import classroom

pytestmark = pytest.mark.once

HUB = Path(__file__).parents[1] / "hub"


class Accounts:
    """Stands for NativeAuthenticator: whoever signs up under the name of an admin is one."""

    def __init__(self, admins: set[str]) -> None:
        self.admin_users = admins
        self.accounts: dict[str, SimpleNamespace] = getattr(self, "accounts", {})
        self.log = SimpleNamespace(warning=lambda *_: None)
        self.db = getattr(self, "db", SimpleNamespace(users={}, commit=lambda: None))

    @property
    def passwords(self) -> dict[str, str]:
        return {name: account.password for name, account in self.accounts.items()}

    def normalize_username(self, name: str) -> str:
        return name.lower()

    def get_user(self, name: str) -> SimpleNamespace | None:
        return self.accounts.get(name)

    def is_password_strong(self, password: str) -> bool:
        return password != "password of many"

    def create_user(self, username: str, password: str, **_: Any) -> Any:
        name = self.normalize_username(username)
        if "/" in name or name in self.accounts:
            return None
        self.accounts[name] = SimpleNamespace(password=password, is_authorized=False)
        return name

    def get_handlers(self, _: Any) -> list[tuple[str, type]]:
        return [("/signup", Page), ("/authorize/x", Toggle), ("/discard/x", Discard)]


class Page:
    """Stands for a page of the accounts, with what a browser sends."""

    def __init__(self, headers: dict[str, str], **fields: str) -> None:
        self.request, self.fields = SimpleNamespace(headers=headers), fields

    async def prepare(self) -> None:
        pass

    def get_body_argument(self, name: str, default: str, *, strip: bool) -> str:
        assert not strip, "a blank is a letter of a password"
        return self.fields.get(name, default)


class Toggle(Page):
    pass


class Discard(Page):
    pass


@pytest.fixture(autouse=True)
def hub_of_docker(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in for the packages and the network that the configuration for Docker needs."""
    package: Any = ModuleType("nativeauthenticator")
    package.__file__ = "/packages/nativeauthenticator/__init__.py"
    package.NativeAuthenticator = Accounts
    handlers: Any = ModuleType("nativeauthenticator.handlers")
    handlers.ToggleAuthorizationHandler, handlers.DiscardHandler = Toggle, Discard
    jupyterhub: Any = ModuleType("jupyterhub")
    jupyterhub.orm = SimpleNamespace(User=SimpleNamespace(find=lambda db, name: db.users.get(name)))
    for module in (package, handlers, jupyterhub):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setenv("HUB_IP", "172.17.0.1")
    for variable in ("HUB_ADMIN_PASSWORD", "HUB_PUBLIC_URL", "HUB_QUOTA", "HUB_NETWORK"):
        monkeypatch.delenv(variable, raising=False)
    before = os.umask(0o022)
    yield
    os.umask(before)


def read(name: str) -> Config:
    c = Config()
    runpy.run_path(str(HUB / name), init_globals={"get_config": lambda: c})
    return c


@pytest.fixture
def trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Config:
    monkeypatch.setenv("HUB_PASSWORD", "long enough")
    monkeypatch.setenv("HUB_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HUB_MEMORY", "512")
    return read("jupyterhub_config.py")


def test_the_trial_needs_a_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HUB_DATA", str(tmp_path / "data"))
    for password in ("", "short"):
        monkeypatch.setenv("HUB_PASSWORD", password)
        with pytest.raises(ValueError, match="HUB_PASSWORD, which all students type in, to a password of at least 8"):
            read("jupyterhub_config.py")
    assert not (tmp_path / "data").exists()


def test_the_trial_is_for_this_computer_and_has_limits(trial: Config) -> None:
    assert trial.JupyterHub.bind_url == "http://127.0.0.1:8000"
    assert trial.JupyterHub.spawner_class == "simple"
    assert trial.SharedPasswordAuthenticator.user_password == "long enough"
    assert trial.Spawner.cmd[2] == 'ulimit -d 524288 && exec "$0" "$@"'
    assert trial.Spawner.environment["OMP_NUM_THREADS"] == "1"
    assert "--allow-root" not in trial.Spawner.args


def test_each_student_gets_the_lessons_once(trial: Config, tmp_path: Path) -> None:
    student: Any = SimpleNamespace(user=SimpleNamespace(name="ada"))
    trial.Spawner.pre_spawn_hook(student)
    folder = tmp_path / "data" / "homes" / "ada" / "notebooks"
    assert (folder / "01_slope.ipynb").is_file()
    (folder / "01_slope.ipynb").write_text("her work")
    trial.Spawner.pre_spawn_hook(student)
    assert (folder / "01_slope.ipynb").read_text() == "her work"
    assert (HUB.parent / "notebooks" / Path(trial.Spawner.default_url).name).is_file()


def test_warm_kernels_take_the_place_of_the_usual_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trial: Config
) -> None:
    assert "JUPYTER_PATH" not in trial.Spawner.environment
    monkeypatch.setenv("HUB_WARM", "1")
    folder = Path(read("jupyterhub_config.py").Spawner.environment["JUPYTER_PATH"])
    spec = json.loads((folder / "kernels" / "python3" / "kernel.json").read_text())
    assert spec["argv"][2] == str(HUB / "warm_kernel.py")
    assert spec["argv"][-2:] == ["-f", "{connection_file}"]


@pytest.mark.parametrize("name", ["jupyterhub_config.py", "jupyterhub_docker.py"])
def test_the_name_of_a_student_is_that_of_a_folder(name: str, trial: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    assert trial is not None
    monkeypatch.setenv("HUB_ADMINS", "teacher")
    pattern = re.compile(read(name).Authenticator.username_pattern)
    assert all(pattern.match(one) for one in ("ada", "ada.lovelace", "a-1_b", "ada@school.org", "1"))
    assert not any(pattern.match(one) for one in ("", ".", "..", "..ada", "../ada", "a/b", "ada b", "a\nb", "-rf"))


def test_no_student_gets_lessons_outside_of_the_homes(trial: Config, tmp_path: Path) -> None:
    homes = tmp_path / "data" / "homes"
    homes.mkdir()
    (homes / "link").symlink_to(tmp_path)
    for name in ("..", ".", "a/b", "link", str(tmp_path)):
        student: Any = SimpleNamespace(user=SimpleNamespace(name=name))
        with pytest.raises(ValueError, match="the name of a student is the name of a folder"):
            trial.Spawner.pre_spawn_hook(student)
    assert not (tmp_path / "data" / "notebooks").exists()
    assert not (tmp_path / "notebooks").exists()


def test_docker_needs_admins_and_has_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HUB_ADMINS", raising=False)
    with pytest.raises(ValueError, match="HUB_ADMINS to the names of those who may manage the hub"):
        read("jupyterhub_docker.py")
    monkeypatch.setenv("HUB_ADMINS", "teacher,assistant")
    c = read("jupyterhub_docker.py")
    assert c.Authenticator.admin_users == {"teacher", "assistant"}
    assert (c.Spawner.mem_limit, c.Spawner.cpu_limit) == ("1G", 1.0)
    assert c.DockerSpawner.extra_host_config["cap_drop"] == ["ALL"]
    assert c.DockerSpawner.extra_host_config["memswap_limit"] == c.Spawner.mem_limit, "else swap gives as much again"
    page = (HUB.parent / "docs" / "hub.md").read_text()
    assert "--internal -o com.docker.network.bridge.enable_icc=false" in page, "containers reach the hub alone"


def made(admins: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The authenticator of a hub with these admins, as at its first start."""
    monkeypatch.setenv("HUB_ADMINS", admins)
    c = read("jupyterhub_docker.py")
    accounts = c.JupyterHub.authenticator_class(c.Authenticator.admin_users)
    accounts.db.users = {name: SimpleNamespace(admin=True) for name in accounts.admin_users}  # as JupyterHub then does
    return accounts


def refused(accounts: Any, name: str) -> bool:
    """Whether somebody who signs up under this name is told to take another one."""
    try:
        accounts.create_user(name, "of a stranger")
    except HTTPError as error:
        return (error.status_code, error.log_message) == (403, "This name is taken. Choose another one.")
    return False


def test_admins_have_accounts_before_anybody_can_sign_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    accounts = made("Teacher, aide", monkeypatch)
    printed = dict(re.findall(r"The admin (\S+) logs in with the password (\S+)\n", capsys.readouterr().err))
    assert printed == accounts.passwords
    assert set(printed) == {"teacher", "aide"}
    assert min(map(len, printed.values())) >= 24

    assert all(refused(accounts, name) for name in ("teacher", "TEACHER", "aide"))
    assert accounts.create_user("ada", "of a student") == "ada"
    accounts.accounts["teacher"].password = accounts.accounts["aide"].password = "their own"
    accounts.__init__({"teacher", "aide"})
    assert accounts.passwords == {"ada": "of a student", "teacher": "their own", "aide": "their own"}
    assert capsys.readouterr().err == "", "a password is printed once"
    accounts.accounts.clear()  # an account that was removed is no door either
    assert refused(accounts, "Teacher")


def test_no_stranger_signs_up_as_an_admin_of_the_page_of_admins(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = made("teacher", monkeypatch)
    accounts.db.users |= {"aide": SimpleNamespace(admin=True), "bob": SimpleNamespace(admin=False)}
    assert refused(accounts, "aide")
    assert refused(accounts, "Aide")
    assert accounts.create_user("bob", "of a student") == "bob", "a student whom the page of admins has added"


def test_no_student_becomes_an_admin_by_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = made("teacher", monkeypatch)
    accounts.create_user("aide", "of a student")
    for user in ({}, {"aide": SimpleNamespace(admin=False)}):
        accounts.db.users |= user
        with pytest.raises(ValueError, match="HUB_ADMINS: somebody has signed up as 'aide'"):
            accounts.__init__({"teacher", "aide", "new"})
        assert "new" not in accounts.accounts, "nothing is made that the next start finds half done"
    accounts.db.users["aide"].admin = True
    accounts.__init__({"teacher", "aide"})
    assert accounts.accounts["aide"].password == "of a student"


def test_whoever_is_shut_out_is_out(monkeypatch: pytest.MonkeyPatch) -> None:
    accounts = made("teacher", monkeypatch)
    assert read("jupyterhub_docker.py").Authenticator.auth_refresh_age == 1
    accounts.create_user("ada", "of a student")
    ada: Any = SimpleNamespace(name="ada")
    accounts.accounts["ada"].is_authorized = True
    assert asyncio.run(accounts.refresh_user(ada, None)) is True
    accounts.accounts["ada"].is_authorized = False
    assert asyncio.run(accounts.refresh_user(ada, None)) is False
    del accounts.accounts["ada"]
    assert asyncio.run(accounts.refresh_user(ada, None)) is False
    accounts.accounts["teacher"].is_authorized = False  # the last admin, by mistake
    accounts.__init__({"teacher"})
    assert accounts.accounts["teacher"].is_authorized


@pytest.mark.parametrize("field", ["password", "signup_password", "old_password", "new_password"])
def test_no_form_takes_a_password_of_which_bcrypt_ignores_the_end(field: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for _, page in made("teacher", monkeypatch).get_handlers(None):
        asyncio.run(page({}, **{field: "x" * 72}).prepare())
        for password in ("x" * 73, "é" * 37):
            with pytest.raises(HTTPError, match="A password has at most 72 bytes") as raised:
                asyncio.run(page({}, **{field: password}).prepare())
            assert raised.value.status_code == 400


def test_a_link_in_a_message_lets_no_stranger_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """An admin's browser that opens the address of an order gives the order, so it has to come from the hub's page."""
    pages = dict(made("teacher", monkeypatch).get_handlers(None))
    for path in ("/authorize/x", "/discard/x"):
        asyncio.run(pages[path]({"Sec-Fetch-Site": "same-origin"}).prepare())
        for site in ("cross-site", "same-site", "none"):
            with pytest.raises(HTTPError, match="this link comes from elsewhere"):
                asyncio.run(pages[path]({"Sec-Fetch-Site": site}).prepare())
    asyncio.run(pages["/signup"]({"Sec-Fetch-Site": "cross-site"}).prepare())


def test_the_password_of_admins_can_be_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for password, reason in (
        ("too short", "at least 12 characters"),
        ("x" * 73, "at most 72 bytes"),
        ("é" * 37, "at most 72 bytes"),
        ("password of many", "too common"),
    ):
        monkeypatch.setenv("HUB_ADMIN_PASSWORD", password)
        with pytest.raises(ValueError, match=f"HUB_ADMIN_PASSWORD is .*{reason}"):
            made("teacher", monkeypatch)
    monkeypatch.setenv("HUB_ADMIN_PASSWORD", "long enough for it")
    assert made("teacher", monkeypatch).passwords == {"teacher": "long enough for it"}
    assert capsys.readouterr().err == ""


def test_the_pages_of_the_hub_lead_to_those_of_the_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """JupyterHub shows its own pages, without these links, unless its setting names the folder of the others."""
    monkeypatch.setenv("HUB_ADMINS", "teacher")
    assert read("jupyterhub_docker.py").JupyterHub.template_paths == ["/packages/nativeauthenticator/templates"]


def test_behind_tls_cookies_are_secure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_ADMINS", "teacher")
    monkeypatch.setenv("HUB_PUBLIC_URL", "https://hub.school.example")
    c = read("jupyterhub_docker.py")
    cookies = {"secure": True, "samesite": "Lax"}
    assert c.JupyterHub.public_url == "https://hub.school.example"
    assert c.JupyterHub.tornado_settings == {"cookie_options": cookies}
    [given] = [word for word in c.Spawner.args if word.startswith("--ServerApp.tornado_settings=")]
    assert ast.literal_eval(given.partition("=")[2]) == {"xsrf_cookie_kwargs": cookies}
    monkeypatch.delenv("HUB_PUBLIC_URL")
    assert read("jupyterhub_docker.py").JupyterHub.tornado_settings == {"cookie_options": {}}, "or no log-in works"


def test_no_student_fills_the_memory_or_the_disk_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_ADMINS", "teacher")
    c = read("jupyterhub_docker.py")
    host = c.DockerSpawner.extra_host_config
    assert all(re.fullmatch(r"size=\d+m", size) for size in host["tmpfs"].values())
    assert host["log_config"]["config"] == {"max-size": "5m", "max-file": "2"}
    [volume] = c.DockerSpawner.mounts
    assert volume == {"type": "volume", "source": "nbgrad-{username}", "target": c.DockerSpawner.notebook_dir}
    monkeypatch.setenv("HUB_QUOTA", "2G")
    [volume] = read("jupyterhub_docker.py").DockerSpawner.mounts
    assert volume["driver_config"] == {"Name": "local", "Options": {"size": "2G"}}


@pytest.mark.parametrize("name", ["..", "a/b", "a b", "-x"])
def test_an_admin_has_a_name_that_students_could_have(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_ADMINS", f"teacher,{name}")
    with pytest.raises(ValueError, match=r"HUB_ADMINS: .* is no name"):
        read("jupyterhub_docker.py")


def test_nothing_of_the_hub_listens_to_other_computers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUB_ADMINS", "teacher")
    c = read("jupyterhub_docker.py")
    assert c.JupyterHub.bind_url == "http://127.0.0.1:8000"
    assert c.JupyterHub.hub_ip == "172.17.0.1"
    monkeypatch.setenv("HUB_IP", "")
    monkeypatch.setenv("HUB_NETWORK", "lo")
    assert read("jupyterhub_docker.py").JupyterHub.hub_ip == "127.0.0.1", "the address of the network's interface"
    monkeypatch.setenv("HUB_NETWORK", "no-such-network")
    with pytest.raises(ValueError, match="there is no network interface no-such-network: start Docker, and create"):
        read("jupyterhub_docker.py")


@pytest.mark.parametrize("name", ["jupyterhub_config.py", "jupyterhub_docker.py"])
def test_no_other_user_of_the_computer_reads_the_database(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable, value in (("HUB_PASSWORD", "long enough"), ("HUB_ADMINS", "teacher"), ("HUB_DATA", str(tmp_path))):
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hub.sqlite").touch(mode=0o644)
    assert read(name).JupyterHub.db_url == f"sqlite:///{tmp_path / 'hub.sqlite'}"
    assert (tmp_path / "hub.sqlite").stat().st_mode & 0o777 == 0o600
    (tmp_path / "new").touch()
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0


def test_the_image_is_built_from_the_project_alone() -> None:
    """`docker build` gets all files that the wheel and the image need, and no built file."""
    lines = (HUB.parent / ".dockerignore").read_text().splitlines()
    taken = {line[1:] for line in lines if line.startswith("!")}
    read = {"nbgrad", "notebooks", "pyproject.toml", "setup.py", "README.md", "LICENSE", "constraints.txt"}
    assert "*" in lines
    assert read <= taken
    assert all((HUB.parent / name).exists() for name in taken)
    assert {"**/node_modules", "**/*.so"} <= set(lines)
    assert "-c /opt/nbgrad/constraints.txt" in (HUB / "Dockerfile").read_text(), "or pip takes the newest torch"


NEWS = "@jupyterlab/apputils-extension:announcements"


def test_no_student_is_asked_whether_to_fetch_news(trial: Config) -> None:
    first = Path(trial.Spawner.environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)[0])
    page = json.loads((first / "labconfig" / "page_config.json").read_text())
    assert page["disabledExtensions"] == {NEWS: True}
    assert f'jupyter labextension disable --level=system "{NEWS}"' in (HUB / "Dockerfile").read_text()


def test_the_configuration_of_who_starts_the_hub_still_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HUB_PASSWORD", "long enough")
    monkeypatch.setenv("HUB_DATA", str(tmp_path))
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/their/own")
    paths = read("jupyterhub_config.py").Spawner.environment["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert paths == [str(tmp_path / "config"), "/their/own"]


def test_the_hub_and_its_image_have_one_version_of_jupyterhub() -> None:
    project = tomllib.loads((HUB.parent / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["optional-dependencies"]["hub"][0]
    assert wanted.startswith("jupyterhub>=")
    assert f'"{wanted}"' in (HUB / "Dockerfile").read_text()


@pytest.mark.parametrize("name", ["jupyterhub_config.py", "jupyterhub_docker.py"])
def test_idle_servers_and_kernels_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    for variable, value in (("HUB_PASSWORD", "long enough"), ("HUB_ADMINS", "teacher"), ("HUB_DATA", str(tmp_path))):
        monkeypatch.setenv(variable, value)
    c = read(name)
    [service] = c.JupyterHub.services
    [role] = c.JupyterHub.load_roles
    assert service["command"][1:] == ["-P", "-m", "jupyterhub_idle_culler", "--timeout=3600"]
    assert role["services"] == [service["name"]]
    assert "delete:servers" in role["scopes"]
    assert "--MappingKernelManager.cull_idle_timeout=1800" in c.Spawner.args


# The tool that starts many kernels.

LESSON = """{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
{"cell_type": "markdown", "id": "a", "metadata": {}, "source": "Words"},
{"cell_type": "code", "id": "b", "metadata": {}, "outputs": [], "execution_count": null, "source": "%load_ext nbgrad"},
{"cell_type": "code", "id": "c", "metadata": {}, "outputs": [], "execution_count": null,
 "source": "%%autograd\\nimport nbgrad\\nx = nbgrad.tensor(2.0, requires_grad=True)\\n(x * x).backward()"},
{"cell_type": "code", "id": "d", "metadata": {}, "outputs": [], "execution_count": null, "source": "LAST"}]}"""


@pytest.mark.rotated(3)
def test_kernels_run_a_lesson(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    lesson = tmp_path / "lesson.ipynb"
    lesson.write_text(LESSON.replace("LAST", "x.grad"))
    assert len(classroom.code_cells(lesson)) == 3
    assert classroom.main(["2", "--lesson", str(lesson), "--limit", "120"]) == 0
    titles, _, row = capsys.readouterr().out.splitlines()
    assert titles.startswith("| kernels | PSS of all | PSS of one |")
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    whole, one, own = (float(cell.removesuffix(" MiB")) for cell in cells[1:4])
    assert cells[0] == "2"
    assert 50 < own <= one <= whole
    assert "," in cells[4], "both have a picture"


def test_a_lesson_that_raises_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    lesson = tmp_path / "lesson.ipynb"
    lesson.write_text(LESSON.replace("%load_ext nbgrad", "1 / 0"))
    with pytest.raises(RuntimeError, match=r"a cell raised:\n1 / 0"):
        classroom.main(["1", "--lesson", str(lesson), "--limit", "120"])


def test_there_is_at_least_one_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        classroom.main(["0"])
    assert "kernels is to be 1 or more" in capsys.readouterr().err
