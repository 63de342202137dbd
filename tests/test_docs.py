"""The Python blocks of each page of the docs run in order, in one namespace, and print what the page says."""

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from nbgrad.core.dispatch.table import OPS
from nbgrad.core.ops.elementwise import special
from nbgrad.core.tensor.methods import TensorMethods
from tests.core import rows

pytestmark = pytest.mark.once

DOCS = Path(__file__).parents[1] / "docs"
SILENT = {"design.md", "models.md"}  # nothing to run
PAGES = sorted(path for path in DOCS.glob("*.md") if path.name not in SILENT)
FENCE = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A python block of a page: where it begins, its code, and what the page says it prints (None if nothing)."""

    line: int
    code: str
    printed: str | None


def blocks(text: str) -> list[Block]:
    """The python blocks of a page, each with the text block that directly follows it."""
    found = list(FENCE.finditer(text))
    made = []
    for match, following in zip(found, [*found[1:], None], strict=True):
        if match["info"].strip() != "python":
            continue
        directly = following is not None and not text[match.end() : following.start()].strip()
        printed = following["body"] if following and directly and following["info"].strip() == "text" else None
        made.append(Block(text[: match.start("body")].count("\n") + 1, match["body"], printed))
    return made


def run(path: Path) -> None:
    """Run every block of a page; an error has the page's own line numbers in its traceback."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    table = dict(OPS)
    try:
        for block in blocks(path.read_text(encoding="utf-8")):
            code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, namespace)
            if block.printed is not None:
                assert trimmed(out.getvalue()) == trimmed(block.printed), f"{path.name}, the block at line {block.line}"
    finally:  # other tests must not see the rows that a page makes
        OPS.clear()
        OPS.update(table)


def trimmed(text: str) -> list[str]:
    """The lines without spaces at their ends, and without empty lines at the end of the text: editors remove these."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_page_runs_and_prints_what_it_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DOCS.parent)  # messages name places relative to this folder
    # A page runs as a script. tqdm would take it for a notebook if this module were loaded, as other tests do.
    monkeypatch.delitem(sys.modules, "ipykernel.zmqshell", raising=False)
    text = path.read_text(encoding="utf-8")
    assert blocks(text), f"{path.name} has no python block: show how it is used"
    run(path)


def test_there_are_pages() -> None:
    assert PAGES


DECISIONS = sorted(path for path in (DOCS / "decisions").glob("*.md") if path.name != "README.md")


def test_every_decision_is_in_the_index_once_under_its_own_title() -> None:
    index = (DOCS / "decisions" / "README.md").read_text(encoding="utf-8")
    titles = {path.name: path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ") for path in DECISIONS}
    assert titles
    assert sorted(re.findall(r"^- \[(.*)\]\((.*)\): ", index, re.MULTILINE)) == sorted(
        (title, name) for name, title in titles.items()
    )


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_its_context_and_what_was_measured(path: Path) -> None:
    parts = re.split(r"^## (.*)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert parts[1::2] == ["Context", "Decision", "Measured"]
    assert all(text.strip() for text in parts)


def test_the_design_is_one_page() -> None:
    assert len((DOCS / "design.md").read_text(encoding="utf-8").splitlines()) <= 100


@pytest.mark.skipif("logcosh" in OPS, reason="somebody follows CONTRIBUTING: the tests of rows test logcosh")
def test_the_row_of_contributing_passes_the_tests_of_a_row() -> None:
    [block] = blocks((DOCS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    table = dict(OPS)
    try:
        exec(block.code, dict(vars(special)))
        (row,) = (row for name, row in OPS.items() if name not in table)
        for sample in rows.samples(row):
            rows.check(row, sample)
    finally:
        OPS.clear()
        OPS.update(table)
        del TensorMethods.logcosh  # type: ignore[attr-defined]


# The tester is tested.

PAGE = """# A page

```python
x = 2
print("not shown")
```

Some words, so this text is no output:

```text
anything
```

```python
print(x + 1)
print()
```

```text
{printed}
```

```pycon
>>> not run
```

````python
print('''
```
''')
````
"""


def test_blocks_of_a_page_are_found_with_what_they_print() -> None:
    found = blocks(PAGE.format(printed="3"))
    assert [(block.line, block.printed) for block in found] == [(4, None), (15, "3\n"), (28, None)]
    assert found[2].code == "print('''\n```\n''')\n"


def test_a_page_runs_in_one_namespace(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(printed="3"))
    run(page)


def test_a_page_that_prints_something_else_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(printed="4"))
    with pytest.raises(AssertionError, match=r"page\.md, the block at line 15"):
        run(page)


def test_an_error_names_the_line_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("words\n\n```python\nx = 1\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        run(page)
    last = caught.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("page.md", 5)


def test_a_row_that_a_page_makes_is_gone_afterwards(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nimport nbgrad\nfrom nbgrad.core.dispatch.samples import unary\n\n"
        '@nbgrad.op(formula="x", samples=unary)\ndef row_of_a_page(x):\n    return x * 1\n```\n'
    )
    run(page)
    assert "row_of_a_page" not in OPS
    run(page)  # the row would be refused if it still existed
