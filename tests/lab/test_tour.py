"""The tour as a student meets it: opened in JupyterLab, run from top to bottom, looked at and clicked."""

import re

import pytest
from playwright.sync_api import Locator, expect

from tests.lab.harness import ROOT, LabServer, NotebookPage

pytestmark = pytest.mark.browser

TOUR = ROOT / "notebooks" / "01_tour.ipynb"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def click_a_node(view: Locator) -> str:
    """Click the first node of a view and return the details that it opens."""
    view.get_by_test_id("nbgrad-node").first.click()
    details = view.get_by_test_id("nbgrad-details")
    expect(details).to_be_visible()
    return details.inner_text()


def test_the_tour_runs_and_its_graphs_are_alive(lab: NotebookPage, lab_server: LabServer) -> None:
    lab.open(lab_server.add(TOUR))
    lab.screenshot("tour_opened")
    lab.run_all(timeout=180)

    assert lab.errors() == []
    shown = lab.outputs(WIDGET_VIEW)
    assert len(shown) >= 2, "the smallest example and the network each draw their graph"

    for cell, output in shown:
        view = lab.output(cell, output).get_by_test_id("nbgrad-view")
        expect(view).to_be_visible()
        assert view.get_by_test_id("nbgrad-node").count() > 2
        assert click_a_node(view).strip()
        lab.screenshot(f"tour_cell_{cell:02}")
        # The still picture for readers without a kernel is there, and the live view hides it.
        assert (cell, output - 1) in lab.outputs("image/svg+xml")
        expect(lab.output(cell, output - 1)).to_be_hidden()

    cell, output = shown[0]
    mark = lab.output(cell, output).get_by_test_id("nbgrad-mark").first
    expect(mark, "the bias was broadcast").to_have_text(re.compile(r"\(.*\) -> \(.*\): sum dim"))
