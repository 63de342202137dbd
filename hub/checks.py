"""Checks of a computer, before a class begins to work on the hub for Docker.

Run it on the computer of the hub, in the folder where the hub runs, as its user and with the same variables:
``python hub/checks.py``. It needs nothing but Python. ``docs/hub.md`` explains what is behind each check.
"""

import fcntl
import ipaddress
import json
import os
import re
import shutil
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

Finding = tuple[bool, str, str]
"""A check: whether it passed, its name, and the finding."""

HUB = 8081
"""The port of the hub's own interface, which containers and the proxy reach."""

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
    yield from ports(Path("/proc/net"), environment.get("HUB_URL", ""), bridges(Path("/sys/class/net")))
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
        yield False, "admins", f"{name} is an admin, and not in HUB_ADMINS: take the rights away, or add the name"
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


def ports(net: Path, url: str, inside: Collection[str]) -> Iterator[Finding]:
    """Whether the hub listens on no interface that other computers reach.

    Args:
        net: the folder in which Linux lists connections, ``/proc/net``.
        url: where the hub listens for the web server with TLS, its default if empty.
        inside: the addresses of this computer in networks that are inside of it: those of bridges.
    """
    if not (net / "tcp").exists():
        yield False, "ports", f"this system does not list them: look that the ports 8000, 8001 and {HUB} are closed"
        return
    pages = urlsplit(url or "http://127.0.0.1:8000").port or 80
    purposes = {pages: "pages", 8001: "the interface of the proxy", HUB: "the interface of the hub"}
    opened = {
        number
        for address, number in listening(net)
        if number in purposes and not address.is_loopback and (number != HUB or str(address) not in inside)
    }
    for number in sorted(opened):
        yield False, "ports", f"other computers reach {purposes[number]} in plain HTTP, port {number}: HUB_URL, HUB_IP"
    if not opened:
        yield True, "ports", "other computers reach none of the hub's own ports"


def listening(net: Path) -> Iterator[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
    """The addresses and ports on which programs of this computer wait for connections."""
    for name in ("tcp", "tcp6"):
        lines = (net / name).read_text("ascii").splitlines()[1:] if (net / name).exists() else []
        for line in lines:
            (host, _, port), state = line.split()[1].partition(":"), line.split()[3]
            if state == "0A":  # it listens
                # Linux writes an address as numbers of four bytes, in the order of the processor.
                numbers = (int(host[start : start + 8], 16) for start in range(0, len(host), 8))
                yield ipaddress.ip_address(b"".join(struct.pack("=I", one) for one in numbers)), int(port, 16)


def bridges(devices: Path) -> set[str]:
    """The addresses of this computer in its bridges, which are the networks of containers.

    Args:
        devices: the folder in which Linux lists network interfaces, ``/sys/class/net``.
    """
    found = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for bridge in devices.glob("*/bridge"):
            # A bridge that other computers are plugged into has a port that is a device, and not the end of a cable
            # to a container.
            if not any((port / "device").exists() for port in bridge.parent.glob("brif/*")):
                try:
                    interface = fcntl.ioctl(one.fileno(), 0x8915, struct.pack("256s", bridge.parent.name.encode()))
                except OSError:  # it has no address
                    continue
                found.add(socket.inet_ntoa(interface[20:24]))  # 0x8915 is SIOCGIFADDR
    return found


def encryption(address: str) -> Iterator[Finding]:
    """Whether students reach the hub through TLS alone, with a certificate that is valid."""
    if not address.startswith("https://"):
        yield False, "TLS", "set HUB_PUBLIC_URL to the address that students type in; it is to begin with https://"
        return
    try:
        with urlopen(f"{address.rstrip('/')}/hub/api/", timeout=_SECONDS) as answer:
            version = json.load(answer)["version"]
        with urlopen(f"{address.rstrip('/')}/hub/login", timeout=_SECONDS) as answer:
            cookies = answer.headers.get_all("Set-Cookie", [])
    except (OSError, ValueError, KeyError) as error:
        yield False, "TLS", f"{address} does not answer as a hub: {error}"
        return
    yield True, "TLS", f"{address} is JupyterHub {version}, with a valid certificate"
    secure = all("secure" in cookie.lower().split("; ") for cookie in cookies)
    yield secure, "cookies", "browsers send them through TLS alone" if secure else "start the hub with HUB_PUBLIC_URL"
    try:
        with urlopen(f"http://{urlsplit(address).hostname}/hub/login", timeout=_SECONDS) as answer:
            plain = answer.url.startswith("http://")
    except OSError:
        plain = False
    if plain:
        yield False, "TLS", f"http://{urlsplit(address).hostname} shows the page to log in without TLS: redirect it"


def docker(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Whether Docker runs, has the image, keeps containers apart, and has room for what students write."""
    if shutil.which("docker") is None:
        yield False, "Docker", "there is no command docker"
        return
    image, network = (environment.get(name, "nbgrad-class") for name in ("HUB_IMAGE", "HUB_NETWORK"))
    answer = _told("info", "--format", "{{json .DockerRootDir}}")
    if not isinstance(answer, str):
        yield False, "Docker", "it does not run, or this user is not in the group docker"
        return
    yield True, "Docker", "it runs"
    has_image = bool(_told("image", "inspect", image))
    yield has_image, "image", image if has_image else f"there is no image {image}: docker build"
    found = _told("network", "inspect", network)
    yield from separation(network, found[0] if found else None)
    if has_image and found:
        yield from reach(image, network)
    yield from published()
    yield from disk(Path(answer, "volumes"), image, environment.get("HUB_QUOTA", ""))


def separation(network: str, found: Mapping[str, Any] | None) -> Iterator[Finding]:
    """Whether the network keeps containers from one another, and from other computers."""
    if found is None:
        yield False, "network", f"there is no network {network}: docker network create"
        return
    apart = found["Options"].get("com.docker.network.bridge.enable_icc") == "false"
    yield apart, "network", f"{network} keeps containers apart" if apart else f"{network} is to have enable_icc=false"
    text = "containers reach no other computer" if found["Internal"] else f"{network} is to be created with --internal"
    yield found["Internal"], "network", text


REACH = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def opens(port):
    try:
        socket.create_connection((sys.argv[1], port), 2).close()
    except OSError:
        return False
    return True

ports = list(map(int, sys.argv[2:]))
with ThreadPoolExecutor(64) as threads:
    print(json.dumps([port for port, found in zip(ports, threads.map(opens, ports)) if found]))
"""
"""The ports at an address, of those that are named, that take a connection."""


def reach(image: str, network: str) -> Iterator[Finding]:
    """Whether a container reaches the hub, and no other program on this computer."""
    asked = sorted({number for address, number in listening(Path("/proc/net")) if not address.is_loopback} | {HUB})
    [gateway] = [one["Gateway"] for one in _told("network", "inspect", network)[0]["IPAM"]["Config"]][:1]
    started = ("run", "--rm", "--read-only", "--cap-drop", "ALL", "--network", network, "--entrypoint", "python")
    found = _told(*started, image, "-c", REACH, gateway, *map(str, asked))
    if found is None:
        yield False, "containers", f"none starts from {image} in {network}: docker run"
        return
    yield HUB in found, "containers", "they reach the hub" if HUB in found else "they do not reach the hub: start it"
    others = ", ".join(str(number) for number in found if number != HUB)
    text = (
        f"they reach this computer's ports {others}: nft -f hub/firewall.nft" if others else "they reach no other port"
    )
    yield not others, "containers", text


def published() -> Iterator[Finding]:
    """Whether Docker opens no port of a container of the hub to other computers."""
    found = _told("ps", "--format", "{{json .}}", lines=True) or []
    for one in found:
        outside = re.findall(r"(?:^|, )(?!127\.|\[::1\])([^,]*)->", one["Ports"])
        if outside and (one["Names"].startswith("jupyter-") or any(re.search(r":800[01]$", port) for port in outside)):
            yield (
                False,
                "ports",
                f"Docker opens {', '.join(outside)} to other computers for the container {one['Names']}",
            )


VOLUMES = """
import json, shutil
with open("/proc/self/mountinfo") as lines:
    [mounted] = [line.split() for line in lines if line.split()[4] == "/volumes"]
print(json.dumps([mounted[2], mounted[-1].split(","), shutil.disk_usage("/volumes").free]))
"""
"""The device of a folder, the options of its file system, and how much is free."""


def disk(volumes: Path, image: str, quota: str) -> Iterator[Finding]:
    """Whether what students write cannot fill the disk of the system, and has room.

    Only root may look into the folders of Docker, so a container looks, as whoever may use Docker can.
    """
    started = ("run", "--rm", "--network", "none", "-v", f"{volumes}:/volumes:ro", "--entrypoint", "python")
    found = _told(*started, image, "-c", VOLUMES)
    if found is None:
        yield False, "disk", f"no container of the image {image} could look at {volumes}"
        return
    device, options, free = found
    system = Path("/").stat().st_dev
    alone = device != f"{os.major(system)}:{os.minor(system)}"
    place = "on a disk of its own" if alone else "on the disk of the system, which students can fill"
    yield alone, "disk", f"{volumes} is {place}"
    if quota:
        limited = not {"prjquota", "pquota"}.isdisjoint(options)
        lacks = f"HUB_QUOTA: the disk of {volumes} is mounted without prjquota"
        yield limited, "disk", f"a new volume takes at most {quota}" if limited else lacks
    yield free > _ROOM, "disk", f"{free >> 30} GiB are free for what students write"


def _told(*words: str, lines: bool = False) -> Any:
    """The answer of a command of Docker, which is JSON, or lines of JSON; None if it fails."""
    try:
        done = subprocess.run(["docker", *words], capture_output=True, text=True, timeout=_SECONDS, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()] if lines else json.loads(done.stdout)
    except (subprocess.SubprocessError, OSError, ValueError):
        return None


def main() -> int:
    """Print every finding; 1 if one is to be mended before a class begins."""
    sound = True
    for well, what, found in checks(Path.cwd()):
        print(f"{'ok ' if well else '-- '} {what:<12} {found}")
        sound = sound and well
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
