"""``nbgrad doctor --hub``: what is to be in order before a class begins to work on a hub of ``hub/``.

Run it on the computer of the hub, in the folder where the hub runs, with the same variables. ``docs/hub.md`` explains
what is behind each check.
"""

import json
import os
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

Finding = tuple[bool, str, str]
"""A check: whether it passed, its name, and the finding."""

PORTS = {8000: "pages", 8001: "the interface of the proxy", 8081: "the interface of the hub"}
"""The ports of the hub, which only a web server with TLS and containers may reach."""

_SELF = "00000000000000000000000001000000"
"""The address ::1, as Linux lists it."""

_SECONDS = 20
_ROOM = 10 << 30


def checks(folder: Path, environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """Every check of the hub for Docker.

    Args:
        folder: where the hub runs, with its database.
        environment: the variables that the hub is started with.
    """
    yield from accounts(folder / "hub.sqlite", environment.get("HUB_ADMINS", ""))
    yield from files(folder)
    yield from ports(Path("/proc/net"))
    yield from encryption(environment.get("HUB_PUBLIC_URL", ""))
    yield from docker(environment)


def accounts(database: Path, admins: str) -> Iterator[Finding]:
    """Whether each admin has an account, and no other user is one."""
    names = {name.strip().lower() for name in admins.split(",") if name.strip()}
    if not names:
        yield False, "admins", "HUB_ADMINS is not set: set it as for the hub"
        return
    if not database.is_file():
        yield False, "admins", f"there is no {database}: start the hub once, while no student can reach it"
        return
    with closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as opened:
        made = {name for (name,) in opened.execute("select username from users_info where is_authorized")}
        ruling = {name for (name,) in opened.execute("select name from users where admin")}
    for name in sorted(names - made):
        yield False, "admins", f"{name} has no account: restart the hub, which makes it and prints its password"
    for name in sorted(ruling - names):
        yield False, "admins", f"{name} is an admin, and not in HUB_ADMINS: take the rights away on the page of admins"
    if names <= made and ruling <= names:
        yield True, "admins", f"{', '.join(sorted(names))}: each has an account"


def files(folder: Path) -> Iterator[Finding]:
    """Whether only the user of the hub reads its database and its secrets."""
    for name in ("hub.sqlite", "jupyterhub_cookie_secret"):
        path = folder / name
        if path.exists():
            mode = stat.S_IMODE(path.stat().st_mode)
            yield (
                not mode & 0o077,
                "files",
                f"{name} has the mode {mode:o}" + (f": chmod 600 {path}" if mode & 0o077 else ", for its user alone"),
            )


def ports(net: Path) -> Iterator[Finding]:
    """Whether the hub listens on no interface that other computers reach.

    Args:
        net: the folder in which Linux lists connections, ``/proc/net``.
    """
    if not (net / "tcp").exists():
        yield False, "ports", "this system does not list them: look that the ports 8000, 8001 and 8081 are closed"
        return
    opened = set()
    for name, everywhere in (("tcp", "0" * 8), ("tcp6", "0" * 32)):
        lines = (net / name).read_text("ascii").splitlines()[1:] if (net / name).exists() else []
        for line in lines:
            address, state = line.split()[1], line.split()[3]
            host, _, port = address.partition(":")
            if state != "0A" or (number := int(port, 16)) not in PORTS:  # 0A: it listens
                continue
            inside = host.endswith("7F") or host == _SELF or (number == 8081 and host != everywhere)
            if not inside:
                opened.add(number)
    for number in sorted(opened):
        yield False, "ports", f"other computers reach {PORTS[number]} in plain HTTP, port {number}: HUB_URL, HUB_IP"
    if not opened:
        yield True, "ports", "other computers reach none of the hub's own ports"


def encryption(address: str) -> Iterator[Finding]:
    """Whether students reach the hub through TLS, with a certificate that is valid."""
    if not address.startswith("https://"):
        yield False, "TLS", "set HUB_PUBLIC_URL to the address that students type in; it is to begin with https://"
        return
    try:
        with urlopen(f"{address.rstrip('/')}/hub/api/", timeout=_SECONDS) as answer:
            version = json.load(answer)["version"]
        yield True, "TLS", f"{address} is JupyterHub {version}, with a valid certificate"
    except (URLError, OSError, ValueError, KeyError) as error:
        yield False, "TLS", f"{address} does not answer as a hub: {error}"


def docker(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether Docker runs, has the image, keeps containers apart, and has room for what students write."""
    if shutil.which("docker") is None:
        yield False, "Docker", "there is no command docker"
        return
    image, network = (environment.get(name, "nbgrad-class") for name in ("HUB_IMAGE", "HUB_NETWORK"))
    answer = _told("info", "--format", "{{json .DockerRootDir}}")
    if not isinstance(answer, str):
        yield False, "Docker", "it does not run"
        return
    yield True, "Docker", "it runs"
    found = _told("image", "inspect", image)
    yield bool(found), "image", image if found else f"there is no image {image}: docker build"
    found = _told("network", "inspect", network)
    apart = found and found[0]["Options"].get("com.docker.network.bridge.enable_icc") == "false"
    yield (
        bool(apart),
        "network",
        f"{network} keeps containers apart" if apart else f"{network} is to exist, with enable_icc=false",
    )
    volumes = Path(answer, "volumes")
    try:
        alone, free = volumes.stat().st_dev != Path("/").stat().st_dev, shutil.disk_usage(volumes).free
    except OSError as error:
        yield False, "disk", f"the volumes cannot be looked at: {error}"
        return
    yield (
        alone,
        "disk",
        f"{volumes} is " + ("on a disk of its own" if alone else "on the disk of the system: no quotas"),
    )
    yield free > _ROOM, "disk", f"{free >> 30} GiB are free for what students write"


def _told(*words: str) -> Any:
    """The answer of a command of Docker, which is JSON; None if it fails."""
    try:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=_SECONDS, check=True)
        return json.loads(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError):
        return None
