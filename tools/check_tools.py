"""The tools that the tests need beside Python: Chromium for the browser tests, node and npm for the front end.

Run before ``make test`` does anything else: it names what is missing, and the one command that installs it. With
``--packages`` it prints just the names for apt (nothing when nothing is missing), for machines that may install them.
Only the standard library is imported: this runs before the environment exists.
"""

import os
import shutil
import sys

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Return the path of the Chromium to use: the CHROMIUM variable first, then the usual names on PATH."""
    wanted = os.environ.get("CHROMIUM")
    return shutil.which(wanted) if wanted else next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def missing_packages() -> list[str]:
    """Return the Debian packages to install, in the order of the command."""
    return [
        package
        for package, found in (("chromium", chromium()), ("nodejs", shutil.which("node")), ("npm", shutil.which("npm")))
        if not found
    ]


def main(arguments: list[str]) -> int:
    """Print what is missing, and fail if anything is. With ``--packages``, print only the names and succeed."""
    packages = missing_packages()
    if "--packages" in arguments:
        print(*packages)
        return 0
    if packages:
        print(f"The tests need {', '.join(packages)}, which this machine lacks. Install with:\n")
        print(f"    sudo apt-get install -y -o DPkg::Lock::Timeout=300 {' '.join(packages)}\n")
        print("(Chromium elsewhere: make test CHROMIUM=path/to/chromium)")
    return bool(packages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
