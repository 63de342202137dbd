"""Install other people's packages beside the torch of ``.venv``: ``make models`` and ``make models-small``.

The environment sees all packages of the environment that runs this script, so torch is installed only once. If a
package needs another version of something, this version is installed into the new environment and is found first.
"""

import subprocess
import sys
from pathlib import Path

from tools import environment

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    """Install the list ``arguments[1]`` into the environment ``arguments[0]``, which is made if it is not there."""
    python, packages = environment.make(Path(arguments[0]))
    status = environment.install(python, "-r", str(HERE / f"{arguments[1]}.txt"))
    if not status:
        drop_libraries(python, packages)
    return status


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
