"""One JupyterLab for all browser tests; a fresh page for each."""

import re
from collections.abc import Generator, Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.lab.harness import LabServer, NotebookPage, screenshot, watched_page


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Save what the page of a failing test shows: that says more than its traceback."""
    try:
        return (yield)
    except BaseException:
        page = getattr(item, "funcargs", {}).get("page")
        if page is not None:
            screenshot(page, "failed_" + re.sub(r"\W+", "_", item.name))
        raise


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    server = LabServer(tmp_path_factory.mktemp("lab"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that must load nothing from outside this machine."""
    with watched_page(browser) as (page, remote):
        yield page
    assert not remote, f"the page loaded from a network: {remote}"


@pytest.fixture
def lab(page: Page, lab_server: LabServer) -> Iterator[NotebookPage]:
    """JupyterLab in such a page: open a notebook, run it, look at it."""
    notebook = NotebookPage(page, lab_server)
    yield notebook
    notebook.shut_down()
