"""Install the oldest versions that pyproject.toml declares into a folder that goes before the others: ``make minimum``.

torch is left out: its oldest version takes gigabytes, and docs/interop.md says what differs between its versions.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = {"torch"}


def minima() -> list[str]:
    """Return every dependency pinned to the oldest version that it may have.

    Raises:
        ValueError: a dependency declares none.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = []
    for requirement in project["dependencies"]:
        name, relation, version = re.fullmatch(r"([\w-]+)(>=|==)?(.*)", requirement).groups()  # type: ignore[union-attr]
        if not relation:
            raise ValueError(f"{name} in pyproject.toml needs a minimum, as in {name}>=1.0: the oldest that was tested")
        if name not in LEFT_OUT:
            oldest.append(f"{name}=={version}")
    return oldest


def main(arguments: list[str]) -> int:
    """Install into the folder that is named, unless it holds these versions already."""
    folder = Path(arguments[0])
    wanted, stamp = minima(), folder / "installed.txt"
    text = "\n".join(wanted)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == text:
        return 0
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    # pip may complain that these versions do not fit the environment. They need not, so only a failure is shown.
    done = subprocess.run([*command, "--target", folder, *wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        print(done.stderr)
        return done.returncode
    stamp.write_text(text, encoding="utf-8")
    print(*wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
