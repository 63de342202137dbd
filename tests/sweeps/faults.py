"""Errors of nbgrad's own while it records: each case raises some, in a process with the plain Python core."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random

CASES = 5
ROOT = Path(__file__).parents[2]


def check(random: Random) -> None:
    """Some cases of ``tests.recorder.fault_injection``."""
    seed = random.randrange(10**9)
    command = [sys.executable, "-m", "tests.recorder.fault_injection", "--seed", str(seed), "--cases", "10"]
    plain = {**os.environ, "NBGRAD_COMPILED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
