"""The simulation of docs/scale.md: message by message, against formulas, and at its limits."""

from math import log2

import numpy as np
import pytest

from benchmarks import scale
from benchmarks.scale import Cluster, Link, Room, Times, Work, bucket_ends, held, ring, seats_in, sent, step, tree
from nbgrad import nn
from nbgrad.nn.parallel.buckets import filled_buckets

pytestmark = pytest.mark.once

SIZE, LINK = 3e6, Link(1e9, 2e-6)


def passed_round(starts: Times, size: float, link: Link) -> Times:
    """A ring, message by message."""
    processes, times = len(starts), starts
    for _ in range(2 * (processes - 1)):
        times = np.maximum(times, np.roll(times, 1)) + link.latency + size / processes / link.bandwidth
    return times


def passed_up_and_down(starts: Times, size: float, link: Link, pieces: int) -> Times:
    """A tree, piece by piece and link by link."""
    cost = link.latency + 2 * size / pieces / link.bandwidth
    times = [[float(start)] * pieces for start in starts]

    def arriving(ready: list[float]) -> list[float]:
        found, last = list[float](), 0.0
        for one in ready:
            last = max(one, last) + cost
            found.append(last)
        return found

    for process in range(len(starts) - 1, 0, -1):
        above = (process - 1) // 2
        times[above] = [max(pair) for pair in zip(times[above], arriving(times[process]), strict=True)]
    for process in range(1, len(starts)):
        times[process] = arriving(times[(process - 1) // 2])
    return np.array([one[-1] for one in times])


@pytest.mark.parametrize("processes", [1, 2, 3, 7, 8, 20])
@pytest.mark.parametrize("late", [0.0, 1e-3])
def test_the_times_are_those_of_single_messages(processes: int, late: float) -> None:
    starts = late * np.random.default_rng(processes).random(processes)
    np.testing.assert_allclose(ring(starts, SIZE, LINK), passed_round(starts, SIZE, LINK), rtol=1e-12)
    for pieces in (1, 5):
        expected = passed_up_and_down(starts, SIZE, LINK, pieces)
        np.testing.assert_allclose(tree(starts, SIZE, LINK, pieces), expected, rtol=1e-12)


@pytest.mark.parametrize("processes", [2, 16, 1024])
def test_a_ring_takes_as_long_as_its_formula_says(processes: int) -> None:
    expected = 2 * (processes - 1) / processes * SIZE / LINK.bandwidth + 2 * (processes - 1) * LINK.latency
    np.testing.assert_allclose(ring(np.zeros(processes), SIZE, LINK), expected, rtol=1e-12)


def test_a_tree_of_one_piece_goes_up_and_down() -> None:
    times = tree(np.zeros(127), SIZE, LINK, pieces=1)  # 7 full levels
    assert times.max() == pytest.approx(2 * log2(64) * (LINK.latency + 2 * SIZE / LINK.bandwidth), rel=1e-12)


def test_without_latency_neither_is_faster_than_the_link() -> None:
    """A process sends each byte twice, except for the part that it keeps in the end."""
    free = Link(1e9, 0.0)
    for processes in (2, 64, 1023):
        least = sent(SIZE, processes) / free.bandwidth
        assert ring(np.zeros(processes), SIZE, free).max() == pytest.approx(least, rel=1e-12)
        assert tree(np.zeros(processes), SIZE, free).max() >= least


def test_short_messages_are_faster_in_a_tree_and_long_ones_in_a_ring() -> None:
    starts = np.zeros(1024)
    assert tree(starts, 1e3, LINK).max() < 0.05 * ring(starts, 1e3, LINK).max()
    starts = np.zeros(8)
    assert ring(starts, 1e9, LINK).max() < tree(starts, 1e9, LINK).max()


@pytest.mark.parametrize("size", [1e4, 1e6, 1e8])
def test_the_number_of_pieces_is_the_best(size: float) -> None:
    starts = np.zeros(255)
    best = min(tree(starts, size, LINK, pieces).max() for pieces in range(1, 257))
    assert tree(starts, size, LINK).max() == pytest.approx(best, rel=0.01)


def test_computers_with_several_gpus_send_less_between_them() -> None:
    inner, outer = Link(1e12, 0.0), Link(1e9, 0.0)
    end = Cluster(4, 8, inner, outer, "ring").all_reduce(np.zeros((4, 8)), SIZE)
    expected = 2 * 7 / 8 * SIZE / inner.bandwidth + 2 * 3 / 4 * SIZE / 8 / outer.bandwidth
    np.testing.assert_allclose(end, expected, rtol=1e-12)
    flat = Cluster(32, 1, inner, outer, "ring").all_reduce(np.zeros((32, 1)), SIZE)
    assert end.max() < flat.max() / 7
    alone = Cluster(1, 8, inner, outer).all_reduce(np.zeros((1, 8)), SIZE)
    np.testing.assert_allclose(alone, 2 * 7 / 8 * SIZE / inner.bandwidth, rtol=1e-12)


def test_a_message_waits_for_the_latest_process() -> None:
    starts = np.zeros((4, 8))
    starts[2, 3] = 1.0
    cluster = Cluster(4, 8, algorithm="ring")
    late = cluster.all_reduce(starts, SIZE)
    np.testing.assert_allclose(late, 1 + cluster.all_reduce(np.zeros((4, 8)), SIZE), rtol=1e-12)


def test_buckets_are_those_of_distributed_data_parallel() -> None:
    net = nn.Sequential(*[nn.Linear(300, 300) for _ in range(9)])
    parameters = list(net.parameters())
    order = range(len(parameters) - 1, -1, -1)
    for caps in ((1 << 20, 25 << 20), (1 << 18,), (1 << 10, 1 << 21)):
        made = filled_buckets(order, parameters, caps)
        ends = bucket_ends([parameters[number].data.nbytes for number in order], caps)
        assert [len(one.numbers) for one in made] == np.diff([-1, *ends]).tolist()


WORK = Work(1.0, 2.0, 0.5, (1e6,) * 10)


def test_one_process_takes_the_time_of_its_work() -> None:
    found = step(WORK, Cluster(1, 1))
    assert (found.seconds, found.efficiency, found.sent, found.waited) == (3.5, 1.0, 0.0, 0.0)


def test_only_the_last_bucket_is_seen_when_messages_are_fast() -> None:
    """Nine of ten buckets travel while the backward computes; the last begins at its end."""
    link = Link(1e9, 0.0)
    found = step(WORK, Cluster(8, 1, link, link, "ring"), [1e6])
    last = 2 * 7 / 8 * 1e6 / 1e9
    assert found.buckets == 10
    assert found.seconds == pytest.approx(3.5 + last, rel=1e-12)
    assert found.hidden == pytest.approx(0.9, rel=1e-9)


def test_messages_are_all_that_counts_when_they_are_slow() -> None:
    link = Link(1e3, 0.0)
    found = step(WORK, Cluster(8, 1, link, link, "ring"), [1e6])
    first_ready = 1.0 + 2.0 / 10
    assert found.seconds == pytest.approx(first_ready + sent(1e7, 8) / 1e3 + 0.5, rel=1e-12)


def test_one_bucket_hides_nothing_and_tiny_ones_pay_latency() -> None:
    link = Link(1e9, 1e-3)
    cluster = Cluster(64, 1, link, link, "ring")
    many = Work(1.0, 2.0, 0.5, (1e5,) * 100)
    whole, middle, tiny = (step(many, cluster, [cap]) for cap in (1e9, 1e6, 1.0))
    assert whole.hidden == 0.0
    assert middle.seconds < whole.seconds
    assert middle.seconds < tiny.seconds
    assert (whole.buckets, middle.buckets, tiny.buckets) == (1, 10, 100)


def test_processes_of_different_speed_wait_for_the_slowest() -> None:
    uneven = Work(1.0, 2.0, 0.5, (1e6,) * 10, spread=0.02)
    few, many = (step(uneven, Cluster(nodes, 8)) for nodes in (1, 1000))
    assert 0 < few.waited < many.waited
    assert many.efficiency < few.efficiency < step(WORK, Cluster(1, 8)).efficiency
    assert step(uneven, Cluster(4)) == step(uneven, Cluster(4))


def test_bytes_sent_and_held() -> None:
    assert (sent(1.0, 1), sent(1.0, 2), sent(8.0, 8, ways=3)) == (0.0, 1.0, 21.0)
    assert held(3e9, 1).copies == 48e9
    assert held(3e9, 1000).shards == pytest.approx(48e6 + 0.8e9)


# A class.


def test_one_student_waits_for_her_own_cells() -> None:
    waits = Room(2, cell=0.5, think=10).waits(1)
    assert waits.mean() == pytest.approx(0.5, rel=0.02)
    assert Room(2, cell=0.5, think=10).mean_wait(1) == pytest.approx(0.5, rel=1e-12)


@pytest.mark.parametrize(("processors", "students"), [(1, 20), (4, 40), (4, 100), (16, 100)])
def test_waits_have_the_mean_of_the_formula(processors: int, students: int) -> None:
    room = Room(processors, cell=1.0, think=10)
    assert room.waits(students, 40_000)[students:].mean() == pytest.approx(room.mean_wait(students), rel=0.06)


def test_a_crowd_waits_for_the_processors() -> None:
    """With no time to think between cells, everyone waits for all others."""
    room = Room(4, cell=1.0, think=1e-6)
    assert room.mean_wait(200) == pytest.approx(200 / 4, rel=1e-3)


def test_seats_grow_with_processors_and_fit_the_limit() -> None:
    few, many = (Room(processors, cell=0.5, think=30).seats(3.0, most=600) for processors in (2, 8))
    assert 0 < few < many / 3
    assert Room(2, cell=5.0, think=30).seats(3.0, most=100) == 0
    assert (seats_in(8192, 300, 200), seats_in(100, 300, 200)) == (39, 0)


# The commands.


def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert scale.main(["training", "--gpus", "1", "4", "1024", "--parameters", "1e8", "--layers", "4"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split("|")[1].strip() for row in rows[2:]] == ["1", "4", "1,024"]
    assert scale.main(["class", "--students", "100", "--servers", "1x4", "1x0.1"]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert rows[2].startswith("| 1 processors, 4 GiB | 9 |")
    assert rows[3].endswith("| none is enough |")


def test_a_server_is_processors_by_memory(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        scale.main(["class", "--servers", "many"])
    assert "'many' is not of the form 8x32: processors, x, GiB" in capsys.readouterr().err
