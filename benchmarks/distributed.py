"""Data parallel training in two processes here: a step next to torch's, and how much sending the backward hides.

Torch's own step is also taken in a graph, and in one that compares the ranks.

Both wrappers are in the same two processes, over gloo, and take turns there. Each process computes in one thread.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

import nbgrad
from benchmarks.networks import NETWORKS, Step, drawn
from benchmarks.timing import Spread, ratios, time_of as time_text
from nbgrad.nn.parallel import reducer

TITLE = "data parallel training in two processes"
PROCESSES = 2
CALLS = 5
"""Steps in a row."""
LIBRARIES = {"torch": torch, "nbgrad": nbgrad}


def wide(library: Any) -> Step:
    """Six linear layers of 512 features on a batch of 256: 1.6 million parameters."""
    nn = library.nn
    model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(512, 512), nn.Tanh())])
    x = drawn(library, 256, 512)
    return Step(library, model, lambda model: model(x).square().mean())


STEPS: dict[str, tuple[Callable[[Any], Step], str]] = {
    "wide": (wide, str(wide.__doc__)),
    **{name: NETWORKS[name] for name in ("cnn", "transformer")},
}
CAP = 0.25
"""The size of a bucket in MiB: small, so that even these small networks have several buckets."""


class Journey(NamedTuple):
    """One bucket of a backward: when it was sent, and when its average arrived, in seconds after the backward began."""

    sent: float
    arrived: float


class Trace(NamedTuple):
    """One backward of nbgrad. Times are in seconds after it began.

    Attributes:
        computed: when the last gradient rule had run.
        ended: when ``backward()`` returned.
        journeys: those of the buckets.
    """

    computed: float
    ended: float
    journeys: list[Journey]

    @property
    def hidden(self) -> float:
        """How much of the time with a bucket on its way the backward was still computing, as a share."""
        travelling = union(self.journeys)
        before = union([Journey(one.sent, min(one.arrived, self.computed)) for one in self.journeys])
        return before / travelling if travelling else 1.0


def union(journeys: list[Journey]) -> float:
    """For how many seconds at least one bucket was on its way."""
    total, until = 0.0, 0.0
    for one in sorted(journeys):
        total += max(0.0, one.arrived - max(one.sent, until))
        until = max(until, one.arrived)
    return total


def wrapped(make: Callable[[Any], Step], library: Any) -> Step:
    """The step of ``make``. Its model is in the DistributedDataParallel of the library."""
    step = make(library)
    step.model = library.nn.parallel.DistributedDataParallel(step.model, bucket_cap_mb=CAP)
    return step


def traced(step: Step) -> Trace:
    """The trace of one backward of nbgrad's."""
    begin, journeys, computed = 0.0, list[list[float]](), list[float]()
    peers, waits = step.model._peers, reducer.BucketReducer.wait
    sends = peers.all_reduce

    def send(data: torch.Tensor, *rest: Any) -> Any:
        journey = [perf_counter() - begin]
        journeys.append(journey)
        work = sends(data, *rest)
        work.get_future().add_done_callback(lambda _: journey.append(perf_counter() - begin))
        return work

    def wait(self: reducer.BucketReducer) -> None:
        computed.append(perf_counter() - begin)
        waits(self)

    step.zero_grad()
    loss = step.forward()
    dist.barrier()
    peers.all_reduce = send
    reducer.BucketReducer.wait = wait  # type: ignore[method-assign]  # until the end of this measurement
    try:
        begin = perf_counter()
        loss.backward()
        ended = perf_counter() - begin
    finally:
        del peers.all_reduce
        reducer.BucketReducer.wait = waits  # type: ignore[method-assign]  # its own again
    return Trace(computed[0], ended, [Journey(sent, (*arrived, ended)[0]) for sent, *arrived in journeys])


def time_of(step: Step) -> float:
    """The seconds of a step, in both processes together."""
    dist.barrier()
    begin = perf_counter()
    for _ in range(CALLS):
        step()
    dist.barrier()
    return (perf_counter() - begin) / CALLS


GRAPHS: dict[str, dict[str, Any]] = {"recorded": {"every": 1}, "compared": {"ranks": True}}
"""The options of the graphs in which torch's step is taken."""


def in_a_graph(step: Step, options: dict[str, Any]) -> float:
    """The seconds of a step in an open graph, in both processes together."""
    with nbgrad.record(view="none", **options):
        step()
        return time_of(step)


def child(rank: int, place: str, rounds: int) -> None:
    """The work of each process; the first prints the times and the traces."""
    torch.set_num_threads(1)
    limit = timedelta(seconds=120)
    dist.init_process_group("gloo", init_method=place, rank=rank, world_size=PROCESSES, timeout=limit)
    found = {}
    for name, (make, _) in STEPS.items():
        steps = {who: wrapped(make, library) for who, library in LIBRARIES.items()}
        losses = [[float(step().detach()) for _ in range(3)] for step in steps.values()]
        if any(abs(one - other) > 1e-3 * abs(one) for one, other in zip(*losses, strict=True)):
            raise RuntimeError(f"{name}: the losses differ, {losses}")
        ways = {who: partial(time_of, step) for who, step in steps.items()}
        ways |= {who: partial(in_a_graph, steps["torch"], options) for who, options in GRAPHS.items()}
        times: dict[str, list[float]] = {who: [] for who in ways}
        for number in range(rounds):
            for who in list(ways)[:: 1 if number % 2 else -1]:
                times[who].append(ways[who]())
        traces = [traced(steps["nbgrad"]) for _ in range(rounds)]
        middle = sorted(traces, key=lambda one: one.hidden)[len(traces) // 2]
        found[name] = {"times": times, "trace": middle}
    if rank == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


class Measured(NamedTuple):
    """The measurements of one network: the seconds of a step, taken in each way, and a trace of nbgrad's backward."""

    times: dict[str, list[float]]
    trace: Trace


def steps(rounds: int) -> dict[str, Measured]:
    """The times and a trace of each network, from two processes."""
    with tempfile.TemporaryDirectory() as folder:
        command = partial(_command, f"file://{folder}/meeting", rounds)
        others = [subprocess.Popen(command(rank)) for rank in range(1, PROCESSES)]
        try:
            done = subprocess.run(command(0), stdout=subprocess.PIPE, text=True, check=True)
        finally:
            for one in others:
                one.wait(60)
    found: dict[str, Measured] = {}
    for name, one in json.loads(done.stdout.splitlines()[-1]).items():
        computed, ended, journeys = one["trace"]
        found[name] = Measured(one["times"], Trace(computed, ended, [Journey(*two) for two in journeys]))
    return found


def _command(place: str, rounds: int, rank: int) -> list[str]:
    return [sys.executable, "-m", "benchmarks.distributed", str(rank), place, str(rounds)]


def markdown(found: dict[str, Measured]) -> str:
    """A table of the times, and a trace of each."""
    lines = [
        f"## {TITLE.capitalize()}",
        "",
        "| | torch | nbgrad | times torch | half within | time on the way that the backward hides "
        "| torch, recorded | and ranks compared |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, one in found.items():
        ratio = ratios(one.times["nbgrad"], one.times["torch"])
        middles = [time_text(Spread.of(one.times[who]).middle) for who in LIBRARIES]
        cells = [name, *middles, f"**{ratio.middle:.2f}**", f"{ratio.low:.2f} to {ratio.high:.2f}"]
        graphs = [f"{ratios(one.times[who], one.times['torch']).middle:.2f}" for who in GRAPHS]
        lines.append(f"| {' | '.join([*cells, f'{one.trace.hidden:.0%}', *graphs])} |")
    for name, one in found.items():
        lines += ["", f"A backward of {name}:", "", "```text", drawn_trace(one.trace), "```"]
    return "\n".join(lines)


WIDTH = 60


def drawn_trace(trace: Trace) -> str:
    """A trace as text: a row for the rules, and one for each bucket."""
    scale = WIDTH / max(trace.ended, *[one.arrived for one in trace.journeys])

    def row(what: str, begin: float, end: float, sign: str) -> str:
        first, last = round(begin * scale), max(round(end * scale), round(begin * scale) + 1)
        bar = f"{' ' * first}{sign * (last - first)}"
        return f"{what:<10}|{bar:<{WIDTH}}| {begin * 1e3:6.2f} to {end * 1e3:6.2f} ms"

    rows = [row("rules", 0, trace.computed, "=")]
    rows += [row(f"bucket {number}", *one, "-") for number, one in enumerate(trace.journeys)]
    return "\n".join(rows)


if __name__ == "__main__":
    child(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
