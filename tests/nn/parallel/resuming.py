"""A program for torchrun: it trains, keeps a checkpoint after each step, and dies once in the middle.

torchrun --nproc-per-node 2 --max-restarts 1 resuming.py FOLDER STEP
"""

import os
import signal
import sys
from pathlib import Path

import torch

import nbgrad
from nbgrad import nn
from nbgrad.nn.parallel import DistributedDataParallel

STEPS = 10


def train(rank: int, folder: Path, dying: int | None) -> list[float]:
    """Train, from the checkpoint in ``folder`` if there is one.

    Args:
        rank: the number of the process.
        folder: where checkpoints are.
        dying: the step in whose backward rank 1 dies; None for a run without an accident.

    Returns:
        The loss of this process in each step.
    """
    torch.manual_seed(rank)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)), bucket_cap_mb=0.00001)
    # By hand: torch's optimizers import a compiler, which takes longer than all the rest.
    moving = {name: torch.zeros_like(one.data) for name, one in net.named_parameters()}
    rows = torch.linspace(-1, 1, 64).reshape(16, 4)
    sampler = torch.utils.data.DistributedSampler(rows, seed=1)
    kept, first, losses = folder / "checkpoint.pt", 0, []
    if kept.exists():
        state = torch.load(kept)
        net.load_state_dict(state["net"])
        first, moving, losses = state["step"], state["moving"], state["losses"]
    for step in range(first, STEPS):
        sampler.set_epoch(step)
        x = nbgrad.tensor(rows[list(sampler)])
        net.zero_grad()
        loss = (net(x) - x.square().sum(1, keepdim=True)).square().mean()
        if rank == 1 and step == dying:
            net.module[0].weight.register_hook(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        loss.backward()
        for name, parameter in net.named_parameters():
            parameter.data -= 0.1 * moving[name].mul_(0.9).add_(parameter.grad.data)
        losses.append(loss.item())
        if rank == 0:
            state = {"net": net.state_dict(), "moving": moving, "step": step + 1, "losses": losses}
            torch.save(state, kept.with_suffix(".new"))
            kept.with_suffix(".new").replace(kept)
        torch.distributed.barrier()  # no process is ahead of the checkpoint
    return losses


def main(folder: Path, dying: int) -> None:
    """Train in the processes that torchrun has started; only the first start has an accident."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank, again = torch.distributed.get_rank(), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    losses = train(rank, folder, None if again else dying)
    if rank == 0:
        print("losses", again, *losses)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
