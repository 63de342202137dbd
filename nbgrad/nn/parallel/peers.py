"""The processes of a group: waiting for common work, and the names of lost processes."""

import contextlib
import os
import socket
from datetime import timedelta
from pathlib import Path
from secrets import randbits
from threading import Event
from time import monotonic, sleep
from typing import Any

import torch
import torch.distributed as dist

from nbgrad.core.graph.rank_part import GroupStore

SLICE = 0.5
"""Seconds that one wait lasts: then an interrupt is let in, and what other processes tell is read."""

ROLL_CALL = 3.0
"""Seconds that the processes of a group have to answer when one of them finds that another is lost."""


class Peers(GroupStore):
    """The processes of a group, as one of them sees them.

    Each writes down in the group's store where it runs, and why it ends if it can. So a process that waits for another
    in vain can say for which, and does not wait until the time limit of the group.
    """

    def __init__(self, group: Any, device: torch.device) -> None:
        super().__init__(group)
        # A store may outlive its processes, as torchrun's does. The mark keeps texts of earlier processes apart.
        mark = torch.tensor([randbits(62)], device=device)
        dist.broadcast(mark, dist.get_global_rank(group, 0), group=group)
        self._prefix = f"nbgrad/{mark.item():x}"
        self._told = False
        self.write(f"place/{self.rank}", f"{socket.gethostname()} {os.getpid()}")

    def all_reduce(self, data: torch.Tensor, op: Any = None) -> Any:
        """Begin to sum ``data`` over the processes, in place.

        Returns:
            The work, for ``wait``.
        """
        return dist.all_reduce(data, op=op or dist.ReduceOp.SUM, group=self.group, async_op=True)

    def broadcast(self, tensors: list[torch.Tensor], source: int, doing: str) -> None:
        """Give ``tensors`` the values that they have in the process ``source``; those of one type travel together."""
        sent = dist.get_global_rank(self.group, source)
        for alike in _by_kind(tensors):
            lone = len(alike) == 1 and alike[0].is_contiguous()
            flat = alike[0] if lone else torch.cat([one.reshape(-1) for one in alike])
            self.wait(dist.broadcast(flat, sent, group=self.group, async_op=True), doing)
            if not lone and source != self.rank:
                for one, part in zip(alike, torch.split(flat, [one.numel() for one in alike]), strict=True):
                    one.copy_(part.view(one.shape))

    def wait(self, work: Any, doing: str) -> None:
        """Return when ``work`` is done.

        Args:
            work: what a collective of ``torch.distributed`` returned.
            doing: what it is for, as in "averaging gradients": for the message.

        Raises:
            RuntimeError: it failed, or a process is lost; the message names it.
        """
        while True:
            try:
                work.wait(timedelta(seconds=SLICE))
            except RuntimeError as error:
                if work.is_completed():
                    self._fail(work, doing, error)
                    return  # it was done just after this wait had ended
                if self._trouble():
                    raise self._lost(doing, None) from None
            else:
                return

    def wait_future(self, future: Any, doing: str) -> Any:
        """The value of ``future``, a ``torch.futures.Future``, when it is there. It raises what ``wait`` does."""
        done = Event()
        future.add_done_callback(lambda _: done.set())
        while not done.wait(SLICE):
            if self._trouble():
                raise self._lost(doing, None)
        try:
            return future.wait()
        except RuntimeError as error:
            raise self._lost(doing, error) from error

    def _fail(self, work: Any, doing: str, error: RuntimeError) -> None:
        """Raise if ``work``, which is completed, has failed."""
        try:
            work.wait()
        except RuntimeError:
            raise self._lost(doing, error) from error

    # Messages between processes.

    def tell(self, error: BaseException) -> None:
        """Tell the other processes that ``error`` ended the work of this one. It raises nothing."""
        if not self._told:
            self._told = True
            words = str(error).strip().partition("\n")[0]
            self.write(f"end/{self.rank}", f"raised {type(error).__name__}{': ' if words else ''}{words}")
            self.write("trouble", "yes")

    def _trouble(self) -> bool:
        """Whether a process has told that it is in trouble, or the store is gone with the process that keeps it."""
        try:
            return self.read("trouble") is not None
        except RuntimeError:
            return True

    def _lost(self, doing: str, error: RuntimeError | None) -> RuntimeError:
        """The error of this process, which waited in vain: it says which ranks ended, and why if they told."""
        if not self._told:
            self._told = True
            self.write(f"end/{self.rank}", "waited")
            self.write("trouble", "yes")
        reasons = self._roll_call()
        why = f" torch says: {error}" if error is not None and not reasons else ""
        found = "; ".join(reasons) or "the processes cannot reach one another, or the time limit of the group is over"
        made = RuntimeError(
            f"rank {self.rank} stopped while {doing}: {found}. The process group cannot be used any more: end all "
            f"processes, and start them again from a checkpoint; torchrun --max-restarts does both.{why}"
        )
        made.lost = True  # type: ignore[attr-defined]  # the other processes know already
        return made

    def _roll_call(self) -> list[str]:
        """A text on each rank that has raised, has ended or does not answer."""
        answers: dict[int, str] = {}
        until = monotonic() + ROLL_CALL
        try:
            while len(answers) < self.size and monotonic() < until:
                for rank in range(self.size):
                    if rank not in answers and (answer := self._answer(rank)) is not None:
                        answers[rank] = answer
                sleep(0.05)
        except RuntimeError:
            if answers.get(0) != "waited":
                answers[0] = "ended, and with it the store that the processes meet at"
        else:
            if self.rank == 0:
                sleep(2 * SLICE)  # the others read the store, which may end with this process
        silent = [rank for rank in range(self.size) if rank not in answers]
        reasons = [f"rank {rank} {text}" for rank, text in sorted(answers.items()) if text != "waited"]
        return reasons or [f"rank {rank} does not answer: it has ended, or is busy" for rank in silent]

    def _answer(self, rank: int) -> str | None:
        """The note of ``rank`` about its end; None while there is none, and it may still run.

        Raises:
            RuntimeError: the store is gone.
        """
        answer = self.read(f"end/{rank}")
        if answer is None and _has_ended(self.read(f"place/{rank}")):
            answer = self.read(f"end/{rank}") or "ended"
        return answer


def _by_kind(tensors: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    found: dict[Any, list[torch.Tensor]] = {}
    for one in tensors:
        found.setdefault((one.dtype, one.device), []).append(one)
    return list(found.values())


def _has_ended(place: str | None) -> bool:
    """Whether the process at ``place``, "host number", is known to have ended.

    This can be known only of a process on this machine.
    """
    host, _, number = (place or "").rpartition(" ")
    if not host or host != socket.gethostname() or os.name != "posix":
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return False


_latest: dict[str, Peers] = {}


def peers_of(group: Any, device: torch.device) -> Peers:
    """The processes of ``group``, as ``renewed_peers`` or the first call has made them."""
    found = _latest.get(str(group.group_name))
    return found if found is not None and found.group is group else renewed_peers(group, device)


def renewed_peers(group: Any, device: torch.device) -> Peers:
    """Make new ``Peers`` of ``group``, without any texts so far. All processes have to call this together.

    Args:
        group: the process group.
        device: where tensors are that the group can send.
    """
    _latest[str(group.group_name)] = made = Peers(group, device)
    return made
