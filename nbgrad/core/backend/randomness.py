"""The state of torch's random number generators, and draws that do not change it."""

from collections.abc import Callable, Iterable
from typing import Any

import torch

Random = tuple[torch.Tensor, dict[torch.device, torch.Tensor]]
"""The state of the generator of the CPU, and of those of CUDA devices."""


def random_state(devices: "Iterable[torch.device]" = ()) -> Random:
    """The state of torch's generators: the CPU's, and those of the CUDA ``devices``."""
    return torch.get_rng_state(), {device: torch.cuda.get_rng_state(device) for device in devices}


def set_random_state(state: Random) -> None:
    """Have the generators go on from ``state``."""
    torch.set_rng_state(state[0])
    for device, numbers in state[1].items():
        torch.cuda.set_rng_state(numbers, device)


def drawing_from(state: Random, run: Callable[..., Any], /, *args: Any, **settings: Any) -> Any:
    """``run(*args, **settings)`` with the generators going on from ``state``; after it they go on from where they were.

    Also after an interrupt, which may hit the very ``finally``.
    """
    before = random_state(state[1])
    try:
        try:
            set_random_state(state)
            return run(*args, **settings)
        finally:
            set_random_state(before)
    except BaseException:
        set_random_state(before)
        raise


def cuda_devices(values: Iterable[Any]) -> set[torch.device]:
    """The CUDA devices of the raw tensors in ``values``."""
    return {value.device for value in values if isinstance(value, torch.Tensor) and value.is_cuda}
