"""The committed front end: small, offline, and what its sources say."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nbgrad.core.symbolic import exports
from nbgrad.widgets import view

pytestmark = pytest.mark.once

ROOM = view.STATIC.parent
SCRIPT = view.STATIC / "graph.js"
STYLE = view.STATIC / "graph.css"
KERNELS = Path(exports.__file__).with_name("kernels.js")


def test_it_is_small() -> None:
    beside = view.STATIC / "page_run.js"  # pages saved with what_if=True have this script
    assert beside.stat().st_size < 5_000
    assert SCRIPT.stat().st_size + beside.stat().st_size < 120 * 1024
    assert KERNELS.stat().st_size < 15_000  # those pages and the pages of programs have these
    assert STYLE.stat().st_size < 33_000


def test_it_makes_no_request() -> None:
    script = SCRIPT.read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"'`\s)]+", script)) <= {
        "http://www.w3.org/1998/Math/MathML",
        "http://www.w3.org/1999/xhtml",
        "http://www.w3.org/1999/xlink",
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/2000/xmlns/",
        "http://www.w3.org/XML/1998/namespace",
    }
    for word in ("fetch(", "XMLHttpRequest", "WebSocket", "import(", "sendBeacon", "eval("):
        assert word not in script
    assert "url(" not in STYLE.read_text(encoding="utf-8")


def test_it_holds_no_code_of_others() -> None:
    """A copy of it would need their licences."""
    for source in (ROOM / "src").glob("*.ts"):
        imported = re.findall(
            r'^(?:import|export) [^;]*from "([^"]+)"', source.read_text(encoding="utf-8"), re.MULTILINE
        )
        assert all(name.startswith(".") for name in imported), source.name


def test_our_sources_parse_no_html() -> None:
    for source in (ROOM / "src").glob("*.ts"):
        text = source.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write", text), source.name


def test_the_lock_file_names_no_registry() -> None:
    packages = json.loads((ROOM / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert packages
    assert not [name for name, package in packages.items() if "resolved" in package]


@pytest.mark.skipif(
    shutil.which("node") is None or not (ROOM / "node_modules").is_dir(),
    reason="needs node, and `npm ci` in nbgrad/widgets",
)
def test_the_bundle_is_what_the_sources_give(tmp_path: Path) -> None:
    package = ROOM.parent
    room = tmp_path / "widgets"
    shutil.copytree(ROOM, room, ignore=shutil.ignore_patterns("node_modules", "__pycache__", "static"))
    (room / "node_modules").symlink_to(ROOM / "node_modules")
    kernels = tmp_path / KERNELS.relative_to(package)
    kernels.parent.mkdir(parents=True)
    shutil.copy(KERNELS.with_suffix(".ts"), kernels.parent)
    subprocess.run(["node", "build.mjs"], cwd=room, check=True)
    for committed in (SCRIPT, view.STATIC / "page_run.js", STYLE, KERNELS):
        assert (tmp_path / committed.relative_to(package)).read_bytes() == committed.read_bytes(), (
            f"{committed.name} is old: run `npm run build` in nbgrad/widgets"
        )
