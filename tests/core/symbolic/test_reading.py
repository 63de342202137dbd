"""The texts of a program: print, formulas and sentences."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from latex2mathml.converter import convert

import nbgrad
from nbgrad.core.symbolic.program import Program, trace
from tests.core.symbolic.networks import LOSSES, STEPS, Case, adam, cnn, mlp, transformer


def program_of(made: Callable[[], Case]) -> Program:
    torch.manual_seed(0)
    function, args = made()
    program = trace(function, *args)
    return program.grad() if made in LOSSES else program


@pytest.mark.parametrize("made", [*LOSSES, *STEPS], ids=lambda made: made.__name__)
def test_the_formulas_of_a_network_are_latex(made: Callable[[], Case]) -> None:
    for program in (one := program_of(made), one.optimize()):
        text = program.latex()
        assert text.startswith("\\begin{aligned}\n&\\text{forward} \\\\\n")
        assert "<math" in convert(text)
        assert all("&" in line for line in text.splitlines()[1:-1])


def test_a_gradient_has_the_formula_of_its_rule() -> None:
    lines = program_of(mlp).latex().splitlines()
    assert r"\mathrm{linear} &= x\,w_{0, \mathrm{weight}}^{\top} + w_{0, \mathrm{bias}} \\" in lines
    assert r"\overline{\mathrm{tanh}} &= \overline{\mathrm{linear}_{3}}\,w_{4, \mathrm{weight}} \\" in lines
    assert r"\overline{w_{4, \mathrm{weight}}} &= \overline{\mathrm{linear}_{3}}^{\top}\,\mathrm{tanh} \\" in lines
    assert not any("transpose" in line for line in lines)  # the transpose is part of another formula


def test_a_gradient_of_what_was_stretched_is_a_sum() -> None:
    lines = program_of(mlp).latex().splitlines()
    assert r"\overline{w_{4, \mathrm{bias}}} &= \sum_{\text{dim 0}} \overline{\mathrm{linear}_{3}} \\" in lines

    def loss(x: Any, y: Any, z: Any) -> Any:
        return ((x - y) * z).sum()

    args = [nbgrad.ones(4, 5, requires_grad=True), nbgrad.ones(5, requires_grad=True)]
    text = trace(loss, *args, nbgrad.ones(4, 1, requires_grad=True)).grad().latex()
    assert r"\bar{y} &= \sum_{\text{dim 0}} (-\overline{\mathrm{sub}})" in text
    assert r"\bar{z} &= \sum_{\text{dim 1}} (\overline{\mathrm{mul}} \odot \mathrm{sub})" in text
    text = trace(lambda x, y: (x + y).sum(), nbgrad.ones(2, 3, 4), nbgrad.ones(3, 1, requires_grad=True)).grad().latex()
    assert r"\bar{y} &= \sum_{\text{dim 0, 2}} \overline{\mathrm{add}}" in text


def test_a_value_that_several_ops_read_has_the_sum_of_their_rules() -> None:
    x = nbgrad.ones(3, requires_grad=True)
    text = trace(lambda x: (x.exp() + x.sin() - x).sum(), x).grad().latex()
    assert (
        r"\bar{x} &= \overline{\mathrm{sub}} \odot \mathrm{exp} + \overline{\mathrm{sub}} \odot \cos x + "
        r"(-\overline{\mathrm{sub}})" in text
    )


def test_the_gradients_of_the_parts_of_a_split_are_told_apart() -> None:
    lines = program_of(transformer).latex().splitlines()
    assert r"\overline{\mathrm{split}_{2}} &= \overline{\mathrm{reshape}_{3}} \text{ in the shape of } " in "".join(
        lines
    )


def test_a_value_that_is_changed_has_no_formula_of_a_rule() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        y[0] = 0.0
        return y.sum()

    text = trace(function, nbgrad.ones(3, requires_grad=True)).grad().latex()
    assert r"\mathrm{mul} &\leftarrow \operatorname{setitem}(\mathrm{mul}, 0, 0.0)" in text
    assert r"\overline{\mathrm{mul}} &= \operatorname{expand}(\overline{\mathrm{sum}}, 3)" in text


def test_a_formula_does_not_name_what_a_pass_has_written_over() -> None:
    x = nbgrad.ones(3, requires_grad=True)
    program = trace(lambda x: (x * 2).exp().sum(), x).grad()
    assert r"\overline{\mathrm{mul}} &= \overline{\mathrm{exp}} \odot \mathrm{exp}" in program.latex()
    text = program.optimize().latex()
    assert r"\mathrm{mul} &\leftarrow \operatorname{exp}(\mathrm{mul})" in text
    assert r"\bar{x} &= \mathrm{mul} \odot 2" in text


def test_a_second_backward_has_formulas_of_its_steps() -> None:
    w = nbgrad.ones(3, requires_grad=True)

    def function(x: Any) -> None:
        h = w * x
        h.sin().sum().backward(retain_graph=True)
        h.cos().sum().backward()

    lines = trace(function, nbgrad.ones(3)).latex().splitlines()
    assert r"\overline{\mathrm{mul}} &= \overline{\mathrm{sin}} \odot \mathrm{cos} \\" in lines
    assert r"\overline{\mathrm{mul}}^{(2)} &= \overline{\mathrm{cos}_{2}} \odot \mathrm{neg} \\" in lines
    assert r"\bar{w} &\leftarrow \operatorname{add}(\bar{w}, \bar{w}^{(2)})" in lines


def test_the_second_gradient_has_formulas_of_its_steps() -> None:
    x = nbgrad.ones(3, requires_grad=True)
    text = trace(lambda x: (x**3).sum(), x).grad(order=2).latex()
    assert text.count(r"\bar{x} &=") == 1
    assert r"\bar{x}^{(2)} &=" in text
    assert "<math" in convert(text)


def test_a_program_prints_by_phase_and_module() -> None:
    program = program_of(adam)
    text = str(program)
    assert text.startswith(f"program step(x [5, 1, 8, 8], y [5] int64): 26 lines, {len(program)} steps\ncaptured: w0_w")
    forward, backward, update = (text.index(f"\n{phase}:\n") for phase in ("forward", "backward", "update"))
    assert forward < backward < update
    assert "  2 (ReLU):\n    relu = relu(batch_norm)  # [5, 4, 6, 6]\n" in text[forward:backward]
    assert "  2 (ReLU):\n    d_batch_norm = threshold_backward(d_relu, relu)  # [5, 4, 6, 6]\n" in text[backward:]
    assert "    d_conv2d, d_w1_weight, d_w1_bias = batch_norm_backward(d_batch_norm, conv2d, " in text
    assert text.endswith("  w6_bias.grad = d_w6_bias\nreturn cross_entropy")
    assert repr(program) == f"<Program step: 2 inputs, 27 captured, {len(program)} steps>"


def test_a_long_program_is_cut_with_a_count() -> None:
    def function(x: Any) -> Any:
        for _ in range(200):
            x = x.sin()
        return x

    lines = str(trace(function, nbgrad.ones(2))).splitlines()
    assert "  ... 149 more lines: print(program.source()) has all" in lines
    assert len(lines) < 60


def test_sentences_about_a_gradient() -> None:
    text = program_of(cnn).explain()
    assert "It has 30 steps: 13 forward, 17 backward." in text
    assert "The backward needs 10 values of the forward, 8.5 KiB: conv2d [5, 4, 6, 6], " in text
    assert "1 step draws random numbers (bernoulli_): each run draws anew" in text
    assert "A run changes 3 captured tensors: w1_num_batches_tracked, w1_running_mean, w1_running_var." in text


def test_sentences_about_a_step_say_why_gradients_stay() -> None:
    text = program_of(adam).explain()
    assert "2 update." in text
    assert "A run sets .grad of 6 tensors as the function does (d_w0_weight, " in text
    assert "call zero_grad() after the step as well" in text


def lesson(t1: Any, t2: Any, a: Any) -> Any:
    d = (t1 + t2) * a
    return t1 + t2 + d


def reused(t1: Any, t2: Any, a: Any) -> Any:
    c = t1 + t2
    d = c * a
    return c + d


def test_the_engine_sees_that_a_sum_is_computed_twice() -> None:
    args = [nbgrad.tensor(torch.randn(4), requires_grad=True) for _ in range(3)]
    twice, once = trace(lesson, *args), trace(reused, *args)
    assert (len(twice), len(once)) == (4, 3)
    assert (
        "1 step computes the result of an earlier step again: add_2 = add(t1, t2) is add. optimize() removes it."
        in twice.explain()
    )
    merged = twice.optimize()
    assert [step.name for step in merged.steps] == [step.name for step in once.optimize().steps]
    assert torch.equal(merged(*args).data, once(*args).data)
    note = merged.notes[0]
    assert (note.rule, note.nodes, note.nbytes) == ("common subexpression", 1, 16)
    assert "`return t1 + t2 + d`" in note.place
    assert "Passes have left out 1 step" in merged.explain()
    assert "1 by common subexpression" in merged.explain()
    assert "again" not in once.explain()
