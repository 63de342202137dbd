"""Graphs that compare the ranks: norms, spread, buckets and waits are those of the gradients before the average."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.graph.graph import AutogradGraph
from nbgrad.core.graph.rank_part import GroupStore, RankPart, bit_sum, norm_of
from nbgrad.core.graph.rank_recorder import RankRecorder
from nbgrad.core.graph.ranks import RankedBucket, RankedParameter, Ranks, compare, numbers_text
from tests.nn.parallel import compared
from tests.nn.parallel.processes import values

pytestmark = pytest.mark.once


OTHERS = {"gradient_as_bucket_view": True, "find_unused_parameters": True}


@pytest.fixture(scope="module", params=[({}, False), (OTHERS, False), ({}, True), (OTHERS, True)], ids=str)
def both(request: pytest.FixtureRequest) -> list[Any]:
    """The results of both processes, with modules of nbgrad's and of torch's. Rank 1 is late."""
    return values(compared.compared, 2, 1, *request.param)


@pytest.mark.sampled(2)
def test_the_ranks_are_compared(both: list[Any]) -> None:
    first, second = both
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


@pytest.mark.sampled(2)
def test_a_late_rank_is_waited_for(both: list[Any]) -> None:
    (ranks, notes, shown), _ = both
    assert re.search(r"\. In bucket \d, the others waited for rank 1 up to \d+ ms\.$", notes[0])
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


def test_the_view_has_overlays_and_lines(both: list[Any]) -> None:
    (ranks, notes, shown), (_, others, _) = both
    assert notes[0].startswith(f"Rank 0 of 2. It sent 196 B in {len(ranks.buckets)} buckets. Before averaging, the ")
    assert others[0].startswith("Rank 1 of 2.")
    widest = max(ranks.parameters, key=lambda one: one.spread)
    assert f"had the norms {numbers_text(ranks.norms)}. Those of {widest.name} differ most" in notes[0]
    overlays = shown["overlays"]
    assert overlays["spread"]["label"] == "spread of gradients over ranks (log)"
    assert len(overlays["bucket"]["classes"]) == len(ranks.buckets)
    assert all(re.fullmatch(r"bucket \d, \d+ B", one) for one in overlays["bucket"]["classes"])
    assert len(shown["levels"]) == 4
    assert all({"spread", "bucket"} <= set(levels) for levels in shown["levels"].values())
    assert len(shown["details"]) == 4
    for [line] in shown["details"].values():
        assert re.match(r"norms \S+, \S+, average \S+, spread \S+; bucket \d of \d, \d+ B", line)


@pytest.mark.rotated(3)
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


@pytest.mark.rotated(3)
@pytest.mark.parametrize("torchs", [False, True])
def test_what_adds_up_counts(torchs: bool) -> None:
    for rank, (ranks, gradients) in enumerate(values(compared.accumulated, 2, torchs)):
        assert ranks.backwards == (1, 1)
        for one in ranks.parameters:
            assert one.norms[rank] == pytest.approx(2 * gradients[one.name].norm().item(), rel=1e-5)


@pytest.mark.rotated(3)
def test_a_rank_that_does_not_compare_is_named_and_nothing_hangs() -> None:
    first, second = values(compared.one_asks, 2)
    assert "rank 1 has sent no figures of this backward. It still runs, as one with more batches does, or it " in first
    assert first.count("rank 1 has sent no figures") == 2  # the picture says so too
    assert "does not compare ranks: open it in every process with nbgrad.record(ranks=True), or %%auto" in second


@pytest.mark.rotated(3)
def test_a_module_that_is_not_wrapped() -> None:
    for error, notes in values(compared.not_wrapped, 2):
        assert "no backward in it averaged gradients over processes. Wrap the module in" in error
        assert any("no backward in it averaged gradients" in note for note in notes)


@pytest.mark.rotated(3)
def test_a_graph_for_each_step() -> None:
    first, second = values(compared.many_graphs, 2)
    assert first == second
    assert first == pytest.approx([number + 1.0 for number in range(20)])


@pytest.mark.rotated(3)
def test_faults_of_one_rank_are_named() -> None:
    told, _ = values(compared.faulty, 2)
    assert told["none"] == []
    assert told["not finite"] == [
        "The gradients of rank 1 are not finite, those of 0.weight, 0.bias, 2.weight and 1 more, and in another rank "
        "they are: the average is finite in no rank."
    ]
    assert told["unused"] == [
        "Zeros come from rank 1 for right.weight, right.bias, and not from all ranks: does the loss depend on that "
        "everywhere?"
    ]
    [far] = told["far"]
    assert re.fullmatch(
        r"The gradient of rank 1 has the norm \S+, and those of the others \S+: compare the scale of its data and of "
        r"its loss\.",
        far,
    )
    [rate] = told["rate"]
    assert rate.startswith("The parameters of rank 1 have other values than those of rank 0, in ")
    [fewer] = told["fewer"]
    assert fewer.startswith("The ranks have averaged in different numbers of backwards, 3 in rank 0, 2 in rank 1: give")


@pytest.mark.rotated(3)
def test_a_torch_program_is_what_it_was() -> None:
    assert values(compared.unchanged, 2) == [(True, True)] * 2


@pytest.mark.rotated(3)
def test_a_compiled_module_is_compared() -> None:
    for ours, plain in values(compared.compiled, 2):
        assert [one.norms for one in ours.parameters] == [one.norms for one in plain.parameters]
        assert len(ours.parameters) == 2


# In one process.


def test_without_a_process_group() -> None:
    for make in (AutogradGraph, nbgrad.record):
        with pytest.raises(RuntimeError, match="ranks=True compares the processes of a group, and there is none: call"):
            make(ranks=True)
    with pytest.raises(ValueError, match="ranks='yes': it has to be True or False"):
        nbgrad.record(ranks="yes")  # type: ignore[arg-type]
    with AutogradGraph() as graph, pytest.raises(RuntimeError, match="open it in every process"):
        graph.ranks()


class OneStore(GroupStore):
    """The store of a process that is alone. ``texts`` is what other processes would have put there."""

    def __init__(self, texts: dict[str, str] | None = None) -> None:
        self.rank, self.size = 0, 2
        self.texts = texts or {}

    def leave(self, key: str, text: str) -> None:
        self.texts[key] = text

    def read(self, key: str) -> str | None:
        return self.texts.get(key)


PART = RankPart(["w"], [(8, 1)], [1.0], [1.0], "a", [2.0], [5], [0.5], 1e-7)
OTHER = PART._replace(names=["v"], digest="b")


def one_recorder(store: GroupStore, *backwards: list[RankPart]) -> RankRecorder:
    """A recorder that has measured ``backwards``, each with the parts of its modules."""
    recorder = RankRecorder("mine")
    for parts in backwards:
        recorder.on_backward_begin([])
        for at, part in enumerate(parts):
            recorder.add(store, part, [at + 1])
        recorder.on_backward_end()
    return recorder


def test_ranks_with_other_parameters_are_named() -> None:
    recorder = one_recorder(OneStore({"ranks/a/1": PART._replace(names=["v"]).text()}), [PART])
    with pytest.raises(RuntimeError, match="'mine' cannot compare the ranks: rank 1 has other parameters in its last"):
        recorder.ranks()


def test_a_store_that_is_gone_is_an_error_at_once() -> None:
    class Gone(OneStore):
        def read(self, key: str) -> str | None:
            raise RuntimeError("connection reset")

    recorder = one_recorder(Gone(), [PART])
    with pytest.raises(RuntimeError, match=r"rank 1 has sent no figures .* same backwards \(connection reset\)"):
        recorder.ranks()


def test_the_last_backward_counts_and_clear_forgets() -> None:
    store = OneStore({"ranks/a/1": PART.text(), "ranks/b/1": OTHER.text()})
    recorder = one_recorder(store, [PART, OTHER])
    assert [(place, one.name, one.bucket) for place, one in recorder.places] == [(1, "w", 0), (2, "v", 1)]
    recorder = one_recorder(store, [PART, OTHER], [OTHER])
    assert [one.name for one in recorder.ranks().parameters] == ["v"]
    recorder.publish()
    assert store.texts["ranks/b/0"] == OTHER._replace(backwards=2).text()
    recorder.forget()
    with pytest.raises(RuntimeError, match="no backward in it averaged"):
        recorder.ranks()


def test_an_earlier_backward_is_compared_if_a_rank_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbgrad.core.graph.rank_recorder.PATIENCE", 0.1)
    recorder = one_recorder(OneStore({"ranks/b/1": OTHER._replace(backwards=1).text()}), [OTHER], [PART])
    ranks = recorder.ranks()
    assert ([one.name for one in ranks.parameters], ranks.backwards) == (["v"], (2, 1))


def test_the_latest_texts_are_kept() -> None:
    assert values(compared.kept, 1) == [[None, None, "text", "text"]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex64])
def test_bits_and_norms(dtype: torch.dtype) -> None:
    one = torch.randn(5, 4, generator=torch.Generator().manual_seed(0)).to(dtype)
    other = one.clone()
    assert bit_sum(one) == bit_sum(other.t().contiguous().t())
    other[2, 1] *= 1.5
    assert bit_sum(one) != bit_sum(other)
    assert norm_of(one).item() == pytest.approx(one.to(torch.complex128).abs().square().sum().sqrt().item())
    sparse = one.to_sparse()
    assert bit_sum(sparse) == bit_sum(one)
    assert norm_of(sparse) == norm_of(one)


def test_what_the_ranks_have_in_common_is_no_fault() -> None:
    bad = PART._replace(norms=[float("nan")], averages=[float("nan")])
    parameters, buckets = list[RankedParameter](), list[RankedBucket]()
    compare([bad, bad], bad, parameters, buckets)
    ranks = Ranks(0, 2, tuple(parameters), tuple(buckets), (1, 1))
    assert parameters[0].spread == float("inf")
    assert ranks.faults() == []


def test_ranks_with_one_fault_share_a_sentence() -> None:
    parameters = [RankedParameter(name, 0, (0.0, 1e300, 0.0), 1.0, 1.0) for name in "abcde"]
    ranks = Ranks(0, 3, tuple(parameters), ())
    assert ranks.faults()[0].startswith("zeros come from ranks 0, 2 for a, b, c and 2 more, and not from all ranks: ")
    assert len(ranks.faults()) == 1


def test_the_texts() -> None:
    assert numbers_text((1.0, 2.5)) == "1, 2.5"
    assert numbers_text(tuple(float(one) for one in range(20))) == "0 (rank 0) to 19 (rank 19)"
    bucket = RankedBucket(0, 12, ("w",), (0.25, 0.0))
    parameter = RankedParameter("w", 0, (1.0, 2.0), 1.5, 1 / 3)
    text = str(Ranks(0, 2, (parameter,), (bucket,)))
    assert text == (
        "rank 0 of 2\nbucket 0: 12 bytes, rank 1 was last, others waited up to 250 ms\n  w: norms 1, 2, spread 0.333"
    )
    assert RankedBucket(0, 12, ("w",), None).last is None
    with pytest.raises(KeyError, match="no parameter is called 'x': there are w"):
        Ranks(0, 2, (parameter,), (bucket,)).parameter("x")
    assert torch.distributed.is_initialized() is False


# FSDP2.


@pytest.mark.rotated(2, together="fsdp")
def test_the_ranks_of_a_divided_module_are_compared() -> None:
    (ranks, notes), (other, _) = values(compared.sharded, 2)
    assert (ranks.rank, other.rank, ranks.size) == (0, 1, 2)
    assert (ranks.parameters, ranks.buckets) == (other.parameters, other.buckets)
    alone = [compared.local_gradients(rank) for rank in range(2)]
    assert [one.parameters for one in ranks.buckets] == [("2.weight", "2.bias"), ("0.weight", "0.bias")]
    for one in ranks.parameters:
        mine, theirs = alone[0][one.name], alone[1][one.name]
        average = (mine + theirs) / 2
        distance = ((mine - average).square().sum() + (theirs - average).square().sum()).item() / 2
        assert one.norms == pytest.approx((mine.norm().item(), theirs.norm().item()), rel=1e-5)
        assert one.average == pytest.approx(average.norm().item(), rel=1e-5)
        assert one.spread == pytest.approx(distance**0.5 / average.norm().item(), rel=1e-3)
        assert (one.values[0], one.unequal) == (one.values[1], ())
    assert sum(bucket.bytes for bucket in ranks.buckets) == 4 * (4 * 8 + 8 + 8 + 1)
    assert notes[0].startswith(
        "Rank 0 of 2. It sent 196 B in 2 buckets. Before averaging, the gradients of the ranks had "
    )


@pytest.mark.rotated(2, together="fsdp")
def test_a_divided_module_learns_the_same_with_the_same_collectives() -> None:
    plain = values(compared.sharded_training, 2, False, False)
    recorded = values(compared.sharded_training, 2, True, False)
    assert [one[:2] for one in recorded] == [one[:2] for one in plain]
    assert [one[2] for one in recorded] == [3, 3]


@pytest.mark.rotated(2, together="fsdp")
def test_nan_of_one_rank_of_a_divided_module_is_named() -> None:
    for _, _, _, told in values(compared.sharded_training, 2, True, True):
        assert "the gradients of rank 1 are not finite, those of 2.weight, 2.bias, 0.weight and 1 more" in told


@pytest.mark.rotated(2, together="fsdp")
def test_a_rank_of_a_divided_module_that_does_not_compare_is_named() -> None:
    first, second = values(compared.sharded_alone, 2)
    assert "rank 1 has sent no figures of this backward" in first
    assert second == ""


@pytest.mark.rotated(2, together="fsdp")
def test_parts_of_different_backwards_are_no_comparison() -> None:
    told, _ = values(compared.sharded_misnumbered, 2)
    assert re.search(r"the gradients of \S+ do not add up to their average, \S+ against \S+\. ", told)
