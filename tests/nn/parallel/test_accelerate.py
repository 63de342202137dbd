"""Accelerate's launcher starts the processes, and its loop trains a module in DistributedDataParallel."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nn.parallel.processes import LIMIT, ROOT

pytestmark = [
    pytest.mark.once,
    pytest.mark.more("accelerate"),
    pytest.mark.rotated(2, together="processes"),
]

PROGRAM = Path(__file__).with_name("accelerated.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The report of each process, the first one first."""
    launcher = ["-m", "accelerate.commands.accelerate_cli", "launch", "--multi_gpu", "--num_processes", "2"]
    settings = ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    home = str(tmp_path_factory.mktemp("home"))  # no settings of the user's
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": home, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *launcher, *settings, str(PROGRAM), home]
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=2 * LIMIT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(path.read_text()) for path in sorted(Path(home).glob("?.json"))]


def test_the_launcher_starts_two_processes_of_one_group(found: list[dict[str, Any]]) -> None:
    assert [(one["rank"], one["size"], one["kind"], one["same"]) for one in found] == [
        (0, 2, "MULTI_CPU", True),
        (1, 2, "MULTI_CPU", True),
    ]


def test_they_learn_what_one_process_with_the_whole_batch_learns(found: list[dict[str, Any]]) -> None:
    from tests.nn.parallel import accelerated

    first, second = found
    assert first["averaged"] == second["averaged"] == 18, "every second batch"
    assert first["numbers"] == second["numbers"]
    assert first["numbers"] == pytest.approx(accelerated.alone(), abs=1e-10)
    assert first["losses"] == second["losses"]
    assert first["losses"][0] == first["losses"][1], "gathered of both"
