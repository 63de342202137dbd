"""``torch.manual_seed`` without the tracebacks that it writes down for devices that are not there."""

import torch


def seed_only_what_is_there() -> None:
    """Let a seed reach only the kinds of device that torch finds here, from now on in this process.

    ``torch.manual_seed`` seeds every kind of device. For each kind that has not started, it stores the seed with the
    text of the whole stack. To write three such texts takes longer than most tests that seed.
    """
    for library in (torch.cuda, torch.xpu, torch.mtia):
        if not library.is_available():
            library.manual_seed_all = lambda _: None  # type: ignore[attr-defined]
