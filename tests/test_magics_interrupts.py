"""A cell that is interrupted leaves the notebook usable, whatever it had entered."""

from IPython.core.interactiveshell import InteractiveShell

from nbgrad.core.engine.state import current

LEFT = """
import nbgrad
nbgrad.set_grad_enabled(True)
nbgrad.no_grad().__enter__()  # as where Ctrl-C hits the first instruction of __exit__
nbgrad.detect_anomaly().__enter__()
raise {error}
"""


def test_blocks_that_an_interrupted_cell_has_not_left_are_left(shell: InteractiveShell) -> None:
    before = current()
    shell.run_cell(LEFT.format(error="KeyboardInterrupt"))
    assert current() == before
    result = shell.run_cell("%%autograd --view none\nx = nbgrad.ones(2, requires_grad=True)\n(x * x).sum().backward()")
    assert result.success
    assert shell.run_cell("x.grad.tolist()").result == [2.0, 2.0]
    assert current() == before


def test_a_block_that_another_cell_has_entered_by_hand_stays(shell: InteractiveShell) -> None:
    before = current()
    shell.run_cell("import nbgrad\nswitch = nbgrad.no_grad()\nswitch.__enter__()")
    try:
        shell.run_cell("raise KeyboardInterrupt")
        assert not current().grad_enabled
    finally:
        shell.run_cell("switch.__exit__(None, None, None)")
    assert current() == before
