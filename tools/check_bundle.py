"""The committed front-end bundle is what its sources build: rebuild it elsewhere and compare the bytes."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "nbgrad"
WIDGETS = PACKAGE / "widgets"
KERNELS = Path("core", "symbolic", "exports")
"""The folder with the kernels of exported pages, and with the script that is built from them."""


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every built file in a copy of the package, by the path of the file there."""
    built = [*(folder / "widgets" / "static").glob("*.*"), folder / KERNELS / "kernels.js"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in built if path.is_file()}


def main() -> int:
    """Print which files differ, and what to do; fail when any does."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "widgets"
        shutil.copytree(WIDGETS, copy, ignore=shutil.ignore_patterns("node_modules", "static", "__pycache__"))
        (copy / "node_modules").symlink_to(WIDGETS / "node_modules", target_is_directory=True)
        (copy / "static").mkdir()
        (Path(folder) / KERNELS).mkdir(parents=True)
        shutil.copy(PACKAGE / KERNELS / "kernels.ts", Path(folder) / KERNELS)
        subprocess.run(["npm", "run", "--silent", "build"], cwd=copy, check=True)
        fresh, committed = contents(Path(folder)), contents(PACKAGE)
    stale = sorted(name for name in fresh.keys() | committed.keys() if fresh.get(name) != committed.get(name))
    if stale:
        print(f"these files of nbgrad/ are not what their TypeScript and CSS build: {', '.join(stale)}.")
        print("Build it and commit it:  npm --prefix nbgrad/widgets run build")
    return bool(stale)


if __name__ == "__main__":
    sys.exit(main())
