"""How long a user waits before the first line of a program can run: each time in a new process."""

import json
import os
import subprocess
import sys

TITLE = "time until one can begin"
REFERENCE = "import torch"
PROGRAM = """
import json, warnings
from time import perf_counter
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
times, begin = {}, perf_counter()
for what, do in (
    ("import torch", lambda: __import__("torch")),
    ("import nbgrad, on top of that", lambda: __import__("nbgrad").record),
    ("%load_ext nbgrad, on top of both", lambda: shell.run_line_magic("load_ext", "nbgrad")),
):
    do()
    now = perf_counter()
    times[what], begin = now - begin, now
print(json.dumps(times))
"""


def times(rounds: int) -> dict[str, list[float]]:
    """Seconds of each part, round by round."""
    taken: dict[str, list[float]] = {}
    # The shell may forbid Python to write bytecode. Then every process would compile all modules of nbgrad again.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(rounds + 1):
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        for what, seconds in json.loads(done.stdout.splitlines()[-1]).items():
            taken.setdefault(what, []).append(seconds)
    return {what: seconds[1:] for what, seconds in taken.items()}  # the first round reads the files from the disk
