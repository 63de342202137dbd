"""A program for accelerate's launcher: it trains in two processes, and each writes down what it has learned.

accelerate launch --multi_gpu --num_processes 2 accelerated.py FOLDER
"""

import json
import sys
from pathlib import Path

import torch
from accelerate import Accelerator

import nbgrad
from nbgrad import nn
from nbgrad.nn.parallel import DistributedDataParallel

ROWS = torch.linspace(-1, 1, 192, dtype=torch.float64).sin().reshape(48, 4)
EPOCHS, BATCH, ADDED = 3, 2, 2
"""The epochs, the rows of a batch in each process, and the batches whose gradients are added up for one step."""


def net() -> nn.Module:
    """A small network, the same in every process."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).double()


def loss_of(model: nn.Module, rows: torch.Tensor) -> nbgrad.Tensor:
    """The mean over the rows of a batch."""
    x = nbgrad.tensor(rows)
    return (model(x) - x.sum(1, keepdim=True)).square().mean()


def tools(model: nn.Module) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """The optimizer, and what changes its learning rate every two steps."""
    optimizer = nbgrad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.8)


def alone() -> list[float]:
    """The parameters after the same training in one process, which has all rows of a step in one batch."""
    model = net()
    optimizer, scheduler = tools(model)
    for _ in range(EPOCHS):
        for rows in ROWS.split(2 * BATCH * ADDED):
            optimizer.zero_grad()
            loss_of(model, rows).backward()
            nbgrad.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
    return numbers(model)


def numbers(model: nn.Module) -> list[float]:
    """All parameters."""
    return [number for one in model.parameters() for number in one.data.flatten().tolist()]


def main(folder: Path) -> None:
    """Train in the processes that the launcher has started; each leaves a file in ``folder``."""
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=ADDED, step_scheduler_with_optimizer=False)
    model = DistributedDataParallel(net())
    loader = torch.utils.data.DataLoader(ROWS, batch_size=BATCH)  # type: ignore[arg-type]  # rows of a tensor
    optimizer, scheduler = tools(model)
    prepared, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    averaged = 0
    for _ in range(EPOCHS):
        for rows in loader:
            with accelerator.accumulate(prepared):
                accelerator.backward(loss_of(prepared, rows))
                averaged += accelerator.sync_gradients
                if accelerator.sync_gradients:
                    nbgrad.nn.utils.clip_grad_norm_(prepared.parameters(), 0.5)
                optimizer.step()
                if accelerator.sync_gradients:
                    scheduler.step()
                optimizer.zero_grad()
    found = {
        "rank": accelerator.process_index,
        "size": accelerator.num_processes,
        "kind": accelerator.distributed_type.value,
        "same": prepared is model,
        "averaged": averaged,
        "numbers": numbers(model.module),
        "losses": accelerator.gather(loss_of(model.module, ROWS).data).tolist(),
    }
    (folder / f"{accelerator.process_index}.json").write_text(json.dumps(found))
    accelerator.end_training()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
