"""The lines of the report, the line on the terminal, and the page that ``nbgrad view`` opens."""

import io
import math
import os
import re
import sys
import webbrowser
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.engine import pacing
from nbgrad.run import session, terminal, view
from nbgrad.run.command import main
from nbgrad.run.recorded import ProgramRecording
from nbgrad.run.report import plain, report, sparkline
from nbgrad.run.terminal import StatusLine
from nbgrad.run.threads import OtherThreads

pytestmark = pytest.mark.once


def test_a_course_of_losses_is_drawn_from_the_least_to_the_largest() -> None:
    assert sparkline([float(one) for one in range(8)]) == "▁▂▃▄▅▆▇█"
    assert sparkline([3.0, 3.0]) == "▁▁"
    assert sparkline([1.0, math.nan, 2.0, math.inf]) == "▁x█x"
    assert sparkline([math.nan]) == "x"
    falling = sparkline([1 / (one + 1) for one in range(1000)], 10)
    assert len(falling) == 10
    assert falling.startswith("█▂")
    assert falling.endswith("▁▁")
    assert plain("loss 2 █▁ 1") == "loss 2 #_ 1"


def test_losses_of_several_lines_are_told_apart() -> None:
    with nbgrad.AutogradGraph() as graph:
        w = torch.ones(2, requires_grad=True)
        for _ in range(3):
            (w * 2).sum().backward()
            (w * w).sum().backward()
        w.exp().backward(torch.ones(2))
    lines = report(graph, "two.py", 1.5)
    assert lines[0].startswith("nbgrad: two.py, ")
    assert "7 backwards, all recorded" in lines[0]
    assert lines[0].endswith(" in 1.5 s")
    losses = [line for line in lines if line.startswith("  loss ")]
    assert [line.split("  ")[1].split() for line in losses] == [["loss", "4", "▁▁▁", "4"], ["loss", "2", "▁▁▁", "2"]]
    assert all("test_report.py:" in line for line in losses)


def test_a_run_with_a_clock_names_the_slowest_ops() -> None:
    w = torch.ones(2, requires_grad=True)
    with nbgrad.record(view="none", time=True) as graph:
        (w.exp().tanh().sin().cos() * 2).sum().backward()
    lines = report(graph, "slow.py", 1.5)
    head = next(at for at, line in enumerate(lines) if line.split()[:1] == ["op"])
    assert [line.split()[0] for line in lines[head + 2 : head + 7]] == [row.op for row in graph.slowest()][:5]
    assert lines[head + 7] == "  ... 2 more"
    with nbgrad.record(view="none") as graph:
        (w * 2).sum().backward()
    assert not any("share" in line for line in report(graph, "slow.py", 1.5))


def test_threads_that_train_unrecorded_are_named() -> None:
    def train(make: Any, times: int) -> None:
        for _ in range(times):
            make(2, requires_grad=True).sum().backward()

    def recorded() -> None:
        with nbgrad.AutogradGraph():
            train(torch.ones, 7)

    others = OtherThreads(lambda _: False)
    pacing.add_elsewhere(others)
    with nbgrad.AutogradGraph() as graph:
        train(torch.ones, 1)
        for run in (lambda: train(torch.ones, 3), lambda: train(nbgrad.ones, 2), recorded):
            thread = Thread(target=run, name=f"trainer {len(others.found)}")
            thread.start()
            thread.join()
    pacing.remove_elsewhere(others)
    train(torch.ones, 1)
    assert [(one.name, one.backwards) for one in others.found] == [("trainer 0", 3), ("trainer 1", 2)]
    told = report(graph, "threads.py", 1.0, others=others.found)[2]
    assert re.match(
        r"  The thread trainer 0 ran 3 backwards, at .*test_report\.py:\d+, and 1 other thread ran 2\. ", told
    )


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        super().isatty()  # which raises where it is closed
        return True

    def screen(self) -> list[str]:
        """The lines that a reader sees."""
        lines = [""]
        for part in self.getvalue().replace("\r\x1b[2K", "\0").splitlines(keepends=True):
            for sign in part:
                if sign == "\0":
                    lines[-1] = ""
                elif sign == "\n":
                    lines.append("")
                else:
                    lines[-1] += sign
        return lines


def screen_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal for both streams. It is no fixture, because pytest replaces the streams after those."""
    made = Terminal()
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setattr(terminal, "_EVERY", 0.0)
    monkeypatch.setenv("COLUMNS", "40")
    return made


def test_the_line_makes_way_for_what_the_program_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    line = StatusLine.of(screen)
    assert line is not None
    print("begins")
    line.show("step 1")
    assert screen.screen() == ["begins", "step 1"]
    line.show("step 2 " + "x" * 50)
    assert screen.screen()[-1] == "step 2 " + "x" * 32, "no wider than the terminal"
    print("in between")
    assert screen.screen() == ["begins", "in between", ""]
    assert line.is_due()
    print("a bar", end="")
    assert not line.is_due(), "the program stands in the middle of its own line"
    print()
    line.show("step 3")
    line.close()
    assert screen.screen() == ["begins", "in between", "a bar", ""]
    assert not line.is_due()
    line.close()
    assert screen.screen() == ["begins", "in between", "a bar", ""]
    assert "write" not in vars(screen), "the stream is as it was"


def test_the_report_begins_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    for text, seen in (("ends\n", ["ends", ""]), ("open", ["ends", "open", ""]), ("", ["ends", "open", ""])):
        line = StatusLine.of(screen)
        assert line is not None
        print(text, end="")
        line.close()
        assert screen.screen() == seen


def test_the_line_says_what_is_known() -> None:
    made = ProgramRecording({"view": "none", "every": 1}, print, ".")
    pacing.remove_elsewhere(made.others)  # it would record a later test
    with made.graph:
        made._began = 0.0
        w = torch.ones(2, requires_grad=True)
        (w * w).sum().backward()
        assert made._progress() == "nbgrad: 1 backward recorded, loss 2", "no step, and no plain one to compare with"
        optimizer = torch.optim.SGD([w], 0.1)
        for _ in range(2):
            (w * w).sum().backward()
            optimizer.step()
        told = made._progress()
    assert re.fullmatch(r"nbgrad: step \d, 3 backwards recorded, loss \S+, recording \S+%", told)


def test_there_is_no_line_where_there_is_no_terminal() -> None:
    closed = Terminal()
    closed.close()
    assert StatusLine.of(io.StringIO()) is None
    assert StatusLine.of(closed) is None


def test_a_terminal_that_is_gone_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    line = StatusLine.of(screen)
    assert line is not None
    line.show("step 1")
    screen.close()
    line.show("step 2")
    line.close()
    session._tell(screen, ["the report"])


def test_a_terminal_without_blocks_gets_signs() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    session._tell(stream, ["loss 2 █▁ 1 é"])
    assert raw.getvalue().decode() == f"loss 2 #_ 1 ?{os.linesep}"


def test_a_folder_that_takes_no_file_is_refused_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise AssertionError")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SystemExit) as left:
        main(["run", "--save", "run.html", "train.py"])
    assert left.value.code == 2
    told = capsys.readouterr().err
    assert told == f"nbgrad run: {str(tmp_path / 'run.html')!r} was not written: No space left on device\n"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["train.py"], "what was tried is gone"


def test_a_page_is_opened_where_there_is_a_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    page = tmp_path / "run.html"
    page.write_text("<html></html>")
    for browser, words in ((True, ()), (False, ()), (True, ("--no-open",))):
        monkeypatch.setattr(view, "has_browser", lambda browser=browser: browser)
        assert main(["view", str(page), *words]) == 0
        assert capsys.readouterr().out == f"{page}\n"
    assert opened == [page.as_uri()]


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--save", "a folder/run.html", "train.py"),
        ("check", "--output", "a folder/run.sarif", "train.py"),
        ("compare", "--save", "a folder/both.html", "one.nbgrad", "two.nbgrad"),
        ("view", "--output", "a folder/page.html", "one.nbgrad"),
    ],
)
def test_a_folder_that_is_missing_gets_the_command_that_makes_it(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("one.nbgrad", "two.nbgrad")):
        saved(tmp_path / name, number)
    (tmp_path / "train.py").touch()
    try:
        status: Any = main([*words])
    except SystemExit as ended:
        status = ended.code
    assert status == 2
    told = capsys.readouterr().err
    assert told.startswith(f"nbgrad {words[0]}: '{words[2]}' was not written: there is no folder 'a folder'.")
    assert told.endswith(" Make it first, with mkdir -p 'a folder'\n")


def test_what_cannot_be_viewed_is_said_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.html").write_text("")
    for words, told in {
        ("missing.nbgrad",): "there is no file 'missing.nbgrad'",
        (str(tmp_path / "run.html"), "--output", "x.html"): f"{str(tmp_path / 'run.html')!r} is a page or a picture",
    }.items():
        assert main(["view", *words]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"nbgrad view: {told}")


def saved(path: Path, number: float) -> None:
    with nbgrad.AutogradGraph() as graph:
        w = torch.tensor([1.0, number], requires_grad=True)
        loss = (w * w).sum()
        loss.backward()
    graph.save(path)


def test_a_saved_graph_is_opened_as_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "run.nbgrad", tmp_path / "page.html"
    saved(file, 2.0)
    assert main(["view", str(file), "--output", str(page), "--no-open"]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert "<html" in page.read_text("utf-8")
    assert main(["view", str(file), "--output", str(tmp_path / "page.svg")]) == 2
    assert main(["view", str(tmp_path)]) == 2
    (tmp_path / "bad.nbgrad").write_bytes(b"no graph")
    assert main(["view", str(tmp_path / "bad.nbgrad")]) == 2
    svg, folder, bad = capsys.readouterr().err.splitlines()
    assert svg.endswith("the page is a file that ends in .html")
    assert folder == f"nbgrad view: {str(tmp_path)!r} is a folder of 1 graphs: name the file of one of them"
    assert bad.startswith("nbgrad view: ")


def test_a_server_without_a_screen_has_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert not view.has_browser()
