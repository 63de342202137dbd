"""Graphs that compare the ranks: norms, spread, buckets and waits are those of the gradients before the average."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.ranks import RankedBucket, RankedParameter, RankPart, RankRecorder, numbers_text
from tests.nn.parallel import compared
from tests.nn.parallel.processes import values

pytestmark = pytest.mark.once


@pytest.mark.parametrize("settings", [{}, {"gradient_as_bucket_view": True, "find_unused_parameters": True}])
def test_the_ranks_are_compared(settings: dict[str, Any]) -> None:
    first, second = values(compared.compared, 2, 1, settings)
    ranks, _, _ = first
    assert (ranks.rank, second[0].rank, ranks.size) == (0, 1, 2)
    assert (ranks.parameters, ranks.buckets) == (second[0].parameters, second[0].buckets)
    alone = [compared.local_gradients(rank) for rank in range(2)]
    assert {one.name for one in ranks.parameters} == set(alone[0])
    for one in ranks.parameters:
        mine, other = alone[0][one.name], alone[1][one.name]
        average = (mine + other) / 2
        distance = ((mine - average).square().sum() + (other - average).square().sum()).item() / 2
        assert one.norms == pytest.approx((mine.norm().item(), other.norm().item()), rel=1e-5)
        assert one.average == pytest.approx(average.norm().item(), rel=1e-5)
        assert one.spread == pytest.approx(distance**0.5 / average.norm().item(), rel=1e-3)
        assert one.name in ranks.buckets[one.bucket].parameters
    assert [bucket.number for bucket in ranks.buckets] == list(range(len(ranks.buckets)))
    assert len(ranks.buckets) > 1
    assert sum(bucket.bytes for bucket in ranks.buckets) == 4 * (4 * 8 + 8 + 8 + 1)


def test_a_late_rank_is_waited_for() -> None:
    (ranks, _, shown), _ = values(compared.compared, 2, 1, {})
    bucket = ranks.buckets[0]
    assert bucket.last == 1
    assert bucket.waits is not None
    assert bucket.waits[0] > 0.2
    assert bucket.waits[1] == 0
    lines = [line for [line] in shown["details"].values() if f"bucket {bucket.number} of" in line]
    assert lines
    assert all(re.search(r", waited for rank 1 up to \d+ ms$", line) for line in lines)


def test_a_gradient_that_is_asked_for_is_not_given_away() -> None:
    for terms, hidden in values(compared.asked, 2):
        assert hidden >= 4
        assert terms.count("shape") == hidden
        assert "ranks" not in terms


def test_the_view_has_overlays_and_lines() -> None:
    (ranks, notes, shown), (_, others, _) = values(compared.compared, 2, None, {})
    assert notes[0].startswith(f"Rank 0 of 2. It sent 196 B in {len(ranks.buckets)} buckets. Before averaging, the ")
    assert others[0].startswith("Rank 1 of 2.")
    widest = max(ranks.parameters, key=lambda one: one.spread)
    assert f"the gradients of {widest.name} differ most" in notes[0]
    overlays = shown["overlays"]
    assert overlays["spread"]["label"] == "spread of gradients over ranks (log)"
    assert len(overlays["bucket"]["classes"]) == len(ranks.buckets)
    assert all(re.fullmatch(r"bucket \d, \d+ B", one) for one in overlays["bucket"]["classes"])
    assert len(shown["levels"]) == 4
    assert all({"spread", "bucket"} <= set(levels) for levels in shown["levels"].values())
    assert len(shown["details"]) == 4
    for [line] in shown["details"].values():
        assert re.match(r"norms \S+, \S+, average \S+, spread \S+; bucket \d of \d, \d+ B", line)


def test_rank_0_alone_shows_what_was_compared(tmp_path: Path) -> None:
    first, second = values(compared.shown, 2, str(tmp_path))
    assert first == ["compared", "stopped", "alone", "alone0", "compared0", "stopped0"]
    assert second == ["", "stopped", "alone", "alone1", "stopped1"]


def test_equal_gradients_have_no_spread() -> None:
    for ranks, notes in values(compared.equal, 2):
        assert [one.spread for one in ranks.parameters] == [0.0] * 4
        assert "Before averaging, the gradients were equal in all ranks." in notes[0]


def test_gradients_that_cancel_out_have_no_finite_spread() -> None:
    for ranks in values(compared.cancelled, 2):
        [one] = ranks.parameters
        assert (one.norms, one.average, one.spread) == ((2.0, 2.0), 0.0, float("inf"))


def test_what_adds_up_counts() -> None:
    for rank, (ranks, gradients) in enumerate(values(compared.accumulated, 2)):
        for one in ranks.parameters:
            assert one.norms[rank] == pytest.approx(2 * gradients[one.name].norm().item(), rel=1e-5)


def test_a_rank_that_does_not_compare_is_named_and_nothing_hangs() -> None:
    first, second = values(compared.one_asks, 2)
    assert "rank 1 has sent no figures of this backward. Open nbgrad.record(ranks=True)" in first
    assert first.count("rank 1 has sent no figures") == 2  # the picture says so too
    assert "does not compare ranks: open it in every process with nbgrad.record(ranks=True), or %%auto" in second


def test_a_module_that_is_not_wrapped() -> None:
    for error, notes in values(compared.not_wrapped, 2):
        assert "no backward in it averaged gradients over processes. Wrap the module in" in error
        assert any("no backward in it averaged gradients" in note for note in notes)


def test_a_graph_for_each_step() -> None:
    first, second = values(compared.many_graphs, 2)
    assert first == second
    assert first == pytest.approx([number + 1.0 for number in range(20)])


# In one process.


def test_without_a_process_group() -> None:
    for make in (AutogradGraph, nbgrad.record):
        with pytest.raises(RuntimeError, match="ranks=True compares the processes of a group, and there is none: call"):
            make(ranks=True)
    with pytest.raises(ValueError, match="ranks='yes': it has to be True or False"):
        nbgrad.record(ranks="yes")  # type: ignore[arg-type]
    with AutogradGraph() as graph, pytest.raises(RuntimeError, match="open it in every process"):
        graph.ranks()


class OneStore:
    """The store of a process that is alone. ``texts`` is what other processes would have put there."""

    rank, size = 0, 2

    def __init__(self, texts: dict[str, str]) -> None:
        self.texts = texts

    def leave(self, key: str, text: str) -> None:
        self.texts.setdefault(key, text)
        self.texts.setdefault(key[:-1] + "1", text)

    def read(self, key: str) -> str | None:
        return self.texts.get(key)


PART = RankPart(["w"], [(8, 1)], [1.0], [1.0], [0.5], 1e-7)


def test_ranks_with_other_parameters_are_named() -> None:
    other = '{"names": ["v"], "buckets": [[8, 1]], "norms": [1], "averages": [1], "journeys": null, "precision": 1}'
    recorder = RankRecorder("mine")
    recorder.add(OneStore({"ranks/0/1": other}), 0, PART, [1])
    with pytest.raises(RuntimeError, match="'mine' cannot compare the ranks: rank 1 has other parameters in its last"):
        recorder.ranks()


def test_a_store_that_is_gone_is_an_error_at_once() -> None:
    class Gone(OneStore):
        def read(self, key: str) -> str | None:
            raise RuntimeError("connection reset")

    recorder = RankRecorder("mine")
    recorder.add(Gone({}), 0, PART, [1])
    with pytest.raises(RuntimeError, match=r"rank 0 has sent no figures .* in every process \(connection reset\)"):
        recorder.ranks()


def test_the_last_backward_counts_and_clear_forgets() -> None:
    recorder = RankRecorder("mine")
    recorder.on_backward_begin([])
    recorder.add(OneStore({}), 0, PART, [1])
    recorder.add(OneStore({}), 0, PART._replace(names=["v"]), [2])  # another module in the same backward
    assert [(place, one.name, one.bucket) for place, one in recorder.places] == [(1, "w", 0), (2, "v", 1)]
    recorder.on_backward_begin([])
    recorder.add(OneStore({}), 1, PART, [1])
    assert [one.name for one in recorder.ranks().parameters] == ["w"]
    recorder.forget()
    with pytest.raises(RuntimeError, match="no backward in it averaged"):
        recorder.ranks()


def test_the_texts() -> None:
    assert numbers_text((1.0, 2.5)) == "1, 2.5"
    assert numbers_text(tuple(float(one) for one in range(20))) == "0 (rank 0) to 19 (rank 19)"
    bucket = RankedBucket(0, 12, ("w",), (0.25, 0.0))
    parameter = RankedParameter("w", 0, (1.0, 2.0), 1.5, 1 / 3)
    text = str(compared.Ranks(0, 2, (parameter,), (bucket,)))
    assert text == (
        "rank 0 of 2\nbucket 0: 12 bytes, rank 1 was last, others waited up to 250 ms\n  w: norms 1, 2, spread 0.333"
    )
    assert RankedBucket(0, 12, ("w",), None).last is None
    with pytest.raises(KeyError, match="no parameter is called 'x': there are w"):
        compared.Ranks(0, 2, (parameter,), (bucket,)).parameter("x")
    assert torch.distributed.is_initialized() is False
