"""``nbgrad run`` under launchers of several processes, on a terminal, and as the page on it says."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.run.commands import OWN, ROOT, environment, nbgrad, python

pytestmark = pytest.mark.once

AVERAGING = """
import torch, torch.distributed as dist
from {library} import nn, tensor

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
net = nn.parallel.DistributedDataParallel(nn.Linear(3, 2))
for step in range(2):
    loss = net(tensor(torch.randn(4, 3).tolist())).pow(2).mean()
    loss.backward()
print(f"rank {dist.get_rank()}\\n", end="", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.rotated(4)
@pytest.mark.parametrize("library", ["nbgrad", "torch"])
def test_rank_0_reports_and_compares_the_ranks(tmp_path: Path, library: str) -> None:
    (tmp_path / "averaging.py").write_text(AVERAGING.replace("{library}", library))
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "nbgrad")
    result = python(*launch, "run", "--ranks", "--save", "run.json", "averaging.py", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.splitlines()) == ["rank 0", "rank 1"]
    assert result.stderr.count("nbgrad: averaging.py, 2 steps (2 backwards, all recorded) in ") == 1
    compared = r"^  Rank 0 of 2\. It sent 32 B in 1 bucket\. .* differ most, with a spread of [\d.]+\."
    assert re.search(compared, result.stderr, re.MULTILINE)
    assert "spread" in (tmp_path / "run.json").read_text("utf-8")


@pytest.mark.rotated(3)
@pytest.mark.parametrize("name", ["RANK", "SLURM_PROCID"])
def test_another_rank_runs_as_without_the_command(tmp_path: Path, name: str) -> None:
    (tmp_path / "own.py").write_text(f"{OWN}\n1 / 0")
    plain = python("own.py", cwd=tmp_path)
    ours = nbgrad("run", "--save", "run.txt", "own.py", cwd=tmp_path, **{name: "1"})
    assert (ours.returncode, ours.stdout, ours.stderr) == (1, plain.stdout, plain.stderr)
    assert not (tmp_path / "run.txt").exists()


SLOW = """
import time, torch
w = torch.ones(3, requires_grad=True)
for step in range(20):
    (w * w).sum().backward()
    w.grad = None
    time.sleep(0.05)
    if step == 15:
        print("words of the program", flush=True)
"""


@pytest.mark.rotated(3)
@pytest.mark.skipif(sys.platform == "win32", reason="terminals of POSIX")
def test_a_terminal_shows_one_line_while_it_runs(tmp_path: Path) -> None:
    import pty
    import subprocess

    (tmp_path / "slow.py").write_text(SLOW)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "nbgrad", "run", "slow.py"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        got = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the end, on Linux
                break
            if not part:
                break
            got += part
        assert process.wait(timeout=60) == 0
    os.close(ours)
    text = got.decode()
    assert re.search(r"\r\x1b\[2Knbgrad: step \d+, \d+ backwards recorded, loss 3, recording [\d.]+%", text)
    assert "\r\x1b[2Kwords of the program\r\n" in text or "\nwords of the program\r\n" in text
    assert re.search(r"(^|\n|\x1b\[2K)nbgrad: slow.py, 20 steps \(20 backwards, ", text)


@pytest.mark.rotated(3)
def test_the_page_shows_what_the_command_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "run.md").read_text("utf-8")
    program, shown = (re.search(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("python", "console"))
    assert program is not None
    assert shown is not None
    (tmp_path / "train.py").write_text(program[1])
    result = nbgrad("run", "--save", "run.html", "train.py", cwd=tmp_path)
    assert still(result.stdout + result.stderr) == still(shown[1])
    assert shown[1] in (ROOT / "README.md").read_text("utf-8"), "the first screen shows the same"


def still(text: str) -> list[str]:
    """The lines of a text, without the numbers that depend on the speed of the machine."""
    return re.sub(r"\d+ recorded\) in [\d.]+ m?s", "N recorded) in T", text).splitlines()
