"""From a recorded graph to its description: every number and word that a reader sees."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbgrad
from nbgrad.core.dispatch.table import OPS
from nbgrad.nn import functional
from nbgrad.widgets.describe import describe
from nbgrad.widgets.description.format import number
from nbgrad.widgets.description.schema import Description, Edge, Node
from nbgrad.widgets.what_if import root_name
from tests.widgets import graphs


def biased() -> nbgrad.AutogradGraph:
    """x @ w + b with a bias that is broadcast over four rows."""
    with nbgrad.AutogradGraph("biased") as graph:
        x = nbgrad.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
        w = nbgrad.tensor([[1.0], [0.0]], requires_grad=True)
        b = nbgrad.tensor([0.5], requires_grad=True)
        with nbgrad.scope("layer"):
            y = x @ w + b
        loss = (y * 2).sum()
        loss.backward()
    return graph


def test_the_name_of_a_result_stands_alone_too() -> None:
    described = describe(biased())
    assert {node["label"][0]: node["variable"] for node in described["nodes"]} == {
        "x": "", "w": "", "b": "", "matmul": "", "y = add": "y", "mul": "", "loss = sum": "loss",
    }  # fmt: skip
    assert root_name(described) == "loss"


def node(described: Description, title: str) -> Node:
    (found,) = [node for node in described["nodes"] if node["label"][0] == title]
    return found


def detail(node: Node, term: str) -> str:
    (found,) = [row["text"] for row in node["details"] if row["term"] == term]
    return found


def edge(described: Description, source: str, target: str) -> Edge:
    ids = node(described, source)["id"], node(described, target)["id"]
    (found,) = [edge for edge in described["edges"] if (edge["source"], edge["target"]) == ids]
    return found


def test_it_is_plain_data() -> None:
    described = describe(biased())
    assert json.loads(json.dumps(described, allow_nan=False)) == described


def test_nodes_come_in_record_order_with_kinds_and_names() -> None:
    described = describe(biased())
    assert [(node["label"][0], node["kind"]) for node in described["nodes"]] == [
        ("x", "input"),
        ("w", "leaf"),
        ("matmul", "op"),
        ("b", "leaf"),
        ("y = add", "op"),
        ("mul", "op"),
        ("loss = sum", "op"),
    ]
    assert [node["id"] for node in described["nodes"]] == [f"n{i}" for i in range(7)]
    assert [node["root"] for node in described["nodes"]] == [False] * 6 + [True]
    assert described["summary"] == "4 ops, 3 tensors, 1 broadcast reduction, all float32; backward from loss"
    assert described["notes"] == []


def test_shapes_dtypes_values_and_gradients_are_the_real_ones() -> None:
    described = describe(biased())
    assert node(described, "w")["label"] == ["w", "(2, 1)", "value [[1], [0]]"]
    assert node(described, "w")["rule"] == "∇ [[32], [40]]"  # 2 * (16, 20)
    assert node(described, "b")["rule"] == "∇ 8"
    assert node(described, "loss = sum")["label"] == ["loss = sum", "()", "value 36"]
    gradient, value = node(described, "w")["gradient"], node(described, "y = add")["value"]
    assert gradient is not None
    assert value is not None
    assert gradient["cells"] == ["32", "40"]
    assert gradient["facts"] == "norm 51.22, mean 36\nmin 32, max 40"
    assert value["cells"] == ["1.5", "3.5", "5.5", "7.5"]
    assert node(described, "x")["gradient"] is None
    assert node(described, "x")["rule"] is None


def test_what_an_op_saved_is_what_its_node_holds() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
        w = nbgrad.tensor([[1.0], [0.5]], requires_grad=True)
        results = [x @ w, w.tanh(), w + 1, w.exp() * w, w.sum()]
        held = {}
        for result in results:
            record, saved = graph.record(result), result.grad_fn.saved
            held[record.id] = sum(one.nbytes for one in saved if isinstance(one, torch.Tensor) and one is not w.data)
        told = {f"n{at}": held[record.id] for at, record in enumerate(graph.records) if record.id in held}
        described = describe(graph)
    assert sorted(told.values()) == [0, 0, 8, 8, 16]
    for node in described["nodes"]:
        if node["id"] in told:
            text = detail(node, "saved for the backward")
            assert text.partition(";")[0].endswith(f"{told[node['id']]} B") or (
                told[node["id"]] == 0 and text == "nothing"
            ), text


def test_the_bytes_of_what_only_the_kernel_makes_are_known() -> None:
    with nbgrad.AutogradGraph() as graph:
        functional.max_pool2d(nbgrad.ones(1, 1, 4, 4, requires_grad=True), 2).sum().backward()
    (pool,) = [node for node in describe(graph)["nodes"] if "max_pool2d" in node["label"][0]]
    assert detail(pool, "saved for the backward") == "indices: 32 B"


def test_torchs_dropout_keeps_its_mask() -> None:
    x = torch.ones(128, 128, requires_grad=True)
    with nbgrad.record(view="none") as graph:
        torch.nn.functional.dropout(x * 1, 0.5).sum().backward()
    told = detail(node(describe(graph), "dropout"), "saved for the backward")
    assert told.endswith(("16 KiB", "64 KiB"))  # torch keeps the mask as bools, or already divided


def test_what_an_op_keeps_twice_is_counted_once() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x + 1
        (y * y * x).sum().backward()
    first, second = [one for one in describe(graph)["nodes"] if one["op"] == "mul"]
    assert detail(first, "saved for the backward") == "b, a: 12 B"
    assert detail(second, "saved for the backward") == "a: 12 B; b: no bytes, because a leaf exists anyway"


def test_what_an_op_that_raised_was_given_says_what_it_is() -> None:
    assert detail(node(graphs.stopped(), "w"), "shape and dtype") == "(2, 1) float32"


@pytest.mark.parametrize("name", ["mse_loss", "cross_entropy", "binary_cross_entropy_with_logits"])
def test_a_loss_is_said_to_be_one(name: str) -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([[0.5, 0.25]], requires_grad=True)
        getattr(functional, name)(x, nbgrad.tensor([[1.0, 0.0]])).backward()
    assert detail(node(describe(graph), name), "what") == "a loss"


def test_what_was_broadcast_is_called_as_the_user_calls_it() -> None:
    with nbgrad.AutogradGraph() as graph:
        a, b = nbgrad.tensor([[1.0], [2.0]], requires_grad=True), nbgrad.tensor([3.0, 4.0, 5.0], requires_grad=True)
        y = b - a
        z = y * a.exp()
        z.sum().backward()
    described = describe(graph)
    words = [one["reduction"]["words"] for one in described["edges"] if one["reduction"] is not None]
    called = [text.removeprefix("In the forward, ").partition(" of shape")[0] for text in words]
    assert called == ["b, the a of sub,", "a, the b of sub,", "the result of exp, the b of mul,"]


@pytest.mark.parametrize(
    ("pick", "told"),
    [
        (lambda x: x[1:], "1:"),
        (lambda x: x[:, 1:2], ":, 1:2"),
        (lambda x: x[..., None, ::2], "..., None, ::2"),
        (lambda x: x[0], "0"),
    ],
)
def test_an_index_is_told_as_it_was_written(pick: Callable[..., Any], told: str) -> None:
    with nbgrad.AutogradGraph() as graph:
        pick(nbgrad.ones(2, 4, requires_grad=True)).sum().backward()
    picked = node(describe(graph), "getitem")
    assert detail(picked, "index") == told
    assert detail(picked, "saved for the backward") == "nothing"


def test_complex_numbers_are_written_out_as_others_are() -> None:
    with nbgrad.AutogradGraph() as graph:
        z = nbgrad.tensor(1.5 + 2j, requires_grad=True)
        w = nbgrad.tensor([1 + 1 / 3 * 1j, complex(0, -2)], requires_grad=True)
        (z * w).real.sum().backward()
    described = describe(graph)
    assert node(described, "z")["label"][2] == "value 1.5+2j"
    assert node(described, "z")["rule"] == "∇ 1+1.667j"
    value, gradient = node(described, "w")["value"], node(described, "w")["gradient"]
    assert value is not None
    assert gradient is not None
    assert value["cells"] == ["1+0.3333j", "0-2j"]
    assert gradient["cells"] == ["1.5-2j", "1.5-2j"]
    assert len(value["levels"]) == 2
    assert edge(described, "w", "mul")["gradient"] == "(2,), [1.5-2j, 1.5-2j]"
    reduction = edge(described, "z", "mul")["reduction"]
    assert reduction is not None
    assert reduction["sums"] == ["grad = (1-0.3333j) + (0+2j) = 1+1.667j"]


@pytest.mark.parametrize(
    "stretch", [lambda b: b.expand(2, 3), lambda b: nbgrad.broadcast_to(b, (2, 3)), lambda b: b.expand(2, -1)]
)
def test_a_stretch_that_was_asked_for_is_undone_in_sight_too(stretch: Callable[..., Any]) -> None:
    with nbgrad.AutogradGraph() as graph:
        b = nbgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
        (stretch(b) * nbgrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
    described = describe(graph)
    reduction = edge(described, "b", "expand")["reduction"]
    assert reduction is not None
    assert reduction["text"] == "(2, 3) -> (3,): sum dim 0"
    assert reduction["sums"] == ["grad[0] = 1 + 4 = 5", "grad[1] = 2 + 5 = 7", "grad[2] = 3 + 6 = 9"]
    assert "1 broadcast reduction, all float32;" in described["summary"]


def test_the_reduction_is_a_fact_of_its_edge() -> None:
    described = describe(biased())
    reduction = edge(described, "b", "y = add")["reduction"]
    assert reduction is not None
    assert (reduction["text"], reduction["dims"], reduction["terms"]) == ("(4, 1) -> (1,): sum dim 0", [0], 4)
    assert reduction["sums"] == ["grad[0] = 2 + 2 + 2 + 2 = 8"]
    assert "adds 4 numbers for each one that is kept" in reduction["words"]
    assert reduction["words"].startswith("In the forward, b of shape (1,) was repeated along dim 0")
    assert reduction["incoming"] is not None
    assert reduction["incoming"]["cells"] == ["2", "2", "2", "2"]
    assert reduction["reduced"] is not None
    assert reduction["reduced"]["cells"] == ["8"]
    assert reduction["warning"] is None
    assert edge(described, "matmul", "y = add")["reduction"] is None
    assert edge(described, "b", "y = add")["gradient"] == "(1,), 8"
    assert edge(described, "b", "y = add")["back"] == "(1,)"
    assert edge(described, "x", "matmul")["gradient"] is None
    assert edge(described, "x", "matmul")["label"] == "(4, 2)"


def test_scopes_are_boxes_around_their_ops() -> None:
    described = describe(biased())
    assert described["scopes"] == [{**graphs.frame("s0", "layer", folds="2 ops"), "bytes": 32}]  # x, which matmul keeps
    inside = [node["label"][0] for node in described["nodes"] if node["scope"] == "s0"]
    assert inside == ["matmul", "y = add"]


def test_nested_scopes_come_outer_first() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor(1.0, requires_grad=True)
        with nbgrad.scope("outer"), nbgrad.scope("inner"):
            y = x * 2
        y.backward()
    assert describe(graph)["scopes"] == [
        graphs.frame("s0", "outer", folds="1 op"),
        graphs.frame("s1", "inner", "s0", "1 op"),
    ]


def test_numbers_and_settings_are_details() -> None:
    described = describe(biased())
    assert detail(node(described, "mul"), "b") == "the number 2"
    assert detail(node(described, "loss = sum"), "keepdim") == "False"
    assert re.fullmatch(r"line \d+: y = x @ w \+ b", detail(node(described, "y = add"), "source"))


def test_every_formula_of_the_table_is_typeset() -> None:
    for row in OPS.values():
        formulas = [row.formula, *(rule.formula for rule in row.rules.values())]
        assert all(formulas), row.name
    described = describe(biased())
    formulas = described["ops"][node(described, "mul")["op"] or ""]["formulas"]
    assert [formula["of"] for formula in formulas] == ["", "a", "b"]
    assert all(formula["mathml"].startswith("<math") for formula in formulas)


def test_a_tensor_used_twice_is_one_node_with_two_edges() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
    described = describe(graph)
    assert [(edge["source"], edge["input"]) for edge in described["edges"]] == [("n0", "a"), ("n0", "b"), ("n1", "x")]


def test_what_ran_before_the_graph_is_outside() -> None:
    x = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    h = x * 3
    with nbgrad.AutogradGraph() as graph:
        y = h + 1
    described = describe(graph)
    assert described["nodes"][0]["kind"] == "outside"
    assert described["nodes"][0]["label"][0] == "h = mul"
    assert y.requires_grad


def test_notes_say_what_is_missing() -> None:
    with nbgrad.AutogradGraph() as nothing:
        nbgrad.tensor(1.0) * 2
    assert "requires_grad=True" in describe(nothing)["notes"][0]
    with nbgrad.AutogradGraph() as no_op:
        nbgrad.tensor(1.0, requires_grad=True).backward()
    assert describe(no_op)["notes"][0].startswith("The backward began at a leaf, so no other tensor got a")
    with nbgrad.AutogradGraph() as of_numbers:
        nbgrad.tensor((nbgrad.tensor(1.0, requires_grad=True) * 2).item(), requires_grad=True).backward()
    assert describe(of_numbers)["notes"] == describe(no_op)["notes"]
    with nbgrad.AutogradGraph() as of_a_number:
        (nbgrad.tensor(1.0, requires_grad=True) * 2).item()
    assert describe(of_a_number)["summary"] == ("1 op, 1 tensor, 0 broadcast reductions, all float32; forward only"), (
        "it shows what led to the number"
    )
    with nbgrad.AutogradGraph() as gone:
        nbgrad.tensor(1.0, requires_grad=True) * 2
    assert "their results no longer exist" in describe(gone)["notes"][0]
    earlier = nbgrad.tensor(1.0, requires_grad=True) * 2
    with nbgrad.AutogradGraph() as backward_only:
        earlier.backward()
    assert describe(backward_only)["nodes"][1]["label"][0] == "earlier = mul"
    for record in backward_only.records:
        backward_only.delete_node(record)
    assert describe(backward_only)["notes"] == ["A backward ran here, but no op of it is left in this graph."]
    leaf = nbgrad.tensor(1.0, requires_grad=True)
    with nbgrad.AutogradGraph() as no_history, nbgrad.no_grad():
        leaf * 2
    assert "inside no_grad() or their results no longer exist" in describe(no_history)["notes"][0]
    with nbgrad.AutogradGraph() as forward_only:
        y = nbgrad.tensor(1.0, requires_grad=True) * 2
    assert describe(forward_only)["notes"] == []
    assert describe(forward_only)["nodes"][1]["label"][0] == "y = mul"
    with nbgrad.AutogradGraph() as thrice:
        x = nbgrad.tensor(1.0, requires_grad=True)
        for _ in range(3):
            (x * 2).backward()
    assert describe(thrice)["notes"] == []
    summary = "1 op, 1 tensor, 0 broadcast reductions, all float32; backward from mul, the last of 3"
    assert describe(thrice)["summary"] == summary
    assert y.item() == 2


def test_nan_and_inf_are_counted_and_written_as_words() -> None:
    with nbgrad.AutogradGraph() as graph:
        x = nbgrad.tensor([0.0, -1.0, 4.0], requires_grad=True)
        nbgrad.sqrt(x).sum().backward()
    described = describe(graph)
    json.dumps(described, allow_nan=False)
    gradient = node(described, "x")["gradient"]
    assert gradient is not None
    assert gradient["facts"].endswith("1 NaN\n1 Inf")
    assert sorted(gradient["levels"]) == ["Y", "i", "n"]
    assert node(described, "x")["rule"] == "∇ [inf, nan, 0.25]"


def test_hostile_names_stay_what_they_are() -> None:
    hostile = '<script>alert("1")</script>\n' + "x" * 10_000
    with nbgrad.AutogradGraph(hostile) as graph:
        x = nbgrad.tensor(1.0, requires_grad=True)
        x.name = hostile
        with nbgrad.scope(hostile):
            (x * 2).backward()
    described = describe(graph)
    assert described["name"] == hostile
    assert described["scopes"][0]["label"] == hostile
    assert described["nodes"][0]["label"][0] == hostile


def test_text_does_not_change_between_two_graphs_of_the_same_program() -> None:
    assert describe(biased()) == describe(biased())


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (1 / 3, "0.3333"), (123456.0, "1.235e+05"), (float("nan"), "nan"), (-2.0, "-2")]
)
def test_numbers_have_four_significant_digits(value: float, text: str) -> None:
    assert number(value) == text


def test_statistics_of_complex_numbers_say_that_they_are_those_of_magnitudes() -> None:
    with nbgrad.AutogradGraph() as graph:
        few = nbgrad.tensor([3 + 4j, 0j], requires_grad=True)
        many = nbgrad.tensor(torch.full((2000,), 3 + 4j), requires_grad=True)
        (few.abs().sum() + many.abs().sum()).backward()
    found = {node["label"][0]: node["value"] for node in describe(graph)["nodes"]}
    assert found["few"] is not None
    assert found["few"]["facts"] == "norm 5\nmagnitudes: mean 2.5, min 0, max 5"
    assert found["many"] is not None
    assert found["many"]["bars"]
    assert (found["many"]["low"], found["many"]["high"]) == ("magnitude 5", "5")


def test_a_histogram_says_of_how_many_numbers_it_is() -> None:
    with nbgrad.AutogradGraph() as graph:
        few = nbgrad.tensor(torch.arange(65_536.0), requires_grad=True)
        many = nbgrad.tensor(torch.arange(1_000_000.0), requires_grad=True)
        (few.sum() + many.sum()).backward()
    found = {node["label"][0]: node["value"] for node in describe(graph)["nodes"]}
    assert found["few"] is not None
    assert found["few"]["bars"] == [100] * 20
    assert found["few"]["sample"] == ""
    assert found["many"] is not None
    assert min(found["many"]["bars"]) > 98
    assert found["many"]["sample"] == "16,384 of 1,000,000"
    assert found["many"]["facts"].splitlines()[1] == "min 0, max 1e+06"


def test_one_number_keeps_its_sign_and_a_few_are_written_out() -> None:
    with nbgrad.AutogradGraph() as graph:
        x, v = nbgrad.tensor(3.0, requires_grad=True), nbgrad.tensor([1.0, -2.0], requires_grad=True)
        loss = 2 * x - 5 * x - (v * v).sum()
        loss.backward()
    described = describe(graph)
    assert node(described, "x")["rule"] == "∇ -3"
    assert node(described, "v")["rule"] == "∇ [-2, 4]"
    assert {edge["gradient"] for edge in described["edges"] if edge["source"] == node(described, "v")["id"]} == {
        "(2,), [-1, 2]"
    }
    assert any(
        given["sum"] == "path 2 of 2: all have arrived and are added; the sum is -3" for given in given_in(described)
    )


def given_in(described: Description) -> list[Any]:
    return [given for step in described["steps"] or [] for given in step["given"]]


def told(described: Description, name: str, term: str) -> list[str]:
    return [row["text"] for row in node(described, name)["details"] if row["term"] == term]


def test_a_leaf_that_a_step_has_changed_says_so() -> None:
    changes: dict[str, Callable[[Any], Any]] = {
        "SGD.step()": lambda w: nbgrad.optim.SGD([w], lr=0.1).step(),
        "sub_": lambda w: nbgrad.no_grad()(lambda: w.sub_(0.4))(),
        "t.data = ...": lambda w: setattr(w, "data", w.data.sub_(0.4)),
    }
    for what, change in changes.items():
        with nbgrad.AutogradGraph() as graph:
            w = nbgrad.tensor(3.0, requires_grad=True)
            loss = (w - 1) ** 2
            loss.backward()
            before = describe(graph)
            change(w)
            after = describe(graph)
        for described in (after, describe(graph)):
            assert node(described, "w")["label"][2:] == [f"value 2.6 after {what}"]
            (text,) = told(described, "w", "values")
            assert text.startswith(f"as they are after {what}, which came later, at ")
        assert node(before, "w")["label"][2:] == ["value 3"]
        with nbgrad.AutogradGraph() as graph:
            (w * 2).backward()  # the step came before this one
        assert node(describe(graph), "w")["label"][2:] == ["value 2.6"]


def test_a_leaf_that_torchs_code_has_changed_by_hand_says_so() -> None:
    with nbgrad.AutogradGraph() as graph:
        w = torch.tensor(3.0, requires_grad=True)
        ((w - 1) ** 2).backward()
        with torch.no_grad():
            w -= 0.4
    described = describe(graph)
    assert node(described, "w")["label"][2:] == ["value 2.6 after a change in place"]
    assert told(described, "w", "values") == ["as they are after a change in place, which came later"]


def test_a_grad_that_holds_several_backwards_says_so() -> None:
    with nbgrad.AutogradGraph() as graph:
        w, v = nbgrad.tensor([1.0, 2.0], requires_grad=True), nbgrad.tensor(1.0, requires_grad=True)
        for _ in range(4):
            v.grad = None
            loss = (w * 3).sum() * v
            loss.backward()
    described = describe(graph)
    assert node(described, "w")["rule"] == "∇ norm 4.243, .grad norm 16.97"
    assert node(described, "v")["rule"] == "∇ 9"
    (text,) = told(described, "w", ".grad")
    assert text.startswith("[12, 12]: not the gradient of this backward")
    assert told(described, "v", ".grad") == []


def test_gradients_that_flowed_and_were_not_kept_are_not_called_none() -> None:
    w, x = (nbgrad.tensor(torch.ones(2), requires_grad=grad) for grad in (True, False))
    with nbgrad.AutogradGraph(watch=False) as graph:
        product = w * x
        before = [edge["gradient"] for edge in describe(graph)["edges"]]
        product.sum().backward()
    described = describe(graph)
    names = {node["id"]: node["label"][0] for node in described["nodes"]}
    told = {(names[edge["source"]], names[edge["target"]]): edge["gradient"] for edge in described["edges"]}
    assert before == [None] * 2
    product = "product = mul"
    assert told == {("w", product): "not kept", ("x", product): None, (product, "sum"): "not kept"}


@pytest.mark.filterwarnings("error")
def test_a_constant_that_became_a_result_is_not_asked_for_its_grad() -> None:
    w = nbgrad.tensor([1.0, 2.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        buffer = nbgrad.zeros(2)
        before = buffer + w
        buffer[0] = w[1]
        (buffer * w + before).sum().backward()
    assert graph.since == {}


def test_a_negative_zero_is_written_as_a_zero() -> None:
    """0 times a negative factor is -0. Its sign would say something wrong about the gradient."""
    with nbgrad.AutogradGraph() as graph:
        a = nbgrad.tensor(2.0, requires_grad=True)
        many = nbgrad.tensor([-1.0, 2.0, -3.0, 4.0, -5.0], requires_grad=True)
        wide = nbgrad.tensor([complex(1, -2)], requires_grad=True)
        f = nbgrad.tensor(0.0)
        ((a * -3.0 + (many * -1).sum() + (wide * -1).sum().real) * f).backward()
    assert str(a.grad.item()) == "-0.0"
    text = json.dumps(describe(graph), ensure_ascii=False)
    assert "∇ 0" in text
    assert not re.search(r"-0(?![.\d])", text)
