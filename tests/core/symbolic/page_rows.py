"""Rows of the op table in a page: their samples as programs with gradients, which node runs with the page's kernels.

``python -m tests.core.symbolic.page_rows`` tries every row, in some minutes, or the rows whose names it is given. It
writes ``page_rows.json``: which rows a page runs, and for each kernel the sample of a row that notices when the kernel
is wrong. The file also names the kernels whose numbers no sample can check, such as those of ``empty``. The number of
rows goes into docs/graph.md.
"""

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import torch

from nbgrad.core.dispatch.samples import Sample
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.core.symbolic.errors import TraceError
from nbgrad.core.symbolic.exports.page import described_program, kernels
from nbgrad.core.symbolic.program import trace
from tests.core.rows import samples
from tests.core.symbolic.traced_rows import arguments, differentiated, spread

PINNED = Path(__file__).with_name("page_rows.json")
PAGE = Path(__file__).parents[3] / "docs" / "graph.md"
COUNTS = re.compile(r"can compute (\d+) of the (\d+) rows")
"""The words of ``PAGE`` that say how many rows a page runs."""
CLOSE = 1e-9
"""The largest difference from torch's numbers, relative to the largest of these. The samples are in float64."""

WHOLE = ("conv", "pool")
"""Parts of names of rows whose kernels have many settings: all samples of these rows run."""

_RUN = """
const { OPS, run } = nbgradKernels;
const { cases, close, notice } = JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"));
const results = (program) => Object.values(run(program).results);
const number = (x) => (typeof x === "string" ? Number(x.replace("inf", "Infinity")) : Number(x));

/** Whether these are the numbers of torch. */
const alike = (found, wanted) =>
  found.length === wanted.length &&
  found.every((one, at) => {
    const all = wanted[at].map(number);
    const far = close * Math.max(1, ...all.filter(Number.isFinite).map(Math.abs));
    const near = (x, y) => Object.is(x, y) || x === y || Math.abs(x - y) <= far;
    return one.data.length === all.length && all.every((x, each) => near(x, one.data[each]));
  });

/** A kernel one of whose results is wrong: its numbers, or the answers yes and no. */
const wrong = (kernel, place) => (...given) => {
  const made = kernel(...given);
  [made].flat().forEach((one, at) => {
    const other = (x) => (one.dtype === "bool" ? 1 - x : x === Infinity ? -x : 1.5 * x + 1);
    if (at === place && one) one.data = one.data.map(other);
  });
  return made;
};

const told = [];
for (const { program, wanted } of cases) {
  const found = results(program);
  const noticed = [];
  for (const op of notice ? new Set(program.nodes.map(({ op }) => op)) : []) {
    const kernel = OPS[op];
    if (!kernel) continue;
    let count = 1;
    OPS[op] = (...given) => {
      const made = kernel(...given);
      count = [made].flat().length;
      return made;
    };
    results(program);
    for (let place = 0; place < count; place++) {
      OPS[op] = wrong(kernel, place);
      let same = false;
      try {
        same = alike(results(program), wanted);
      } catch {}
      if (!same) noticed.push(count > 1 ? `${op}[${place}]` : op);
    }
    OPS[op] = kernel;
  }
  const plain = (one) => Array.from(one.data, (x) => (Number.isFinite(x) ? x : String(x)));
  told.push({ found: found.map(plain), noticed });
}
console.log(JSON.stringify(told));
"""


@dataclass
class Case:
    """A sample of a row with its gradient, as a program for a page.

    Attributes:
        label: the row and the number of its sample.
        program: in the form that ``kernels.ts`` takes.
        wanted: what torch computes.
        found: the results of the page; None until it has run.
        noticed: the kernels whose errors would change these numbers. Each result of a kernel counts separately.
    """

    label: str
    program: dict[str, Any]
    wanted: list[torch.Tensor]
    found: list[torch.Tensor] | None = None
    noticed: list[str] = field(default_factory=list)

    @property
    def kernels(self) -> set[str]:
        """The operators that it uses."""
        return {node["op"] for node in self.program["nodes"]} - {"constant", "getitem"}


def tried(row: Op) -> Iterator[tuple[int, Sample]]:
    """The samples of a row that run in a page. Those with complex numbers are left out: a page has none."""
    every = list(samples(row))
    some = every if any(one in row.name for one in WHOLE) else list(spread(row))
    numbers = {id(sample): number for number, sample in enumerate(every)}
    for position, sample in enumerate(some):
        if not any(isinstance(one, torch.Tensor) and one.is_complex() for one in sample.args):
            yield numbers.get(id(sample), position), sample


def case(row: Op, number: int, sample: Sample) -> Case:
    """A sample as a program.

    Raises:
        TraceError: no program can be made of it.
        NotImplementedError: a page has no kernel for a step.
    """
    given = arguments(row, sample)
    program = trace(differentiated(row, sample.settings, 1), *given)
    described = described_program(program, given, steps=False)
    described["steps"] = []
    data = [*(one.data for one in _tensors(given)), *program.captured_data()]
    wanted = program.run(data[: len(program.inputs)], data[len(program.inputs) :])
    # Inputs that the program changes, such as running statistics, follow its results.
    named = {value.name: one for value, one in zip((*program.inputs, *program.captured), data, strict=True)}
    changed = [one["name"].removesuffix("_after") for one in described["results"][len(wanted) :]]
    return Case(f"{row.name} {number}", described, [*wanted, *(named[one] for one in changed)])


def _tensors(given: Iterable[Any]) -> Iterator[Any]:
    for one in given:
        if isinstance(one, list | tuple):
            yield from _tensors(one)
        elif hasattr(one, "data") and hasattr(one, "shape"):
            yield one


def cases(row: Op) -> tuple[list[Case], str]:
    """The samples of a row that run in a page, and the reason why another sample does not; empty if all run."""
    made, reason = [], ""
    for number, sample in tried(row):
        try:
            made.append(case(row, number, sample))
        except (TraceError, NotImplementedError) as error:
            reason = str(error)
    return made, reason


def run(some: list[Case], folder: Path, *, notice: bool) -> None:
    """Run them in node, and write into each what was found.

    Args:
        some: the cases.
        folder: for the files that node reads.
        notice: whether to find out which kernels these numbers depend on.
    """
    told = [{"program": one.program, "wanted": [_numbers(each) for each in one.wanted]} for one in some]
    (folder / "cases.json").write_text(json.dumps({"cases": told, "close": CLOSE, "notice": notice}), encoding="utf-8")
    (folder / "run.cjs").write_text(f"{kernels()}\n{_RUN}", encoding="utf-8")
    command = ["node", str(folder / "run.cjs"), str(folder / "cases.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for one, outcome in zip(some, json.loads(done.stdout), strict=True):
        one.found = [torch.tensor([float(x) for x in each], dtype=torch.float64) for each in outcome["found"]]
        one.noticed = outcome["noticed"]
        assert len(one.found) == len(one.wanted), one.label


def compare(one: Case) -> None:
    """Raise AssertionError if a page has other numbers than torch."""
    assert one.found is not None
    for mine, wanted in zip(one.found, one.wanted, strict=True):
        exact = wanted.detach().double().reshape(-1)
        finite = exact[exact.isfinite()].abs()
        far = CLOSE * max(1.0, float(finite.max()) if finite.numel() else 0.0)
        torch.testing.assert_close(
            mine, exact, rtol=0, atol=far, equal_nan=True, msg=lambda text, label=one.label: f"{label}: {text}"
        )


def _numbers(one: torch.Tensor) -> list[Any]:
    return [x if isfinite(x) else repr(x) for x in one.detach().double().reshape(-1).tolist()]


def pinned() -> dict[str, Any]:
    """The results of the last run over all rows."""
    return dict(json.loads(PINNED.read_text(encoding="utf-8")))


def main(names: list[str]) -> None:
    """Run all rows, or only ``names``. Write the results into ``PINNED``, and their number into ``PAGE``."""
    import tempfile

    warnings.simplefilter("ignore")
    rows: dict[str, str] = {}
    shortest: dict[str, tuple[int, str, int]] = {}
    used: dict[str, tuple[int, str, int]] = {}
    if names:
        before = pinned()
        rows |= {name: kind for kind in ("all", "some") for name in before[kind] if name not in names}
        # Kernels that other rows test stay with them, even if a new sample is shorter.
        kept = {kernel: one for kernel, one in before["kernels"].items() if one[0] not in names}
        shortest |= {kernel: (0, name, number) for kernel, (name, number) in kept.items()}
        used |= {kernel: (0, name, number) for kernel, (name, number) in before["unread"].items()}
    for name in names or sorted(OPS):
        with tempfile.TemporaryDirectory() as folder:
            made, reason = cases(OPS[name])
            run(made, Path(folder), notice=True)
        for one in made:
            try:
                compare(one)
            except AssertionError as error:
                print(error)
            found = (len(one.program["nodes"]), name, int(one.label.split()[1]))
            shortest |= {kernel: min(found, shortest.get(kernel, found)) for kernel in one.noticed}
            used |= {kernel: min(found, used.get(kernel, found)) for kernel in one.kernels}
        rows[name] = "all" if made and not reason else "some" if made else "none"
        if reason:
            print(name, rows[name], reason[-100:])
    by = {kind: sorted(name for name, found in rows.items() if found == kind) for kind in ("all", "some")}
    kernel = {name: list(shortest[name][1:]) for name in sorted(shortest)}
    noticed = {name.partition("[")[0] for name in shortest}
    unread = {name: list(used[name][1:]) for name in sorted(used) if name not in noticed}
    PINNED.write_text(json.dumps({**by, "kernels": kernel, "unread": unread}, indent=1) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(COUNTS.sub(f"can compute {len(by['all'])} of the {len(OPS)} rows", text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
