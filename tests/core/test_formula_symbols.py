"""The formulas of the op table with other symbols: every input has its symbol, and brackets stand where needed."""

import re

import pytest
from latex2mathml.converter import convert

import nbgrad
from nbgrad.core.dispatch.formula import arguments, formula_with, latex_name, results, symbols
from nbgrad.core.dispatch.table import OPS, Op
from nbgrad.extend import unary

pytestmark = pytest.mark.sampled(6)
every_row = pytest.mark.parametrize("row", OPS.values(), ids=OPS)

SAVED = "the forward computed it from the other inputs, by which the formula says it"
SHAPE = "only its shape counts"

UNMENTIONED = {
    ("adaptive_avg_pool_backward", "x"): SHAPE,
    ("avg_pool_backward", "x"): SHAPE,
    ("batch_norm", "running_mean"): r"it is \mu_c outside of training",
    ("batch_norm", "running_var"): r"it is \sigma_c^2 outside of training",
    ("batch_norm_backward", "invstd"): SAVED,
    ("batch_norm_backward", "mean"): SAVED,
    ("batch_norm_backward", "running_mean"): r"it is \mu_c outside of training",
    ("batch_norm_backward", "running_var"): r"it is \sigma_c^2 outside of training",
    ("cdist_backward", "distances"): SAVED,
    ("copy", "x"): "the result does not depend on it",
    ("cross_entropy", "weight"): "the formula is that of classes of one weight",
    ("cross_entropy_backward", "total_weight"): SAVED,
    ("cross_entropy_backward", "weight"): "the formula is that of classes of one weight",
    ("embedding_bag_backward", "bag_size"): SAVED,
    ("embedding_bag_backward", "input"): "the formula names the gradients alone",
    ("embedding_bag_backward", "max_indices"): SAVED,
    ("embedding_bag_backward", "offset2bag"): SAVED,
    ("embedding_bag_backward", "offsets"): "the formula names the gradients alone",
    ("fill", "input"): "the result does not depend on it",
    ("flash_attention_backward", "attn_mask"): "the formula names the gradients alone",
    ("flash_attention_backward", "logsumexp"): SAVED,
    ("flash_attention_backward", "out"): SAVED,
    ("fractional_max_pool2d_with_indices", "random_samples"): "it chooses the windows",
    ("fractional_max_pool3d_with_indices", "random_samples"): "it chooses the windows",
    ("group_norm_backward", "mean"): SAVED,
    ("group_norm_backward", "rstd"): SAVED,
    ("layer_norm_backward", "mean"): SAVED,
    ("layer_norm_backward", "rstd"): SAVED,
    ("log_sigmoid_backward", "buffer"): SAVED,
    ("max_pool_backward", "x"): SHAPE,
    ("multi_margin_loss", "weight"): "the formula is that of classes of one weight",
    ("multi_margin_loss_backward", "weight"): "the formula is that of classes of one weight",
    ("multilabel_margin_loss_backward", "is_target"): SAVED,
    ("nll_loss_backward", "input"): SHAPE,
    ("nll_loss_backward", "total_weight"): SAVED,
    ("pdist_backward", "distances"): SAVED,
    ("rms_norm_backward", "rstd"): SAVED,
    ("searchsorted", "sorter"): "the formula is that of a sequence in order",
}
"""Inputs that occur in no formula of their row, and why."""


def inputs(row: Op) -> list[str]:
    return [*row.inputs, *([row.listed] if row.listed else [])]


def rules(row: Op) -> list[str | None]:
    return [None, *row.rules]


def formula(row: Op, rule: str | None) -> str:
    return row.formula if rule is None else row.rules[rule].formula


def bare(latex: str) -> str:
    """The LaTeX code without brackets, braces and spaces, and with one kind of accent."""
    latex = latex.replace(r"\overline", r"\bar").replace(r"\widehat", r"\hat")
    return re.sub(r"[(){}\s]", "", latex)


@every_row
def test_every_input_has_a_symbol_that_the_formulas_mention(row: Op) -> None:
    found = symbols(row)
    missing = [name for name in inputs(row) if name not in found and (row.name, name) not in UNMENTIONED]
    assert not missing, f"{row.name}: say in symbols= by which symbol {row.formula} calls {missing}"
    listed = [name for op, name in UNMENTIONED if op == row.name and name in found]
    assert not listed, f"{row.name}: the formulas do mention {listed}"


def test_the_exceptions_are_inputs_of_rows() -> None:
    assert all(name in inputs(OPS[op]) for op, name in UNMENTIONED)


@every_row
def test_two_arguments_have_two_symbols(row: Op) -> None:
    found = symbols(row)
    assert len({*found.values()}) == len(found)
    barred = {f"\\bar{{{found[name]}}}" for name in inputs(row) if name in found}
    clash = [name for name in results(row) if found.get(f"g_{name}") in barred]
    assert not clash, f"{row.name}: a bar over an input's symbol is the gradient of {clash}: give results other symbols"


@every_row
def test_the_symbols_of_results_stand_in_a_formula(row: Op) -> None:
    for name in row.symbols.keys() & {*results(row), *(f"g_{one}" for one in results(row))}:
        text = "".join(formula(row, rule) for rule in rules(row))
        assert row.symbols[name] in text, f"{row.name}: no formula has {row.symbols[name]}, the symbol of {name!r}"


@every_row
def test_the_own_symbols_give_the_formula_itself(row: Op) -> None:
    for rule in rules(row):
        assert formula_with(row, {}, rule=rule) == formula(row, rule)
        assert formula_with(row, symbols(row), rule=rule) == formula(row, rule)


@every_row
def test_other_letters_and_back_give_the_formula_itself(row: Op) -> None:
    found = {name: symbol for name, symbol in symbols(row).items() if "," not in symbol}
    letters = {name: f"\\mathfrak{{{chr(ord('a') + place)}}}" for place, name in enumerate(found)}
    for rule in rules(row):
        latex = formula_with(row, letters, rule=rule)
        for name, letter in letters.items():
            latex = latex.replace(letter, found[name])
        assert bare(latex) == bare(formula(row, rule))
        assert not any(name in latex for name in letters.values())


@every_row
def test_names_with_scripts_give_latex_that_converts(row: Op) -> None:
    found = symbols(row)
    unusual = ["h_{1}", "W^{(2)}", "w4_weight", "x + 1", "2 x", "-3", "0.5", r"\frac{a}{b}", "fc1.bias", "d_relu_2"]
    for first in range(0, len(unusual), 3):
        names = {name: unusual[(first + place) % len(unusual)] for place, name in enumerate(found)}
        for rule in rules(row):
            latex = formula_with(row, names, rule=rule)
            assert convert(latex).startswith("<math"), latex
            assert latex.count("{") == latex.count("}")
            assert not re.search(r"[^\\]_weight|\d \d", latex), latex


@every_row
def test_scripts_and_back_give_the_formula_itself(row: Op) -> None:
    found = {name: symbol for name, symbol in symbols(row).items() if "," not in symbol}
    names = {name: f"h_{{{10 + place}}}" for place, name in enumerate(found)}
    for rule in rules(row):
        latex = bare(formula_with(row, names, rule=rule))
        for name, symbol in found.items():
            latex = latex.replace(bare(names[name]), bare(symbol))
        assert latex == bare(formula(row, rule))


@every_row
def test_an_input_left_out_leaves_latex_that_converts(row: Op) -> None:
    optional = row.inputs[len(row.inputs) - row.optional :] if row.optional else ()
    for rule in rules(row):
        latex = formula_with(row, dict.fromkeys(optional), rule=rule)
        assert convert(latex).startswith("<math")
        assert not re.search(r"(\+|\\odot|\() *(\)|\+|\\odot|$)|\{ *\}", latex), latex


@pytest.mark.parametrize(
    ("op", "rule", "names", "expected"),
    [
        ("div", None, {"a": "x + 1", "b": "h_1"}, r"\frac{x + 1}{h_{1}}"),
        ("div", "b", {"a": "x", "b": "h_1", "out": "z"}, r"-\bar{z} \odot \frac{x}{h_{1}^2}"),
        ("div", "b", {"a": "x", "b": "W^{(2)}", "g_out": "d_z"}, r"-d_{z} \odot \frac{x}{(W^{(2)})^2}"),
        ("mul", None, {"a": "x + 1", "b": "2 y"}, r"(x + 1) \odot 2 y"),
        ("mul", "a", {"b": "loss", "out": "total"}, r"\overline{\mathrm{total}} \odot \mathrm{loss}"),
        ("sub", None, {"a": "x - 1", "b": "y - z"}, "x - 1 - (y - z)"),
        ("sub", None, {"a": "b", "b": "a"}, "b - a"),
        ("neg", None, {"x": "x y"}, "-x y"),
        ("neg", None, {"x": "x + y"}, "-(x + y)"),
        ("log", None, {"x": "2 x"}, r"\ln (2 x)"),
        ("log", None, {"x": r"\frac{x}{2}"}, r"\ln \frac{x}{2}"),
        ("sigmoid", "input", {"out": "s", "g_out": "g"}, r"g \odot s \odot (1 - s)"),
        ("sum", None, {"x": "i"}, r"\sum_i \boldsymbol{i}_i"),
        ("add", None, {"b": "a"}, r"a + \boldsymbol{a}"),
        ("softmax", None, {"input": "h_1"}, r"\frac{e^{(h_{1})_i}}{\sum_j e^{(h_{1})_j}}"),
        ("abs", None, {"input": "a - b"}, "|a - b|"),
        ("transpose", None, {"x": "A B"}, r"(A B)^{\top}"),
        ("linalg_matrix_exp", None, {"A": "h_1"}, "e^{h_{1}}"),
        ("linear", None, {"input": "x", "weight": "fc1.weight"}, r"x\,\mathrm{fc1.weight}^{\top} + b"),
        ("linear", None, {"input": "x", "bias": None}, r"x\,W^{\top}"),
        ("layer_norm", None, {"weight": None, "bias": None, "eps": "1e-5"}, None),
        ("addmm", None, {"alpha": "2", "beta": "-1"}, r"(-1) x + 2 A\,B"),
        ("smooth_l1_loss", "input", {"beta": "0.5"}, None),
        ("huber_loss", None, {"delta": "2"}, None),
        ("tanh_backward", "g", {"y": "t"}, r"\bar{z} \odot (1 - t^2)"),
        ("clamp", None, {"min": None, "max": "6"}, r"\min(\max(x, -\infty), 6)"),
        ("split", None, {"out[0]": "a", "out[1]": "h_1"}, r"a, h_{1} \text{ of } x = (a, h_{1})"),
        ("split", "tensor", {"g_out[0]": "p", "g_out[1]": "q"}, "(p, q)"),
        ("convolution_backward", None, {"input": "h_1", "g": "d"}, r"\overline{h_{1}}, \bar{W}, \bar{b} \text{ of } d"),
    ],
)
def test_names_get_brackets_where_the_formula_needs_them(
    op: str, rule: str | None, names: dict[str, str | None], expected: str | None
) -> None:
    latex = formula_with(OPS[op], names, rule=rule)
    assert expected is None or latex == expected
    assert convert(latex)


def test_a_number_never_joins_another() -> None:
    latex = formula_with(OPS["smooth_l1_loss"], {"beta": "0.5"})
    assert r"\frac{(x_i - t_i)^2}{2 (0.5)}" in latex


def test_a_list_is_written_with_the_names_of_its_members() -> None:
    row = OPS["cat"].of(3)
    assert formula_with(row, {"tensors[0]": "a", "tensors[1]": "h_1", "tensors[2]": "x + y"}) == "(a, h_{1}, x + y)"
    row = OPS["einsum"].of(2)
    assert formula_with(row, {"operands[0]": "a + b", "operands[1]": "h_1"}) == r"\sum (a + b) \, h_{1}"


@pytest.mark.parametrize(
    ("name", "latex"),
    [
        *(
            ("x", "x"),
            ("beta", r"\beta"),
            ("h_1", "h_{1}"),
            ("h1", "h_{1}"),
            ("x_t", "x_{t}"),
            ("beta_2", r"\beta_{2}"),
        ),
        *(("loss", r"\mathrm{loss}"), ("w4_weight", r"\mathrm{w4\_weight}"), ("d_relu_2", r"\mathrm{d\_relu\_2}")),
        *(("_x", r"\mathrm{\_x}"), ("fc1.weight", r"\mathrm{fc1.weight}")),
    ],
)
def test_a_name_of_pythons_is_written_in_latex(name: str, latex: str) -> None:
    assert latex_name(name) == latex
    assert formula_with(OPS["neg"], {"x": name}) == f"-{latex}"
    assert convert(latex)


def test_names_that_are_none_raise() -> None:
    with pytest.raises(
        ValueError, match="names= has 'c', but op 'mul' has no such argument or result: it has a, b, out"
    ):
        formula_with(OPS["mul"], {"c": "x"})
    with pytest.raises(ValueError, match="op 'mul' has no gradient rule for 'c': it has rules for a, b"):
        formula_with(OPS["mul"], {}, rule="c")
    for text, why in (("h_{1", "its braces do not match"), ("}x{", "its braces do not match"), ("", "it is empty")):
        with pytest.raises(ValueError, match=re.escape(f"{text!r}, the name of 'a' of op 'mul'") + f".*{why}"):
            formula_with(OPS["mul"], {"a": text})


def declare(**declared: object) -> Op:
    def symbols_for_a_test(input, other, *, scale=1.0):  # type: ignore[no-untyped-def]  # noqa: A002
        return input * scale + other

    try:
        made: Op = nbgrad.op(formula=r"\mu u + x", samples=unary, method=False, **declared)(symbols_for_a_test)  # type: ignore[arg-type]
        return made
    finally:
        OPS.pop("symbols_for_a_test", None)


def test_a_row_says_its_symbols() -> None:
    row = declare(symbols={"input": "u", "other": "x", "scale": r"\mu"})
    assert formula_with(row, {"input": "a", "other": "b", "scale": "3"}) == "3 a + b"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"inputs": "u"},
            "'inputs', but op 'symbols_for_a_test' has no such argument or result: it has input, other, scale, out",
        ),
        ({"input": "v"}, "the formula \\mu u + x does not have 'v', the symbol of 'input'"),
        ({"scale": "m"}, "does not have 'm', the symbol of 'scale'"),  # the m in \mu is no symbol
        ({"input": "u", "other": "u"}, "symbols= gives 'input' and 'other' one symbol, u"),
        ({"input": ""}, "does not have '', the symbol of 'input'"),
    ],
)
def test_a_symbol_that_the_formula_lacks_raises(said: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        declare(symbols=said)
    assert "symbols_for_a_test" not in OPS


def test_a_function_of_ones_own_has_a_formula_without_symbols() -> None:
    class Doubled(nbgrad.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x * 2

        @staticmethod
        def backward(ctx, g):  # type: ignore[no-untyped-def]
            return g * 2

    node = Doubled.apply(nbgrad.tensor([1.0], requires_grad=True)).grad_fn
    assert formula_with(node.op, {"x": "h_1"}) == r"\text{Doubled}"


def test_arguments_are_inputs_settings_and_results() -> None:
    assert arguments(OPS["cat"]) == ("tensors", "dim", "out")
    assert arguments(OPS["cat"].of(2)) == ("tensors", "dim", "out")
    assert arguments(OPS["sort"]) == ("input", "dim", "descending", "stable", "values", "indices")
