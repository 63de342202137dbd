"""The tour as a student meets it: opened in JupyterLab, run from top to bottom, looked at and clicked."""

import pytest
from playwright.sync_api import Locator, expect

from tests.lab.harness import ROOT, LabServer, NotebookPage

pytestmark = pytest.mark.browser

TOUR = ROOT / "notebooks" / "00_tour.ipynb"
SAVED = ROOT / "notebooks" / "solutions" / "00_tour.ipynb"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def details_of(view: Locator, title: str) -> str:
    """Click the node with this title and return the details that it opens."""
    view.get_by_test_id("nbgrad-fit").click()
    view.locator(f'[data-testid="nbgrad-node"][aria-label^="{title}, "]').first.click()
    details = view.get_by_test_id("nbgrad-details")
    expect(details).to_be_visible()
    return details.inner_text()


def marks_of(view: Locator) -> list[str | None]:
    """The texts of the marks in a view, which the eye and a screen reader get."""
    return [mark.get_attribute("aria-label") for mark in view.get_by_test_id("nbgrad-mark").all()]


def test_the_tour_runs_and_its_graphs_are_alive(lab: NotebookPage, lab_server: LabServer) -> None:
    lab.open(lab_server.add(TOUR))
    lab.screenshot("tour_opened")
    lab.run_all(timeout=180)

    assert lab.errors() == []
    shown = lab.outputs(WIDGET_VIEW)
    assert len(shown) == 3, "the smallest example, the network, and the graph made by hand"
    for cell, output in shown:
        expect(lab.output(cell, output).get_by_test_id("nbgrad-view")).to_be_visible()
        lab.screenshot(f"tour_cell_{cell:02}")
        # The still picture for readers without a kernel is there, with its PNG, and the live view hides it.
        assert (cell, output - 1) in lab.outputs("image/svg+xml")
        assert (cell, output - 1) in lab.outputs("image/png")
        expect(lab.output(cell, output - 1)).to_be_hidden()

    smallest = lab.output(*shown[0])
    view = smallest.get_by_test_id("nbgrad-view")
    assert marks_of(view) == ["broadcast reduction (2, 3) -> (3,): sum dim 0"]
    bias = details_of(view, "c")
    assert "2\t2\t2" in bias, "the gradient: each number was used in two rows"
    assert "(2, 3) -> (3,): sum dim 0" in bias
    lab.screenshot("tour_details_of_the_bias")
    product = details_of(view, "mul")
    assert "line 8: y = a * b + c" in product
    assert view.get_by_test_id("nbgrad-details").locator("math").count() == 6, (
        "the op, the rule of each input, and its letters"
    )

    network = lab.output(*shown[1]).get_by_test_id("nbgrad-view")
    assert [mark.rpartition("reduction ")[2] for mark in marks_of(network)] == [
        "(32, 48) -> (48,): sum dim 0",
        "(32, 10) -> (10,): sum dim 0",
    ]
    assert "Sequential › 0 (Linear)" in details_of(network, "weight")
    lab.screenshot("tour_details_of_a_weight")


def test_a_saved_tour_shows_its_pictures_before_anything_runs(lab: NotebookPage, lab_server: LabServer) -> None:
    lab.open(lab_server.add(SAVED))
    pictures = lab.outputs("image/svg+xml")
    assert len(pictures) == 3
    for cell, _ in pictures:  # Lab joins printed lines, which moves the outputs after them
        expect(lab.cell(cell).locator(".jp-OutputArea-output").locator("svg, img").first).to_be_visible()
    lab.screenshot("tour_saved")
