"""Install other people's packages beside the torch of ``.venv``: ``make models`` and ``make models-small``.

The environment sees all that is installed where this runs, so torch is installed once. What a package needs in another
version is installed into the environment itself, and is found first.
"""

import site
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def main(arguments: list[str]) -> int:
    """Install the list ``arguments[1]`` into the environment ``arguments[0]``, which is made if it is not there."""
    folder, listed = Path(arguments[0]), HERE / f"{arguments[1]}.txt"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "project.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-compile",  # few modules of these packages are imported
        "--disable-pip-version-check",
    ]
    lists = ["-c", str(ROOT / "constraints.txt"), "-r", str(listed)]
    done = subprocess.run([*command, "--no-warn-conflicts", *lists], check=False)
    if done.returncode:
        return done.returncode
    drop_libraries(python, packages)
    return 0


def drop_libraries(python: Path, packages: Path) -> None:
    """Remove the part of torchaudio that is written in C++, if it does not load: without it torchaudio is imported."""
    if not (packages / "torchaudio").is_dir():
        return
    works = subprocess.run([python, "-c", "import torchaudio"], capture_output=True, check=False)
    if works.returncode:
        for library in (packages / "torchaudio" / "lib").glob("*.so"):
            library.unlink()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
