"""A process that is forked while other threads draw and run backwards works: it waits for none of their locks."""

import os
import sys
import textwrap
from subprocess import run

import pytest

FORKS = 4

PROGRAM = """
    import gc, os, signal, sys, threading, time
    import nbgrad
    from nbgrad.core.no_gc import uncollected
    from nbgrad.widgets.describe import describe
    from nbgrad.widgets.pipeline import lay_out

    def graph(ops):
        x = nbgrad.ones(3, requires_grad=True)
        with nbgrad.AutogradGraph() as made:
            y = x
            for _ in range(ops):
                y = (y * 2).exp().log()
            y.sum().backward()
        return describe(made)

    large, x = graph(40), nbgrad.ones(2, requires_grad=True)
    if sys.argv[1] == "drawn":
        lay_out(large)

    def draw():
        while True:
            lay_out(large)

    def train():
        while True:
            (x * x).sum().backward()

    @uncollected
    def wait():
        time.sleep(1000)

    for work in (draw, train, wait):
        threading.Thread(target=work, daemon=True).start()
    while gc.isenabled():
        time.sleep(0.001)
    for number in range(int(sys.argv[2])):
        time.sleep(0.005 + 0.003 * number)
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            x.sum().backward()
            lay_out(graph(2))
            os._exit(0 if gc.isenabled() else 3)
        _, status = os.waitpid(child, 0)
        if status:
            print("child", number, "ended with", status)
            os._exit(1)
    print("all ended", flush=True)
    os._exit(0)
"""


@pytest.mark.rotated(6)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("graphviz", ["drawn", "not drawn"])
def test_a_fork_while_other_threads_draw_and_train_hangs_nowhere(graphviz: str) -> None:
    program = textwrap.dedent(PROGRAM)
    command = [sys.executable, "-W", "ignore", "-c", program, graphviz, str(FORKS)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.stdout == "all ended\n", done.stdout + done.stderr
