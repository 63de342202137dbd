"""Names that a box has no room for are cut in the middle, and no two boxes read the same."""

import pytest

from nbgrad.widgets.description.schema import Node, plain_node
from nbgrad.widgets.description.short_names import NAME, SHORT, named
from nbgrad.widgets.layout.card import Card


def cut(*names: str, variables: tuple[str, ...] = ()) -> list[list[str]]:
    """The short names of boxes of these names, which have these variables."""
    nodes: list[Node] = [
        {**plain_node(f"n{at}", "op", [name], []), "variable": variables[at] if variables else ""}
        for at, name in enumerate(names)
    ]
    made = named(nodes)
    for node in made:
        short, name = Card.of(node, "short").head, Card.of(node, "name").head
        assert [short, name] == (node["cuts"] or [node["label"][0]] * 2)
    return [node["cuts"] for node in made]


def test_a_name_keeps_both_ends() -> None:
    assert cut("scaled_dot_product_attention") == [["scaled_dot_p…t_attention", "scaled_d…tention"]]
    assert cut("layers.3.self_attn.in_proj_weight") == [["layers.3.sel…proj_weight", "layers.3…_weight"]]


def test_a_name_with_room_is_not_cut() -> None:
    assert cut("linear", "relu") == [[], []]
    assert cut("binary_cross_entropy") == [["binary_cross_entropy", "binary_c…entropy"]]


def test_the_class_is_left_out_before_the_number_of_the_call() -> None:
    one, other = (f"encoder, call {at} of 2 (Sequential)" for at in (1, 2))
    assert cut(one, other) == [
        ["encoder, call 1 of 2", "encoder,… 1 of 2"],
        ["encoder, call 2 of 2", "encoder,… 2 of 2"],
    ]
    assert cut("layers.3 (Block)", "layers.4.attention (Attention)")[1] == ["layers.4.attention", "layers.4…tention"]


def test_a_variable_is_kept_rather_than_its_op() -> None:
    names = ("attn = scaled_dot_product_attention", "attention_output = scaled_dot_product_attention")
    short, long = cut(*names, variables=("attn", "attention_output"))
    assert short == ["attn = scaled_d…ttention", "attn = scal…tion"]
    assert long == ["attention_output", "attention_output"]


@pytest.mark.parametrize(
    "names",
    [
        ("layers.3.self_attn.in_proj_weight", "layers.3.self_attn.out_proj_weight"),
        ("layers.10.attention.weight", "layers.11.attention.weight", "layers.12.attention.weight"),
        tuple(f"a_very_long_name_with_{at}_in_its_middle_of_the_text" for at in range(30)),
        ("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward"),
    ],
)
def test_no_two_boxes_read_the_same(names: tuple[str, ...]) -> None:
    for which, most in ((0, SHORT), (1, NAME)):
        found = [one[which] for one in cut(*names)]
        assert len(set(found)) == len(names)
        assert all(len(one) < len(name) + 1 for one, name in zip(found, names, strict=True))
        assert min(map(len, found)) >= most


def test_where_names_are_too_wide_they_are_shorter_still() -> None:
    names = ("attention_scores", "attention_weights", "linear", "relu")
    nodes: list[Node] = [{**plain_node(name, "op", [name], []), "about": "· body.0"} for name in names]
    assert [node["cuts"] for node in named(nodes)] == [[], ["attention_weights", "attentio…weights"], [], []]
    narrow = named(nodes, 9)
    assert [node["cuts"][1] for node in narrow] == ["atte…ores", "atte…ghts", "linear", "relu"]
    assert [Card.of(node, "name").tail for node in narrow] == [""] * 4, "a tail would be wider than the name may be"
    assert [Card.of(node, "short").tail for node in narrow] == [Card.of(node, "short").tail for node in nodes]
    assert named(nodes[2:], 15) == nodes[2:], "a name with room for its tail keeps it"


def test_equal_names_are_cut_alike() -> None:
    one, other = cut("scaled_dot_product_attention", "scaled_dot_product_attention")
    assert one == other
