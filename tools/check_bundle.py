"""The committed front-end bundle is what its sources build: rebuild it elsewhere and compare the bytes."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

WIDGETS = Path(__file__).parents[1] / "nbgrad" / "widgets"


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file in a folder, by name; nothing when there is no such folder."""
    if not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def main() -> int:
    """Print which files differ, and what to do; fail when any does."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "widgets"
        shutil.copytree(WIDGETS, copy, ignore=shutil.ignore_patterns("node_modules", "static", "__pycache__"))
        (copy / "node_modules").symlink_to(WIDGETS / "node_modules", target_is_directory=True)
        subprocess.run(["npm", "run", "--silent", "build"], cwd=copy, check=True)
        fresh, committed = contents(copy / "static"), contents(WIDGETS / "static")
    stale = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))
    if stale:
        print(f"nbgrad/widgets/static is not what nbgrad/widgets/src builds: {', '.join(stale)}.")
        print("Build it and commit it:  npm --prefix nbgrad/widgets run build")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
