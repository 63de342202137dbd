"""The checkup of a graph: each check says what it looked at in this program, or why it could not judge."""

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from playwright.sync_api import expect

import nbgrad
from nbgrad.choices import ERROR_KINDS, KINDS
from nbgrad.widgets.describe import describe
from nbgrad.widgets.findings.checks import CHECKS
from nbgrad.widgets.findings.collect import Survey
from nbgrad.widgets.findings.outcome import outcome
from nbgrad.widgets.pipeline import lay_out
from nbgrad.widgets.render.html_page import page
from nbgrad.widgets.render.svg import svg
from nbgrad.widgets.render.text import text
from nbgrad.widgets.render.wire_format import packed
from tests.widgets.collisions import COLLISIONS

TORCH = SimpleNamespace(
    nn=torch.nn, optim=torch.optim, tensor=torch.tensor, ones=torch.ones, no_grad=torch.no_grad, seed=torch.manual_seed
)
OURS = SimpleNamespace(
    nn=nbgrad.nn,
    optim=nbgrad.optim,
    tensor=nbgrad.tensor,
    ones=nbgrad.ones,
    no_grad=nbgrad.no_grad,
    seed=nbgrad.manual_seed,
)


@pytest.fixture(params=["torch", "nbgrad"])
def lib(request: pytest.FixtureRequest) -> Any:
    """The library that a program is written with."""
    return TORCH if request.param == "torch" else OURS


def trained(
    lib: Any,
    *layers: Any,
    steps: int = 1,
    rate: float = 0.05,
    held: Callable[[Any], Any] = lambda net: net.parameters(),
    scale: float = 1.0,
    loss: Callable[..., Any] | None = None,
    **options: Any,
) -> nbgrad.AutogradGraph:
    """The graph of a loop that learns the sum of four numbers."""
    lib.seed(0)
    net = lib.nn.Sequential(*(layers or (lib.nn.Linear(4, 8), lib.nn.Tanh(), lib.nn.Linear(8, 1))))
    optimizer = lib.optim.SGD(held(net), lr=rate)
    rows = torch.linspace(-1, 1, 64).reshape(16, 4) ** 3
    x, y = lib.tensor((rows * scale).tolist()), lib.tensor(rows.sum(1, keepdim=True).tolist())
    with nbgrad.AutogradGraph(**options) as graph:
        for _ in range(steps):
            optimizer.zero_grad()
            (loss or lib.nn.functional.mse_loss)(net(x), y).backward()
            optimizer.step()
    return graph


def looked(graph: nbgrad.AutogradGraph, name: str) -> str:
    """The words on what a check looked at; it has judged and found nothing."""
    check = graph.checkup()[name]
    assert check.state == "sound", check
    return check.looked


def unjudged(graph: nbgrad.AutogradGraph, name: str) -> str:
    """Why a check could not judge."""
    check = graph.checkup()[name]
    assert (check.state, check.looked) == ("not judged", "")
    assert f"{name}: not judged; {check.missing}" in repr(graph.checkup())
    return check.missing


def empty() -> nbgrad.AutogradGraph:
    with nbgrad.AutogradGraph() as graph:
        pass
    return graph


def test_each_kind_of_finding_belongs_to_one_check() -> None:
    kinds = [kind for row in CHECKS for kind in row.kinds]
    assert sorted(kinds) == sorted(KINDS)


def test_the_page_of_the_doctor_has_each_check_and_each_kind() -> None:
    page = (Path(__file__).parents[2] / "docs" / "doctor.md").read_text(encoding="utf-8")
    kinds, *_, checks = re.findall(r"(?:^\|.*\|\n)+", page, re.MULTILINE)[:1] + re.findall(
        r"^\| check \|.*\n(?:^\|.*\n)+", page, re.MULTILINE
    )
    table = [tuple(cell.strip() for cell in row.strip("|").split("|")) for row in checks.splitlines()[2:]]
    assert table == [(row.name, ", ".join(row.kinds), row.needs) for row in CHECKS]
    named = [kind for row in kinds.splitlines()[2:] for kind in row.split("|")[1].strip().split(", ")]
    assert sorted(named) == sorted(KINDS)
    (errors,) = re.findall(r"Errors: (.+?)\.", page)
    assert errors.split(", ") == list(ERROR_KINDS)


def test_an_empty_graph_has_no_sound_check() -> None:
    checkup = empty().checkup()
    assert [one.state for one in checkup] == ["not judged"] * len(CHECKS)
    assert all(one.missing for one in checkup)
    assert checkup.summary == f"0 findings; of {len(CHECKS)} checks 0 are sound, and {len(CHECKS)} could not be judged"


def test_errors(lib: Any) -> None:
    assert looked(trained(lib), "errors").endswith("of the last backward and 1 backward ran")
    assert looked(trained(lib, steps=3), "errors").endswith("and 3 backwards ran")
    with nbgrad.AutogradGraph() as graph:
        result = lib.nn.Linear(2, 1)(lib.ones(1, 2))
    assert result.shape == (1, 1)
    assert looked(graph, "errors") == "1 op ran, without a backward"
    with pytest.raises(RuntimeError), nbgrad.AutogradGraph() as graph:
        lib.nn.Linear(2, 1)(lib.ones(1, 3))
    check = graph.checkup()["errors"]
    assert (check.state, [one.kind for one in check.findings]) == ("found", ["failed"])
    assert unjudged(empty(), "errors") == "nothing was recorded"


def test_finite_numbers(lib: Any) -> None:
    assert looked(trained(lib), "finite numbers").endswith("gradients and 1 loss, of which none hold NaN or Inf")
    assert "and 5 losses" in looked(trained(lib, steps=5), "finite numbers")
    assert unjudged(empty(), "finite numbers") == "no value and no gradient was kept"
    bad = trained(lib, scale=float("nan")).checkup()["finite numbers"]
    assert bad.state == "found"
    assert "none" not in bad.looked


def test_paths_of_gradients(lib: Any) -> None:
    assert looked(trained(lib), "paths of gradients") == "4 parameters got a gradient"
    net = lib.nn.Linear(2, 2)
    with nbgrad.AutogradGraph() as graph:
        (net(lib.ones(1, 2)).detach() + lib.tensor([1.0, 2.0], requires_grad=True)).sum().backward()
    check = graph.checkup()["paths of gradients"]
    assert check.looked == "1 leaf got a gradient; without one: 2 detached"
    assert [one.kind for one in check.findings] == ["unreached"]
    with nbgrad.AutogradGraph() as graph:
        net(lib.ones(1, 2))
    assert unjudged(graph, "paths of gradients") == "no backward ran"


def test_sizes_of_gradients(lib: Any) -> None:
    small, large = (
        looked(trained(lib, loss=by), "sizes of gradients") for by in (None, lambda a, b: (a * 9 - b).sum())
    )
    assert small.startswith("2 modules with a typical gradient from ")
    assert small != large
    leaf = lib.tensor([3.0, 4.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        (leaf * leaf / 2).sum().backward()
    assert looked(graph, "sizes of gradients") == "1 gradient outside of modules, with a norm of 5"
    assert unjudged(empty(), "sizes of gradients") == "no backward ran"
    assert unjudged(trained(lib, lib.nn.Linear(4, 1), watch=False), "activations")


def test_activations(lib: Any) -> None:
    nn = lib.nn
    said = looked(trained(lib, nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)), "activations")
    assert said.startswith("1 relu and 1 tanh: the least of them passes on ")
    missing = "no gradient came to an activation that can be off"
    assert unjudged(trained(lib, nn.Linear(4, 1)), "activations") == missing


def test_optimizers(lib: Any) -> None:
    said = "4 parameters got a gradient, 4 of them held by SGD (3 steps)"
    assert looked(trained(lib, steps=3), "optimizers") == said
    part = trained(lib, held=lambda net: net[0].parameters()).checkup()["optimizers"]
    assert part.looked == "4 parameters got a gradient, 2 of them held by SGD (1 step)"
    assert [one.kind for one in part.findings] == ["no optimizer"]
    with nbgrad.AutogradGraph() as graph:
        lib.nn.Linear(2, 1)(lib.ones(1, 2)).sum().backward()
    assert unjudged(graph, "optimizers") == "no optimizer was called"


def test_an_open_graph_knows_what_its_optimizer_holds(lib: Any) -> None:
    net = lib.nn.Linear(2, 1)
    optimizer = lib.optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        net(lib.ones(1, 2)).sum().backward()
        optimizer.step()
        said = "2 parameters got a gradient, 2 of them held by SGD (1 step)"
        assert looked(graph, "optimizers") == said


def test_registered_modules(lib: Any) -> None:
    assert looked(trained(lib), "registered modules") == "4 modules with 4 parameters that ops used"
    leaf = lib.tensor([3.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        (leaf * 2).sum().backward()
    assert unjudged(graph, "registered modules") == "no module was called"


def test_order_of_calls(lib: Any) -> None:
    assert looked(trained(lib, steps=3), "order of calls") == "zero_grad, backward, step, around backward 3"
    net = lib.nn.Linear(4, 1)
    optimizer = lib.optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph() as graph:
        for _ in range(2):
            net(lib.ones(2, 4)).square().mean().backward()
            lib.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    assert looked(graph, "order of calls") == "zero_grad, backward, clip, step, around backward 2"
    with nbgrad.AutogradGraph() as graph:
        net(lib.ones(2, 4)).sum().backward()
    assert unjudged(graph, "order of calls") == "no optimizer, no scheduler and no clipping was called"


@pytest.mark.parametrize("late", [True, False])
def test_a_call_after_the_step_counts_though_the_graph_rests_by_then(lib: Any, late: bool) -> None:
    net = lib.nn.Linear(4, 1)
    optimizer = lib.optim.SGD(net.parameters(), lr=0.1)
    with nbgrad.AutogradGraph(every=10) as graph:
        for _ in range(25):
            optimizer.zero_grad()
            net(lib.ones(2, 4)).square().mean().backward()
            if not late:
                lib.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            if late:
                lib.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    found = [one.text for one in graph.findings() if one.kind == "early call"]
    assert ["comes after step()" in text for text in found] == [True] * late


def test_steps(lib: Any) -> None:
    said = looked(trained(lib, steps=12), "steps")
    assert said.startswith("10 measured steps by SGD (lr=0.05), which typically changed the parameters by ")
    few = trained(lib, steps=3, rate=0.1).checkup()["steps"]
    assert few.looked.startswith("3 measured steps by SGD (lr=0.1)")
    assert few.missing == "whether they are too small is judged from 8 measured steps on"
    with nbgrad.AutogradGraph() as graph:
        lib.nn.Linear(2, 1)(lib.ones(1, 2)).sum().backward()
    assert unjudged(graph, "steps") == "no step of an optimizer was seen"


def test_progress_of_the_loss(lib: Any) -> None:
    check = trained(lib, steps=25).checkup()["progress of the loss"]
    assert check.state == "sound"
    assert check.looked.startswith("the loss fell from ")
    assert check.looked.endswith(" over 25 backwards")
    assert not check.missing
    few = trained(lib, steps=6).checkup()["progress of the loss"]
    assert few.missing == "whether it falls is judged from 20 backwards on"
    assert unjudged(trained(lib), "progress of the loss") == "one backward only: progress needs at least 20"
    assert unjudged(empty(), "progress of the loss") == "no backward ran"
    rises = trained(lib, lib.nn.Linear(4, 1), steps=6, rate=5.0).checkup()
    assert rises["progress of the loss"].looked.startswith("the loss rose from ")


def test_losses_and_targets(lib: Any) -> None:
    said = looked(trained(lib), "losses and targets")
    assert said.startswith("mse_loss takes values: predictions from ")
    assert " and targets from " in said
    by_hand = looked(trained(lib, loss=lambda a, b: (a - b).square().mean()), "losses and targets")
    assert by_hand.startswith("a difference takes values")
    missing = "no loss compares predictions with targets"
    assert unjudged(trained(lib, loss=lambda a, _: a.sum()), "losses and targets") == missing


def test_input_data(lib: Any) -> None:
    small, large = (trained(lib, steps=6, scale=scale) for scale in (1.0, 3.0))
    assert looked(small, "input data") == "1 input of the first layers, with numbers from -1 to 1"
    assert looked(large, "input data") == "1 input of the first layers, with numbers from -3 to 3"
    huge = trained(lib, scale=1000.0).checkup()["input data"]
    assert huge.state == "found"
    leaf = lib.tensor([3.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        (leaf * 2).sum().backward()
    assert unjudged(graph, "input data") == "no layer takes a constant whose numbers are known"


def test_layers(lib: Any) -> None:
    nn = lib.nn
    net = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1)
    said = looked(trained(lib, *net), "layers")
    assert "2 linear" in said
    assert "1 batch_norm" in said
    assert "dropout" in said
    assert looked(trained(lib), "layers") == "2 linear"
    assert unjudged(empty(), "layers") == "no layer ran"


def test_modes_and_freezing(lib: Any) -> None:
    net = lib.nn.Sequential(lib.nn.Linear(4, 1), lib.nn.Tanh())
    for mode, said in (
        (True, "3 modules in train mode, 0 in eval mode"),
        (False, "0 modules in train mode, 3 in eval mode"),
    ):
        net.train(mode)
        with nbgrad.AutogradGraph() as graph:
            net(lib.ones(1, 4)).sum().backward()
        assert looked(graph, "modes and freezing") == said
    assert graph.checkup()["modes and freezing"].missing == "frozen parameters are looked for where an optimizer steps"
    assert unjudged(empty(), "modes and freezing") == "no module was called, or none exists any more"


def test_memory(lib: Any) -> None:
    assert looked(trained(lib, steps=6), "memory") == "of 4 earlier graphs none still live"
    assert unjudged(trained(lib, steps=2), "memory") == "2 backwards only: it takes 5"
    net, kept = lib.nn.Linear(4, 1), []
    with nbgrad.AutogradGraph() as graph:
        for _ in range(6):
            kept.append(net(lib.ones(2, 4)).square().mean())
            kept[-1].backward()
    check = graph.checkup()["memory"]
    assert (check.state, check.looked) == ("found", "of 4 earlier graphs 4 still live")


def test_numbers_through_numpy(lib: Any) -> None:
    assert looked(trained(lib), "numbers through numpy") == "2 constants that ops used, by the lines that made them"
    leaf = lib.tensor([3.0], requires_grad=True)
    with nbgrad.AutogradGraph() as graph:
        (leaf * 2).sum().backward()
    assert unjudged(graph, "numbers through numpy") == "no op used a constant"
    space: dict[str, Any] = {"leaf": leaf, "other": lib.tensor([2.0])}
    with nbgrad.AutogradGraph() as graph:
        exec("(leaf * other).sum().backward()", space)
    assert unjudged(graph, "numbers through numpy") == "the source of the program is not known"


def test_broadcasts(lib: Any) -> None:
    for shape, many in (((1, 2), 1), ((3, 2), 0)):
        leaf = lib.ones(*shape).requires_grad_()
        with nbgrad.AutogradGraph() as graph:
            (leaf * lib.ones(3, 2)).sum().backward()
        assert looked(graph, "broadcasts") == f"{many} stretched input{'' if many == 1 else 's'} in the last backward"
    assert unjudged(empty(), "broadcasts") == "no backward ran"


def test_a_checkup_is_data_and_text(lib: Any) -> None:
    checkup = trained(lib, steps=25).checkup()
    assert [one.name for one in checkup] == [row.name for row in CHECKS]
    assert [one.kinds for one in checkup] == [row.kinds for row in CHECKS]
    assert checkup.findings == []
    first, *rows = repr(checkup).splitlines()
    assert first == checkup.summary
    assert len(rows) == len(checkup) == len(CHECKS)
    assert all(row.startswith("✓ ") for row, one in zip(rows, checkup, strict=True) if one.state == "sound")
    with pytest.raises(KeyError, match="there is no check 'loss', only errors, finite numbers"):
        checkup["loss"]


def test_the_findings_are_those_of_the_checks(lib: Any) -> None:
    nn = lib.nn
    net = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
    graph = trained(lib, *net, rate=0.0, steps=12, held=lambda net: net[0].parameters(), scale=300)
    checkup = graph.checkup()
    assert len(graph.findings()) > 2
    assert sorted(map(str, checkup.findings)) == sorted(map(str, graph.findings()))
    assert all(one.kind in check.kinds for check in checkup for one in check.findings)
    assert repr(checkup).count("! ") == len([one for one in checkup if one.state == "found"])


def test_a_graph_with_a_fault_of_its_own_is_not_judged(lib: Any) -> None:
    with nbgrad.AutogradGraph() as graph:
        lib.nn.Linear(2, 1)(lib.ones(1, 2)).sum().backward()
        graph.listener.on_fault(RuntimeError("oh"), "an op")
    assert {one.missing for one in graph.checkup()} == {"a part of the graph is missing"}


def test_a_picture_has_the_sound_checks_in_few_bytes(lib: Any) -> None:
    graph = trained(lib, steps=3)
    described, checkup = describe(graph), graph.checkup()
    sound = [f"{one.name}: {one.looked}" for one in checkup if one.state == "sound"]
    assert described["checked"] == [*sound, "not judged: memory; graph.checkup() says why"]
    picture = lay_out(described)
    assert len(packed(picture)) - len(packed(lay_out({**described, "checked": []}))) < 600
    silenced = trained(lib, lib.nn.Linear(4, 8), lib.nn.Linear(8, 1), silence="no activation")
    assert describe(silenced)["checked"][-1] == "1 silenced (no activation)"


def test_a_picture_says_that_nothing_is_wrong(lib: Any) -> None:
    graph = trained(lib, steps=3)
    described = describe(graph)
    judged = sum(one.state == "sound" for one in graph.checkup())
    assert described["outcome"] == f"✓ no findings in {judged} checks"
    assert f"\n✓ no findings in {judged} checks: errors, finite numbers, " in text(described)
    drawn = svg(lay_out(described))
    assert f">no findings in {judged} checks</text>" in drawn
    assert described["checked"][0] in drawn, "told to a pointer that rests on it"


def test_it_says_so_only_where_all_was_looked_at(lib: Any) -> None:
    layers = lib.nn.Linear(4, 8), lib.nn.Linear(8, 1)
    assert describe(trained(lib, *layers))["outcome"] == "", "there is a finding"
    silenced = describe(trained(lib, *layers, silence="no activation"))["outcome"]
    assert silenced == "no findings but for what is silenced: no activation"
    off = describe(trained(lib, silence="vanishing"))["outcome"]
    assert off == "no findings but for what is silenced: vanishing", "although there is none of this kind"
    graph = trained(lib)
    assert outcome(graph, Survey.of(graph, 3)).endswith(" were not looked at")
    with nbgrad.AutogradGraph() as forward:
        value = lib.nn.Linear(2, 1)(lib.ones(1, 2)).sum()
    assert value.requires_grad
    assert describe(forward)["outcome"] == "no findings, but no backward ran"
    with nbgrad.AutogradGraph() as fault:
        lib.nn.Linear(2, 1)(lib.ones(1, 2)).sum().backward()
        fault.listener.on_fault(RuntimeError("oh"), "an op")
    assert describe(fault)["outcome"] == ""
    with nbgrad.AutogradGraph(ask=True) as asked:
        (lib.nn.Linear(2, 1)(lib.ones(3, 2)) ** 2).mean().backward()
    assert describe(asked)["outcome"] == "", "it would tell of gradients that the reader is asked for"


def test_a_loop_that_is_recorded_in_part_is_sound_in_what_was_recorded() -> None:
    net = torch.nn.Linear(4, 1)
    with nbgrad.AutogradGraph(every=2) as graph:
        for _ in range(5):
            net(torch.ones(3, 4)).pow(2).mean().backward()
            net.zero_grad()
    assert graph.recorded < graph.backwards
    assert not graph.findings()
    assert describe(graph)["outcome"] == "no findings, but not every step was recorded"


def test_shapes_without_numbers_are_no_sign_that_all_is_right() -> None:
    net = torch.nn.Linear(4, 1, device="meta")
    with nbgrad.AutogradGraph() as graph:
        net(torch.ones(3, 4, device="meta")).pow(2).mean().backward()
    assert describe(graph)["outcome"] == "no findings, but no numbers were looked at"


@pytest.mark.browser
@pytest.mark.parametrize("size", [(1171, 631), (390, 700)])
def test_the_sign_stands_in_the_header(opened: Any, size: tuple[int, int]) -> None:
    described = describe(trained(TORCH, steps=3))
    tab = opened(page(lay_out(described), "sound"), size=size)
    sign = tab.get_by_test_id("nbgrad-outcome")
    expect(sign).to_be_visible()
    expect(sign).to_have_text("✓ no findings")
    assert sign.get_attribute("title") == "\n".join([described["outcome"], *described["checked"]])
    assert tab.evaluate(COLLISIONS) == []
    wrong = opened(page(lay_out(describe(trained(TORCH, torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)))), "wrong"))
    expect(wrong.get_by_test_id("nbgrad-outcome")).to_have_count(0)
