"""A class on this machine: many kernels run a lesson at the same time. This measures their memory and their time.

``python -m benchmarks.classroom 10`` starts ten kernels, as a server would. Each runs the code cells of lesson 1, with
its solutions, over the kernel protocol. Memory is read from /proc when all have ended the lesson, so this needs Linux.
It is given as PSS: each of n processes that share a page counts 1/n of it, so sums are right.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any, NamedTuple

import nbformat
from jupyter_client.manager import AsyncKernelManager

LESSON = Path(__file__).parents[1] / "notebooks" / "solutions" / "01_slope.ipynb"
PICTURE = "image/svg+xml"


class Memory(NamedTuple):
    """The memory of a process, in MiB.

    Attributes:
        pss: the pages that it alone has, and its share of the pages that other processes have too.
        own: pages that no other process has.
    """

    pss: float
    own: float


class Seat(NamedTuple):
    """One kernel. Times are in seconds after the request for the kernel.

    Attributes:
        process: the number of the kernel's process.
        ready: when it answered.
        picture: when the first picture was there; None if no cell drew one.
        ended: when the last cell had ended.
        slowest: the seconds of the slowest cell after the first picture.
    """

    process: int
    ready: float
    picture: float | None
    ended: float
    slowest: float


class Class(NamedTuple):
    """All kernels of a class, and what each held when all had ended the lesson."""

    seats: list[Seat]
    memory: list[Memory]


def code_cells(lesson: Path) -> list[str]:
    """The code of a notebook, cell by cell."""
    notebook: Any = nbformat.reads(lesson.read_text(encoding="utf-8"), as_version=4)  # type: ignore[no-untyped-call]  # nbformat has no types
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def memory_of(process: int) -> Memory:
    """The memory of a process, as Linux counts it."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()[1:]
    pages = {line.split(":")[0]: int(line.split()[1]) / 1024 for line in lines}
    return Memory(pages["Pss"], pages["Private_Clean"] + pages["Private_Dirty"])


async def run_cell(client: Any, code: str, limit: float) -> bool:
    """Run one cell.

    Returns:
        Whether it drew a picture.

    Raises:
        RuntimeError: the cell raised; the message has its traceback.
        TimeoutError: it did not end within ``limit`` seconds.
    """
    drawn = False

    def see(message: dict[str, Any]) -> None:
        nonlocal drawn
        drawn = drawn or PICTURE in message["content"].get("data", {})

    reply = await client.execute_interactive(code, timeout=limit, output_hook=see)
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"a cell raised:\n{code}\n" + "\n".join(reply["content"].get("traceback", [])))
    return drawn


async def take_seat(manager: Any, cells: Sequence[str], limit: float) -> Seat:
    """Start a kernel, and run the lesson in it; the kernel goes on running."""
    begin = monotonic()
    await manager.start_kernel(stderr=asyncio.subprocess.DEVNULL)
    client = manager.client()
    client.start_channels()
    try:
        await client.wait_for_ready(timeout=limit)
        ready, picture, slowest = monotonic() - begin, None, 0.0
        for code in cells:
            before = monotonic()
            drawn = await run_cell(client, code, limit)
            now = monotonic()
            if picture is not None:
                slowest = max(slowest, now - before)
            elif drawn:
                picture = now - begin
        # The kernel itself gives its process id: a provisioner may have started it through another process.
        process = await _asked(client, "__import__('os').getpid()", limit)
        return Seat(int(process), ready, picture, monotonic() - begin, slowest)
    finally:
        client.stop_channels()


async def _asked(client: Any, expression: str, limit: float) -> str:
    reply = await client.execute_interactive("", user_expressions={"it": expression}, timeout=limit)
    return str(reply["content"]["user_expressions"]["it"]["data"]["text/plain"])


async def hold(count: int, cells: Sequence[str], *, kernel: str, apart: float, limit: float) -> Class:
    """Start ``count`` kernels, one every ``apart`` seconds. End them when all have completed the lesson."""
    with TemporaryDirectory() as folder:
        # The kernels use named sockets: another program could take a port after Jupyter has chosen it.
        names = [f"{folder}/{number}" for number in range(count)]
        managers = [AsyncKernelManager(kernel_name=kernel, transport="ipc", ip=name) for name in names]
        return await _hold(managers, cells, apart, limit)


async def _hold(managers: Sequence[Any], cells: Sequence[str], apart: float, limit: float) -> Class:
    async def enter(number: int) -> Seat:
        await asyncio.sleep(number * apart)
        return await take_seat(managers[number], cells, limit)

    try:
        seats = await asyncio.gather(*[enter(number) for number in range(len(managers))])
        return Class(list(seats), [memory_of(seat.process) for seat in seats])
    finally:
        await asyncio.gather(*[one.shutdown_kernel(now=True) for one in managers if one.has_kernel])


def report(held: Class) -> str:
    """A table of one row."""
    seats, memory = held.seats, held.memory
    pictures = sorted(seat.picture for seat in seats if seat.picture is not None)
    cells = [str(len(seats)), f"{sum(one.pss for one in memory):.0f} MiB"]
    cells += [f"{median(one.pss for one in memory):.0f} MiB", f"{median(one.own for one in memory):.0f} MiB"]
    cells += [f"{median(pictures):.1f} s, {pictures[-1]:.1f} s"] if pictures else ["none"]
    cells += [f"{max(seat.slowest for seat in seats):.1f} s", f"{max(seat.ended for seat in seats):.1f} s"]
    titles = "| kernels | PSS of all | PSS of one | its own pages | first picture: half, all | slowest cell | lesson |"
    return "\n".join([titles, "|---|---|---|---|---|---|---|", f"| {' | '.join(cells)} |"])


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classroom", description=__doc__)
    parser.add_argument("kernels", type=int, help="how many")
    parser.add_argument("--lesson", type=Path, default=LESSON, help="a notebook; default: lesson 1")
    parser.add_argument("--kernel", default="python3", help="the name of the kernel; default: %(default)s")
    parser.add_argument("--apart", type=float, default=0.0, help="seconds between two starts; default: at once")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for each cell; default: %(default)s")
    options = parser.parse_args(arguments)
    if options.kernels < 1:
        parser.error("kernels is to be 1 or more")
    cells = code_cells(options.lesson)
    held = asyncio.run(hold(options.kernels, cells, kernel=options.kernel, apart=options.apart, limit=options.limit))
    print(report(held))
    return 0


if __name__ == "__main__":
    sys.exit(main())
