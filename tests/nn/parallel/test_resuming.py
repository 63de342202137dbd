"""Processes that torchrun starts, and starts again when one has died."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.nn.parallel.processes import LIMIT, ROOT, values
from tests.nn.parallel.resuming import STEPS, train

pytestmark = [pytest.mark.once, pytest.mark.rotated(6)]

SETTINGS = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "2", "--monitor-interval", "0.1"]

OWN_STORE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
"""Without this, gloo finds the addresses of the dead processes in torchrun's store, and tries to connect to them."""


def started(folder: Path, dying: int) -> tuple[str, str]:
    """The output of the program under torchrun."""
    program = [str(Path(__file__).with_name("resuming.py")), str(folder), str(dying)]
    process = subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *SETTINGS, *program],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **OWN_STORE},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=2 * LIMIT)  # it imports torch five times
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # torchrun ends the processes that it has started
        process.communicate()
        raise


def test_training_goes_on_after_a_process_has_died(tmp_path):
    for name in ("died", "whole"):
        (tmp_path / name).mkdir()
    out, errors = started(tmp_path / "died", 6)
    assert "losses" in out, errors[-3000:]
    again, *died = out.partition("losses ")[2].split()
    assert again == "1"
    whole, _ = values(train, 2, tmp_path / "whole", None)
    assert [float(one) for one in died] == whole
    assert len(whole) == STEPS
