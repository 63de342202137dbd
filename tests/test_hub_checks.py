"""``hub/checks.py`` says what is to be mended before a class begins."""

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, HTTPServer
from ipaddress import ip_address
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from hub import checks as hub_checks
from hub.checks import (
    HUB,
    REACH,
    VOLUMES,
    Finding,
    accounts,
    bridges,
    docker,
    encryption,
    files,
    listening,
    main,
    ports,
)

pytestmark = pytest.mark.once


def said(findings: Iterable[Finding]) -> list[tuple[bool, str]]:
    return [(well, text) for well, _, text in findings]


def database(folder: Path, accounts: dict[str, bool], admins: Iterable[str]) -> Path:
    """The tables of a hub that are looked at: accounts, with whether they are let in, and users."""
    path = folder / "hub.sqlite"
    with sqlite3.connect(path) as made:
        made.execute("create table users_info (username text, is_authorized integer)")
        made.execute("create table users (name text, admin integer)")
        made.executemany("insert into users_info values (?, ?)", accounts.items())
        made.executemany("insert into users values (?, ?)", [(name, name in admins) for name in accounts])
    made.close()
    path.chmod(0o600)
    return path


def test_every_admin_has_an_account(tmp_path: Path) -> None:
    path = database(tmp_path, {"teacher": True, "ada": True, "bob": False}, ["teacher"])
    assert said(accounts(path, "Teacher")) == [(True, "teacher: each has an account")]
    [(well, text)] = said(accounts(path, "teacher,bob"))
    assert not well
    assert text.startswith("bob has no account")
    assert said(accounts(path, "")) == [(False, "HUB_ADMINS is not set: set it as for the hub")]
    [(well, text)] = said(accounts(tmp_path / "none", "teacher"))
    assert not well
    assert "start the hub once, while no student can reach it" in text


def test_no_other_user_is_an_admin(tmp_path: Path) -> None:
    path = database(tmp_path, {"teacher": True, "mallory": True}, ["teacher", "mallory"])
    [(well, text)] = said(accounts(path, "teacher"))
    assert not well
    assert text.startswith("mallory is an admin, and not in HUB_ADMINS")


def test_the_files_of_the_hub_are_of_its_user_alone(tmp_path: Path) -> None:
    path = database(tmp_path, {}, [])
    assert [well for well, _ in said(files(tmp_path))] == [True]
    path.chmod(0o644)
    assert said(files(tmp_path)) == [(False, f"hub.sqlite has the mode 644: chmod 600 {path}")]


LINE = "   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 1\n"


@pytest.mark.parametrize(
    ("address", "state", "table", "opened"),
    [
        ("00000000:1F40", "0A", "tcp", 8000),
        ("0100007F:1F40", "0A", "tcp", None),
        ("0A01A8C0:1F41", "0A", "tcp", 8001),
        ("00000000:1F40", "01", "tcp", None),
        ("00000000:0050", "0A", "tcp", None),
        ("010011AC:1F91", "0A", "tcp", None),  # on 172.17.0.1, a bridge
        ("0A01A8C0:1F91", "0A", "tcp", 8081),  # on 192.168.1.10, which is none
        ("010011AC:1F40", "0A", "tcp", 8000),  # pages that containers reach
        ("00000000:1F91", "0A", "tcp", 8081),
        (f"{0:032}:1F40", "0A", "tcp6", 8000),
        ("00000000000000000000000001000000:1F40", "0A", "tcp6", None),
    ],
)
def test_no_port_of_the_hub_is_open(address: str, state: str, table: str, opened: int | None, tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text("head\n")
    (tmp_path / table).write_text("head\n" + LINE.format(address=address, state=state))
    [(well, text)] = said(ports(tmp_path, "", {"172.17.0.1"}))
    assert well == (opened is None)
    assert opened is None or f"port {opened}" in text


def test_the_pages_can_have_another_port(tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text("head\n" + LINE.format(address="00000000:2328", state="0A"))
    assert said(ports(tmp_path, "http://127.0.0.1:8000", ())) == [
        (True, "other computers reach none of the hub's own ports")
    ]
    [(well, text)] = said(ports(tmp_path, "http://:9000", ()))
    assert not well
    assert text.startswith("other computers reach pages in plain HTTP, port 9000")


def test_the_ports_of_this_computer_are_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        assert (ip_address("127.0.0.1"), one.getsockname()[1]) in list(listening(Path("/proc/net")))


def test_a_bridge_with_a_cable_is_not_inside(tmp_path: Path) -> None:
    """Other computers can be plugged into a bridge, too. `lo` stands for bridges: it has an address."""
    assert bridges(tmp_path) == set()
    (tmp_path / "lo" / "bridge").mkdir(parents=True)
    (tmp_path / "no-such" / "bridge").mkdir(parents=True)
    (tmp_path / "lo" / "brif" / "veth1").mkdir(parents=True)
    assert bridges(tmp_path) == {"127.0.0.1"}
    (tmp_path / "lo" / "brif" / "eth0" / "device").mkdir(parents=True)
    assert bridges(tmp_path) == set()


class Pages(BaseHTTPRequestHandler):
    """A hub's answers to the checks of TLS."""

    cookies: str

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Set-Cookie", self.cookies)
        self.end_headers()
        self.wfile.write(b'{"version": "5.5.4"}')

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("cookies", ["_xsrf=1; Path=/hub/", "_xsrf=1; Path=/hub/; Secure; SameSite=Lax"])
def test_cookies_and_pages_need_tls(cookies: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check asks for https. Here a server without TLS answers, and the check finds that, too."""
    monkeypatch.setattr(Pages, "cookies", cookies, raising=False)
    with HTTPServer(("127.0.0.1", 0), Pages) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        plain = f"http://127.0.0.1:{server.server_port}"
        opened = hub_checks.urlopen
        monkeypatch.setattr(
            hub_checks, "urlopen", lambda url, timeout: opened(plain + urlsplit(url).path, timeout=timeout)
        )
        found = list(encryption("https://hub.school"))
        server.shutdown()
    assert found[0] == (True, "TLS", "https://hub.school is JupyterHub 5.5.4, with a valid certificate")
    assert found[1][:2] == ("Secure" in cookies, "cookies")
    assert found[2] == (False, "TLS", "http://hub.school shows the page to log in without TLS: redirect it")


def test_students_come_through_tls() -> None:
    for address in ("", "http://hub.school"):
        [(well, text)] = said(encryption(address))
        assert not well
        assert "HUB_PUBLIC_URL" in text
    [(well, text)] = said(encryption("https://127.0.0.1:9"))
    assert not well
    assert text.startswith("https://127.0.0.1:9 does not answer as a hub")


def fake_docker(folder: Path, monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
    """A command that answers as Docker does. The answer to ``run`` is by the folder that the container is given."""
    options = {"com.docker.network.bridge.enable_icc": "false"}
    network = {"Options": options, "Internal": True, "IPAM": {"Config": [{"Gateway": "172.18.0.1"}]}}
    said = {
        "info": "/var/lib/docker",
        "image": [{}],
        "network": [network],
        "ps": {"Names": "jupyter-ada", "Ports": "8888/tcp"},
        "reach": [HUB],
        "volumes": ["7:0", ["rw", "prjquota"], 20 << 30],
        **answers,
    }
    for name, answer in said.items():
        (folder / f"{name}.json").write_text("" if answer is None else json.dumps(answer))
    script = folder / "docker"
    script.write_text(
        f"""#!/bin/sh
name="$1"
[ "$1" = run ] && name=reach
case "$*" in *:/volumes:ro*) name=volumes ;; esac
cat "{folder}/$name.json"
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def faults(**environment: str) -> list[str]:
    """The findings about Docker that are to be mended."""
    return [f"{name}: {text}" for well, name, text in docker(environment) if not well]


def test_docker_is_as_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_docker(tmp_path, monkeypatch)
    assert list(docker({"HUB_QUOTA": "1G"})) == [
        (True, "Docker", "it runs"),
        (True, "image", "nbgrad-class"),
        (True, "network", "nbgrad-class keeps containers apart"),
        (True, "network", "containers reach no other computer"),
        (True, "containers", "they reach the hub"),
        (True, "containers", "they reach no other port"),
        (True, "disk", "/var/lib/docker/volumes is on a disk of its own"),
        (True, "disk", "a new volume takes at most 1G"),
        (True, "disk", "20 GiB are free for what students write"),
    ]


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ({"info": None}, "Docker: it does not run, or this user is not in the group docker"),
        ({"image": None}, "image: there is no image nbgrad-class: docker build"),
        ({"network": None}, "network: there is no network nbgrad-class: docker network create"),
        (
            {"network": [{"Options": {}, "Internal": True, "IPAM": {"Config": [{"Gateway": "172.18.0.1"}]}}]},
            "network: nbgrad-class is to have enable_icc=false",
        ),
        (
            {"network": [{"Options": {}, "Internal": False, "IPAM": {"Config": [{"Gateway": "172.18.0.1"}]}}]},
            "network: nbgrad-class is to be created with --internal",
        ),
        ({"reach": None}, "containers: none starts from nbgrad-class in nbgrad-class: docker run"),
        ({"reach": [22, HUB]}, "containers: they reach this computer's ports 22: nft -f hub/firewall.nft"),
        ({"reach": []}, "containers: they do not reach the hub: start it"),
        (
            {"ps": {"Names": "jupyter-ada", "Ports": "0.0.0.0:49153->8888/tcp, :::49153->8888/tcp"}},
            "ports: Docker opens 0.0.0.0:49153, :::49153 to other computers for the container jupyter-ada",
        ),
        (
            {"ps": {"Names": "hub", "Ports": "443/tcp, 0.0.0.0:8001->8001/tcp"}},
            "ports: Docker opens 0.0.0.0:8001 to other computers for the container hub",
        ),
        ({"volumes": None}, "disk: no container of the image nbgrad-class could look at /var/lib/docker/volumes"),
        (
            {"volumes": ["7:0", ["rw"], 20 << 30]},
            "disk: HUB_QUOTA: the disk of /var/lib/docker/volumes is mounted without",
        ),
        ({"volumes": ["7:0", ["prjquota"], 5 << 30]}, "disk: 5 GiB are free for what students write"),
    ],
)
def test_a_fault_of_docker_is_named(
    answers: dict[str, Any], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_docker(tmp_path, monkeypatch, **answers)
    assert any(found.startswith(fault) for found in faults(HUB_QUOTA="1G"))


@pytest.mark.parametrize("opened", ["127.0.0.1:8000->8000/tcp", "[::1]:8000->8000/tcp", "0.0.0.0:443->443/tcp"])
def test_a_port_that_is_meant_is_no_fault(opened: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_docker(tmp_path, monkeypatch, ps={"Names": "hub", "Ports": opened})
    assert faults() == []


def test_the_disk_of_the_system_is_no_disk_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = Path("/").stat().st_dev
    fake_docker(tmp_path, monkeypatch, volumes=[f"{os.major(system)}:{os.minor(system)}", ["rw"], 20 << 30])
    assert faults() == ["disk: /var/lib/docker/volumes is on the disk of the system, which students can fill"]


def test_what_runs_in_a_container_answers() -> None:
    """The programs that the checks run in a container, run here."""

    def run(code: str, *words: str) -> Any:
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    with socket.create_server(("127.0.0.1", 0)) as one, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        number = one.getsockname()[1]
        assert run(REACH, "127.0.0.1", str(number), str(closed.getsockname()[1])) == [number]
    device, options, free = run(VOLUMES.replace('"/volumes"', '"/"'))
    assert device.count(":") == 1
    assert {"rw", "ro"} & set(options)
    assert free > 0


def test_the_command_fails_until_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database(tmp_path, {"teacher": True}, ["teacher"])
    fake_docker(tmp_path, monkeypatch)
    monkeypatch.setenv("HUB_ADMINS", "teacher")
    monkeypatch.delenv("HUB_PUBLIC_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main() == 1
    lines = capsys.readouterr().out.splitlines()
    assert "ok  admins       teacher: each has an account" in lines
    assert any(line.startswith("--  TLS") for line in lines)
