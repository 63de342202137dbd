"""Beginners' mistakes in cells: after Python's own error nbgrad prints what to do about it."""

import re
import textwrap

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

import nbgrad
from nbgrad.core.graph.advice import advice
from nbgrad.unloaded import answer

BEGIN = (
    "import math, nbgrad, numpy as np, torch\nfrom math import log\nw = nbgrad.tensor([1.0, 2.0], requires_grad=True)"
)

MISTAKES = {
    "the update makes a new tensor": (
        """
        for step in range(3):
            loss = (w * w).sum()
            loss.backward()
            w = w - 0.1 * w.grad
        """,
        "w is the result of an op, which keeps no gradient, since line 5 of the cell, `w = w - 0.1 * w.grad`, made a "
        "new tensor of it. Change the values of w itself: with nbgrad.no_grad(): w -= 0.1 * w.grad, and then "
        "w.grad = None",
    ),
    "the update of a tensor of torch's": (
        """
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        for step in range(3):
            loss = (w * w).sum()
            loss.backward()
            w = w - 0.1 * w.grad
        """,
        "with torch.no_grad(): w -= 0.1 * w.grad",
    ),
    "the gradient of what needs none": (
        "x = nbgrad.ones(2)\n(x * w).sum().backward()\nx.grad + 1",
        "x.grad is None because x needs no gradient: make it with requires_grad=True, as in x = nbgrad.tensor(..., "
        "requires_grad=True)",
    ),
    "the gradient before a backward": ("w.grad * 2", "no backward has reached w since it was made"),
    "zeroing before a backward": ("w.grad.zero_()", "no backward has reached w since it was made"),
    "the gradient of a result": (
        "h = w * 2\nh.sum().backward()\nh.grad * 2",
        "h.grad is None because an op made h, and only tensors that no op made keep their gradients: call "
        "h.retain_grad() before the backward",
    ),
    "a loss by item()": (
        "loss = (w * w).sum().item()\nloss.backward()",
        "loss is a plain number (float), which has no history: item() made it at line 2 of the cell, `loss = (w * "
        "w).sum().item()`. Keep the tensor without item()",
    ),
    "a loss by float()": ("loss = float((w * w).sum())\nloss.backward()", "float() made it at line 2"),
    "a loss by math.exp": (
        "loss = math.exp((w * w).sum())\nloss.backward()",
        "math.exp() made it at line 2 of the cell, `loss = math.exp((w * w).sum())`. Write nbgrad.exp, which takes "
        "tensors and has a gradient",
    ),
    "a loss by a function of math": ("loss = log(w.sum())\nloss.backward()", "Write nbgrad.log"),
    "a loss of numpy": (
        "loss = np.square(w.detach().numpy()).sum()\nloss.backward()",
        "loss is a plain number (float32), which has no history",
    ),
    "a list of losses": (
        "losses = [w.sum(), w.square().sum()]\nlosses.backward()",
        "losses is a list of 2 tensors or numbers: take one, as in losses[-1], or make one of all of them: "
        "nbgrad.stack(losses).sum()",
    ),
    "a tuple for a tensor": (
        "out = nbgrad.nn.LSTM(2, 3)(nbgrad.ones(1, 4, 2))\nout.sum()",
        "out is a tuple of 2 tensors or numbers: take one out, as in out[0]",
    ),
    "the module for its result": (
        "net = nbgrad.nn.Linear(2, 1)\nnet.backward()",
        "net is a module: call it to get a tensor, as in out = net(x)",
    ),
    "a method that is not called": (
        "loss = w.sum\nloss.backward()",
        "loss is the function sum itself, and not its result. Call it with parentheses: loss = w.sum().",
    ),
    "a product with such a method": ("loss = w.sum * 2", "Call it with parentheses: w.sum()."),
    "a forward without return": (
        "def f(x):\n    y = x * 2\nloss = f(w)\nloss.backward()",
        "loss is None: a function, or a forward(), that ends without return gives None.",
    ),
    "a sum with None": ("def f(x):\n    y = x * 2\nloss = f(w)\nloss + 1", "loss is None: a function"),
    "a hidden function": ("sum = w.sum()\nsum([1, 2])", "sum is a tensor here, which hides Python's sum()"),
    "a tensor that is called": ("w(3)", "w is a tensor, and no function: a product is written w * ..."),
    "a wrong argument": (
        "nbgrad.tensor([1.0], requries_grad=True)",
        "There is no argument requries_grad; did you mean requires_grad?",
    ),
    "a wrong argument of a parameter": (
        "nbgrad.nn.Parameter(nbgrad.ones(2), requires_grads=False)",
        "There is no argument requires_grads; did you mean requires_grad?",
    ),
    "a wrong argument of zeros": (
        "nbgrad.zeros(3, requries_grad=True)",
        "nbgrad.zeros(): there is no argument requries_grad; did you mean requires_grad?",
    ),
    "a wrong argument of an optimizer": (
        "nbgrad.optim.SGD([w], learning_rate=0.1)",
        "SGD(): got an unexpected keyword argument 'learning_rate'. Its arguments are params, lr, momentum, ",
    ),
    "torch's optimizer": (
        "torch.optim.SGD(nbgrad.nn.Linear(2, 1).parameters())",
        "torch.optim.SGD takes torch's own parameters, and got one of nbgrad's: write nbgrad.optim.SGD",
    ),
}


def shown(shell: InteractiveShell, cell: str, begin: str = BEGIN) -> str:
    """The output of a recorded cell."""
    with capture_output() as captured:
        shell.run_cell(begin)
        result = shell.run_cell(f"%%autograd --view text\n{textwrap.dedent(cell).strip()}")
    assert result.error_in_exec is not None
    displayed = [str(output) for output in captured.outputs]
    return "\n".join([re.sub(r"\x1b\[[0-9;]*m", "", captured.stdout), *displayed])


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor", "ignore:w is the result of an op", "ignore:the .grad of"
)
@pytest.mark.parametrize("name", MISTAKES)
def test_the_error_of_a_common_mistake_says_what_to_write(shell: InteractiveShell, name: str) -> None:
    cell, expected = MISTAKES[name]
    text = shown(shell, cell)
    assert expected in " ".join(text.split())
    assert "nbgrad/core" not in text, "the traceback shows the user's lines alone"


TORCH_ALONE = {name: cell for name, (cell, _) in MISTAKES.items() if "optimizer" not in name} | {
    "a loss from the start": "loss = math.exp(2.0)\nloss.backward()",
    "a loss without a call": "loss = 2.0\nloss.backward()",
    "a list of numbers": "losses = [1.0, 2.0]\nlosses.backward()",
    "numbers of numpy": "kept = w.detach().numpy()\nv = torch.tensor(kept)\n(w * v).sum().backward()\nkept.backward()",
    "a backward from no history": "(w.detach() * 2).sum().backward()",
    "a leaf": "torch.tensor(1.0, requires_grad=True).backward()\nw.backward()",
}
"""Mistakes in a program that has nothing of ours."""


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor", "ignore:w is the result of an op", "ignore:the .grad of"
)
@pytest.mark.parametrize("name", TORCH_ALONE)
def test_a_program_of_torchs_gets_advice_about_torch(shell: InteractiveShell, name: str) -> None:
    begin, cell = BEGIN.replace(" nbgrad,", "").replace("nbgrad", "torch"), TORCH_ALONE[name].replace("nbgrad", "torch")
    text = shown(shell, cell, begin)
    assert "nbgrad." not in text
    assert "nbgrad's" not in text


@pytest.mark.parametrize("maker", ["(w * w).sum().item()", "math.exp((w * w).sum())"])
def test_a_loss_that_is_a_number_has_a_picture_of_what_made_it(shell: InteractiveShell, maker: str) -> None:
    shown(shell, f"loss = {maker}\nloss.backward()")
    graph = shell.user_ns["graph"] = shell.magics_manager.registry["AutogradMagics"].last.graph
    assert [record.kind_or_op for record in graph.records] == ["leaf", "mul", "sum"]
    (finding,) = [one for one in graph.findings() if one.kind == "failed"]
    assert finding.remedy is not None
    assert finding.remedy.startswith("loss is a plain number (float)")


def test_the_warning_of_a_gradient_that_is_not_kept_names_the_line_that_made_a_new_tensor() -> None:
    w = nbgrad.tensor(2.0, requires_grad=True)
    w = w - 0.1 * nbgrad.grad(w * w, [w])[0]
    with pytest.warns(UserWarning, match=r"since .*test_beginners.py:\d+, `w = w - 0.1 .*`, made a new tensor of it"):
        assert w.grad is None


def test_an_update_inside_no_grad_that_makes_a_new_tensor_is_to_change_the_old_one() -> None:
    w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph():
        (w * w).sum().backward()
        with nbgrad.no_grad():
            w = w - 0.1 * w.grad
        with pytest.raises(RuntimeError) as raised:
            (w * w).sum().backward()
    assert str(raised.value).endswith(
        "That line makes a new tensor, which needs no gradient. Change the old one, also inside no_grad(): "
        "w -= 0.1 * w.grad"
    )


def test_what_a_script_raises_in_a_recorded_block_has_the_advice_too() -> None:
    w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(AttributeError) as raised, nbgrad.record(view="none"):
        (w * w).sum().item().backward()  # type: ignore[attr-defined]
    (note,) = raised.value.__notes__
    assert note.startswith("(w * w).sum().item() is a plain number (float)")
    assert advice(raised.value) == note


@pytest.mark.parametrize(
    "cell",
    [
        "{}.backward",
        "(1).backward()",
        "[].grad",
        "class A:\n    pass\nA().foo",
        "None + 1",
        "int('x')",
        "len(5)",
        "dict(a=1)['b']",
        "(lambda x: x)(y=1)",
    ],
)
def test_other_errors_stay_as_they_are(shell: InteractiveShell, cell: str) -> None:
    with capture_output():
        result = shell.run_cell(cell)
    notes = getattr(result.error_in_exec, "__notes__", [])
    assert len(notes) <= (cell in ("(1).backward()", "[].grad", "(lambda x: x)(y=1)"))


def test_a_step_that_is_named_and_not_called_is_told(shell: InteractiveShell) -> None:
    with capture_output() as captured:
        shell.run_cell(BEGIN)
        loop = "for _ in range(2):\n    opt.zero_grad\n    w.sum().backward()\n    opt.step"
        cell = f"opt = nbgrad.optim.SGD([w], lr=0.1)\n{loop}"
        result = shell.run_cell(f"%%autograd --view none\n{cell}")
    assert result.success
    assert captured.stderr.splitlines() == [
        "%%autograd: line 4, `opt.zero_grad`, names the function and does not call it: write opt.zero_grad().",
        "%%autograd: line 6, `opt.step`, names the function and does not call it: write opt.step().",
    ]


def test_a_magic_that_is_indented_records_the_cell(shell: InteractiveShell) -> None:
    with capture_output():
        shell.run_cell(BEGIN)
        result = shell.run_cell("  %%autograd --view none\n  loss = w.sum()\n  loss.backward()")
    assert result.success
    assert shell.magics_manager.registry["AutogradMagics"].last.graph.backwards == 1


def test_the_magic_before_load_ext_says_what_is_missing(shell: InteractiveShell) -> None:
    with capture_output() as captured:
        nbgrad.unload_ipython_extension(shell)
        answer(shell)
        shell.run_cell("%%autograd\n1 + 1")
    expected = "%%autograd: nbgrad is imported, but its magics are not loaded. Run %load_ext nbgrad in a cell first"
    assert expected in captured.stderr
    with capture_output():
        nbgrad.load_ipython_extension(shell)
        shell.run_cell(BEGIN)
        assert shell.run_cell("%%autograd --view none\nw.sum().backward()").success
    assert shell.magics_manager.registry["AutogradMagics"].last.graph.backwards == 1
