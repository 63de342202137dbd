"""``nbgrad doctor --hub`` says what is to be mended before a class begins."""

import json
import os
import sqlite3
from collections.abc import Iterable
from pathlib import Path

import pytest

from nbgrad.doctor import main
from nbgrad.hub_checks import Finding, accounts, docker, encryption, files, ports

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
        ("010011AC:1F91", "0A", "tcp", None),
        ("00000000:1F91", "0A", "tcp", 8081),
        (f"{0:032}:1F40", "0A", "tcp6", 8000),
        ("00000000000000000000000001000000:1F40", "0A", "tcp6", None),
    ],
)
def test_no_port_of_the_hub_is_open(address: str, state: str, table: str, opened: int | None, tmp_path: Path) -> None:
    (tmp_path / "tcp").write_text("head\n")
    (tmp_path / table).write_text("head\n" + LINE.format(address=address, state=state))
    [(well, text)] = said(ports(tmp_path))
    assert well == (opened is None)
    assert opened is None or f"port {opened}" in text


def test_students_come_through_tls() -> None:
    for address in ("", "http://hub.school"):
        [(well, text)] = said(encryption(address))
        assert not well
        assert "HUB_PUBLIC_URL" in text
    [(well, text)] = said(encryption("https://127.0.0.1:9"))
    assert not well
    assert text.startswith("https://127.0.0.1:9 does not answer as a hub")


def fake_docker(folder: Path, icc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that answers as Docker does."""
    (folder / "volumes").mkdir(exist_ok=True)
    options = json.dumps([{"Options": {"com.docker.network.bridge.enable_icc": icc}}])
    script = folder / "docker"
    script.write_text(
        f"""#!/bin/sh
case "$1" in
info) echo '"{folder}"' ;;
image) [ "$3" = nbgrad-class ] && echo '[{{}}]' || exit 1 ;;
network) echo '{options}' ;;
esac
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_docker_keeps_containers_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_docker(tmp_path, "false", monkeypatch)
    found = {name: (well, text) for well, name, text in docker({})}
    assert found["Docker"] == (True, "it runs")
    assert found["image"] == (True, "nbgrad-class")
    assert found["network"] == (True, "nbgrad-class keeps containers apart")
    fake_docker(tmp_path, "true", monkeypatch)
    found = {name: (well, text) for well, name, text in docker({"HUB_IMAGE": "other"})}
    assert found["image"] == (False, "there is no image other: docker build")
    assert not found["network"][0]


def test_the_command_fails_until_all_is_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    database(tmp_path, {"teacher": True}, ["teacher"])
    fake_docker(tmp_path, "false", monkeypatch)
    monkeypatch.setenv("HUB_ADMINS", "teacher")
    monkeypatch.delenv("HUB_PUBLIC_URL", raising=False)
    assert main(["doctor", "--hub", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "ok  admins       teacher: each has an account" in lines
    assert any(line.startswith("--  TLS") for line in lines)
