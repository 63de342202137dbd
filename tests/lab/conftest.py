"""One JupyterLab and one browser for all tests of this folder; for each a fresh page that remembers nothing."""

import re
from collections.abc import Generator, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.lab.harness import CHROMIUM_FLAGS, LabServer, NotebookPage, screenshot, watched_page
from tools.check_tools import chromium


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


@pytest.fixture(scope="session")
def context(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A Chromium with a cache on disk: the next page need not compile JupyterLab's scripts again."""
    context = browser.browser_type.launch_persistent_context(
        tmp_path_factory.mktemp("profile"),
        executable_path=chromium(),
        args=CHROMIUM_FLAGS,
        viewport={"width": 1400, "height": 1000},
    )
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that must load nothing from outside this machine."""
    with watched_page(context) as (page, remote):
        yield page
    assert not remote, f"the page loaded from a network: {remote}"


@pytest.fixture
def lab(page: Page, lab_server: LabServer) -> Iterator[NotebookPage]:
    """JupyterLab in such a page: open a notebook, run it, look at it."""
    stored = {"origin": lab_server.url, "storageTypes": "cookies,local_storage,indexeddb,service_workers"}
    page.context.new_cdp_session(page).send("Storage.clearDataForOrigin", stored)
    notebook = NotebookPage(page, lab_server)
    yield notebook
    notebook.shut_down()
