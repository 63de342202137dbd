"""The picture of a program in a browser: the gradient beside the forward, and the rewrites one after the other."""

from pathlib import Path

import pytest
import torch
from playwright.sync_api import Browser, expect

import nbgrad
from nbgrad.symbolic import Program
from tests.core.symbolic import networks

pytestmark = pytest.mark.browser


@pytest.fixture
def program() -> Program:
    torch.manual_seed(0)
    function, args = networks.mlp()
    return nbgrad.trace(function, *args).grad()


def test_a_reader_goes_through_the_rewrites(program: Program, browser: Browser, tmp_path: Path) -> None:
    shorter = program.optimize()
    shorter.draw(tmp_path / "program.html", before=program)
    tab = browser.new_page(viewport={"width": 1400, "height": 900})
    tab.goto((tmp_path / "program.html").as_uri())
    tab.get_by_test_id("nbgrad-steps").click()
    details = tab.get_by_test_id("nbgrad-details")
    for place, note in enumerate(shorter.notes, 1):
        expect(tab.get_by_text(f"Rewrite {place} of {len(shorter.notes)}: {note.rule}").first).to_be_visible()
        expect(details.locator("h3")).to_have_text(note.rule)
        terms, texts = (details.locator(one).all_text_contents() for one in ("dt", "dd"))
        told = dict(zip(terms, texts, strict=True))
        assert told["before"] == note.before
        assert told["after"] == (note.after or "nothing")
        assert told["line"] == note.place
        assert told["saves"].startswith(f"{note.nodes} step")
        current = tab.locator(".nbg-node.nbg-current")
        assert current.count() == 2, "the step before it, and the step after it"
        tab.get_by_test_id("nbgrad-next").click()
    tab.close()


def test_the_gradient_stands_beside_the_forward(program: Program, browser: Browser, tmp_path: Path) -> None:
    program.draw(tmp_path / "program.html")
    tab = browser.new_page(viewport={"width": 1400, "height": 900})
    tab.goto((tmp_path / "program.html").as_uri())

    def centre(text: str) -> tuple[float, float]:
        box = tab.locator(f".nbg-node[aria-label^='{text}']").first.bounding_box()
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    apart = [abs(one - other) for one, other in zip(centre("tanh ·"), centre("cross_entropy,"), strict=True)]
    along = apart.index(max(apart))  # 0 if the forward runs from left to right, 1 if it runs from top to bottom

    def middle(text: str) -> float:
        return centre(text)[along]

    assert middle("cross_entropy_backward") == pytest.approx(middle("cross_entropy,"), abs=3)
    assert middle("tanh_backward") == pytest.approx(middle("tanh ·"), abs=3)
    assert middle("threshold_backward") == pytest.approx(middle("relu ·"), abs=3)
    assert middle("tanh_backward") < middle("cross_entropy_backward")
    expect(tab.locator(".nbg-edge.nbg-none")).to_have_count(2)  # the edges to the inputs, which need no gradient
    expect(tab.get_by_test_id("nbgrad-steps")).to_be_hidden()
    expect(tab.get_by_test_id("nbgrad-both")).to_be_hidden()  # no gradient runs along these edges
    tab.close()
