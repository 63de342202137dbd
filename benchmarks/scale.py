"""Training on many GPUs, and classes on many servers: simulated from figures that one machine gives.

No process is started and no number is computed on a GPU. Messages between processes and cells of students are events
with a time. ``python -m benchmarks.scale training`` and ``python -m benchmarks.scale class`` print the tables of
docs/scale.md; every figure that they begin with is an argument.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from math import ceil, inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]

MEBIBYTE = 1 << 20

MOST_PIECES = 256
"""The largest number of pieces of a message in a tree."""

# Messages.


class Link(NamedTuple):
    """The connection over which one process sends.

    Attributes:
        bandwidth: bytes a second, in each direction at once.
        latency: seconds that a message takes, however short it is.
    """

    bandwidth: float
    latency: float


def ring(starts: Times, size: float, link: Link) -> Times:
    """When each process has the sum of all, if each passes parts to its right neighbour only.

    A message is cut into as many parts as there are processes. Each part goes round twice: it is added up on the first
    way, and handed out on the second.

    Args:
        starts: when each process begins, in seconds, of shape (..., processes): each row is a ring of its own.
        size: the bytes of the message.
        link: from each process to the next.
    """
    processes = starts.shape[-1]
    return _rounds(starts, 2 * (processes - 1), link.latency + size / processes / link.bandwidth)


def _rounds(starts: Times, count: int, cost: float) -> Times:
    """When each process of a ring has passed on ``count`` parts, each of which takes ``cost`` seconds.

    A process passes a part on when it has the part before. So its time is that of the latest among its ``count`` left
    neighbours, plus the cost of all parts. Here these neighbours are all processes of the ring.
    """
    return np.broadcast_to(starts.max(axis=-1, keepdims=True) + count * cost, starts.shape)


def tree(starts: Times, size: float, link: Link, pieces: int | None = None) -> Times:
    """When each process has the sum of all, if sums go up a binary tree and the result comes down.

    The message is cut into pieces, and a process passes a piece on while it receives the next. As in the double binary
    tree of NCCL, a process sends and receives each byte twice: a piece takes two times its bytes over the bandwidth.

    Args:
        starts: when each process begins, in seconds, of shape (..., processes): each row is a tree of its own, in which
            process n is below process (n - 1) // 2.
        size: the bytes of the message.
        link: between a process and the one above it.
        pieces: how many pieces; default: the number that is fastest.
    """
    if starts.shape[-1] == 1:
        return starts
    depths = np.floor(np.log2(np.arange(starts.shape[-1]) + 1))
    pieces = pieces or best_pieces(size, link, int(2 * depths[-1]))
    cost = link.latency + 2 * size / pieces / link.bandwidth
    at_top = starts + depths * cost  # when the first piece of each process could be there; the others follow one by one
    ends: Times = at_top.max(axis=-1, keepdims=True) + (depths + pieces - 1) * cost
    ends[..., 0] = np.maximum(starts[..., 0], at_top[..., 1:].max(axis=-1) + (pieces - 1) * cost)
    return ends


def best_pieces(size: float, link: Link, depth: int) -> int:
    """How many pieces are fastest through ``depth`` links: large pieces wait longer, and each piece costs a latency."""
    if depth < 2:
        return 1
    if not link.latency:
        return MOST_PIECES
    return min(max(round(sqrt((depth - 1) * 2 * size / link.bandwidth / link.latency)), 1), MOST_PIECES)


AllReduce = Callable[[Times, float, Link], Times]

ALGORITHMS: dict[str, AllReduce] = {"ring": ring, "tree": tree}


NVLINK = Link(450e9, 3e-6)
NETWORK = Link(50e9, 10e-6)


@dataclass(frozen=True)
class Cluster:
    """Computers with several GPUs each.

    Attributes:
        nodes: how many computers.
        per_node: GPUs of each.
        inner: from a GPU to others of its computer.
        outer: from a GPU to those with the same number in other computers.
        algorithm: between computers: "ring", "tree", or "faster" for the faster of both, message by message.
    """

    nodes: int
    per_node: int = 8
    inner: Link = NVLINK
    outer: Link = NETWORK
    algorithm: str = "faster"

    @property
    def processes(self) -> int:
        """The number of processes: one for each GPU."""
        return self.nodes * self.per_node

    def all_reduce(self, starts: Times, size: float) -> Times:
        """When each process has the sum; ``starts`` and the result have the shape (nodes, per_node).

        The GPUs of a computer add up their parts, so that each has the sum of one part. Each part is summed between the
        computers, over the link of its GPU. Then the GPUs of a computer hand out the parts.
        """
        cost = self.inner.latency + size / self.per_node / self.inner.bandwidth
        times = _rounds(starts, self.per_node - 1, cost)
        if self.nodes > 1:
            times = self._between(times.T, size / self.per_node).T
        return _rounds(times, self.per_node - 1, cost)

    def _between(self, starts: Times, size: float) -> Times:
        ways = ALGORITHMS.values() if self.algorithm == "faster" else [ALGORITHMS[self.algorithm]]
        return min((way(starts, size, self.outer) for way in ways), key=lambda times: float(times.max()))


# A step of training.


@dataclass(frozen=True)
class Work:
    """The work of each process in a step.

    Attributes:
        forward: seconds.
        backward: seconds, without messages.
        update: seconds of the optimizer.
        gradients: the bytes of each gradient, in the order in which they are ready. Each takes a share of the backward
            as large as its share of the bytes.
        spread: how much slower a process may be than the others: the standard deviation of its time over the mean.
    """

    forward: float
    backward: float
    update: float
    gradients: tuple[float, ...]
    spread: float = 0.0

    @property
    def alone(self) -> float:
        """The seconds of a step of one process that sends nothing."""
        return self.forward + self.backward + self.update


def transformer(
    parameters: float, layers: int, *, tokens: float, flops: float, ratio: float = 1.0, bytes_each: int = 4
) -> Work:
    """The step of a transformer without embeddings: six operations for each parameter and token.

    Args:
        parameters: how many.
        layers: how many. Each has four matrices, whose sizes are as 3 : 1 : 4 : 4.
        tokens: the part of the batch of one process.
        flops: operations a second that the GPU really makes.
        ratio: how much longer a step takes in nbgrad.
        bytes_each: of one number of a gradient, as it is sent.
    """
    forward = 2 * parameters * tokens / flops * ratio
    parts = [parameters / layers * part / 12 for part in (4, 4, 1, 3)]  # from the last matrix of a layer to the first
    # The optimizer reads and writes four numbers for each parameter, from a memory of 3.3e12 bytes a second.
    return Work(forward, 2 * forward, parameters * 32 / 3.3e12, tuple(bytes_each * part for part in parts * layers))


def bucket_ends(gradients: Sequence[float], caps: Sequence[float]) -> list[int]:
    """The number of the last gradient of each bucket.

    Args:
        gradients: their bytes, in the order in which they are ready.
        caps: how many bytes a bucket may have before it is closed: the first, the second, and the last for the rest.
    """
    ends, held = list[int](), 0.0
    for number, size in enumerate(gradients):
        held += size
        if held >= caps[min(len(ends), len(caps) - 1)]:
            ends.append(number)
            held = 0.0
    return ends if held == 0 else [*ends, len(gradients) - 1]


class Step(NamedTuple):
    """A simulated step.

    Attributes:
        seconds: until the slowest process is done.
        efficiency: the seconds of one process that sends nothing, divided by ``seconds``.
        hidden: in the slowest process, how much of the time with a message on its way the backward still computes, as a
            share.
        waited: seconds that the fastest process waits for the slowest before any message can be complete.
        sent: the bytes that each process sends.
        buckets: how many messages.
    """

    seconds: float
    efficiency: float
    hidden: float
    waited: float
    sent: float
    buckets: int


def step(work: Work, cluster: Cluster, caps: Sequence[float] = (MEBIBYTE, 25 * MEBIBYTE), seed: int = 0) -> Step:
    """One step of data parallel training: a bucket is sent when its gradients are ready and the last one arrived."""
    shape = (cluster.nodes, cluster.per_node)
    slowness = 1 + work.spread * np.abs(np.random.default_rng(seed).standard_normal(shape))
    ends = bucket_ends(work.gradients, caps)
    done = np.cumsum(work.gradients)
    computed = slowness * (work.forward + work.backward)
    free: Times = np.zeros(shape)
    travelling = before = 0.0
    for first, last in zip([-1, *ends], ends, strict=False):
        ready = slowness * (work.forward + work.backward * done[last] / done[-1])
        size = float(done[last] - (done[first] if first >= 0 else 0.0))
        starts = np.maximum(ready, free)
        free = cluster.all_reduce(starts, size) if cluster.processes > 1 else starts
        slowest = np.unravel_index(np.argmax(computed), shape)
        begun, arrived = float(starts[slowest]), float(free[slowest])
        travelling += arrived - begun
        before += max(0.0, min(arrived, float(computed[slowest])) - begun)
    seconds = float((np.maximum(free, computed) + work.update).max())
    return Step(
        seconds,
        work.alone / seconds,
        before / travelling if travelling else 1.0,
        float(computed.max() - computed.min()),
        sent(float(done[-1]), cluster.processes),
        len(ends),
    )


def sent(size: float, processes: int, ways: int = 2) -> float:
    """The bytes that each process sends for ``size`` bytes of parameters.

    Args:
        size: bytes.
        processes: how many.
        ways: how often each part goes round: 2 for an all-reduce, 3 for sharded parameters. Those are collected once
            for the forward and once for the backward, and their gradients are added up once.
    """
    return ways * (processes - 1) / processes * size


class Held(NamedTuple):
    """The bytes that each GPU holds besides activations, for parameters in float32 that Adam trains."""

    copies: float
    shards: float


def held(parameters: float, processes: int) -> Held:
    """The bytes with a copy of the parameters in each process, and with a shard in each process.

    A parameter takes 16 bytes: itself, its gradient and the two averages of Adam. With shards, two layers of about 64
    are whole at a time. So a thirtieth of all parameters counts once more, with 8 bytes: itself and its gradient.
    """
    return Held(16 * parameters, 16 * parameters / processes + 8 * parameters / 30)


# A class.


@dataclass(frozen=True)
class Room:
    """Students on one server.

    Attributes:
        processors: of the server.
        cell: seconds of one processor that a cell takes, on average; times are exponential.
        think: seconds that a student takes from the end of one cell to the next, on average; also exponential.
    """

    processors: int
    cell: float
    think: float

    def waits(self, students: int, cells: int = 20_000, seed: int = 0) -> Times:
        """The seconds from the start of each cell to its end, cell by cell.

        Cells that run at the same time share the processors evenly, one processor each at most.
        """
        random = np.random.default_rng(seed)
        thinking = list(random.exponential(self.think, students))
        heapify(thinking)
        running: list[tuple[float, float]] = []  # by cell: the value of ``given`` at its end; its start
        given = now = 0.0
        found = list[float]()
        while len(found) < cells:
            rate = min(1.0, self.processors / len(running)) if running else 0.0
            ends = now + (running[0][0] - given) / rate if running else inf
            starts = thinking[0] if thinking else inf
            given += (min(ends, starts) - now) * rate
            now = min(ends, starts)
            if ends <= starts:
                found.append(now - heappop(running)[1])
                heappush(thinking, now + random.exponential(self.think))
            else:
                heappop(thinking)
                heappush(running, (given + random.exponential(self.cell), now))
        return np.array(found)

    def mean_wait(self, students: int) -> float:
        """The mean of ``waits`` in the long run, by the formula of the machine-repairman model."""
        running = np.arange(students + 1)
        working = np.minimum(running, self.processors)
        began = (students - running[1:] + 1) / self.think
        logs = np.concatenate([[0.0], np.cumsum(np.log(began * self.cell / working[1:]))])
        chances = np.exp(logs - logs.max())
        ended = (chances * working).sum() / chances.sum() / self.cell  # cells that end in a second
        return float(students / ended - self.think)

    def seats(self, limit: float, most: int = 4096) -> int:
        """The largest number of students for whom 19 of 20 cells end within ``limit`` seconds, or 0."""
        fits, fails = 0, most + 1
        while fails - fits > 1:
            students = (fits + fails) // 2
            cells = self.waits(students, max(4000, 4 * students))
            if np.quantile(cells[students:], 0.95) <= limit:  # without the first cells: they all begin together
                fits = students
            else:
                fails = students
        return fits


def seats_in(memory: float, shared: float, each: float) -> int:
    """How many kernels fit into ``memory``, if ``shared`` bytes are there once and ``each`` kernel has more."""
    return max(0, int((memory - shared) // each))


# The tables.


def training_table(options: argparse.Namespace) -> str:
    """One row for each number of GPUs."""
    caps = [one * MEBIBYTE for one in options.caps]
    rows = [
        "| GPUs | sent by each | step | of it computing | hidden | ring alone | tree alone |",
        "|---|---|---|---|---|---|---|",
    ]
    work = transformer(
        options.parameters,
        options.layers,
        tokens=options.tokens,
        flops=options.flops,
        ratio=options.ratio,
        bytes_each=options.bytes,
    )
    work = replace(work, spread=options.spread)
    for gpus in options.gpus:
        nodes, per_node = max(1, gpus // options.per_node), min(gpus, options.per_node)
        made = {
            algorithm: step(work, _cluster(options, nodes, per_node, algorithm), caps)
            for algorithm in ("faster", "ring", "tree")
        }
        best = made["faster"]
        cells = [f"{gpus:,}", f"{best.sent / 1e9:.2f} GB", f"{best.seconds * 1e3:.0f} ms", f"{best.efficiency:.0%}"]
        cells += [f"{best.hidden:.0%}", *[f"{made[one].efficiency:.0%}" for one in ("ring", "tree")]]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _cluster(options: argparse.Namespace, nodes: int, per_node: int, algorithm: str) -> Cluster:
    inner = Link(options.inner * 1e9, options.inner_latency * 1e-6)
    outer = Link(options.outer * 1e9, options.outer_latency * 1e-6)
    return Cluster(nodes, per_node, inner, outer, algorithm)


def class_table(options: argparse.Namespace) -> str:
    """One row for each kind of server."""
    rows = ["| server | memory holds | processors serve | servers |", "|---|---|---|---|"]
    for processors, memory in options.servers:
        room = Room(processors, options.cell, options.think)
        holds = seats_in(memory * 1024 - options.system, options.shared, options.each)
        serves = room.seats(options.limit)
        seats = min(holds, serves)
        here = ceil(options.students * options.present)
        cells = [f"{processors} processors, {memory:g} GiB", f"{holds:,}", f"{serves:,}"]
        cells.append(f"{ceil(here / seats):,}" if seats else "none is enough")
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _server(text: str) -> tuple[int, float]:
    processors, _, memory = text.partition("x")
    try:
        return int(processors), float(memory)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form 8x32: processors, x, GiB") from None


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    one = parts.add_parser("training", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    one.add_argument("--gpus", type=int, nargs="+", default=[1, 8, 64, 1024, 8192], help="numbers of GPUs")
    one.add_argument("--parameters", type=float, default=1.5e9, help="of a transformer")
    one.add_argument("--layers", type=int, default=48, help="of it")
    one.add_argument("--tokens", type=float, default=8192, help="in the batch of one GPU")
    one.add_argument("--flops", type=float, default=4e14, help="operations a second that a GPU really makes")
    one.add_argument("--ratio", type=float, default=1.17, help="time of nbgrad over torch's, measured on one GPU")
    one.add_argument("--bytes", type=int, default=4, help="of a number as it is sent; 2 with fp16_compress_hook")
    one.add_argument("--spread", type=float, default=0.02, help="of the speed of processes")
    one.add_argument("--caps", type=float, nargs="+", default=[1, 25], help="MiB of the first and of other buckets")
    one.add_argument("--per-node", type=int, default=8, help="GPUs of a computer")
    one.add_argument("--inner", type=float, default=450, help="GB a second from a GPU to others of its computer")
    one.add_argument("--inner-latency", type=float, default=3, help="microseconds of a message there")
    one.add_argument("--outer", type=float, default=50, help="GB a second from a GPU to other computers")
    one.add_argument("--outer-latency", type=float, default=10, help="microseconds of a message there")
    other = parts.add_parser("class", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    other.add_argument("--students", type=int, default=10_000, help="in the course")
    other.add_argument("--present", type=float, default=0.3, help="the share of them that works at the same time")
    other.add_argument("--shared", type=float, default=430, help="MiB that all kernels of a server share")
    other.add_argument("--each", type=float, default=175, help="MiB that each student adds")
    other.add_argument("--system", type=float, default=2048, help="MiB for the system and the hub")
    other.add_argument("--cell", type=float, default=0.5, help="seconds of a processor that a cell takes")
    other.add_argument("--think", type=float, default=30, help="seconds between the cells of a student")
    other.add_argument("--limit", type=float, default=3.0, help="seconds within which 19 of 20 cells are to end")
    servers = [(4, 8.0), (8, 32.0), (32, 128.0), (64, 256.0)]
    other.add_argument("--servers", type=_server, nargs="+", default=servers, help="such as 8x32: processors, GiB")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Print one of the tables."""
    options = parse(arguments)
    print(training_table(options) if options.part == "training" else class_table(options))
    return 0


if __name__ == "__main__":
    sys.exit(main())
