"""The kernels of a page: each row of the op table gives torch's numbers there, and some row needs each kernel."""

import shutil
from pathlib import Path

import pytest

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.symbolic.exports import page
from tests.core.symbolic import page_rows
from tests.core.symbolic.page_rows import Case

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

PINNED = page_rows.pinned()
KERNELS = {name.partition("[")[0] for name in PINNED["kernels"]}
SAMPLES = sorted({tuple(sample) for part in ("kernels", "unread") for sample in PINNED[part].values()})


@pytest.mark.sampled(48)
@pytest.mark.parametrize("name", sorted(OPS))
def test_a_row_computes_the_same_in_a_page(name: str, tmp_path: Path) -> None:
    made, reason = page_rows.cases(OPS[name])
    page_rows.run(made, tmp_path, notice=False)
    for one in made:
        page_rows.compare(one)
    found = "all" if made and not reason else "some" if made else "none"
    pinned = "all" if name in PINNED["all"] else "some" if name in PINNED["some"] else "none"
    assert found == pinned, f"run python -m tests.core.symbolic.page_rows {name}. {reason}"


def test_every_kernel_has_a_sample_of_a_row() -> None:
    """A new kernel needs a sample of a row. A kernel that no row needs is deleted. Only kernels whose numbers torch
    leaves open have no sample.
    """
    assert KERNELS | PINNED["unread"].keys() == page.OPERATORS, "run python -m tests.core.symbolic.page_rows"
    assert all("empty" in name for name in PINNED["unread"])


@pytest.fixture(scope="module", params=range(8))
def shortest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Case]:
    """For each kernel of an eighth of them a sample that depends on it. All run in one process."""
    made = {}
    for name, number in SAMPLES[request.param :: 8]:
        sample = dict(page_rows.tried(OPS[name]))[number]
        made[f"{name} {number}"] = page_rows.case(OPS[name], number, sample)
    page_rows.run(list(made.values()), tmp_path_factory.mktemp("kernels"), notice=True)
    return made


@pytest.mark.sampled(8)
def test_every_kernel_gives_the_numbers_of_torch(shortest: dict[str, Case]) -> None:
    for one in shortest.values():
        page_rows.compare(one)


@pytest.mark.sampled(8)
def test_every_kernel_that_is_wrong_is_noticed(shortest: dict[str, Case]) -> None:
    """This also covers each result of a kernel with several results."""
    for kernel, (name, number) in PINNED["kernels"].items():
        if (one := shortest.get(f"{name} {number}")) is not None:
            assert kernel in one.noticed, kernel
            assert kernel.partition("[")[0] in one.kernels


def test_the_documentation_says_how_many_rows_a_page_runs() -> None:
    told = page_rows.COUNTS.findall(page_rows.PAGE.read_text(encoding="utf-8"))
    assert told == [(str(len(PINNED["all"])), str(len(OPS)))], "run python -m tests.core.symbolic.page_rows"
