"""What all tests share."""

import sys

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run browser tests last: they are slow, and playwright keeps an event loop running once it has started."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs a GPU where there is none, and say so."""
    if item.get_closest_marker("cuda"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device, and torch sees none here")


@pytest.fixture(autouse=True)
def _same_numbers_every_run() -> None:
    """Seed torch's generator; a test that never imports torch does not pay for the import."""
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
