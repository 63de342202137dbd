"""Install optional packages into an environment beside ``.venv``, which sees all that ``.venv`` has.

    python -m tools.environment .venv-more site grading marimo parallel hub

installs these extras of pyproject.toml in the versions of constraints.txt. A requirement in another version than
``.venv`` has is installed into the environment itself, and is found first there.
"""

import site
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def make(folder: Path) -> tuple[Path, Path]:
    """Make the environment if it is not there; return its Python, and the folder of its packages."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "project.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    return python, packages


def install(python: Path, *wanted: str) -> int:
    """Install what pip's arguments name into the environment of ``python``, and return pip's exit status."""
    command = [
        *(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"),
        "--no-compile",  # few modules of these packages are imported
        "--disable-pip-version-check",
        "--no-warn-conflicts",
        *("-c", str(ROOT / "constraints.txt")),
    ]
    return subprocess.run([*command, *wanted], check=False).returncode


def requirements(*extras: str) -> list[str]:
    """The requirements that these extras of pyproject.toml name.

    Raises:
        KeyError: there is no such extra.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [one for extra in extras for one in project["optional-dependencies"][extra]]


def main(folder: str, *extras: str) -> int:
    """Install the extras into the environment ``folder``."""
    python, _ = make(Path(folder))
    return install(python, *requirements(*extras))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
